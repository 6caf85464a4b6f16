//! Lines that executions leave for people.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::redact::TRUNCATION_MARK;

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// For whoever follows along.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something failed.
    Error,
}

/// A line that an execution left for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// How grave.
    pub level: LogLevel,
    /// By which step, if by one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<String>,
    /// The text, cut at [`LogLine::MAX_CHARS`] characters.
    pub message: String,
}

impl LogLine {
    /// The most characters of a line (semantics 3.9).
    pub const MAX_CHARS: usize = 4096;

    /// A line, cut with a mark where it is too long, control characters escaped.
    ///
    /// It hides nothing: a message that may hold a secret comes out of [`Redactor::redact_excerpt`](crate::redact::Redactor::redact_excerpt).
    #[must_use]
    pub fn new(at: Timestamp, level: LogLevel, step: Option<String>, message: &str) -> Self {
        let mut text = String::with_capacity(message.len().min(Self::MAX_CHARS));
        for (count, character) in message.chars().enumerate() {
            if count == Self::MAX_CHARS {
                text.push(TRUNCATION_MARK);
                break;
            }
            Self::push_escaped(&mut text, character);
        }
        Self { at, level, step, message: text }
    }

    /// Appends the character as a line shows it: a control character other than a line break or a tab is escaped.
    pub(crate) fn push_escaped(text: &mut String, character: char) {
        match character {
            '\n' | '\t' => text.push(character),
            control if control.is_control() => text.extend(control.escape_default()),
            plain => text.push(plain),
        }
    }
}
