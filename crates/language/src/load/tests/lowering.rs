//! Lowering of valid files.

use std::sync::Arc;

use expression::template::Template;
use model::automation::{OnError, RespondBody, Verb};
use model::retry::RetryOn;
use text::diagnostic::Source;

use super::corpus::{GOOD, GOOD_CONNECTIONS};
use super::good;

#[test]
fn valid_files_load_without_diagnostics() {
    for (name, text) in GOOD {
        let loaded = super::super::automation(Arc::new(Source::new(format!("{name}.yaml"), *text)), name);
        assert!(loaded.report.is_empty(), "{}", loaded.report.render(false));
        assert!(loaded.value.is_some());
    }
    for (name, text) in GOOD_CONNECTIONS {
        let loaded = super::super::connection(Arc::new(Source::new(format!("{name}.yaml"), *text)), name);
        assert!(loaded.report.is_empty(), "{}", loaded.report.render(false));
        assert_eq!(loaded.value.map(|connection| connection.name).as_deref(), Some(*name));
    }
}

#[test]
fn the_valid_files_use_every_verb() {
    let mut seen = std::collections::BTreeSet::new();
    for (_, text) in GOOD {
        good(text).walk(&mut |step| {
            seen.insert(step.verb.keyword());
        });
    }
    let all: std::collections::BTreeSet<&str> = super::super::VERBS.iter().map(|row| row.word).collect();
    assert_eq!(seen, all);
}

fn corpus(name: &str) -> model::Automation {
    good(GOOD.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).expect(name))
}

#[test]
fn a_file_is_lowered_in_full() {
    let automation = corpus("order-to-page");
    assert_eq!(automation.name, "Order to page");
    assert_eq!(automation.labels, ["orders", "wiki"]);
    assert!(automation.enabled && automation.triggers[0].condition.is_some());
    let step = &automation.steps.steps[0];
    let retry = step.retry.as_ref().and_then(|retry| retry.only_policy()).expect("it has a policy");
    assert_eq!((step.id.as_ref(), retry.max, retry.backoff), ("createPage", 3, 1.5));
    let Verb::Action(call) = &step.verb else { panic!("{step:?}") };
    assert_eq!(call.action.name, "wiki.createPage");
    assert_eq!(automation.source.slice(call.action.span), "wiki.createPage");
    assert_eq!(call.connection.as_ref().map(|name| automation.source.slice(name.span())), Some("mainWiki"));
    let names: Vec<&str> = call.with.iter().map(|(name, _)| automation.source.slice(name.span)).collect();
    assert_eq!(names, ["spaceId", "title", "body"]);
    let references: Vec<String> = call
        .with
        .iter()
        .flat_map(|(_, value)| value.references())
        .map(|reference| reference.path.join("."))
        .collect();
    assert_eq!(
        references,
        ["configVars.spaceId", "trigger.results.body.data.orderId", "trigger.results.body.data.quantity"]
    );
    let Verb::Respond(respond) = &automation.steps.steps[1].verb else { panic!("no respond") };
    assert!(matches!(respond.body, RespondBody::Body(_)));
}

#[test]
fn the_settings_of_a_file_are_lowered() {
    let automation = corpus("nightly-report");
    assert_eq!(automation.timeout.as_secs(), 5400);
    assert_eq!((automation.retry.max, automation.retry.on.as_slice()), (2, [RetryOn::All].as_slice()));
    assert_eq!(
        automation.retention.map(|retention| (retention.days, retention.keep_failed)),
        Some((Some(30), Some(true)))
    );
    assert_eq!(automation.on_error.map(|block| block.steps.len()), Some(1));
    assert_eq!(automation.finally.map(|block| block.steps.len()), Some(1));
    let Verb::ForEach(each) = &automation.steps.steps[1].verb else { panic!("no loop") };
    assert_eq!((each.item.as_ref(), each.concurrency.literal(), each.fail_fast), ("page", Some(5), false));
    assert!(
        matches!(&each.items, Template::Expression(items) if items.text() == "steps.list.results.results")
    );
}

#[test]
fn needs_and_error_lists_are_lowered() {
    let graph = corpus("graph");
    let needs: Vec<Option<Vec<&str>>> = graph
        .steps
        .steps
        .iter()
        .map(|step| {
            step.needs.as_ref().map(|needs| needs.iter().map(|need| graph.source.slice(need.span)).collect())
        })
        .collect();
    assert_eq!(needs, [Some(vec![]), Some(vec![]), Some(vec!["a", "b"]), Some(vec!["c"])]);
    let recovering = corpus("recovering");
    assert!(matches!(&recovering.steps.steps[0].on_error, OnError::Steps(block) if block.steps.len() == 1));
}

#[test]
fn an_expression_has_its_own_span() {
    let automation = corpus("code-in-text");
    let mut places = Vec::new();
    automation.walk(&mut |step| {
        if let Verb::Action(call) = &step.verb {
            for (_, value) in &call.with {
                value.expressions(&mut |expression| {
                    places.push(automation.source.slice(expression.span()).to_owned())
                });
            }
        }
    });
    assert_eq!(places, ["execution.id"]);
}

#[test]
fn errors_in_a_connection_are_reported_at_their_position() {
    let check = |stem: &str, text: &str, expected: &[&str]| {
        let report = super::super::connection(Arc::new(Source::new("c.yaml", text)), stem).report;
        let found: Vec<String> =
            report.entries().iter().map(|e| format!("{} {}:{}", e.code, e.line, e.column)).collect();
        assert_eq!(found, expected, "{}", report.render(false));
    };
    check("c", "with: {}\n", &["missing-key 1:1"]);
    check("c", "type: basic\n", &["invalid-type 1:7"]);
    check("c", "type: wiki.basic\nhost: x\n", &["unknown-key 2:1"]);
    check("c", "type: wiki.basic\nwith: {a: '${{ secrets. }}'}\n", &["expression-syntax 2:23"]);
    check("c d", "type: wiki.basic\n", &["invalid-name 1:1"]);
    check("c", "", &["wrong-type 1:1"]);
}
