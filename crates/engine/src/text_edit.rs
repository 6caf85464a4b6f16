//! Edits of texts that are not stored, and of the `enabled` key of automations.

use std::sync::Arc;

use catalog::{Catalog, ReloadSummary};
use language::edit::{Operation, edit_file};
use serde_json::Value;
use text::diagnostic::{Report, Span, Utf16Index};
use text::yaml::edit::{Edited, Segment};

use crate::Engine;
use crate::project_edit::{EditError, ExpectedVersion};
use crate::validate::check_text;

/// A change of a text, in offsets of UTF-16 units, in which browsers count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChange {
    /// The start of the replaced range.
    pub from: usize,
    /// The end of the replaced range.
    pub to: usize,
    /// The new text.
    pub insert: String,
}

/// Applies operations to a text of a project file. Returns the changes, and the report on the changed text.
///
/// # Errors
/// An operation names nothing in the text, or cannot be written in place.
pub fn edit_text(
    catalog: &Catalog,
    path: &str,
    text: &str,
    operations: &[Operation],
) -> Result<(Vec<TextChange>, Report), EditError> {
    let Edited { text: new, changes } = edit_file(path, text, operations)?;
    let index = Utf16Index::new(text);
    let offset = |at: u32| index.units_at(at as usize);
    let change = |change: text::yaml::edit::Change| {
        let Span { start, end } = change.span;
        TextChange { from: offset(start), to: offset(end), insert: change.insert }
    };
    Ok((changes.into_iter().map(change).collect(), check_text(catalog, path, &new)))
}

impl Engine {
    /// Sets the key `enabled` in the file of an automation, and reloads. Returns the file's new version. Without a change
    /// nothing is written.
    ///
    /// # Errors
    /// There is no such automation, the file is not in the expected version, the key cannot be changed in place, or the file
    /// cannot be written.
    pub async fn set_enabled(
        &self,
        id: &str,
        enabled: bool,
        expected: Option<String>,
        author: &str,
    ) -> Result<(String, ReloadSummary), EditError> {
        let path = self.catalog().find(id)?.automation.source.path().to_owned();
        let found = self.read_file(path.clone()).await?;
        if expected.is_some_and(|expected| expected != found.version) {
            return Err(EditError::Changed(Some(found)));
        }
        let operation =
            Operation::Set { at: vec![Segment::Key("enabled".to_owned())], value: Value::Bool(enabled) };
        let is_same = |text: &str| {
            let source = Arc::new(text::Source::new(path.as_str(), text));
            let loaded = language::load::automation(source, catalog::stem(&path));
            loaded.for_checking().is_some_and(|(automation, _)| automation.enabled == enabled)
        };
        if is_same(&found.text) {
            let generation = self.catalog().generation();
            return Ok((found.version, ReloadSummary { generation, ..ReloadSummary::default() }));
        }
        let edited = edit_file(&path, &found.text, &[operation])?;
        let expected = ExpectedVersion::Is(found.version);
        let (version, reload) = self.write_file(path, Some(edited.text), expected, author).await?;
        Ok((version.unwrap_or_default(), reload))
    }
}
