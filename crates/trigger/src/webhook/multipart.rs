//! `multipart/form-data` (RFC 7578). The body is there whole, in memory or in a file: parts are found by their places in it, so that
//! a file among them is a stretch of the body, whatever its size, and never copied.

use http::HeaderName;
use memchr::memmem::Finder;
use model::value::{CHUNK_SIZE, Data};
use model::{File, Map, Value};
use ring::digest::{Context, SHA256};

use super::content_type::{self, Kind, MOST_PARSED};
use super::disposition::Disposition;
use super::{body, fields};
use crate::Rejection;

/// The most parts of a body.
const MAX_PARTS: usize = 200;
/// The most bytes of one part's headers.
const MAX_PART_HEADERS: usize = 16 * 1024;
/// The most headers of one part.
const MAX_HEADERS: usize = 32;
/// The most bytes of a part's name.
const MAX_NAME: usize = 256;
/// The most bytes of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The parts of a body by name. A multipart inside a part is a file like any other.
pub(super) fn parse(body: &File) -> Result<Value, Rejection> {
    let boundary = boundary(&body.content_type)
        .filter(|boundary| (1..=MAX_BOUNDARY).contains(&boundary.len()))
        .ok_or_else(|| bad("multipart content-type has no usable boundary"))?;
    let line = format!("\r\n--{boundary}");
    let mut reader = Reader { data: &body.data, text_left: MOST_PARSED };
    // The first one needs no line before it.
    let mut at = reader.find(0, &Finder::new(&line[2..]))?.ok_or_else(broken)? + line.len() - 2;
    let finder = Finder::new(&line);
    let mut map = Map::new();
    for _ in 0..MAX_PARTS {
        let Some(start) = reader.after_boundary(at)? else { return Ok(Value::from(map)) };
        let (head, start) = reader.head(start)?;
        let end = reader.find(start, &finder)?.ok_or_else(broken)?;
        let value = reader.value(&head, start, end)?;
        fields::add(&mut map, &head.name, value);
        at = end + line.len();
    }
    match reader.after_boundary(at)? {
        None => Ok(Value::from(map)),
        Some(_) => Err(bad(format!("multipart body has more than {MAX_PARTS} parts"))),
    }
}

/// The boundary that a content type names.
fn boundary(content_type: &str) -> Option<String> {
    Disposition(content_type.as_bytes()).value("boundary")
}

/// What the headers of a part say.
struct Head {
    name: String,
    filename: Option<String>,
    content_type: Option<String>,
}

/// A body, read by place.
struct Reader<'a> {
    data: &'a Data,
    /// How many bytes of parts may still come into memory to be read as JSON or text.
    text_left: usize,
}

impl Reader<'_> {
    /// Where this stands first, from a place on.
    fn find(&self, from: usize, needle: &Finder<'_>) -> Result<Option<usize>, Rejection> {
        if let Some(bytes) = self.data.in_memory() {
            return Ok(bytes.get(from..).and_then(|rest| needle.find(rest)).map(|place| from + place));
        }
        let width = needle.needle().len();
        let mut window = vec![0; CHUNK_SIZE.max(2 * width)];
        // How many bytes of the window are the end of what was looked at: what is sought may begin there.
        let (mut at, mut held) = (from, 0);
        while at < self.data.len() {
            let count = self.read(at, &mut window[held..])?;
            let filled = held + count;
            if let Some(place) = needle.find(&window[..filled]) {
                return Ok(Some(at - held + place));
            }
            at += count;
            let kept = filled.min(width - 1);
            window.copy_within(filled - kept..filled, 0);
            held = kept;
        }
        Ok(None)
    }

    /// Fills a buffer from a place on, as far as there are bytes.
    fn read(&self, at: usize, buffer: &mut [u8]) -> Result<usize, Rejection> {
        let count = buffer.len().min(self.data.len().saturating_sub(at));
        self.data.read_exact_at(at as u64, &mut buffer[..count]).map_err(|_| unreadable())?;
        Ok(count)
    }

    /// These bytes, in memory.
    fn bytes(&self, from: usize, to: usize) -> Result<bytes::Bytes, Rejection> {
        if let Some(bytes) = self.data.in_memory() {
            return Ok(bytes.slice(from..to));
        }
        let mut buffer = vec![0; to - from];
        let count = self.read(from, &mut buffer)?;
        buffer.truncate(count);
        Ok(buffer.into())
    }

    /// Where the headers of the part begin whose boundary ends here; nothing after the last.
    fn after_boundary(&self, mut at: usize) -> Result<Option<usize>, Rejection> {
        let next = |at: usize| self.bytes(at.min(self.data.len()), (at + 2).min(self.data.len()));
        if next(at)? == "--" {
            return Ok(None);
        }
        // Spaces and tabs may stand behind it (RFC 2046, section 5.1.1).
        let most = at + MAX_PART_HEADERS;
        loop {
            match next(at)? {
                end if end == "\r\n" => return Ok(Some(at + 2)),
                blank if matches!(blank.first(), Some(b' ' | b'\t')) && at < most => at += 1,
                _ => return Err(broken()),
            }
        }
    }

    /// The headers of the part that begins here, and where they end.
    fn head(&self, start: usize) -> Result<(Head, usize), Rejection> {
        const END: &[u8] = b"\r\n\r\n";
        let most = (start + MAX_PART_HEADERS + END.len()).min(self.data.len());
        let window = self.bytes(start, most)?;
        let Some(length) = memchr::memmem::find(&window, END) else {
            if most < self.data.len() {
                let message =
                    format!("multipart body has a part with more than {MAX_PART_HEADERS} bytes of headers");
                return Err(bad(message));
            }
            return Err(broken());
        };
        let end = length + END.len();
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let Ok(httparse::Status::Complete((_, headers))) =
            httparse::parse_headers(&window[..end], &mut headers)
        else {
            return Err(broken());
        };
        let value = |name: HeaderName| {
            headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(name.as_str()))
                .map(|header| header.value)
        };
        let disposition = Disposition(value(http::header::CONTENT_DISPOSITION).unwrap_or_default());
        let name = disposition.value("name").unwrap_or_default();
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(bad(format!(
                "multipart body has a part whose name is not 1 to {MAX_NAME} bytes long"
            )));
        }
        let content_type = value(http::header::CONTENT_TYPE)
            .map(|value| String::from_utf8_lossy(value).trim().to_owned())
            .filter(|sent| !sent.is_empty());
        Ok((Head { name, filename: disposition.value("filename"), content_type }, start + end))
    }

    /// A part as steps read it: JSON and plain fields as `{data, contentType}`, all else as a file.
    fn value(&mut self, head: &Head, start: usize, end: usize) -> Result<Value, Rejection> {
        let sent = head.content_type.as_deref();
        let kind = sent.map_or(Kind::Unknown, content_type::kind);
        let parsed = match (kind, &head.filename) {
            (Kind::Json, _) => {
                let what = format!("part `{}`", head.name);
                Some(body::json(&self.text(start, end)?, &what)?)
            }
            (Kind::Text | Kind::Unknown, None) => {
                let text = content_type::decode(&self.text(start, end)?, sent.unwrap_or_default());
                Some(Value::from(text))
            }
            _ => None,
        };
        let Some(parsed) = parsed else {
            let content_type = sent.unwrap_or(content_type::UNKNOWN).into();
            let data = self.data.slice(start, end - start, self.digest(start, end)?);
            let filename = head.filename.as_deref().map(Into::into);
            return Ok(Value::from(File { content_type, filename, data }));
        };
        let mut map = Map::with_capacity(3);
        map.insert("data", parsed);
        map.insert("contentType", sent.unwrap_or("text/plain"));
        if let Some(filename) = &head.filename {
            map.insert("filename", filename.as_str());
        }
        Ok(Value::from(map))
    }

    /// The bytes of a part that is read in memory. All of them together are limited where the body itself is not there.
    fn text(&mut self, start: usize, end: usize) -> Result<bytes::Bytes, Rejection> {
        if self.data.is_external() {
            let over = || Rejection::payload_too_large(MOST_PARSED);
            self.text_left = self.text_left.checked_sub(end - start).ok_or_else(over)?;
        }
        self.bytes(start, end)
    }

    /// The SHA-256 of a file that is kept outside; of one in memory nobody asks.
    fn digest(&self, start: usize, end: usize) -> Result<[u8; 32], Rejection> {
        let mut digest = [0; 32];
        if self.data.is_external() {
            let mut context = Context::new(&SHA256);
            let stretch = self.data.slice(start, end - start, digest);
            stretch.for_each_chunk(|piece| context.update(piece)).map_err(|_| unreadable())?;
            digest.copy_from_slice(context.finish().as_ref());
        }
        Ok(digest)
    }
}

fn broken() -> Rejection {
    bad("request body is not valid multipart/form-data")
}

fn unreadable() -> Rejection {
    Rejection::unavailable("the request body could not be read again; try again", super::RETRY_AFTER)
}

fn bad(message: impl Into<String>) -> Rejection {
    Rejection::bad_request("bad_multipart", message)
}
