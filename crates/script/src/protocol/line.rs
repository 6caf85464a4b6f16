//! Log lines, which are sent while the code runs.

use std::borrow::Cow;

use text::TRUNCATION_MARK;

use super::{Malformed, Message, Tag, TooLong, encode};
use crate::call::{Level, LogLine};

/// The maximum length of a log line or error message that the daemon keeps, in characters.
pub const MAX_TEXT: usize = model::LogLine::MAX_CHARS;
/// The bytes that a worker sends of a longer text beyond [`MAX_TEXT`]: only the daemon knows the secrets to redact before the
/// text is truncated, and a secret may span the end.
const MARGIN: usize = 4096;
/// The maximum number of lines of a run; one more reports the number of omitted lines.
pub(crate) const MAX_LINES: usize = 1_000;
/// The maximum size of all lines of a run in bytes, without their margins.
pub(crate) const MAX_LOG: usize = 64 * 1024;

/// Truncates a text to [`MAX_TEXT`] characters and up to [`MARGIN`] more bytes, and appends a mark.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    let Some((kept, _)) = text.char_indices().nth(MAX_TEXT) else { return Cow::Borrowed(text) };
    let end = text.floor_char_boundary(kept + MARGIN);
    if end == text.len() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{TRUNCATION_MARK}", text.get(..end).unwrap_or_default()))
}

const LEVELS: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

/// Encodes a line.
pub(crate) fn encode_line(level: Level, message: &str) -> Result<Vec<u8>, TooLong> {
    encode(Tag::Line, &[&[level as u8], message.as_bytes()])
}

/// The log lines of one run.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Vec<LogLine>,
    bytes: usize,
}

impl Lines {
    /// Adds a line.
    ///
    /// # Errors
    /// The message is not a line, or exceeds the limits of a worker.
    pub(crate) fn take_in(&mut self, message: &Message) -> Result<(), Malformed> {
        let [level, _] = message.parts.as_slice() else { return Err(Malformed) };
        let level = level.first().and_then(|level| LEVELS.get(usize::from(*level))).ok_or(Malformed)?;
        let text = message.text(1)?;
        self.bytes += text.len();
        // With a margin, more bytes may precede the mark than the limit of a line.
        if self.lines.len() > MAX_LINES || self.bytes > 2 * MAX_LOG + MAX_TEXT {
            return Err(Malformed);
        }
        self.lines.push(LogLine { level: *level, message: text.to_owned() });
        Ok(())
    }

    /// True if no line has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Takes the lines.
    pub(crate) fn take(&mut self) -> Vec<LogLine> {
        std::mem::take(self).lines
    }
}
