//! Connectors of one's own: the chapter of the manual followed as it stands, their tests, and imports.

use std::fs;
use std::path::Path;

use crate::support::{Project, Ran};

/// A fenced block of a page: its language, and its text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

fn words(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn the_connector_tutorial_works_as_written() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/connector-tutorial.md");
    let page = fs::read_to_string(page).expect("the chapter");
    let project = Project::empty();
    let mut last: Option<Ran> = None;
    let mut commands = 0;
    for (language, text) in blocks(&page) {
        match language.as_str() {
            "yaml" => {
                let path =
                    text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a file's name");
                project.write(path, &text);
            }
            "json" => project.write("stock.json", &text),
            "sh" => {
                for line in text.lines() {
                    let arguments: Vec<&str> =
                        line.strip_prefix("cogwork ").expect(line).split(' ').collect();
                    last = Some(project.cogwork(&arguments).exits(0));
                    commands += 1;
                }
            }
            "text" => {
                let ran = last.as_ref().expect("a command before it");
                let printed = words(&format!("{}\n{}", ran.stdout, ran.stderr));
                for line in words(&text) {
                    assert!(printed.contains(&line), "`{line}` is missing in:\n{}", printed.join("\n"));
                }
            }
            other => panic!("a block of `{other}` is not followed"),
        }
    }
    assert!(commands >= 7, "{commands}");
}

#[test]
fn an_example_that_shows_another_request_fails_its_test() {
    let manifest = "connector: shop\ntitle: Shop\nversion: '1'\nbaseUrl: https://x.example\nactions:\n  get:\n    title: Get\n    request: GET /a\n    example: {with: {}, request: GET /b}\n";
    let project = Project::with(&[("connectors/shop.yaml", manifest)]);
    let ran = project.cogwork(&["connectors", "test", "shop"]).exits(1);
    assert!(ran.stderr.contains("the request is `GET /a`"), "{}", ran.stderr);
    project.cogwork(&["connectors", "test", "wiki"]).exits(0).says("29 examples right, 0 errors");
    project.cogwork(&["connectors", "test", "wikki"]).exits(1).says("did you mean `wiki`?");
    let json = project.cogwork(&["connectors", "test", "http", "--json"]).exits(0).json();
    assert_eq!(json[0]["request"], "POST /orders?dryRun=true");
}

#[test]
fn an_import_is_valid_and_overwrites_nothing() {
    let document = "openapi: 3.0.0\ninfo: {title: My Shop, version: '1'}\nservers: [{url: 'https://shop.example'}]\npaths:\n  /a:\n    get: {responses: {'200': {description: ok}}}\n";
    let project = Project::with(&[("api.yaml", document), ("other.yaml", "a: 1\n")]);
    project.cogwork(&["import", "openapi", "api.yaml"]).exits(0).says("with 1 action");
    assert!(project.read("connectors/myShop.yaml").contains("request: GET /a"));
    project.cogwork(&["validate"]).exits(0);
    project.cogwork(&["import", "openapi", "api.yaml"]).exits(1).says("is not overwritten");
    let printed = project.cogwork(&["import", "openapi", "api.yaml", "--print", "--name", "shop"]).exits(0);
    assert!(printed.stdout.contains("connector: shop"), "{}", printed.stdout);
    project.cogwork(&["import", "openapi", "other.yaml"]).exits(1).says("not an OpenAPI document");
    project
        .cogwork(&["import", "openapi", "api.yaml", "--tag", "x"])
        .exits(1)
        .says("no operation that is asked for");
}
