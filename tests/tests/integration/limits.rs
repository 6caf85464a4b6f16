//! The manual's table of limits at a real daemon: what is at a documented value passes, and what is just above it is refused with the reason.

use reqwest::Method;
use serde_json::{Value, json};
use tests::project::repository;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::site::{Site, send};

const HOOK: &str = "trigger: {webhook: {verify: none}}\nsteps: [{set: {a: 1}}]\n";
const WAITS: &str =
    "trigger: {manual: {}}\nsteps: [{id: ask, waitFor: {approval: {message: Go?}}, timeout: 1h}]\n";

/// A file at the limit, the file above it, and the code of the error there.
type Files = (String, String, &'static str);
/// A request to the API and the status of its answer.
type ApiRequest = (Method, String, Value, u16);

/// The content type and the body of a request to a webhook, and the status of its answer.
type HookRequest = (String, Vec<u8>, u16);

/// How a row of the table is tried.
enum Tried {
    /// A file that is checked: the text at the limit, and the one above it with the code of its error.
    File(fn() -> Files),
    /// Requests to the API: method, path and body, with the statuses that they must have.
    Api(fn() -> Vec<ApiRequest>),
    /// Bodies to a webhook with their content type, and the status of the answer.
    Hook(fn() -> Vec<HookRequest>),
    /// Bytes to the hook listener, without the line with the host, and the status of the answer.
    Head(fn() -> Vec<(String, u16)>),
}

/// The rows that are tried, by the first words of the row.
const ROWS: &[(&str, Tried)] = &[
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
];

/// The lines of the manual's table, without the headings of its parts.
fn documented() -> Vec<String> {
    let manual = std::fs::read_to_string(repository().join("docs/src/limits.md")).unwrap();
    let table = manual.split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter(|row| !row.starts_with("**")).skip(1).map(str::to_owned).collect()
}

#[test]
fn every_row_that_is_tried_is_in_the_manual_once() {
    let rows = documented();
    assert!(rows.len() > 100, "{}", rows.len());
    for (name, _) in ROWS {
        let found = rows.iter().filter(|row| row.starts_with(name)).count();
        assert_eq!(found, 1, "`{name}` is {found} times in docs/src/limits.md");
    }
}

#[tokio::test]
async fn every_limit_holds_at_its_documented_value() {
    let site = Site::serving(&[("hook", HOOK), ("waits", WAITS)]).await;
    let mut wrong = Vec::new();
    for (name, tried) in ROWS {
        let found = match tried {
            Tried::File(texts) => file(&site, texts()).await,
            Tried::Api(requests) => api(&site, requests()).await,
            Tried::Hook(bodies) => hook(&site, bodies()).await,
            Tried::Head(heads) => head(&site, heads()).await,
        };
        wrong.extend(found.into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Checks a text at the limit and one above it.
async fn file(site: &Site, (fits, above, code): (String, String, &str)) -> Vec<String> {
    let codes = async |text: &str| {
        let body = json!({"path": "automations/x.yaml", "text": text});
        let answer = send(site.api(Method::POST, "/validate").json(&body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let found = answer.json()["diagnostics"].as_array().cloned().unwrap();
        let errors = found.into_iter().filter(|found| found["severity"] == "error");
        errors.map(|found| found["code"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let (fits, above) = (codes(&fits).await, codes(&above).await);
    let mut wrong = Vec::new();
    if !fits.is_empty() {
        wrong.push(format!("at the limit: {fits:?}"));
    }
    if !above.iter().any(|found| found == code) {
        wrong.push(format!("above the limit: {above:?}, not `{code}`"));
    }
    wrong
}

async fn api(site: &Site, requests: Vec<(Method, String, Value, u16)>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (method, path, body, expected) in requests {
        let answer = send(site.api(method, &path).json(&body)).await;
        if answer.status != expected {
            let text: String = answer.text.chars().take(300).collect();
            wrong.push(format!("{path} is answered with {}, not {expected}: {text}", answer.status));
        }
    }
    wrong
}

async fn hook(site: &Site, bodies: Vec<(String, Vec<u8>, u16)>) -> Vec<String> {
    let url = site.url("hook").await;
    let mut wrong = Vec::new();
    for (kind, body, expected) in bodies {
        let bytes = body.len();
        let answer = send(site.request(Method::POST, &url).header("content-type", kind).body(body)).await;
        if answer.status != expected {
            wrong.push(format!(
                "{bytes} bytes are answered with {}, not {expected}: {}",
                answer.status, answer.text
            ));
        }
    }
    wrong
}

async fn head(site: &Site, heads: Vec<(String, u16)>) -> Vec<String> {
    let address = site.daemon().hooks_url();
    let address = address.trim_start_matches("http://");
    let mut wrong = Vec::new();
    for (head, expected) in heads {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let bytes = format!("{head}host: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        if !answer.starts_with(&format!("HTTP/1.1 {expected}")) {
            wrong.push(format!("answered with {:?}, not {expected}", answer.lines().next()));
        }
    }
    wrong
}
