//! The arrows between the files of a crate, from the paths that their code names.
//!
//! A path is an arrow if it begins with `crate`, `super` or `self`, with a child module, or with the name of an imported module. It
//! ends in the file that defines its first item: re-exports and imports on the way are followed.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path inside its crate, such as `["run", "journal"]`; the crate's root has the empty path.
pub(crate) type ModulePath = Vec<String>;

/// Maximum number of imports that are followed to an item.
const LONGEST_WAY: usize = 12;

/// An imported name.
struct Use {
    /// The path from the root of the crate.
    path: ModulePath,
    /// The name in the file.
    name: String,
    is_reexport: bool,
}

/// The files of a crate, with their imports.
struct Crate<'a> {
    files: &'a BTreeMap<ModulePath, String>,
    /// The path of each name that a file imports.
    names: BTreeMap<(ModulePath, String), ModulePath>,
}

/// Returns the arrows between the modules of a crate: from the file that names an item to the file that defines it. `files` has the
/// text of each module.
#[must_use]
pub(crate) fn arrows(files: &BTreeMap<ModulePath, String>) -> BTreeSet<(ModulePath, ModulePath)> {
    let mut parsed = Vec::new();
    let mut names = BTreeMap::new();
    for (own, text) in files {
        let (uses, rest) = parse(own, text, files);
        for used in &uses {
            names.insert((own.clone(), used.name.clone()), used.path.clone());
        }
        parsed.push((own, uses, rest));
    }
    let found = Crate { files, names };
    parsed
        .into_iter()
        .flat_map(|(own, uses, rest)| {
            let targets = found.targets(own, uses, &rest);
            targets.into_iter().filter(move |to| to != own).map(move |to| (own.clone(), to))
        })
        .collect()
}

impl Crate<'_> {
    fn targets(&self, own: &ModulePath, uses: Vec<Use>, rest: &str) -> BTreeSet<ModulePath> {
        let children = self.files.keys().filter_map(|path| {
            let (name, parent) = path.split_last()?;
            (parent == own.as_slice()).then(|| (name.clone(), path.clone()))
        });
        let mut modules: BTreeMap<String, ModulePath> = children.collect();
        let mut targets = BTreeSet::new();
        for used in uses {
            let (module, is_module) = self.resolve(&used.path, LONGEST_WAY);
            if is_module {
                modules.insert(used.name, module);
            } else if !used.is_reexport || has_word(rest, &used.name) {
                targets.insert(module);
            }
        }
        for path in paths_in(rest) {
            let full = match modules.get(&path[0]) {
                Some(module) => Some(module.iter().chain(&path[1..]).cloned().collect()),
                None => absolute(&path, own, self.files),
            };
            targets.extend(full.map(|full: ModulePath| self.resolve(&full, LONGEST_WAY).0));
        }
        targets
    }

    /// The module that defines the item of a path, and true if the path is the module itself.
    fn resolve(&self, path: &ModulePath, ways: usize) -> (ModulePath, bool) {
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]));
        let (module, rest) = path.split_at(length.unwrap_or_default());
        let Some((item, after)) = rest.split_first() else { return (module.to_vec(), true) };
        match self.names.get(&(module.to_vec(), item.clone())) {
            Some(imported) if ways > 0 && imported != path => {
                let next = imported.iter().chain(after).cloned().collect();
                self.resolve(&next, ways - 1)
            }
            _ => (module.to_vec(), false),
        }
    }
}

/// The imports of a file outside of its tests, and the code beside them.
fn parse(own: &ModulePath, text: &str, files: &BTreeMap<ModulePath, String>) -> (Vec<Use>, String) {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut uses, mut rest, mut open) = (Vec::new(), String::new(), None);
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let (is_reexport, begun) = match line.trim_start() {
            start if open.is_none() && start.starts_with("use ") => (false, start.strip_prefix("use ")),
            start if open.is_none() && start.starts_with("pub") => (
                true,
                start
                    .split_once(" use ")
                    .filter(|(visibility, _)| visibility.len() < 16)
                    .map(|(_, tree)| tree),
            ),
            _ => (false, None),
        };
        if let Some(tree) = begun {
            open = Some((is_reexport, tree.to_owned()));
        } else if let Some((_, tree)) = &mut open {
            tree.push_str(line);
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
        if let Some((is_reexport, tree)) = open.take_if(|(_, tree)| tree.contains(';')) {
            let mut found = Vec::new();
            expand(&tree, &mut Vec::new(), &mut found);
            uses.extend(found.into_iter().filter_map(|(path, name)| {
                Some(Use { path: absolute(&path, own, files)?, name, is_reexport })
            }));
        }
    }
    (uses, rest)
}

/// Adds the paths of a tree such as `crate::a::{b, c::{d as e}}` at the beginning of `code`, each with its name in the file; returns
/// the rest of the code.
fn expand<'a>(code: &'a str, names: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) -> &'a str {
    let code = code.trim_start();
    let (name, mut rest) = code.split_at(word_length(code));
    let depth = names.len();
    if name != "self" || depth == 0 {
        names.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(group) if group.starts_with('{') => {
            rest = &group[1..];
            loop {
                rest = rest.trim_start_matches([' ', ',']);
                if rest.is_empty() || rest.starts_with('}') {
                    rest = rest.strip_prefix('}').unwrap_or_default();
                    break;
                }
                let after = expand(rest, names, found);
                if after.len() == rest.len() {
                    return "";
                }
                rest = after;
            }
        }
        Some(more) => rest = expand(more, names, found),
        None => {
            let alias = rest.strip_prefix(" as ").map(|alias| alias.split_at(word_length(alias)));
            let own = names.last().cloned().unwrap_or_default();
            found.push((names.clone(), alias.map_or(own, |(alias, _)| alias.to_owned())));
            rest = alias.map_or(rest, |(_, after)| after);
        }
    }
    names.truncate(depth);
    rest
}

/// The paths of two names or more in code.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let start = code[..at].rfind(|letter| !is_word(letter)).map_or(0, |before| before + 1);
        // The rest of a path, or a visibility.
        if start == at || code[..start].ends_with(':') || code[..start].ends_with("(in ") {
            continue;
        }
        let mut path = vec![code[start..at].to_owned()];
        let mut rest = &code[at..];
        while let Some(more) = rest.strip_prefix("::") {
            let (name, after) = more.split_at(word_length(more));
            if name.is_empty() {
                break;
            }
            path.push(name.to_owned());
            rest = after;
        }
        if path.len() > 1 {
            found.push(path);
        }
    }
    found
}

/// The path from the root of the crate; `None` if it leads out of the crate.
fn absolute(path: &[String], own: &ModulePath, files: &BTreeMap<ModulePath, String>) -> Option<ModulePath> {
    let mut base = own.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {}
        child => {
            base.push(child.to_owned());
            if !files.contains_key(&base) {
                return None;
            }
            rest = &rest[1..];
        }
    }
    while rest.first().is_some_and(|name| name == "super") {
        base.pop();
        rest = &rest[1..];
    }
    base.extend_from_slice(rest);
    Some(base)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The length of the name, or of the `*`, at the beginning of `code`.
fn word_length(code: &str) -> usize {
    if code.starts_with('*') {
        return 1;
    }
    code.find(|letter| !is_word(letter)).unwrap_or(code.len())
}

fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[(&str, &str)]) {
        let path = |name: &str| name.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let files = files.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect();
        let found: Vec<(String, String)> =
            arrows(&files).into_iter().map(|(from, to)| (from.join("::"), to.join("::"))).collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_module_that_uses_its_child_by_a_relative_path_is_an_arrow() {
        let files = [("a", "mod b;\nfn f() {\n    b::g();\n}\n"), ("a::b", "fn g() {}\n")];
        check(&files, &[("a", "a::b")]);
    }

    #[test]
    fn a_re_export_is_followed_to_the_file_that_defines_the_item() {
        let files = [
            ("a", "mod b;\npub(crate) use b::{\n    c::Name as Other,\n};\n"),
            ("a::b", "pub(super) mod c;\n"),
            ("a::b::c", "pub(crate) struct Name;\n"),
            ("d", "use crate::a::Other;\n"),
            ("e", "use crate::a;\nfn f(_: a::Other) {}\n"),
        ];
        check(&files, &[("d", "a::b::c"), ("e", "a::b::c")]);
    }

    #[test]
    fn a_re_export_is_an_arrow_if_the_file_uses_the_name_itself() {
        let files = [("a", "pub use crate::b::Name;\nstruct Own(Name);\n"), ("b", "pub struct Name;\n")];
        check(&files, &[("a", "b")]);
    }

    #[test]
    fn the_name_that_a_parent_imports_is_followed_too() {
        let files = [
            ("a", "use crate::c::Name;\nstruct Own(Name);\n"),
            ("a::b", "fn f(_: super::Name, _: super::Own) {}\n"),
            ("c", "pub struct Name;\n"),
        ];
        check(&files, &[("a", "c"), ("a::b", "a"), ("a::b", "c")]);
    }

    #[test]
    fn comments_tests_and_other_crates_are_no_arrows() {
        let text =
            "use std::b::Name;\n// crate::b::Name\n#[cfg(test)]\nmod tests {\n    use crate::b::Name;\n}\n";
        check(&[("a", text), ("b", "pub struct Name;\n")], &[]);
    }
}
