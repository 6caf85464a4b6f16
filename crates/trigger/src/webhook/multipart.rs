//! `multipart/form-data` (RFC 7578). The whole body is available, in memory or in a file: the parser finds the offsets of parts,
//! so that a file part is a range of the body, of any size, and never copied.

use encoding_rs::Encoding;
use http::HeaderName;
use memchr::memmem::Finder;
use ring::digest::{Context, SHA256};
use value::mime::{self, Parameters};
use value::{CHUNK_SIZE, Data, File, Map, Value};

use super::content_type::{self, Kind, MAX_PARSED_BYTES};
use super::{body, urlencoded};
use crate::Rejection;

/// The maximum number of parts.
const MAX_PARTS: usize = 200;
/// The maximum size of a part's headers, in bytes.
const MAX_PART_HEADERS: usize = 16 * 1024;
/// The maximum number of headers of a part.
const MAX_HEADERS: usize = 32;
/// The maximum length of a part's name, in bytes.
const MAX_NAME: usize = 256;
/// The maximum length of a boundary, in bytes (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The parts of a body by name. A nested multipart is a file.
pub(super) fn parse(body: &File) -> Result<Value, Rejection> {
    let boundary = boundary(&body.content_type)
        .filter(|boundary| (1..=MAX_BOUNDARY).contains(&boundary.len()))
        .ok_or_else(|| bad_multipart("multipart content-type has no usable boundary"))?;
    let line = format!("\r\n--{boundary}");
    let mut reader = Reader {
        data: &body.data,
        loadable_bytes: MAX_PARSED_BYTES,
        charset: mime::charset(&body.content_type),
    };
    // The first boundary need not follow a line break.
    let mut at = reader.find(0, &Finder::new(&line[2..]))?.ok_or_else(invalid_multipart)? + line.len() - 2;
    let finder = Finder::new(&line);
    let mut map = Map::new();
    for _ in 0..MAX_PARTS {
        let Some(start) = reader.after_boundary(at)? else { return Ok(Value::from(map)) };
        let (head, start) = reader.parse_head(start)?;
        let end = reader.find(start, &finder)?.ok_or_else(invalid_multipart)?;
        let value = reader.part_value(&head, start, end)?;
        urlencoded::add(&mut map, &head.name, value);
        at = end + line.len();
    }
    match reader.after_boundary(at)? {
        None => Ok(Value::from(map)),
        Some(_) => Err(bad_multipart(format!("multipart body has more than {MAX_PARTS} parts"))),
    }
}

/// The boundary parameter of a content type.
fn boundary(content_type: &str) -> Option<String> {
    Parameters(content_type.as_bytes()).text("boundary")
}

/// The parsed headers of a part.
struct PartHead {
    name: String,
    filename: Option<String>,
    content_type: Option<String>,
}

/// Random access to a body.
struct Reader<'a> {
    data: &'a Data,
    /// The bytes of parts that may still be loaded to be parsed as JSON or text.
    loadable_bytes: usize,
    /// The encoding of the parts that name none themselves: that of the form, until its part `_charset_` names another.
    charset: Option<&'static Encoding>,
}

impl Reader<'_> {
    /// The first offset of `needle` from `from` on.
    fn find(&self, from: usize, needle: &Finder<'_>) -> Result<Option<usize>, Rejection> {
        if let Some(bytes) = self.data.in_memory() {
            return Ok(bytes.get(from..).and_then(|rest| needle.find(rest)).map(|position| from + position));
        }
        let width = needle.needle().len();
        let mut window = vec![0; CHUNK_SIZE.max(2 * width)];
        // The first `overlap` bytes of the window are the end of the previous one, since the needle may begin there.
        let (mut at, mut overlap) = (from, 0);
        while at < self.data.len() {
            let count = self.read(at, &mut window[overlap..])?;
            let filled = overlap + count;
            if let Some(position) = needle.find(&window[..filled]) {
                return Ok(Some(at - overlap + position));
            }
            at += count;
            let tail = filled.min(width - 1);
            window.copy_within(filled - tail..filled, 0);
            overlap = tail;
        }
        Ok(None)
    }

    /// Fills a buffer from an offset on, up to the end of the body.
    fn read(&self, at: usize, buffer: &mut [u8]) -> Result<usize, Rejection> {
        let count = buffer.len().min(self.data.len().saturating_sub(at));
        self.data.read_exact_at(at as u64, &mut buffer[..count]).map_err(|_| unreadable())?;
        Ok(count)
    }

    /// Loads a range into memory.
    fn bytes(&self, from: usize, to: usize) -> Result<bytes::Bytes, Rejection> {
        if let Some(bytes) = self.data.in_memory() {
            return Ok(bytes.slice(from..to));
        }
        let mut buffer = vec![0; to - from];
        let count = self.read(from, &mut buffer)?;
        buffer.truncate(count);
        Ok(buffer.into())
    }

    /// The offset of the headers after the boundary that ends at `at`; `None` after the last boundary.
    fn after_boundary(&self, mut at: usize) -> Result<Option<usize>, Rejection> {
        let next = |at: usize| self.bytes(at.min(self.data.len()), (at + 2).min(self.data.len()));
        if next(at)? == "--" {
            return Ok(None);
        }
        // White space may follow a boundary (RFC 2046, section 5.1.1).
        let most = at + MAX_PART_HEADERS;
        loop {
            match next(at)? {
                end if end == "\r\n" => return Ok(Some(at + 2)),
                blank if matches!(blank.first(), Some(b' ' | b'\t')) && at < most => at += 1,
                _ => return Err(invalid_multipart()),
            }
        }
    }

    /// Parses the headers of the part at `start`, and returns the offset after them.
    fn parse_head(&self, start: usize) -> Result<(PartHead, usize), Rejection> {
        const END: &[u8] = b"\r\n\r\n";
        let most = (start + MAX_PART_HEADERS + END.len()).min(self.data.len());
        let window = self.bytes(start, most)?;
        let Some(length) = memchr::memmem::find(&window, END) else {
            if most < self.data.len() {
                let message =
                    format!("multipart body has a part with more than {MAX_PART_HEADERS} bytes of headers");
                return Err(bad_multipart(message));
            }
            return Err(invalid_multipart());
        };
        let end = length + END.len();
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let Ok(httparse::Status::Complete((_, headers))) =
            httparse::parse_headers(&window[..end], &mut headers)
        else {
            return Err(invalid_multipart());
        };
        let value = |name: HeaderName| {
            headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(name.as_str()))
                .map(|header| header.value)
        };
        let disposition = Parameters(value(http::header::CONTENT_DISPOSITION).unwrap_or_default());
        let charset = self.charset;
        let name = disposition.bytes("name").unwrap_or_default();
        let name = mime::header_text(&name, charset);
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(bad_multipart(format!(
                "multipart body has a part whose name is not 1 to {MAX_NAME} bytes long"
            )));
        }
        let content_type = value(http::header::CONTENT_TYPE)
            .map(|value| mime::header_text(value, charset).trim().to_owned())
            .filter(|sent| !sent.is_empty());
        Ok((PartHead { name, filename: disposition.file_name(charset), content_type }, start + end))
    }

    /// The value of a part: JSON and plain fields as `{data, contentType}`, all others as a file.
    fn part_value(&mut self, head: &PartHead, start: usize, end: usize) -> Result<Value, Rejection> {
        let sent = head.content_type.as_deref();
        let kind = sent.map_or(Kind::Unknown, content_type::kind);
        let parsed = match (kind, &head.filename) {
            (Kind::Json, _) => {
                let what = format!("part `{}`", head.name);
                let charset = sent.and_then(mime::charset).or(self.charset);
                Some(body::json(&self.load_part(start, end)?, charset, &what)?)
            }
            (Kind::Text | Kind::Unknown, None) => {
                let charset = sent.and_then(mime::charset).or(self.charset);
                let bytes = self.load_part(start, end)?;
                if head.name.as_bytes() == urlencoded::CHARSET_FIELD {
                    self.charset = Encoding::for_label_no_replacement(&bytes).or(self.charset);
                }
                Some(Value::from(mime::decode(&bytes, charset).into_owned()))
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

    /// The bytes of a part, in memory. If the body is external, their total is limited.
    fn load_part(&mut self, start: usize, end: usize) -> Result<bytes::Bytes, Rejection> {
        if self.data.is_external() {
            let over = || Rejection::payload_too_large(MAX_PARSED_BYTES);
            self.loadable_bytes = self.loadable_bytes.checked_sub(end - start).ok_or_else(over)?;
        }
        self.bytes(start, end)
    }

    /// The SHA-256 of a file part if the body is external; zero if it is in memory, where it is not needed.
    fn digest(&self, start: usize, end: usize) -> Result<[u8; 32], Rejection> {
        let mut digest = [0; 32];
        if self.data.is_external() {
            let mut context = Context::new(&SHA256);
            let part = self.data.slice(start, end - start, digest);
            part.for_each_chunk(|piece| context.update(piece)).map_err(|_| unreadable())?;
            digest.copy_from_slice(context.finish().as_ref());
        }
        Ok(digest)
    }
}

fn invalid_multipart() -> Rejection {
    bad_multipart("request body is not valid multipart/form-data")
}

fn unreadable() -> Rejection {
    Rejection::unavailable("the request body could not be read again; try again", super::RETRY_AFTER)
}

fn bad_multipart(message: impl Into<String>) -> Rejection {
    Rejection::bad_request("bad_multipart", message)
}
