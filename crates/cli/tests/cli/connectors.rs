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

/// A connector as another project shares it.
const SHARED: &str = "connector: shop\ntitle: Shop\nversion: '1'\nbaseUrl: https://shop.example\nactions:\n  get:\n    title: Get an order\n    request: GET /orders\n    example: {with: {}, request: GET /orders}\n";

const LOCK: &str = "connectors/connectors.lock";

/// A git repository with the shared connector.
struct Repository(Project);

impl Repository {
    fn new(folder: &str) -> Self {
        let repository = Self(Project::empty());
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.commit(folder, SHARED, "v1");
        repository
    }

    /// Commits a manifest in a folder, and gives the commit a tag.
    fn commit(&self, folder: &str, manifest: &str, tag: &str) {
        self.0.write(&format!("{folder}/connector.yaml"), manifest);
        self.0.write(&format!("{folder}/README.md"), &format!("Shop {tag}\n"));
        self.0.write(&format!("{folder}/tests/shop.json"), "{}\n");
        self.0.write(&format!("{folder}/install.sh"), "echo no\n");
        self.git(&["add", "."]);
        self.git(&["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", tag]);
        self.git(&["tag", tag]);
    }

    fn git(&self, arguments: &[&str]) -> String {
        let ran = std::process::Command::new("git").arg("-C").arg(self.0.path()).args(arguments).output();
        let ran = ran.expect("git runs");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("a text").trim().to_owned()
    }

    /// The address of a version.
    fn at(&self, version: &str) -> String {
        format!("{}@{version}", self.0.path().display())
    }
}

fn lock_of(project: &Project) -> serde_json::Value {
    serde_json::from_str(&project.read(LOCK)).expect("JSON")
}

#[test]
fn a_shared_connector_is_copied_with_its_commit_and_digests() {
    let repository = Repository::new("shop");
    let commit = repository.git(&["rev-parse", "HEAD"]);
    let project =
        Project::with(&[("automations/a.yaml", "trigger: {manual: {}}\nsteps: [{action: acme.get}]\n")]);
    let add = ["connectors", "add", &repository.at("v1"), "--folder", "shop", "--as", "acme"];
    // Nobody can be asked.
    project.cogwork(&add).exits(2).says("--yes");
    assert!(!project.file("connectors").exists());
    let added = project.cogwork(&[&add[..], &["--yes"]].concat()).exits(0);
    for shown in ["https://shop.example", "acme.get", "Get an order", &commit] {
        assert!(added.stdout.contains(shown), "`{shown}` is missing in:\n{}", added.stdout);
    }
    assert_eq!(
        project.read("connectors/acme/connector.yaml"),
        SHARED.replace("connector: shop", "connector: acme")
    );
    assert_eq!(project.read("connectors/acme/tests/shop.json"), "{}\n");
    assert!(!project.file("connectors/acme/install.sh").exists(), "it is no part of a connector");
    let locked = &lock_of(&project)["connectors"]["acme"];
    assert_eq!((&locked["commit"], &locked["ref"]), (&commit.into(), &"v1".into()));
    assert_eq!(locked["files"].as_object().map(serde_json::Map::len), Some(3));
    project.cogwork(&["validate", "--strict"]).exits(0);
    project.cogwork(&["connectors", "verify"]).exits(0).says("1 shared connector, 0 differences");
    project.cogwork(&[&add[..], &["--yes"]].concat()).exits(2).says("connectors update acme");
    project.cogwork(&["connectors", "remove", "acme"]).exits(0);
    assert!(!project.file("connectors/acme").exists());
    project.cogwork(&["connectors", "verify"]).exits(0).says("0 shared connectors");
}

#[test]
fn an_update_shows_the_difference_and_takes_another_version() {
    let repository = Repository::new(".");
    let project =
        Project::with(&[("automations/a.yaml", "trigger: {manual: {}}\nsteps: [{action: shop.get}]\n")]);
    project.cogwork(&["connectors", "add", &repository.at("main"), "--yes"]).exits(0);
    project.cogwork(&["connectors", "update"]).exits(0).says("`shop` is as");
    repository.commit(".", &SHARED.replace("Get an order", "Get orders"), "v2");
    let shown = project.cogwork(&["connectors", "update", "--dry-run"]).exits(0);
    assert!(shown.stdout.contains("- ") && shown.stdout.contains("title: Get orders"), "{}", shown.stdout);
    assert_eq!(project.read("connectors/shop/connector.yaml"), SHARED, "nothing is written");
    project.cogwork(&["connectors", "update", "shop", "--yes"]).exits(0);
    assert!(project.read("connectors/shop/connector.yaml").contains("Get orders"));
    assert_eq!(
        lock_of(&project)["connectors"]["shop"]["commit"],
        repository.git(&["rev-parse", "v2"]).as_str()
    );
    // Back, by the beginning of a commit's id.
    let first = repository.git(&["rev-parse", "--short=10", "v1"]);
    project.cogwork(&["connectors", "update", &format!("shop@{first}"), "--yes"]).exits(0);
    assert_eq!(project.read("connectors/shop/connector.yaml"), SHARED);
    project.cogwork(&["connectors", "update", "shopp"]).exits(1).says("did you mean `shop`?");
}

#[test]
fn a_changed_connector_is_told_by_validate_and_by_verify() {
    let source = Project::with(&[("connector.yaml", SHARED)]);
    let project =
        Project::with(&[("automations/a.yaml", "trigger: {manual: {}}\nsteps: [{action: shop.get}]\n")]);
    let folder = source.path().display().to_string();
    project.cogwork(&["connectors", "add", &folder, "--yes"]).exits(0);
    project.cogwork(&["validate", "--strict"]).exits(0);
    project.write("connectors/shop/connector.yaml", &SHARED.replace("/orders", "/others"));
    project.write("connectors/shop/tests/new.yaml", "a: 1\n");
    let checked = project.cogwork(&["validate", "--format", "json"]).exits(0).json();
    assert_eq!(checked["diagnostics"][0]["code"], "connector-changed", "{checked}");
    assert_eq!(checked["diagnostics"][0]["file"], "connectors/shop/connector.yaml");
    let rows = project.cogwork(&["connectors", "verify", "--json"]).exits(1).json();
    assert_eq!(
        rows,
        serde_json::json!([
            {"file": "connectors/shop/connector.yaml", "problem": "changed"},
            {"file": "connectors/shop/tests/new.yaml", "problem": "not of the source"},
        ])
    );
    // The update brings the source's version back.
    project.cogwork(&["connectors", "update", "--yes"]).exits(0);
    project.cogwork(&["connectors", "verify"]).exits(0);
    project.write(LOCK, "{}");
    let checked = project.cogwork(&["validate", "--format", "json"]).exits(1).json();
    assert_eq!(checked["diagnostics"][0]["code"], "unreadable-file", "{checked}");
}

#[test]
fn a_source_without_a_connector_or_with_another_name_is_refused() {
    let repository = Repository::new("shop");
    let project = Project::with(&[
        ("connectors/shop.yaml", SHARED),
        ("automations/a.yaml", "trigger: {manual: {}}\nsteps: [{action: shop.get}]\n"),
    ]);
    project.cogwork(&["connectors", "add", &repository.at("v1"), "--yes"]).exits(1).says("--folder");
    let taken = ["connectors", "add", &repository.at("v1"), "--folder", "shop", "--yes"];
    project.cogwork(&taken).exits(2).says("is already in `connectors/shop.yaml`");
    project.cogwork(&["connectors", "add", &repository.at("v7"), "--yes"]).exits(1).says("git failed");
    project.cogwork(&["connectors", "add", "https://git.example.com/a.git"]).exits(2).says("@TAG");
}
