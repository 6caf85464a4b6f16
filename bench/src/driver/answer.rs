//! Reading an answer of HTTP/1.1 from the bytes that have come so far: only what our servers send.

/// Maximum number of bytes of a header section.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of bytes of a body.
const MAX_BODY: usize = 1 << 20;

/// The positions of the parts of a complete answer in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) status: u16,
    /// The end of the head with its blank line, which is the beginning of the body.
    pub(super) head: usize,
    /// The end of the body.
    pub(super) end: usize,
}

/// The layout of the answer at the beginning of `bytes`; `None` if more has to come. `bodiless` says that the request
/// was one whose answer has no body, independent of its length header.
pub(super) fn parse(bytes: &[u8], bodiless: bool) -> Result<Option<Layout>, String> {
    let Some(head) = head_end(bytes) else {
        let long = bytes.len() > MAX_HEAD;
        return if long { Err(format!("a head of more than {MAX_HEAD} bytes")) } else { Ok(None) };
    };
    let text = std::str::from_utf8(&bytes[..head]).map_err(|_| "a head that is no text".to_owned())?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| format!("no status in `{first}`"))?;
    let mut length = None;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            let number = value.trim().parse::<usize>();
            length = Some(number.map_err(|_| format!("the length `{value}` is no number"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("an answer in chunks, which no server here sends".to_owned());
        }
    }
    let length = match length {
        _ if bodiless || status == 204 || status == 304 => 0,
        Some(length) if length > MAX_BODY => {
            return Err(format!("a body of {length} bytes, more than {MAX_BODY}"));
        }
        Some(length) => length,
        None => return Err("an answer without its length".to_owned()),
    };
    let end = head + length;
    Ok((bytes.len() >= end).then_some(Layout { status, head, end }))
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWER: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\ndate: x\r\n\r\nhello";

    fn check(text: &str, expected: Result<Option<(u16, &str)>, &str>) {
        let found = parse(text.as_bytes(), false);
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let found = found.map(|layout| (layout.status, &text[layout.head..layout.end]));
                assert_eq!(found, expected, "{text:?}");
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{text:?}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_response_is_parsed_once_it_is_complete() {
        check(ANSWER, Ok(Some((202, "hello"))));
        check(&ANSWER[..ANSWER.len() - 1], Ok(None));
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Ok(Some((200, ""))));
        check("", Ok(None));
    }

    #[test]
    fn bytes_after_a_response_are_not_part_of_it() {
        check(&format!("{ANSWER}HTTP/1.1 500"), Ok(Some((202, "hello"))));
    }

    #[test]
    fn a_204_or_head_response_has_no_body() {
        check("HTTP/1.1 204 No Content\r\n\r\n", Ok(Some((204, ""))));
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
        let layout = Layout { status: 200, head: head.len(), end: head.len() };
        assert_eq!(parse(head, true), Ok(Some(layout)));
    }

    #[test]
    fn an_unsupported_response_is_an_error() {
        check("HTTP/1.0 200 OK\r\n\r\n", Err("no status"));
        check("HTTP/1.1 20\r\n\r\n", Err("no status"));
        check("HTTP/1.1 200 OK\r\n\r\n", Err("without its length"));
        check("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", Err("no number"));
        check("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n", Err("more than"));
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Err("in chunks"));
        check(&"x".repeat(MAX_HEAD + 1), Err("a head of more than"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(bytes: Vec<u8>, fields in "(content-length: [0-9]{0,25}|[ -~]{0,9})") {
            let _ = parse(&bytes, false);
            let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
            let _ = parse(&[text.as_bytes(), &bytes].concat(), false);
        }

        #[test]
        fn a_response_is_incomplete_until_its_last_byte(body in "[a-z]{0,50}", more: Vec<u8>) {
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            for cut in 0..text.len() {
                prop_assert_eq!(parse(&text.as_bytes()[..cut], false), Ok(None));
            }
            let layout = Layout { status: 200, head: text.len() - body.len(), end: text.len() };
            prop_assert_eq!(parse(&[text.as_bytes(), &more].concat(), false), Ok(Some(layout)));
        }
    }
}
