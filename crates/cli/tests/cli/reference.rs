//! `connectors`, `schema`, `completions`, `version`.

use crate::support::Project;

#[test]
fn an_action_is_shown_with_inputs_and_an_example() {
    let ran = Project::empty().cogwork(&["connectors", "show", "text.split"]).exits(0);
    for part in ["INPUT", "separator", "required", "EXAMPLE", "- action: text.split"] {
        assert!(ran.stdout.contains(part), "`{part}` is missing in:\n{}", ran.stdout);
    }
    let spec = Project::empty().cogwork(&["connectors", "show", "wiki.createPage", "--json"]).exits(0).json();
    assert_eq!((&spec["name"], &spec["effect"]), (&"wiki.createPage".into(), &"write".into()));
}

#[test]
fn the_example_of_an_action_is_a_valid_step() {
    let project = Project::with(&[(
        "connections/myWiki.yaml",
        "type: wiki.basic\nwith: {email: a@b.c, apiToken: \"${{ secrets.t }}\", host: acme.example.com}\n",
    )]);
    for action in ["wiki.createPage", "wiki.rawRequest", "http.request", "log.info", "text.split"] {
        let shown = project.cogwork(&["connectors", "show", action]).exits(0).stdout;
        let (_, example) = shown.split_once("EXAMPLE\n").expect("an example");
        project.write("automations/example.yaml", &format!("trigger: {{manual: {{}}}}\nsteps:\n{example}"));
        let ran = project.cogwork(&["validate", "automations/example.yaml"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    }
}

#[test]
fn a_connector_and_a_connection_type_are_shown() {
    let shown = Project::empty().cogwork(&["connectors", "show", "wiki"]).exits(0).stdout;
    assert!(shown.contains("wiki.listPagesInSpace") && shown.contains("wiki.basic"), "{shown}");
    let shown = Project::empty().cogwork(&["connectors", "show", "wiki.basic"]).exits(0).stdout;
    assert!(shown.contains("text, secret"), "{shown}");
    let listed = Project::empty().cogwork(&["connectors", "list", "--json"]).exits(0).json();
    let names: Vec<_> =
        listed.as_array().expect("a list").iter().map(|connector| &connector["name"]).collect();
    assert!(names.contains(&&"wiki".into()) && names.contains(&&"log".into()), "{names:?}");
    Project::empty().cogwork(&["connectors", "list"]).exits(0);
}

#[test]
fn a_misspelt_name_gets_a_suggestion() {
    Project::empty()
        .cogwork(&["connectors", "show", "wiki.createpages"])
        .exits(1)
        .says("did you mean `wiki.createPage`?");
}

#[test]
fn a_schema_is_printed_or_written() {
    let project = Project::empty();
    let printed = project.cogwork(&["schema", "automation"]).exits(0);
    assert_eq!(printed.json()["title"], "Automation");
    project.cogwork(&["schema", "--write"]).exits(0).says("wrote schemas/connection.schema.json");
    assert_eq!(project.read("schemas/automation.schema.json"), printed.stdout);
    project.cogwork(&["schema"]).exits(2).says("automation or connection");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Project::empty().cogwork(&["completions", shell]).exits(0).stdout;
        assert!(script.contains("COGWORK_COMPLETE") && script.contains("cogwork"), "{shell}: {script}");
        // The script asks the program with these.
        let variables = [("COGWORK_COMPLETE", shell), ("_CLAP_COMPLETE_INDEX", "1")];
        let ran = Project::empty().cogwork_with(&["--", "cogwork", "val"], &variables, "").exits(0);
        assert!(ran.stdout.contains("validate"), "{shell}: {}", ran.stdout);
    }
    Project::empty().cogwork(&["completions", "tcl"]).exits(2);
}

#[test]
fn the_version_is_printed() {
    let version = env!("CARGO_PKG_VERSION");
    let ran = Project::empty().cogwork(&["version"]).exits(0);
    assert!(ran.stdout.starts_with(&format!("cogwork {version} (")), "{}", ran.stdout);
    assert_eq!(Project::empty().cogwork(&["version", "--json"]).exits(0).json()["version"], version);
    assert_eq!(Project::empty().cogwork(&["--version"]).exits(0).stdout, format!("cogwork {version}\n"));
}
