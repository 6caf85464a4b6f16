//! Counts the instructions and allocations of a process with callgrind of valgrind.

use std::collections::HashSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::Error;

/// The functions of the allocator that a request for memory enters first.
const ALLOCATORS: [&str; 6] =
    ["mi_malloc", "mi_zalloc", "mi_realloc", "mi_malloc_aligned", "mi_zalloc_aligned", "mi_realloc_aligned"];

/// The counts of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Counts {
    /// Executed instructions of all threads, without the kernel's.
    pub(super) instructions: u64,
    /// Requests for new or more memory; 0 in a program without symbols.
    pub(super) allocations: u64,
}

/// A process that runs under callgrind.
pub(super) struct Counter {
    process: u32,
    output: PathBuf,
    dumps: u32,
}

/// Returns the command that runs `program` under callgrind, with its counts in files whose names begin with `output`.
pub(super) fn command(program: &Path, output: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--dump-line=no", "--fair-sched=yes", "--error-limit=no"]);
    command.arg(format!("--callgrind-out-file={}", output.display())).arg("--").arg(program);
    command
}

impl Counter {
    /// The counter of a process that was started with [`command`].
    pub(super) fn new(process: u32, output: PathBuf) -> Self {
        Self { process, output, dumps: 0 }
    }

    /// Forgets what was counted.
    pub(super) fn reset(&self) -> Result<(), Error> {
        self.tell(&["zero"])
    }

    /// Returns the counts since the last reset, and resets them.
    pub(super) fn take(&mut self) -> Result<Counts, Error> {
        self.tell(&["dump"])?;
        self.dumps += 1;
        let file = self.output.with_added_extension(self.dumps.to_string());
        let opened = std::fs::File::open(&file).map_err(Error::io(file.display()))?;
        let counts = read(BufReader::new(opened)).map_err(Error::io(file.display()))?;
        // A dump has some MB.
        std::fs::remove_file(&file).map_err(Error::io(file.display()))?;
        Ok(counts)
    }

    /// Sends a command to callgrind in the process.
    fn tell(&self, words: &[&str]) -> Result<(), Error> {
        let mut vgdb = Command::new("vgdb");
        vgdb.arg(format!("--pid={}", self.process)).args(words).stdin(Stdio::null());
        let output = vgdb.output().map_err(Error::io("vgdb (Debian package `valgrind`)"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Server(format!("vgdb {}: {said}", words.join(" "))))
    }
}

/// Reads a dump: the sum of its instructions, and the calls of the allocator.
fn read(dump: impl std::io::BufRead) -> std::io::Result<Counts> {
    let mut counts = Counts::default();
    let mut allocators = HashSet::new();
    let mut is_allocator = false;
    for line in dump.lines() {
        let line = line?;
        if let Some(total) = line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")) {
            counts.instructions = counts.instructions.max(total.trim().parse().unwrap_or(0));
        } else if let Some(function) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            // `(12) name` defines a number, `(12)` refers to it.
            let (number, name) = function.split_once(' ').unwrap_or((function, ""));
            if ALLOCATORS.contains(&name) {
                allocators.insert(number.to_owned());
            }
            is_allocator = line.starts_with("cfn=") && allocators.contains(number);
        } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| is_allocator) {
            let count = calls.split_ascii_whitespace().next().and_then(|count| count.parse::<u64>().ok());
            counts.allocations += count.unwrap_or(0);
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "version: 1\npid: 7\nevents: Ir\nsummary: 1200\n\nfn=(1) work\n0 100\ncfn=(2) mi_malloc\n\
        calls=3 0 \n0 60\ncfn=(4) other\ncalls=9 0 \n0 5\nfn=(3) more\n0 20\ncfn=(2)\ncalls=4 0 \n0 80\n\ntotals: 1200\n";

    #[test]
    fn a_dump_has_the_instructions_and_the_calls_of_the_allocator() {
        let counts = read(DUMP.as_bytes()).expect("read");
        assert_eq!(counts, Counts { instructions: 1200, allocations: 7 });
    }
}
