//! The analysis of a module, made without running it.

use serde::{Deserialize, Serialize};

use crate::module::{Origin, Position};

/// The analysis of a module: its export, the results and state that it reads, its errors. Positions are in the author's
/// file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleInfo {
    /// How it gives its function; none is an error that says what to write.
    pub export: Option<Export>,
    /// The names of the function's parameters, where they are plain names.
    pub parameters: Vec<Option<String>>,
    /// The members of the second parameter that it reads: `stepResults.<id>.…`.
    pub references: Vec<Reference>,
    /// True if the second parameter may be read beyond these references: it is passed on, iterated, or read by a
    /// computed key.
    pub whole: bool,
    /// The keys of the state that the code names.
    pub state: Vec<StateKey>,
    /// Where the code reads or writes a key of the state that is not written out: only keys that are named can be read.
    pub computed_keys: Vec<Position>,
}

/// How a module gives its function.
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
    /// The keys, as far as they are written out.
    pub path: Vec<String>,
    /// Where the first key stands.
    pub at: Position,
    /// How many characters the first key takes.
    pub length: u32,
    /// True if an absent value is not an error there: `stepResults.list?.results`, or `stepResults["list"] ?? …`.
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
    /// Where it stands first.
    pub at: Position,
}

/// Why a module's text is no module that can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct SyntaxError {
    /// The error, with the way out if it is known.
    pub message: String,
    /// Where, in the author's file.
    pub at: Position,
}

impl ModuleInfo {
    /// The same with every position moved from the module to the author's file.
    pub(crate) fn placed(mut self, origin: &Origin) -> Self {
        let references = self.references.iter_mut().map(|reference| &mut reference.at);
        let keys = self.state.iter_mut().map(|key| &mut key.at);
        for at in references.chain(keys).chain(&mut self.computed_keys) {
            *at = origin.place(*at);
        }
        self
    }
}
