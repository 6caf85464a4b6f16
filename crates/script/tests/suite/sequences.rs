//! Batched runs: each behaves as if sent alone, except for the earlier results that it reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use script::{
    Call, Context, Error, Kind, LogLine, Module, Origin, Outcome, Pool, PoolSettings, Sequence, SequenceCall,
};
use value::Value;

use crate::support::{json, result, settings};

/// A pool of one worker without a time limit for batches.
fn pool() -> Pool {
    Pool::new(PoolSettings { together: Duration::from_secs(60), ..settings(1) })
}

/// A run in a sequence.
#[derive(Clone)]
struct Step {
    module: Module,
    argument: Value,
    earlier: Vec<(Arc<str>, usize)>,
    deadline: Duration,
}

/// A run of this code that reads nothing.
fn step(code: &str) -> Step {
    let module = Module::new(code, Origin::start_of("code"));
    Step { module, argument: json("{}"), earlier: Vec::new(), deadline: Duration::from_secs(20) }
}

impl Step {
    /// The same, with this argument, in which these keys are the results of earlier runs.
    fn given(mut self, argument: &str, earlier: &[(&str, usize)]) -> Self {
        self.argument = json(argument);
        self.earlier = earlier.iter().map(|(key, place)| (Arc::from(*key), *place)).collect();
        self
    }

    fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

async fn begin(pool: &Pool, steps: &[Step]) -> Result<(Outcome, Sequence), Error> {
    let config_vars = json("{}");
    let members = steps.iter().map(|step| {
        let context = Context {
            config_vars: &config_vars,
            execution_id: "exec1",
            step_id: Some("step"),
            started_at: "2026-11-21T15:00:00Z",
            state: &[],
        };
        let (module, argument, deadline) = (&step.module, &step.argument, step.deadline);
        SequenceCall {
            call: Call { module, kind: Kind::Step, context, argument, deadline },
            earlier: &step.earlier,
        }
    });
    pool.run_sequence(&members.collect::<Vec<_>>()).await
}

/// The result or error of each run, or that it did not start.
async fn all(pool: &Pool, steps: &[Step]) -> Vec<String> {
    let say = |ran: Result<Option<Outcome>, Error>| match ran {
        Ok(Some(outcome)) => outcome.value.to_json(),
        Ok(None) => "not begun".to_owned(),
        Err(error) => format!("error: {error}"),
    };
    let (first, mut rest) = match begin(pool, steps).await {
        Ok((first, rest)) => (Ok(Some(first)), Some(rest)),
        Err(error) => (Err(error), None),
    };
    let mut said = vec![say(first)];
    while let Some(sequence) = rest.as_mut().filter(|sequence| sequence.left() > 0) {
        said.push(say(sequence.next().await));
    }
    said
}

const SHOW: &str = "export default (context, results) => ({ data: JSON.stringify(results) })";

#[tokio::test]
async fn a_batched_run_reads_earlier_results_as_if_sent_alone() {
    let pool = pool();
    let returned = [
        "({ data: { a: [1, 2.5, -0, 1e300], b: null, '1': 'x\\u{1F600}' } })",
        "({ data: undefined, a: 1 })",
        "({ data: 1, statusCode: 200 })",
        "({ data: 1, statusCode: '200' })",
        "({ data: 1, statusCode: 2 ** 63 })",
        "({ data: 1, body: 'x' })",
        "({ body: 'x' })",
        "[{ data: 1 }]",
        "'text'",
        "undefined",
        "null",
        "({ data: null })",
        "JSON.parse('{\"data\": {\"__proto__\": {\"a\": 1}}}')",
        "'\\ud83d'",
    ];
    for returned in returned {
        let code = format!("export default () => {returned}");
        let alone = result(&pool, &code).await;
        let argument = r#"{"before":1,"one":null,"trigger":2}"#;
        let steps = [step(&code), step(SHOW).given(argument, &[("one", 0)])];
        let seen = all(&pool, &steps).await;
        let shown =
            format!(r#"{{"before":1,"one":{{"results":{alone},"error":null,"ok":true}},"trigger":2}}"#);
        let expected = all(&pool, &[step(SHOW).given(&shown, &[])]).await.remove(0);
        assert_eq!(seen, [alone, expected], "{returned}");
    }
}

#[tokio::test]
async fn runs_of_a_sequence_are_otherwise_isolated() {
    let pool = pool();
    let code = "let runs = 0;
const seen = new Set();
export default (context, results) => {
  runs += 1;
  seen.add(context);
  try { globalThis.left = 1 } catch {}
  try { Object.prototype.left = 1 } catch {}
  results.left = 1;
  return { data: [runs, seen.size, typeof left, results.left, Object.keys(results)] };
}";
    let expected = r#"[1,1,"undefined",1,["left"]]"#;
    assert_eq!(all(&pool, &vec![step(code); 40]).await, vec![expected; 40]);
    // A run's changes of a result are invisible to the next run that reads it.
    let spoil = "export default (context, { one }) => { one.results.list.push(2); return one.results }";
    let read = [("one", 0)];
    let steps = [
        step("export default () => ({ data: { list: [1] } })"),
        step(spoil).given(r#"{"one":null}"#, &read),
        step(spoil).given(r#"{"one":null}"#, &read),
    ];
    assert_eq!(all(&pool, &steps).await, [r#"{"list":[1]}"#, r#"{"list":[1,2]}"#, r#"{"list":[1,2]}"#]);
}

#[tokio::test]
async fn an_error_ends_its_sequence_and_the_worker_continues() {
    let pool = pool();
    let good = step("export default () => 1");
    let bad = step("export default () => {\n  throw new Error('no');\n}");
    let (first, mut rest) = begin(&pool, &[good.clone(), bad, good.clone(), good]).await.expect("it runs");
    assert_eq!(first.value.to_json(), "1");
    let error = rest.next().await.expect_err("it throws");
    assert_eq!((error.to_string().as_str(), error.at().map(|at| at.line)), ("no", Some(2)));
    assert_eq!((rest.left(), rest.next().await.expect("there is no next")), (0, None));
    assert_eq!(pool.idle_workers(), 1);
    assert_eq!(result(&pool, "export default () => 2").await, "2");
}

#[tokio::test]
async fn each_run_of_a_sequence_has_its_own_deadline() {
    let pool = pool();
    let good = step("export default () => 1");
    // Code that polls the interrupt handler, and code that does not.
    let endless = [
        "for (;;) {}",
        "'x'.repeat(2 ** 28).split('').sort()",
        "[].concat(...Array(2 ** 22).fill(Array(2 ** 10).fill(0)))",
        "/^(a+)+$/.test('a'.repeat(64) + 'b')",
    ];
    let own = Duration::from_millis(80);
    for endless in endless {
        let last = step(&format!("export default () => {{ {endless} }}")).within(own);
        let steps = [good.clone(), good.clone(), last, good.clone()];
        // A busy machine may have had no time for one of them, but not for all.
        let mut took = Vec::new();
        while took.iter().all(|took| *took > own + Duration::from_millis(100)) {
            assert!(took.len() < 20, "{endless} took {took:?}");
            assert_eq!(result(&pool, "export default () => 1").await, "1");
            let started = Instant::now();
            let (_, mut rest) = begin(&pool, &steps).await.expect("it runs");
            assert!(rest.next().await.expect("it runs").is_some(), "{endless}");
            let error = rest.next().await.expect_err(endless);
            took.push(started.elapsed());
            assert!(started.elapsed() < Duration::from_secs(10), "it had the time of another");
            let is_stopped = matches!(error, Error::Overrun { .. } | Error::OutOfMemory { .. });
            assert!(is_stopped || matches!(error, Error::Thrown(_)), "{error}");
            assert_eq!(rest.next().await.expect("there is no next"), None);
        }
    }
}

#[tokio::test]
async fn replies_keep_their_order_over_pipe_and_socket() {
    let pool = pool();
    // Replies of a few bytes, replies over the atomic size of a pipe, and more log lines than a pipe holds.
    let answer = |length: usize| step(&format!("export default () => 'x'.repeat({length})"));
    let talk = "export default ({ logger }) => {
  for (let line = 0; line < 300; line += 1) logger.info(`${line} `.repeat(50));
  return 'talked';
}";
    let lengths = [1, 5_000, 2, 3, 4_095, 4, 200_000, 5, 6];
    let steps: Vec<Step> = lengths.map(answer).into();
    // Small replies use the socket too if the machine is so busy that they take long.
    for _ in 0..50 {
        let said: Vec<usize> = all(&pool, &steps[..4]).await.iter().map(|said| said.len() - 2).collect();
        assert_eq!(said, lengths[..4]);
    }
    let said: Vec<usize> = all(&pool, &steps).await.iter().map(|said| said.len() - 2).collect();
    assert_eq!(said, lengths);
    let steps: Vec<Step> = (0..20).flat_map(|length| [answer(length), step(talk)]).collect();
    let (first, mut rest) = begin(&pool, &steps).await.expect("it runs");
    let mut ends = vec![first];
    while let Some(outcome) = rest.next().await.expect("it runs") {
        ends.push(outcome);
    }
    for (place, outcome) in ends.iter().enumerate() {
        let text = outcome.value.as_str().expect("a text");
        let (expected, lines) =
            if place % 2 == 0 { ("x".repeat(place / 2), 0) } else { ("talked".to_owned(), 300) };
        assert_eq!((text, outcome.logs.len()), (expected.as_str(), lines), "run {place}");
        assert!(
            outcome.logs.iter().enumerate().all(|(line, log)| log.message.starts_with(&line.to_string()))
        );
    }
    assert_eq!(ends.len(), 40);
}

#[tokio::test]
async fn a_worker_is_free_once_its_sequence_has_replied() {
    let (together, wait_at_most) = (Duration::from_secs(60), Duration::from_millis(1));
    let pool = Pool::new(PoolSettings { together, wait_at_most, ..settings(1) });
    let steps = vec![step("export default () => 1"); 3];
    // A run longer than two milliseconds on a busy machine is reported alone.
    for _ in 0..1_000 {
        let (_, mut rest) = begin(&pool, &steps).await.expect("it runs");
        let is_served = result(&pool, "export default () => 2").await == "2";
        while rest.next().await.expect("it runs").is_some() {}
        if is_served {
            return;
        }
    }
    panic!("no worker was free before the results were asked for");
}

#[tokio::test]
async fn log_lines_belong_to_the_run_that_wrote_them() {
    let pool = pool();
    let code = "export default ({ logger }, results) => { logger.info(`this is ${results.name}`); return 1 }";
    let steps = ["a", "b", "c"].map(|name| step(code).given(&format!(r#"{{"name":"{name}"}}"#), &[]));
    let (first, mut rest) = begin(&pool, &steps).await.expect("it runs");
    let mut logs = vec![first.logs];
    while let Some(outcome) = rest.next().await.expect("it runs") {
        logs.push(outcome.logs);
    }
    let said = |lines: &Vec<LogLine>| lines.iter().map(|line| line.message.clone()).collect::<Vec<_>>();
    let said: Vec<Vec<String>> = logs.iter().map(said).collect();
    assert_eq!(said, [["this is a"], ["this is b"], ["this is c"]]);
}

#[tokio::test]
async fn a_result_that_is_not_json_ends_the_sequence() {
    let pool = pool();
    for returned in ["new Uint8Array([1])", "({ data: 2n ** 60n })"] {
        let code = format!("export default () => {returned}");
        let steps =
            [step(&code), step("export default () => 1"), step(SHOW).given(r#"{"one":null}"#, &[("one", 0)])];
        let seen = all(&pool, &steps).await;
        assert_eq!(seen[1..], ["1", "not begun"], "{returned}");
        assert_eq!(pool.idle_workers(), 1);
    }
}

#[tokio::test]
async fn a_sequence_ends_at_its_time_limit() {
    let pool = Pool::new(PoolSettings { together: Duration::from_millis(1), ..settings(1) });
    let slow =
        "export default () => { const until = Date.now() + 5; while (Date.now() < until) {} return 1 }";
    let good = step("export default () => 1");
    assert_eq!(all(&pool, &[step(slow), good.clone(), good]).await, ["1", "not begun"]);
    assert_eq!(pool.idle_workers(), 1);
}

#[tokio::test]
async fn a_sequence_may_use_any_number_of_modules() {
    let pool = pool();
    let steps: Vec<Step> = (0..40).map(|number| step(&format!("export default () => {number}"))).collect();
    let expected: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    // A worker caches fewer of them, so it requests their texts again.
    assert_eq!(all(&pool, &steps).await, expected);
    let again: Vec<Step> = steps[30..].iter().chain(&steps[..1]).cloned().collect();
    assert_eq!(all(&pool, &again).await, [&expected[30..], &expected[..1]].concat());
}

#[tokio::test]
async fn long_arguments_are_not_batched() {
    let pool = pool();
    let long = format!("\"{}\"", "x".repeat(40 * 1024));
    let steps = vec![step("export default (context, text) => text.length").given(&long, &[]); 3];
    let (first, rest) = begin(&pool, &steps).await.expect("it runs");
    assert_eq!((first.value.to_json().as_str(), rest.left()), ("40960", 0));
    let (_, rest) = begin(&pool, &vec![step("export default () => 1"); 100]).await.expect("it runs");
    assert_eq!(rest.left(), Sequence::MAX_CALLS - 1);
}

#[tokio::test]
async fn an_abandoned_sequence_frees_its_worker() {
    let pool = pool();
    let good = step("export default () => 1");
    let endless = step("export default () => { for (;;) {} }");
    for _ in 0..3 {
        let (_, rest) = begin(&pool, &[good.clone(), endless.clone()]).await.expect("it runs");
        drop(rest);
        assert_eq!(result(&pool, "export default () => 2").await, "2");
    }
}
