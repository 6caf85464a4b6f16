//! `validate`.

use crate::support::{BAD, HELLO, ORDER, Project};

fn project() -> Project {
    Project::with(&[("automations/bad.yaml", BAD), ("automations/hello.yaml", HELLO)])
}

#[test]
fn problems_are_shown_in_the_style_of_rustc() {
    let ran = project().cogwork(&["validate"]).exits(1).says("checked 2 files: 1 error, 0 warnings");
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn problems_are_printed_as_json() {
    let ran = project().cogwork(&["validate", "--format", "json"]).exits(1);
    let found = ran.json();
    assert_eq!((&found["files"], &found["errors"], &found["warnings"]), (&2.into(), &1.into(), &0.into()));
    let codes: Vec<_> =
        found["diagnostics"].as_array().expect("a list").iter().map(|entry| &entry["code"]).collect();
    assert_eq!(codes, ["unknown-key"]);
    assert_eq!(found["diagnostics"][0]["nearest"], "steps");
    assert_eq!(found["diagnostics"][0]["line"], 3);
}

#[test]
fn problems_are_printed_as_github_annotations() {
    let ran = project().cogwork(&["validate", "--format", "github"]).exits(1);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn strict_fails_on_warnings() {
    let text =
        "trigger: {manual: {}}\nsteps:\n  - if: 1 == 2\n    action: log.info\n    with: {message: x}\n";
    let project = Project::with(&[("automations/doubtful.yaml", text)]);
    project.cogwork(&["validate"]).exits(0).says("checked 1 file: 0 errors, 1 warning");
    project.cogwork(&["validate", "--strict"]).exits(1).says("checked 1 file: 0 errors, 1 warning");
    // Hints are none.
    let text = "trigger: {manual: {}}\nsteps:\n  - if: false\n    action: log.info\n    with: {message: x}\n";
    let project = Project::with(&[("automations/off.yaml", text)]);
    project.cogwork(&["validate", "--strict"]).exits(0).says("checked 1 file: 0 errors, 0 warnings, 1 hint");
}

#[test]
fn annotations_name_files_relative_to_the_repository_root() {
    let project = project();
    let top = project.path().parent().expect("a parent").display().to_string();
    let name = project.path().file_name().expect("a name").to_string_lossy().into_owned();
    let ran =
        project.cogwork_with(&["validate", "--format", "github"], &[("GITHUB_WORKSPACE", &top)], "").exits(1);
    assert!(ran.stdout.contains(&format!("file={name}/automations/bad.yaml,")), "{}", ran.stdout);
}

#[test]
fn errors_within_a_file_hide_no_errors_across_files() {
    let text = "trigger: {manul: {}}\ntimeout: 5\nsteps:\n  - action: log.inf\n    with: {message: \"${{ vars.x }}\"}\n";
    let ran =
        Project::with(&[("automations/all.yaml", text)]).cogwork(&["validate", "--format", "json"]).exits(1);
    let found = ran.json();
    let codes: Vec<_> =
        found["diagnostics"].as_array().expect("a list").iter().map(|entry| &entry["code"]).collect();
    assert_eq!(codes, ["unknown-key", "invalid-duration", "unknown-action", "unknown-variable"]);
}

#[test]
fn only_the_named_files_are_reported() {
    let project = project();
    project.cogwork(&["validate", "automations/hello.yaml"]).exits(0).says("checked 1 file: 0 errors");
    project.cogwork(&["validate", "./automations/../automations"]).exits(1).says("checked 2 files");
    project.cogwork(&["validate", "."]).exits(1).says("checked 2 files");
    project
        .cogwork(&["validate", "automations/nosuch.yaml"])
        .exits(1)
        .says("cannot find `automations/nosuch.yaml`");
}

#[test]
fn a_single_file_is_checked_against_the_whole_project() {
    let project = Project::with(&[
        (
            "connections/main.yaml",
            "type: http.bearer\nwith: {baseUrl: \"https://example.com\", token: \"${{ secrets.t }}\"}\n",
        ),
        (
            "automations/call.yaml",
            "trigger: {manual: {}}\nsteps:\n  - action: http.request\n    connection: main\n    retry: 3\n    with: {url: /x}\n",
        ),
    ]);
    project
        .cogwork(&["validate", "automations/call.yaml"])
        .exits(0)
        .says("checked 1 file: 0 errors, 0 warnings");
    std::fs::remove_file(project.file("connections/main.yaml")).expect("it goes");
    let ran = project.cogwork(&["validate", "automations/call.yaml"]).exits(1);
    assert!(ran.stdout.contains("there is no connection `main`"), "{}", ran.stdout);
}

#[test]
fn a_file_outside_the_project_is_checked_like_a_project_file() {
    let (project, other) = (project(), Project::with(&[("order.yaml", ORDER), ("bad.yaml", BAD)]));
    let path = |name: &str| other.file(name).display().to_string();
    project.cogwork(&["validate", &path("order.yaml")]).exits(0).says("checked 1 file: 0 errors");
    let ran = project.cogwork(&["validate", &path("bad.yaml")]).exits(1);
    assert!(ran.stdout.contains(&path("bad.yaml")), "{}", ran.stdout);
}

#[test]
fn validate_checks_the_settings() {
    let project =
        Project::with(&[("automations/hello.yaml", HELLO), ("cogwork.yaml", "hook: 127.0.0.1:1\n")]);
    let ran = project.cogwork(&["validate"]).exits(1).says("checked 2 files: 1 error,");
    assert!(
        ran.stdout.contains("cogwork.yaml:1:1") && ran.stdout.contains("did you mean `hooks`?"),
        "{}",
        ran.stdout
    );
    project.cogwork(&["run", "hello"]).exits(1).says("did you mean `hooks`?");
    project.cogwork(&["validate", "cogwork.yaml"]).exits(1).says("checked 1 file: 1 error,");
}

#[test]
fn a_folder_without_a_project_suggests_init() {
    Project::empty().cogwork(&["validate"]).exits(1).says("cogwork init");
}

/// An Automation with a warning, and a connection whose secret is set nowhere.
fn doubtful(comment: &str) -> Project {
    let text = format!(
        "trigger: {{manual: {{}}}}\nsteps:\n  - action: log.info\n    with: {{message: \"{{{{ x }}}}\"}}{comment}\n"
    );
    Project::with(&[("automations/doubtful.yaml", &text)])
}

#[test]
fn a_suppressed_warning_appears_in_no_format() {
    doubtful("").cogwork(&["validate", "--strict"]).exits(1).says("1 warning");
    let project = doubtful(" # cogwork: allow(braces-without-dollar)");
    project.cogwork(&["validate", "--strict"]).exits(0).says("checked 1 file: 0 errors, 0 warnings");
    let ran = project.cogwork(&["validate", "--format", "json"]).exits(0);
    assert_eq!(ran.json()["diagnostics"], serde_json::json!([]));
    assert_eq!(project.cogwork(&["validate", "--format", "github"]).exits(0).stdout, "");
    let misspelt = doubtful(" # cogwork: allow(brace-without-dollar)");
    let ran = misspelt.cogwork(&["validate", "--strict", "--format", "json"]).exits(1);
    let found = ran.json();
    let told =
        found["diagnostics"].as_array().expect("a list").iter().find(|told| told["code"] == "unused-allow");
    assert_eq!(told.expect("it is told")["nearest"], "braces-without-dollar");
}

const SHOP: &str =
    "type: http.bearer\nwith: {baseUrl: https://shop.test, token: \"${{ secrets.shopToken }}\"}\n";

#[test]
fn a_missing_secret_is_a_warning_with_a_fix_and_does_not_fail_strict() {
    let project = Project::with(&[("automations/hello.yaml", HELLO), ("connections/shop.yaml", SHOP)]);
    let ran = project.cogwork(&["validate", "--strict"]).exits(0).says("0 errors, 1 warning");
    assert!(
        ran.stdout.contains("warning[missing-secret]: the secret `shopToken` is not set"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("cogwork secrets set shopToken"), "{}", ran.stdout);
    let listed = project.cogwork(&["connections", "list", "--json"]).exits(0).json();
    assert_eq!(listed["connections"][0]["missingSecrets"], serde_json::json!(["shopToken"]));
    let table = project.cogwork(&["connections", "list"]).exits(0);
    assert!(table.stdout.contains("the secret `shopToken` is not set"), "{}", table.stdout);
    // Only of the files that were asked for.
    project.cogwork(&["validate", "automations/hello.yaml"]).exits(0).says("0 errors, 0 warnings");
    let with = project.cogwork_with(&["validate"], &[("COGWORK_SECRET_SHOP_TOKEN", "t0ken")], "");
    with.exits(0).says("0 errors, 0 warnings");
    project.cogwork_with(&["secrets", "set", "shopToken"], &[], "t0ken").exits(0);
    project.cogwork(&["validate"]).exits(0).says("0 errors, 0 warnings");
    let listed = project.cogwork(&["connections", "list", "--json"]).exits(0).json();
    assert_eq!(listed["connections"][0]["missingSecrets"], serde_json::Value::Null);
}

#[test]
fn a_file_outside_is_checked_against_the_connections_of_the_project() {
    let draft = "trigger: {manual: {}}\nsteps:\n  - action: http.request\n    connection: shop\n    retry: 1\n    with: {url: /x}\n";
    let project = Project::with(&[
        ("automations/hello.yaml", HELLO),
        ("connections/shop.yaml", SHOP),
        ("drafts/one.yaml", draft),
    ]);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let path = |name: &str| elsewhere.path().join(name).display().to_string();
    let write =
        |name: &str, text: &str| std::fs::write(elsewhere.path().join(name), text).expect("it is written");
    write("tmp.aB3xY.yaml", draft);
    write("copy.yaml", &format!("id: hello\n{HELLO}"));
    write("wrong.yaml", &draft.replace("shop", "shopp"));
    write("connection.yaml", &SHOP.replace("baseUrl", "baseUrll"));
    for fine in [path("tmp.aB3xY.yaml"), path("copy.yaml"), "drafts/one.yaml".to_owned()] {
        project.cogwork(&["validate", &fine]).exits(0).says("checked 1 file: 0 errors, 0 warnings");
    }
    let told = |name: &str| {
        let found = project.cogwork(&["validate", "--format", "json", &path(name)]).exits(1).json();
        let codes =
            found["diagnostics"].as_array().expect("a list").iter().map(|told| told["code"].to_string());
        codes.collect::<Vec<_>>()
    };
    assert_eq!(told("wrong.yaml"), ["\"unknown-connection\""]);
    assert_eq!(told("connection.yaml"), ["\"unknown-input\""]);
}

#[test]
fn stdin_is_checked_as_a_project_file() {
    let project = Project::with(&[("automations/hello.yaml", HELLO)]);
    let check = |text: &str| project.cogwork_with(&["validate", "-", "--format", "json"], &[], text);
    let called = "trigger: {manual: {}}\nsteps: [{call: helo}]\n";
    let told = check(called).exits(1).json();
    let told = &told["diagnostics"][0];
    assert_eq!((&told["file"], &told["nearest"]), (&"stdin".into(), &"hello".into()), "{told}");
    check(&called.replace("helo", "hello")).exits(0);
}

#[test]
fn fix_applies_all_fixes_and_a_dry_run_only_shows_them() {
    const WRONG: &str = "trigger: {manual: {}}\ninputs: {name: {type: text, required: true}}\nstepz:\n  - action: log.inof\n    with: {message: \"${{ inputs.name.toUpperCase() }}\"}\n";
    const RIGHT: &str = "trigger: {manual: {}}\ninputs: {name: {type: text, required: true}}\nsteps:\n  - action: log.info\n    with: {message: \"${{ inputs.name | upper }}\"}\n";
    let project = Project::with(&[("automations/wrong.yaml", WRONG)]);
    let read = || std::fs::read_to_string(project.file("automations/wrong.yaml")).expect("the file");
    let dry = project.cogwork(&["fix", "--dry-run"]).exits(0);
    assert!(dry.stdout.contains("3 - stepz:") && dry.stdout.contains("3 + steps:"), "{}", dry.stdout);
    assert_eq!(read(), WRONG);
    project
        .cogwork(&["fix", "automations/wrong.yaml"])
        .exits(0)
        .says("applied 3 fixes in 1 file; 0 errors left");
    assert_eq!(read(), RIGHT);
    project.cogwork(&["fix"]).exits(0).says("applied 0 fixes in 0 files");
}
