//! Where large bodies are while they arrive: on disk, so that a slow sender holds no memory.
//!
//! A file has no name once it is open, so it goes with the process, whatever ends that.

use std::fs;
use std::io::{self, SeekFrom};
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use crate::Error;

/// The bytes of bodies that may be on disk at one time.
const MOST_BYTES: usize = 1 << 30;

/// The folder of bodies that arrive.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    left: AtomicUsize,
}

/// A body on disk, as far as it has arrived.
#[derive(Debug)]
pub(super) struct Spooled {
    file: File,
    bytes: usize,
    spool: Arc<Spool>,
}

impl Spool {
    /// The folder below the data folder, for its owner alone, without what a crash may have left there.
    ///
    /// # Errors
    /// It cannot be made or cleared.
    pub(crate) fn open(data_dir: &Path) -> Result<Arc<Self>, Error> {
        let folder = data_dir.join("spool");
        clear(&folder).map_err(|source| Error::File { path: folder.clone(), source })?;
        Ok(Arc::new(Self { folder, left: AtomicUsize::new(MOST_BYTES) }))
    }

    /// Begins a body.
    pub(super) async fn begin(self: &Arc<Self>) -> io::Result<Spooled> {
        let folder = self.folder.clone();
        let made = tokio::task::spawn_blocking(move || tempfile::tempfile_in(folder)).await;
        let file = File::from_std(made.map_err(io::Error::other)??);
        Ok(Spooled { file, bytes: 0, spool: Arc::clone(self) })
    }
}

fn clear(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Spooled {
    /// Adds what arrived.
    pub(super) async fn push(&mut self, data: &[u8]) -> io::Result<()> {
        let less = |left: usize| left.checked_sub(data.len());
        if self.spool.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            return Err(io::Error::other("as many bytes of bodies are on disk as may be"));
        }
        self.bytes += data.len();
        self.file.write_all(data).await
    }

    /// The whole body.
    pub(super) async fn read(mut self) -> io::Result<Bytes> {
        self.file.flush().await?;
        self.file.seek(SeekFrom::Start(0)).await?;
        let mut bytes = BytesMut::zeroed(self.bytes);
        self.file.read_exact(&mut bytes).await?;
        Ok(bytes.freeze())
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.spool.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(spool: &Spool) -> usize {
        fs::read_dir(&spool.folder).expect("it is there").count()
    }

    #[tokio::test]
    async fn a_body_comes_back_as_it_came_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::open(folder.path()).expect("it opens");
        let mut body = spool.begin().await.expect("it begins");
        for part in [&b"abc"[..], b"", b"def"] {
            body.push(part).await.expect("it is written");
        }
        assert_eq!((names(&spool), spool.left.load(Ordering::Relaxed)), (0, MOST_BYTES - 6));
        assert_eq!(body.read().await.expect("it is read"), "abcdef");
        assert_eq!(spool.left.load(Ordering::Relaxed), MOST_BYTES);
    }

    #[tokio::test]
    async fn no_more_is_on_disk_than_may_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::open(folder.path()).expect("it opens");
        spool.left.store(4, Ordering::Relaxed);
        let mut body = spool.begin().await.expect("it begins");
        body.push(b"abc").await.expect("it fits");
        assert!(body.push(b"de").await.is_err());
        drop(body);
        assert_eq!(spool.left.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn what_a_crash_left_is_gone_and_strangers_cannot_look() {
        let folder = tempfile::tempdir().expect("a folder");
        Spool::open(folder.path()).expect("it opens");
        fs::write(folder.path().join("spool/left"), "x").expect("it is written");
        let spool = Spool::open(folder.path()).expect("it opens again");
        assert_eq!(names(&spool), 0);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&spool.folder).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }
}
