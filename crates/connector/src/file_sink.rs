//! Files of results while they are written, and the memory that all files of calls share.

use std::io;
use std::sync::Arc;

use model::{ActionError, ErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use value::{CHUNK_SIZE, Data, FileStorage, FileWriter};

/// The memory of all files that calls write and read at one time, in bytes.
pub const FILE_MEMORY: usize = 8 << 20;
/// The size up to which a file stays in memory, in bytes.
pub const MAX_IN_MEMORY: usize = 1 << 20;
/// The step by which a buffer grows, in bytes.
const GROWTH: usize = 32 << 10;

/// The memory of files in transit. All calls of a process share it; who finds none waits, and holds nothing meanwhile.
#[derive(Clone, Debug)]
pub struct FileMemory {
    free: Arc<Semaphore>,
    total: usize,
}

/// A share of [`FileMemory`], released when it is dropped.
#[derive(Debug)]
pub struct FileShare(Option<OwnedSemaphorePermit>);

impl Default for FileMemory {
    fn default() -> Self {
        Self::new(FILE_MEMORY)
    }
}

impl FileMemory {
    fn new(total: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(total)), total }
    }

    /// Waits for `bytes`, or for all memory if they are more. The caller must hold no other share.
    pub async fn hold(&self, bytes: usize) -> FileShare {
        let bytes = u32::try_from(bytes.min(self.total)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        FileShare(self.free.clone().acquire_many_owned(bytes).await.ok())
    }

    /// Takes `bytes` if half of the memory is free beside them: the rest is for files that begin.
    fn spare(&self, bytes: usize) -> Option<FileShare> {
        if self.free.available_permits() < self.total / 2 + bytes {
            return None;
        }
        let bytes = u32::try_from(bytes).ok()?;
        self.free.clone().try_acquire_many_owned(bytes).ok().map(|permit| FileShare(Some(permit)))
    }

    /// The bytes that nobody holds.
    #[cfg(test)]
    fn free(&self) -> usize {
        self.free.available_permits()
    }
}

impl FileShare {
    fn none() -> Self {
        Self(None)
    }

    /// The number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Gives back what exceeds `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes().saturating_sub(bytes);
        drop(self.0.as_mut().and_then(|permit| permit.split(excess)));
    }

    fn merge(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Some(own), Some(other)) => own.merge(other),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }
}

/// A file that is being written: up to 1 MiB of it in memory, then a file of the store. Dropping it deletes the file.
pub struct FileSink {
    storage: Arc<dyn FileStorage>,
    memory: FileMemory,
    max_size: u64,
    max_in_memory: usize,
    content: &'static str,
    size: u64,
    buffer: Vec<u8>,
    share: FileShare,
    stage: Stage,
}

/// The place of the bytes that are no longer in the buffer.
enum Stage {
    /// All bytes are in the buffer.
    Buffered,
    /// A thread writes a chunk of them.
    Writing(JoinHandle<io::Result<Box<dyn FileWriter>>>),
    /// The file could not be written.
    Failed,
}

impl FileSink {
    /// Begins a file. `content` is named if it becomes larger than `max_size` bytes: `the rows`.
    #[must_use]
    pub fn new(
        storage: Arc<dyn FileStorage>,
        memory: FileMemory,
        max_size: u64,
        content: &'static str,
    ) -> Self {
        let (buffer, share, stage) = (Vec::new(), FileShare::none(), Stage::Buffered);
        let max_in_memory = MAX_IN_MEMORY;
        Self { storage, memory, max_size, max_in_memory, content, size: 0, buffer, share, stage }
    }

    /// The same file, of which at most `bytes` stay in memory once it is complete: for results of many files.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> Self {
        Self { max_in_memory: bytes.min(MAX_IN_MEMORY), ..self }
    }

    /// Appends bytes. Waits for the disk, and for the memory that all files share.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Limit`] if the file becomes larger than the setting `limits.fileSize`, and [`ErrorKind::Internal`] if it
    /// cannot be written.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), ActionError> {
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > self.max_size {
            let (content, most) = (self.content, text::units::format_size(self.max_size));
            let message = format!(
                "{content} are larger than {most}, the most that a file may have by the setting `limits.fileSize`"
            );
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        for piece in bytes.chunks(CHUNK_SIZE) {
            self.make_room(piece.len()).await?;
            self.buffer.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Makes room for `bytes` in the buffer. It grows while much memory is free; else its bytes go to the file before it takes more.
    async fn make_room(&mut self, bytes: usize) -> Result<(), ActionError> {
        let most = if matches!(self.stage, Stage::Buffered) { self.max_in_memory } else { CHUNK_SIZE };
        let needed = self.buffer.len() + bytes;
        if needed <= self.share.bytes() {
            return Ok(());
        }
        if needed <= most
            && !self.buffer.is_empty()
            && let Some(more) = self.memory.spare((needed - self.share.bytes()).next_multiple_of(GROWTH))
        {
            self.share.merge(more);
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.flush().await?;
        }
        self.share = FileShare::none();
        self.share = self.memory.hold(bytes.next_multiple_of(GROWTH)).await;
        Ok(())
    }

    /// Passes the buffer to a thread that writes it, once the chunk before it is written.
    async fn flush(&mut self) -> Result<(), ActionError> {
        let (chunk, share) =
            (std::mem::take(&mut self.buffer), std::mem::replace(&mut self.share, FileShare::none()));
        let (writer, storage) = (self.written().await?, self.storage.clone());
        self.stage = Stage::Writing(allocator::large_work(move || {
            let mut writer = match writer {
                Some(writer) => writer,
                None => storage.create()?,
            };
            writer.write(&chunk)?;
            drop((chunk, share));
            Ok(writer)
        }));
        Ok(())
    }

    /// Waits for the chunk that is being written; `None` if none was.
    async fn written(&mut self) -> Result<Option<Box<dyn FileWriter>>, ActionError> {
        match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Buffered => Ok(None),
            Stage::Writing(task) => {
                let written = task.await.map_err(io::Error::other).flatten();
                written.map(Some).map_err(|error| unwritable(&error))
            }
            Stage::Failed => Err(unwritable(&io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Internal`] if it cannot be written.
    pub async fn finish(mut self) -> Result<Data, ActionError> {
        if matches!(self.stage, Stage::Buffered) && self.buffer.len() <= self.max_in_memory {
            return Ok(Data::from(self.buffer));
        }
        if !self.buffer.is_empty() {
            self.flush().await?;
        }
        let Some(writer) = self.written().await? else { return Ok(Data::default()) };
        let finished = allocator::large_work(move || writer.finish()).await;
        finished.map_err(io::Error::other).flatten().map_err(|error| unwritable(&error))
    }
}

fn unwritable(error: &io::Error) -> ActionError {
    ActionError::new(ErrorKind::Internal, format!("the file of the result cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pretty_assertions::assert_eq;

    use super::*;

    const MAX_SIZE: u64 = 16 << 20;

    /// Counts the written bytes, and keeps no byte.
    #[derive(Debug, Default)]
    struct Counting(Arc<AtomicUsize>);

    impl FileStorage for Counting {
        fn create(&self) -> io::Result<Box<dyn FileWriter>> {
            Ok(Box::new(Self(self.0.clone())))
        }
    }

    impl FileWriter for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.fetch_add(bytes.len(), Ordering::Relaxed);
            Ok(())
        }

        fn finish(self: Box<Self>) -> io::Result<Data> {
            Ok(Data::default())
        }
    }

    fn sink(memory: &FileMemory) -> (FileSink, Arc<AtomicUsize>) {
        let written = Arc::<AtomicUsize>::default();
        let storage = Arc::new(Counting(written.clone()));
        (FileSink::new(storage, memory.clone(), MAX_SIZE, "the rows"), written)
    }

    #[tokio::test]
    async fn a_file_has_a_size_limit_and_little_of_it_in_memory() {
        let memory = FileMemory::default();
        let (mut file, written) = sink(&memory);
        let chunk = vec![b'x'; 1 << 20];
        file.push(&chunk).await.expect("it is within the limit");
        assert!(matches!(file.stage, Stage::Buffered), "a small file stays in memory");
        for _ in 1..MAX_SIZE >> 20 {
            file.push(&chunk).await.expect("it is within the limit");
            assert!(file.buffer.len() <= MAX_IN_MEMORY, "{}", file.buffer.len());
        }
        let error = file.push(b"x").await.expect_err("above the limit");
        assert_eq!(error.kind, ErrorKind::Limit);
        assert!(error.message.contains("16MiB") && error.message.contains("limits.fileSize"), "{error:?}");
        file.finish().await.expect("it is finished");
        assert_eq!(written.load(Ordering::Relaxed) as u64, MAX_SIZE);
        assert_eq!(memory.free(), FILE_MEMORY);
    }

    #[tokio::test]
    async fn many_files_together_stay_within_their_memory() {
        let memory = FileMemory::new(1 << 20);
        let files = (0..100).map(|index| {
            let memory = memory.clone();
            async move {
                let (mut file, written) = sink(&memory);
                for _ in 0..40 {
                    file.push(&vec![b'x'; 10_000 + index]).await.expect("it is written");
                    assert!(file.buffer.len() <= file.share.bytes());
                    tokio::task::yield_now().await;
                }
                let data = file.finish().await.expect("it is finished");
                written.load(Ordering::Relaxed) + data.len()
            }
        });
        let sizes = futures_util::future::join_all(files).await;
        let expected: Vec<usize> = (0..100).map(|index| 40 * (10_000 + index)).collect();
        assert_eq!(sizes, expected);
        assert_eq!(memory.free(), 1 << 20);
    }

    #[tokio::test]
    async fn a_file_stays_small_in_memory_where_others_have_most_of_it() {
        let memory = FileMemory::new(1 << 20);
        let _others = memory.hold((1 << 20) - GROWTH).await;
        let (mut file, written) = sink(&memory);
        for _ in 0..10 {
            file.push(&[b'x'; 20_000]).await.expect("it is written");
            assert!(file.buffer.len() <= GROWTH, "{}", file.buffer.len());
        }
        file.finish().await.expect("it is finished");
        assert_eq!(written.load(Ordering::Relaxed), 200_000);
    }

    #[tokio::test]
    async fn a_share_gives_back_what_it_does_not_need() {
        let memory = FileMemory::new(1_000);
        let mut share = memory.hold(5_000).await;
        assert_eq!((share.bytes(), memory.free()), (1_000, 0));
        share.shrink_to(10);
        assert_eq!((share.bytes(), memory.free()), (10, 990));
        drop(share);
        assert_eq!(memory.free(), 1_000);
    }
}
