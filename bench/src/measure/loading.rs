//! The cost of reading and checking files: one, very many, and files made to be as expensive as possible.

use std::path::Path;
use std::time::Instant;

use super::Terms;
use crate::Error;
use crate::project::{Project, numbered};
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::median;

/// Files between two looks at the clock.
const BATCH: usize = 100;
/// The number of files of a large project, and of one in the quick form.
const LARGE: usize = 10_000;
const QUICK: usize = 1000;
/// The number of loads of a large project.
const LOADS: usize = 5;
/// The baseline: `yaml_serde`, which gives values without places and does not check their meaning.
const BARE: &str = "YAML alone";
/// The milliseconds that refusing any file may take.
const REFUSAL_MS: f64 = 250.0;

/// Measures all of it.
pub(super) fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    one_file(terms, report)?;
    many_files(terms, report)?;
    bombs(terms, report)
}

/// Times of Cogwork and of the baseline, measured alternately.
#[derive(Default)]
struct Turns {
    ours: Vec<f64>,
    bare: Vec<f64>,
}

impl Turns {
    /// A figure beside its baseline, with the median over the rounds of how many times that it takes.
    fn row(self, name: String, unit: Unit) -> Row {
        let ratio = median(self.ours.iter().zip(&self.bare).map(|(ours, bare)| ours / bare));
        Row::new("loading", name, median(self.ours), unit).beside(BARE, median(self.bare), ratio)
    }
}

/// Parsing and checking a text in memory.
fn one_file(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let project = Project::new()?;
    let catalog = authoring::check_project(project.path(), &[])?.catalog;
    let texts: Vec<String> = (0..BATCH).map(|number| numbered(number, "POST")).collect();
    let until = Instant::now() + terms.options.time;
    let mut turns = Turns::default();
    #[expect(clippy::cast_precision_loss, reason = "there are 100")]
    let each = |started: Instant| started.elapsed().as_secs_f64() * 1e6 / BATCH as f64;
    while turns.ours.is_empty() || Instant::now() < until {
        let started = Instant::now();
        texts.iter().try_for_each(|text| bare(text))?;
        turns.bare.push(each(started));
        let started = Instant::now();
        for text in &texts {
            let said = authoring::check_text(&catalog, "automations/measured.yaml", text);
            if said.has_errors() {
                return Err(Error::Server(said.render(false)));
            }
        }
        turns.ours.push(each(started));
    }
    let lines = texts[0].lines().count();
    report.add(turns.row(format!("parsing and checking a file of {lines} lines"), Unit::Microseconds));
    Ok(())
}

/// Reading, parsing, checking and planning a project of very many files, on two processors where there are two; the
/// baseline reads and parses them one after the other.
fn many_files(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let (size, written) = if terms.options.quick { (QUICK, "1,000") } else { (LARGE, "10,000") };
    let project = Project::of_size(size)?;
    let mut turns = Turns::default();
    for _ in 0..LOADS {
        let started = Instant::now();
        parse_folder(&project.path().join("automations"))?;
        turns.bare.push(started.elapsed().as_secs_f64() * 1e3);
        let started = Instant::now();
        let checked = terms.processors.on_both(|| authoring::check_project(project.path(), &[]))?;
        turns.ours.push(started.elapsed().as_secs_f64() * 1e3);
        if checked.catalog.automations().len() != size {
            return Err(Error::Server(format!(
                "{} of {size} files load",
                checked.catalog.automations().len()
            )));
        }
    }
    report.add(turns.row(format!("loading and checking {written} files, from the disk"), Unit::Milliseconds));
    Ok(())
}

fn parse_folder(folder: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder.display()))? {
        let path = entry.map_err(Error::io(folder.display()))?.path();
        bare(&std::fs::read_to_string(&path).map_err(Error::io(path.display()))?)?;
    }
    Ok(())
}

/// Parses a text as YAML and nothing else.
fn bare(text: &str) -> Result<(), Error> {
    let value: serde_yaml::Value =
        serde_yaml::from_str(text).map_err(|error| Error::Server(error.to_string()))?;
    std::hint::black_box(value);
    Ok(())
}

/// The longest refusal of any of some files; the baseline parses a valid file of the maximum size.
fn bombs(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let project = Project::new()?;
    let catalog = authoring::check_project(project.path(), &[])?.catalog;
    let bombs = texts();
    let in_order: String =
        (0..8_500).map(|number| format!("key{number:05}: a value of some words\n")).collect();
    let until = Instant::now() + terms.options.time;
    let mut turns = Turns::default();
    while turns.ours.is_empty() || Instant::now() < until {
        let started = Instant::now();
        bare(&in_order)?;
        turns.bare.push(started.elapsed().as_secs_f64() * 1e3);
        let mut longest: f64 = 0.0;
        for (name, text) in &bombs {
            let started = Instant::now();
            let said = authoring::check_text(&catalog, "automations/measured.yaml", text);
            longest = longest.max(started.elapsed().as_secs_f64() * 1e3);
            if !said.has_errors() {
                return Err(Error::Server(format!("the bomb of {name} is not refused")));
            }
        }
        turns.ours.push(longest);
    }
    let name = format!("refusing the costliest of {} bombs", bombs.len());
    report.add(turns.row(name, Unit::Milliseconds).target(Some(Target::AtMost(REFUSAL_MS))));
    Ok(())
}

/// Files made to cost as much as they can.
fn texts() -> Vec<(&'static str, String)> {
    let head = "trigger: {manual: {}}\nsteps:\n";
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        aliases.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    let lines = |count: usize, line: &str| -> String {
        (0..count).map(|number| line.replace("NUMBER", &number.to_string())).collect()
    };
    let value = |inner: String| format!("{head}  - set: {{v: \"{inner}\"}}\n");
    vec![
        ("aliases", aliases),
        ("brackets", "[".repeat(250 << 10)),
        ("keys", lines(25_000, "kNUMBER: 1\n")),
        ("the same key", "a: 1\n".repeat(50_000)),
        ("a text of ten megabytes", format!("name: {}\n", "x".repeat(10 << 20))),
        ("unknown keys", format!("{head}  - zz: 1\n{}", lines(9_000, "    zzNUMBER: 1\n"))),
        (
            "unreadable expressions",
            format!("{head}  - set:\n{}", lines(9_000, "      kNUMBER: ${{ a b }}\n")),
        ),
        ("empty expressions", value("${{}}".repeat(50_000))),
        ("expressions without end", value("${{".repeat(80_000))),
        ("a deep expression", value(format!("${{{{ {}1 }}}}", "-".repeat(4000)))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bomb_is_refused() {
        let project = Project::new().expect("a folder");
        let catalog = authoring::check_project(project.path(), &[]).expect("checked").catalog;
        // The costliest are for builds that are optimised.
        for (name, text) in
            texts().into_iter().filter(|(_, text)| text.len() < 100_000 || text.len() > 1 << 20)
        {
            assert!(authoring::check_text(&catalog, "automations/a.yaml", &text).has_errors(), "{name}");
        }
    }

    #[test]
    fn a_ratio_is_the_median_over_the_rounds() {
        let turns = Turns { ours: vec![10.0, 40.0, 30.0], bare: vec![10.0, 10.0, 10.0] };
        let row = format!("{:?}", turns.row("a".to_owned(), Unit::Milliseconds));
        assert!(row.contains("ratio: 3.0"), "{row}");
    }
}
