//! Symbolic links in a project folder: none may lead out of it, and no target outside is read or shown.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use authoring::find_test_files;
use pretty_assertions::assert_eq;
use testing::TestRunner;

use crate::common::{Project, stop};

const AUTOMATION: &str = "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n";
/// A line outside the project, which must not be shown.
const OUTSIDE: &str = "hunter2: [outside of the project";

/// Creates a folder beside the project with `line` and `folder/line.yaml`.
fn outside() -> tempfile::TempDir {
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(outside.path().join("folder")).expect("a folder");
    for path in ["line", "folder/line.yaml"] {
        std::fs::write(outside.path().join(path), OUTSIDE).expect("written");
    }
    outside
}

fn link(project: &Project, target: impl AsRef<Path>, path: &str) {
    let path = project.path(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    symlink(target, path).expect("a link");
}

fn pipe(path: &Path) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success());
}

/// Returns each report of a check as text.
fn reports(project: &Project) -> Vec<String> {
    let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
    checked.reports.iter().map(|report| report.render(false)).collect()
}

#[test]
fn a_link_out_of_the_project_is_reported_without_content_of_its_target() {
    let outside = outside();
    let line = outside.path().join("line");
    for path in [
        "automations/k.yaml",
        "automations/k.js",
        "automations/k.test.yaml",
        "automations/notes",
        "connections/k.yaml",
        "connectors/k.yaml",
    ] {
        let project = Project::with(AUTOMATION);
        link(&project, &line, path);
        let reports = reports(&project);
        assert_eq!(reports.len(), 1, "{path}: {reports:#?}");
        let named = format!("the link `{path}` leads out of the project folder");
        assert!(reports[0].contains(&named), "{path}: {}", reports[0]);
        assert!(!reports[0].contains("hunter2"), "{path}: {}", reports[0]);
    }
}

#[test]
fn a_folder_link_out_of_the_project_is_reported_and_not_read() {
    let outside = outside();
    for path in ["automations/sub", "connections", "connectors"] {
        let project = Project::with(AUTOMATION);
        let _ = std::fs::remove_dir(project.path(path));
        link(&project, outside.path().join("folder"), path);
        let reports = reports(&project);
        assert_eq!(reports.len(), 1, "{path}: {reports:#?}");
        assert!(reports[0].contains(&format!("the link `{path}` leads out")), "{path}: {}", reports[0]);
        assert!(!reports[0].contains("hunter2"), "{path}: {}", reports[0]);
    }
}

/// Files that are not project files, with a line that must not be shown.
const PRIVATE: [&str; 5] =
    [".cogwork/master.key", ".cogwork/sub/x.yaml", "secrets/x.yaml", "secrets/wikiToken", "cogwork.yaml"];

#[test]
fn a_link_to_a_non_project_file_is_reported_without_its_content() {
    for target in PRIVATE {
        for path in [
            "automations/k.yaml",
            "automations/k.js",
            "automations/k.test.yaml",
            "connections/k.yaml",
            "connectors/k.yaml",
        ] {
            let project = Project::with(AUTOMATION);
            std::fs::create_dir_all(project.path(".cogwork/sub")).expect("a folder");
            std::fs::create_dir_all(project.path("secrets")).expect("a folder");
            project.write(target, OUTSIDE);
            link(&project, format!("../{target}"), path);
            let reports = reports(&project);
            assert_eq!(reports.len(), 1, "{path} -> {target}: {reports:#?}");
            let named = format!("the link `{path}` leads to `{target}`, which is not a project file");
            assert!(reports[0].contains(&named), "{path}: {}", reports[0]);
            assert!(!reports[0].contains("hunter2"), "{path}: {}", reports[0]);
        }
    }
}

#[test]
fn the_body_file_of_a_test_must_be_a_project_file() {
    let project = Project::with("trigger: {webhook: {verify: none}}\nsteps: [{set: {a: 1}}]\n");
    std::fs::create_dir_all(project.path("secrets")).expect("a folder");
    project.write("secrets/x", OUTSIDE);
    project
        .write("automations/test.test.yaml", "tests:\n  - {name: one, payload: {bodyFile: ../secrets/x}}\n");
    let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
    let runner = TestRunner::new(Arc::new(checked.catalog), project.dir.path());
    let files = find_test_files(project.dir.path(), runner.catalog(), &[]);
    let suite = files[0].suite.as_ref().unwrap_or_else(|| panic!("{}", files[0].report.render(false)));
    let told = runner.run(suite, &suite.cases[0], None).report.render(false);
    assert!(told.contains("is not a project file") && !told.contains("hunter2"), "{told}");
}

#[test]
fn links_inside_the_project_and_kubernetes_style_mounts_are_followed() {
    let project = Project::new();
    std::fs::create_dir(project.path("automations/..2026_01")).expect("a folder");
    project.write("automations/..2026_01/mounted.yaml", AUTOMATION);
    link(&project, "..2026_01", "automations/..data");
    link(&project, "..data/mounted.yaml", "automations/mounted.yaml");
    assert_eq!(reports(&project), Vec::<String>::new());
    let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
    assert!(checked.catalog.find("mounted").is_ok());
}

#[tokio::test]
async fn a_file_replaced_by_a_link_out_stays_stale_until_it_is_repaired() {
    let outside = outside();
    let project = Project::with(AUTOMATION);
    let engine = project.start().await;
    std::fs::remove_file(project.path("automations/test.yaml")).expect("removed");
    link(&project, outside.path().join("line"), "automations/test.yaml");
    link(&project, outside.path().join("folder"), "automations/sub");
    let reload = engine.reload().await;
    let told: Vec<String> = reload.reports.iter().map(|report| report.render(false)).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(!told.concat().contains("hunter2"), "{told:#?}");
    assert_eq!(engine.catalog().find("test").expect("in force").state().as_str(), "stale");
    for path in ["automations/test.yaml", "automations/sub"] {
        std::fs::remove_file(project.path(path)).expect("removed");
    }
    // An empty file too differs from an unreadable one.
    project.write("automations/test.yaml", "");
    let reload = engine.reload().await;
    assert!(!reload.reports[0].render(false).contains("link"), "{}", reload.reports[0].render(false));
    project.write("automations/test.yaml", AUTOMATION);
    engine.reload().await;
    assert_eq!(engine.catalog().reports().len(), 0);
    assert_eq!(engine.catalog().find("test").expect("in force").state().as_str(), "active");
    stop(engine).await;
}

#[tokio::test]
async fn a_saved_payload_that_is_a_link_out_or_a_pipe_is_never_opened() {
    let outside = outside();
    let project = Project::with(AUTOMATION);
    link(&project, outside.path().join("line"), "payloads/test/out.json");
    pipe(&project.path("payloads/test/pipe.json"));
    let engine = project.start().await;
    let id = model::AutomationId::parse("test").expect("an id");
    let told = |name: &'static str| {
        let (engine, id) = (engine.clone(), id.clone());
        async move {
            engine.ingress().saved_payload(&id.clone().into(), name).await.expect_err("refused").to_string()
        }
    };
    assert!(told("out").await.contains("the link `payloads/test/out.json` leads out"));
    assert!(told("pipe").await.contains("it is not a regular file"));
    assert!(engine.ingress().saved_payloads(&id.clone().into()).await.expect("a list").is_empty());
    let payload = model::payload::Payload::manual(value::Map::new());
    assert!(engine.ingress().save_payload(&id.clone().into(), "out", payload, None).await.is_err());
    assert_eq!(std::fs::read_to_string(outside.path().join("line")).expect("read"), OUTSIDE);
    stop(engine).await;
}

#[test]
fn the_body_file_and_the_cassette_of_a_test_must_not_be_links_out() {
    let outside = outside();
    let project = Project::with("trigger: {webhook: {verify: none}}\nsteps: [{set: {a: 1}}]\n");
    let test = "tests:\n  - {name: one, payload: {bodyFile: body.bin}, cassette: c.yaml}\n";
    project.write("automations/test.test.yaml", test);
    link(&project, outside.path().join("line"), "automations/body.bin");
    link(&project, outside.path().join("line"), "automations/cassettes/c.yaml");
    let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
    let told: String = checked.reports.iter().map(|report| report.render(false)).collect();
    assert!(told.contains("the link `automations/cassettes/c.yaml` leads out"), "{told}");
    std::fs::remove_file(project.path("automations/cassettes/c.yaml")).expect("removed");
    project.write("automations/test.test.yaml", &test.replace(", cassette: c.yaml", ""));
    let runner = TestRunner::new(Arc::new(checked.catalog), project.dir.path());
    let files = find_test_files(project.dir.path(), runner.catalog(), &[]);
    let suite = files[0].suite.as_ref().unwrap_or_else(|| panic!("{}", files[0].report.render(false)));
    let told = runner.run(suite, &suite.cases[0], None).report.render(false);
    assert!(told.contains("the link `automations/body.bin` leads out"), "{told}");
}
