//! A wall clock of processes that a test sets, by `libfaketime`.

use std::io;
use std::path::{Path, PathBuf};

/// The paths of the library in Debian's package `libfaketime`, by architecture.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// The wall clock of processes that are started with its [variables](FakeClock::variables). It does not change their monotonic
/// clock.
#[derive(Debug)]
pub struct FakeClock {
    library: &'static str,
    file: PathBuf,
}

/// Errors of a fake clock.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The package is not installed.
    #[error("it needs libfaketime; `apt-get install libfaketime` installs it")]
    NotInstalled,
    /// The file of the clock cannot be written.
    #[error("the clock cannot be set: {0}")]
    Io(#[from] io::Error),
}

impl FakeClock {
    /// A clock that shows the true time. Its offset is in this file.
    ///
    /// # Errors
    /// The library is missing or the file cannot be written.
    pub fn new(file: PathBuf) -> Result<Self, Error> {
        let library = LIBRARIES.into_iter().find(|path| Path::new(path).exists());
        let clock = Self { library: library.ok_or(Error::NotInstalled)?, file };
        clock.set(0)?;
        Ok(clock)
    }

    /// The environment variables of a process that has this clock.
    pub fn variables(&self) -> Vec<(String, String)> {
        let variables = [
            ("LD_PRELOAD", self.library),
            ("FAKETIME_TIMESTAMP_FILE", &self.file.to_string_lossy()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Sets the clock to this many seconds from the true time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, seconds: i64) -> Result<(), Error> {
        // Renamed, so that no process reads half of it.
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, format!("{seconds:+}"))?;
        Ok(std::fs::rename(draft, &self.file)?)
    }
}
