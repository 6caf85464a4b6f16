//! The manual's table of limits: input at a documented value passes, and input just above it is refused with the reason. Each row is
//! tested on a real daemon, or by a test elsewhere.

mod calls;
mod code;
mod daemon;
mod documents;
mod executions;
mod expressions;
mod mail;
mod messages;
mod outages;
mod secrets;
mod triggers;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tests::project::repository;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::site::{Site, send};

const HOOK: &str = "trigger: {webhook: {verify: none}}\nsteps: [{set: {a: 1}}]\n";
const WAITS: &str =
    "trigger: {manual: {}}\nsteps: [{id: ask, waitFor: {approval: {message: Go?}}, timeout: 1h}]\n";

/// A file at the limit, a file above it, and the error code of the latter.
type Files = (String, String, &'static str);
/// A request to the API and the expected status.
type ApiRequest = (Method, String, Value, u16);

/// The content type and the body of a request to a webhook, and the expected status.
type HookRequest = (String, Vec<u8>, u16);

/// The test of a row of the table.
enum Tried {
    /// A checked file: a text at the limit, and one above it with its error code.
    File(fn() -> Files),
    /// Requests to the API: method, path, body and expected status.
    Api(fn() -> Vec<ApiRequest>),
    /// Bodies to a webhook with their content type and expected status.
    Hook(fn() -> Vec<HookRequest>),
    /// Request heads to the hook listener, without the `host` line, with the expected status.
    Head(fn() -> Vec<(String, u16)>),
    /// Tests elsewhere. The values that they use are in these source lines, unless the tests contain them.
    Test { tests: &'static [Place], values: &'static [Place] },
}

/// A source file, and the name of a test in it or a text with the value of a limit.
type Place = (&'static str, &'static str);

const fn elsewhere(tests: &'static [Place], values: &'static [Place]) -> Tried {
    Tried::Test { tests, values }
}

/// Returns the tests of the rows, each with the first words of its row.
fn tried() -> impl Iterator<Item = &'static (&'static str, Tried)> {
    let all = [
        daemon::ROWS,
        code::ROWS,
        executions::ROWS,
        secrets::ROWS,
        expressions::ROWS,
        messages::ROWS,
        outages::ROWS,
        triggers::ROWS,
        calls::ROWS,
        mail::ROWS,
        documents::ROWS,
    ];
    all.into_iter().flatten()
}

/// Returns the distinct rows of the manual's table, without the headings of its parts.
fn documented() -> BTreeSet<String> {
    let manual = std::fs::read_to_string(repository().join("docs/src/limits.md")).unwrap();
    let table = manual.split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter(|row| !row.starts_with("**")).skip(1).map(str::to_owned).collect()
}

#[test]
fn every_row_of_the_manual_has_an_entry() {
    let rows = documented();
    assert!(rows.len() > 100, "{}", rows.len());
    let untried = rows.iter().filter(|row| !tried().any(|(name, _)| row.starts_with(name)));
    assert_eq!(untried.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn each_entry_is_one_row_of_the_manual() {
    let rows = documented();
    for (name, _) in tried() {
        let found = rows.iter().filter(|row| row.starts_with(name)).count();
        assert_eq!(found, 1, "`{name}` is {found} times in docs/src/limits.md");
    }
}

#[test]
fn the_named_tests_and_values_exist_in_the_source() {
    let mut wrong = Vec::new();
    for (row, way) in tried() {
        let Tried::Test { tests, values } = way else { continue };
        assert!(!tests.is_empty(), "{row}");
        let functions = tests.iter().map(|(file, name)| (file, format!("fn {name}(")));
        let values = values.iter().map(|(file, value)| (file, (*value).to_owned()));
        for (file, text) in functions.chain(values) {
            let source = std::fs::read_to_string(repository().join(file)).unwrap_or_default();
            // Ignores a match at the end of a longer name.
            let is_name = |character: char| character.is_alphanumeric() || character == '_';
            if !source.match_indices(&text).any(|(at, _)| !source[..at].ends_with(is_name)) {
                wrong.push(format!("{row}: `{text}` is not in {file}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn every_limit_holds_at_its_documented_value() {
    let site = Site::serving(&[("hook", HOOK), ("waits", WAITS)]).await;
    let mut wrong = Vec::new();
    for (name, tried) in daemon::ROWS {
        let found = match tried {
            Tried::File(texts) => file(&site, texts()).await,
            Tried::Api(requests) => api(&site, requests()).await,
            Tried::Hook(bodies) => hook(&site, bodies()).await,
            Tried::Head(heads) => head(&site, heads()).await,
            Tried::Test { .. } => Vec::new(),
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
