//! `/metrics` of a real daemon, and the files that use its metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use tests::recorder::Recorder;

use crate::site::{PATIENCE, Site, send};

/// Labels that Prometheus adds to every series.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

const ORDER: &str = "trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n  - code: \"export default () => 7\"\n  - respond: {status: 201}\n";

/// The samples of a text in the OpenMetrics format, by name and labels.
struct Scrape(Vec<(String, BTreeMap<String, String>, f64)>);

impl Scrape {
    fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.strip_suffix('}').unwrap();
            let labels = labels.split("\",").filter_map(|label| label.split_once("=\""));
            let labels =
                labels.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()));
            (name.to_owned(), labels.collect(), value.parse().unwrap_or(f64::INFINITY))
        });
        Self(samples.collect())
    }

    /// Returns the value of the series with this name and label.
    fn value(&self, name: &str, label: Option<(&str, &str)>) -> f64 {
        let is_it = |labels: &BTreeMap<String, String>| {
            label.is_none_or(|(name, value)| labels.get(name).is_some_and(|found| found == value))
        };
        let found = self.0.iter().find(|(found, labels, _)| found == name && is_it(labels));
        found.unwrap_or_else(|| panic!("no {name} {label:?} in {:#?}", self.names())).2
    }

    fn names(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, labels, _) in &self.0 {
            names.entry(name).or_default().extend(labels.keys().map(String::as_str));
        }
        names
    }
}

async fn scrape(site: &Site) -> Scrape {
    let url = format!("{}/metrics", site.daemon().admin_url());
    let answer =
        send(site.request(Method::GET, &url).bearer_auth(site.daemon().admin_token().unwrap())).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(answer.text.ends_with("# EOF\n"));
    Scrape::parse(&answer.text)
}

/// Returns the metrics once every accepted execution is counted as ended, which happens just after its final commit.
async fn settled(site: &Site) -> Scrape {
    let sum = |found: &Scrape, name: &str| -> f64 {
        found.0.iter().filter(|(other, ..)| other == name).map(|(_, _, value)| value).sum()
    };
    let settle = async {
        loop {
            let found = scrape(site).await;
            if sum(&found, "cogwork_executions_ended_total")
                == sum(&found, "cogwork_executions_accepted_total")
            {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, settle).await.expect("all executions end")
}

/// Starts a site with traffic for all metrics.
async fn busy_site(recorder: &Recorder) -> Site {
    let url = recorder.url();
    let call = |url: &str| {
        format!("trigger: {{manual: {{}}}}\nsteps:\n  - action: http.request\n    with: {{url: \"{url}\"}}\n")
    };
    let (works, fails) = (call(&format!("{url}/fine")), call("http://127.0.0.1:1/"));
    let mut site = Site::new(&[("order", ORDER), ("works", &works), ("fails", &fails)]);
    site.project.automation("broken", "trigger: {manual: {}}\nstepz: []\n").unwrap();
    site.start().await;
    for _ in 0..3 {
        assert_eq!(site.post("order", &json!({"id": 1})).await.status, 201);
    }
    let live = site.url("order").await;
    let not_json = site.request(Method::POST, &live).header("content-type", "application/json").body("{");
    assert_eq!(send(not_json).await.status, 400);
    for id in ["works", "fails"] {
        let execution = site.run(id).await;
        site.end_of(&execution).await;
    }
    site
}

#[tokio::test]
async fn metrics_count_executions_requests_and_commits() {
    let recorder = Recorder::start().await.unwrap();
    let site = busy_site(&recorder).await;
    let found = settled(&site).await;
    for (name, label, value) in [
        ("cogwork_accepting", None, 1.0),
        ("cogwork_broken_files", None, 1.0),
        ("cogwork_automations", Some(("state", "active")), 3.0),
        ("cogwork_executions_accepted_total", Some(("origin", "webhook")), 3.0),
        ("cogwork_executions_accepted_total", Some(("origin", "manual")), 2.0),
        ("cogwork_executions_ended_total", Some(("outcome", "succeeded")), 4.0),
        ("cogwork_executions_ended_total", Some(("outcome", "failed")), 1.0),
        ("cogwork_executions_running", None, 0.0),
        ("cogwork_webhook_answers_total", Some(("code", "201")), 3.0),
        ("cogwork_webhook_answers_total", Some(("code", "400")), 1.0),
        ("cogwork_starts_refused_total", Some(("reason", "bad_json")), 1.0),
        ("cogwork_step_duration_seconds_count", Some(("action", "http.request")), 2.0),
        ("cogwork_step_duration_seconds_count", Some(("action", "code")), 3.0),
        ("cogwork_step_failures_total", Some(("action", "http.request")), 1.0),
        ("cogwork_store_room", Some(("room", "enough")), 1.0),
    ] {
        assert_eq!(found.value(name, label), value, "{name} {label:?}");
    }
    let commits = found.value("cogwork_store_commits_total", None);
    assert!(commits >= 5.0 && found.value("cogwork_store_writes_total", None) >= commits);
    assert_eq!(found.value("cogwork_store_commit_duration_seconds_count", None), commits);
    assert!(found.value("cogwork_store_written_bytes_total", None) > 0.0);
    assert!(found.value("cogwork_code_workers_started_total", None) >= 1.0);
}

#[tokio::test]
async fn metrics_need_a_token_unless_the_settings_make_them_public() {
    let mut site = Site::serving(&[("order", ORDER)]).await;
    let bare = |site: &Site, path: &str| {
        site.request(Method::GET, &format!("{}{path}", site.daemon().admin_url()))
            .header("accept", "text/plain")
    };
    assert_eq!(send(bare(&site, "/metrics")).await.status, 401);
    site.stop().await;
    site.start_with(&["--public-metrics", "true"]).await;
    let open = send(bare(&site, "/metrics")).await;
    assert_eq!((open.status, open.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(send(bare(&site, "/api/v1/status")).await.status, 401);
    assert_eq!(send(bare(&site, "/metrics").header("host", "rebound.example")).await.status, 421);
}

/// Returns the expressions of the dashboard and of the alert rules.
fn expressions() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops");
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    let dashboard: Value = serde_json::from_str(&read("grafana/cogwork.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut all: Vec<String> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    // Finds rules by their indentation: an expression is one line or a folded block.
    let rules = read("prometheus/alerts.yaml");
    all.extend(rules.split("        expr: ").skip(1).map(|rest| {
        let end = rest.find("\n        for:").or_else(|| rest.find("\n        labels:")).unwrap();
        rest[..end].replace(">-", " ")
    }));
    all
}

/// Returns the metrics of an expression with the labels in their selectors, and the labels that it groups by.
fn parts(expression: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let metrics = expression.match_indices("cogwork_").map(|(start, _)| {
        let rest = &expression[start..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let selector =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inside, _)| inside);
        let labels = selector.split(',').filter_map(|matcher| {
            let end = matcher.find(['=', '!'])?;
            Some(matcher[..end].trim().to_owned())
        });
        (name.to_owned(), labels.collect())
    });
    let groups = expression.split(" by (").skip(1).map(|rest| rest.split_once(')').unwrap().0);
    let groups = groups.flat_map(|inside| inside.split(',')).map(|label| label.trim().to_owned());
    (metrics.collect(), groups.collect())
}

#[tokio::test]
async fn every_metric_and_label_of_the_dashboard_and_the_alerts_exists() {
    let recorder = Recorder::start().await.unwrap();
    let site = busy_site(&recorder).await;
    let found = scrape(&site).await;
    let names = found.names();
    let expressions = expressions();
    assert!(expressions.len() > 50, "{}", expressions.len());
    let mut used = BTreeSet::new();
    for expression in &expressions {
        let (metrics, groups) = parts(expression);
        let mut labels: BTreeSet<&str> = OF_PROMETHEUS.into();
        for (name, selected) in &metrics {
            let known = names
                .get(name.as_str())
                .unwrap_or_else(|| panic!("`{name}` of `{expression}` does not exist"));
            labels.extend(known);
            for label in selected {
                let exists = known.contains(label.as_str()) || OF_PROMETHEUS.contains(&label.as_str());
                assert!(exists, "`{label}` of `{expression}` is none of {known:?}");
            }
            used.insert(name.clone());
        }
        for label in &groups {
            assert!(labels.contains(label.as_str()), "`{label}` of `{expression}` is none of {labels:?}");
        }
    }
    assert!(used.len() > 25, "{used:?}");
}

#[tokio::test]
async fn the_manual_lists_every_metric() {
    let recorder = Recorder::start().await.unwrap();
    let found = scrape(&busy_site(&recorder).await).await;
    let manual = include_str!("../../../docs/src/monitoring.md");
    for name in found.names().keys() {
        let name =
            ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let bare = name.strip_prefix("cogwork_").unwrap();
        assert!(manual.contains(&format!("`{bare}`")), "`{bare}` is not in the manual");
    }
}

/// Returns the documented labels by metric, each with its values if the manual lists them.
fn documented_labels() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let manual = include_str!("../../../docs/src/monitoring.md");
    let mut found = BTreeMap::new();
    for row in manual.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        let [names, kind, labels, ..] = &cells[..] else { continue };
        if !["counter", "gauge", "histogram", "info"].contains(&kind.trim()) {
            continue;
        }
        let labels: BTreeMap<String, BTreeSet<String>> = match labels.split_once(':') {
            Some((label, values)) => {
                quoted(label).into_iter().map(|label| (label, quoted(values).into_iter().collect())).collect()
            }
            None => {
                quoted(labels).into_iter().map(|label| (label, BTreeSet::new())).collect::<BTreeMap<_, _>>()
            }
        };
        found.extend(quoted(&format!("`{names}")).into_iter().map(|name| (name, labels.clone())));
    }
    found
}

#[tokio::test]
async fn the_manual_lists_every_label_and_its_values() {
    let recorder = Recorder::start().await.unwrap();
    let found = settled(&busy_site(&recorder).await).await;
    let documented = documented_labels();
    assert!(documented.len() > 40, "{documented:#?}");
    for (name, labels, _) in &found.0 {
        let name = name.strip_prefix("cogwork_").unwrap();
        let family = ["_bucket", "_count", "_sum", "_info"].iter().find_map(|end| name.strip_suffix(end));
        let known = documented.get(name).or_else(|| documented.get(family?));
        let known = known.unwrap_or_else(|| panic!("`{name}` is not in the manual"));
        for (label, value) in labels.iter().filter(|(label, _)| *label != "le") {
            let values = known.get(label).unwrap_or_else(|| panic!("`{name}` has a label `{label}`"));
            assert!(values.is_empty() || values.contains(value), "`{label}` of `{name}` is `{value}`");
        }
    }
}

#[tokio::test]
async fn no_request_content_becomes_a_label_or_a_series() {
    let recorder = Recorder::start().await.unwrap();
    let take = format!(
        "trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n  - action: http.request\n    onError: continue\n    with: {{url: \"{}/${{{{ trigger.results.body.data.mark }}}}\"}}\n  - if: trigger.results.body.data.fails\n    then: [{{fail: \"${{{{ trigger.results.body.data.mark }}}}\"}}]\n",
        recorder.url()
    );
    let site = Site::serving(&[("take", &take)]).await;
    let (live, hooks) = (site.url("take").await, site.daemon().hooks_url().to_owned());
    let round = async |mark: &str| {
        let marked = |method: Method, url: &str| {
            let request = site.request(method, &format!("{url}/{mark}?{mark}={mark}"));
            request.header("x-mark", mark).header("user-agent", mark)
        };
        for (fails, status) in [(false, 200), (true, 500)] {
            let body = json!({"mark": mark, "fails": fails});
            let request = marked(Method::POST, &live).header("idempotency-key", format!("{mark}{fails}"));
            assert_eq!(send(request.json(&body)).await.status, status);
        }
        for request in [
            marked(Method::from_bytes(mark.to_uppercase().as_bytes()).unwrap(), &live),
            marked(Method::POST, &live)
                .header("content-type", format!("application/{mark}+json"))
                .body(mark.to_owned()),
            marked(Method::POST, &format!("{hooks}/{mark}")),
            site.api(Method::GET, &format!("/automations/{mark}")),
            site.api(Method::POST, &format!("/{mark}")),
        ] {
            assert!(send(request).await.status >= 400);
        }
        settled(&site).await
    };
    let series = |found: &Scrape| -> BTreeSet<String> {
        found.0.iter().map(|(name, labels, _)| format!("{name}{labels:?}")).collect()
    };
    let first = series(&round("marka").await);
    for mark in ["markb", "markc", "markd"] {
        assert_eq!(series(&round(mark).await), first);
    }
    assert!(first.iter().all(|series| !series.contains("mark")), "{first:#?}");
}
