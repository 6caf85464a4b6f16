//! The rows that are tried at a real daemon.

use reqwest::Method;
use serde_json::{Value, json};

use super::{HOOK, Tried};

/// The beginning of an automation whose one step sets a variable.
const SET: &str = "trigger: {manual: {}}\nsteps: [{set: {a:";

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "a YAML file",
        Tried::File(|| {
            let text = |bytes: usize| format!("{HOOK}#{}", "x".repeat(bytes - HOOK.len() - 1));
            (text(256 << 10), text((256 << 10) + 1), "yaml-too-large")
        }),
    ),
    (
        "steps of an automation",
        Tried::File(|| {
            let text =
                |count| format!("trigger: {{manual: {{}}}}\nsteps:\n{}", "  - {set: {a: 1}}\n".repeat(count));
            (text(1000), text(1001), "too-many-steps")
        }),
    ),
    (
        "names and ids",
        Tried::File(|| {
            let text = |count| format!("id: {}\n{HOOK}", "a".repeat(count));
            (text(100), text(101), "invalid-id")
        }),
    ),
    (
        "an expression",
        Tried::File(|| {
            let text = |count: usize| {
                format!(
                    "trigger: {{manual: {{}}}}\nsteps: [{{set: {{a: \"${{{{'{}'}}}}\"}}}}]\n",
                    "x".repeat(count - 2)
                )
            };
            (text(4096), text(4097), "expression-syntax")
        }),
    ),
    (
        "retries",
        Tried::File(|| {
            let text = |count| {
                format!(
                    "trigger: {{manual: {{}}}}\nsteps: [{{action: http.request, retry: {count}, with: {{method: GET, url: \"http://a.example\"}}}}]\n"
                )
            };
            (text(100), text(101), "out-of-range")
        }),
    ),
    (
        "a pause",
        Tried::File(|| {
            let text = |days| format!("trigger: {{manual: {{}}}}\nsteps: [{{wait: {days}d}}]\n");
            (text(366), text(367), "out-of-range")
        }),
    ),
    (
        "options of an approval",
        Tried::File(|| {
            let text = |count: usize| {
                let options: Vec<String> = (0..count).map(|number| format!("o{number}")).collect();
                format!(
                    "trigger: {{manual: {{}}}}\nsteps: [{{waitFor: {{approval: {{message: Go, options: [{}]}}}}, timeout: 1h}}]\n",
                    options.join(", ")
                )
            };
            (text(20), text(21), "out-of-range")
        }),
    ),
    (
        "name of an event",
        Tried::Api(|| {
            let emit = |count, status| {
                (Method::POST, "/events".to_owned(), json!({"name": "e".repeat(count)}), status)
            };
            vec![emit(200, 200), emit(201, 422)]
        }),
    ),
    (
        "stored secrets, including tokens of connections",
        Tried::Api(|| {
            let put = |count, status| {
                (Method::PUT, "/secrets/large".to_owned(), json!({"value": "x".repeat(count)}), status)
            };
            vec![put(64 << 10, 200), put((64 << 10) + 1, 422)]
        }),
    ),
    (
        "a value of the state",
        Tried::Api(|| {
            let put = |count, status| {
                (Method::PUT, format!("/state/hook/{}", "k".repeat(count)), json!({"value": 1}), status)
            };
            vec![put(512, 200), put(513, 422)]
        }),
    ),
    (
        "tokens; their names; their validity",
        Tried::Api(|| {
            let create = |name: usize, days: i64, status| {
                let body =
                    json!({"name": "n".repeat(name), "scopes": ["read"], "validFor": days * 24 * 3600});
                (Method::POST, "/tokens".to_owned(), body, status)
            };
            vec![create(60, 3660, 201), create(61, 1, 422), create(59, 3661, 422)]
        }),
    ),
    (
        "login links",
        Tried::Api(|| {
            let link = |status| (Method::POST, "/session/link".to_owned(), json!({}), status);
            (0..100).map(|_| link(201)).chain([link(429)]).collect()
        }),
    ),
    (
        "saved payloads",
        Tried::Api(|| {
            let put = |count, status| {
                (
                    Method::PUT,
                    format!("/automations/hook/payloads/{}", "n".repeat(count)),
                    json!({"body": 1}),
                    status,
                )
            };
            vec![put(100, 200), put(101, 422)]
        }),
    ),
    (
        "recorded executions of one trial",
        Tried::Api(|| {
            let ids = |count: usize| -> Vec<String> {
                (0..count).map(|number| format!("0190a0a0-0000-7000-8000-{number:012}")).collect()
            };
            let trial = |count, status| {
                (
                    Method::POST,
                    "/trials".to_owned(),
                    json!({"path": "automations/hook.yaml", "text": HOOK, "executions": ids(count)}),
                    status,
                )
            };
            vec![trial(51, 422)]
        }),
    ),
    (
        "body | 1 MiB",
        Tried::Api(|| {
            let validate = |bytes: usize, status| {
                let body = |text: usize| json!({"path": "automations/x.yaml", "text": "x".repeat(text)});
                let around = body(0).to_string().len();
                (Method::POST, "/validate".to_owned(), body(bytes - around), status)
            };
            vec![validate(1 << 20, 200), validate((1 << 20) + 1, 413)]
        }),
    ),
    (
        "a [deployment]",
        Tried::Api(|| {
            let files = |count: usize, bytes: usize| -> Value {
                let file = |number| json!({"path": format!("automations/f{number}.yaml"), "text": format!("#{}", "x".repeat(bytes))});
                (0..count).map(file).collect()
            };
            // 31 MiB of texts: the request has at most 32 MiB. A longer one is refused before it has arrived, which breaks the connection.
            vec![(Method::POST, "/plan".to_owned(), json!({"files": files(124, 250 << 10)}), 200)]
        }),
    ),
    (
        "body | 6 MiB",
        Tried::Hook(|| {
            let bytes = |count| ("application/octet-stream".to_owned(), vec![0; count]);
            let with = |(kind, body), status| (kind, body, status);
            vec![with(bytes(6 << 20), 200), with(bytes((6 << 20) + 1), 413)]
        }),
    ),
    (
        "JSON | 64 levels",
        Tried::Hook(|| {
            let kind = || "application/json".to_owned();
            let deep = |count| format!("{}1{}", "[".repeat(count), "]".repeat(count)).into_bytes();
            let wide = |count: usize| format!("[{}1]", "1,".repeat(count - 1)).into_bytes();
            vec![
                (kind(), deep(64), 200),
                (kind(), deep(65), 400),
                (kind(), wide(249_999), 200),
                (kind(), wide(250_002), 400),
            ]
        }),
    ),
    (
        "multipart",
        Tried::Hook(|| {
            let form = |count: usize, status| {
                let part = |number| {
                    format!("--b\r\ncontent-disposition: form-data; name=\"n{number}\"\r\n\r\n1\r\n")
                };
                let parts: String = (0..count).map(part).collect();
                (
                    "multipart/form-data; boundary=b".to_owned(),
                    format!("{parts}--b--\r\n").into_bytes(),
                    status,
                )
            };
            vec![form(200, 200), form(201, 400)]
        }),
    ),
    (
        "path and query",
        Tried::Head(|| {
            let target =
                |bytes: usize, status| (format!("GET /{} HTTP/1.1\r\n", "x".repeat(bytes - 1)), status);
            vec![target(8 << 10, 404), target((8 << 10) + 1, 414)]
        }),
    ),
    (
        "headers | 64 fields",
        Tried::Head(|| {
            // With the fields for the host and the connection.
            let fields = |count: usize, status| {
                let fields: String = (0..count - 2).map(|number| format!("x-{number}: 1\r\n")).collect();
                (format!("GET /healthz HTTP/1.1\r\n{fields}"), status)
            };
            vec![fields(64, 200), fields(65, 431)]
        }),
    ),
    (
        "an expression",
        Tried::File(|| {
            let text =
                |operations: usize| format!("{SET} \"${{{{ 1{} }}}}\"}}}}]\n", " + 1".repeat(operations));
            (text(200), text(201), "expression-syntax")
        }),
    ),
    (
        "an expression",
        Tried::File(|| {
            let text = |brackets: usize| {
                format!("{SET} \"${{{{ {}1{} }}}}\"}}}}]\n", "(".repeat(brackets), ")".repeat(brackets))
            };
            (text(50), text(51), "expression-syntax")
        }),
    ),
    (
        "retries",
        Tried::File(|| {
            let text = |hours| {
                format!(
                    "trigger: {{manual: {{}}}}\nsteps: [{{set: {{a: 1}}, retry: {{max: 1, delay: {hours}h, maxDelay: {hours}h}}}}]\n"
                )
            };
            (text(24), text(25), "out-of-range")
        }),
    ),
    (
        "iterations of a loop",
        Tried::File(|| {
            let text = |count| {
                format!(
                    "trigger: {{manual: {{}}}}\nsteps: [{{forEach: range(3), concurrency: {count}, steps: [{{set: {{a: 1}}}}]}}]\n"
                )
            };
            (text(100), text(101), "out-of-range")
        }),
    ),
    (
        "iterations of a `repeat`",
        Tried::File(|| (repeat(1_000_000, 24), repeat(1_000_001, 24), "out-of-range")),
    ),
    ("iterations of a `repeat`", Tried::File(|| (repeat(2, 24), repeat(2, 25), "out-of-range"))),
    (
        "finished executions of one automation",
        Tried::File(|| {
            let text = |count| {
                format!(
                    "trigger: {{manual: {{}}}}\nretention: {{count: {count}}}\nsteps: [{{set: {{a: 1}}}}]\n"
                )
            };
            (text(1_000_000), text(1_000_001), "out-of-range")
        }),
    ),
    (
        "body | 6 MiB",
        Tried::File(|| (webhook("maxBody: 512MiB"), webhook("maxBody: 513MiB"), "out-of-range")),
    ),
    (
        "records of deduplication",
        Tried::File(|| {
            let text = |days| webhook(&format!("dedup: {{by: {{header: X-Id}}, window: {days}d}}"));
            (text(30), text(31), "out-of-range")
        }),
    ),
    (
        "time that a synchronous caller waits",
        Tried::File(|| {
            (webhook("mode: sync, timeout: 15m"), webhook("mode: sync, timeout: 16m"), "out-of-range")
        }),
    ),
    (
        "headers of an answer",
        Tried::File(|| {
            let text = |count: usize| {
                let headers: Vec<String> = (0..count).map(|number| format!("x-{number}: a")).collect();
                webhook(&format!("respond: {{headers: {{{}}}}}", headers.join(", ")))
            };
            (text(64), text(65), "out-of-range")
        }),
    ),
    // Of schedules, and of polls.
    (
        "period of `every`",
        Tried::File(|| {
            let text = |period: &str| {
                format!("trigger: {{schedule: {{every: {period}}}}}\nsteps: [{{set: {{a: 1}}}}]\n")
            };
            (text("1s"), text("999ms"), "out-of-range")
        }),
    ),
    (
        "period of `every`",
        Tried::File(|| {
            let text = |period: &str| {
                format!(
                    "trigger: {{poll: {{action: http.request, with: {{url: \"http://a.example\"}}, every: {period}, items: result.body}}}}\nsteps: [{{set: {{a: 1}}}}]\n"
                )
            };
            (text("1s"), text("999ms"), "out-of-range")
        }),
    ),
    (
        "connecting, the whole call",
        Tried::File(|| {
            let text = |minutes| {
                format!(
                    "trigger: {{manual: {{}}}}\nsteps: [{{action: http.request, with: {{method: GET, url: \"http://a.example\", timeout: {minutes}m}}}}]\n"
                )
            };
            (text(15), text(16), "wrong-input")
        }),
    ),
    (
        "`fetchAll`, `paging` of `http.request`",
        Tried::File(|| {
            let text = |items| {
                format!(
                    "trigger: {{manual: {{}}}}\nsteps: [{{action: http.request, with: {{method: GET, url: \"http://a.example\", paging: {{maxItems: {items}}}}}}}]\n"
                )
            };
            (text(100_000), text(100_001), "wrong-input")
        }),
    ),
];

/// A loop with a bound and a delay.
fn repeat(max: u32, hours: u32) -> String {
    format!(
        "trigger: {{manual: {{}}}}\nsteps: [{{repeat: {{max: {max}, delay: {hours}h}}, steps: [{{set: {{a: 1}}}}]}}]\n"
    )
}

/// A webhook with further settings.
fn webhook(settings: &str) -> String {
    format!("trigger: {{webhook: {{verify: none, {settings}}}}}\nsteps: [{{set: {{a: 1}}}}]\n")
}
