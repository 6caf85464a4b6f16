//! Reads a stream of server-sent events as the HTML standard has it, from pieces of any size.

use bytes::BytesMut;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its type; `message` if the stream names none.
    pub name: String,
    /// Its data; several lines if it had several.
    pub data: String,
    /// Where the stream stands after it, if the stream says so.
    pub id: Option<String>,
}

/// Bytes on their way to being events.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    limit: usize,
    event: PartialEvent,
}

/// An event whose blank line has not come.
#[derive(Debug, Default)]
struct PartialEvent {
    name: Option<String>,
    data: Option<String>,
    id: Option<String>,
}

impl Lines {
    /// No line and no event may have more than `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit, event: PartialEvent::default() }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// The next event that has come whole.
    pub(super) fn next(&mut self) -> Result<Option<ServerEvent>, String> {
        while let Some(line) = self.line() {
            if let Some(event) = self.event.line(&line, self.limit)? {
                return Ok(Some(event));
            }
        }
        if self.buffer.len() > self.limit {
            return Err(too_long(self.limit));
        }
        Ok(None)
    }

    fn line(&mut self) -> Option<String> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| end + self.searched) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(end + 1);
        self.searched = 0;
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        Some(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
    }
}

impl PartialEvent {
    fn line(&mut self, line: &str, limit: usize) -> Result<Option<ServerEvent>, String> {
        if line.is_empty() {
            let Self { name, data, id } = std::mem::take(self);
            return Ok(data.map(|data| ServerEvent {
                name: name.unwrap_or_else(|| "message".to_owned()),
                data,
                id,
            }));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()),
            "id" => self.id = Some(value.to_owned()),
            "data" => {
                let data = match self.data.take() {
                    None => value.to_owned(),
                    Some(data) => data + "\n" + value,
                };
                if data.len() > limit {
                    return Err(too_long(limit));
                }
                self.data = Some(data);
            }
            // A comment keeps the connection alive; any other field means nothing to us.
            _ => {}
        }
        Ok(None)
    }
}

fn too_long(limit: usize) -> String {
    format!("an event has more than {limit} bytes")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, cut: usize) -> Result<Vec<ServerEvent>, String> {
        let (mut lines, mut events) = (Lines::new(100), Vec::new());
        for piece in text.as_bytes().chunks(cut) {
            lines.add(piece);
            while let Some(event) = lines.next()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    fn check(text: &str, expected: &[(&str, &str, Option<&str>)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, data, id)| ServerEvent {
                name: (*name).to_owned(),
                data: (*data).to_owned(),
                id: id.map(str::to_owned),
            })
            .collect();
        for cut in [1, 3, 1000] {
            assert_eq!(read(text, cut), Ok(expected.clone()), "{text:?} cut {cut}");
        }
    }

    #[test]
    fn an_event_ends_with_a_blank_line() {
        check("event: log\nid: 1-2\ndata: {}\n\n", &[("log", "{}", Some("1-2"))]);
        check("data: a\r\ndata: b\r\n\r\ndata:c\n\n", &[("message", "a\nb", None), ("message", "c", None)]);
        check("event: log\ndata: cut", &[]);
    }

    #[test]
    fn comments_and_empty_events_are_ignored() {
        check(": keep-alive\n\n:\n\nretry: 5\nevent: x\n\ndata: é\n\n", &[("message", "é", None)]);
    }

    #[test]
    fn an_unterminated_event_over_the_limit_is_an_error() {
        assert!(read(&"x".repeat(101), 7).is_err());
        assert!(read(&"data: 0123456789\n".repeat(20), 7).is_err());
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_result(text in "[data:ei \n\ré]{0,60}", cut in 1usize..9) {
            prop_assert_eq!(read(&text, cut), read(&text, 1000));
        }
    }
}
