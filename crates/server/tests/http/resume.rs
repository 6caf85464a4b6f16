//! The resume address: its questions, answers and error pages.

use model::{AutomationId, Event, ExecutionId, Origin, Outcome, Payload};
use runtime::EngineEvent;
use serde_json::json;
use value::{Map, Value};

use crate::support::{Answer, Daemon, daemon};

/// Asks one question with a form.
const ASK: &str = r#"name: Publish <b>it</b>
trigger: {manual: {}}
steps:
  - id: ask
    waitFor:
      approval:
        message: |
          Publish "Q3 <script>alert(1)</script>"?
          It goes to all readers.
        options: [approve, "<i>reject</i>"]
        form:
          reason: {type: text, required: true, description: Why & how}
          copies: {type: integer, default: 2}
          option: {type: boolean}
          channel: {type: choice, options: [mail, web]}
          tags: {type: list}
    timeout: 2h
outputs: ${{ steps.ask.results }}
"#;

/// Asks two questions in parallel, and a third for each item.
const SEVERAL: &str = r#"trigger: {manual: {}}
steps:
  - parallel:
      one:
        - id: legal
          waitFor: {approval: {message: Is it legal?}}
      two:
        - id: each
          forEach: "['a', 'b']"
          concurrency: 2
          steps:
            - id: item
              waitFor: {approval: {message: "Item ${{ item }}?", options: ["yes", "no"]}}
"#;

/// Waits for an event.
const EVENT: &str = r#"trigger: {manual: {}}
steps:
  - id: paid
    waitFor: {event: orderPaid, if: event.data.amount > 10}
    timeout: 1d
"#;

/// Waits for an event and for a person at the same time.
const BOTH: &str = r#"trigger: {manual: {}}
steps:
  - parallel:
      one:
        - id: ask
          waitFor: {approval: {message: Go on?}}
      two:
        - id: paid
          waitFor: {event: orderPaid}
"#;

const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";
const JSON: &str = "content-type: application/json\r\n";

/// A waiting execution, with the path of its resume address.
struct Pausing {
    daemon: Daemon,
    id: ExecutionId,
    path: String,
}

/// Runs an automation until this number of its steps wait.
async fn pausing(text: &str, pauses: usize) -> Pausing {
    let daemon = daemon(&[("a", text)]).await;
    let mut notices = daemon.engine.subscribe();
    let start = runtime::ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
    let id = daemon.engine.ingress().start(&AutomationId::parse("a").unwrap().into(), start).await.unwrap();
    let mut found = 0;
    while found < pauses {
        let EngineEvent::ExecutionEvents { events, .. } = notices.recv().await.unwrap() else { continue };
        found += events.iter().filter(|event| matches!(event, Event::Waiting { .. })).count();
    }
    let url = daemon.engine.context().resume_url(id);
    let path = url[url.find("/resume/").unwrap()..].to_owned();
    Pausing { daemon, id, path }
}

impl Pausing {
    async fn get(&self, rest: &str, fields: &str) -> Answer {
        self.daemon.hook("GET", &format!("{}{rest}", self.path), fields, b"").await
    }

    async fn post(&self, rest: &str, fields: &str, body: &str) -> Answer {
        self.daemon.hook("POST", &format!("{}{rest}", self.path), fields, body.as_bytes()).await
    }

    async fn result(&self) -> serde_json::Value {
        match self.daemon.engine.admission().wait(self.id).await.unwrap() {
            Outcome::Succeeded { result } => result.to_serde(),
            other => panic!("{other:?}"),
        }
    }
}

#[track_caller]
fn is_page(answer: &Answer, status: u16, texts: &[&str]) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    for text in texts {
        assert!(answer.body.contains(text), "`{text}` is missing in:\n{}", answer.body);
    }
}

#[track_caller]
fn is_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    assert!(answer.json()["error"].as_str().is_some_and(|message| message.len() > 10));
}

#[tokio::test]
async fn a_question_is_shown_with_all_its_form_fields() {
    let pausing = pausing(ASK, 1).await;
    let page = pausing.get("", "accept: text/html,*/*\r\n").await;
    let token = pausing.path.strip_prefix("/resume/").unwrap();
    let action = format!("method=\"post\" action=\"{token}/ask\"");
    is_page(
        &page,
        200,
        &[
            &action,
            "It goes to all readers.",
            "name=\"option\" value=\"approve\"",
            ">Approve</button>",
            "name=\"form.reason\"",
            "Why &amp; how",
            "required",
            "type=\"number\"",
            "value=\"2\"",
            "type=\"checkbox\"",
            "<option value=\"mail\"",
            "Open for another 2 hours",
            "just now",
        ],
    );
}

#[tokio::test]
async fn user_text_never_becomes_markup() {
    let pausing = pausing(ASK, 1).await;
    for page in [
        pausing.get("", "").await,
        pausing.post("", FORM, "form.reason=%3Cimg+src%3Dx%3E&option=%3Cu%3E").await,
        pausing.post("", FORM, "form.reason=%3Cimg+src%3Dx%3E&option=%3Ci%3Ereject%3C%2Fi%3E").await,
        pausing.get("", "").await,
    ] {
        for raw in ["<script", "<b>", "<i>", "<img", "<u>"] {
            assert!(!page.body.contains(raw), "{raw} in {}", page.body);
        }
    }
    let page = pausing.get("", "").await;
    is_page(&page, 200, &["&lt;script&gt;", "&lt;img src=x&gt;", "&lt;i&gt;reject&lt;/i&gt;", "Answered"]);
}

#[tokio::test]
async fn every_response_forbids_scripts_caching_framing_and_indexing() {
    let pausing = pausing(ASK, 1).await;
    let unknown = "/resume/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for answer in [
        pausing.get("", "").await,
        pausing.get("", "accept: application/json\r\n").await,
        pausing.post("", FORM, "option=none").await,
        pausing.daemon.hook("GET", unknown, "", b"").await,
    ] {
        let policy = answer.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(policy.contains("style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("x-robots-tag"), Some("noindex, nofollow"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let is_page = answer.header("content-type") == Some("text/html; charset=utf-8");
        assert!(
            !is_page || !(answer.body.contains("<script") || answer.body.contains(" style=")),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn get_and_head_never_submit_an_answer() {
    let pausing = pausing(ASK, 1).await;
    for method in ["GET", "HEAD"] {
        let path = format!("{}?option=approve&form.reason=x", pausing.path);
        let answer = pausing.daemon.hook(method, &path, FORM, b"option=approve&form.reason=x").await;
        assert_eq!((answer.status, answer.body.is_empty()), (200, method == "HEAD"));
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = pausing.daemon.hook(method, &pausing.path, FORM, b"option=approve").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, POST")), "{method}");
    }
    assert_eq!(pausing.daemon.engine.admission().queue_status(pausing.id).await.unwrap().pauses.len(), 1);
    is_page(&pausing.get("", "").await, 200, &["value=\"approve\""]);
}

#[tokio::test]
async fn an_answer_from_the_page_resumes_the_execution() {
    let pausing = pausing(ASK, 1).await;
    let body =
        "form.reason=a%0D%0Ab&form.copies=7&form.option=true&form.channel=&form.tags=%5B1%5D&option=approve";
    let answer = pausing.post("", FORM, body).await;
    let token = pausing.path.strip_prefix("/resume/").unwrap();
    assert_eq!((answer.status, answer.header("location")), (303, Some(format!("{token}/ask").as_str())));
    let form = json!({"reason": "a\nb", "copies": 7, "option": true, "channel": null, "tags": [1]});
    assert_eq!(pausing.result().await, json!({"option": "approve", "form": form}));
    is_page(&pausing.get("/ask", "").await, 200, &["Answered", "<strong>Approve</strong>", "Copies", "Yes"]);
    is_page(&pausing.get("", "").await, 200, &["Answered", "It has ended well"]);
}

#[tokio::test]
async fn exactly_one_of_two_concurrent_answers_is_accepted() {
    let pausing = pausing(ASK, 1).await;
    let (one, other) = ("form.reason=one&option=approve", "form.reason=other&option=approve");
    let (first, second) = tokio::join!(pausing.post("", FORM, one), pausing.post("", FORM, other));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 409]);
    let late = if first.status == 409 { first } else { second };
    is_page(&late, 409, &["Your answer was not taken", "Answered"]);
    is_page(&pausing.get("", "").await, 200, &["Answered"]);
    let given = pausing.result().await["form"]["reason"].clone();
    assert!(given == "one" || given == "other", "{given}");
    is_refused(&pausing.post("", JSON, r#"{"option": "approve"}"#).await, 409, "not_waiting");
}

#[tokio::test]
async fn an_invalid_form_keeps_the_entered_values() {
    let pausing = pausing(ASK, 1).await;
    let answer = pausing.post("/ask", FORM, "form.reason=x&form.copies=many&option=approve").await;
    is_page(&answer, 400, &["<code dir=\"auto\">copies</code>", "value=\"many\"", "action=\"ask\""]);
    let answer = pausing.post("", FORM, "form.reason=+&form.copies=3&option=approve").await;
    is_page(&answer, 400, &["<code dir=\"auto\">reason</code> is required", "value=\"3\""]);
    let answer = pausing.post("", FORM, "form.reason=x").await;
    is_page(&answer, 400, &["choose one of the answers", ">\nx</textarea>"]);
    assert_eq!(pausing.daemon.engine.admission().queue_status(pausing.id).await.unwrap().pauses.len(), 1);
}

#[tokio::test]
async fn a_question_can_be_read_and_answered_as_json() {
    let pausing = pausing(ASK, 1).await;
    let told = pausing.get("", "accept: application/json\r\n").await.json();
    assert_eq!((&told["automation"], &told["closed"]), (&json!("a"), &json!([])));
    let waiting = &told["waiting"][0];
    assert_eq!((&waiting["step"], &waiting["on"]["kind"]), (&json!("ask"), &json!("approval")));
    assert_eq!(waiting["form"][0]["name"], "reason");
    for (body, code) in [
        ("{", "bad_json"),
        ("[]", "bad_answer"),
        (r#"{"option": "maybe", "form": {"reason": "x"}}"#, "bad_answer"),
        (r#"{"option": "approve"}"#, "bad_answer"),
        (r#"{"option": "approve", "form": {"reason": "x", "reasn": "y"}}"#, "bad_answer"),
    ] {
        is_refused(&pausing.post("", JSON, body).await, 400, code);
    }
    is_refused(&pausing.post("", "content-type: text/plain\r\n", "x").await, 415, "unsupported_media_type");
    is_refused(&pausing.post("", "", "").await, 400, "bad_answer");
    let answer = pausing.post("", JSON, r#"{"option": "approve", "form": {"reason": "x"}}"#).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"status": "answered"})));
    assert_eq!(pausing.result().await["form"]["copies"], 2);
    let told = pausing.get("", "accept: application/json\r\n").await.json();
    assert_eq!((&told["waiting"], &told["closed"][0]["end"]), (&json!([]), &json!("answered")));
}

#[tokio::test]
async fn several_open_questions_are_answered_independently() {
    let pausing = pausing(SEVERAL, 3).await;
    let token = pausing.path.strip_prefix("/resume/").unwrap();
    let page = pausing.get("", "").await;
    let third = format!("action=\"{token}/item%5B1%5D\"");
    is_page(&page, 200, &["3 questions", "Is it legal?", "Item a?", "Item b?", &third]);
    is_refused(&pausing.post("", JSON, r#"{"option": "yes"}"#).await, 409, "several_waiting");
    assert_eq!(pausing.post("/item%5B1%5D", FORM, "option=no").await.status, 303);
    is_page(
        &pausing.get("/item%5B1%5D", "").await,
        200,
        &["Item b?", "<strong>No</strong>", "2 other questions"],
    );
    is_page(&pausing.get("", "").await, 200, &["2 questions", "Item a?"]);
    is_page(&pausing.get("/legal", "").await, 200, &["Is it legal?", "1 more question", "action=\"legal\""]);
    assert_eq!(pausing.post("/legal", FORM, "option=approve").await.status, 303);
    assert_eq!(pausing.post("", FORM, "option=yes").await.status, 303);
    assert_eq!(
        pausing.daemon.engine.admission().wait(pausing.id).await.unwrap().status(),
        model::Status::Succeeded
    );
    is_page(&pausing.get("", "").await, 200, &["3 questions", "none of them open"]);
    is_page(&pausing.get("/stranger", "").await, 404, &["no such question"]);
    is_refused(&pausing.post("/stranger", JSON, "{}").await, 404, "unknown_step");
}

#[tokio::test]
async fn an_event_is_delivered_as_json() {
    let pausing = pausing(EVENT, 1).await;
    is_page(
        &pausing.get("", "").await,
        200,
        &["Nothing for you to answer", "orderPaid", "for another 24 hours"],
    );
    let told = pausing.get("", "accept: application/json\r\n").await.json();
    assert_eq!(told["waiting"][0]["on"], json!({"kind": "event", "name": "orderPaid"}));
    let answer = pausing.post("", FORM, "amount=11").await;
    is_page(&answer, 415, &["sent as JSON"]);
    // An event that it does not wait for is accepted and ignored.
    for amount in [3, 11] {
        let answer = pausing.post("/paid", JSON, &format!("{{\"amount\": {amount}}}")).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"status": "delivered"})));
    }
    assert_eq!(pausing.result().await, json!({"amount": 11}));
    is_refused(&pausing.post("", JSON, "{}").await, 409, "not_waiting");
    is_refused(&pausing.post("/paid", JSON, "{}").await, 409, "not_waiting");
}

#[tokio::test]
async fn approvals_and_events_are_addressed_separately() {
    let pausing = pausing(BOTH, 2).await;
    is_page(&pausing.get("", "").await, 200, &["Go on?"]);
    is_refused(&pausing.post("", JSON, "{}").await, 409, "several_waiting");
    assert_eq!(pausing.post("/paid", JSON, "7").await.json(), json!({"status": "delivered"}));
    assert_eq!(pausing.post("/ask", FORM, "option=approve").await.status, 303);
    assert_eq!(pausing.result().await["two"], 7);
}

#[tokio::test]
async fn a_closed_question_rejects_answers() {
    let pausing = pausing(ASK, 1).await;
    assert!(pausing.daemon.engine.admission().cancel(pausing.id, "not today").await.unwrap());
    pausing.daemon.engine.admission().wait(pausing.id).await.unwrap();
    is_page(&pausing.get("", "").await, 200, &["No longer asked", "It was cancelled"]);
    let late = pausing.post("/ask", FORM, "form.reason=x&option=approve").await;
    is_page(&late, 409, &["Your answer was not taken", "No longer asked"]);
    is_refused(&pausing.post("", JSON, r#"{"option": "approve"}"#).await, 409, "not_waiting");
}

#[tokio::test]
async fn an_execution_without_a_question_shows_nothing_to_answer() {
    let pausing = pausing("trigger: {manual: {}}\nsteps: [{wait: 1h}]\n", 1).await;
    is_page(&pausing.get("", "").await, 200, &["Nothing to answer", "It may ask something later"]);
    is_refused(&pausing.post("", JSON, "{}").await, 409, "not_waiting");
}

#[tokio::test]
async fn a_forged_resume_address_is_404() {
    let pausing = pausing(ASK, 1).await;
    let token = pausing.path.strip_prefix("/resume/").unwrap();
    let other = if token.ends_with('A') { 'B' } else { 'A' };
    let forged = format!("{}{other}", &token[..token.len() - 1]);
    let swapped = format!("B{}", &token[1..]);
    for token in ["", "x", "%20", forged.as_str(), swapped.as_str(), &token[..22], &token.repeat(2)] {
        let path = format!("/resume/{token}");
        let answer = pausing.daemon.hook("GET", &path, "", b"").await;
        if token.contains('%') {
            is_refused(&answer, 400, "bad_path");
            continue;
        }
        is_page(&answer, 404, &["This link leads nowhere"]);
        let answer = pausing.daemon.hook("POST", &path, FORM, b"option=approve&form.reason=x").await;
        assert_eq!(answer.status, 404);
        let answer = pausing.daemon.hook("GET", &path, "accept: application/json\r\n", b"").await;
        is_refused(&answer, 404, "unknown_resume");
    }
    is_page(&pausing.get("/%ff", "").await, 404, &["This link leads nowhere"]);
    assert_eq!(pausing.daemon.engine.admission().queue_status(pausing.id).await.unwrap().pauses.len(), 1);
}

#[tokio::test]
async fn a_resume_body_over_64_kib_is_rejected_before_it_is_read() {
    let pausing = pausing(ASK, 1).await;
    let fits = " ".repeat((64 << 10) - 2);
    is_refused(&pausing.post("", JSON, &format!("{{{fits}}}")).await, 400, "bad_answer");
    let body = format!("option=approve&form.reason={}", "x".repeat(64 << 10));
    is_refused(&pausing.post("", FORM, &body).await, 413, "payload_too_large");
}

#[tokio::test]
async fn resume_requests_over_the_rate_limit_get_retry_after() {
    let pausing = pausing(ASK, 1).await;
    let mut refused = None;
    // At most fifty in a burst, and some more while these get responses.
    for _ in 0..5000 {
        let answer = pausing.get("", "accept: application/json\r\n").await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a refusal");
    is_refused(&refused, 429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn the_history_names_the_sender_of_an_answer() {
    let pausing = pausing(BOTH, 2).await;
    pausing.post("/ask", FORM, "option=approve").await;
    pausing.post("/paid", JSON, "7").await;
    pausing.result().await;
    let events = pausing.daemon.engine.store().events(pausing.id).await.unwrap().unwrap();
    let signals: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Signalled { signal, .. } => Some((signal.by.as_deref(), &signal.data)),
            _ => None,
        })
        .collect();
    assert_eq!(signals.len(), 2);
    assert!(signals.iter().all(|(by, _)| *by == Some("the resume address")), "{signals:?}");
    assert_eq!(signals[1].1, &Value::from(7));
}

#[tokio::test]
async fn a_page_shows_at_most_fifty_approvals() {
    let open = |count: usize| {
        format!(
            "trigger: {{manual: {{}}}}\nsteps:\n  - forEach: range({count})\n    concurrency: {count}\n    steps:\n      \
             - {{id: ask, waitFor: {{approval: {{message: Go on?}}}}, timeout: 1h}}\n"
        )
    };
    let further = "1 more question will be shown";
    is_page(&pausing(&open(51), 51).await.get("", "").await, 200, &["51 questions", further]);
    let page = pausing(&open(50), 50).await.get("", "").await;
    is_page(&page, 200, &["50 questions"]);
    assert!(!page.body.contains("will be shown"), "{}", page.body);
}
