//! Log lines of executions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use text::{TRUNCATION_MARK, push_escaped};

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Progress.
    Info,
    /// An unexpected condition.
    Warn,
    /// A failure.
    Error,
}

/// A log line of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// The time.
    pub at: Timestamp,
    /// The severity.
    pub level: LogLevel,
    /// The step that logged it; absent if it is of the execution as a whole.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<String>,
    /// The text, truncated at 4096 characters.
    pub message: String,
}

impl LogLine {
    /// The maximum number of characters of a line (semantics 3.9).
    pub const MAX_CHARS: usize = 4096;

    /// Creates a line: truncates a long message with a mark, and escapes control characters.
    ///
    /// It does not redact secrets. Pass a message that may contain one through [`Redactor::redact_excerpt`](value::redact::Redactor::redact_excerpt).
    #[must_use]
    pub fn new(at: Timestamp, level: LogLevel, step: Option<String>, message: &str) -> Self {
        let mut text = String::with_capacity(message.len().min(Self::MAX_CHARS));
        for (count, character) in message.chars().enumerate() {
            if count == Self::MAX_CHARS {
                text.push(TRUNCATION_MARK);
                break;
            }
            push_escaped(&mut text, character);
        }
        Self { at, level, step, message: text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_a_maximum_of_characters() {
        let line = |count: usize| {
            LogLine::new(Timestamp::UNIX_EPOCH, LogLevel::Info, None, &"ä".repeat(count)).message
        };
        assert_eq!(line(LogLine::MAX_CHARS), "ä".repeat(LogLine::MAX_CHARS));
        let cut = line(LogLine::MAX_CHARS + 1);
        assert_eq!((cut.chars().count(), cut.ends_with(TRUNCATION_MARK)), (LogLine::MAX_CHARS + 1, true));
    }
}
