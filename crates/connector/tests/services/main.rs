//! The built-in connectors against the public descriptions of their services, in `tests/public`: for each, the operations that it uses,
//! with their source, revision and licence; and round trips of their examples.

#![expect(clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod round_trips;

use std::fs;
use std::path::PathBuf;

use connector::{Registry, differences};
use serde_json::Value;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "public"].iter().collect()
}

fn registry() -> Registry {
    Registry::builtin().unwrap_or_else(|reports| {
        let said: String = reports.iter().map(|report| report.render(false)).collect();
        panic!("{said}")
    })
}

/// Returns the name of each connector with a description, and the description.
fn descriptions() -> Vec<(String, Value)> {
    let files = fs::read_dir(folder()).expect("the folder of descriptions");
    let mut found: Vec<(String, Value)> = files
        .map(|file| {
            let path = file.expect("a file").path();
            let text = fs::read_to_string(&path).expect("a text");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).expect("JSON"))
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

#[test]
fn connectors_send_and_expect_what_their_services_describe() {
    let registry = registry();
    let mut found = Vec::new();
    for (name, document) in descriptions() {
        let differences = differences(&registry, &name, &document).expect("a document of a connector");
        found.extend(differences.into_iter().map(|one| format!("{}: {}", one.action, one.message)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_description_says_where_it_comes_from() {
    for (name, document) in descriptions() {
        for key in ["x-source", "x-revision", "x-licence"] {
            assert!(document["info"][key].as_str().is_some_and(|text| !text.is_empty()), "{name}: {key}");
        }
    }
}

#[test]
fn a_connector_that_names_a_proof_has_a_description() {
    let described: Vec<String> = descriptions().into_iter().map(|(name, _)| name).collect();
    for connector in registry().connectors().filter(|connector| connector.proof.is_some()) {
        assert!(described.contains(&connector.name), "{}", connector.name);
    }
}

#[test]
fn manifests_stay_small() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "manifests"].iter().collect();
    let sizes = fs::read_dir(folder).expect("the folder of manifests").map(|file| {
        let file = file.expect("a file");
        let size = file.metadata().expect("a size").len();
        assert!(size <= 64 << 10, "{}", file.path().display());
        size
    });
    assert!(sizes.sum::<u64>() <= 600 << 10);
}
