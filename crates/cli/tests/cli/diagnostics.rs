//! The manual's pages about diagnostics: each code has an example that gives it, and a repair that does not.
//!
//! Under the heading of a code stand the files of the example; a comment `# ←` marks the lines that are told of, with the
//! names of the codes where they are others (`# ← unknown-key`). What follows
//! `Repaired:` are the files of the repair. A file's first line may say where it stands (`# connections/mainWiki.yaml`);
//! an automation, a connection or a connector that does not is named after the code. `yaml,line=3` marks a line that can
//! have no comment, `yaml,repeat=1000` says how often the marked line really stands there, and `yaml,path=a/b` says where a file stands
//! that can have no comment at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::Project;

const MARK: &str = "# ←";

/// A code with its example.
#[derive(Debug)]
struct Row {
    code: String,
    wrong: Vec<File>,
    repaired: Vec<File>,
}

#[derive(Debug)]
struct File {
    path: String,
    bytes: Vec<u8>,
    /// The lines that are told of, and with which codes; lines do not count where the marked one is repeated.
    marked: BTreeSet<(u64, String)>,
    is_repeated: bool,
}

impl File {
    /// A fenced block under the heading of a code. `info` is what stands behind the mark of the fence.
    fn from_block(code: &str, info: &str, text: &str) -> Self {
        let setting =
            |name: &str| info.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let first = text.lines().next().unwrap_or_default();
        let named = first.strip_prefix("# ").filter(|path| path.ends_with(".yaml") && !path.contains(' '));
        let has = |key: &str| text.lines().any(|line| line.starts_with(key));
        let folder = match () {
            () if has("connector:") => "connectors",
            () if has("type:") => "connections",
            () => "automations",
        };
        let named = setting("path").or(named);
        let path = named.map_or_else(|| format!("{folder}/{code}.yaml"), str::to_owned);
        let marks = (1..).zip(text.lines()).filter_map(|(at, line)| Some((at, line.split_once(MARK)?.1)));
        let mut marked: BTreeSet<(u64, String)> =
            marks.flat_map(|(at, rest)| codes(rest, code).into_iter().map(move |code| (at, code))).collect();
        marked.extend(setting("line").map(|line| (line.parse().expect("a number"), code.to_owned())));
        let times = setting("repeat").map(|times| times.parse::<usize>().expect("a number"));
        let often = |line: &str| if line.contains(MARK) { times.unwrap_or(1) } else { 1 };
        let text: String = text.lines().map(|line| format!("{line}\n").repeat(often(line))).collect();
        let is_latin1 = info.split(',').any(|part| part == "latin1");
        let latin1 = || text.chars().filter_map(|c| u8::try_from(c).ok()).collect();
        let bytes = if is_latin1 { latin1() } else { text.into_bytes() };
        Self { path, bytes, marked, is_repeated: times.is_some() }
    }
}

/// The codes that a mark names, such as `# ← unknown-key`; the row's own where it names none.
fn codes(mark: &str, own: &str) -> Vec<String> {
    let is_code =
        |word: &str| word.contains('-') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let named: Vec<String> =
        mark.split(',').map(str::trim).filter(|word| is_code(word)).map(str::to_owned).collect();
    if named.is_empty() { vec![own.to_owned()] } else { named }
}

/// The rows of all pages.
fn rows() -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/diagnostics");
    let mut pages: Vec<_> =
        std::fs::read_dir(folder).expect("the pages").map(|entry| entry.expect("an entry").path()).collect();
    pages.sort();
    pages.iter().flat_map(|page| page_rows(&std::fs::read_to_string(page).expect("a page"))).collect()
}

fn page_rows(page: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut is_repair = false;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(code) = line.strip_prefix("## `").and_then(|rest| rest.strip_suffix('`')) {
            rows.push(Row { code: code.to_owned(), wrong: Vec::new(), repaired: Vec::new() });
            is_repair = false;
        } else if line.starts_with("Repaired") {
            is_repair = true;
        } else if let Some(info) = line.strip_prefix("```yaml") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let row = rows.last_mut().expect("a heading with a code");
            let file = File::from_block(&row.code, info, &(text.join("\n") + "\n"));
            if is_repair { &mut row.repaired } else { &mut row.wrong }.push(file);
        }
    }
    rows
}

/// The codes of the manual's tables, with the kinds of each.
fn tables() -> BTreeMap<String, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/diagnostics.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let row = |line: &str| {
        let (code, rest) = line.strip_prefix("| [`")?.split_once("`](")?;
        Some((code.to_owned(), rest.split('|').nth(1)?.trim().to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// The diagnostics of files from `validate`, and those of the project's tests if it has any.
fn told(files: &[&File]) -> Vec<Value> {
    let project = Project::with(&[("connections/mainWiki.yaml", WIKI)]);
    for file in files {
        project.write(&file.path, "");
        std::fs::write(project.file(&file.path), &file.bytes).expect("the file is written");
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let checked = project.cogwork(&["validate", "--format", "json"]).json();
    let mut found = list(&checked["diagnostics"]);
    // The secrets of examples are set nowhere, and only one example is about that.
    let is_about_secrets = files.iter().any(|file| file.path.contains(SECRETS));
    found.retain(|told| {
        let file = told["file"].as_str().unwrap_or_default();
        told["code"] != SECRETS || (is_about_secrets && file.contains(SECRETS))
    });
    if checked["errors"] == 0 && files.iter().any(|file| file.path.ends_with(".test.yaml")) {
        let ran = project.cogwork(&["test", "--json"]).json();
        let tests = list(&ran["files"]).into_iter().flat_map(|file| list(&file["tests"]));
        found.extend(tests.flat_map(|test| list(&test["diagnostics"])));
    }
    found
}

/// The code that is about this machine, and not about files.
const SECRETS: &str = "missing-secret";

const WIKI: &str = "type: wiki.basic\nwith: {host: https://wiki.example.com, email: ops@example.com, apiToken: \"${{ secrets.wiki }}\"}\n";

/// The diagnostics of one row's files. Files that need no others share one project, which is faster.
fn told_of<'r>(rows: &'r [Row], files: impl Fn(&'r Row) -> &'r [File]) -> BTreeMap<&'r str, Vec<Value>> {
    let is_alone = |row: &&'r Row| matches!(files(row), [file] if file.path.contains(&row.code) && !file.path.ends_with(".test.yaml"));
    let (shared, own): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_alone);
    let mut found: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let all: Vec<&File> = shared.iter().flat_map(|row| files(row)).collect();
    for diagnostic in told(&all) {
        let row = shared.iter().find(|row| files(row).iter().any(|file| diagnostic["file"] == *file.path));
        found.entry(&row.expect("a file of a row").code).or_default().push(diagnostic);
    }
    for row in own {
        found.insert(&row.code, told(&files(row).iter().collect::<Vec<_>>()));
    }
    found
}

/// The defects of a row's example: unmarked diagnostics, marks without a diagnostic, the wrong severity, and
/// diagnostics of the corrected version.
fn problems(row: &Row, kinds: &str, wrong: &[Value], repaired: &[Value]) -> String {
    let is_repeated = row.wrong.iter().any(|file| file.is_repeated);
    let place = |line: u64| if is_repeated { 0 } else { line };
    let text = |found: &Value, key: &str| found[key].as_str().unwrap_or_default().to_owned();
    let told: BTreeSet<(String, u64, String)> = wrong
        .iter()
        .map(|found| {
            (text(found, "file"), place(found["line"].as_u64().unwrap_or_default()), text(found, "code"))
        })
        .collect();
    let marks = |file: &File| {
        file.marked
            .iter()
            .map(|(line, code)| (file.path.clone(), place(*line), code.clone()))
            .collect::<Vec<_>>()
    };
    let marked: BTreeSet<(String, u64, String)> = row.wrong.iter().flat_map(marks).collect();
    let mut problems = String::new();
    for (path, line, code) in told.difference(&marked) {
        let _ = writeln!(problems, "  the example gives also {code} at {path}:{line}");
    }
    for (path, line, code) in marked.difference(&told) {
        let _ = writeln!(problems, "  the example does not give {code} at {path}:{line}");
    }
    for found in
        wrong.iter().filter(|found| found["code"] == *row.code && !kinds.contains(&text(found, "severity")))
    {
        let _ = writeln!(problems, "  the table says that it is {kinds}, but it is {}", found["severity"]);
    }
    if row.repaired.is_empty() {
        problems.push_str("  there is no repair\n");
    }
    for found in repaired {
        let place = format!("{}:{}", text(found, "file"), found["line"]);
        let _ = writeln!(problems, "  the repair gives {} at {place}: {}", found["code"], found["message"]);
    }
    if problems.is_empty() { problems } else { format!("{}\n{problems}", row.code) }
}

#[test]
fn every_code_has_an_example_that_reports_it_and_a_fix_that_does_not() {
    let (rows, tables) = (rows(), tables());
    let wrong = told_of(&rows, |row| &row.wrong);
    let repaired = told_of(&rows, |row| &row.repaired);
    let none = Vec::new();
    let of = |all: &BTreeMap<&str, Vec<Value>>, code: &str| all.get(code).unwrap_or(&none).clone();
    // A build with all clients misses none.
    let is_reported = |row: &&Row| row.code != "not-built" || cfg!(not(feature = "mysql"));
    let problems: String = rows
        .iter()
        .filter(is_reported)
        .map(|row| {
            let kinds = tables.get(&row.code).map_or("", String::as_str);
            problems(row, kinds, &of(&wrong, &row.code), &of(&repaired, &row.code))
        })
        .collect();
    assert!(problems.is_empty(), "\n{problems}");
}

#[test]
fn the_tables_and_the_examples_list_the_same_codes() {
    let shown: BTreeSet<String> = rows().into_iter().map(|row| row.code).collect();
    let listed: BTreeSet<String> = tables().into_keys().collect();
    assert!(listed.len() > 100, "{}", listed.len());
    assert_eq!(shown, listed);
}

#[test]
fn every_warning_and_hint_can_be_suppressed_by_a_comment() {
    let known: BTreeSet<&str> = language::load::CODES
        .iter()
        .map(|(code, _)| *code)
        .chain(language::load::CHECK_WARNING_CODES.iter().copied())
        .collect();
    let doubts =
        tables().into_iter().filter(|(_, kinds)| kinds.contains("warning") || kinds.contains("hint"));
    let unnamed: Vec<String> =
        doubts.map(|(code, _)| code).filter(|code| !known.contains(code.as_str())).collect();
    assert!(unnamed.is_empty(), "not in `CHECK_WARNING_CODES`: {unnamed:?}");
}

/// The codes of the answers to a request on a webhook, as the manual lists them.
fn answer_codes() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/webhook-answers.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|');
        cells.next().filter(|status| status.trim().parse::<u16>().is_ok())?;
        cells.next()
    });
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn no_published_code_is_ever_removed() {
    for (file, given, listed) in [
        ("codes.txt", include_str!("codes.txt"), tables().into_keys().collect()),
        ("answer-codes.txt", include_str!("answer-codes.txt"), answer_codes()),
    ] {
        let given: BTreeSet<String> = given.lines().map(str::to_owned).collect();
        let gone: Vec<_> = given.difference(&listed).collect();
        let new: Vec<_> = listed.difference(&given).collect();
        assert!(
            gone.is_empty(),
            "{gone:?}: codes are for ever; keep each with its meaning, and give a new meaning a new code"
        );
        assert!(new.is_empty(), "{new:?}: add these to {file}, from which nothing is ever removed");
    }
}
