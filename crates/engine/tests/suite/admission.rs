//! Admission of webhooks: deduplication, rate limits, call loops, and challenges of senders.

use std::time::Duration;

use engine::Engine;
use model::payload::HttpResponse;
use runtime::Clock as _;
use trigger::webhook::Request;

use crate::common::{Peer, Project, call, rows, soon, stop};
use crate::hooks::{post, signature, text, tokens};

fn with(mut request: Request, name: &str, value: &str) -> Request {
    request.headers.push((name.to_owned(), value.as_bytes().to_vec()));
    request
}

fn get(query: &str) -> Request {
    Request { method: "GET".to_owned(), raw_query: query.to_owned(), ..Request::default() }
}

fn execution(answer: &HttpResponse) -> String {
    answer.header("x-execution-id").expect("it names the execution").to_owned()
}

fn is_duplicate(answer: &HttpResponse) -> bool {
    answer.header("x-duplicate") == Some("true")
}

fn refused(engine: &Engine, reason: &str) -> u64 {
    let id = engine.catalog().find("test").expect("in force").automation.id.clone();
    let (of_it, all) = (engine.ingress().rejections_of(&id), engine.status().refused);
    assert_eq!(of_it.get(reason), all.get(reason), "both count the same");
    of_it.get(reason).copied().unwrap_or_default()
}

const BY_ID: &str = "trigger: {webhook: {verify: none, dedup: {by: {json: /id}, window: 1h}}}\nsteps: []\n";

#[tokio::test]
async fn a_duplicate_request_starts_nothing_and_gets_the_first_response() {
    let project = Project::with(BY_ID);
    let engine = project.start().await;
    let (live, test) = tokens(&engine);
    let first = soon(engine.ingress().receive(&live, post(r#"{"id": "a"}"#))).await;
    assert!(!is_duplicate(&first));
    let again = soon(engine.ingress().receive(&live, post(r#"{"id": "a", "try": 2}"#))).await;
    assert_eq!(text(&again), text(&first));
    assert!(is_duplicate(&again));
    assert_eq!((rows(&engine).await.len(), refused(&engine, "duplicate")), (1, 1));
    // Another id, a missing id, and another address are not duplicates.
    for (token, body) in [(&live, r#"{"id": "b"}"#), (&live, "{}"), (&live, "{}"), (&test, r#"{"id": "a"}"#)]
    {
        let answer = soon(engine.ingress().receive(token, post(body))).await;
        assert!(answer.status == 200 && !is_duplicate(&answer), "{body}");
    }
    // It is remembered over a restart, until the end of the window.
    stop(engine).await;
    let engine = project.start().await;
    let again = soon(engine.ingress().receive(&live, post(r#"{"id": "a"}"#))).await;
    assert_eq!(execution(&again), execution(&first));
    project.clock.advance(Duration::from_secs(3600));
    let later = soon(engine.ingress().receive(&live, post(r#"{"id": "a"}"#))).await;
    assert_ne!(execution(&later), execution(&first));
    stop(engine).await;
}

#[tokio::test]
async fn concurrent_duplicate_requests_start_one_execution() {
    let project = Project::with(BY_ID);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let racers = (0..50).map(|_| {
        let (engine, live) = (engine.clone(), live.clone());
        tokio::spawn(async move { engine.ingress().receive(&live, post(r#"{"id": "a"}"#)).await })
    });
    let mut answers = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        answers.push(soon(racer).await.expect("it answers"));
    }
    assert!(answers.iter().all(|answer| execution(answer) == execution(&answers[0])));
    assert_eq!(answers.iter().filter(|answer| !is_duplicate(answer)).count(), 1);
    assert_eq!(rows(&engine).await.len(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn a_request_stays_known_after_its_execution_is_pruned() {
    let yaml = "trigger: {webhook: {mode: sync, verify: none, dedup: {by: {json: /id}}}}\nretention: {days: 1}\nsteps: [{set: {a: 1}}]\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let first = soon(engine.ingress().receive(&live, post(r#"{"id": "a"}"#))).await;
    let again = soon(engine.ingress().receive(&live, post(r#"{"id": "a"}"#))).await;
    assert_eq!((text(&again), is_duplicate(&again)), (text(&first), true));
    let later = project.clock.now() + Duration::from_secs(60);
    let all = store::PruneFilter::new(store::PruneRule::EndedBefore(later));
    assert_eq!(engine.store().prune(all, 100).await.expect("it prunes"), 1);
    let again = soon(engine.ingress().receive(&live, post(r#"{"id": "a"}"#))).await;
    let id = execution(&first);
    assert_eq!(text(&again), format!(r#"200 {{"executionId":"{id}"}}"#));
    assert_eq!(rows(&engine).await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn requests_with_equal_signatures_are_duplicates_whatever_is_unsigned() {
    let verify = "{preset: github, secret: '${{ secrets.hook }}'}";
    let project = Project::with(&format!(
        "trigger: {{webhook: {{verify: {verify}, dedup: {{by: mac}}}}}}\nsteps: []\n"
    ));
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/hook", "s");
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let signed = |body: &str, delivery: &str| {
        let request = with(post(body), "x-hub-signature-256", &format!("sha256={}", signature("s", body)));
        with(request, "x-github-delivery", delivery)
    };
    let first = soon(engine.ingress().receive(&live, signed("{}", "1"))).await;
    let again = soon(engine.ingress().receive(&live, signed("{}", "2"))).await;
    assert_eq!((execution(&again), is_duplicate(&again)), (execution(&first), true));
    let other = soon(engine.ingress().receive(&live, signed("[]", "1"))).await;
    assert_ne!(execution(&other), execution(&first));
    // An unsigned duplicate does not get the response.
    let wrong =
        soon(engine.ingress().receive(&live, with(post("{}"), "x-hub-signature-256", "sha256=00"))).await;
    assert_eq!((wrong.status, wrong.header("x-execution-id")), (401, None));
    stop(engine).await;
}

#[tokio::test]
async fn an_idempotency_key_attaches_to_its_execution_and_rejects_other_bodies() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a");
    let mut project =
        Project::with(&format!("trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n{steps}"));
    // A caller that attaches to an execution needs no slot of its own.
    project.settings.limits.in_flight = 1;
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let keyed = |body: &str, key: &str| with(post(body), "Idempotency-Key", key);
    let calls = [0, 1].map(|_| {
        let (engine, live, request) = (engine.clone(), live.clone(), keyed("{}", "k"));
        tokio::spawn(async move { engine.ingress().receive(&live, request).await })
    });
    let held = peer.next_request().await;
    let other = soon(engine.ingress().receive(&live, keyed("[]", "k"))).await;
    assert_eq!((other.status, text(&other).contains("idempotency_mismatch")), (422, true));
    held.answer(200, r#"{"n": 7}"#).await;
    let mut answers = Vec::new();
    for call in calls {
        answers.push(soon(call).await.expect("it answers"));
    }
    assert!(answers.iter().all(|answer| answer.status == 200 && text(answer).contains("\"n\":7")));
    assert_eq!(answers.iter().filter(|answer| is_duplicate(answer)).count(), 1);
    assert!(peer.pending_request().is_none(), "it ran once");
    // The response survives a restart.
    stop(engine).await;
    let engine = project.start().await;
    let stored = soon(engine.ingress().receive(&live, keyed("{}", "k"))).await;
    assert_eq!((text(&stored), is_duplicate(&stored)), (text(&answers[0]), true));
    assert_eq!(rows(&engine).await.len(), 1);
    project.clock.advance(Duration::from_secs(24 * 3600));
    let call = tokio::spawn({
        let (engine, live, request) = (engine.clone(), live.clone(), keyed("{}", "k"));
        async move { engine.ingress().receive(&live, request).await }
    });
    peer.next_request().await.answer(200, "1").await;
    assert!(!is_duplicate(&soon(call).await.expect("it answers")), "it is remembered for a day");
    stop(engine).await;
}

#[tokio::test]
async fn a_webhook_over_its_rate_limit_gets_429_with_retry_after() {
    let yaml = "trigger: {webhook: {verify: none, rateLimit: {max: 2, per: 10s}}}\nsteps: []\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let (live, test) = tokens(&engine);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(soon(engine.ingress().receive(&live, post("{}"))).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(
        soon(engine.ingress().receive(&test, post("{}"))).await.status,
        200,
        "the test address counts apart"
    );
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!((answer.header("retry-after"), refused(&engine, "rate_limited")), (Some("5"), 2));
    if engine.store().node().is_none() {
        // With several daemons, the clock of the database counts.
        project.clock.advance(Duration::from_secs(5));
        assert_eq!(soon(engine.ingress().receive(&live, post("{}"))).await.status, 200);
        assert_eq!(rows(&engine).await.len(), 4);
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_webhook_loop_is_refused_after_ten_hops() {
    let mut peer = Peer::new().await;
    let project = Project::with(&format!(
        "trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n{}",
        call("a", &peer.base, "/next")
    ));
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let (mut trace, mut chain) = (None::<String>, None);
    // Each hop passes on the trace header that it received.
    for hop in 0..10 {
        let request = trace.iter().fold(post("{}"), |request, trace| with(request, "X-Cogwork-Trace", trace));
        let calling = tokio::spawn({
            let (engine, live) = (engine.clone(), live.clone());
            async move { engine.ingress().receive(&live, request).await }
        });
        let asked = peer.next_request().await;
        let sent = asked.header("x-cogwork-trace").expect("each call says its chain").to_owned();
        asked.answer(200, "1").await;
        let answer = soon(calling).await.expect("it answers");
        let first = chain.get_or_insert_with(|| execution(&answer));
        assert_eq!(sent, format!("{first};{hop}"));
        trace = Some(sent);
    }
    let request = with(post("{}"), "x-cogwork-trace", &trace.expect("there is one"));
    let answer = soon(engine.ingress().receive(&live, request)).await;
    assert_eq!((answer.status, refused(&engine, "loop_detected")), (508, 1));
    // A trace of another origin has no effect.
    let odd = tokio::spawn({
        let (engine, request) = (engine.clone(), with(post("{}"), "x-cogwork-trace", "a b;99"));
        async move { engine.ingress().receive(&live, request).await }
    });
    let asked = peer.next_request().await;
    assert!(asked.header("x-cogwork-trace").expect("sent").ends_with(";0"));
    asked.answer(200, "1").await;
    assert_eq!(soon(odd).await.expect("it answers").status, 200);
    stop(engine).await;
}

#[tokio::test]
async fn a_challenge_is_answered_without_an_execution_once_its_sender_is_verified() {
    let yaml = "trigger: {webhook: {methods: [POST], verify: {preset: slack, secret: '${{ secrets.hook }}'}}}\nsteps: []\n";
    let project = Project::with(yaml);
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/hook", "s");
    let engine = project.start().await;
    let (live, test) = tokens(&engine);
    let now = project.clock.now().as_second();
    let ask = |secret: &str| {
        let body = r#"{"type":"url_verification","challenge":"3eZb"}"#;
        let made = signature(secret, &format!("v0:{now}:{body}"));
        let request = with(post(body), "X-Slack-Request-Timestamp", &now.to_string());
        with(request, "X-Slack-Signature", &format!("v0={made}"))
    };
    for token in [&live, &test] {
        assert_eq!(text(&soon(engine.ingress().receive(token, ask("s"))).await), "200 3eZb");
        assert_eq!(soon(engine.ingress().receive(token, ask("t"))).await.status, 401);
    }
    assert_eq!(rows(&engine).await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn challenges_ignore_the_allowed_methods_and_are_rate_limited() {
    let yaml = "trigger: {webhook: {methods: [POST], verify: none, challenge: {preset: meta, secret: '${{ secrets.meta }}'}}}\nsteps: []\n";
    let project = Project::with(yaml);
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let ask = |token: &str| get(&format!("hub.mode=subscribe&hub.verify_token={token}&hub.challenge=115"));
    assert_eq!(soon(engine.ingress().receive(&live, ask("m"))).await.status, 401, "its secret is not set");
    project.write("secrets/meta", "m");
    assert_eq!(text(&soon(engine.ingress().receive(&live, ask("m"))).await), "200 115");
    assert_eq!(soon(engine.ingress().receive(&live, ask("n"))).await.status, 401);
    assert_eq!(soon(engine.ingress().receive(&live, get(""))).await.status, 405);
    let mut limited = None;
    for _ in 0..30 {
        let answer = soon(engine.ingress().receive(&live, ask("m"))).await;
        limited = limited.or((answer.status == 429).then_some(answer));
    }
    assert!(limited.expect("they are rate-limited").header("retry-after").is_some());
    assert_eq!(rows(&engine).await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_secret_offered_by_a_sender_is_accepted_once_and_only_during_pairing() {
    let yaml = "trigger: {webhook: {verify: {preset: asana, secret: '${{ secrets.asana }}'}, challenge: asana}}\nsteps: []\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let id = engine.catalog().find("test").expect("in force").automation.id.clone();
    let offer = |secret: &str| with(post(""), "X-Hook-Secret", secret);
    assert_eq!(soon(engine.ingress().receive(&live, offer("early"))).await.status, 401);
    engine.ingress().pair("test").await.expect("it waits");
    project.clock.advance(Duration::from_secs(600));
    assert_eq!(soon(engine.ingress().receive(&live, offer("late"))).await.status, 401);
    let until = engine.ingress().pair("test").await.expect("it waits");
    assert_eq!(engine.ingress().pairing(&id.clone().into()).await.expect("it is asked"), Some(until));
    let answer = soon(engine.ingress().receive(&live, offer("brought"))).await;
    assert_eq!((answer.status, answer.header("x-hook-secret")), (200, Some("brought")));
    assert_eq!(engine.ingress().pairing(&id.clone().into()).await.expect("it is asked"), None);
    assert_eq!(soon(engine.ingress().receive(&live, offer("second"))).await.status, 401);
    // From now on it verifies requests, and cannot be replaced.
    let signed = with(post("{}"), "x-hook-signature", &signature("brought", "{}"));
    assert_eq!(soon(engine.ingress().receive(&live, signed)).await.status, 200);
    let refused = engine.ingress().pair("test").await.expect_err("there is one").to_string();
    assert!(refused.contains("`asana` is already set"), "{refused}");
    let kept: Vec<String> = engine.context().secrets().into_iter().map(|secret| secret.name).collect();
    assert_eq!(kept, ["asana"]);
    // It survives a restart.
    stop(engine).await;
    let engine = project.start().await;
    let signed = with(post("[]"), "x-hook-signature", &signature("brought", "[]"));
    assert_eq!(soon(engine.ingress().receive(&live, signed)).await.status, 200);
    stop(engine).await;
}

#[tokio::test]
async fn a_synchronous_caller_gets_429_after_ten_seconds_without_memory_for_its_data() {
    for concurrency in ["", "concurrency: {limit: 9}\n"] {
        let mut peer = Peer::new().await;
        let steps = call("a", &peer.base, "/a");
        let project = Project::with(&format!(
            "trigger: {{webhook: {{mode: sync, verify: none, maxBody: 16MiB, timeout: 1m}}}}\n{concurrency}steps:\n{steps}"
        ));
        let engine = project.start().await;
        let (live, _) = tokens(&engine);
        let large = format!(r#"{{"text": "{}"}}"#, "x".repeat(10 << 20));
        let receive = |body: String| {
            let (engine, live) = (engine.clone(), live.clone());
            tokio::spawn(async move { engine.ingress().receive(&live, post(&body)).await })
        };
        let first = receive(large.clone());
        let held = peer.next_request().await;
        let due = engine.clock().now() + Duration::from_secs(10);
        let second = receive(large);
        soon(project.clock.somebody_sleeps_until(due)).await;
        // Small data need no reservation.
        let small = receive("{}".to_owned());
        peer.next_request().await.answer(200, "1").await;
        assert_eq!(soon(small).await.expect("it answers").status, 200);
        assert!(!second.is_finished());
        project.clock.advance(Duration::from_secs(10));
        let refused = soon(second).await.expect("it answers");
        assert!(text(&refused).starts_with("429 ") && text(&refused).contains("rate_limited"));
        assert!(refused.header("retry-after").is_some() && refused.header("x-execution-id").is_none());
        assert_eq!(rows(&engine).await.len(), 2);
        held.answer(200, "1").await;
        assert_eq!(soon(first).await.expect("it answers").status, 200);
        stop(engine).await;
    }
}
