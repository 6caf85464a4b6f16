//! References from stored values to blobs: the stored form of an external file names its blob by hash, so that its bytes stay
//! out of the log.
//!
//! A caller that writes values collects the blobs they refer to ([`collect_refs`]); a caller that reads values supplies the
//! source of the blobs ([`with_source`]). Serde passes no context to either, so thread-locals hold it during the call.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use super::data::{Blob, ExternalBytes};

/// Looks up blobs by hash.
pub trait BlobSource: Send + Sync {
    /// A handle to the blob with this SHA-256 and length. A missing blob is reported only when it is read.
    fn blob(&self, digest: [u8; 32], length: u64) -> Arc<dyn Blob>;
}

type BlobRefs = Vec<Arc<dyn Blob>>;

thread_local! {
    static COLLECTED: RefCell<Option<BlobRefs>> = const { RefCell::new(None) };
    static SOURCES: RefCell<Vec<Arc<dyn BlobSource>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `write`, and returns the distinct blobs that the stored forms written by it refer to.
pub fn collect_refs<T>(write: impl FnOnce() -> T) -> (T, Vec<Arc<dyn Blob>>) {
    let outer = COLLECTED.replace(Some(Vec::new()));
    let result = write();
    (result, COLLECTED.replace(outer).unwrap_or_default())
}

/// Runs `read` with `source` as the source of blobs.
pub fn with_source<T>(source: Arc<dyn BlobSource>, read: impl FnOnce() -> T) -> T {
    /// Removes the source again, also if `read` panics.
    struct PopSource;
    impl Drop for PopSource {
        fn drop(&mut self) {
            SOURCES.with_borrow_mut(Vec::pop);
        }
    }
    SOURCES.with_borrow_mut(|sources| sources.push(source));
    let _pop_source = PopSource;
    read()
}

/// Records a reference to the blob of `bytes`, if the caller collects references.
pub(super) fn record(bytes: &ExternalBytes) {
    COLLECTED.with_borrow_mut(|refs| {
        let Some(refs) = refs else { return };
        let digest = bytes.blob().digest();
        if !refs.iter().any(|blob| blob.digest() == digest) {
            refs.push(bytes.blob().clone());
        }
    });
}

/// A handle to the blob with this hash, from the current source.
pub(super) fn resolve(digest: [u8; 32], length: u64) -> Arc<dyn Blob> {
    let source = SOURCES.with_borrow(|sources| sources.last().cloned());
    match source {
        Some(source) => source.blob(digest, length),
        None => Arc::new(UnavailableBlob { digest, length }),
    }
}

/// A blob that was read without a source.
#[derive(Debug)]
struct UnavailableBlob {
    digest: [u8; 32],
    length: u64,
}

impl Blob for UnavailableBlob {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(io::ErrorKind::NotFound, "its bytes are in another store, the one that saved it"))
    }
}
