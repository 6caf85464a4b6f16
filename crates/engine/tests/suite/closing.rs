//! `finally` for each outcome, and over a restart before and during it.

use std::time::Duration;

use engine::Engine;
use model::execution::ExecutionId;

use crate::common::{
    Peer, PeerRequest, Project, call, crash, end, pass, soon, start_with, steps_of, stop, until_suspended,
};
use crate::hooks::{post, tokens};

const LAST: &str = r#"last={"done":true}"#;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A cause of the end of an execution whose main step is in flight.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Success,
    Failure,
    Cancellation,
    Timeout,
}

impl Cause {
    const ALL: [Self; 4] = [Self::Success, Self::Failure, Self::Cancellation, Self::Timeout];

    /// Returns a text that the outcome contains.
    fn outcome(self) -> &'static str {
        match self {
            Self::Success => r#""body":1"#,
            Self::Failure => "failed: ",
            Self::Cancellation => "cancelled: enough",
            Self::Timeout => "longer than its timeout of 1m",
        }
    }

    /// Ends the main step in flight. Returns its request if it gets no response.
    async fn happens(
        self,
        project: &Project,
        engine: &Engine,
        id: ExecutionId,
        held: PeerRequest,
    ) -> Option<PeerRequest> {
        match self {
            Self::Success => held.answer(200, "1").await,
            Self::Failure => held.answer(404, "no").await,
            Self::Cancellation => {
                engine.admission().cancel(id, "enough").await.expect("it is known");
                return Some(held);
            }
            Self::Timeout => {
                pass(project, TIMEOUT).await;
                return Some(held);
            }
        }
        None
    }
}

fn automation(closing: &str, steps: &str) -> String {
    format!("trigger: {{manual: {{}}}}\ntimeout: 1m\nfinally:\n{closing}steps:\n{steps}")
}

async fn times_closed(engine: &Engine, id: ExecutionId) -> usize {
    steps_of(engine, id).await.iter().filter(|step| *step == LAST).count()
}

#[tokio::test]
async fn finally_steps_run_once_however_the_main_steps_end() {
    for (steps, outcome) in [
        ("  - set: {a: 1}\n", r#"{"a":1}"#),
        ("  - stop: {result: early}\n", "\"early\""),
        ("  - forEach: [1, 2]\n    steps:\n      - stop: {result: early}\n", "\"early\""),
        ("  - parallel:\n      a: [{stop: {result: early}}]\n      b: [{wait: 30s}]\n", "\"early\""),
        ("  - fail: oh\n", "failed: oh"),
        ("  - forEach: [1, 2]\n    steps:\n      - fail: oh\n", "failed: oh"),
        ("  - {fail: oh, onError: [{fail: again}]}\n", "failed: again"),
        ("  - set: {a: \"${{ execution.id | parseJson }}\"}\n", "failed: "),
    ] {
        let project = Project::with(&automation("  - {id: last, set: {done: true}}\n", steps));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let found = end(&engine, id).await;
        assert!(found.starts_with(outcome), "{steps}{found}");
        assert_eq!(times_closed(&engine, id).await, 1, "{steps}");
        assert_eq!(steps_of(&engine, id).await.last().map(String::as_str), Some(LAST), "{steps}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn finally_steps_run_once_for_each_outcome_even_after_a_restart() {
    for cause in Cause::ALL {
        for restarts in [false, true] {
            let mut peer = Peer::new().await;
            let main = call("a", &peer.base, "/a");
            let project = Project::with(&automation("  - {id: last, set: {done: true}}\n", &main));
            let mut engine = project.start().await;
            let id = start_with(&engine, "{}").await;
            let mut held = peer.next_request().await;
            if restarts {
                crash(engine).await;
                engine = project.start().await;
                held = peer.next_request().await;
            }
            let _held = cause.happens(&project, &engine, id, held).await;
            let outcome = end(&engine, id).await;
            assert!(outcome.contains(cause.outcome()), "{cause:?}, {restarts}: {outcome}");
            assert_eq!(times_closed(&engine, id).await, 1, "{cause:?}, {restarts}");
            stop(engine).await;
        }
    }
}

#[tokio::test]
async fn interrupted_finally_steps_resume_and_main_steps_do_not() {
    for cause in Cause::ALL {
        let mut peer = Peer::new().await;
        let main = call("a", &peer.base, "/a");
        let closing = "  - {id: last, set: {done: true}}\n".to_owned() + &call("tell", &peer.base, "/tell");
        let project = Project::with(&automation(&closing, &main));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let held = peer.next_request().await;
        let held = cause.happens(&project, &engine, id, held).await;
        let told = peer.next_request().await;
        assert_eq!(told.line, "POST /tell", "{cause:?}");
        crash(engine).await;
        drop((held, told));

        let engine = project.start().await;
        let told = peer.next_request().await;
        assert_eq!(told.line, "POST /tell", "{cause:?}");
        told.answer(200, "1").await;
        let outcome = end(&engine, id).await;
        assert!(outcome.contains(cause.outcome()), "{cause:?}: {outcome}");
        assert_eq!(times_closed(&engine, id).await, 1, "{cause:?}");
        assert!(peer.pending_request().is_none(), "{cause:?}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn stuck_and_declined_executions_run_neither_on_error_nor_finally() {
    let lists = "onError: [{id: handler, set: {b: 1}}]\nfinally: [{id: last, set: {done: true}}]\n";
    let mut peer = Peer::new().await;
    let main = call("a", &peer.base, "/a");
    let mut project = Project::with(&format!("trigger: {{manual: {{}}}}\n{lists}steps:\n{main}"));
    project.settings.limits.interruptions = 1;
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    // The state left by a process that dies while the execution computes.
    project.write(".cogwork/crash-record", &format!("{id}\n"));
    let engine = project.start().await;
    assert!(end(&engine, id).await.starts_with("stuck: "));
    assert_eq!(steps_of(&engine, id).await, [""; 0]);
    stop(engine).await;

    let code = "export default () => ({ run: false })";
    let project = Project::with(&format!(
        "trigger: {{webhook: {{verify: none, code: \"{code}\"}}}}\n{lists}steps: [{{set: {{a: 1}}}}]\n"
    ));
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    assert_eq!(end(&engine, id).await, "cancelled: declined by the trigger's code");
    assert_eq!(steps_of(&engine, id).await, [""; 0]);
    stop(engine).await;
}

#[tokio::test]
async fn closing_steps_that_pause_have_five_minutes_over_restarts() {
    let pausing = "[{wait: 4m}, {wait: 4m}, {id: last, set: {done: true}}]";
    let file = |steps: &str| format!("trigger: {{manual: {{}}}}\ntimeout: 1h\n{steps}");
    for (text, outcome) in [
        (format!("steps:\n  - {{set: {{a: 1}}, undo: {pausing}}}\n  - fail: the end\n"), "failed: the end"),
        (format!("steps: [{{fail: the end}}]\nonError: {pausing}\n"), "failed: the end"),
        (format!("steps: [{{set: {{a: 1}}}}]\nfinally: {pausing}\n"), "longer than 5 minutes"),
        (
            format!("steps:\n  - forEach: [1]\n    steps: [{{set: {{a: 1}}, finally: {pausing}}}]\n"),
            "longer than 5 minutes",
        ),
    ] {
        let project = Project::with(&file(&text));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        pass(&project, Duration::from_secs(4 * 60)).await;
        until_suspended(&engine).await;
        crash(engine).await;
        let engine = project.start().await;
        pass(&project, TIMEOUT).await;
        let ended = end(&engine, id).await;
        assert!(ended.contains(outcome), "{text}: {ended}");
        assert_eq!(times_closed(&engine, id).await, 0, "{text}");
        stop(engine).await;
    }
}
