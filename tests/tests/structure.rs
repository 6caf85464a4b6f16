//! The structure inside the crates: import cycles stay small, and the root of each crate lists its modules.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use pretty_assertions::assert_eq;
use tests::project::repository;

/// The maximum number of files in an import cycle.
const LARGEST_CYCLE: usize = 12;
/// The crates whose structure is checked.
const CRATES: [&str; 16] = [
    "text",
    "value",
    "expression",
    "model",
    "language",
    "trigger",
    "connector",
    "script",
    "store",
    "catalog",
    "runtime",
    "ingress",
    "testing",
    "engine",
    "server",
    "cli",
];

/// A module's path inside its crate, such as `["run", "journal"]`.
type ModulePath = Vec<String>;

#[test]
fn import_cycles_stay_small() {
    let mut too_large = Vec::new();
    for name in CRATES {
        let files = files_of(name);
        let mut graph = DiGraph::<&ModulePath, ()>::new();
        let nodes: BTreeMap<_, _> = files.keys().map(|path| (path, graph.add_node(path))).collect();
        for (path, text) in &files {
            for target in imports_of(path, text).iter().filter_map(|import| nearest(import, &nodes)) {
                graph.update_edge(nodes[path], target, ());
            }
        }
        for circle in tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > LARGEST_CYCLE) {
            let modules: Vec<String> = circle.iter().map(|node| graph[*node].join("::")).collect();
            too_large.push(format!("{name}: {} files: {}", circle.len(), modules.join(", ")));
        }
    }
    assert_eq!(too_large, Vec::<String>::new());
}

/// The node of the module that a path leads into.
fn nearest<N: Copy>(import: &ModulePath, nodes: &BTreeMap<&ModulePath, N>) -> Option<N> {
    (1..=import.len()).rev().find_map(|length| nodes.get(&import[..length].to_vec()).copied())
}

/// The paths inside the crate that a file names outside of its tests.
fn imports_of(own: &ModulePath, text: &str) -> Vec<ModulePath> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_start = !code[..at].ends_with([':', '_']) && !code[..at].ends_with(char::is_alphanumeric);
            if is_start {
                let mut names = Vec::new();
                expand(&code[at..], &mut names, own, &mut found);
            }
        }
    }
    found
}

/// Adds the paths of a tree such as `crate::a::{b, c::{d, e}}` at the beginning of `code`; gives the rest of the code.
fn expand<'a>(
    code: &'a str,
    names: &mut Vec<&'a str>,
    own: &ModulePath,
    found: &mut Vec<ModulePath>,
) -> &'a str {
    let length = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(code.len());
    let (name, mut rest) = code.split_at(length);
    let depth = names.len();
    names.push(name);
    if let Some(more) = rest.strip_prefix("::") {
        if let Some(group) = more.strip_prefix('{') {
            rest = group;
            loop {
                rest = rest.trim_start();
                match rest.strip_prefix('}') {
                    Some(after) => {
                        rest = after;
                        break;
                    }
                    None if rest.is_empty() => break,
                    None => {}
                }
                let after = expand(rest, names, own, found);
                // The rest after a name, such as `as other,`.
                let end = after.find([',', '}']).unwrap_or(after.len());
                rest = after[end..].trim_start_matches(',');
            }
        } else {
            rest = expand(more, names, own, found);
        }
    } else {
        add(names, own, found);
    }
    names.truncate(depth);
    rest
}

/// Adds a path relative to the root of the crate.
fn add(names: &[&str], own: &ModulePath, found: &mut Vec<ModulePath>) {
    let mut base = own.clone();
    let mut rest = names;
    if rest.first() == Some(&"crate") {
        base.clear();
        rest = &rest[1..];
    }
    while rest.first() == Some(&"super") {
        base.pop();
        rest = &rest[1..];
    }
    base.extend(rest.iter().map(|name| (*name).to_owned()));
    found.push(base);
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
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
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
