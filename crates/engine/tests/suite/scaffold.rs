//! New automations: the first test that is written beside one passes.

use std::sync::Arc;

use authoring::check_project;
use authoring::scaffold::{KINDS, Kind, automation_with_action};
use catalog::Catalog;
use model::AutomationId;
use testing::TestRunner;

/// Writes a new automation into an empty project, and runs its first tests.
fn try_out(catalog: &Catalog, kind: &Kind, action: &str) {
    let id = AutomationId::parse("order-desk").expect("an id");
    let new = automation_with_action(catalog, (kind, &id, "Order desk"), action).expect(action);
    let folder = tempfile::tempdir().expect("a folder");
    let files = [(new.path.clone(), new.text.clone()), (new.test_path.clone(), new.test.clone())];
    for (path, text) in files.iter().chain(&new.connections) {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let project = check_project(folder.path(), &[]).expect("connectors");
    let reports: Vec<String> = project.reports.iter().map(|report| report.render(false)).collect();
    assert_eq!(project.errors(), 0, "{action}: {}\n{}", reports.join("\n"), new.text);
    let file = authoring::load_suite(&project.catalog, &new.test_path, &new.test);
    assert!(file.report.is_empty(), "{action}: {}\n{}", file.report.render(false), new.test);
    let suite = file.suite.expect("the tests");
    let runner = TestRunner::new(Arc::new(project.catalog), folder.path());
    for case in &suite.cases {
        let result = runner.run(&suite, case, None);
        assert!(result.passes(), "{action}: {}\n{}\n{}", result.report.render(false), new.text, new.test);
    }
}

#[test]
fn the_first_test_of_a_new_automation_passes_for_each_action() {
    let checked = check_project(tempfile::tempdir().expect("a folder").path(), &[]).expect("connectors");
    let manual = Kind::find("manual").expect("a kind");
    let actions: Vec<String> =
        checked.catalog.registry().actions().map(|action| action.spec().name.clone()).collect();
    assert!(actions.len() > 50, "{actions:?}");
    for action in &actions {
        try_out(&checked.catalog, manual, action);
    }
}

#[test]
fn the_first_test_of_a_new_automation_with_an_action_passes_for_each_kind_of_trigger() {
    let checked = check_project(tempfile::tempdir().expect("a folder").path(), &[]).expect("connectors");
    for kind in &KINDS {
        for action in ["log.info", "wiki.createPage", "mail.send"] {
            try_out(&checked.catalog, kind, action);
        }
    }
    let id = AutomationId::parse("order-desk").expect("an id");
    assert!(
        automation_with_action(&checked.catalog, (&KINDS[0], &id, "Order desk"), "wiki.nothing").is_err()
    );
}
