//! Challenges, deduplication and rate limits of webhooks.

use std::time::Duration;

use model::automation::{
    Challenge, ChallengeGuard, ChallengeKey, Dedup, DedupBy, RateLimit, RequestField, Trigger, WebhookTrigger,
};

use super::{check, good};

fn file(webhook: &str) -> String {
    format!("trigger:\n  webhook: {webhook}\nsteps: [{{action: log.info}}]\n")
}

#[track_caller]
fn check_webhook(webhook: &str, expected: &[&str]) {
    check(&file(webhook), expected);
}

fn webhook(text: &str) -> WebhookTrigger {
    match good(&file(text)).triggers.swap_remove(0).on {
        Trigger::Webhook(webhook) => *webhook,
        other => panic!("{other:?}"),
    }
}

fn signed(preset: &str, rest: &str) -> String {
    format!("{{verify: {{preset: {preset}, secret: '${{{{ secrets.x }}}}'}}{rest}}}")
}

#[test]
fn a_challenge_is_a_known_preset_or_an_echo_rule() {
    let challenge = |text: &str| webhook(&format!("{{verify: none, challenge: {text}}}")).challenge;
    let name = |text: &str| challenge(text).map(|challenge| challenge.name);
    assert_eq!(name("dropbox"), Some("dropbox"));
    assert_eq!(name("{preset: microsoftGraph}"), Some("microsoftGraph"));
    assert_eq!(name("none"), None);
    let own = challenge("{header: X-Proof, method: POST}").expect("it is one");
    assert_eq!((own.name, own.rule.method), ("echo", "POST"));
    assert_eq!(own.rule.value, Some(RequestField::Header("x-proof".into())));
    let wrong = |text: &str, expected: &[&str]| {
        check_webhook(&format!("{{verify: none, challenge: {text}}}"), expected);
    };
    wrong("slak", &["unknown-value 2:38"]);
    wrong("{}", &["missing-key 2:38"]);
    wrong("{query: a, header: b}", &["conflicting-keys 2:49"]);
    wrong("{query: a, secret: b}", &["unused-setting 2:49"]);
    wrong("{preset: dropbox, method: GET}", &["unused-setting 2:56"]);
    wrong("{preset: dropbox, secret: a}", &["unused-setting 2:64"]);
    wrong("{header: Set-Cookie}", &["forbidden-header 2:47"]);
    wrong("{query: ''}", &["empty-text 2:46"]);
}

#[test]
fn a_challenge_with_a_secret_must_name_it() {
    check_webhook("{verify: none, challenge: meta}", &["missing-key 2:38"]);
    check_webhook("{verify: none, challenge: zoom}", &["missing-key 2:38"]);
    // The key of another sender could be made to sign something of its own.
    check_webhook(&signed("hmac", ", challenge: x"), &["missing-key 2:76"]);
    let own = webhook("{verify: none, challenge: {preset: meta, secret: '${{ secrets.meta }}'}}").challenge;
    assert!(matches!(own, Some(Challenge { key: ChallengeKey::Dedicated(_), .. })));
    check_webhook("{verify: none, challenge: {preset: meta, secret: ''}}", &["empty-text 2:61"]);
}

#[test]
fn a_verify_preset_includes_its_challenge() {
    for (preset, takes_key) in
        [("slack", false), ("twitch", false), ("trello", false), ("x", true), ("zoom", true)]
    {
        let found = webhook(&signed(preset, "")).challenge.expect(preset);
        assert_eq!((found.name, matches!(found.key, ChallengeKey::FromVerify)), (preset, takes_key));
        assert!(webhook(&signed(preset, ", challenge: none")).challenge.is_none(), "{preset}");
    }
    assert!(webhook(&signed("github", "")).challenge.is_none());
    assert!(webhook(&signed("meta", "")).challenge.is_none(), "its token is another secret");
}

#[test]
fn a_challenge_that_delivers_a_secret_needs_a_secret_name() {
    check_webhook("{verify: none, challenge: asana}", &["missing-key 2:38"]);
    let paired = webhook(&signed("asana", ", challenge: asana"));
    assert!(
        matches!(paired.challenge, Some(Challenge { ref rule, .. }) if rule.guard == ChallengeGuard::Pairing)
    );
    assert_eq!(paired.verify.and_then(|verify| verify.secret_name()).as_deref(), Some("x"));
    let two = "{verify: {preset: asana, keys: [{secret: '${{ secrets.x }}'}, {secret: '${{ secrets.y }}'}]}, challenge: asana}";
    check_webhook(two, &["missing-key 2:117"]);
}

#[test]
fn the_dedup_key_is_declared_or_known_from_the_preset() {
    let dedup = |text: &str| webhook(text).dedup.expect(text);
    let header = |name: &'static str| DedupBy::Field(RequestField::Header(name.into()));
    let own = dedup("{verify: none, dedup: {by: {header: X-Event-Id}, window: 2d}}");
    assert_eq!(own, Dedup { by: header("x-event-id"), window: Duration::from_secs(172_800) });
    let pointer = DedupBy::Field(RequestField::Body("/event/id".into()));
    assert_eq!(dedup("{verify: none, dedup: {by: {json: /event/id}}}").by, pointer);
    assert_eq!(dedup(&signed("pagerduty", ", dedup: {}")).by, pointer);
    assert_eq!(dedup(&signed("github", ", dedup: {by: id}")).by, header("x-github-delivery"));
    assert_eq!(dedup(&signed("svix", ", dedup: {by: id}")).by, header("svix-id"));
    assert_eq!(dedup(&signed("github", ", dedup: {by: mac}")).by, DedupBy::Signed);
    assert_eq!(dedup(&signed("github", ", dedup: {}")).window, Duration::from_secs(7 * 86_400));
    check_webhook("{verify: none, dedup: {}}", &["missing-key 2:34"]);
    check_webhook("{verify: none, dedup: {by: mac}}", &["missing-key 2:39"]);
    check_webhook("{verify: none, dedup: {by: md5}}", &["unknown-value 2:39"]);
    check_webhook("{verify: none, dedup: {by: {json: id}}}", &["invalid-name 2:46"]);
    check_webhook("{verify: none, dedup: {by: {header: a, json: /b}}}", &["conflicting-keys 2:51"]);
    check_webhook("{verify: none, dedup: {by: {header: a}, window: 31d}}", &["out-of-range 2:60"]);
    check_webhook("{verify: none, dedup: {by: {header: a}, window: 5s}}", &["out-of-range 2:60"]);
}

#[test]
fn a_rate_limit_has_a_maximum_a_period_and_a_burst() {
    let rate = |text: &str| webhook(&format!("{{verify: none, rateLimit: {text}}}")).rate_limit;
    let of = |max, seconds, burst| Some(RateLimit { max, per: Duration::from_secs(seconds), burst });
    assert_eq!(rate("{max: 50}"), of(50, 1, 50));
    assert_eq!(rate("{max: 50, per: 1m, burst: 5}"), of(50, 60, 5));
    check_webhook("{verify: none, rateLimit: {per: 1m}}", &["missing-key 2:39"]);
    check_webhook("{verify: none, rateLimit: {max: 0}}", &["out-of-range 2:44"]);
    check_webhook("{verify: none, rateLimit: {max: 1, per: 2d}}", &["out-of-range 2:52"]);
    check_webhook("{verify: none, rateLimit: 50}", &["wrong-type 2:38"]);
}
