//! Edits of YAML text in place: each operation changes the bytes of one node, and every other byte of the file stays.
//!
//! An operation names a node by its path in the tree. The change is written in the style around it (block or flow,
//! indentation, quotes). [`edit()`] then reads its own output with the parser of this module: the data must differ exactly by
//! the operation and every comment must still be there, or the edit is refused.

mod block;
mod comments;
mod data;
mod document;
mod flow;
mod moving;
mod pieces;
mod render;
mod replace;

use serde_json::Value;

use self::document::Document;
use self::pieces::Pieces;
use super::{Kind, Node};
use crate::diagnostic::Span;

/// The maximum number of elementary changes of one call, after its operations are divided.
const MAX_CHANGES: usize = 500;

/// A segment of the path to a node.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
#[schema(as = PathSegment)]
pub enum Segment {
    /// An item of a list, from 0.
    Index(usize),
    /// The value of a key.
    Key(String),
}

/// The position of a new key in its mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Position {
    /// Before all other keys.
    First,
    /// After this key; at the end if the mapping does not have it.
    After(String),
    /// After all other keys.
    #[default]
    Last,
}

/// A change of the data of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum TreeOperation {
    /// Replaces the node at a path, or adds the key; missing mappings on the way are created. Inside mappings and lists only
    /// what differs is written.
    Set {
        /// The path.
        at: Vec<Segment>,
        /// The new value.
        value: Value,
        /// The position of a new key.
        position: Position,
    },
    /// Removes a key or an item. Comments inside it stay, on lines of their own.
    Remove {
        /// The path.
        at: Vec<Segment>,
    },
    /// Inserts an item into a list.
    Insert {
        /// The path of the new item: its index may be the length of the list.
        at: Vec<Segment>,
        /// The item.
        value: Value,
    },
    /// Moves an item of a list, with the comments above it.
    Move {
        /// The path of the item.
        from: Vec<Segment>,
        /// Its path after it was taken out, as in JSON Patch (RFC 6902).
        to: Vec<Segment>,
    },
    /// Replaces parts of a text. The parts must be written in the file as they are in the value.
    Splice {
        /// The path of the text.
        at: Vec<Segment>,
        /// Ranges of bytes in the value, ascending and disjoint, each with its replacement.
        parts: Vec<(std::ops::Range<usize>, String)>,
    },
    /// Renames a key. Its value and its place stay.
    RenameKey {
        /// The path, with the key.
        at: Vec<Segment>,
        /// The new key.
        to: String,
    },
}

/// A change of the text: `insert` in place of the bytes of `span`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The bytes that are replaced.
    pub span: Span,
    /// The new text.
    pub insert: String,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The new text.
    pub text: String,
    /// The changes of the old text, ascending and disjoint.
    pub changes: Vec<Change>,
}

/// An edit that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The path leads to nothing, or to a node of another kind.
    #[error("{0}")]
    Invalid(String),
    /// The edit would change more than requested, or cannot be written in place.
    #[error("this cannot be changed in place: {0}; edit it as text")]
    Unsafe(String),
}

impl EditError {
    fn in_place(reason: impl Into<String>) -> Self {
        Self::Unsafe(reason.into())
    }
}

/// Applies operations to a text, one after the other.
///
/// # Errors
/// A path leads nowhere, or an operation cannot be written in place. Nothing of the call applies then.
pub fn edit(text: &str, operations: &[TreeOperation]) -> Result<Edited, EditError> {
    let mut editor = Editor::new(text)?;
    operations.iter().try_for_each(|operation| editor.apply(operation))?;
    Ok(editor.finish())
}

/// A text while operations are applied to it.
pub struct Editor<'t> {
    pieces: Pieces<'t>,
    current: Document,
    changes: usize,
}

impl<'t> Editor<'t> {
    /// Parses the text.
    ///
    /// # Errors
    /// The text is not valid YAML.
    pub fn new(text: &'t str) -> Result<Self, EditError> {
        Ok(Self { pieces: Pieces::new(text), current: Document::parse(text)?, changes: 0 })
    }

    /// Applies an operation to the text as it is now, and verifies the result.
    ///
    /// # Errors
    /// The path leads nowhere, or the operation cannot be written in place. The editor must not be used further then.
    pub fn apply(&mut self, operation: &TreeOperation) -> Result<(), EditError> {
        let expected = data::apply(self.current.tree.to_json(), operation)?;
        let comments = self.current.comment_texts();
        let mut steps = Vec::new();
        expand(&self.current.tree, operation, &mut steps);
        self.changes += steps.len();
        if self.changes > MAX_CHANGES {
            return Err(EditError::in_place(format!("it takes more than {MAX_CHANGES} changes")));
        }
        for step in &steps {
            self.pieces.apply(&self.current.changes(step)?);
            self.current = Document::parse(&self.pieces.text())
                .map_err(|_| EditError::in_place("the result would not be valid YAML"))?;
        }
        verify(&self.current, &expected, comments)
    }

    /// The text as it is now.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.current.text
    }

    /// The node at a path of the text as it is now.
    #[must_use]
    pub fn find(&self, at: &[Segment]) -> Option<&Node> {
        find(&self.current.tree, at)
    }

    /// The result.
    #[must_use]
    pub fn finish(self) -> Edited {
        let changes = self.pieces.changes();
        Edited { text: self.current.text, changes }
    }
}

/// Checks that the text has the expected data and all comments of before.
fn verify(after: &Document, expected: &Value, mut comments: Vec<String>) -> Result<(), EditError> {
    if after.tree.to_json() != *expected {
        let reason = if after.has_alias() {
            "an anchor and its aliases share this value"
        } else {
            "the result would not have the expected data"
        };
        return Err(EditError::in_place(reason));
    }
    for comment in after.comment_texts() {
        if let Some(at) = comments.iter().position(|before| *before == comment) {
            comments.swap_remove(at);
        }
    }
    if comments.is_empty() { Ok(()) } else { Err(EditError::in_place("a comment would be lost")) }
}

/// Divides an operation into elementary ones: a collection that replaces a collection changes only where the two differ.
fn expand(tree: &Node, operation: &TreeOperation, steps: &mut Vec<TreeOperation>) {
    match operation {
        TreeOperation::Set { at, value, position } => match find(tree, at) {
            Some(node) => difference(node, at, value, steps),
            None => {
                let known = (0..at.len()).rev().find(|&length| {
                    find(tree, &at[..length]).is_some_and(|node| length == 0 || node.as_map().is_some())
                });
                let length = known.unwrap_or_default() + 1;
                let nested = at[length..].iter().rev().fold(value.clone(), |inner, segment| match segment {
                    Segment::Key(key) => Value::Object([(key.clone(), inner)].into_iter().collect()),
                    Segment::Index(_) => inner,
                });
                let position = if length == at.len() { position.clone() } else { Position::Last };
                steps.push(TreeOperation::Set { at: at[..length].to_vec(), value: nested, position });
            }
        },
        other => steps.push(other.clone()),
    }
}

fn find<'t>(tree: &'t Node, at: &[Segment]) -> Option<&'t Node> {
    at.iter().try_fold(tree, |node, segment| match segment {
        Segment::Key(key) => node.get(key),
        Segment::Index(index) => node.as_list()?.get(*index),
    })
}

fn below(at: &[Segment], segment: Segment) -> Vec<Segment> {
    at.iter().cloned().chain([segment]).collect()
}

fn difference(node: &Node, at: &[Segment], value: &Value, steps: &mut Vec<TreeOperation>) {
    if node.to_json() == *value {
        return;
    }
    match (&node.kind, value) {
        (Kind::Map(old), Value::Object(new)) if !old.is_empty() && !new.is_empty() => {
            let mut last = None;
            for (key, value) in new {
                let path = below(at, Segment::Key(key.clone()));
                match old.get(key) {
                    Some(node) => difference(node, &path, value, steps),
                    None => {
                        let position = last.clone().map_or(Position::Last, Position::After);
                        steps.push(TreeOperation::Set { at: path, value: value.clone(), position });
                    }
                }
                last = Some(key.clone());
            }
            let removed = old.iter().filter(|entry| !new.contains_key(&entry.key));
            steps.extend(
                removed.map(|entry| TreeOperation::Remove { at: below(at, Segment::Key(entry.key.clone())) }),
            );
        }
        (Kind::List(old), Value::Array(new)) if !old.is_empty() && !new.is_empty() => {
            let equal = |(old, new): &(&Node, &Value)| old.to_json() == **new;
            let start = old.iter().zip(new).take_while(equal).count();
            let shorter = old.len().min(new.len()) - start;
            let end = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(equal).count();
            let (old, new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
            let path = |index: usize| below(at, Segment::Index(start + index));
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                difference(old, &path(index), new, steps);
            }
            for (index, value) in new.iter().enumerate().skip(old.len()) {
                steps.push(TreeOperation::Insert { at: path(index), value: value.clone() });
            }
            steps.extend((new.len()..old.len()).rev().map(|index| TreeOperation::Remove { at: path(index) }));
        }
        _ => {
            steps.push(TreeOperation::Set { at: at.to_vec(), value: value.clone(), position: Position::Last })
        }
    }
}

#[cfg(test)]
mod tests;
