//! The parts of a row that are stored outside of it.

use std::sync::Arc;

use value::Blob;

/// The parts of a row that are stored outside of it. `P` is the reference of a store to a stored blob.
#[derive(Debug)]
pub struct ExternalValues<P> {
    /// The values that were removed from its text.
    pub cuts: Vec<ExternalValue<P>>,
    /// The files that its text names.
    pub named: Vec<Arc<dyn Blob>>,
    /// The blobs of these files, once they are stored.
    pub files: Vec<P>,
}

/// A value that was removed from the text of a row.
#[derive(Debug)]
pub struct ExternalValue<P> {
    /// The offset at which it is restored.
    pub at: usize,
    /// Its blob.
    pub blob: P,
}

impl<P> ExternalValues<P> {
    /// Creates the value for a row whose text names these files.
    pub fn naming(named: Vec<Arc<dyn Blob>>) -> Self {
        Self { named, ..Self::default() }
    }

    /// Returns true if nothing is stored outside of the row.
    pub fn is_empty(&self) -> bool {
        self.cuts.is_empty() && self.files.is_empty()
    }
}

impl<P> Default for ExternalValues<P> {
    fn default() -> Self {
        Self { cuts: Vec::new(), named: Vec::new(), files: Vec::new() }
    }
}
