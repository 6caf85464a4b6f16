//! Tests of result types, by subject.

use std::sync::{Arc, LazyLock};

use connector::Registry;
use language::load::Unreadable;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use text::diagnostic::{Report, Source};

pub(super) static REGISTRY: LazyLock<Registry> =
    LazyLock::new(|| Registry::builtin().expect("the connectors load"));

/// No saved payloads, and no other automation.
pub(super) fn alone() -> super::Surroundings<'static> {
    super::Surroundings {
        saved: &|_| None,
        described: &|_| None,
        called: &|_| None,
        consumers: &|_| Vec::new(),
        spellings: &|_, _| Vec::new(),
    }
}

fn report(text: &str) -> Report {
    let loaded = language::load::automation(Arc::new(Source::new("test.yaml", text)), "test");
    let Some(automation) = loaded.value else { panic!("{text}\n{}", loaded.report.render(false)) };
    Report::new(automation.source.clone(), super::check(&automation, Unreadable::NONE, &REGISTRY, alone()))
}

/// Formats each problem as `code text`, with the suggested name if any; the text is the marked source.
#[track_caller]
pub(super) fn check(text: &str, expected: &[&str]) {
    let report = report(text);
    let codes: Vec<String> = report
        .diagnostics()
        .iter()
        .map(|found| {
            let near = found.nearest.as_ref().map(|near| format!(" ({near})")).unwrap_or_default();
            format!("{} {}{near}", found.code, report.source().slice(found.span))
        })
        .collect();
    assert_eq!(codes, expected, "\n{text}\n{}", report.render(false));
}

/// Checks one expression after these steps: `page` (gets a page), `pages` (lists pages), `gone` (deletes a page),
/// `call` (an HTTP request) and `own` (sets values).
#[track_caller]
fn check_expression(expression: &str, expected: &[&str]) {
    check(
        &format!(
            "trigger: {{manual: {{}}}}
inputs: {{count: {{type: integer, default: 1}}, tags: {{type: list}}}}
configVars: {{space: OPS}}
steps:
  - {{id: page, action: wiki.getPage, connection: w, with: {{pageId: '1'}}}}
  - {{id: pages, action: wiki.listPages, connection: w}}
  - {{id: gone, action: wiki.deletePage, connection: w, with: {{pageId: '1'}}}}
  - {{id: call, action: http.request, retry: 1, with: {{url: 'https://example.com'}}}}
  - {{id: own, set: {{total: 1, first: '${{{{ steps.pages.results.results[0] }}}}', rest: {{a: [1]}}}}}}
  - set:
      x: ${{{{ {expression} }}}}
"
        ),
        expected,
    );
}

/// Checks these steps after `pages`, which lists pages.
#[track_caller]
fn check_steps(steps: &str, expected: &[&str]) {
    check(
        &format!(
            "trigger: {{manual: {{}}}}\nsteps:\n  - {{id: pages, action: wiki.listPages, connection: w}}\n{steps}"
        ),
        expected,
    );
}

#[test]
fn declared_fields_are_accepted() {
    for fine in [
        "steps.page.results.id",
        "steps.page.results.body.storage.value",
        "steps.page.results._links.webui",
        "steps.page.results.version.number + 1",
        "steps.page.results['title']",
        "steps.page.results.labels.results[0].name | default('none')",
        "steps.pages.results.results[0].title",
        "steps.pages.results.results[-1].version.number",
        "steps.pages.results.nextCursor",
        "steps.pages.results.results | map(attribute='version.number') | max",
        "steps.pages.results.results | selectattr('status', 'equalto', 'current') | list | length",
        "(steps.pages.results.results | first).id",
        "$.steps.pages.results.results[?@.status=='current'].id",
        "$.steps.pages.results.results[*]['title']",
        "$.steps.pages.results..id",
        "steps.gone.results",
        "steps.call.results.body.whatever[3].at_all",
        "steps.call.results.headers['x-anything']",
        "steps.own.results.rest.a[0]",
        "vars.first.title",
        "vars.total",
        "inputs.tags[0].anything",
        "steps.pages.results.results[vars.total].anything",
        "steps.page.results.properties.results[0].value.mine.to.know",
        "steps.pages.results.results | select(by=item.version.number > 1) | sort(by=[item.title, -item.version.number]) | map(by=item.id)",
        "steps.pages.results.results | toMap(by=item.id, value=item.title)",
        "steps.pages.results.results | groupby(by=item.status) | map(by=item.list | length)",
        "steps.page.results.labels.results | map(by=item.name ~ '/' ~ steps.page.results.title)",
        "(steps.page.results.title | decimal) * 2 > 3",
    ] {
        check_expression(fine, &[]);
    }
}

#[test]
fn a_misspelt_field_is_reported_at_its_position_with_a_suggestion() {
    check_expression("steps.page.results.titel", &["unknown-field titel (title)"]);
    check_expression("steps.page.results.version.nr", &["unknown-field nr"]);
    check_expression("steps.page.results['titel']", &["unknown-field titel (title)"]);
    check_expression("steps.pages.results.result[0].id", &["unknown-field result (results)"]);
    check_expression("steps.pages.results.results[0].titel", &["unknown-field titel (title)"]);
    check_expression("steps.page.results.titel | default('none')", &["unknown-field titel (title)"]);
    check_expression("steps.page.results.title ~ steps.page.results.titel", &["unknown-field titel (title)"]);
    check_expression("steps.call.results.status", &["unknown-field status"]);
    check_expression(
        "steps.pages.results.results | map(attribute='titel') | list",
        &["unknown-field titel (title)"],
    );
    check_expression("steps.pages.results.results | rejectattr('state')", &["unknown-field state"]);
    check_expression("steps.pages.results.results | map(by=item.titel)", &["unknown-field titel (title)"]);
    check_expression(
        "steps.pages.results.results | sort(by=[item.titel, -(item.titel | length)])",
        &["unknown-field titel (title)"],
    );
    check_expression(
        "steps.pages.results.results | select(by=item.version.nr > 1 and item.title) | map(by=item.version.number)",
        &["unknown-field nr"],
    );
    check_expression(
        "(steps.pages.results.results | max(by=item.title)).titel",
        &["unknown-field titel (title)"],
    );
    check_expression(
        "(steps.pages.results.results | map(by=item.version) | first).nr",
        &["unknown-field nr"],
    );
    check_expression("(steps.pages.results.results | last).titel", &["unknown-field titel (title)"]);
    check_expression("$.steps.pages.results.results[*].titel", &["unknown-field titel (title)"]);
    check_expression("$.steps.pages.results.results[0]['titel']", &["unknown-field titel (title)"]);
    check_expression("$.steps.pages.results.results[?@.state=='current'].id", &["unknown-field state"]);
    check_expression(
        "$.steps.pages.results.results[?@.id == $.steps.page.results.idd]",
        &["unknown-field idd (id)"],
    );
}

#[test]
fn only_maps_have_fields_and_only_lists_have_items() {
    check_expression("steps.page.results.id.value", &["unknown-field value"]);
    check_expression("steps.pages.results.results.title", &["unknown-field title"]);
    check_expression("steps.pages.results[0].title", &["unknown-field [0]"]);
    check_expression("steps.gone.results.id", &["unknown-field id"]);
    check_expression("inputs.count.value", &["unknown-field value"]);
    check_expression("configVars.space.key", &["unknown-field key"]);
    check_expression("vars.total.value", &["unknown-field value"]);
}

#[test]
fn messages_name_the_actual_type() {
    let shown = report(
        "trigger: {manual: {}}\nsteps:\n  - id: pages\n    action: wiki.listPages\n    connection: w\n  - set: {a: \"${{ steps.pages.results[0].id }}\", b: \"${{ steps.pages.results.results.id }}\"}\n",
    )
    .render(false);
    assert_eq!(
        shown,
        "error[unknown-field]: `steps.pages.results` is a map, not a list
 --> test.yaml:6:38
  |
6 |   - set: {a: \"${{ steps.pages.results[0].id }}\", b: \"${{ steps.pages.results.results.id }}\"}
  |                                      ^^^
  |
  = note: in step `step2`
  = help: did you mean its `results`?

error[unknown-field]: `steps.pages.results.results` is a list, which has no field `id`
 --> test.yaml:6:86
  |
6 |   - set: {a: \"${{ steps.pages.results[0].id }}\", b: \"${{ steps.pages.results.results.id }}\"}
  |                                                                                      ^^
  |
  = note: in step `step2`
  = help: take one item with `[0]`, or this of all with `| map(by=item.id)`

"
    );
}

#[test]
fn types_pass_through_variables_and_loops() {
    check_expression("vars.first.titel", &["unknown-field titel (title)"]);
    check_expression("steps.own.results.first.titel", &["unknown-field titel (title)"]);
    check_expression("steps.own.results.totl", &["unknown-field totl (total)"]);
    // A field that the file itself may set can be absent if the expression allows it.
    check_expression("steps.own.results.rest.b | default(1)", &[]);
    let loop_over = |items: &str, item: &str| {
        format!(
            "  - forEach: {items}\n    as: page\n    steps:\n      - {{set: {{x: '${{{{ {item} }}}}'}}}}\n"
        )
    };
    check_steps(&loop_over("steps.pages.results.results", "page.title ~ item.id ~ index"), &[]);
    check_steps(&loop_over("steps.pages.results.results", "page.titel"), &["unknown-field titel (title)"]);
    check_steps(&loop_over("steps.pages.results.results", "item.titel"), &["unknown-field titel (title)"]);
    check_steps(&loop_over("$.steps.pages.results.results[?@.id].version", "page.nr"), &["unknown-field nr"]);
    check_steps(&loop_over("[{a: 1}, {b: 2}]", "page.c"), &["unknown-field c"]);
    check_steps(&loop_over("[{a: 1}, {b: 2}]", "page.a | default(page.b)"), &[]);
    check_steps(
        &loop_over("steps.pages.results.results | sort(attribute='title')", "page.titel"),
        &["unknown-field titel (title)"],
    );
    check_steps(&loop_over("steps.pages.results.results | batch(2)", "page.titel"), &[]);
}

#[test]
fn block_results_follow_from_inner_steps() {
    let behind = |step: &str, expression: &str, expected: &[&str]| {
        check_steps(&format!("  - {step}\n  - {{set: {{x: '${{{{ {expression} }}}}'}}}}\n"), expected);
    };
    let branch = "{id: b, if: automation.id, then: [{set: {a: 1}}], else: [{set: {b: 2}}]}";
    behind(branch, "steps.b.results.a", &[]);
    behind(branch, "steps.b.results.b", &[]);
    behind(branch, "steps.b.results.c", &["unknown-field c"]);
    behind("{id: b, if: automation.id, then: [{set: {a: 1}}]}", "steps.b.results.a", &[]);
    behind("{id: b, forEach: [1], steps: [{set: {a: 1}}]}", "steps.b.results[0].b", &["unknown-field b"]);
    behind("{id: b, forEach: [1], steps: [{set: {a: 1}}]}", "steps.b.results.a", &["unknown-field a"]);
    behind("{id: b, forEach: [1], failFast: false, steps: [{set: {a: 1}}]}", "steps.b.results[0].error", &[]);
    behind("{id: b, parallel: {left: [{set: {a: 1}}]}}", "steps.b.results.left.a", &[]);
    behind("{id: b, parallel: {left: [{set: {a: 1}}]}}", "steps.b.results.right", &["unknown-field right"]);
    behind("{id: b, parallel: {left: [{set: {a: 1}}]}}", "steps.b.results.left.b", &["unknown-field b"]);
    behind(
        "{id: b, action: wiki.getPage, connection: w, with: {pageId: '1'}, onError: [{set: {missing: true}}]}",
        "steps.b.results.missing",
        &[],
    );
    behind(
        "{id: b, action: wiki.getPage, connection: w, with: {pageId: '1'}, onError: continue}",
        "steps.b.results.titel",
        &["unknown-field titel (title)"],
    );
    behind(
        "{id: b, if: automation.id, action: text.split, with: {text: a/b}}",
        "steps.b.results.x",
        &["unknown-field x"],
    );
}

#[test]
fn a_variable_has_the_union_of_its_assigned_types() {
    let twice = "  - {set: {v: {a: 1}}}\n  - {set: {v: {b: 1}}}\n";
    check_steps(&format!("{twice}  - {{set: {{x: '${{{{ vars.v.a }}}}'}}}}\n"), &[]);
    check_steps(&format!("{twice}  - {{set: {{x: '${{{{ vars.v.c }}}}'}}}}\n"), &["unknown-field c"]);
    check_steps(
        "  - {set: {v: {}}}\n  - {set: {v: '${{ vars.v | items | list }}'}}\n  - {set: {x: '${{ vars.v.c }}'}}\n",
        &[],
    );
    check_steps(
        "  - {set: {v: '${{ vars.w }}'}}\n  - {set: {w: '${{ vars.v }}'}}\n  - {set: {x: '${{ vars.v.c }}'}}\n",
        &[],
    );
}

#[test]
fn a_loop_over_a_non_list_is_an_error() {
    let loop_over = |items: &str| format!("  - forEach: {items}\n    steps: [{{set: {{x: 1}}}}]\n");
    check_steps(&loop_over("steps.pages.results"), &["no-list steps.pages.results"]);
    check_steps(&loop_over("steps.pages.results.nextCursor"), &["no-list steps.pages.results.nextCursor"]);
    check_steps(&loop_over("steps.pages.results.results"), &[]);
    check_steps(&loop_over("steps.pages.results.results[0].labels.results"), &[]);
    check_steps(&loop_over("$.steps.pages.results"), &["no-list $.steps.pages.results"]);
    check_steps(&loop_over("$.steps.pages.results[*]"), &[]);
    check_steps(&loop_over("trigger.results.body.data"), &[]);
    let shown = report("trigger: {manual: {}}\nsteps:\n  - {id: pages, action: wiki.listPages, connection: w}\n  - {forEach: steps.pages.results, steps: [{set: {x: 1}}]}\n").render(false);
    assert!(shown.contains("did you mean `steps.pages.results.results`?"), "{shown}");
}

#[test]
fn an_input_of_a_type_that_can_never_match_is_an_error() {
    let given = |input: &str, expression: &str, expected: &[&str]| {
        let with = format!("{{pageId: '1', {input}: '${{{{ {expression} }}}}'}}");
        check_steps(&format!("  - {{action: wiki.getPage, connection: w, with: {with}}}\n"), expected);
    };
    given("version", "steps.pages.results.results[0].version.number", &[]);
    // A text of digits is a number where one is wanted.
    given("version", "steps.pages.results.results[0].id", &[]);
    given(
        "version",
        "steps.pages.results.results[0].version",
        &["wrong-input steps.pages.results.results[0].version"],
    );
    given(
        "includeLabels",
        "steps.pages.results.results[0].title",
        &["wrong-input steps.pages.results.results[0].title"],
    );
    given("includeLabels", "steps.pages.results.results | length > 1", &[]);
    given(
        "bodyFormat",
        "steps.pages.results.results[0].status",
        &["wrong-input steps.pages.results.results[0].status"],
    );
    given("bodyFormat", "steps.pages.results.results[0].title", &[]);
    let split = |text: &str, expected: &[&str]| {
        check_steps(&format!("  - {{action: text.split, with: {{text: '${{{{ {text} }}}}'}}}}\n"), expected);
    };
    split("steps.pages.results.results", &["wrong-input steps.pages.results.results"]);
    split(
        "steps.pages.results.results[0].version.minorEdit",
        &["wrong-input steps.pages.results.results[0].version.minorEdit"],
    );
    split("steps.pages.results.nextCursor", &[]);
    let update = "  - action: wiki.updatePage
    connection: w
    with: {pageId: 1, status: current, title: a, body: {value: b}, version: {number: '${{ steps.pages.results.results }}'}}
";
    check_steps(update, &["wrong-input steps.pages.results.results"]);
}

#[test]
fn a_body_has_the_type_of_its_schema() {
    let behind = |schema: &str, expression: &str, expected: &[&str]| {
        check(
            &format!(
                "trigger: {{webhook: {{verify: none, schema: {schema}}}}}\nsteps:\n  - set:\n      x: ${{{{ {expression} }}}}\n"
            ),
            expected,
        );
    };
    let items = "{type: array, items: {type: object, properties: {sku: {type: string}}}}";
    let closed = format!(
        "{{type: object, additionalProperties: false, properties: {{orderId: {{type: string}}, items: {items}}}}}"
    );
    behind(&closed, "trigger.results.body.data.orderId", &[]);
    behind(&closed, "trigger.results.body.data.items[0].sku", &[]);
    behind(&closed, "trigger.results.body.data.orderid", &["unknown-field orderid (orderId)"]);
    behind(&closed, "trigger.results.body.data.total | default(0)", &["unknown-field total"]);
    behind(&closed, "$.trigger.results.body.data.items[*].sku.code", &["unknown-field code"]);
    behind(&closed, "trigger.results.headers.orderid", &[]);
    // An open schema allows undeclared fields; only a name close to a declared one is reported.
    behind(&closed, "trigger.results.body.data.items[0].price", &[]);
    behind(&closed, "trigger.results.body.data.items[0].skuu", &["unknown-field skuu (sku)"]);
    behind("{type: object}", "trigger.results.body.data.orderid", &[]);
    let report_of_open_schema = report(&format!(
        "trigger: {{webhook: {{verify: none, schema: {closed}}}}}\nsteps:\n  - set: {{x: \"${{{{ trigger.results.body.data.items[0].skuu }}}}\"}}\n"
    ));
    assert!(!report_of_open_schema.has_errors(), "{}", report_of_open_schema.render(false));
}

#[test]
fn exponentially_growing_types_are_checked_quickly() {
    let mut steps = String::from("trigger: {manual: {}}\nsteps:\n  - {set: {v0: {a: 1}, w0: {a: 1}}}\n");
    for n in 1..300 {
        let before = n - 1;
        steps.push_str(&format!(
            "  - {{set: {{v{n}: ['${{{{ vars.v{before} }}}}', '${{{{ vars.w{before} }}}}'], w{n}: {{x: '${{{{ vars.v{before} }}}}', y: '${{{{ vars.w{before} }}}}'}}}}}}\n"
        ));
    }
    let begun = std::time::Instant::now();
    check(&steps, &[]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
}

proptest! {
    #[test]
    fn the_checker_terminates_with_valid_positions_for_any_file(
        parts in proptest::collection::vec("(steps|vars|item|page|pages|results|\\.|\\[0\\]|\\['|'\\]|\\[\\*\\]|titel| \\| first|\\$|ü| )", 1..12),
    ) {
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n  - {{id: pages, action: wiki.listPages, connection: w}}\n  - set:\n      x: ${{{{ {} }}}}\n", parts.concat());
        let loaded = language::load::automation(Arc::new(Source::new("test.yaml", text.as_str())), "test");
        if let Some(automation) = loaded.value {
            for found in super::check(&automation, Unreadable::NONE, &REGISTRY, alone()) {
                prop_assert!(text.get(found.span.range()).is_some_and(|slice| !slice.is_empty()), "{found:?}\n{text}");
            }
        }
    }
}

#[test]
fn reading_the_body_of_a_webhook_without_one_is_reported() {
    let file = |methods: &str, read: &str| {
        format!(
            "trigger: {{webhook: {{methods: {methods}, verify: none}}}}\nsteps:\n  - set: {{x: '${{{{ {read} }}}}'}}\n"
        )
    };
    let name = "trigger.results.body.data.name";
    check(&file("GET", name), &["unknown-field trigger.results.body.data.name"]);
    for (methods, read) in [
        ("POST", name),
        ("[GET, POST]", name),
        ("GET", "trigger.results.body.data.name | default(1)"),
        ("GET", "trigger.results.body.data"),
        ("GET", "trigger.results.queryParameters.name"),
    ] {
        check(&file(methods, read), &[]);
    }
}

#[test]
fn a_computed_wait_that_is_not_a_duration_is_an_error() {
    let file = |length: &str| {
        format!(
            "trigger: {{manual: {{}}}}\ninputs: {{n: {{type: integer, default: 1}}, t: {{type: text, default: 1s}}}}\nsteps:\n  - wait: {length}\n"
        )
    };
    check(&file("${{ inputs.n }}"), &["invalid-duration inputs.n"]);
    for fine in ["${{ inputs.t }}", "${{ inputs.n ~ 's' }}", "${{ vars.x | default('1s') }}"] {
        check(&file(fine), &[]);
    }
}

#[test]
fn the_operations_of_an_expression_for_each_item_are_checked_with_the_types_of_the_items() {
    check_expression("steps.pages.results.results | map(by=item.title * 2)", &["text-as-number item.title"]);
    check_expression(
        "steps.pages.results.results | select(by=item.version.number == '7')",
        &["never-equal item.version.number == '7'"],
    );
    check_expression("(steps.page.results.title | decimal) == '1.0'", &["never-equal '1.0'"]);
    check_expression(
        "steps.page.results.title > ('1' | decimal)",
        &["text-as-number steps.page.results.title"],
    );
}

#[test]
fn the_item_of_a_filter_is_not_that_of_the_loop() {
    check_steps(
        "  - forEach: [1, 2]\n    steps:\n      - set: {x: \"${{ steps.pages.results.results | map(by=item.title) }}\", y: \"${{ item.title }}\"}\n",
        &["unknown-field title"],
    );
    // A list of values of the items has a type.
    check_steps(
        "  - forEach: \"${{ steps.pages.results.results | map(by=item.version) }}\"\n    steps:\n      - set: {x: \"${{ item.nr }}\"}\n",
        &["unknown-field nr"],
    );
}

#[test]
fn the_end_of_a_wait_for_an_event_is_an_instant() {
    let check_until = |until: &str, expected: &[&str]| {
        check(
            &format!(
                "trigger: {{manual: {{}}}}\ninputs: {{at: text, list: list}}\nsteps:\n  - waitFor: {{event: a, until: \"{until}\"}}\n"
            ),
            expected,
        );
    };
    check_until("inputs.at", &[]);
    check_until("addDuration(now(), '2h')", &[]);
    check_until("'2026-03-01T09:00:00Z'", &[]);
    check_until("'2h'", &["invalid-instant '2h'"]);
    check_until("inputs.list is none", &["invalid-instant inputs.list is none"]);
}
