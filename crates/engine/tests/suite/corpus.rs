//! Correct files in the style of users of other tools: they have no diagnostics, and any mutation of them can be checked.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use authoring::{check_project, check_text};
use catalog::Catalog;
use proptest::prelude::*;
use text::diagnostic::Report;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The paths and texts of all automations of the corpus and of the repository.
static FILES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../automations");
    let mut files = Vec::new();
    for folder in [root().join("automations"), shipped] {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                files.push((path.display().to_string(), std::fs::read_to_string(&path).expect("it is text")));
            }
        }
    }
    files.sort();
    files
});

static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| check_project(&root(), &[]).expect("the connectors load").catalog);

#[test]
fn correct_files_have_no_diagnostics() {
    let checked = check_project(&root(), &[]).expect("the connectors load");
    let said: String = checked.reports.iter().map(|report| report.render(false)).collect();
    assert!(said.is_empty(), "{said}");
    assert!(checked.catalog.automations().count() >= 50);
}

/// Generates a file with some of its words or separators removed, duplicated, swapped, or replaced.
fn with_other_words() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8);
    (any::<prop::sample::Index>(), prop::collection::vec(change, 1..6)).prop_map(|(which, changes)| {
        let text = &which.get(&FILES).1;
        let mut words: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        for (at, other, kind) in changes {
            let (at, other) = (at.index(words.len()), other.index(words.len()));
            match kind {
                0 if words.len() > 1 => drop(words.remove(at)),
                1 => words.insert(at, words[other]),
                2 => words.swap(at, other),
                _ => words[at] = words[other],
            }
        }
        words.concat()
    })
}

/// Generates a file with some of its characters replaced, removed or added.
fn with_other_characters() -> impl Strategy<Value = String> {
    let signs =
        prop::sample::select("{}[]()$#&*!|>-:'\"%@`,.\\\n\t \u{0}é日\u{feff}=<0".chars().collect::<Vec<_>>());
    let change = (any::<prop::sample::Index>(), prop_oneof![signs, any::<char>()], 0..3_u8);
    (any::<prop::sample::Index>(), prop::collection::vec(change, 1..8)).prop_map(|(which, changes)| {
        let mut characters: Vec<char> = which.get(&FILES).1.chars().collect();
        for (at, new, kind) in changes {
            let at = at.index(characters.len());
            match kind {
                0 if characters.len() > 1 => drop(characters.remove(at)),
                1 => characters.insert(at, new),
                _ => characters[at] = new,
            }
        }
        characters.into_iter().collect()
    })
}

/// Checks that each span is within the file and at character boundaries, and that the report renders in every format.
fn can_be_shown(report: &Report) -> Result<(), TestCaseError> {
    let text = report.source().text();
    for found in report.diagnostics() {
        let places = found.related.iter().map(|(place, _)| *place).chain([found.span]);
        for place in places.chain(found.replacement.iter().map(|replacement| replacement.span)) {
            let range = place.range();
            prop_assert!(
                text.get(range.clone()).is_some(),
                "{} at {range:?} of {}:\n{text}",
                found.code,
                text.len()
            );
        }
    }
    prop_assert_eq!(report.render(true).is_empty(), report.is_empty());
    prop_assert_eq!(report.entries().len(), report.diagnostics().len());
    prop_assert_eq!(report.to_github("").lines().count(), report.diagnostics().len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_file_with_shuffled_words_can_be_checked(text in with_other_words()) {
        can_be_shown(&check_text(&CATALOG, "automations/changed.yaml", &text))?;
        can_be_shown(&check_text(&CATALOG, "automations/greet.test.yaml", &text))?;
        can_be_shown(&check_text(&CATALOG, "connections/changed.yaml", &text))?;
    }

    #[test]
    fn a_file_with_changed_characters_can_be_checked(text in with_other_characters()) {
        can_be_shown(&check_text(&CATALOG, "automations/changed.yaml", &text))?;
        can_be_shown(&check_text(&CATALOG, "connectors/changed.yaml", &text))?;
    }
}
