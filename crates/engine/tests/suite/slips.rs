//! Slips of authors: faulty files as data, each reported before it runs, at its position, with the fix, and corrected by fixes.
//!
//! The files in `tests/slips/*.txt` hold rows. A row is:
//!
//! ```text
//! === the slip in words
//! = told unknown-function 3:42          a diagnostic: code, line, column; once for each
//! = says write `x | upper`              words that a diagnostic shows; once for each
//! = fixed valid                         the file after all fixes: `valid`, `faulty`, or `kept` (no fix)
//! = line 3 with: {message: "hello"}     a line that the fixes changed, as it is afterwards
//! trigger: {manual: {}}                 the faulty file, up to the next row
//! ```
//!
//! `SLIPS_UPDATE=1` writes the measured `told`, `fixed` and `line` into the rows, to be read before they are committed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use authoring::{check_project, check_text, fix_text};
use catalog::Catalog;
use text::Severity;
use text::diagnostic::{Diagnostic, Report};

use crate::common::workers;

/// Codes about a file's purpose or the machine, which the short files of the rows cannot avoid.
const LEFT_OUT: [&str; 3] = ["unused-value", "missing-secret", "unverified-webhook"];

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    workers();
    check_project(&folder().join("project"), &[]).expect("the connectors load").catalog
});

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slips")
}

/// A row of a table.
#[derive(Debug, Default, Clone, PartialEq)]
struct Slip {
    title: String,
    says: Vec<String>,
    measured: Measured,
    file: String,
}

/// The parts of a row that a check of its file measures.
#[derive(Debug, Default, Clone, PartialEq)]
struct Measured {
    /// `code line:column` of each diagnostic.
    told: Vec<String>,
    fixed: String,
    /// `number text` of each line that the fixes changed.
    lines: Vec<String>,
}

fn read(text: &str) -> Vec<Slip> {
    let mut slips: Vec<Slip> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("=== ") {
            slips.push(Slip { title: title.to_owned(), ..Slip::default() });
            continue;
        }
        let Some(slip) = slips.last_mut() else { continue };
        match line.strip_prefix("= ").and_then(|rest| rest.split_once(' ')) {
            Some(("told", rest)) => slip.measured.told.push(rest.to_owned()),
            Some(("says", rest)) => slip.says.push(rest.to_owned()),
            Some(("fixed", rest)) => rest.clone_into(&mut slip.measured.fixed),
            Some(("line", rest)) => slip.measured.lines.push(rest.to_owned()),
            _ => {
                let _ = writeln!(slip.file, "{line}");
            }
        }
    }
    slips
}

fn write(head: &str, slips: &[Slip]) -> String {
    let mut out = head.to_owned();
    for Slip { title, says, measured, file } in slips {
        let _ = writeln!(out, "=== {title}");
        let rows = [("told", &measured.told), ("says", says)];
        for (word, texts) in rows {
            texts.iter().for_each(|text| out.push_str(&format!("= {word} {text}\n")));
        }
        let _ = writeln!(out, "= fixed {}", measured.fixed);
        measured.lines.iter().for_each(|line| out.push_str(&format!("= line {line}\n")));
        out.push_str(file);
    }
    out
}

/// Returns the diagnostics that rows are about. Hints count only in a file without errors and warnings.
fn relevant(report: &Report) -> Vec<&Diagnostic> {
    let relevant = |found: &&Diagnostic| !LEFT_OUT.contains(&found.code);
    let all: Vec<&Diagnostic> = report.diagnostics().iter().filter(relevant).collect();
    let grave: Vec<&Diagnostic> =
        all.iter().copied().filter(|found| found.severity != Severity::Hint).collect();
    if grave.is_empty() { all.into_iter().filter(|found| found.code != "no-retry").collect() } else { grave }
}

fn check(text: &str) -> Report {
    check_text(&CATALOG, "automations/slip.yaml", text)
}

fn measure(file: &str) -> (Measured, String) {
    let report = check(file);
    let place = |found: &Diagnostic| {
        let at = report.source().position(found.span.start as usize);
        format!("{} {}:{}", found.code, at.line, at.column)
    };
    let told = relevant(&report).into_iter().map(place).collect();
    let fixed = fix_text(file, check);
    let after = relevant(&fixed.report).len();
    let lines: Vec<String> = if fixed.text.lines().count() == file.lines().count() {
        let lines = (1..).zip(file.lines().zip(fixed.text.lines()));
        lines.filter(|(_, (old, new))| old != new).map(|(at, (_, new))| format!("{at} {new}")).collect()
    } else {
        (1..).zip(fixed.text.lines()).map(|(at, line)| format!("{at} {line}")).collect()
    };
    let fixed = match (fixed.fixes, after) {
        (_, 0) => "valid",
        (0, _) => "kept",
        _ => "faulty",
    };
    (Measured { told, fixed: fixed.to_owned(), lines }, report.render(false))
}

/// Returns the paths and texts of all tables.
fn tables() -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder()).expect("the tables");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).expect("a table"))).collect()
}

#[test]
fn every_slip_is_reported_at_its_position_with_the_fix() {
    let update = std::env::var_os("SLIPS_UPDATE").is_some();
    let mut wrong = String::new();
    for (path, text) in tables() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut slips = read(&text);
        for slip in &mut slips {
            let (measured, shown) = measure(&slip.file);
            let missing: Vec<&String> = slip.says.iter().filter(|words| !shown.contains(*words)).collect();
            if measured.told.is_empty() || slip.says.is_empty() || !missing.is_empty() {
                let _ = writeln!(wrong, "{name}: {}: not shown: {missing:?}\n{shown}", slip.title);
            } else if !update && measured != slip.measured {
                let _ = writeln!(wrong, "{name}: {}: {measured:#?}\n{shown}", slip.title);
            }
            slip.measured = measured;
        }
        if update {
            let head = text.split("=== ").next().unwrap_or_default();
            std::fs::write(&path, write(head, &slips)).expect("the table is written");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn fixes_make_seven_of_ten_faulty_files_valid() {
    let (mut faulty, mut valid) = (0, 0);
    for (_, text) in tables() {
        for slip in read(&text) {
            if !check(&slip.file).has_errors() {
                continue;
            }
            faulty += 1;
            valid += usize::from(!fix_text(&slip.file, check).report.has_errors());
        }
    }
    println!("{valid} of {faulty} faulty files are valid after their fixes");
    assert!(valid * 10 >= faulty * 7, "{valid} of {faulty}");
}
