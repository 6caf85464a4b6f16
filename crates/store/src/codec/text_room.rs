//! The memory for the texts of rows while they are encoded.
//!
//! Nearly all texts are small and are encoded at once. A large one is measured first: its caller waits until there is room
//! for it, and then encodes it into exactly that much memory. So large values of many executions do not multiply in memory.

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
const ALL: usize = 16 << 20;
/// The unit of the room, in bytes.
const UNIT: usize = 1 << 10;

/// The memory for large texts.
#[derive(Debug)]
pub(crate) struct LargeTexts(Semaphore);

impl LargeTexts {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(ALL / UNIT))
    }

    /// Encodes an operation. If its texts are large, waits for room first; the room is free again when the permit is dropped.
    ///
    /// # Errors
    /// The errors of `encode`, and [`Error::Closed`].
    pub(crate) async fn encode<T>(
        &self,
        encode: impl Fn(&mut TextRoom) -> Result<T, Error>,
    ) -> Result<(T, Option<SemaphorePermit<'_>>), Error> {
        let mut room = TextRoom { left: SMALL, is_short: false, measured: Vec::new() };
        let encoded = encode(&mut room)?;
        if !room.is_short {
            return Ok((encoded, None));
        }
        drop(encoded);
        let bytes: usize = room.measured.iter().sum();
        let units = u32::try_from(bytes.min(ALL).div_ceil(UNIT)).unwrap_or(u32::MAX);
        let permit = self.0.acquire_many(units).await.map_err(|_| Error::Closed)?;
        room.measured.reverse();
        let mut room = TextRoom { left: usize::MAX, is_short: false, measured: room.measured };
        let encoded = in_place(|| encode(&mut room))?;
        Ok((encoded, Some(permit)))
    }
}

/// The room for the texts of one operation.
#[derive(Debug)]
pub(crate) struct TextRoom {
    /// The bytes that are left; `usize::MAX` in the second pass.
    left: usize,
    /// True once a text did not fit. The texts of the pass are then incomplete.
    is_short: bool,
    /// The length of each text: appended in the first pass, and taken from the end in the second.
    measured: Vec<usize>,
}

impl TextRoom {
    /// Encodes the text of a row of about `about` bytes, and collects the files that it names.
    pub(crate) fn text(
        &mut self,
        about: usize,
        items: &impl Serialize,
    ) -> Result<(String, Vec<Arc<dyn Blob>>), Error> {
        let is_second = self.left == usize::MAX;
        let capacity = if is_second { self.measured.pop().unwrap_or(about) } else { about.min(self.left) };
        let mut output = Output { text: Vec::with_capacity(capacity), most: self.left, length: 0 };
        let (written, named) = collect_refs(|| serde_json::to_writer(&mut output, items));
        written.map_err(|error| Error::Invalid { reason: error.to_string() })?;
        if !is_second {
            self.measured.push(output.length);
            self.is_short |= output.length > output.most;
            self.left = self.left.saturating_sub(output.length);
        }
        let text =
            String::from_utf8(output.text).map_err(|error| Error::Invalid { reason: error.to_string() })?;
        Ok((text, named))
    }
}

/// Keeps a text of up to `most` bytes. Of a longer one it keeps nothing and only measures the length.
struct Output {
    text: Vec<u8>,
    most: usize,
    length: usize,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length = self.length.saturating_add(bytes.len());
        if self.length <= self.most {
            self.text.extend_from_slice(bytes);
        } else if !self.text.is_empty() {
            self.text = Vec::new();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encodes on this thread. A multi-threaded runtime moves the other tasks of the thread away.
pub(crate) fn in_place<T>(encode: impl FnOnce() -> T) -> T {
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
    async fn small_texts_take_no_room() {
        let texts = LargeTexts::new();
        let (text, permit) = texts.encode(|room| encoded(room, SMALL - 2)).await.expect("it is encoded");
        assert_eq!((text.len(), permit.is_none()), (SMALL, true));
    }

    #[tokio::test]
    async fn a_large_text_is_encoded_into_exactly_its_length_and_others_wait_for_its_room() {
        let texts = LargeTexts::new();
        let (text, permit) = texts.encode(|room| encoded(room, ALL)).await.expect("it is encoded");
        assert_eq!((text.len(), text.capacity()), (ALL + 2, ALL + 2));
        let mut next = pin!(texts.encode(|room| encoded(room, SMALL)));
        assert!(next.as_mut().now_or_never().is_none(), "there is no room");
        drop(permit);
        assert_eq!(next.await.expect("it is encoded").0.len(), SMALL + 2);
    }

    #[tokio::test]
    async fn several_texts_of_one_operation_count_together() {
        let texts = LargeTexts::new();
        let both = |room: &mut TextRoom| Ok((encoded(room, SMALL / 2)?, encoded(room, SMALL)?));
        let ((first, second), permit) = texts.encode(both).await.expect("it is encoded");
        assert_eq!((first.len(), second.len(), permit.is_some()), (SMALL / 2 + 2, SMALL + 2, true));
    }
}
