//! The walls inside the crates: circles of imports stay small, and the root of each crate lists its modules.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use imports::ModulePath;
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use pretty_assertions::assert_eq;
use tests::project::repository;

/// Maximum number of files of one circle of imports.
const LARGEST_CIRCLE: usize = 12;

/// Tables that name each of their handlers, by crate and module. A reader finds a handler by its row, so the arrows from a table
/// to its handlers, which use the types beside it, count in no circle.
const TABLES: [(&str, &str); 7] = [
    // The subcommands.
    ("cli", "commands"),
    // The functions of expressions.
    ("expression", "functions"),
    // The keys of the objects in a file.
    ("language", "load::keys"),
    // The verbs of a step, some of which have lists of steps.
    ("language", "load::steps"),
    // The routes of the admin API.
    ("server", "admin::routes"),
    // The kinds of stores.
    ("store", ""),
    // The rounds that each kind of store passes.
    ("store", "conformance"),
];

#[test]
fn circles_of_imports_stay_small() {
    let mut too_large = Vec::new();
    for name in crates() {
        let files = files_of(&name);
        let mut graph = DiGraph::<&ModulePath, ()>::new();
        let nodes: BTreeMap<_, _> = files.keys().map(|path| (path, graph.add_node(path))).collect();
        for (from, to) in imports::arrows(&files) {
            if !TABLES.contains(&(name.as_str(), from.join("::").as_str())) {
                graph.update_edge(nodes[&from], nodes[&to], ());
            }
        }
        for circle in tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > LARGEST_CIRCLE) {
            let modules: Vec<String> = circle.iter().map(|node| graph[*node].join("::")).collect();
            too_large.push(format!("{name}: {} files: {}", circle.len(), modules.join(", ")));
        }
    }
    assert_eq!(too_large, Vec::<String>::new());
}

#[test]
fn the_context_reaches_no_component_and_a_run_no_admission() {
    let arrows = imports::arrows(&files_of("runtime"));
    for (from, forbidden) in [
        ("context", &["admission", "connections", "peers", "records", "run", "runtime"][..]),
        ("run", &["admission", "peers", "runtime"][..]),
    ] {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&ModulePath> = arrows
            .iter()
            .map(|(module, _)| module)
            .filter(|module| module.first().is_some_and(|first| first == from))
            .collect();
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(arrows.iter().filter(|(own, _)| own == module).map(|(_, to)| to));
            }
        }
        let wrong: Vec<_> = reached
            .into_iter()
            .filter(|module| module.first().is_some_and(|first| forbidden.contains(&first.as_str())))
            .collect();
        assert_eq!(wrong, Vec::<&ModulePath>::new(), "reached from `{from}`");
    }
}

#[test]
fn each_table_is_a_module() {
    for (name, table) in TABLES {
        let path: ModulePath = table.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        assert!(files_of(name).contains_key(&path), "{name} has no `{table}`");
    }
}

/// The names of the crates.
fn crates() -> Vec<String> {
    let entries = fs::read_dir(repository().join("crates")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// The modules of a crate with their texts; the crate's root has the empty path.
fn files_of(name: &str) -> BTreeMap<ModulePath, String> {
    let src = repository().join("crates").join(name).join("src");
    let mut found = BTreeMap::new();
    collect(&src, &src, &mut found);
    found
}

fn collect(src: &Path, folder: &Path, found: &mut BTreeMap<ModulePath, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(src, &path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let relative = path.strip_prefix(src).unwrap().with_extension("");
            let mut names: ModulePath =
                relative.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            if names.iter().any(|name| name == "tests" || name == "bin") {
                continue;
            }
            if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main")) {
                names.pop();
            }
            found.insert(names, fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn the_root_of_each_crate_lists_its_modules() {
    let mut wrong = Vec::new();
    for name in crates() {
        let files = files_of(&name);
        let modules: BTreeSet<&str> =
            files.keys().filter_map(|path| path.first()).map(String::as_str).collect();
        let listed: BTreeSet<&str> = files[&Vec::new()]
            .lines()
            .filter_map(|line| line.strip_prefix("//! * `")?.split_once("`: "))
            .map(|(module, _)| module)
            .collect();
        wrong.extend(modules.difference(&listed).map(|module| format!("{name} does not list `{module}`")));
        wrong.extend(listed.difference(&modules).map(|module| format!("{name} has no module `{module}`")));
    }
    assert_eq!(wrong, Vec::<String>::new());
}
