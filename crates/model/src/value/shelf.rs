//! The stored form of a file that is kept outside: it names the content by its hash, so the bytes go through no log.
//!
//! Whoever writes values learns which contents they name, and whoever reads them says where contents are. Both happen within
//! one call of a serializer that knows nothing of it, so what it is asked is kept beside, for the thread, as long as that call
//! takes.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use super::data::{Content, Kept};

/// Where contents are found by their hash.
pub trait Shelf {
    /// The content with this SHA-256, of so many bytes. Whether it is there shows when it is read.
    fn content(&self, digest: [u8; 32], length: u64) -> Arc<dyn Content>;
}

type Named = Vec<Arc<dyn Content>>;

thread_local! {
    static NAMED: RefCell<Option<Named>> = const { RefCell::new(None) };
    static SHELVES: RefCell<Vec<Arc<dyn Shelf>>> = const { RefCell::new(Vec::new()) };
}

/// Does `write`, and gives the contents that the stored forms name that were written meanwhile, each once.
pub fn naming<T>(write: impl FnOnce() -> T) -> (T, Vec<Arc<dyn Content>>) {
    let before = NAMED.replace(Some(Vec::new()));
    let written = write();
    (written, NAMED.replace(before).unwrap_or_default())
}

/// Does `read`, with contents found on `shelf`.
pub fn reading_from<T>(shelf: Arc<dyn Shelf>, read: impl FnOnce() -> T) -> T {
    /// Taken away again also where `read` panics.
    struct Placed;
    impl Drop for Placed {
        fn drop(&mut self) {
            SHELVES.with_borrow_mut(Vec::pop);
        }
    }
    SHELVES.with_borrow_mut(|shelves| shelves.push(shelf));
    let _placed = Placed;
    read()
}

/// Notes that the form of this is written now.
pub(super) fn note(kept: &Kept) {
    NAMED.with_borrow_mut(|named| {
        let Some(named) = named else { return };
        let digest = kept.content().digest();
        if !named.iter().any(|content| content.digest() == digest) {
            named.push(kept.content().clone());
        }
    });
}

/// The content with this hash, where whoever reads now says it is.
pub(super) fn find(digest: [u8; 32], length: u64) -> Arc<dyn Content> {
    let shelf = SHELVES.with_borrow(|shelves| shelves.last().cloned());
    match shelf {
        Some(shelf) => shelf.content(digest, length),
        None => Arc::new(Elsewhere { digest, length }),
    }
}

/// A content that was named where none is at hand.
#[derive(Debug)]
struct Elsewhere {
    digest: [u8; 32],
    length: u64,
}

impl Content for Elsewhere {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, _at: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(io::ErrorKind::NotFound, "its bytes are in the store it was saved in"))
    }
}
