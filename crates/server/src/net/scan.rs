//! Follows the framing of the requests on a connection, byte by byte as they arrive, before the HTTP parser has them.
//!
//! The parser folds away what request smuggling is made of: a `Content-Length` beside `Transfer-Encoding` leaves no
//! trace in the headers it hands out, nor does a repeated `Content-Length`, nor a bare line feed. So the framing is
//! read here a second time, strictly: what two readers could take differently is a [`FramingError`], and the connection
//! that it came on is answered once and closed. The scan also knows whether a request is under way, which decides
//! whether closing needs care.

/// The bytes kept of a line that arrives in pieces: enough for the two fields that matter and their values.
const KEPT: usize = 128;

/// Framing that two readers could take differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FramingError {
    /// `Content-Length` together with `Transfer-Encoding`.
    LengthAndEncoding = 1,
    /// More than one `Content-Length`.
    RepeatedLength,
    /// A `Content-Length` that is not a plain number.
    BadLength,
    /// `Transfer-Encoding` repeated, or anything but `chunked`.
    BadEncoding,
    /// A line that ends without a carriage return.
    BareLineFeed,
    /// A chunk that does not follow the form.
    BadChunk,
    /// A `#` in the request target. The parser drops it with all that follows; another reader keeps it.
    Fragment,
}

impl FramingError {
    pub(crate) const ALL: [Self; 7] = [
        Self::LengthAndEncoding,
        Self::RepeatedLength,
        Self::BadLength,
        Self::BadEncoding,
        Self::BareLineFeed,
        Self::BadChunk,
        Self::Fragment,
    ];

    /// The code of the answer.
    pub(crate) fn code(self) -> &'static str {
        if self == Self::Fragment { "bad_target" } else { "bad_framing" }
    }

    /// The message for the sender.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::LengthAndEncoding => "content-length and transfer-encoding cannot stand together",
            Self::RepeatedLength => "content-length may be given once",
            Self::BadLength => "content-length must be a number",
            Self::BadEncoding => "transfer-encoding may be given once and must be `chunked`",
            Self::BareLineFeed => "lines must end with carriage return and line feed",
            Self::BadChunk => "the chunks of the body are malformed",
            Self::Fragment => "the target may not hold `#`",
        }
    }
}

/// The framing of one connection so far.
#[derive(Debug)]
pub(crate) struct Scan {
    state: State,
    line: Line,
    length: Option<u64>,
    chunked: bool,
    fault: Option<FramingError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    RequestLine,
    Fields,
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    Broken,
}

/// A line that has not come to its end.
#[derive(Debug, Default)]
struct Line {
    kept: Vec<u8>,
    length: usize,
    last: u8,
}

impl Line {
    fn add(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        self.length += bytes.len();
        self.last = bytes.last().copied().unwrap_or(self.last);
    }

    fn clear(&mut self) {
        self.kept.clear();
        (self.length, self.last) = (0, 0);
    }
}

impl Scan {
    pub(crate) fn new() -> Self {
        Self { state: State::RequestLine, line: Line::default(), length: None, chunked: false, fault: None }
    }

    /// True if a request has arrived in part only.
    pub(crate) fn is_mid_request(&self) -> bool {
        self.state != State::RequestLine || self.line.length > 0
    }

    /// Takes note of the next bytes; the first fault found is the answer from then on.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Option<FramingError> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Broken => return self.fault,
                State::Body(left) => self.skip(left, bytes, State::Body, State::RequestLine),
                State::ChunkData(left) => self.skip(left, bytes, State::ChunkData, State::ChunkEnd),
                _ => self.take_line(bytes),
            };
        }
        self.fault
    }

    fn skip<'b>(&mut self, left: u64, bytes: &'b [u8], more: fn(u64) -> State, end: State) -> &'b [u8] {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - taken as u64;
        self.state = if left == 0 { end } else { more(left) };
        &bytes[taken..]
    }

    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        if self.state == State::RequestLine && bytes[..end.unwrap_or(bytes.len())].contains(&b'#') {
            self.fail(FramingError::Fragment);
            return &[];
        }
        let Some(end) = end else {
            self.line.add(bytes);
            return &[];
        };
        let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
        if self.line.length == 0 {
            self.end_line(head, head.len(), head.last() == Some(&b'\r'));
        } else {
            self.line.add(head);
            let mut line = std::mem::take(&mut self.line);
            self.end_line(&line.kept, line.length, line.last == b'\r');
            line.clear();
            self.line = line;
        }
        rest
    }

    /// `text` is the line without its line feed, cut where it is long; `length` is how long it is.
    fn end_line(&mut self, text: &[u8], length: usize, proper: bool) {
        if !proper {
            return self.fail(FramingError::BareLineFeed);
        }
        // The same for a line in one piece and in many, so that how the bytes arrive changes nothing.
        let whole = length <= KEPT;
        let text = &text[..if whole { length - 1 } else { KEPT }];
        match self.state {
            State::RequestLine if text.is_empty() => {}
            State::RequestLine => (self.state, self.length, self.chunked) = (State::Fields, None, false),
            State::Fields if text.is_empty() => self.end_fields(),
            State::Fields => self.field(text, whole),
            State::ChunkSize => self.chunk_size(text, whole),
            State::ChunkEnd if text.is_empty() => self.state = State::ChunkSize,
            State::ChunkEnd => self.fail(FramingError::BadChunk),
            State::Trailers if text.is_empty() => self.state = State::RequestLine,
            State::Trailers | State::Body(_) | State::ChunkData(_) | State::Broken => {}
        }
    }

    fn field(&mut self, text: &[u8], whole: bool) {
        let Some(colon) = text.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&text[..colon], text[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let number = number(value, 10).filter(|_| whole);
            match (self.length, number) {
                (Some(_), _) => self.fail(FramingError::RepeatedLength),
                (None, None) => self.fail(FramingError::BadLength),
                (None, number) => self.length = number,
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !whole || !value.eq_ignore_ascii_case(b"chunked") {
                return self.fail(FramingError::BadEncoding);
            }
            self.chunked = true;
        }
        if self.chunked && self.length.is_some() {
            self.fail(FramingError::LengthAndEncoding);
        }
    }

    fn end_fields(&mut self) {
        self.state = match (self.chunked, self.length) {
            (true, _) => State::ChunkSize,
            (false, Some(length)) if length > 0 => State::Body(length),
            (false, _) => State::RequestLine,
        };
    }

    fn chunk_size(&mut self, text: &[u8], whole: bool) {
        let size = match text.iter().position(|byte| *byte == b';') {
            Some(end) => Some(&text[..end]),
            None => whole.then_some(text),
        };
        match size.and_then(|size| number(size.trim_ascii_end(), 16)) {
            None => self.fail(FramingError::BadChunk),
            Some(0) => self.state = State::Trailers,
            Some(size) => self.state = State::ChunkData(size),
        }
    }

    fn fail(&mut self, fault: FramingError) {
        self.state = State::Broken;
        self.fault.get_or_insert(fault);
    }
}

/// A number in digits only: no sign, no space, nothing that does not fit.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(|byte| char::from(*byte).is_digit(radix));
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    u64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scan_whole(text: &str) -> (Option<FramingError>, bool) {
        let mut scan = Scan::new();
        let fault = scan.feed(text.as_bytes());
        (fault, scan.is_mid_request())
    }

    fn check(fields: &str, rest: &str, expected: Option<FramingError>) {
        let text = format!("POST /trigger/x HTTP/1.1\r\nHost: a\r\n{fields}\r\n{rest}");
        assert_eq!(scan_whole(&text).0, expected, "{text:?}");
    }

    #[test]
    fn content_length_with_chunked_encoding_is_an_error_in_either_order() {
        let expected = Some(FramingError::LengthAndEncoding);
        check("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "", expected);
        check("transfer-encoding: chunked\r\ncontent-length: 3\r\n", "", expected);
    }

    #[test]
    fn a_repeated_content_length_is_an_error_even_if_equal() {
        check("Content-Length: 3\r\nContent-Length: 3\r\n", "abc", Some(FramingError::RepeatedLength));
        check("Content-Length: 3, 3\r\n", "abc", Some(FramingError::BadLength));
        check("Content-Length: +3\r\n", "abc", Some(FramingError::BadLength));
        check("Content-Length:\r\n", "", Some(FramingError::BadLength));
        check("Content-Length: 99999999999999999999\r\n", "", Some(FramingError::BadLength));
    }

    #[test]
    fn chunked_is_the_only_accepted_transfer_encoding() {
        for value in ["gzip, chunked", "identity", "chunked, chunked", "xchunked", "\"chunked\"", ""] {
            check(&format!("Transfer-Encoding: {value}\r\n"), "", Some(FramingError::BadEncoding));
        }
        check(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "",
            Some(FramingError::BadEncoding),
        );
        check("Transfer-Encoding: Chunked \r\n", "0\r\n\r\n", None);
    }

    #[test]
    fn a_line_must_end_with_crlf() {
        assert_eq!(scan_whole("GET / HTTP/1.1\nHost: a\r\n\r\n").0, Some(FramingError::BareLineFeed));
        check("A: b\n", "", Some(FramingError::BareLineFeed));
        check("Transfer-Encoding: chunked\r\n", "1\na\r\n0\r\n\r\n", Some(FramingError::BareLineFeed));
    }

    #[test]
    fn a_fragment_in_the_request_target_is_an_error() {
        let long = "a".repeat(3 * KEPT);
        for target in ["/trigger/T/a#b", "/#", "/x?a#", &format!("/{long}#")] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(scan_whole(&text).0, Some(FramingError::Fragment), "{target}");
            let mut scan = Scan::new();
            let faults: Vec<_> = text.bytes().filter_map(|byte| scan.feed(&[byte])).collect();
            assert_eq!(faults.first(), Some(&FramingError::Fragment), "{target}");
        }
        check("X-Color: #fff\r\nContent-Length: 1\r\n", "#", None);
    }

    #[test]
    fn malformed_chunks_are_an_error() {
        for body in ["x\r\n", "\r\n", "-1\r\n", "1\r\nab\r\n", "11111111111111111\r\n", "0x1\r\n"] {
            check("Transfer-Encoding: chunked\r\n", body, Some(FramingError::BadChunk));
        }
        check(
            "Transfer-Encoding: chunked\r\n",
            "1;name=\"v\"\r\na\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n",
            None,
        );
    }

    #[test]
    fn a_request_is_in_progress_from_its_first_to_its_last_byte() {
        assert_eq!(scan_whole(""), (None, false));
        assert_eq!(scan_whole("\r\n"), (None, false));
        assert_eq!(scan_whole("P"), (None, true));
        assert_eq!(scan_whole("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab"), (None, true));
        assert_eq!(scan_whole("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), (None, false));
        assert_eq!(scan_whole("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"), (None, true));
        assert_eq!(
            scan_whole("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            (None, false)
        );
    }

    #[test]
    fn a_body_that_looks_like_a_head_is_not_scanned_as_one() {
        let smuggled = "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
        let text = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len());
        assert_eq!(scan_whole(&text), (None, false));
        assert_eq!(scan_whole(&format!("{text}{smuggled}")).0, Some(FramingError::RepeatedLength));
    }

    #[test]
    fn a_framing_header_padded_beyond_the_buffer_is_an_error() {
        let spaces = " ".repeat(KEPT);
        for (field, fault) in
            [("Content-Length", FramingError::BadLength), ("Transfer-Encoding", FramingError::BadEncoding)]
        {
            let mut scan = Scan::new();
            scan.feed(format!("GET / HTTP/1.1\r\n{field}:").as_bytes());
            scan.feed(spaces.as_bytes());
            assert_eq!(scan.feed(b"1\r\n"), Some(fault));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_scanner_panic(
            fields in "(Content-Length: [0-9]{1,20}\r\n|Transfer-Encoding: chunked\r\n|[a-z:\r\n]{0,9}){0,3}",
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut scan = Scan::new();
            scan.feed(format!("POST / HTTP/1.1\r\n{fields}\r\nffffffffffffffff\r\n").as_bytes());
            let first = scan.feed(&bytes);
            prop_assert!(first.is_none() || scan.feed(b"x") == first, "the first fault stays");
        }

        #[test]
        fn chunk_boundaries_do_not_change_the_result(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "POST / HTTP/1.1\r\n", "Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n", "\r\n", "\n", "abcd",
                "3\r\nabc\r\n", "0\r\n\r\n", "X: y\r\n", "GET / HTTP/1.1\r\nHost: b\r\n\r\n",
            ]), 0..12),
            cut in 1usize..7,
        ) {
            let text = pieces.concat();
            let mut scan = Scan::new();
            let mut fault = None;
            for part in text.as_bytes().chunks(cut) {
                fault = scan.feed(part);
            }
            let whole = scan_whole(&text);
            prop_assert_eq!((fault, scan.is_mid_request()), whole);
        }
    }
}
