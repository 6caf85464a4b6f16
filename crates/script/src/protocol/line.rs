//! A line of the log, as it is sent while the code runs.

use std::borrow::Cow;

use text::TRUNCATION_MARK;

use super::{Malformed, Message, Tag, TooLong, encode};
use crate::call::{Level, LogLine};

/// The longest line of the log and the longest message of an error that the daemon keeps, in characters.
pub const MAX_TEXT: usize = model::LogLine::MAX_CHARS;
/// The bytes that a worker sends of a longer text beyond [`MAX_TEXT`]: only the daemon knows the secrets that are to be hidden before
/// the text is cut, and one of them may stand where it is cut.
const MARGIN: usize = 4096;
/// The most lines of a run; one more says how many were left out.
pub(crate) const MAX_LINES: usize = 1_000;
/// The most bytes of all lines of a run, without their margins.
pub(crate) const MAX_LOG: usize = 64 * 1024;

/// Truncates a text to [`MAX_TEXT`] characters, then up to [`MARGIN`] bytes and a mark.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    let Some((kept, _)) = text.char_indices().nth(MAX_TEXT) else { return Cow::Borrowed(text) };
    let end = text.floor_char_boundary(kept + MARGIN);
    if end == text.len() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{TRUNCATION_MARK}", text.get(..end).unwrap_or_default()))
}

const LEVELS: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

/// A line as bytes.
pub(crate) fn encode_line(level: Level, message: &str) -> Result<Vec<u8>, TooLong> {
    encode(Tag::Line, &[&[level as u8], message.as_bytes()])
}

/// The lines that one run has sent.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Vec<LogLine>,
    bytes: usize,
}

impl Lines {
    /// Takes a line in.
    ///
    /// # Errors
    /// It is none, or one more than a worker sends.
    pub(crate) fn take_in(&mut self, message: &Message) -> Result<(), Malformed> {
        let [level, _] = message.parts.as_slice() else { return Err(Malformed) };
        let level = level.first().and_then(|level| LEVELS.get(usize::from(*level))).ok_or(Malformed)?;
        let text = message.text(1)?;
        self.bytes += text.len();
        // A line with a margin has more bytes before it than in it, up to the mark.
        if self.lines.len() > MAX_LINES || self.bytes > 2 * MAX_LOG + MAX_TEXT {
            return Err(Malformed);
        }
        self.lines.push(LogLine { level: *level, message: text.to_owned() });
        Ok(())
    }

    /// True where no line has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines, taken out.
    pub(crate) fn take(&mut self) -> Vec<LogLine> {
        std::mem::take(self).lines
    }
}
