//! Edits of texts that are not stored.

use catalog::Catalog;
use language::edit::{Operation, edit_file};
use text::diagnostic::{Report, Span, Utf16Index};
use text::yaml::edit::{EditError, Edited};

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
