//! The parts of a row that are stored outside of it.

use std::sync::Arc;

use value::Blob;

/// The parts of a row that are stored outside of it. `P` is the reference of a store to a stored blob.
#[derive(Debug)]
pub(crate) struct ExternalValues<P> {
    /// The values that were removed from its text.
    pub(crate) cuts: Vec<ExternalValue<P>>,
    /// The files that its text names.
    pub(crate) named: Vec<Arc<dyn Blob>>,
    /// The blobs of these files, once they are stored.
    pub(crate) files: Vec<P>,
}

/// A value that was removed from the text of a row.
#[derive(Debug)]
pub(crate) struct ExternalValue<P> {
    /// The offset at which it is restored.
    pub(crate) at: usize,
    /// Its blob.
    pub(crate) blob: P,
}

impl<P> ExternalValues<P> {
    /// Creates the value for a row whose text names these files.
    pub(crate) fn naming(named: Vec<Arc<dyn Blob>>) -> Self {
        Self { named, ..Self::default() }
    }

    /// Returns true if nothing is stored outside of the row.
    pub(crate) fn is_empty(&self) -> bool {
        self.cuts.is_empty() && self.files.is_empty()
    }
}

impl<P> Default for ExternalValues<P> {
    fn default() -> Self {
        Self { cuts: Vec::new(), named: Vec::new(), files: Vec::new() }
    }
}
