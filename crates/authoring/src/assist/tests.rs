//! Tests of completion, descriptions and definitions, on whole texts with a mark `^` at the cursor.

use std::sync::{Arc, LazyLock};

use catalog::Catalog;

use super::*;

static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::empty(Arc::new(catalog::builtin().expect("the connectors load"))));

fn ask<T>(text: &str, look: impl Fn(&AssistRequest<'_>) -> T) -> T {
    let mark = text.find('^').expect("a mark");
    let offset = text[..mark].encode_utf16().count();
    let text = text.replacen('^', "", 1);
    let secrets = ["wikiToken".to_owned()];
    look(&AssistRequest {
        catalog: &CATALOG,
        secrets: &secrets,
        path: "automations/a.yaml",
        text: &text,
        offset,
    })
}

fn labels(text: &str) -> Vec<String> {
    ask(text, complete).items.into_iter().map(|item| item.label).collect()
}

#[track_caller]
fn offers(text: &str, some: &[&str], none: &[&str]) {
    let labels = labels(text);
    for label in some {
        assert!(labels.iter().any(|found| found == label), "`{label}` is missing from {labels:?}\n{text}");
    }
    for label in none {
        assert!(!labels.iter().any(|found| found == label), "`{label}` is offered\n{text}");
    }
}

const HEAD: &str = "name: 😀\ntrigger:\n  webhook: {}\n";

#[test]
fn key_completions_are_allowed_keys_that_are_not_set_yet() {
    offers("name: x\n^", &["trigger", "steps", "timeout"], &["name", "action"]);
    offers("trigger:\n  ^", &["webhook", "schedule"], &["steps"]);
    offers("trigger:\n  webhook:\n    mode: sync\n    ^", &["respond", "verify"], &["mode", "every"]);
    offers(&format!("{HEAD}steps:\n  - ^"), &["id", "action", "forEach"], &["webhook"]);
    offers(
        &format!("{HEAD}steps:\n  - action: http.request\n    ^"),
        &["with", "retry"],
        &["forEach", "action"],
    );
    offers(&format!("{HEAD}steps:\n  - id: a\n    retry:\n      ^"), &["max", "delay"], &["with"]);
}

#[test]
fn value_completions_are_actions_inputs_and_allowed_values() {
    offers(&format!("{HEAD}steps:\n  - action: ht^"), &["http.request", "log.info"], &[]);
    offers(
        &format!("{HEAD}steps:\n  - action: http.request\n    with:\n      method: GET\n      ^"),
        &["url"],
        &["method"],
    );
    offers("trigger:\n  webhook:\n    mode: ^", &["sync", "async"], &[]);
    offers(
        &format!("{HEAD}steps:\n  - action: http.get\n    connection:\n      ^"),
        &["name", "of"],
        &["with"],
    );
    offers(&format!("{HEAD}steps:\n  - call:\n      ^"), &["id", "of"], &["with"]);
    offers("name: x\nenabled: ^", &["true", "false"], &[]);
}

#[test]
fn expressions_complete_names_members_functions_and_filters() {
    let steps = "steps:\n  - id: page\n    action: http.request\n    with: {method: GET, url: 'http://a.b/'}\n  - set:\n      x: ";
    offers(&format!("{HEAD}{steps}${{{{ ^"), &["steps", "trigger", "parseJson"], &[]);
    offers(&format!("{HEAD}{steps}${{{{ steps.^ }}}}"), &["page"], &["results"]);
    offers(&format!("{HEAD}{steps}${{{{ steps.page.^ }}}}"), &["results", "error"], &[]);
    offers(&format!("{HEAD}{steps}${{{{ steps.page.results.^ }}}}"), &["statusCode", "body"], &["page"]);
    offers(&format!("{HEAD}{steps}${{{{ trigger.results.^ }}}}"), &["body", "headers"], &[]);
    offers(&format!("{HEAD}{steps}${{{{ vars.x | ^ }}}}"), &["default", "upper"], &["steps"]);
    offers(&format!("{HEAD}{steps}${{{{ vars.x is ^ }}}}"), &["defined"], &["steps"]);
    offers(&format!("{HEAD}{steps}1\n  - if: steps.^"), &["page"], &[]);
    offers("configVars:\n  a: {secret: true, value: '${{ secrets.^ }}'}\n", &["wikiToken"], &[]);
}

#[test]
fn a_text_that_does_not_parse_completes_from_what_precedes_the_cursor() {
    offers(
        &format!("{HEAD}steps:\n  - id: page\n    set: {{a: 1}}\n  - set:\n      x: \"${{{{ steps.^"),
        &["page"],
        &[],
    );
    offers("trigger: [\nsteps:\n  - ac^", &["action"], &[]);
}

#[test]
fn an_expression_for_each_item_has_the_members_of_the_item() {
    let steps = "steps:\n  - set: {rows: [{sku: a, count: 1, tags: [{name: x}]}]}\n  - set: {x: \"${{ ";
    let check = |expression: &str, some: &[&str], none: &[&str]| {
        offers(&format!("{HEAD}{steps}{expression} }}}}\"}}\n"), some, none);
    };
    check("vars.rows | map(by=item.^", &["sku", "count"], &["hash", "rows"]);
    check("vars.rows | sort(by=[item.sku, -item.^", &["sku", "count"], &[]);
    check("vars.rows | map(by=item.tags | select(by=item.^", &["name"], &["sku"]);
    check("vars.rows | map(by=^", &["item", "vars", "coalesce"], &[]);
    check("vars.rows | so^", &["sort"], &[]);
    let detail = |label: &str| {
        let text = format!("{HEAD}{steps}vars.rows | ^ }}}}\"}}\n");
        ask(&text, complete).items.into_iter().find(|item| item.label == label).and_then(|item| item.detail)
    };
    assert_eq!(detail("sort").as_deref(), Some("(reverse=, case_sensitive=, attribute=, by=)"));
    let described = |expression: &str| {
        let text = format!("{HEAD}{steps}{expression} }}}}\"}}\n");
        ask(&text, hover).map(|hover| format!("{}: {}", hover.title, hover.text))
    };
    assert_eq!(described("vars.rows | map(by=item.co^unt)").as_deref(), Some("item.count: integer"));
    assert_eq!(
        described("vars.rows | so^rt(by=item.sku)").as_deref(),
        Some("sort(reverse=, case_sensitive=, attribute=, by=): the filter `sort`")
    );
}

const SEVERAL: &str = "triggers:\n  - {id: changed, webhook: {verify: none}}\n  - {id: nightly, schedule: {every: 1h}}\nsteps:\n";

#[test]
fn triggers_complete_by_their_keys_and_ids() {
    offers("^", &["triggers"], &[]);
    offers("triggers:\n  - ^", &["id", "webhook", "schedule", "enabled", "inputs"], &["steps"]);
    offers("triggers:\n  - id: a\n    webhook:\n      mode: ^", &["sync", "async"], &[]);
    offers("triggers:\n  - {id: a, ^}", &["webhook", "schedule"], &["id", "steps"]);
    for expression in
        ["trigger.id == '^'", "trigger.id != 'ch^", "'x' == 1 or trigger.id in ['nightly', '^']"]
    {
        offers(&format!("{SEVERAL}  - if: {expression}\n"), &["changed", "nightly"], &["steps"]);
        offers(
            &format!("{SEVERAL}  - set: {{x: \"${{{{ {expression} }}}}\"}}\n"),
            &["changed", "nightly"],
            &["steps"],
        );
    }
    offers(&format!("{SEVERAL}  - if: trigger.id == ^\n"), &["changed", "steps"], &[]);
    offers(&format!("{SEVERAL}  - if: steps.id == '^'\n"), &[], &["changed"]);
    let text = format!("{SEVERAL}  - if: trigger.id == ^\n");
    let item = ask(&text, complete).items.into_iter().find(|item| item.label == "nightly").expect("an id");
    assert_eq!((item.insert.as_deref(), item.detail.as_deref()), (Some("'nightly'"), Some("schedule")));
}

#[test]
fn the_id_of_a_trigger_is_described_and_leads_to_it() {
    let text = format!("{SEVERAL}  - if: trigger.id in ['changed', 'night^ly']\n");
    let found = ask(&text, hover).map(|hover| (hover.title, hover.text, hover.expression));
    assert_eq!(found, Some(("nightly".to_owned(), "trigger, schedule".to_owned(), None)));
    let from = ask(&text, definition).and_then(|found| found.range).expect("in this text").from;
    assert_eq!(text[from..].split(',').next(), Some("nightly"));
    let described = |text: &str| ask(text, hover).map(|hover| hover.text).unwrap_or_default();
    assert!(described("trigg^ers:\n  - {id: a, manual: {}}\n").contains("list of up to 20"));
    assert!(described("triggers:\n  - id: a\n    web^hook: {}\n").contains("request"));
}

#[test]
fn comments_and_code_blocks_have_no_completions() {
    assert_eq!(labels("name: x # tri^"), Vec::<String>::new());
    assert_eq!(labels(&format!("{HEAD}steps:\n  - code: |\n      con^\n")), Vec::<String>::new());
}

#[test]
fn a_completion_replaces_the_word_in_utf16_units() {
    let completion = ask("name: 😀 x\ntim^eout: 1m\n", complete);
    assert_eq!(completion.range, TextRange { from: 11, to: 18 });
    let timeout = completion.items.iter().find(|item| item.label == "timeout").expect("the word itself");
    assert_eq!(timeout.insert.as_deref(), Some("timeout"), "a colon is there already");
}

#[test]
fn keys_actions_and_expressions_are_described() {
    let text = |text: &str| ask(text, hover).map(|hover| format!("{}: {}", hover.title, hover.text));
    let timeout = text("time^out: 5m\n").expect("a key");
    assert!(timeout.contains("time limit of the execution"), "{timeout}");
    let action = text(&format!("{HEAD}steps:\n  - action: http.re^quest\n")).expect("an action");
    assert!(action.contains("url*"), "{action}");
    let steps = "steps:\n  - id: page\n    action: http.request\n    with: {method: GET, url: 'http://a.b/'}\n  - set:\n      x: ${{ steps.page.results.status^Code }}\n";
    let status = text(&format!("{HEAD}{steps}")).expect("an expression");
    assert!(status.starts_with("steps.page.results.statusCode: "), "{status}");
    assert_eq!(text("# com^ment\n"), None);
    let defaults = "defaults:\n  retry: 3\nsteps:\n  - acti^on: http.request\n    timeout: 5s\n    with: {url: 'http://a.b/'}\n";
    let settings = text(&format!("{HEAD}{defaults}")).expect("a key");
    assert!(settings.contains("retry 3, from automations/a.yaml:"), "{settings}");
    assert!(settings.contains("timeout 5s, from the step"), "{settings}");
}

#[test]
fn go_to_definition_of_a_step_name_finds_the_step() {
    let steps = "steps:\n  - id: page\n    set: {a: 1}\n  - needs: [page]\n    set:\n      x: ${{ steps.page.results }}\n";
    for text in [steps.replacen("steps.page", "steps.pa^ge", 1), steps.replacen("[page", "[pa^ge", 1)] {
        let found = ask(&format!("{HEAD}{text}"), definition).expect("the step");
        let from = found.range.expect("in this text").from;
        let start =
            format!("{HEAD}{}", text.split("id: page").next().unwrap_or_default()).encode_utf16().count();
        assert_eq!((found.path.as_str(), from), ("automations/a.yaml", start));
    }
}

proptest::proptest! {
    #[test]
    fn assistance_never_panics_for_any_text_and_offset(
        text in "([-a-c:#&*!|>'\"{}\\[\\],? \n\r$~0-9.é😀]|steps:|- id: a|\\$\\{\\{ |with:|action: ){0,40}",
        offset in 0usize..120,
    ) {
        let secrets = [];
        let request = AssistRequest { catalog: &CATALOG, secrets: &secrets, path: "automations/a.yaml", text: &text, offset };
        let completion = complete(&request);
        let length = text.encode_utf16().count();
        proptest::prop_assert!(completion.range.from <= completion.range.to && completion.range.to <= length);
        let _ = (hover(&request), definition(&request));
    }
}

#[test]
fn own_events_of_the_project_complete_where_they_start_are_sent_and_awaited() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("automations")).expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join("automations").join(name), text).expect("the file is written");
    };
    let head = "trigger: {manual: {}}\nsteps:\n";
    write("a.yaml", &format!("{head}  - {{action: events.emit, with: {{name: order.paid}}}}\n"));
    write("b.yaml", &format!("{head}  - {{waitFor: {{event: order.sent}}, timeout: 1h}}\n"));
    write("c.yaml", "trigger: {event: order.returned, data: {order: text}}\nsteps: []\n");
    write("d.yaml", "trigger: {event: order.paid}\nsteps: []\n");
    let catalog = crate::check_project(dir.path(), &[]).expect("the connectors load").catalog;
    let labels = |text: &str| -> Vec<String> {
        let offset = text.find('^').expect("a mark");
        let text = text.replacen('^', "", 1);
        let request = AssistRequest {
            catalog: &catalog,
            secrets: &[],
            path: "automations/d.yaml",
            text: &text,
            offset,
        };
        complete(&request).items.into_iter().map(|item| item.label).collect()
    };
    let told = |text: &str| {
        let offset = text.find('^').expect("a mark");
        let text = text.replacen('^', "", 1);
        let path = "automations/d.yaml";
        let request = AssistRequest { catalog: &catalog, secrets: &[], path, text: &text, offset };
        hover(&request).map(|hover| format!("{}: {}", hover.title, hover.text))
    };
    let paid = "order.paid: own event\n\nsent by a\nstarts d";
    assert_eq!(told("trigger:\n  event: order.p^aid\nsteps: []\n").as_deref(), Some(paid));
    let sent = told(&format!("{head}  - action: events.emit\n    with:\n      name: order.p^aid\n"));
    assert_eq!(sent.as_deref(), Some(paid));
    let waited = told(&format!("{head}  - waitFor:\n      event: order.s^ent\n"));
    assert_eq!(waited.as_deref(), Some("order.sent: own event\n\nawaited by b"));
    let own = ["order.paid", "order.returned", "order.sent"];
    let started = labels("trigger:\n  event: ^\nsteps: []\n");
    assert_eq!(started[..3], own);
    assert!(started.contains(&"wiki.pageChanged".to_owned()), "{started:?}");
    assert_eq!(labels(&format!("{head}  - waitFor:\n      event: ^\n")), own);
    let sent = labels(&format!("{head}  - action: events.emit\n    with:\n      name: ^\n"));
    assert_eq!(sent[..3], own);
    offers("trigger:\n  event: order.paid\n  ^", &["data", "if", "inputs"], &["event"]);
    offers("trigger:\n  event: order.paid\n  data:\n    order: {^", &["type", "required"], &[]);
    let described = |text: &str| ask(text, hover).map(|hover| format!("{}: {}", hover.title, hover.text));
    let typed = "trigger: {event: order.paid, data: {order: {type: text, required: true}}}\nsteps:\n  - set: {a: \"${{ ";
    let text = format!("{typed}trigger.results.body.data.ord^er }}}}\"}}\n");
    assert_eq!(described(&text).as_deref(), Some("trigger.results.body.data.order: text"));
    let bare = "trigger: {event: order.paid}\nsteps:\n  - set: {a: \"${{ trigger.results.^ }}\"}\n";
    offers(bare, &["body", "event"], &["polledAt"]);
}

#[test]
fn the_data_of_a_sent_event_complete_from_the_triggers_that_declare_them() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("automations")).expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join("automations").join(name), text).expect("the file is written");
    };
    write(
        "ship.yaml",
        "labels: [billing]\ntrigger: {event: order.paid, data: {order: {type: text, required: true, description: The id}}}\nsteps: []\n",
    );
    write("book.yaml", "trigger: {event: order.paid, data: {order: text, paid: boolean}}\nsteps: []\n");
    let catalog = crate::check_project(dir.path(), &[]).expect("the connectors load").catalog;
    let labels = |text: &str| -> Vec<String> {
        let offset = text.find('^').expect("a mark");
        let text = text.replacen('^', "", 1);
        let path = "automations/a.yaml";
        let request = AssistRequest { catalog: &catalog, secrets: &[], path, text: &text, offset };
        complete(&request).items.into_iter().map(|item| item.label).collect()
    };
    let sends = "trigger: {manual: {}}\nsteps:\n  - action: events.emit\n    with:\n      name: order.paid\n      data:\n";
    assert_eq!(labels(&format!("{sends}        ^\n")), ["order", "paid"]);
    assert_eq!(labels(&format!("{sends}        order: x\n        ^\n")), ["paid"]);
    assert_eq!(labels(&format!("{sends}        paid: ^\n")), ["true", "false", "${{ … }}"]);
    let short =
        "trigger: {manual: {}}\nsteps:\n  - {action: events.emit, with: {name: order.paid, data: {^}}}\n";
    assert_eq!(labels(short), ["order", "paid"]);
    let text = format!("{sends}        ord^er: x\n");
    let offset = text.find('^').expect("a mark");
    let text = text.replacen('^', "", 1);
    let request =
        AssistRequest { catalog: &catalog, secrets: &[], path: "automations/a.yaml", text: &text, offset };
    let hover = hover(&request).expect("a field");
    assert_eq!((hover.title.as_str(), hover.text.as_str()), ("order: text", "The id"));
    // The inputs of events of the engine.
    let on = |with: &str| format!("trigger:\n  event: cogwork.failure\n  with:\n{with}steps: []\n");
    assert_eq!(labels(&on("    ^\n")), ["kinds", "automations", "labels", "after"]);
    assert_eq!(labels(&on("    automations: [^]\n")), ["book", "ship"]);
    assert_eq!(labels(&on("    labels: [^]\n")), ["billing"]);
    assert_eq!(labels(&on("    kinds:\n      - ^\n"))[..2], ["execution", "poll"]);
    let missing = "trigger: {event: cogwork.missing, with: {within: 1h, event: ^}}\nsteps: []\n";
    assert_eq!(labels(missing), ["order.paid"]);
}

#[test]
fn compared_texts_complete_from_the_type_of_the_value() {
    let steps = format!("{HEAD}steps:\n  - {{id: a, action: http.get, with: {{url: 'http://a.b/'}}");
    offers(&format!("{steps}, retry: [{{if: error.kind == '^'}}]}}\n"), &["network", "status"], &["steps"]);
    offers(&format!("{steps}}}\n  - if: steps.a.error.kind in ['network', '^']\n"), &["timeout"], &["steps"]);
    let closing = format!("{steps}}}\nfinally:\n  - if: outcome.status ");
    offers(&format!("{closing}!= '^'\n"), &["succeeded", "failed", "cancelled"], &["steps"]);
    offers(&format!("{closing}== ^\n"), &["cancelled", "steps"], &[]);
    offers(&format!("{steps}}}\n  - if: steps.a.results.statusCode == ^\n"), &["steps"], &["network"]);
}

#[test]
fn the_condition_and_inputs_of_a_trigger_complete_its_event_and_the_declared_inputs() {
    let head = "inputs: {order: text, rest: any}\ntrigger:\n  event: order.paid\n  data: {amount: number, order: text}\n";
    offers(&format!("{head}  if: event.data.^\nsteps: []\n"), &["amount", "order"], &["results"]);
    offers(&format!("{head}  inputs: {{order: \"${{{{ event.data.^ }}}}\"}}\nsteps: []\n"), &["amount"], &[]);
    offers(&format!("{head}  inputs:\n    ^\nsteps: []\n"), &["order", "rest"], &["amount", "steps"]);
    offers(&format!("{head}  inputs:\n    order: x\n    ^\nsteps: []\n"), &["rest"], &["order"]);
    let text = format!("{head}  if: event.data.amo^unt > 1\nsteps: []\n");
    let hover = ask(&text, hover).map(|hover| format!("{}: {}", hover.title, hover.text));
    assert_eq!(hover.as_deref(), Some("event.data.amount: number or null"));
}

#[test]
fn tests_complete_receivers_and_triggers_of_their_automation() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("automations")).expect("a folder");
    let text = "triggers: [{id: paid, event: order.paid}, {id: byHand, manual: {}}]\nsteps: []\n";
    std::fs::write(dir.path().join("automations/ship.yaml"), text).expect("it is written");
    let catalog = crate::check_project(dir.path(), &[]).expect("the connectors load").catalog;
    let labels = |text: &str| -> Vec<String> {
        let offset = text.find('^').expect("a mark");
        let text = text.replacen('^', "", 1);
        let path = "automations/ship.test.yaml";
        let request = AssistRequest { catalog: &catalog, secrets: &[], path, text: &text, offset };
        complete(&request).items.into_iter().map(|item| item.label).collect()
    };
    assert_eq!(labels("tests:\n  - name: a\n    trigger: ^\n"), ["paid", "byHand"]);
    assert_eq!(labels("tests:\n  - name: a\n    receivers: [^]\n"), ["ship"]);
    assert_eq!(labels("tests:\n  - name: a\n    receivers:\n      - ^\n"), ["ship"]);
}
