//! The bytes of a file: in memory, or external, that is, in a file of the store.
//!
//! A large upload is never in memory as a whole: the store holds its bytes, and a value holds a handle that reads them in
//! chunks from a [`Blob`]. The store implements [`Blob`]; this module does no I/O itself.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use text::units::format_size;

use crate::budget::{Budget, Exceeded};

/// The maximum size in bytes of an external file that is loaded into memory where text, code or JSON needs all of it.
pub const MAX_LOADED_BYTES: usize = 16 << 20;

/// The size of a chunk that is read from external bytes, in bytes.
pub const CHUNK_SIZE: usize = 128 << 10;

/// Bytes, shared and never changed.
#[derive(Clone)]
pub enum Data {
    /// In memory.
    InMemory(Bytes),
    /// In a blob of the store, or a range of one.
    External(ExternalBytes),
}

/// A handle to external bytes: a whole blob, or a range of one, such as one part of a multipart upload.
#[derive(Clone)]
pub struct ExternalBytes {
    blob: Arc<dyn Blob>,
    offset: u64,
    length: u64,
    digest: [u8; 32],
}

/// Immutable bytes that support concurrent reads at any offset. They exist at least as long as this handle.
pub trait Blob: fmt::Debug + Send + Sync {
    /// The SHA-256 of all bytes, which is the key of the blob in the store.
    fn digest(&self) -> [u8; 32];

    /// The number of bytes.
    fn length(&self) -> u64;

    /// Reads bytes from `offset` on into `buffer`. Returns their count, which is 0 only at the end. Blocks.
    ///
    /// # Errors
    /// Returns an error if the system call fails or the bytes are damaged.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Storage for large files while they arrive.
pub trait FileStorage: fmt::Debug + Send + Sync {
    /// Creates a file. Blocks.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    fn create(&self) -> io::Result<Box<dyn FileWriter>>;
}

/// A file that is being written. Dropping it deletes it.
pub trait FileWriter: Send {
    /// Appends bytes. Blocks.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Closes the file and returns its bytes. The file lives while a value refers to it, and longer only once the store has
    /// committed a reference to it.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    fn finish(self: Box<Self>) -> io::Result<Data>;
}

/// Storage that keeps every file in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFiles;

impl FileStorage for MemoryFiles {
    fn create(&self) -> io::Result<Box<dyn FileWriter>> {
        Ok(Box::new(Vec::new()))
    }
}

impl FileWriter for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<Data> {
        Ok(Data::from(*self))
    }
}

/// Memory for the bytes that [`Data::load`] reads. The owner of a bound provides it, so no file is loaded uncounted.
pub trait LoadMemory {
    /// Takes `bytes`. The loaded data hold the result until they are dropped.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn take(&self, bytes: usize) -> Result<Option<MemoryHold>, FileLoadError>;
}

/// A share of a limit, released when it is dropped.
pub type MemoryHold = Arc<dyn Any + Send + Sync>;

/// Memory that was reserved before files are loaded.
#[derive(Clone, Default)]
pub struct Reserved(Option<Arc<Reservation>>);

struct Reservation {
    left: AtomicUsize,
    _hold: Box<dyn Any + Send + Sync>,
}

impl Reserved {
    /// Creates a reservation of `bytes`, which dropping `hold` releases to its limit.
    #[must_use]
    pub fn new(bytes: usize, hold: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(Reservation { left: AtomicUsize::new(bytes), _hold: Box::new(hold) })))
    }

    /// Creates a reservation of `bytes` that counts for no bound. Right where something else bounds the memory, such as the limit of one
    /// body beside a limit of bodies at a time, or in a process that does one thing.
    #[must_use]
    pub fn uncounted(bytes: usize) -> Self {
        Self::new(bytes, ())
    }

    /// A reservation of no memory.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(None)
    }

    /// True for a reservation of no memory.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.0.is_none()
    }
}

impl LoadMemory for Reserved {
    fn take(&self, bytes: usize) -> Result<Option<MemoryHold>, FileLoadError> {
        let reservation = self.0.as_ref().ok_or(FileLoadError::NotReserved { bytes })?;
        let less = |left: usize| left.checked_sub(bytes);
        match reservation.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Ok(Some(reservation.clone())),
            Err(_) => Err(FileLoadError::NotReserved { bytes }),
        }
    }
}

/// Charges the evaluation, whose memory its execution has reserved.
impl LoadMemory for Budget {
    fn take(&self, bytes: usize) -> Result<Option<MemoryHold>, FileLoadError> {
        self.allocate(bytes)?;
        Ok(None)
    }
}

/// Loaded bytes with their share of a bound.
struct LoadedBytes {
    bytes: Vec<u8>,
    _hold: MemoryHold,
}

impl AsRef<[u8]> for LoadedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An error of loading external bytes into memory.
#[derive(Debug, thiserror::Error)]
pub enum FileLoadError {
    /// The bytes are more than the limit.
    #[error(
    "the file has {}, and at most {} of a file can be loaded into memory; pass it on as a file: to a file input, \
         `multipart`, the `body` of a request, or `respond.file`",
        format_size(*.bytes), format_size(*.max)
    )]
    TooLarge {
        /// The number of bytes.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// No memory was reserved for the bytes.
    #[error("the file has {}, for which no memory is reserved", format_size(*.bytes as u64))]
    NotReserved {
        /// The number of bytes.
        bytes: usize,
    },
    /// The evaluation that loads the bytes exceeded a limit.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// The bytes cannot be read.
    #[error("the stored file cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl Data {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::InMemory(bytes) => bytes.len(),
            Self::External(external) => usize::try_from(external.length).unwrap_or(usize::MAX),
        }
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes; `None` if they are external.
    #[must_use]
    pub fn in_memory(&self) -> Option<&Bytes> {
        if let Self::InMemory(bytes) = self { Some(bytes) } else { None }
    }

    /// The bytes for display and for comparison with a recording. External bytes are replaced by a description.
    #[must_use]
    pub fn for_display(&self) -> Bytes {
        match self {
            Self::InMemory(bytes) => bytes.clone(),
            Self::External(_) => format!("({self:?})").into(),
        }
    }

    /// True if the bytes are external.
    #[must_use]
    pub fn is_external(&self) -> bool {
        matches!(self, Self::External(_))
    }

    /// Loads all bytes into `memory`, which they hold until they are dropped. Blocks if they are external.
    ///
    /// # Errors
    /// Returns an error if the bytes are external and either more than `max`, more than `memory` has, or unreadable.
    pub fn load(&self, max: usize, memory: &dyn LoadMemory) -> Result<Bytes, FileLoadError> {
        let external = match self {
            Self::InMemory(bytes) => return Ok(bytes.clone()),
            Self::External(external) => external,
        };
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        if external.length > max {
            return Err(FileLoadError::TooLarge { bytes: external.length, max });
        }
        let hold = memory.take(self.len())?;
        let mut bytes = vec![0; self.len()];
        self.read_exact_at(0, &mut bytes)?;
        // Few enough bytes to verify the hash, which detects a damaged disk.
        if Sha256::digest(&bytes)[..] != external.digest {
            return Err(FileLoadError::Unreadable(damaged()));
        }
        Ok(match hold {
            Some(hold) => Bytes::from_owner(LoadedBytes { bytes, _hold: hold }),
            None => Bytes::from(bytes),
        })
    }

    /// Reads bytes from `offset` on into `buffer`. Returns their count, which is 0 only at the end. Blocks if they are external.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::InMemory(bytes) => {
                let remaining =
                    usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
                let count = remaining.len().min(buffer.len());
                buffer[..count].copy_from_slice(&remaining[..count]);
                Ok(count)
            }
            Self::External(external) => {
                let remaining = external.length.saturating_sub(offset);
                let count = usize::try_from(remaining).unwrap_or(usize::MAX).min(buffer.len());
                if count == 0 {
                    Ok(0)
                } else {
                    external.blob.read_at(external.offset + offset, &mut buffer[..count])
                }
            }
        }
    }

    /// Fills `buffer` with the bytes from `offset` on. Blocks if they are external.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be read, or end before `buffer` is full.
    pub fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(offset, buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    offset += count as u64;
                    buffer = &mut buffer[count..];
                }
            }
        }
        Ok(())
    }

    /// Calls `take` with all bytes in order: once if they are in memory, in chunks of [`CHUNK_SIZE`] bytes if they are external,
    /// which blocks.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be read.
    pub fn for_each_chunk(&self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let length = match self {
            Self::InMemory(bytes) => {
                take(bytes);
                return Ok(());
            }
            Self::External(external) => external.length,
        };
        let mut buffer = vec![0; CHUNK_SIZE.min(self.len())];
        let mut offset = 0;
        while offset < length {
            let count = usize::try_from(length - offset).unwrap_or(CHUNK_SIZE).min(CHUNK_SIZE);
            self.read_exact_at(offset, &mut buffer[..count])?;
            take(&buffer[..count]);
            offset += count as u64;
        }
        Ok(())
    }

    /// A range of the bytes, shared and not copied. A range beyond the end is cut off. `digest` is the SHA-256 of the range,
    /// which is needed only for external bytes.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize, digest: [u8; 32]) -> Self {
        let offset = offset.min(self.len());
        let length = length.min(self.len() - offset);
        match self {
            Self::InMemory(bytes) => Self::InMemory(bytes.slice(offset..offset + length)),
            Self::External(external) => {
                let (offset, length) = (external.offset + offset as u64, length as u64);
                Self::External(ExternalBytes { blob: external.blob.clone(), offset, length, digest })
            }
        }
    }

    /// The SHA-256 of the bytes: computed if they are in memory, recorded if they are external.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        match self {
            Self::InMemory(bytes) => Sha256::digest(bytes).into(),
            Self::External(external) => external.digest,
        }
    }
}

impl ExternalBytes {
    /// A handle to all bytes of `blob`.
    #[must_use]
    pub fn new(blob: Arc<dyn Blob>) -> Self {
        let (length, digest) = (blob.length(), blob.digest());
        Self { blob, offset: 0, length, digest }
    }

    /// A handle to a range of `blob`, whose SHA-256 is `digest`. `None` if the range exceeds the blob.
    pub(super) fn slice_of(blob: Arc<dyn Blob>, offset: u64, length: u64, digest: [u8; 32]) -> Option<Self> {
        let end = offset.checked_add(length)?;
        (end <= blob.length()).then_some(Self { blob, offset, length, digest })
    }

    /// The blob that holds the bytes.
    #[must_use]
    pub fn blob(&self) -> &Arc<dyn Blob> {
        &self.blob
    }

    /// The byte offset of the range in its blob.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// The error for external bytes whose hash differs from the recorded one.
#[must_use]
pub fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its bytes do not match its hash")
}

impl Default for Data {
    fn default() -> Self {
        Self::InMemory(Bytes::new())
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InMemory(bytes) => bytes.fmt(formatter),
            Self::External(external) => {
                write!(
                    formatter,
                    "{} bytes with the SHA-256 {}",
                    external.length,
                    hex::encode(external.digest)
                )
            }
        }
    }
}

impl PartialEq for Data {
    /// Compares external bytes by length and SHA-256, without reading them.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::InMemory(one), Self::InMemory(other)) => one == other,
            _ => self.len() == other.len() && self.digest() == other.digest(),
        }
    }
}

impl Eq for Data {}

impl From<Bytes> for Data {
    fn from(bytes: Bytes) -> Self {
        Self::InMemory(bytes)
    }
}
impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self::InMemory(bytes.into())
    }
}
impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::InMemory(text.into())
    }
}
impl From<&'static str> for Data {
    fn from(text: &'static str) -> Self {
        Self::InMemory(text.into())
    }
}
impl From<&'static [u8]> for Data {
    fn from(bytes: &'static [u8]) -> Self {
        Self::InMemory(bytes.into())
    }
}
impl From<ExternalBytes> for Data {
    fn from(external: ExternalBytes) -> Self {
        Self::External(external)
    }
}
