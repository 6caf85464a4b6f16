//! Diagnostics of a check: all at once, without duplicates and without follow-up errors.

use std::path::{Path, PathBuf};

use authoring::{check_project, check_text};
use catalog::Catalog;
use pretty_assertions::assert_eq;
use text::diagnostic::Report;

/// Returns the catalog of a project with the connections `mainWiki`, `books` and `broken`; the file of `broken` has an error.
pub(crate) fn catalog() -> Catalog {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("connections")).expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join("connections").join(name), text).expect("the file is written");
    };
    let wiki = "type: wiki.basic\nwith: {host: x.test, email: a@x.test, apiToken: \"${{ secrets.wiki }}\"}\n";
    write("mainWiki.yaml", wiki);
    write("books.yaml", "type: sql.sqlite\nwith: {file: books.db}\n");
    write("broken.yaml", &wiki.replace("secrets.wiki", "secrets."));
    check_project(dir.path(), &[]).expect("the connectors load").catalog
}

/// Returns `code text` of each problem: the text of its span, and the nearest name if there is one.
pub(crate) fn problems(report: &Report) -> Vec<String> {
    let all = report.diagnostics().iter().map(|found| {
        let near = found.nearest.as_ref().map(|near| format!(" ({near})")).unwrap_or_default();
        format!("{} {}{near}", found.code, report.source().slice(found.span))
    });
    all.collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let report = check_text(&catalog(), "automations/test.yaml", text);
    assert_eq!(problems(&report), expected, "\n{text}\n{}", report.render(false));
}

#[track_caller]
pub(crate) fn check_steps(steps: &str, expected: &[&str]) {
    check(&format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}"), expected);
}

const EVERYTHING: &str = r#"id: order-desk
trigger:
  webhok:
    mode: synch
timeout: 5 minutes
steps:
  - id: a
    action: wiki.createPge
    connection: mainWikki
    with:
      title: Order ${{ trigger.results.boddy.data.id }}
  - id: b
    action: wiki.createPage
    connection: mainWiki
    with:
      spaceID: "65538"
      title: Order {{ trigger.results.body.data.id }}
      body: ${{ steps.a.results.id + }}
  - id: c
    action: log.info
    with:
      message: ${{ steps.a.reslts.id }} of ${{ steps.nowhere.results }}
  - parallel:
      left:
        - {id: d, needs: [e], action: log.info, with: {message: "${{ vars.totl }}"}}
        - {id: e, needs: [d], set: {total: "${{ steps.f.results }}"}}
      right:
        - fail: nothing to do
        - {id: g, action: log.info, with: {message: never}}
"#;

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    check(
        EVERYTHING,
        &[
            "unknown-key webhok (webhook)",
            "unknown-value synch (sync)",
            "invalid-duration 5 minutes",
            "unknown-action wiki.createPge (wiki.createPage)",
            "unknown-connection mainWikki (mainWiki)",
            "unknown-member boddy (body)",
            "unknown-input spaceID (spaceId)",
            "braces-without-dollar {{ trigger.results.body.data.id }}",
            "expression-syntax +",
            "unknown-member reslts (results)",
            "unknown-step nowhere",
            "needs-cycle e",
            "unknown-variable totl (total)",
            "unknown-step f",
            "never-runs id",
        ],
    );
}

#[test]
fn a_reload_reports_the_same_problems_as_a_check() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("automations")).expect("a folder");
    std::fs::write(dir.path().join("automations/order-desk.yaml"), EVERYTHING).expect("the file is written");
    let checked = check_project(dir.path(), &[]).expect("the connectors load");
    assert_eq!(checked.catalog.automations().len(), 0, "what has errors is not in force");
    let text = check_text(&checked.catalog, "automations/order-desk.yaml", EVERYTHING);
    assert_eq!(problems(&checked.catalog.invalid_files()[0].report), problems(&text));
}

#[test]
fn a_missing_required_entry_is_reported_beside_computed_entries() {
    let body = |body: &str, expected: &[&str]| {
        let with = format!("{{spaceId: '1', status: current, title: a, body: {body}}}");
        check_steps(
            &format!("  - {{action: wiki.createPage, connection: mainWiki, with: {with}}}\n"),
            expected,
        );
    };
    body("{value: '${{ automation.id }}'}", &[]);
    body("{representation: '${{ automation.id }}'}", &["missing-input body"]);
    body("{valeu: '${{ automation.id }}'}", &["unknown-input valeu (value)"]);
}

#[test]
fn an_unreadable_trigger_leaves_its_results_unchecked() {
    let rest = "steps:\n  - {if: trigger.results.scheduledAt, set: {z: 1}}\n  - respond: {body: x}\n  - {if: trigger.body, set: {z: 1}}\n";
    check(&format!("trigger: {{clock: {{}}}}\n{rest}"), &["unknown-key clock", "unknown-member body"]);
    check(&format!("trigger: webhook\n{rest}"), &["wrong-type webhook", "unknown-member body"]);
    check(
        &format!("trigger: {{webhook: {{}}, manual: {{}}}}\n{rest}"),
        &["conflicting-keys manual", "unknown-member body"],
    );
    check(rest, &["missing-key steps", "unknown-member body"]);
}

#[test]
fn respond_is_not_reported_if_the_webhook_mode_is_unreadable() {
    let steps = "steps: [{respond: {body: x}}]\n";
    check(
        &format!("trigger: {{webhook: {{verify: none, mode: never, timeout: 5s}}}}\n{steps}"),
        &["unknown-value never"],
    );
    check(
        &format!("trigger: {{webhook: {{verify: none, sync: true, timeout: 5s}}}}\n{steps}"),
        &["unknown-key sync"],
    );
    check(
        &format!("trigger: {{webhook: {{verify: none, maxBody: 5}}}}\n{steps}"),
        &["invalid-size 5", "respond-without-caller respond"],
    );
    check(
        &format!("trigger: {{webhook: {{verify: none, mode: asynch, timeout: 5s}}}}\n{steps}"),
        &["unknown-value asynch (async)", "sync-only timeout", "respond-without-caller respond"],
    );
}

#[test]
fn the_times_and_the_timezone_of_a_schedule_are_both_checked() {
    let steps = "steps: [{set: {z: 1}}]\n";
    check(
        &format!("trigger: {{schedule: {{cron: '61 * * * *', timezone: Europe/Berlim}}}}\n{steps}"),
        &["bad-schedule 61 * * * *", "bad-schedule Europe/Berlim"],
    );
    check(
        &format!("trigger: {{schedule: {{every: often, timezone: Europe/Berlim}}}}\n{steps}"),
        &["invalid-duration often", "bad-schedule Europe/Berlim"],
    );
}

#[test]
fn steps_inside_an_invalid_step_are_checked_and_known() {
    let inside = "[{id: a, action: log.inf}]";
    let after = "- {if: steps.a.reslts | default(1), set: {z: 1}}\n";
    for (step, expected) in [
        (format!("- if: a b\n  then: {inside}\n"), "expression-syntax b"),
        (format!("- then: {inside}\n"), "missing-key then"),
        (format!("- if: execution.id\n  thn: {inside}\n"), "unknown-key thn (then)"),
        (format!("- forEach: {{a: 1}}\n  steps: {inside}\n"), "wrong-type a"),
        (format!("- parallel: {{a b: {inside}}}\n"), "invalid-name a b"),
        (format!("- parallel: {inside}\n"), "wrong-type id"),
        ("- if: execution.id\n  then: {id: a, action: log.inf}\n".to_owned(), "wrong-type id"),
        (format!("- set: {{z: 1}}\n  onEror: {inside}\n"), "unknown-key onEror (onError)"),
    ] {
        let inside = "unknown-action log.inf (log.info)";
        check_steps(&format!("{step}{after}"), &[expected, inside, "unknown-member reslts (results)"]);
    }
}

#[test]
fn a_step_without_a_known_verb_keeps_its_id_and_suppresses_follow_up_errors() {
    let after = "- {if: steps.a.results.x and vars.anything, set: {z: 1}}\n";
    check_steps(&format!("- {{id: a}}\n{after}"), &["no-verb id"]);
    check_steps(&format!("- {{id: a, launch: x}}\n{after}"), &["unknown-key launch"]);
    // The names below an unknown key may be step ids.
    check_steps(
        "- {launch: x, lists: {one: [{id: a, set: {z: 1}}]}}\n- {if: steps.a.results, set: {z: 1}}\n",
        &["unknown-key launch", "unknown-key lists"],
    );
}

#[test]
fn a_misspelt_verb_is_checked_as_the_intended_verb() {
    check_steps(
        "- {acton: wiki.createPge, with: {a: 1}}\n- {sett: {x: '${{ nobody }}'}}\n- {if: vars.x, set: {z: 1}}\n",
        &[
            "unknown-key acton (action)",
            "unknown-action wiki.createPge (wiki.createPage)",
            "unknown-key sett (set)",
            "unknown-name nobody",
        ],
    );
}

#[test]
fn an_invalid_id_is_reported_only_at_its_definition() {
    check_steps(
        "- {id: create-page, set: {z: 1}}\n- {if: \"steps['create-page'].results and steps.createPage.results\", set: {z: 1}}\n",
        &["invalid-id create-page (createPage)"],
    );
    check_steps(
        "- {id: a, set: {z: 1}}\n- {id: a, set: {z: 1}}\n- {if: steps.a.results, set: {z: 1}}\n",
        &["duplicate-id a"],
    );
    check_steps(
        "- {idd: page, set: {z: 1}}\n- {if: steps.page.results, set: {z: 1}}\n",
        &["unknown-key idd (id)"],
    );
    check_steps(
        "- log.info\n- {id: b, set: {z: 1}}\n- {if: steps.step4.results, set: {z: 1}}\n- {set: {z: 1}}\n",
        &["wrong-type log.info", "later-step step4"],
    );
}

#[test]
fn values_that_steps_may_take_from_unreadable_defaults_are_not_reported_as_missing() {
    let steps = "trigger: {manual: {}}\nsteps:\n- {action: wiki.listSpaces}\n- {action: http.get, with: {url: 'https://a.test'}}\n";
    for (defaults, expected) in [
        ("defaults: {connection: 5}", "wrong-type 5"),
        ("defaults: 5", "wrong-type 5"),
        ("defaults: {q: 1}", "unknown-key q"),
        ("defaults: {retry: soon}", "wrong-type soon"),
        ("default: {connection: mainWiki, retry: 3}", "unknown-key default (defaults)"),
    ] {
        check(&format!("{defaults}\n{steps}"), &[expected]);
    }
    let absent = ["unknown-connection nowhere", "no-retry http.get"];
    check(&format!("defaults: {{connection: nowhere}}\n{steps}"), &absent);
    let needed = ["missing-connection wiki.listSpaces", "no-retry http.get"];
    check(&format!("defaults: {{timeout: 5m}}\n{steps}"), &needed);
    check(&format!("defaults: {{connection: null}}\n{steps}"), &needed);
}

#[test]
fn unreadable_inputs_are_not_reported_as_missing() {
    let page = "action: wiki.getPage, connection: mainWiki";
    check_steps(&format!("- {{{page}, with: [1]}}\n"), &["wrong-type 1"]);
    check_steps(&format!("- {{{page}, inputs: {{pageId: 1}}}}\n"), &["unknown-key inputs (with)"]);
    check_steps(
        &format!("- {{{page}, with: {{page_id: [1]}}}}\n"),
        &["unknown-input page_id (pageId)", "wrong-input [1]"],
    );
    check_steps(
        &format!("- {{{page}, with: {{pageid: '${{{{ a b }}}}'}}}}\n"),
        &["unknown-input pageid (pageId)", "expression-syntax b"],
    );
    // An error in the connection does not hide errors in the inputs.
    check_steps(
        "- {action: wiki.getPage, connection: [1]}\n",
        &["missing-input wiki.getPage", "wrong-type 1"],
    );
    check_steps(
        "- {action: wiki.getPage, conection: mainWiki}\n",
        &["missing-input wiki.getPage", "unknown-key conection (connection)"],
    );
    check_steps(
        "- {action: wiki.getPage, account: mainWiki, with: {pageId: '1'}}\n",
        &["unknown-key account"],
    );
    check_steps(
        "- {action: getPage, connection: nowhere}\n",
        &["invalid-action getPage", "unknown-connection nowhere"],
    );
}

#[test]
fn a_broken_connection_is_not_reported_as_unknown() {
    let steps = "- {action: wiki.getPage, connection: broken, with: {pageId: '1'}}\n";
    check_steps(steps, &["broken-connection broken"]);
}

#[test]
fn a_connection_is_checked_as_far_as_it_can_be_read() {
    let check = |text: &str, expected: &[&str]| {
        let report = check_text(&catalog(), "connections/x.yaml", text);
        assert_eq!(problems(&report), expected, "\n{text}\n{}", report.render(false));
    };
    check(
        "type: wiki.basic\ndescripton: x\nwith: {hosts: a, apiToken: '${{ trigger.x }}', extra: '${{ a b }}'}\n",
        &[
            "missing-input wiki.basic",
            "unknown-key descripton (description)",
            "unknown-input hosts (host)",
            "name-not-here trigger",
            "unknown-input extra",
            "expression-syntax b",
        ],
    );
    check("type: wiki.basic\nwith: [1]\n", &["wrong-type 1"]);
    check("type: basic\nwith: {a: '${{ vars.x }}'}\n", &["invalid-type basic", "name-not-here vars"]);
    check(
        "tpe: wiki.basik\nwith: {}\n",
        &["unknown-key tpe (type)", "unknown-connection-type wiki.basik (wiki.basic)"],
    );
}

#[test]
fn a_problem_in_a_nested_step_names_the_step_path() {
    let text = "trigger: {manual: {}}\nsteps:\n- id: both\n  parallel:\n    left:\n    - id: each\n      forEach: [1]\n      steps: [{id: deep, action: log.inf}]\nfinally: [{id: end, action: log.inf}]\n";
    let report = check_text(&catalog(), "automations/test.yaml", text);
    let paths: Vec<_> = report.entries().into_iter().map(|entry| entry.step_path.join(" ")).collect();
    assert_eq!(paths, ["both left each deep", "finally end"]);
    assert!(report.render(false).contains("in step `both › left › each › deep`"), "{}", report.render(false));
}

#[test]
fn an_unreachable_case_is_reported() {
    let switch = |inputs: &str, value: &str, cases: &str| {
        format!(
            "trigger: {{manual: {{}}}}\ninputs: {{{inputs}}}\nsteps:\n- switch: {value}\n  cases: {{{cases}}}\n"
        )
    };
    let size = "size: {options: [small, large], required: true}";
    let (small, large) = ("small: [{set: {z: 1}}]", "large: [{set: {z: 1}}]");
    check(
        &switch(size, "inputs.size", &format!("{small}, larg: [{{set: {{z: 1}}}}]")),
        &["unreachable-case larg (large)"],
    );
    check(&switch(size, "inputs.size", &format!("{small}, {large}")), &[]);
    check(&switch(size, "inputs.size | upper", "SMALL: [{set: {z: 1}}]"), &[]);
    let both = |keys: &str| {
        format!("{}  default: [{{fail: x}}]\n", switch(keys, "inputs.size", &format!("{small}, {large}")))
    };
    check(&both(size), &["unreachable-case fail"]);
    check(&both("size: {options: [small, large]}"), &[]);
    let flag = "'true': [{set: {z: 1}}], 'no': [{set: {z: 1}}]";
    check(&switch("loud: {type: boolean}", "inputs.loud", flag), &["unreachable-case 'no'"]);
    let other = "a: [{set: {z: 1}}], default: [{set: {z: 1}}]";
    check(&switch("kind: {type: text}", "inputs.kind", other), &["unreachable-case default"]);
    check_steps(
        "- {id: ask, waitFor: {approval: {message: Go?, options: [go, stay]}}}\n- switch: steps.ask.results.option\n  cases: {go: [{set: {z: 1}}], leave: [{stop: {}}]}\n",
        &["unreachable-case leave"],
    );
}

#[test]
fn a_case_behind_a_constant_true_is_unreachable() {
    let set = "[{set: {z: 1}}]";
    check_steps(
        &format!(
            "- switch: [{{if: 'execution.id or true', then: {set}}}, {{if: execution.attempt == 1, then: {set}}}]\n"
        ),
        &["constant-condition true", "unreachable-case if"],
    );
    check_steps(
        &format!("- switch: [{{if: execution.attempt == 1, then: {set}}}, {{if: true, then: {set}}}]\n"),
        &["constant-condition true"],
    );
    check_steps(&format!("- switch: [{{if: execution.attempt == 1, then: {set}}}]\n  default: {set}\n"), &[]);
}

#[test]
fn the_result_of_a_loop_has_the_fields_of_its_continue() {
    let steps = |field: &str| {
        format!(
            "- id: all\n  forEach: [1, 2]\n  steps:\n  - {{if: item == 1, continue: {{result: {{a: 1}}}}}}\n  - set: {{b: 2}}\n- set: {{z: '${{{{ steps.all.results[0].{field} }}}}'}}\n"
        )
    };
    check_steps(&steps("a"), &[]);
    check_steps(&steps("c"), &["unknown-field c"]);
}

#[test]
fn a_call_without_retry_or_error_handling_gets_a_hint() {
    let call = "{action: http.request, with: {url: 'https://x.test'}}";
    let hint = "no-retry http.request";
    check_steps(&format!("- {call}\n"), &[hint]);
    check_steps(&format!("- {{if: execution.id, then: [{call}]}}\n"), &[hint]);
    check_steps(
        "- {action: wiki.rawRequest, connection: mainWiki, with: {url: /x, method: GET}}\n",
        &["no-retry wiki.rawRequest"],
    );
    check_steps(
        "- {action: wiki.rawRequest, connection: mainWiki, with: {url: /x, method: GET, maxRetryCount: 3}}\n",
        &[],
    );
    check_steps(&format!("- {{steps: [{call}], retry: 2}}\n"), &[]);
    check_steps(&format!("- {{forEach: [1], failFast: false, steps: [{call}]}}\n"), &[]);
    check_steps(
        &format!("- {{action: text.split, with: {{text: a, separator: b}}, onError: [{call}]}}\n"),
        &[hint],
    );
    check(&format!("trigger: {{manual: {{}}}}\nsteps: [{call}]\nonError: [{{set: {{_z: 1}}}}]\n"), &[]);
    check(&format!("trigger: {{schedule: {{every: 5m}}}}\nsteps: [{call}]\nretry: 2\n"), &[]);
}

#[test]
fn now_and_uuid_are_rejected_where_they_are_not_recorded() {
    let steps = "steps: [{set: {z: \"${{ now() }}\"}}]";
    check(&format!("trigger: {{manual: {{}}}}\n{steps}\n"), &[]);
    check(
        &format!("trigger: {{manual: {{}}, if: now() > '2026'}}\n{steps}\n"),
        &["moment-not-here now() > '2026'"],
    );
    check(
        &format!("trigger: {{manual: {{}}}}\nconfigVars: {{_a: \"${{{{ uuid() }}}}\"}}\n{steps}\n"),
        &["moment-not-here uuid()"],
    );
    check(
        &format!(
            "trigger: {{manual: {{}}}}\nconcurrency: {{limit: 1, key: \"${{{{ now() }}}}\"}}\n{steps}\n"
        ),
        &["moment-not-here now()"],
    );
}

#[test]
fn a_literal_credential_in_a_connection_is_reported_once_and_not_shown() {
    let token = concat!("ATA", "TT3xFfGF0x7Lq2VbN8sKd4RtYw9ZcE1mPfGhJ3uAo5Ti6Qb8WnX2");
    for secret in ["s3same", token] {
        let text = format!("type: wiki.basic\nwith: {{host: x.test, apiToken: {secret}, email: a@x.test}}\n");
        let report = check_text(&catalog(), "connections/x.yaml", &text);
        assert_eq!(problems(&report), [format!("literal-credential {secret}")]);
        assert!(!report.render(false).contains(secret), "{}", report.render(false));
    }
}

#[test]
fn an_unreadable_part_of_a_step_suppresses_errors_that_depend_on_it() {
    // The step may be skipped, may continue after a failure, or may be the last one.
    check_steps("- {if: a b, fail: x}\n- {set: {z: 1}}\n", &["expression-syntax b"]);
    check_steps("- {fail: x, onError: later}\n- {set: {z: 1}}\n", &["unknown-value later"]);
    check_steps("- {fail: x, unless: a}\n- {set: {z: 1}}\n", &["unknown-key unless"]);
    check_steps(
        "- {id: a, if: 'vars.x and (', set: {z: 1}}\n- {if: steps.a.results.id, set: {z: 1}}\n",
        &["expression-syntax ("],
    );
    check_steps(
        "- {action: http.request, with: {url: 'https://x.test'}, retry: often}\n",
        &["wrong-type often"],
    );
    check_steps("- {set: [a]}\n- {if: vars.a, set: {z: 1}}\n", &["wrong-type a"]);
    check_steps("- {set: {a-b: 1}}\n- {if: \"vars['a-b']\", set: {z: 1}}\n", &["invalid-name a-b"]);
    check_steps("- forEach: [1]\n  as: 2nd\n  steps: [{if: item, set: {z: 1}}]\n", &["invalid-name 2nd"]);
}

#[test]
fn unreadable_inputs_and_variables_count_as_declared() {
    let file = |lines: &str| {
        format!(
            "{lines}\ntrigger: {{manual: {{}}}}\nsteps: [{{if: inputs.a and configVars.a, set: {{z: 1}}}}]\n"
        )
    };
    check(&file("inputs: [a]\nconfigVars: [a]"), &["wrong-type a", "wrong-type a"]);
    check(&file("inputs: {a: 7}\nconfigVars: {a: {secret: true}}"), &["wrong-type 7", "missing-key secret"]);
    check(&file("inputs: {b: {}}\nconfigVars: {b: 1}"), &["undeclared-input a", "undeclared-config-var a"]);
    check(&file("parameters: {a: 1}"), &["unknown-key parameters"]);
}

#[test]
fn an_invalid_step_order_suppresses_only_order_errors() {
    check_steps(
        "- {id: a, needs: [b], if: steps.b.results and steps.c.results, set: {z: 1}}\n- {id: b, needs: [a], if: steps.a.result, set: {z: 1}}\n- {id: c, needs: [a], if: steps.x.results, set: {z: 1}}\n- {id: d, needs: [], if: steps.c.results, set: {z: 1}}\n",
        &["needs-cycle b", "unknown-member result (results)", "unknown-step x", "unwaited-step c"],
    );
    check_steps(
        "- {id: a, needs: [], set: {z: 1}}\n- {id: b, needs: [aa], if: steps.a.results, set: {z: 1}}\n",
        &["unknown-need aa (a)"],
    );
    check_steps(
        "- {id: a, needs: [], set: {z: 1}}\n- {id: b, needs: {}, if: steps.a.results, set: {z: 1}}\n",
        &["wrong-type {}"],
    );
    check_steps(
        "- {id: a, needs: [b], set: {z: 1}}\n- {id: b, after: [], set: {z: 1}}\n",
        &["unknown-key after"],
    );
}

/// Returns the example automations of the repository.
pub(crate) fn shipped() -> Vec<(PathBuf, String)> {
    crate::common::workers();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = std::fs::read_dir(root.join("automations")).expect("the examples");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .filter(|path| !path.to_string_lossy().ends_with(".test.yaml"))
        .map(|path| (path.clone(), std::fs::read_to_string(&path).expect("it is text")))
        .collect();
    files.sort();
    assert!(files.len() > 10);
    files
}
