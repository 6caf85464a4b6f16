//! The examples in `automations/`, each run as it is shipped, against the wiki simulator.
//!
//! The tests of an example are in a module of its file's name, or in the file `<name>.test.yaml` beside it, which
//! `cogwork test` runs; an example without either fails [`every_example_has_a_test`].

#![expect(clippy::disallowed_methods, reason = "the suite is a client of the product, not a part of it")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the answer")]

mod house;

mod manual;
mod schedules;
mod webhooks;

use std::process::Command;

use authoring::check_project;
use pretty_assertions::assert_eq;
use tests::daemon::binary;
use tests::project::repository;
use text::Severity;

/// Returns the names of the files in `automations/`, without their extension.
fn examples() -> Vec<String> {
    let files = std::fs::read_dir(repository().join("automations")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut stems: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned)).collect();
    stems.retain(|stem| !stem.ends_with(".test"));
    stems.sort();
    stems
}

#[test]
fn every_example_loads_without_an_error_or_a_warning() {
    catalog::set_code_program(binary("cogwork").unwrap(), vec![catalog::CODE_WORKER.to_owned()]);
    let checked = check_project(&repository(), &[]).unwrap();
    let said: Vec<String> = checked
        .reports
        .iter()
        .filter(|report| report.diagnostics().iter().any(|diagnostic| diagnostic.severity != Severity::Hint))
        .map(|report| report.render(false))
        .collect();
    assert_eq!(said.join("\n"), "");
    let in_force: Vec<String> =
        checked.catalog.automations().map(|deployed| deployed.automation.id.to_string()).collect();
    assert_eq!(in_force, examples());
    assert!(examples().len() >= 10, "{:?}", examples());
}

#[test]
fn every_example_says_how_to_try_it() {
    for name in examples() {
        let text = std::fs::read_to_string(repository().join(format!("automations/{name}.yaml"))).unwrap();
        let comment: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let (first, rest) = comment.split_first().unwrap();
        assert_eq!(*first, "# yaml-language-server: $schema=../schemas/automation.schema.json", "{name}");
        let shown = rest.iter().any(|line| line.starts_with("#   curl ") || line.starts_with("#   cogwork "));
        assert!(shown, "{name} shows no command");
    }
}

#[test]
fn every_example_has_a_test() {
    let own = std::env::current_exe().unwrap();
    let listed = Command::new(own).args(["--list", "--format", "terse"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let tested = |name: &String| {
        let module = name.replace('-', "_");
        let beside = repository().join(format!("automations/{name}.test.yaml")).exists();
        beside || listed.lines().any(|line| line.split("::").any(|part| part == module))
    };
    let untested: Vec<String> = examples().into_iter().filter(|name| !tested(name)).collect();
    assert_eq!(untested, Vec::<String>::new());
}
