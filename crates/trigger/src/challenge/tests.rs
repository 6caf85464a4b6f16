//! Tests of every sender's challenge and its response, and of similar requests that are not challenges.

use std::sync::Arc;

use model::automation::Trigger;
use pretty_assertions::assert_eq;
use text::Source;

use super::*;

fn challenge(webhook: &str) -> Challenge {
    let text = format!("trigger: {{webhook: {webhook}}}\nsteps: [{{set: {{a: 1}}}}]\n");
    let loaded = language::load::automation(Arc::new(Source::new("a.yaml", text)), "a");
    let value = loaded.value.unwrap_or_else(|| panic!("{}", loaded.report.render(false)));
    match &value.triggers[0].on {
        Trigger::Webhook(webhook) => webhook.challenge.clone().expect("it has one"),
        other => panic!("{other:?}"),
    }
}

/// Builds a request from its parts.
fn request(method: &str, query: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    Request {
        method: method.to_owned(),
        raw_query: query.to_owned(),
        headers: headers.collect(),
        body: body.to_owned().into(),
        ..Request::default()
    }
}

/// The response to a request as text; `-` if it is not a challenge.
fn challenge_response(challenge: &Challenge, request: &Request, secret: &str) -> String {
    let Some(asked) = detect(challenge, request) else { return "-".to_owned() };
    let key = Key::parse(secret, Encoding::Text, None, None).expect("a key");
    let now = "2026-01-01T00:00:00Z".parse().expect("an instant");
    match respond(challenge, &asked, request, &[key], now) {
        Ok(answer) => {
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("content-security-policy", DENY_ALL),
                ("cache-control", "no-store"),
                ("referrer-policy", "no-referrer"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{name}");
            }
            let kind = answer.header("content-type").unwrap_or("-").to_owned();
            format!("{} {kind} {}", answer.status, String::from_utf8_lossy(&answer.body.for_display()))
        }
        Err((rejection, reason)) => format!("{} {reason:?}", rejection.status),
    }
}

#[track_caller]
fn check(challenge: &Challenge, request: &Request, expected: &str) {
    assert_eq!(challenge_response(challenge, request, "test-secret"), expected);
}

const TEXT: &str = "200 text/plain; charset=utf-8";

#[test]
fn only_the_challenge_parameter_of_the_query_is_echoed() {
    let graph = challenge("{verify: none, challenge: microsoftGraph}");
    let get = |query: &str| request("GET", query, &[], "");
    let post = |query: &str| request("POST", query, &[], "");
    check(&graph, &post("validationToken=a%3Cb%3E+c"), &format!("{TEXT} a<b> c"));
    check(&graph, &get("validationToken=a"), "-");
    check(&graph, &post("validationToken="), "-");
    check(&graph, &post("validationtoken=a"), "-");
    check(&graph, &post("validationToken=a&validationToken=b"), "-");
    check(&graph, &post(&format!("validationToken={}", "a".repeat(1025))), "400 Form");
    let dropbox = challenge("{verify: none, challenge: dropbox}");
    check(&dropbox, &get("challenge=abc"), &format!("{TEXT} abc"));
    let own = challenge("{verify: none, challenge: {query: echo, method: POST}}");
    check(&own, &post("echo=1"), &format!("{TEXT} 1"));
    check(&own, &get("echo=1"), "-");
}

#[test]
fn meta_gets_a_response_if_its_token_is_valid() {
    let meta = challenge("{verify: none, challenge: {preset: meta, secret: '${{ secrets.x }}'}}");
    let get = |query: &str| request("GET", query, &[], "");
    let right = "hub.mode=subscribe&hub.verify_token=test-secret&hub.challenge=1158201444";
    check(&meta, &get(right), &format!("{TEXT} 1158201444"));
    check(&meta, &get(&right.replace("test-secret", "test-secres")), "401 Wrong");
    check(&meta, &get("hub.mode=subscribe&hub.challenge=1"), "401 Missing");
    check(&meta, &get(&right.replace("subscribe", "unsubscribe")), "-");
    check(&meta, &request("POST", right, &[], ""), "-");
}

#[test]
fn challenges_are_signed_as_in_the_golden_vectors() {
    let x = challenge("{verify: {preset: x, secret: '${{ secrets.x }}'}}");
    check(
        &x,
        &request("GET", "crc_token=crc123", &[], ""),
        r#"200 application/json {"response_token":"sha256=xzzEnP5fgVipzkHVT2SF7q2VraRmRSKYp1kAVeXU0k0="}"#,
    );
    let zoom = challenge("{verify: {preset: zoom, secret: '${{ secrets.x }}'}}");
    let ask = |text: &str| {
        let body = format!(r#"{{"event":"endpoint.url_validation","payload":{{"plainToken":"{text}"}}}}"#);
        request("POST", "", &[("content-type", "application/json")], &body)
    };
    check(
        &zoom,
        &ask("plain123"),
        r#"200 application/json {"plainToken":"plain123","encryptedToken":"a85343347b68f44a3f23160d484dceb4ad455306204e7503d8fd3dc85f692013"}"#,
    );
    check(
        &zoom,
        &request("POST", "", &[], r#"{"event":"meeting.started","payload":{"plainToken":"a"}}"#),
        "-",
    );
}

#[test]
fn a_challenge_cannot_obtain_a_signature_of_a_message() {
    let zoom = challenge("{verify: {preset: zoom, secret: '${{ secrets.x }}'}}");
    let body = |text: &str| {
        serde_json::json!({"event": "endpoint.url_validation", "payload": {"plainToken": text}}).to_string()
    };
    for text in ["v0:1700000000:{}", "{\"a\":1}", "a b", "a.b", "ä", &"a".repeat(257)] {
        check(&zoom, &request("POST", "", &[], &body(text)), "400 Form");
    }
    let long = body(&"a".repeat(5000));
    check(&zoom, &request("POST", "", &[], &long), "-");
}

#[test]
fn a_challenge_in_the_body_or_a_header_is_recognized() {
    let slack = challenge("{verify: {preset: slack, secret: '${{ secrets.x }}'}}");
    assert_eq!(slack.rule.guard, ChallengeGuard::Verified);
    let post = |headers: &[(&str, &str)], body: &str| request("POST", "", headers, body);
    check(&slack, &post(&[], r#"{"type":"url_verification","challenge":"3eZb"}"#), &format!("{TEXT} 3eZb"));
    check(&slack, &post(&[], r#"{"type":"event_callback","challenge":"3eZb"}"#), "-");
    check(&slack, &post(&[], r#"{"type":"url_verification","challenge":7}"#), "-");
    check(&slack, &post(&[], "{"), "-");
    let twitch = challenge("{verify: {preset: twitch, secret: '${{ secrets.x }}'}}");
    let kind = [("Twitch-Eventsub-Message-Type", "webhook_callback_verification")];
    check(&twitch, &post(&kind, r#"{"challenge":"pogchamp"}"#), &format!("{TEXT} pogchamp"));
    check(
        &twitch,
        &post(&[("Twitch-Eventsub-Message-Type", "notification")], r#"{"challenge":"pogchamp"}"#),
        "-",
    );
    let okta = challenge("{verify: none, challenge: okta}");
    check(
        &okta,
        &request("GET", "", &[("X-Okta-Verification-Challenge", "abc")], ""),
        r#"200 application/json {"verification":"abc"}"#,
    );
    check(&okta, &request("GET", "", &[], ""), "-");
}

#[test]
fn a_header_challenge_is_echoed_in_the_response_header() {
    let own = challenge("{verify: none, challenge: {header: X-Proof}}");
    let get = request("GET", "", &[("X-PROOF", "abc")], "");
    let asked = detect(&own, &get).expect("it asks");
    let now = "2026-01-01T00:00:00Z".parse().expect("an instant");
    let answer = respond(&own, &asked, &get, &[], now).expect("an answer");
    assert_eq!((answer.status, answer.header("x-proof"), answer.body.len()), (200, Some("abc"), 0));
    let trello = challenge("{verify: {preset: trello, secret: '${{ secrets.x }}'}}");
    check(&trello, &request("HEAD", "", &[], ""), "200 - ");
}

#[test]
fn an_expired_key_signs_nothing() {
    let x = challenge("{verify: {preset: x, secret: '${{ secrets.x }}'}}");
    let ask = request("GET", "crc_token=crc123", &[], "");
    let until = "2025-01-01T00:00:00Z".parse().ok();
    let key = Key::parse("test-secret", Encoding::Text, None, until).expect("a key");
    let now = "2026-01-01T00:00:00Z".parse().expect("an instant");
    let asked = detect(&x, &ask).expect("it asks");
    let answer = respond(&x, &asked, &ask, &[key], now);
    assert!(matches!(answer, Err((Rejection { status: 401, .. }, Reason::Wrong))));
}

#[test]
fn challenges_are_bounded_in_size() {
    let graph = challenge("{verify: none, challenge: microsoftGraph}");
    let echo = |bytes: usize| request("POST", &format!("validationToken={}", "a".repeat(bytes)), &[], "");
    check(&graph, &echo(MAX_ECHO), &format!("{TEXT} {}", "a".repeat(MAX_ECHO)));
    check(&graph, &echo(MAX_ECHO + 1), "400 Form");
    let slack = challenge("{verify: {preset: slack, secret: '${{ secrets.x }}'}}");
    let body = |bytes: usize| {
        let begin = r#"{"type":"url_verification","challenge":"3eZb""#;
        request("POST", "", &[], &format!("{begin}{}}}", " ".repeat(bytes - begin.len() - 1)))
    };
    check(&slack, &body(MAX_BODY), &format!("{TEXT} 3eZb"));
    check(&slack, &body(MAX_BODY + 1), "-");
    let x = challenge("{verify: {preset: x, secret: '${{ secrets.x }}'}}");
    let signed = |bytes: usize| {
        let asked = request("GET", &format!("crc_token={}", "a".repeat(bytes)), &[], "");
        challenge_response(&x, &asked, "test-secret")
    };
    assert!(signed(MAX_SIGNED).starts_with("200 application/json "), "{}", signed(MAX_SIGNED));
    assert_eq!(signed(MAX_SIGNED + 1), "400 Form");
}
