//! `connectors/connectors.lock`: the sources of shared connectors, and the digests of their files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use text::diagnostic::{Diagnostic, Source, Span};
use value::Data;

/// The path of the lock, relative to the project folder.
pub const CONNECTOR_LOCK: &str = "connectors/connectors.lock";
/// The name of the manifest in the folder of a shared connector.
pub const SHARED_MANIFEST: &str = "connector.yaml";

/// The shared connectors of a project, by their names. `cogwork connectors add` writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectorLock {
    /// The connectors; the folder of each is `connectors/NAME/`.
    pub connectors: BTreeMap<String, LockedConnector>,
}

/// One connector that was copied from another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedConnector {
    /// The address of a git repository, or a folder.
    pub source: String,
    /// The tag, branch or commit that was asked for; `None` for a folder.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The folder of the connector in the source; `None` for the whole source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The id of the copied commit; `None` for a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The SHA-256 of each file in hexadecimal digits, by its path in the folder of the connector.
    pub files: BTreeMap<String, String>,
}

impl ConnectorLock {
    /// Reads the text of the lock.
    ///
    /// # Errors
    /// Returns a message if the text was not written by [`ConnectorLock::to_text`].
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| {
            format!(
                "this is no lock as `cogwork connectors add` writes it ({error}); restore the file, or delete it and add the connectors again"
            )
        })
    }

    /// Returns the text of the lock.
    ///
    /// # Errors
    /// Returns an error if JSON cannot express it; its type rules this out.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Returns the SHA-256 of a file as the lock has it.
#[must_use]
pub fn file_digest(content: &[u8]) -> String {
    Data::from(content.to_vec()).digest().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares the manifests of a project with its lock. `text` returns the text of a file; `None` if it does not exist. Returns the warnings of
/// each file, by path; a missing manifest is reported at the lock.
pub(crate) fn changed_manifests(
    lock: &ConnectorLock,
    text: &dyn Fn(&str) -> Option<Arc<Source>>,
) -> BTreeMap<String, Vec<Diagnostic>> {
    let mut found: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
    for (name, locked) in &lock.connectors {
        let Some(digest) = locked.files.get(SHARED_MANIFEST) else { continue };
        let path = format!("connectors/{name}/{SHARED_MANIFEST}");
        let (at, message, span) = match text(&path) {
            None => {
                let message = format!("`{path}` is missing, and the lock says that it was added");
                (CONNECTOR_LOCK.to_owned(), message, Span::default())
            }
            Some(source) if file_digest(source.text().as_bytes()) != *digest => {
                let message = format!("this is not the file that was added from `{}`", locked.source);
                (path, message, name_span(&source))
            }
            Some(_) => continue,
        };
        let help = format!(
            "`cogwork connectors update {name}` shows the difference and restores the file; to keep the change, remove `{name}` from `{CONNECTOR_LOCK}`"
        );
        found.entry(at).or_default().push(Diagnostic::warning("connector-changed", message, span).help(help));
    }
    found
}

/// The place of the connector's name, so that a comment there can allow the change.
fn name_span(source: &Source) -> Span {
    let line = (1..=source.line_count())
        .find(|line| source.line(*line).is_some_and(|text| text.starts_with("connector:")));
    line.and_then(|line| source.line_span(line)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(text: &str) -> ConnectorLock {
        let files = BTreeMap::from([(SHARED_MANIFEST.to_owned(), file_digest(text.as_bytes()))]);
        let source = "https://git.example.com/shop.git".to_owned();
        let (reference, folder) = (Some("v1".to_owned()), None);
        let locked = LockedConnector { source, reference, folder, commit: None, files };
        ConnectorLock { connectors: BTreeMap::from([("shop".to_owned(), locked)]) }
    }

    fn found(lock: &ConnectorLock, text: Option<&str>) -> Vec<(String, String)> {
        let read = |path: &str| Some(Arc::new(Source::new(path, text?)));
        let rows = changed_manifests(lock, &read).into_iter();
        rows.flat_map(|(path, all)| all.into_iter().map(move |one| (path.clone(), one.message))).collect()
    }

    #[test]
    fn a_manifest_that_differs_from_the_lock_is_reported_at_its_name() {
        let text = "# a connector\nconnector: shop\n";
        assert_eq!(found(&lock(text), Some(text)), []);
        let changed = "# A connector\nconnector: shop\n";
        let all = found(&lock(text), Some(changed));
        assert_eq!(all.len(), 1);
        assert!(
            all[0].0 == "connectors/shop/connector.yaml" && all[0].1.contains("git.example.com"),
            "{all:?}"
        );
        assert_eq!(Source::new("a", changed).slice(name_span(&Source::new("a", changed))), "connector: shop");
    }

    #[test]
    fn a_missing_manifest_is_reported_at_the_lock() {
        let all = found(&lock("x"), None);
        assert!(matches!(all.as_slice(), [(path, _)] if path == CONNECTOR_LOCK), "{all:?}");
    }

    #[test]
    fn a_lock_survives_being_written() {
        let lock = lock("x");
        assert_eq!(ConnectorLock::parse(&lock.to_text().expect("JSON")), Ok(lock));
        assert!(
            ConnectorLock::parse("connectors: {}").is_err_and(|words| words.contains("add the connectors"))
        );
    }
}
