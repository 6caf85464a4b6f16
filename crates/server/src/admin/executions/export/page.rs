//! The static page of an execution. It has no script, and its policy forbids any.

use std::collections::HashSet;

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use serde_json::Value;

use super::super::large;
use super::{Cuts, Export};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");

/// Renders the page. Values over 4 KiB are cut.
pub(super) fn render(mut export: Export, cuts: &Cuts) -> String {
    export.execution.cut(cuts);
    let mut value = serde_json::to_value(&export).unwrap_or_default();
    large::sweep(&mut value["execution"], cuts);
    let (execution, definition) = (&value["execution"], &value["definition"]);
    let title = format!("{} · {}", text(&execution["automation"]), text(&execution["status"]));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                (head(execution))
                (timeline(execution))
                (steps(execution, definition))
                h2 { "Payload" }
                (shown(&execution["payload"]))
                (caller(execution))
                (logs(&value["logs"]))
                @if !definition.is_null() {
                    h2 { (text(&definition["path"])) " " small { (text(&definition["hash"])) } }
                    pre { (text(&definition["source"])) }
                }
            }
        }
    };
    page.into_string()
}

fn head(execution: &Value) -> Markup {
    let outcome = &execution["outcome"];
    html! {
        h1 { (text(&execution["automation"])) " " span class={ "status " (text(&execution["status"])) } { (text(&execution["status"])) } }
        p.muted {
            code { (text(&execution["id"])) } " · " (text(&execution["origin"]["kind"])) " · " (text(&execution["startedAt"]))
            @if let Some(ms) = execution["tookMs"].as_f64() { " · took " (duration(ms)) }
            " · version " code { (text(&execution["definition"])) }
        }
        @if let Some(error) = outcome.get("error") {
            p.verdict.failed {
                @if let Some(step) = error["step"].as_str() { "Step " strong { (step) } " failed: " }
                (text(&error["message"]))
            }
        } @else if let Some(reason) = outcome["reason"].as_str() {
            p.verdict { "Cancelled: " (reason) }
        } @else if outcome.is_null() {
            p.verdict { "It had not come to its end when this was written." }
        } @else {
            h2 { "Result" }
            (shown(&outcome["result"]))
        }
    }
}

/// A stretch of the timeline, in parts of the whole.
struct Bar {
    class: &'static str,
    from: f64,
    width: f64,
    title: String,
}

fn timeline(execution: &Value) -> Markup {
    let start = instant(&execution["startedAt"]);
    let ends = [&execution["finishedAt"]]
        .into_iter()
        .chain(list(&execution["steps"]).map(|step| &step["finishedAt"]));
    let end = ends.chain(list(&execution["waits"]).map(|wait| &wait["at"])).filter_map(instant).max();
    let (Some(start), Some(end)) = (start, end) else { return html! {} };
    // In microseconds, as events have them: a short execution ends within its first millisecond.
    let whole = (end.as_microsecond() - start.as_microsecond()).max(1) as f64;
    let place = |at: Timestamp| {
        ((at.as_microsecond() - start.as_microsecond()) as f64 / whole * 100.0).clamp(0.0, 100.0)
    };
    let bar = |class, from: &Value, to: &Value, title: String| {
        let (from, to) = (place(instant(from)?), place(instant(to)?));
        Some(Bar { class, from, width: (to - from).max(0.3), title })
    };
    let known: HashSet<&str> = list(&execution["steps"]).filter_map(|step| step["step"].as_str()).collect();
    let rows_of_waits: Vec<_> = list(&execution["waits"]).map(|wait| (row_of(&known, wait), wait)).collect();
    let waits = |key: Option<&str>| -> Vec<Bar> {
        let own = rows_of_waits.iter().filter(|(row, _)| *row == key);
        let bars = own.filter_map(|(_, wait)| {
            let length = duration(wait["ms"].as_f64().unwrap_or_default());
            let title = format!("waited {length} for {}", text(&wait["reason"]["kind"]));
            bar("wait", &wait["from"], &wait["at"], title)
        });
        bars.collect()
    };
    let rows = list(&execution["steps"]).map(|step| {
        let tries = list(&step["tries"]).filter_map(|one| {
            let class = if one["error"].is_null() { "work" } else { "bad" };
            bar(class, &one["startedAt"], &one["finishedAt"], format!("attempt {}", one["attempt"]))
        });
        let mut bars: Vec<Bar> = tries.collect();
        if bars.is_empty() {
            let class = if step["status"] == "failed" { "bad" } else { "work" };
            bars.extend(bar(
                class,
                &step["startedAt"],
                &step["finishedAt"],
                text(&step["status"]).to_owned(),
            ));
        }
        bars.extend(waits(step["step"].as_str()));
        (text(&step["step"]), step["tookMs"].as_f64(), bars)
    });
    let own = waits(None);
    let first = (!own.is_empty()).then_some(("execution", None, own));
    html! {
        h2 { "Timeline" }
        table.timeline {
            @for (name, took, bars) in first.into_iter().chain(rows) {
                tr {
                    th { (name) }
                    td { div.track { @for bar in bars {
                        span class=(bar.class) title=(bar.title) style=(format!("left:{:.2}%;width:{:.2}%", bar.from, bar.width)) {}
                    } } }
                    td.number { @if let Some(took) = took { (duration(took)) } }
                }
            }
        }
    }
}

/// The step in whose row a wait is drawn: the delay before a turn of a loop, `poll[2]`, belongs to the loop.
fn row_of<'a>(known: &HashSet<&str>, wait: &'a Value) -> Option<&'a str> {
    let mut step = wait["step"].as_str()?;
    while !known.contains(step) {
        let Some((outer, _)) = step.strip_suffix(']').and_then(|inner| inner.rsplit_once('[')) else { break };
        step = outer;
    }
    Some(step)
}

/// The steps in the order of the graph, with what each did.
fn steps(execution: &Value, definition: &Value) -> Markup {
    let graph = &definition["graph"];
    html! {
        h2 { "Steps" }
        @if graph.is_null() {
            ul { @for step in list(&execution["steps"]) { li { (step_views(step["step"].as_str().unwrap_or_default(), execution)) } } }
        } @else {
            p.trigger { strong { (text(&graph["trigger"]["kind"])) } " " (text(&graph["trigger"]["label"])) }
            (block(&graph["steps"], execution))
            @for (name, title) in [("onError", "on error"), ("finally", "finally")] {
                @if let Some(steps) = graph.get(name) { h3 { (title) } (block(steps, execution)) }
            }
        }
        @for turns in list(&execution["turns"]) {
            p.muted { (text(&turns["step"])) ": " (turns["count"]) " turns, " (turns["failed"]) " failed; some are shown." }
        }
    }
}

fn block(steps: &Value, execution: &Value) -> Markup {
    html! {
        ul { @for step in list(steps) {
            li {
                div.step {
                    strong { (step["name"].as_str().unwrap_or(text(&step["id"]))) } " "
                    span.muted { (text(&step["verb"])) " " code { (text(&step["label"])) } " · line " (step["span"]["line"]) }
                }
                (step_views(text(&step["id"]), execution))
                @for inner in list(&step["blocks"]) {
                    div.block { span.muted { (inner["name"].as_str().unwrap_or(text(&inner["kind"]))) } (block(&inner["steps"], execution)) }
                }
                @for (name, title) in [("onError", "on error"), ("finally", "finally"), ("undo", "undo")] {
                    @if step[name].is_array() { div.block.dashed { span.muted { (title) } (block(&step[name], execution)) } }
                }
            }
        } }
    }
}

fn step_views(id: &str, execution: &Value) -> Markup {
    let views = list(&execution["steps"]).filter(|view| text(&view["step"]).split('[').next() == Some(id));
    html! {
        @for view in views {
            details open[view["status"] == "failed"] {
                summary {
                    span class={ "status " (text(&view["status"])) } { (text(&view["status"])) } " " (text(&view["step"]))
                    @if view["attempts"].as_u64().is_some_and(|count| count > 1) { " · " (view["attempts"]) " attempts" }
                    @if let Some(took) = view["tookMs"].as_f64() { " · " (duration(took)) }
                }
                @for one in list(&view["tries"]) {
                    @if let Some(message) = one["error"]["message"].as_str() { p.bad { "Attempt " (one["attempt"]) ": " (message) } }
                }
                @if let Some(error) = view.get("error") { (shown(error)) }
                @if let Some(result) = view.get("result") { (shown(result)) }
            }
        }
    }
}

fn caller(execution: &Value) -> Markup {
    let answer = &execution["caller"]["answer"];
    html! {
        @if !answer.is_null() {
            h2 { "The answer that the caller got" }
            p { strong { (answer["status"]) } " by " (text(&answer["by"])) ", " (text(&answer["at"])) }
            (shown(&answer["headers"]))
            (shown(&answer["body"]))
        }
    }
}

fn logs(lines: &Value) -> Markup {
    html! {
        @if lines.as_array().is_some_and(|lines| !lines.is_empty()) {
            h2 { "Log" }
            table { @for line in list(lines) {
                tr { td.nowrap { (text(&line["at"])) } td { (text(&line["level"])) } td { (text(&line["step"])) } td.text { (text(&line["message"])) } }
            } }
        }
    }
}

/// A value as JSON; a large one by its size and its beginning.
fn shown(value: &Value) -> Markup {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { pre { (json) } }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn instant(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn duration(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.1} s", ms / 1000.0) }
}
