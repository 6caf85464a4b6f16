//! The place of large bodies while they arrive or are sent: on disk, so that a slow peer holds no memory.
//!
//! They are written where the store keeps files, so one that starts an execution only gets its name there, and is not copied. Any
//! other is gone with its request, and all of them with the process, whatever ends that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use value::{Data, FileStorage, FileWriter};

/// The bytes of bodies that may be on disk at one time.
const MOST_BYTES: usize = 1 << 30;

/// The place of bodies that arrive or are sent.
#[derive(Debug)]
pub(crate) struct Spool {
    files: Arc<dyn FileStorage>,
    left: AtomicUsize,
}

/// A body on disk, as far as it has arrived.
pub(super) struct Spooled {
    file: Option<Box<dyn FileWriter>>,
    share: Share,
}

/// The part of what may be on disk that a body takes, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: usize,
    spool: Arc<Spool>,
}

impl Spool {
    /// Bodies among these files.
    pub(crate) fn new(files: Arc<dyn FileStorage>) -> Arc<Self> {
        Arc::new(Self { files, left: AtomicUsize::new(MOST_BYTES) })
    }

    /// Begins a body.
    pub(super) async fn begin(self: &Arc<Self>) -> io::Result<Spooled> {
        let files = self.files.clone();
        let file = write(move || files.create()).await?;
        let share = Share { bytes: 0, spool: Arc::clone(self) };
        Ok(Spooled { file: Some(file), share })
    }
}

async fn write<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    allocator::large_work(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
impl Spool {
    /// The bytes of bodies that are on disk.
    pub(super) fn used(&self) -> usize {
        MOST_BYTES - self.left.load(Ordering::Relaxed)
    }
}

impl Spooled {
    /// Writes what arrived.
    pub(super) async fn push(&mut self, data: Bytes) -> io::Result<()> {
        self.share.take(data.len())?;
        let mut file = self.file.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let append = move || {
            file.write(&data)?;
            Ok::<_, io::Error>(file)
        };
        self.file = Some(write(append).await?);
        Ok(())
    }

    /// The whole body, where it is.
    pub(super) async fn finish(mut self) -> io::Result<(Data, Share)> {
        let file = self.file.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let data = write(move || file.finish()).await?;
        Ok((data, self.share))
    }
}

impl Share {
    fn take(&mut self, bytes: usize) -> io::Result<()> {
        let less = |left: usize| left.checked_sub(bytes);
        if self.spool.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            return Err(io::Error::other("as many bytes of bodies are on disk as may be"));
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.spool.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use value::MemoryFiles;

    use super::*;

    #[tokio::test]
    async fn a_spooled_body_round_trips_and_frees_its_disk_share_when_dropped() {
        let spool = Spool::new(Arc::new(MemoryFiles));
        let mut body = spool.begin().await.expect("it begins");
        for part in [&b"abc"[..], b"", b"def"] {
            body.push(Bytes::from_static(part)).await.expect("it is written");
        }
        assert_eq!(spool.left.load(Ordering::Relaxed), MOST_BYTES - 6);
        let (data, share) = body.finish().await.expect("it is there");
        assert_eq!(data, Data::from(b"abcdef".to_vec()));
        assert_eq!(spool.left.load(Ordering::Relaxed), MOST_BYTES - 6, "for as long as its request lasts");
        drop(share);
        assert_eq!(spool.left.load(Ordering::Relaxed), MOST_BYTES);
    }

    #[tokio::test]
    async fn spooled_bytes_never_exceed_the_disk_limit() {
        let spool = Spool::new(Arc::new(MemoryFiles));
        spool.left.store(4, Ordering::Relaxed);
        let mut body = spool.begin().await.expect("it begins");
        body.push(Bytes::from_static(b"abc")).await.expect("it fits");
        assert!(body.push(Bytes::from_static(b"de")).await.is_err());
        drop(body);
        assert_eq!(spool.left.load(Ordering::Relaxed), 4);
    }
}
