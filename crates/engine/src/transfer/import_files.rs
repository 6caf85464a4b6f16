//! The files that the next execution of an import names.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use value::{Blob, BlobSource, Data, ExternalBytes, FileStorage, FileWriter};

use super::FileLine;

/// The complete files, and the current file.
pub(super) struct ImportFiles {
    storage: Arc<dyn FileStorage>,
    complete: HashMap<[u8; 32], Data>,
    open: Option<OpenFile>,
}

struct OpenFile {
    digest: [u8; 32],
    left: u64,
    writer: Box<dyn FileWriter>,
}

impl ImportFiles {
    pub(super) fn new(storage: Arc<dyn FileStorage>) -> Self {
        Self { storage, complete: HashMap::new(), open: None }
    }

    /// Begins a file.
    pub(super) fn begin(&mut self, line: &FileLine) -> Result<(), String> {
        let mut digest = [0; 32];
        hex::decode_to_slice(&line.sha256, &mut digest)
            .map_err(|_| "`sha256` is not a SHA-256".to_owned())?;
        let writer = self.storage.create().map_err(|error| error.to_string())?;
        self.open = Some(OpenFile { digest, left: line.size, writer });
        self.finish_if_complete()
    }

    /// Appends a part to the current file.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), String> {
        let open = self.open.as_mut().ok_or("`bytes` without a `file` before it")?;
        let length = bytes.len() as u64;
        open.left = open.left.checked_sub(length).ok_or("more bytes than the `size` of the file")?;
        open.writer.write(bytes).map_err(|error| error.to_string())?;
        self.finish_if_complete()
    }

    fn finish_if_complete(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take_if(|open| open.left == 0) else { return Ok(()) };
        let data = open.writer.finish().map_err(|error| error.to_string())?;
        if data.digest() != open.digest {
            return Err("the bytes of the file do not match its `sha256`".to_owned());
        }
        self.complete.insert(open.digest, data);
        Ok(())
    }

    /// Takes the complete files, as the source for the references of the next execution.
    pub(super) fn take(&mut self) -> Arc<ImportedFiles> {
        self.open = None;
        let files = std::mem::take(&mut self.complete);
        Arc::new(ImportedFiles { files, missing: Mutex::default() })
    }
}

/// The files of one execution.
pub(super) struct ImportedFiles {
    files: HashMap<[u8; 32], Data>,
    missing: Mutex<Option<String>>,
}

impl ImportedFiles {
    /// Returns the hash of a file that was looked up and is missing.
    pub(super) fn missing(&self) -> Option<String> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl BlobSource for ImportedFiles {
    fn blob(&self, digest: [u8; 32], length: u64) -> Arc<dyn Blob> {
        match self.files.get(&digest) {
            Some(Data::External(external)) => ExternalBytes::blob(external).clone(),
            Some(Data::InMemory(bytes)) => Arc::new(MemoryBlob { digest, bytes: bytes.to_vec() }),
            None => {
                *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = Some(hex::encode(digest));
                Arc::new(MissingBlob { digest, length })
            }
        }
    }
}

/// A blob of a store that keeps files in memory.
#[derive(Debug)]
struct MemoryBlob {
    digest: [u8; 32],
    bytes: Vec<u8>,
}

impl Blob for MemoryBlob {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A blob that the file does not contain. Its execution is refused.
#[derive(Debug)]
struct MissingBlob {
    digest: [u8; 32],
    length: u64,
}

impl Blob for MissingBlob {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::NotFound.into())
    }
}
