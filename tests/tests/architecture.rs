//! Checks the architecture: which crate may import which, where each external crate may be used, and which crate may print.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{Dependency, DependencyKind, MetadataCommand, Package};
use pretty_assertions::assert_eq;
use tests::project::repository;

/// The product's crates by level. A crate may depend only on crates of lower levels.
const LEVELS: [&[&str]; 14] = [
    &["allocator", "text"],
    &["value"],
    &["expression"],
    &["model"],
    &["language"],
    &["trigger", "connector", "script", "store"],
    &["systems", "store-sqlite", "store-postgres"],
    &["catalog"],
    &["runtime", "authoring"],
    &["ingress", "telemetry"],
    &["testing"],
    &["engine"],
    &["server"],
    &["cli"],
];

/// External crates that only some product crates may use, with the reason. A `*` at the end matches any suffix.
const AT_HOME: [(&str, &[&str], &str); 61] = [
    ("opentelemetry*", &["telemetry"], "only telemetry knows OpenTelemetry"),
    ("reqwest", &["connector"], "only connector calls other systems"),
    ("lettre", &["connector"], "only connector calls other systems"),
    ("regex", &["connector"], "patterns of authors are bounded in one place"),
    ("rusqlite", &["store-sqlite", "systems"], "only the stores and systems know SQL"),
    ("libsqlite3-sys", &["store-sqlite"], "only the stores know SQL"),
    ("refinery*", &["store-sqlite", "store-postgres"], "only the stores know SQL"),
    ("zstd*", &["store"], "only store compresses what it keeps"),
    ("tokio-postgres*", &["store-postgres", "systems"], "only the stores and systems know SQL"),
    ("postgres-protocol", &["systems"], "only the stores and systems know SQL"),
    ("csv*", &["expression", "systems"], "only expression and systems read CSV"),
    ("calamine", &["systems"], "only systems reads documents, in a worker"),
    ("ego-tree", &["systems"], "only systems reads documents, in a worker"),
    ("html5ever", &["systems"], "only systems reads documents, in a worker"),
    ("scraper", &["systems"], "only systems reads documents, in a worker"),
    ("zip", &["systems"], "only systems reads documents, in a worker"),
    ("deadpool*", &["store-postgres"], "only the stores know SQL"),
    ("axum*", &["server"], "only server knows HTTP serving"),
    ("hyper", &["server"], "only server knows HTTP serving"),
    ("hyper-util", &["server"], "only server knows HTTP serving"),
    ("tower*", &["server"], "only server knows HTTP serving"),
    ("utoipa-axum", &["server"], "only server knows HTTP serving"),
    (
        "utoipa",
        &[
            "catalog",
            "connector",
            "ingress",
            "language",
            "model",
            "runtime",
            "server",
            "testing",
            "text",
            "value",
        ],
        "the types that the API sends describe themselves",
    ),
    ("maud*", &["server"], "only server makes pages"),
    ("prometheus-client", &["server"], "the engine counts with plain atomics"),
    ("rust-embed", &["server"], "only server serves the UI"),
    ("rquickjs*", &["script"], "only script runs a user's JavaScript"),
    ("landlock", &["script"], "only script confines a process"),
    ("libc", &["script"], "the numbers of system calls; all else goes through safe crates"),
    ("nix", &["script"], "only script confines a process"),
    ("seccompiler", &["script"], "only script confines a process"),
    ("tree-sitter*", &["script"], "only script reads a user's JavaScript"),
    ("async-imap", &["systems"], "only systems speaks to mailboxes"),
    ("async-nats", &["systems", "bench"], "only systems speaks to brokers, and bench as the plain client"),
    ("mail-parser", &["systems"], "only systems reads mail"),
    ("amq-protocol", &["systems"], "only systems speaks to brokers"),
    ("tokio-rustls", &["connector"], "only connector opens connections"),
    ("cron", &["trigger"], "schedules are pure functions of trigger"),
    ("chrono*", &["trigger"], "time is jiff's; `cron` alone needs chrono"),
    ("petgraph", &["catalog"], "only catalog has step graphs"),
    ("notify*", &["engine"], "only engine watches files"),
    ("aho-corasick", &["value"], "only value hides secrets"),
    ("oauth2", &["connector"], "only connector asks for tokens"),
    ("jsonwebtoken", &["connector"], "only connector checks ID tokens"),
    ("chacha20poly1305", &["runtime"], "only runtime seals secrets"),
    ("granit-parser", &["text"], "only text reads what people write"),
    ("annotate-snippets", &["text"], "only text renders diagnostics"),
    ("minijinja*", &["expression"], "only expression evaluates expressions"),
    ("jsonpath-rust", &["expression"], "only expression evaluates expressions"),
    ("boon", &["expression"], "only expression compiles schemas, with nothing fetched"),
    ("yaml_serde", &["cli"], "what people write is read with places; this reader has none"),
    ("serde_yaml", &["cli"], "what people write is read with places; this reader has none"),
    ("clap*", &["cli"], "only cli reads arguments"),
    ("anyhow", &["cli"], "every other crate has an error type of its own"),
    ("anstream", &["cli"], "only cli prints"),
    ("anstyle", &["cli"], "only cli prints"),
    ("comfy-table", &["cli"], "only cli prints"),
    ("indicatif", &["cli"], "only cli prints"),
    (
        "tracing-subscriber",
        &["cli", "telemetry"],
        "only cli decides where the log goes; telemetry gives it a layer",
    ),
    ("libmimalloc-sys", &["allocator"], "only allocator has `unsafe` code"),
    (
        "tokio",
        &[
            // Its few threads for large values are those of a runtime of tokio.
            "allocator",
            "connector",
            "script",
            "store",
            "store-sqlite",
            "store-postgres",
            "systems",
            "catalog",
            "runtime",
            "ingress",
            "telemetry",
            "testing",
            "engine",
            "server",
            "cli",
        ],
        "the crates up to language, and trigger, are pure: no I/O, no tasks",
    ),
];

/// Banned crates, with their replacements.
const NOWHERE: [(&str, &str); 7] = [
    ("openssl*", "TLS is rustls with ring"),
    ("native-tls*", "TLS is rustls with ring"),
    ("aws-lc*", "TLS is rustls with ring"),
    ("lazy_static", "`std::sync::LazyLock`"),
    ("once_cell", "`std::sync::LazyLock` and `OnceLock`"),
    ("async-std", "tokio"),
    ("serde_yaml_ng", "granit-parser with text's own reader"),
];

/// The maximum number of lines of a file.
const LONGEST_FILE: usize = 600;

fn packages() -> Vec<Package> {
    let metadata =
        MetadataCommand::new().manifest_path(repository().join("Cargo.toml")).no_deps().exec().unwrap();
    metadata.packages
}

fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|crates| crates.contains(&name))
}

/// The dependencies of the product, without dev-dependencies.
fn shipped(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development)
}

fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[test]
fn each_crate_has_a_level_and_a_folder_of_its_name() {
    let planned: Vec<&str> = LEVELS.concat();
    for package in packages() {
        let name = package.name.as_str();
        assert!(
            planned.contains(&name)
                || ["tests", "postgres-server", "servers", "wiki-simulator", "bench", "manual"]
                    .contains(&name),
            "{name} has no level"
        );
        let folder = package.manifest_path.parent().unwrap();
        assert_eq!(folder.file_name(), Some(name), "a crate's folder has its name");
    }
}

#[test]
fn crates_depend_only_on_lower_levels() {
    let mut wrong = Vec::new();
    for package in packages() {
        let Some(own) = level(&package.name) else { continue };
        for dependency in shipped(&package) {
            if level(&dependency.name).is_some_and(|other| other >= own) || dependency.name == "tests" {
                wrong.push(format!("{} names {}", package.name, dependency.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn test_doubles_do_not_depend_on_product_crates() {
    let packages = packages();
    let doubles = packages.iter().find(|package| package.name.as_str() == "tests").unwrap();
    let product: Vec<&str> = shipped(doubles)
        .map(|dependency| dependency.name.as_str())
        .filter(|name| level(name).is_some())
        .collect();
    assert_eq!(product, Vec::<&str>::new());
}

#[test]
fn external_crates_are_used_only_by_their_allowed_crates() {
    let mut wrong = Vec::new();
    for package in packages().iter().filter(|package| level(&package.name).is_some()) {
        for dependency in shipped(package) {
            for (pattern, homes, why) in AT_HOME {
                if fits(pattern, &dependency.name) && !homes.contains(&package.name.as_str()) {
                    wrong.push(format!("{} names {}, but {why}", package.name, dependency.name));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn banned_crates_are_not_used() {
    let mut wrong = Vec::new();
    for package in &packages() {
        for dependency in &package.dependencies {
            for (pattern, instead) in NOWHERE {
                if fits(pattern, &dependency.name) {
                    wrong.push(format!("{} names {}; take {instead}", package.name, dependency.name));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn dependency_versions_are_declared_only_in_the_workspace() {
    let root = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let mut wrong = Vec::new();
    for package in &packages() {
        let manifest = fs::read_to_string(&package.manifest_path).unwrap();
        let own =
            manifest.lines().filter(|line| line.contains("version = \"") || line.contains("path = \"../"));
        wrong.extend(own.map(|line| format!("{}: {line}", package.name)));
    }
    assert!(root.contains("[workspace.dependencies]"));
    assert_eq!(wrong, Vec::<String>::new());
}

/// Returns the Rust files of the workspace by path relative to its root.
fn sources() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for folder in ["crates", "tests", "bench"] {
        collect(&repository().join(folder), &mut found);
    }
    assert!(found.len() > 100, "{} files", found.len());
    found
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(repository()).unwrap().to_owned();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// Returns the lines of code with one of these words, as `path:line: code`. Comments do not count.
fn lines_with(words: &[String], wanted: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| wanted(path)) {
        for (index, line) in text.lines().enumerate() {
            let code = line.trim_start();
            if !code.starts_with("//") && words.iter().any(|word| code.contains(word)) {
                found.push(format!("{}:{}: {code}", path.display(), index + 1));
            }
        }
    }
    found
}

#[test]
fn only_cli_prints() {
    // Assembled here, so that this file does not match itself.
    let words = ["println", "print", "eprintln", "eprint", "dbg"].map(|word| format!("{word}!("));
    let is_library = |path: &Path| {
        let is_shipped = path.components().nth(2).is_some_and(|part| part.as_os_str() == "src")
            // Compiled only for tests: a failing seed prints its trace.
            && !path.starts_with("crates/engine/src/simulation");
        let of_crate = path.starts_with("crates") && !path.starts_with("crates/cli") && is_shipped;
        of_crate || (path.starts_with("tests/src") && !path.starts_with("tests/src/bin"))
    };
    assert_eq!(lines_with(&words, is_library), Vec::<String>::new());
}

#[test]
fn only_the_dialer_opens_connections() {
    // The guard, the gate and the states of hosts apply to what goes through the dialer and the client of HTTP.
    let words = ["TcpStream::connect(", "lookup_host("].map(str::to_owned);
    let is_other = |path: &Path| {
        let is_shipped = path.components().nth(2).is_some_and(|part| part.as_os_str() == "src");
        // The server's client calls a daemon, and the tests of script try closed sockets: neither follows an automation.
        let others = ["crates/server", "crates/script"];
        let homes = ["crates/connector/src/net/mod.rs", "crates/connector/src/http/resolve.rs"];
        path.starts_with("crates")
            && is_shipped
            && !others.iter().chain(&homes).any(|home| path.starts_with(home))
    };
    assert_eq!(lines_with(&words, is_other), Vec::<String>::new());
}

#[test]
fn tests_wait_for_events_and_never_sleep() {
    let words = ["thread", "time"].map(|home| format!("{home}::sleep("));
    let is_test = |path: &Path| {
        let of_crate =
            path.starts_with("crates") && path.components().any(|part| part.as_os_str() == "tests");
        of_crate || path.starts_with("tests") || path.ends_with("tests.rs")
    };
    assert_eq!(lines_with(&words, is_test), Vec::<String>::new());
}

#[test]
fn code_blocks_in_comments_are_marked_as_text() {
    // Cargo would run such code blocks as doc tests, but `make test` runs none; an example is a separate test.
    let is_tested = |line: &&str| {
        let comment = line.trim_start();
        let text = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
        let fence = text.and_then(|text| text.trim_start().strip_prefix("```"));
        fence.is_some_and(|language| language != "text")
    };
    for (path, text) in sources() {
        // Every second fence ends a block.
        let fences = text.lines().filter(|line| line.trim_start().starts_with("//") && line.contains("```"));
        let found: Vec<&str> = fences.step_by(2).filter(is_tested).collect();
        assert_eq!(found, Vec::<&str>::new(), "{}", path.display());
    }
}

#[test]
fn no_source_file_exceeds_the_line_limit() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| text.lines().count() > LONGEST_FILE)
        .map(|(path, text)| format!("{}: {} lines", path.display(), text.lines().count()))
        .collect();
    assert_eq!(long, Vec::<String>::new());
}
