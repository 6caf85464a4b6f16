//! Candidates of shell completion.

use crate::support::{HELLO, ORDER, Project};

/// The candidates for the last of these words, options left out.
fn offered(project: &Project, words: &[&str]) -> Vec<String> {
    let arguments: Vec<&str> = ["--", "cogwork"].iter().chain(words).copied().collect();
    let ran = project.cogwork_with(&arguments, &[("COGWORK_COMPLETE", "fish")], "").exits(0);
    let words = ran.stdout.lines().map(|line| line.split('\t').next().unwrap_or(line).to_owned());
    words.filter(|word| !word.starts_with("--")).collect()
}

#[test]
fn completions_offer_ids_names_and_executions_of_the_project() {
    let project = Project::with(&[
        ("automations/hello.yaml", HELLO),
        ("automations/other.yaml", &format!("id: order-desk\n{ORDER}")),
        ("payloads/order-desk/first.json", "{}"),
        ("payloads/hello/second.json", "{}"),
    ]);
    assert_eq!(offered(&project, &["run", "o"]), ["order-desk"]);
    assert_eq!(offered(&project, &["start", "h"]), ["hello"]);
    assert_eq!(offered(&project, &["run", "order-desk", "--saved", ""]), ["first"]);
    assert_eq!(offered(&project, &["executions", "show", ""]), ["latest"]);
    project.cogwork(&["run", "hello"]).exits(0);
    let shown = project.cogwork(&["executions", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(
        offered(&project, &["executions", "cancel", ""]),
        ["latest", shown["id"].as_str().expect("an id")]
    );
    let dir = project.path().display().to_string();
    assert_eq!(offered(&Project::empty(), &["--dir", &dir, "pair", "h"]), ["hello"]);
}

#[test]
fn completions_without_a_readable_project_stay_silent() {
    let project = Project::empty();
    assert_eq!(offered(&project, &["run", "x"]), Vec::<String>::new());
    assert_eq!(offered(&project, &["executions", "logs", "l"]), ["latest"]);
    assert!(offered(&project, &["sta"]).contains(&"start".to_owned()));
}
