//! Exports executions as JSON lines, all or by a filter, for another daemon or program.
//!
//! ```text
//! {"cogworkExecutions": 1, "release": "0.1.0", "exportedAt": "…"}
//! {"definition": {"hash", "automation", "path", "text"}}        before its first execution
//! {"file": {"sha256", "size"}}                                  a file that the next execution names
//! {"bytes": "base64"}                                           a part of it
//! {"execution": {"id", "status", "events": […], "logs": […]}}
//! {"end": {"executions": 12}}
//! ```
//!
//! Both directions hold one execution, or a small batch of them, in memory, and a file in parts.

mod export;
mod import;
mod import_files;
mod parts;

use std::borrow::Cow;

use jiff::Timestamp;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Status};
use serde::{Deserialize, Serialize};

pub use export::{Exported, export_executions};
pub use import::{Imported, import_executions};
pub use parts::{MAX_PART_BYTES, Part, Parts};

/// The version of the form. It changes only if an earlier release could misunderstand a line.
pub const FORMAT: u32 = 1;

/// The bytes of a file in one line.
const PART_BYTES: usize = 96 << 10;

/// Maximum number of bytes of one line that an import reads.
const MAX_LINE_BYTES: usize = 256 << 20;

/// An error of an export or an import. What was imported before it stays.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The file could not be read or written.
    #[error("cannot read or write the file: {0}")]
    Io(#[from] std::io::Error),
    /// The file is not an export.
    #[error("this is not an export of executions: its first line must have `cogworkExecutions`")]
    NoExport,
    /// A later release wrote the file.
    #[error(
        "release {release} wrote this file in version {found} of its form, this release reads up to {FORMAT}; \
        use that release, or a later one"
    )]
    Newer {
        /// The release that wrote it.
        release: String,
        /// The version of its form.
        found: u32,
    },
    /// A line is not valid.
    #[error("line {line}: {reason}")]
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// The problem.
        reason: String,
    },
    /// The file ends before its last line.
    #[error("the file is cut off: its last line must have `end`")]
    CutOff,
}

/// The first line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    cogwork_executions: u32,
    release: String,
    exported_at: Timestamp,
}

/// A later line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Line<'a> {
    Definition(DefinitionLine<'a>),
    File(FileLine),
    Bytes(Cow<'a, str>),
    Execution(ExecutionLine),
    End(EndLine),
}

#[derive(Debug, Deserialize, Serialize)]
struct DefinitionLine<'a> {
    hash: DefinitionHash,
    automation: AutomationId,
    path: Cow<'a, str>,
    text: Cow<'a, str>,
}

#[derive(Debug, Deserialize, Serialize)]
struct FileLine {
    sha256: String,
    size: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct ExecutionLine {
    id: ExecutionId,
    status: Status,
    events: Vec<Event>,
    logs: Vec<LogLine>,
}

#[derive(Debug, Deserialize, Serialize)]
struct EndLine {
    executions: u64,
}
