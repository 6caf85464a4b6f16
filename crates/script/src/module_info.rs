//! The analysis of a module, made without running it.

use serde::{Deserialize, Serialize};

use crate::module::{Origin, Position};

/// The analysis of a module: its export, the results and state that it reads, its errors. Positions are in the author's
/// file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleInfo {
    /// The form of the export; without an export, an error says how to write one.
    pub export: Option<Export>,
    /// The names of the function's parameters; `None` for patterns.
    pub parameters: Vec<Option<String>>,
    /// The members of the second parameter that it reads: `stepResults.<id>.…`.
    pub references: Vec<Reference>,
    /// True if the second parameter may be read beyond these references: it is passed on, iterated, or read by a
    /// computed key.
    pub whole: bool,
    /// The keys of the state that the code names.
    pub state: Vec<StateKey>,
    /// The positions at which the code reads or writes a computed state key: only literal keys can be read.
    pub computed_keys: Vec<Position>,
}

/// The form of a module's export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Export {
    /// `export default`
    Default,
    /// `module.exports =`
    ModuleExports,
}

/// A path below the second parameter: `stepResults.list.results` is `["list", "results"]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The literal keys.
    pub path: Vec<String>,
    /// The position of the first key.
    pub at: Position,
    /// The length of the first key in characters.
    pub length: u32,
    /// True if an absent value is allowed there: `stepResults.list?.results`, or `stepResults["list"] ?? …`.
    pub optional: bool,
}

/// A key of the state that the code names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateKey {
    /// The key.
    pub key: String,
    /// True if the code reads it.
    pub read: bool,
    /// True if the code writes or deletes it.
    pub written: bool,
    /// The first position.
    pub at: Position,
}

/// The reason why a text is not a valid module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct SyntaxError {
    /// The error, with a suggestion if there is one.
    pub message: String,
    /// The position, in the author's file.
    pub at: Position,
}

impl ModuleInfo {
    /// Moves every position from the module to the author's file.
    pub(crate) fn placed(mut self, origin: &Origin) -> Self {
        let references = self.references.iter_mut().map(|reference| &mut reference.at);
        let keys = self.state.iter_mut().map(|key| &mut key.at);
        for at in references.chain(keys).chain(&mut self.computed_keys) {
            *at = origin.place(*at);
        }
        self
    }
}
