//! The bytes of a file: in memory, or kept outside of it.
//!
//! A large upload never is in memory as a whole: its bytes are in a file of the store, and a value holds a handle that can
//! be read in pieces. What such a handle reads from is a [`Content`], which the store makes: nothing here does any I/O by itself.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::units::format_size;

/// The most bytes of a file kept outside that come into memory where a whole is needed: as text, in code, inside JSON.
pub const MOST_WHOLE: usize = 16 << 20;

/// How many bytes one piece has that is read of what is kept outside.
pub const PIECE: usize = 128 << 10;

/// Bytes, shared and never changed.
#[derive(Clone)]
pub enum Data {
    /// In memory.
    Here(Bytes),
    /// In a file of the store, or a part of one.
    Kept(Kept),
}

/// A handle to bytes that are kept outside of memory: all of a content, or a stretch of it, such as one part of an upload.
#[derive(Clone)]
pub struct Kept {
    content: Arc<dyn Content>,
    at: u64,
    length: u64,
    digest: [u8; 32],
}

/// Bytes that can be read in pieces, from anywhere, by any number at one time. They never change, and are there for as long
/// as this is held.
pub trait Content: fmt::Debug + Send + Sync {
    /// The SHA-256 of all of them: what the store knows them by.
    fn digest(&self) -> [u8; 32];

    /// How many there are.
    fn length(&self) -> u64;

    /// Reads some of them, from the `at`th on; 0 only at their end. Blocks.
    ///
    /// # Errors
    /// The system refuses, or they are damaged.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Where large files are put while they arrive.
pub trait Files: fmt::Debug + Send + Sync {
    /// Begins one. Blocks.
    ///
    /// # Errors
    /// The system refuses.
    fn begin(&self) -> io::Result<Box<dyn NewFile>>;
}

/// A file that arrives. One that is dropped is gone.
pub trait NewFile: Send {
    /// Adds bytes. Blocks.
    ///
    /// # Errors
    /// The system refuses.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// What was written. It lasts for as long as a value holds it, and longer only once the store has committed what names it.
    ///
    /// # Errors
    /// The system refuses.
    fn finish(self: Box<Self>) -> io::Result<Data>;
}

/// Files in memory, for whoever keeps none elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory;

impl Files for InMemory {
    fn begin(&self) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(Vec::new()))
    }
}

impl NewFile for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<Data> {
        Ok(Data::from(*self))
    }
}

/// Why bytes that are kept outside cannot be had as a whole.
#[derive(Debug, thiserror::Error)]
pub enum NotWhole {
    /// They are more than may come into memory.
    #[error(
        "the file has {}, and at most {} of one can be used whole; hand it on as a file: to a file input, `multipart`, \
         the `body` of a request, or `respond.file`",
        format_size(*.bytes), format_size(*.most)
    )]
    TooLarge {
        /// How many they are.
        bytes: u64,
        /// How many they may be.
        most: u64,
    },
    /// They cannot be read.
    #[error("the file cannot be read where it is kept: {0}")]
    Unreadable(#[from] io::Error),
}

impl Data {
    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::Kept(kept) => usize::try_from(kept.length).unwrap_or(usize::MAX),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are in memory.
    #[must_use]
    pub fn here(&self) -> Option<&Bytes> {
        if let Self::Here(bytes) = self { Some(bytes) } else { None }
    }

    /// The bytes for people to look at, and to compare with what was recorded; what is kept outside is described in their place.
    #[must_use]
    pub fn shown(&self) -> Bytes {
        match self {
            Self::Here(bytes) => bytes.clone(),
            Self::Kept(_) => format!("({self:?})").into(),
        }
    }

    /// Whether they are kept outside of memory.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// All of them, in memory. Blocks where they are kept outside.
    ///
    /// # Errors
    /// They are kept outside and more than `most`, or cannot be read.
    pub fn whole(&self, most: usize) -> Result<Bytes, NotWhole> {
        let kept = match self {
            Self::Here(bytes) => return Ok(bytes.clone()),
            Self::Kept(kept) => kept,
        };
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        if kept.length > most {
            return Err(NotWhole::TooLarge { bytes: kept.length, most });
        }
        let mut bytes = vec![0; self.len()];
        self.read_exact_at(0, &mut bytes)?;
        // Small enough to be held against its name, which a stretch of a damaged disk would not match.
        if Sha256::digest(&bytes)[..] != kept.digest {
            return Err(NotWhole::Unreadable(damaged()));
        }
        Ok(Bytes::from(bytes))
    }

    /// Reads some of them, from the `at`th on; 0 only at their end. Blocks where they are kept outside.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Here(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Self::Kept(kept) => {
                let left = kept.length.saturating_sub(at);
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                if most == 0 { Ok(0) } else { kept.content.read_at(kept.at + at, &mut buffer[..most]) }
            }
        }
    }

    /// Fills `buffer` from the `at`th byte on. Blocks where they are kept outside.
    ///
    /// # Errors
    /// They cannot be read, or end before.
    pub fn read_exact_at(&self, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(at, buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    at += count as u64;
                    buffer = &mut buffer[count..];
                }
            }
        }
        Ok(())
    }

    /// Calls `take` with all of them in order: at once where they are in memory, in pieces of [`PIECE`] bytes where they
    /// are not. Blocks then.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn each_piece(&self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let length = match self {
            Self::Here(bytes) => {
                take(bytes);
                return Ok(());
            }
            Self::Kept(kept) => kept.length,
        };
        let mut buffer = vec![0; PIECE.min(self.len())];
        let mut at = 0;
        while at < length {
            let count = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
            self.read_exact_at(at, &mut buffer[..count])?;
            take(&buffer[..count]);
            at += count as u64;
        }
        Ok(())
    }

    /// A stretch of them, shared and not copied; what lies beyond their end is left out. `digest` is the SHA-256 of the
    /// stretch, which is asked for only where they are kept outside.
    #[must_use]
    pub fn stretch(&self, at: usize, length: usize, digest: [u8; 32]) -> Self {
        let at = at.min(self.len());
        let length = length.min(self.len() - at);
        match self {
            Self::Here(bytes) => Self::Here(bytes.slice(at..at + length)),
            Self::Kept(kept) => {
                let (at, length) = (kept.at + at as u64, length as u64);
                Self::Kept(Kept { content: kept.content.clone(), at, length, digest })
            }
        }
    }

    /// The SHA-256 of them: computed where they are in memory, known where they are not.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        match self {
            Self::Here(bytes) => Sha256::digest(bytes).into(),
            Self::Kept(kept) => kept.digest,
        }
    }
}

impl Kept {
    /// All of a content.
    #[must_use]
    pub fn all(content: Arc<dyn Content>) -> Self {
        let (length, digest) = (content.length(), content.digest());
        Self { content, at: 0, length, digest }
    }

    /// A stretch of a content, if it is one, with its SHA-256.
    pub(super) fn stretch_of(
        content: Arc<dyn Content>,
        at: u64,
        length: u64,
        digest: [u8; 32],
    ) -> Option<Self> {
        let end = at.checked_add(length)?;
        (end <= content.length()).then_some(Self { content, at, length, digest })
    }

    /// What it is of.
    #[must_use]
    pub fn content(&self) -> &Arc<dyn Content> {
        &self.content
    }

    /// Where in its content it begins.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at
    }
}

/// What is said of bytes that are not those that were kept.
#[must_use]
pub fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not hold what its name says")
}

impl Default for Data {
    fn default() -> Self {
        Self::Here(Bytes::new())
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(bytes) => bytes.fmt(formatter),
            Self::Kept(kept) => {
                write!(formatter, "{} bytes with the SHA-256 {}", kept.length, hex::encode(kept.digest))
            }
        }
    }
}

impl PartialEq for Data {
    /// What is kept outside is not read for it: the same length and the same SHA-256 are the same bytes.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Here(one), Self::Here(other)) => one == other,
            _ => self.len() == other.len() && self.digest() == other.digest(),
        }
    }
}

impl Eq for Data {}

impl From<Bytes> for Data {
    fn from(bytes: Bytes) -> Self {
        Self::Here(bytes)
    }
}
impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Here(bytes.into())
    }
}
impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::Here(text.into())
    }
}
impl From<&'static str> for Data {
    fn from(text: &'static str) -> Self {
        Self::Here(text.into())
    }
}
impl From<&'static [u8]> for Data {
    fn from(bytes: &'static [u8]) -> Self {
        Self::Here(bytes.into())
    }
}
impl From<Kept> for Data {
    fn from(kept: Kept) -> Self {
        Self::Kept(kept)
    }
}
