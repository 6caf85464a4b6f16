//! A line of the log, as it is sent while the code runs.

use super::{Malformed, Message, Tag, TooLong, encode};
use crate::call::{Level, LogLine};

/// The longest line of the log, in characters.
pub(crate) const MAX_LINE: usize = 4096;
/// The most lines of a run; one more says how many were left out.
pub(crate) const MAX_LINES: usize = 1_000;
/// The most bytes of all lines of a run.
pub(crate) const MAX_LOG: usize = 64 * 1024;

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
        if self.lines.len() > MAX_LINES || self.bytes > MAX_LOG + MAX_LINE {
            return Err(Malformed);
        }
        self.lines.push(LogLine { level: *level, message: text.to_owned() });
        Ok(())
    }

    /// The lines, taken out.
    pub(crate) fn take(&mut self) -> Vec<LogLine> {
        std::mem::take(self).lines
    }
}
