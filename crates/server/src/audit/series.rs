//! A series of rotated files: entries are appended to the first; a full file is renamed to the next number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

/// The number of bytes at the end of a file that contain its last entry.
const TAIL_BYTES: u64 = 4096;

/// The bounds of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The size at which a file is full, in bytes.
    pub(super) file_bytes: u64,
    /// The maximum number of files, including the current one.
    pub(super) files: usize,
    /// The time after its last entry for which a file is kept; `None` if only the number of files limits it.
    pub(super) keep_for: Option<SignedDuration>,
}

/// A series of files.
pub(super) struct Series {
    folder: PathBuf,
    name: &'static str,
    pub(super) bounds: Bounds,
    /// The current file and its size.
    current: Option<(File, u64)>,
}

impl Series {
    /// The series `name.jsonl`, `name.1.jsonl`, … in a folder. Opens no file before the first line.
    pub(super) fn new(folder: &Path, name: &'static str, bounds: Bounds) -> Self {
        Self { folder: folder.to_owned(), name, bounds, current: None }
    }

    /// The end of the current file, which contains the time of its last entry.
    pub(super) fn tail(&mut self) -> io::Result<Vec<u8>> {
        let (file, size) = match self.current.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let tail = read_tail(&file, size)?;
        self.current = Some((file, size));
        Ok(tail)
    }

    /// Appends a line, including its line break, at `now`. After an error the file is reopened.
    pub(super) fn append(&mut self, line: &[u8], now: Timestamp) -> io::Result<()> {
        let (mut file, size) = match self.current.take() {
            Some(open) => open,
            None => self.open()?,
        };
        // One write, so that a killed process leaves only complete lines.
        file.write_all(line)?;
        let size = size + u64::try_from(line.len()).unwrap_or_default();
        if size >= self.bounds.file_bytes {
            file.sync_all()?;
            self.rotate(now)?;
        } else {
            self.current = Some((file, size));
        }
        Ok(())
    }

    fn open(&self) -> io::Result<(File, u64)> {
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(self.path(0))?;
        let mut size = file.metadata()?.len();
        // A line was truncated by a power failure or a full disk.
        if read_tail(&file, size)?.last().is_some_and(|byte| *byte != b'\n') {
            file.write_all(b"\n")?;
            size += 1;
        }
        Ok((file, size))
    }

    /// Renames each file to the next number, and deletes excess and expired files.
    fn rotate(&self, now: Timestamp) -> io::Result<()> {
        let last = (0..self.bounds.files).take_while(|number| self.path(*number).exists()).count();
        for number in (0..last.min(self.bounds.files - 1)).rev() {
            match fs::rename(self.path(number), self.path(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let Some(oldest) = self.bounds.keep_for.and_then(|time| now.checked_sub(time).ok()) else {
            return Ok(());
        };
        for number in (1..=last).rev() {
            let path = self.path(number);
            match fs::metadata(&path).and_then(|found| found.modified()) {
                Ok(modified) if Timestamp::try_from(modified).is_ok_and(|modified| modified < oldest) => {
                    fs::remove_file(&path)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// All files, newest first.
    pub(super) fn files(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        for number in 0..self.bounds.files {
            match File::open(self.path(number)) {
                Ok(file) => files.push(file),
                // The newest file is missing between its renaming and the next entry.
                Err(error) if error.kind() == io::ErrorKind::NotFound && number == 0 => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(match number {
            0 => format!("{}.jsonl", self.name),
            number => format!("{}.{number}.jsonl", self.name),
        })
    }
}

/// Reads the end of a file of this size.
fn read_tail(mut file: &File, size: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}
