//! Triggers.

use std::time::Duration;

use model::automation::{Cadence, Misfire, Overlap, OwnEventTrigger, Trigger, WebhookMode};

use super::{check, good, shown};

fn file(trigger: &str) -> String {
    format!("trigger: {trigger}\nsteps: [{{action: log.info}}]\n")
}

#[track_caller]
fn check_trigger(trigger: &str, expected: &[&str]) {
    check(&file(trigger), expected);
}

/// The diagnostics of a static response, with columns relative to its first key.
#[track_caller]
fn check_response(response: &str, expected: &[&str]) {
    let text = file(&format!("{{webhook: {{respond: {{{response}}}}}}}"));
    let found: Vec<String> =
        super::entries(&text).iter().map(|entry| format!("{} {}", entry.code, entry.column - 30)).collect();
    assert_eq!(found, expected, "{}", shown(&text));
}

#[test]
fn an_invalid_schema_is_reported_at_its_position() {
    let schema = |schema: &str, expected: &[&str]| {
        check(
            &format!(
                "trigger:\n  webhook:\n    verify: none\n    schema: {schema}\nsteps: [{{action: log.info}}]\n"
            ),
            expected,
        );
    };
    schema("{type: object, properties: {a: {type: string}}}", &[]);
    schema("{type: objekt}", &["invalid-schema 4:20"]);
    schema("{properties: {a: {pattern: '('}}}", &["invalid-schema 4:40"]);
    schema("{$ref: 'https://example.com/order.json'}", &["invalid-schema 4:20"]);
    schema("{propertes: {a: {}}}", &["unknown-keyword 4:14"]);
    schema("{properties: {a: {const: '${{ inputs.a }}'}}}", &["no-expression-here 4:39"]);
    schema("order.json", &["wrong-type 4:13"]);
}

#[test]
fn a_trigger_has_exactly_one_kind() {
    check_trigger("{}", &["missing-key 1:10"]);
    check_trigger("{if: a}", &["missing-key 1:11"]);
    check_trigger("{webhook: {}, manual: {}}", &["conflicting-keys 1:24"]);
    check_trigger("webhook", &["wrong-type 1:10"]);
    check_trigger("", &["wrong-type 1:8"]);
    check_trigger("{manual: {a: 1}}", &["unknown-key 1:20"]);
    // A key that means nothing was probably meant as a kind, and is told alone.
    check_trigger("{webhok: {}}", &["unknown-key 1:11"]);
    check_trigger("{clock: {every: 5m}}", &["unknown-key 1:11"]);
    check_trigger("{iff: a}", &["missing-key 1:11", "unknown-key 1:11"]);
    check("steps: []\n", &["missing-key 1:1", "empty-automation 1:8"]);
}

#[test]
fn a_trigger_condition_is_a_key_beside_the_kind() {
    let automation = good(&file("{manual: {}, if: trigger.results.body.data.a}"));
    assert_eq!(
        automation.triggers[0].condition.as_ref().map(|condition| condition.text().to_owned()).as_deref(),
        Some("trigger.results.body.data.a")
    );
    check_trigger("{manual: {}, if: a b}", &["expression-syntax 1:29"]);
}

#[test]
fn a_webhook_has_its_defaults() {
    let Trigger::Webhook(webhook) = good(&file("{webhook: {}}")).triggers.swap_remove(0).on else {
        panic!("no webhook")
    };
    assert_eq!(webhook.mode, WebhookMode::Async);
    assert_eq!(webhook.methods, ["GET", "POST", "PUT", "PATCH", "DELETE"]);
    assert_eq!(
        (webhook.timeout, webhook.max_body, webhook.respond),
        (Duration::from_secs(30), 6 << 20, None)
    );
}

#[test]
fn webhook_settings_have_bounds() {
    check_trigger("{webhook: {mode: synch}}", &["unknown-value 1:27"]);
    check_trigger("{webhook: {methods: [get]}}", &["unknown-value 1:31"]);
    check_trigger("{webhook: {methods: [HEAD]}}", &["unknown-value 1:31"]);
    check_trigger("{webhook: {methods: []}}", &["empty-list 1:30"]);
    check_trigger("{webhook: {methods: [GET, GET]}}", &["duplicate-value 1:36"]);
    check_trigger("{webhook: {maxBody: 513MiB}}", &["out-of-range 1:30"]);
    check_trigger("{webhook: {maxBody: 0B}}", &["out-of-range 1:30"]);
    check_trigger("{webhook: {maxBody: 1000}}", &["invalid-size 1:30"]);
    check_trigger("{webhook: {mode: sync, timeout: 16m}}", &["out-of-range 1:42"]);
    check_trigger("{webhook: {mode: sync, timeout: 500ms}}", &["out-of-range 1:42"]);
    check_trigger("{webhook: {verify: {}}}", &["missing-key 1:29"]);
}

#[test]
fn webhook_settings_without_effect_in_the_mode_are_reported() {
    check_trigger("{webhook: {timeout: 5s}}", &["sync-only 1:21"]);
    check_trigger("{webhook: {mode: sync, respond: {body: x}}}", &["unused-setting 1:33"]);
}

#[test]
fn a_static_response_must_be_valid_http() {
    check_response("status: 199", &["out-of-range 9"]);
    check_response("status: 600", &["out-of-range 9"]);
    check_response("status: '200'", &["wrong-type 9"]);
    check_response("status: 304, body: x", &["body-not-sent 14"]);
    check_response("contentType: text", &["invalid-content-type 14"]);
    check_response("contentType: text/plain", &["unused-setting 1"]);
    check_response("contentType: application/json, body: '{}'", &[]);
    check_response("contentType: application/problem+json, body: '{\"a\": }'", &["invalid-json 53"]);
    check_response("contentType: text/plain, body: '{'", &[]);
    check_response("body: '${{ x }}'", &["no-expression-here 8"]);
    check_response("body: [a]", &["wrong-type 8"]);
    check_response("headers: {a: 1}", &["wrong-type 14"]);
    check_response("headers: {a: '${{ x }}'}", &["no-expression-here 15"]);
    check_response("headers: {a: \"b\\r\\nc: d\"}", &["forbidden-header 14"]);
}

#[test]
fn headers_set_by_the_server_are_rejected() {
    for name in [
        "Content-Length",
        "transfer-encoding",
        "connection",
        "Set-Cookie",
        "Access-Control-Allow-Origin",
        "content-type",
        "'a b'",
        "'a:'",
        "''",
    ] {
        check_response(&format!("headers: {{{name}: x}}"), &["forbidden-header 11"]);
    }
    check_response("headers: {X-Request-Id: x, cache-control: no-cache}", &[]);
    let many = |count| (0..count).map(|number| format!("x-{number}: a")).collect::<Vec<_>>().join(", ");
    check_response(&format!("headers: {{{}}}", many(64)), &[]);
    check_response(&format!("headers: {{{}}}", many(65)), &["out-of-range 11"]);
    let long = |bytes: usize| format!("headers: {{x: {}}}", "a".repeat(bytes - 1));
    check_response(&long(16 << 10), &[]);
    check_response(&long((16 << 10) + 1), &["out-of-range 11"]);
}

#[test]
fn a_json_error_in_a_body_is_reported_at_its_position() {
    let text = "trigger:\n  webhook:\n    respond:\n      contentType: application/json\n      body: |\n        {\n          \"a\": 1,\n          \"b\": x\n        }\nsteps: [{action: log.info}]\n";
    check(text, &["invalid-json 8:16"]);
}

#[test]
fn a_schedule_has_one_cadence() {
    let cadence = |trigger: &str| {
        let Trigger::Schedule(schedule) =
            good(&file(&format!("{{schedule: {trigger}}}"))).triggers.swap_remove(0).on
        else {
            panic!("no schedule")
        };
        schedule
    };
    let schedule = cadence("{every: 90s}");
    assert_eq!(schedule.cadence, Cadence::Every(Duration::from_secs(90)));
    assert_eq!(
        (schedule.timezone.name.as_str(), schedule.misfire, schedule.overlap),
        ("UTC", Misfire::Latest, Overlap::Skip)
    );
    assert_eq!(cadence("{hourly: {minute: 59}}").cadence, Cadence::Hourly { minute: 59 });
    let weekly = format!("{:?}", cadence("{weekly: {on: sun, at: 8:05}}").cadence);
    assert_eq!(weekly, "Weekly { on: [Sun], at: LocalTime { hour: 8, minute: 5 } }");
    assert_eq!(cadence("{cron: '0 8 * * 1-5'}").cadence, Cadence::Cron("0 8 * * 1-5".to_owned()));
    check_trigger("{schedule: {}}", &["missing-key 1:21"]);
    check_trigger("{schedule: {every: 5m, cron: '* * * * *'}}", &["conflicting-keys 1:33"]);
    check_trigger("{schedule: 5m}", &["wrong-type 1:21"]);
    check_trigger("{schedule: }", &["wrong-type 1:19"]);
}

#[test]
fn schedule_settings_have_bounds() {
    check_trigger("{schedule: {every: 500ms}}", &["out-of-range 1:29"]);
    check_trigger("{schedule: {every: 5}}", &["invalid-duration 1:29"]);
    check_trigger("{schedule: {hourly: {minute: 60}}}", &["out-of-range 1:39"]);
    check_trigger("{schedule: {hourly: {}}}", &["missing-key 1:30"]);
    check_trigger("{schedule: {daily: {at: '24:00'}}}", &["invalid-time 1:34"]);
    check_trigger("{schedule: {daily: {at: '8:5'}}}", &["invalid-time 1:34"]);
    check_trigger("{schedule: {daily: {at: 8am}}}", &["invalid-time 1:34"]);
    check_trigger("{schedule: {weekly: {on: [], at: '08:00'}}}", &["empty-list 1:35"]);
    check_trigger("{schedule: {weekly: {on: [monday], at: '08:00'}}}", &["unknown-value 1:36"]);
    check_trigger("{schedule: {weekly: {on: [mon, mon], at: '08:00'}}}", &["duplicate-value 1:41"]);
    check_trigger("{schedule: {weekly: {on: mon}}}", &["missing-key 1:31"]);
    check_trigger("{schedule: {every: 5m, misfire: never}}", &["unknown-value 1:42"]);
    check_trigger("{schedule: {every: 5m, overlap: no}}", &["unknown-value 1:42"]);
    check_trigger("{schedule: {every: 5m, timezone: '${{ env.TZ }}'}}", &["no-expression-here 1:44"]);
    check_trigger("{schedule: {cron: ''}}", &["empty-text 1:28"]);
}

#[test]
fn a_verification_names_a_preset_and_has_a_secret() {
    let verify = |yaml: &str, expected: &[&str]| {
        check(&format!("trigger: {{webhook: {{verify: {yaml}}}}}\nsteps: [{{set: {{_a: 1}}}}]\n"), expected);
    };
    verify("none", &[]);
    verify("{secret: '${{ secrets.a }}'}", &[]);
    verify("{preset: stripe, keys: [{secret: '${{ secrets.a }}', notAfter: '2027-01-31T00:00:00Z'}]}", &[]);
    verify("{preset: basic, user: ann, password: '${{ secrets.a }}'}", &[]);
    verify("no", &["unknown-value 1:29"]);
    verify("{preset: strip, secret: '${{ secrets.a }}'}", &["unknown-value 1:38"]);
    verify("{preset: stripe}", &["missing-key 1:30"]);
    verify("{secret: ''}", &["empty-text 1:38"]);
    verify("{secret: '${{ secrets.a }}', keys: []}", &["conflicting-keys 1:58"]);
    verify("{keys: []}", &["empty-list 1:36"]);
    verify("{preset: gitlab, secret: '${{ secrets.a }}', content: x}", &["unused-setting 1:74"]);
    verify("{secret: '${{ secrets.a }}', content: '{bdy}'}", &["unknown-value 1:67"]);
    verify("{secret: '${{ secrets.a }}', content: '{timestamp}.{body}'}", &["missing-key 1:67"]);
    verify("{keys: [{secret: '${{ secrets.a }}', notAfter: soon}]}", &["invalid-time 1:76"]);
}

/// The own event that starts a file; `None` if its trigger may be the event of a connector.
fn own_event(trigger: &str) -> Option<OwnEventTrigger> {
    let automation = good(&file(trigger));
    automation.triggers[0].on.own_event().cloned()
}

#[test]
fn declared_data_or_a_name_of_another_form_make_an_own_event() {
    for trigger in
        ["{event: paid}", "{event: order-paid}", "{event: order.paid.twice}", "{event: order.paid, data: {}}"]
    {
        assert!(own_event(trigger).is_some(), "{trigger}");
    }
    for trigger in ["{event: wiki.pageChanged}", "{event: wiki.pageChanged, connection: mainWiki, every: 5m}"]
    {
        assert!(own_event(trigger).is_none(), "{trigger}");
    }
}

#[test]
fn data_of_an_event_have_the_form_of_inputs() {
    let event = own_event(
        "{event: order.paid, data: {order: {type: text, required: true}, amount: number, tags: list, size: {options: [s, l]}}}",
    );
    let event = event.expect("it is an own event");
    let kinds: Vec<(&str, String, bool)> =
        event.data.iter().map(|input| (input.name.as_str(), input.kind.describe(), input.required)).collect();
    let expected = [
        ("order", "text", true),
        ("amount", "number", false),
        ("tags", "list of anything", false),
        ("size", "one of s, l", false),
    ];
    assert_eq!(kinds, expected.map(|(name, kind, required)| (name, kind.to_owned(), required)));
    check_trigger("{event: order.paid, data: {order: string}}", &["unknown-value 1:44"]);
    check_trigger("{event: order.paid, data: {order: choice}}", &["missing-key 1:44"]);
    check_trigger("{event: order.paid, data: {order: {typ: text}}}", &["unknown-key 1:45"]);
    check_trigger("{event: order.paid, data: {'2nd': text}}", &["invalid-name 1:37"]);
    check_trigger("{event: order.paid, data: [order]}", &["wrong-type 1:37"]);
    check_trigger("{event: order.paid, data: {order: 7}}", &["wrong-type 1:44"]);
}

#[test]
fn the_name_of_an_own_event_is_literal_and_has_no_keys_of_a_connector() {
    check_trigger("{event: 'order-${{ inputs.a }}'}", &["no-expression-here 1:25"]);
    check_trigger(&format!("{{event: {}}}", "a".repeat(200)), &[]);
    check_trigger(&format!("{{event: {}}}", "a".repeat(201)), &["invalid-name 1:18"]);
    check_trigger("{event: order.paid, data: {a: text}, connection: crm}", &["conflicting-keys 1:47"]);
    check_trigger("{event: order.paid, data: {a: text}, every: 5m}", &["conflicting-keys 1:47"]);
    check_trigger("{schedule: {every: 5m}, data: {a: text}}", &["unused-setting 1:34"]);
}

#[test]
fn the_key_trigger_is_the_trigger_main_of_a_list() {
    let alone = good("trigger: {webhook: {verify: none}}\nsteps: [{set: {_a: 1}}]\n");
    let listed = good("triggers: [{id: main, webhook: {verify: none}}]\nsteps: [{set: {_a: 1}}]\n");
    for automation in [&alone, &listed] {
        let keys: Vec<String> =
            automation.triggers.iter().map(|one| automation.trigger_key(&one.id).to_string()).collect();
        assert_eq!(keys, ["test"]);
    }
    let two =
        good("triggers: [{id: a, manual: {}}, {id: b, schedule: {every: 5m}}]\nsteps: [{set: {_a: 1}}]\n");
    let keys: Vec<String> = two.triggers.iter().map(|one| two.trigger_key(&one.id).to_string()).collect();
    assert_eq!(keys, ["test#a", "test#b"]);
}

#[test]
fn mistakes_in_a_list_of_triggers_are_reported() {
    let list = |yaml: &str, expected: &[&str]| {
        check(&format!("triggers: {yaml}\nsteps: [{{set: {{_a: 1}}}}]\n"), expected);
    };
    list("[{id: a, manual: {}}, {id: b, webhook: {}}]", &[]);
    list("[]", &["empty-list 1:11"]);
    list("{manual: {}}", &["wrong-type 1:12"]);
    list("[{manual: {}}]", &["missing-key 1:13"]);
    list("[{id: a}]", &["missing-key 1:13"]);
    list("[{id: '2nd', manual: {}}]", &["invalid-id 1:18"]);
    list("[{id: a, webhook: {}}, {id: a, schedule: {every: 5m}}]", &["duplicate-id 1:39"]);
    list("[{id: a, manual: {}}, {id: b, manual: {}}]", &["conflicting-keys 1:41"]);
    list("[{id: a, manual: {}, respond: 1}]", &["unknown-key 1:32"]);
    check(
        "trigger: {manual: {}}\ntriggers: [{id: a, webhook: {}}]\nsteps: [{set: {_a: 1}}]\n",
        &["conflicting-keys 2:1"],
    );
    check("trigger: {id: a, manual: {}}\nsteps: [{set: {_a: 1}}]\n", &["unknown-key 1:11"]);
}
