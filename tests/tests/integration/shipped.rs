//! The repository's own project, as users try it: the commands in the examples, and the environment of `make run`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use tests::daemon::{Daemon, binary};
use tests::project::{Project, repository};
use wiki_simulator::{DEMO_TOKEN, Running, Simulator};

use crate::site::{Site, send};

/// The longest run of an example's command.
const LONGEST: Duration = Duration::from_secs(20);

/// Copies the repository's project and starts a wiki for it.
async fn shipped() -> (Project, Running) {
    let project = Project::new().unwrap();
    for folder in ["automations", "connections"] {
        for file in std::fs::read_dir(repository().join(folder)).unwrap() {
            let file = file.unwrap();
            // The recordings beside them are for their tests.
            if file.file_type().unwrap().is_file() {
                let place = project.path().join(folder).join(file.file_name());
                std::fs::copy(file.path(), place).unwrap();
            }
        }
    }
    (project, Simulator::builder().demo().start().await.unwrap())
}

#[tokio::test]
async fn the_wiki_and_its_token_come_from_the_environment() {
    let (project, wiki) = shipped().await;
    let daemon = Daemon::builder(&project)
        .env("WIKI_HOST", wiki.base_url())
        .env("COGWORK_SECRET_WIKI_TOKEN", DEMO_TOKEN);
    let daemon = daemon.start().await.unwrap();
    let site = Site::over(project, daemon);
    let page = site.post("page-from-webhook", &json!({"orderId": "17", "quantity": 2})).await;
    assert_eq!(page.status, 201, "{}", page.text);
    let url = site.url("order-intake").await;
    let order = send(site.request(reqwest::Method::POST, &url).json(&json!({"orderId": "42"}))).await;
    assert_eq!(order.status, 202, "{}", order.text);
    let end = site.end_of(order.header("x-execution-id")).await;
    assert_eq!(end["status"], json!("succeeded"), "{end}");
    let listed = site.ask("/automations").await;
    assert_eq!(listed["broken"], json!([]));
}

#[tokio::test]
async fn every_command_that_an_example_shows_works() {
    let (project, wiki) = shipped().await;
    let folder = binary("cogwork").unwrap().parent().map(Path::to_owned).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut commands = Vec::new();
    for file in std::fs::read_dir(project.path().join("automations")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let comment = text.lines().take_while(|line| line.starts_with('#'));
        commands.extend(comment.filter_map(|line| line.strip_prefix("#   cogwork ")).map(str::to_owned));
    }
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let run = tokio::process::Command::new("sh")
            .args(["-c", &format!("cogwork {command}")])
            .env_clear()
            .env("PATH", &path)
            .env("WIKI_HOST", wiki.base_url())
            .env("WIKI_MIRROR", wiki.base_url())
            .env("COGWORK_SECRET_WIKI_TOKEN", DEMO_TOKEN)
            .env("COGWORK_OUTBOUND_ALLOW", "127.0.0.1")
            .current_dir(project.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let done = tokio::time::timeout(LONGEST, run).await;
        let done = done.unwrap_or_else(|_| panic!("cogwork {command} does not end")).unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "cogwork {command}\n{said}");
        if command.starts_with("run ") {
            let result: Result<serde_json::Value, _> = serde_json::from_slice(&done.stdout);
            assert!(result.is_ok(), "cogwork {command}\n{}", String::from_utf8_lossy(&done.stdout));
        }
    }
}

#[tokio::test]
async fn the_repository_validates() {
    let (project, _wiki) = shipped().await;
    let site = Site::new(&[]);
    let project_dir = project.path().to_str().unwrap();
    let checked = site.cogwork(&["validate", "--dir", project_dir]).await;
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
