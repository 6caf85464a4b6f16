//! The memory for the texts of rows while they are encoded.
//!
//! Nearly all texts are small and are encoded at once. A large one is measured first, away from the other tasks: its caller waits
//! until there is room for it, and then encodes it into exactly that much memory. So large values of many executions do not
//! multiply in memory.

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};
use value::{Blob, collect_refs};

use crate::Error;

/// The bytes of the texts of one operation that are encoded without room.
const SMALL: usize = 256 << 10;
/// The bytes of all large texts at one time. A larger one is encoded alone.
const ALL: usize = 8 << 20;
/// The unit of the room, in bytes.
const UNIT: usize = 1 << 10;

/// The memory for large texts.
#[derive(Debug)]
pub struct LargeTexts {
    room: Semaphore,
    /// One operation is measured at a time.
    measuring: Semaphore,
}

impl Default for LargeTexts {
    fn default() -> Self {
        Self { room: Semaphore::new(ALL / UNIT), measuring: Semaphore::new(1) }
    }
}

impl LargeTexts {
    /// Encodes an operation. If its texts are large, waits for room first; the room is free again when the permit is dropped.
    ///
    /// # Errors
    /// The errors of `encode`, and [`Error::Closed`].
    pub async fn encode<T>(
        &self,
        encode: impl Fn(&mut TextRoom) -> Result<T, Error>,
    ) -> Result<(T, Option<SemaphorePermit<'_>>), Error> {
        let mut room = TextRoom { pass: Pass::Small { left: SMALL }, is_short: false, lengths: Vec::new() };
        let encoded = encode(&mut room);
        if !room.is_short {
            return encoded.map(|encoded| (encoded, None));
        }
        drop(encoded);
        let mut lengths = {
            let _permit = self.measuring.acquire().await.map_err(|_| Error::Closed)?;
            let mut room = TextRoom { pass: Pass::Measure, ..room };
            in_place(|| encode(&mut room).map(|_| room.lengths))?
        };
        let bytes: usize = lengths.iter().sum();
        let units = u32::try_from(bytes.min(ALL).div_ceil(UNIT)).unwrap_or(u32::MAX);
        let permit = self.room.acquire_many(units).await.map_err(|_| Error::Closed)?;
        lengths.reverse();
        let mut room = TextRoom { pass: Pass::Encode, is_short: false, lengths };
        let encoded = in_place(|| encode(&mut room))?;
        Ok((encoded, Some(permit)))
    }
}

/// The purpose of one encoding of an operation.
#[derive(Clone, Copy, Debug)]
enum Pass {
    /// Encodes up to `left` bytes, and stops beyond.
    Small { left: usize },
    /// Keeps nothing, and measures the length of each text.
    Measure,
    /// Encodes each text into the memory of its length.
    Encode,
}

/// The room for the texts of one operation.
#[derive(Debug)]
pub struct TextRoom {
    pass: Pass,
    /// True once the pass of small texts has stopped.
    is_short: bool,
    /// The length of each text: appended as they are measured, and taken from the end as they are encoded.
    lengths: Vec<usize>,
}

impl TextRoom {
    /// Encodes the text of a row of about `about` bytes, and collects the files that it names.
    pub fn text(
        &mut self,
        about: usize,
        items: &impl Serialize,
    ) -> Result<(String, Vec<Arc<dyn Blob>>), Error> {
        let (capacity, most) = match self.pass {
            Pass::Small { left } => (about.min(left), left),
            Pass::Measure => (0, usize::MAX),
            Pass::Encode => (self.lengths.pop().unwrap_or(about), usize::MAX),
        };
        let keeps = !matches!(self.pass, Pass::Measure);
        let mut output = Output { text: Vec::with_capacity(capacity), keeps, most, dropped: 0 };
        let (written, named) = collect_refs(|| serde_json::to_writer(&mut output, items));
        let length = output.length();
        match &mut self.pass {
            Pass::Small { left } => {
                self.is_short |= length > *left;
                *left = left.saturating_sub(length);
            }
            Pass::Measure => self.lengths.push(length),
            Pass::Encode => {}
        }
        written.map_err(|error| Error::Invalid { reason: error.to_string() })?;
        let text =
            String::from_utf8(output.text).map_err(|error| Error::Invalid { reason: error.to_string() })?;
        Ok((text, named))
    }
}

/// Counts the bytes of a text, and keeps them if it should. Fails beyond `most` bytes.
struct Output {
    text: Vec<u8>,
    keeps: bool,
    most: usize,
    /// The number of bytes that were counted and not kept.
    dropped: usize,
}

impl Output {
    fn length(&self) -> usize {
        self.text.len().saturating_add(self.dropped)
    }

    /// Counts or keeps bytes for which the text has no memory yet.
    #[cold]
    fn write_beyond(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = self.length().saturating_add(bytes.len());
        if length > self.most {
            self.dropped = self.dropped.saturating_add(bytes.len());
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if self.keeps {
            let capacity = length.saturating_mul(2).min(self.most);
            self.text.reserve_exact(capacity - self.text.len());
            self.text.extend_from_slice(bytes);
        } else {
            self.dropped = self.dropped.saturating_add(bytes.len());
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    // A text has some hundred parts, most of one to ten bytes.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call costs more than the copy of a part; 2 % of an accepted request in all"
    )]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.text.capacity() - self.text.len() {
            return self.write_beyond(bytes);
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encodes on this thread. A multi-threaded runtime moves the other tasks of the thread away.
pub fn in_place<T>(encode: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(encode),
        _ => encode(),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn encoded(room: &mut TextRoom, bytes: usize) -> Result<String, Error> {
        room.text(16, &"x".repeat(bytes)).map(|(text, _)| text)
    }

    #[tokio::test]
    async fn small_texts_need_no_permit() {
        let texts = LargeTexts::default();
        let (text, permit) = texts.encode(|room| encoded(room, SMALL - 2)).await.expect("it is encoded");
        assert_eq!((text.len(), permit.is_none()), (SMALL, true));
    }

    #[tokio::test]
    async fn a_large_text_is_allocated_exactly_and_others_wait_for_its_memory() {
        let texts = LargeTexts::default();
        let (text, permit) = texts.encode(|room| encoded(room, ALL)).await.expect("it is encoded");
        assert_eq!((text.len(), text.capacity()), (ALL + 2, ALL + 2));
        let mut next = pin!(texts.encode(|room| encoded(room, SMALL)));
        assert!(next.as_mut().now_or_never().is_none(), "there is no room");
        drop(permit);
        assert_eq!(next.await.expect("it is encoded").0.len(), SMALL + 2);
    }

    #[tokio::test]
    async fn texts_of_one_operation_are_counted_together() {
        let texts = LargeTexts::default();
        let both = |room: &mut TextRoom| Ok((encoded(room, SMALL / 2)?, encoded(room, SMALL)?));
        let ((first, second), permit) = texts.encode(both).await.expect("it is encoded");
        assert_eq!((first.len(), second.len(), permit.is_some()), (SMALL / 2 + 2, SMALL + 2, true));
    }
}
