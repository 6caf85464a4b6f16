//! `files.*` actions in an execution are confined to the folder of the setting.

use pretty_assertions::assert_eq;

use crate::common::{Project, show, soon, start_with, stop};

async fn outcome(project: &Project) -> String {
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
    show(&outcome)
}

fn project(steps: &str) -> Project {
    let mut project = Project::with(&format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}"));
    project.settings.files_dir = Some(project.path("files"));
    project
}

#[tokio::test]
async fn a_written_file_can_be_read_and_listed_by_later_steps() {
    let project = project(
        "  - {action: files.write, with: {path: out/a.json, content: {id: '17'}}}
  - {action: files.write, with: {path: out/a.json, content: {id: '17'}, ifExists: fail}}
  - {id: read, action: files.read, with: {path: out/a.json, as: json}}
  - {id: list, action: files.list, with: {path: out}}
  - {id: other, action: files.write, with: {path: out/a.json, content: x, ifExists: fail}, onError: continue}
  - set: {id: '${{ steps.read.results.content.id }}', path: '${{ steps.list.results[0].path }}', why: '${{ steps.other.error.message }}'}
",
    );
    let expected =
        r#"{"id":"17","path":"out/a.json","why":"`out/a.json` already exists with different content"}"#;
    assert_eq!(outcome(&project).await, expected);
    assert_eq!(
        std::fs::read_to_string(project.path("files/out/a.json")).expect("it is there"),
        r#"{"id":"17"}"#
    );
}

#[tokio::test]
async fn a_path_cannot_leave_the_files_folder() {
    for path in ["../automations/test.yaml", "/etc/hostname", "a/../../b"] {
        // A literal path is refused when the file is loaded.
        let step = format!("  - {{action: files.read, with: {{path: \"${{{{ '{path}' }}}}\"}}}}\n");
        let project = project(&step);
        let said = outcome(&project).await;
        assert!(said.starts_with("failed: `path` "), "{path}: {said}");
    }
}

#[tokio::test]
async fn file_actions_fail_without_the_files_dir_setting() {
    let mut project = project("  - {action: files.list}\n");
    project.settings.files_dir = None;
    let expected = "failed: there is no folder of files; name one with the setting `filesDir`";
    assert_eq!(outcome(&project).await, expected);
}
