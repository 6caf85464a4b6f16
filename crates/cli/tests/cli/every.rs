//! Rules that hold for every command, whose list is read from the help.

use std::collections::BTreeSet;

use crate::support::{HELLO, Project};

/// The mark in every secret setting. No output may have it, also not in percent-encoding.
const CANARY: &str = "c4nary-7731";
const ENCODED: &str = "%63%34nary%2D7731";

/// The commands that make or describe something without reading what has been stored: they succeed in any folder.
const WITHOUT_STORE: [&str; 14] = [
    "completions",
    "connectors list",
    "connectors show",
    "connectors test",
    "disable",
    "doctor",
    "enable",
    "import openapi",
    "init",
    "new",
    "schema",
    "test",
    "validate",
    "version",
];

/// The arguments of every command that has no further commands, with a value for each positional argument.
fn commands(project: &Project) -> Vec<Vec<String>> {
    let mut found = tests::commands::all(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        project.cogwork(&words).exits(0).stdout
    });
    for command in found.iter_mut().filter(|command| command[0] == "migrate") {
        command.extend(["--to".to_owned(), format!("postgres://u:{CANARY}@127.0.0.1:1/y")]);
    }
    assert!(found.len() > 60, "{found:?}");
    found
}

#[test]
fn no_command_prints_a_secret_setting() {
    let project = Project::with(&[("automations/hello.yaml", HELLO)]);
    let commands = commands(&project);
    let key = format!("{CANARY}-no-key");
    let headers = format!("authorization=Bearer {CANARY}");
    let endpoint = format!("http://u:{CANARY}@127.0.0.1:1");
    let surroundings = [
        ("COGWORK_ADMIN_TOKEN", CANARY),
        ("COGWORK_MASTER_KEY", key.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
    ];
    let addresses = [
        format!("postgres://cogwork:{CANARY}@127.0.0.1:1/x"),
        format!("postgres://cogwork:{ENCODED}@127.0.0.1:1/x?connect_timeout=1"),
        format!("postgres://cogwork:{CANARY}@x@127.0.0.1:1/x"),
        format!("postgresql://cogwork@127.0.0.1:1/x?password={CANARY}"),
        format!("mysql://cogwork:{CANARY}@127.0.0.1:1/x"),
        format!("postgres://cogwork:{CANARY}"),
    ];
    let look = |command: &[&str], variables: &[(&str, &str)]| {
        let ran = project.cogwork_with(command, variables, "value\n");
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            ![CANARY, ENCODED, "c4nary"].iter().any(|canary| text.contains(canary)),
            "{command:?}: {text}"
        );
    };
    // Each command with one of the addresses in turn, by the variable or by the flag.
    for (turn, command) in commands.iter().enumerate() {
        let plain: Vec<&str> = command.iter().map(String::as_str).collect();
        let address = addresses[turn % addresses.len()].as_str();
        if turn / addresses.len() % 2 == 0 {
            look(&plain, &[&surroundings[..], &[("COGWORK_STORE", address)]].concat());
        } else {
            look(&[&plain[..], &["--json", "--store", address]].concat(), &surroundings);
        }
    }
    for address in addresses.iter().map(String::as_str) {
        let variables = [&surroundings[..], &[("COGWORK_STORE", address)]].concat();
        for command in [
            &["doctor"][..],
            &["doctor", "--json"],
            &["serve", "--hooks", "0", "--admin", "0"],
            &["serve", address],
        ] {
            look(command, &variables);
        }
        for file in [
            format!("store: {address}\n"),
            format!("stor: {address}\nhooks: [1]\n"),
            format!("hooks: '{address}'\n"),
        ] {
            project.write("cogwork.yaml", &file);
            look(&["doctor"], &surroundings);
            look(&["validate", "--json"], &surroundings);
        }
        std::fs::remove_file(project.file("cogwork.yaml")).expect("removed");
    }
}

/// The commands that end with 0 with these arguments, each in a folder of its own that `make` made.
fn successful(make: impl Fn() -> Project, commands: &[Vec<String>], arguments: &[&str]) -> BTreeSet<String> {
    let commands =
        commands.iter().filter(|command| !matches!(command[0].as_str(), "run" | "serve" | "migrate"));
    let succeeds = |command: &&Vec<String>| {
        let all: Vec<&str> = command.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        let ran = make().cogwork_with(&all, &[], "value\n");
        assert!(ran.code == Some(0) || !ran.stderr.trim().is_empty(), "{all:?} fails without a word");
        ran.code == Some(0)
    };
    let name = |command: &Vec<String>| match command[0].as_str() {
        "connections" | "connectors" | "executions" | "import" | "secrets" | "state" => {
            command[..2].join(" ")
        }
        name => name.to_owned(),
    };
    commands.filter(succeeds).map(name).collect()
}

#[test]
fn no_command_treats_a_missing_or_unreadable_store_as_empty() {
    let commands = commands(&Project::empty());
    let unreadable = || {
        let project = Project::with(&[("automations/hello.yaml", HELLO)]);
        // A link to itself cannot be followed, also not by root, as a folder of another user cannot be read by others.
        std::os::unix::fs::symlink(project.file("loop"), project.file("loop")).expect("a link");
        project
    };
    let check = |found: BTreeSet<String>, allowed: &[&str]| {
        let found: Vec<&String> = found.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
        assert_eq!(found, Vec::<&String>::new());
    };
    let readers = [
        &["executions", "list"][..],
        &["executions", "show", "latest"],
        &["state", "list", "shared"],
        &["secrets", "list"],
    ];
    let allowed: Vec<&str> = WITHOUT_STORE.into_iter().filter(|name| *name != "doctor").collect();
    check(successful(unreadable, &commands, &["--data-dir", "loop"]), &allowed);
    for command in readers.iter().copied().chain([&["plan"][..], &["list"]]) {
        let said = unreadable().cogwork(&[command, &["--data-dir", "loop"]].concat()).exits(1).stderr;
        assert!(said.contains("loop") && said.contains("ymbolic links"), "{command:?}: {said}");
    }
    // To store a secret makes the store.
    let allowed: Vec<&str> = WITHOUT_STORE.into_iter().chain(["secrets set"]).collect();
    check(successful(Project::empty, &commands, &["--data-dir", "nowhere"]), &allowed);
    for command in readers {
        let ran = Project::empty().cogwork(&[command, &["--data-dir", "nowhere"]].concat()).exits(1);
        ran.says("there is no store at `nowhere`").says("--data-dir");
    }
}

#[test]
fn an_error_is_json_if_the_result_would_be_json() {
    let project = Project::empty();
    let ran = project.cogwork(&["executions", "list", "--json"]).exits(1);
    let error: serde_json::Value = serde_json::from_str(ran.stderr.trim()).expect("one line of JSON");
    assert!(error["error"]["message"].as_str().expect("a message").contains("there is no store"), "{error}");
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_command_outside_a_project_uses_the_installed_service() {
    let (service, elsewhere) = (Project::with(&[("automations/hello.yaml", HELLO)]), Project::empty());
    service.cogwork(&["run", "hello"]).exits(0);
    let (dir, data) = (service.path().display(), service.file(".cogwork"));
    let defaults = format!("# The service\nCOGWORK_DIR={dir}\nCOGWORK_DATA_DIR=\"{}\"\n", data.display());
    service.write("defaults", &defaults);
    let file = service.file("defaults").display().to_string();
    let variables = [("COGWORK_SERVICE_FILE", file.as_str())];
    let of_service = |project: &Project, arguments: &[&str]| project.cogwork_with(arguments, &variables, "");
    let listed = of_service(&elsewhere, &["executions", "list"]).exits(0).stdout;
    assert!(listed.contains("hello"), "{listed}");
    of_service(&elsewhere, &["validate"]).exits(0);
    of_service(&elsewhere, &["executions", "list", "--dir", "."]).exits(1).says("there is no store");
    // A project of its own is meant where there is one, and a new one is made here.
    of_service(&elsewhere, &["init"]).exits(0);
    assert!(elsewhere.file("automations").is_dir());
    of_service(&elsewhere, &["executions", "list"]).exits(1).says("there is no store");
    let unreadable = [("COGWORK_SERVICE_FILE", "/proc/self")];
    Project::empty().cogwork_with(&["list"], &unreadable, "").exits(2).says("the settings of the service");
}
