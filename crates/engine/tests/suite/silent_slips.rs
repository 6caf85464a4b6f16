//! Slips that gave a wrong result without a message: each is reported before it runs, at its position, with the fix.
//!
//! `tests/slips/silent.rows` has the rows: `=== title`, `= told code line:column` for each diagnostic, `= says words` for words
//! that a diagnostic shows, then the faulty file. `SLIPS_UPDATE=1` writes the measured `told` into the rows, to be read before
//! they are committed.

use std::fmt::Write as _;
use std::path::Path;

use authoring::check_text;
use text::Severity;
use text::diagnostic::Diagnostic;

use crate::mistakes::catalog;

/// Codes about the purpose of a file or the machine, which short files cannot avoid.
const LEFT_OUT: [&str; 4] = ["unused-value", "missing-secret", "unverified-webhook", "no-retry"];

#[derive(Default)]
struct Row {
    title: String,
    told: Vec<String>,
    says: Vec<String>,
    file: String,
}

fn read(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("=== ") {
            rows.push(Row { title: title.to_owned(), ..Row::default() });
            continue;
        }
        let Some(row) = rows.last_mut() else { continue };
        match line.strip_prefix("= ").and_then(|rest| rest.split_once(' ')) {
            Some(("told", rest)) => row.told.push(rest.to_owned()),
            Some(("says", rest)) => row.says.push(rest.to_owned()),
            _ => {
                let _ = writeln!(row.file, "{line}");
            }
        }
    }
    rows
}

#[test]
fn every_silent_slip_is_reported_at_its_position_with_the_fix() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slips/silent.rows");
    let text = std::fs::read_to_string(&path).expect("the table");
    let update = std::env::var_os("SLIPS_UPDATE").is_some();
    let (catalog, mut wrong) = (catalog(), String::new());
    let mut written = text.split("=== ").next().unwrap_or_default().to_owned();
    for row in read(&text) {
        let report = check_text(&catalog, "automations/slip.yaml", &row.file);
        let relevant: Vec<&Diagnostic> =
            report.diagnostics().iter().filter(|found| !LEFT_OUT.contains(&found.code)).collect();
        let is_grave = relevant.iter().any(|found| found.severity != Severity::Hint);
        let counts = |found: &&&Diagnostic| !is_grave || found.severity != Severity::Hint;
        let told: Vec<String> = relevant
            .iter()
            .filter(counts)
            .map(|found| {
                let at = report.source().position(found.span.start as usize);
                format!("{} {}:{}", found.code, at.line, at.column)
            })
            .collect();
        let shown = report.render(false);
        let missing: Vec<&String> = row.says.iter().filter(|words| !shown.contains(*words)).collect();
        if told.is_empty() || row.says.is_empty() || !missing.is_empty() || (!update && told != row.told) {
            let _ = writeln!(wrong, "{}: {told:?}, not shown: {missing:?}\n{shown}", row.title);
        }
        let _ = writeln!(written, "=== {}", row.title);
        told.iter().for_each(|told| written.push_str(&format!("= told {told}\n")));
        row.says.iter().for_each(|says| written.push_str(&format!("= says {says}\n")));
        written.push_str(&row.file);
    }
    if update {
        std::fs::write(&path, written).expect("the table is written");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
