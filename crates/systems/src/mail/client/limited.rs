//! A stream whose responses are bounded before a parser sees them.
//!
//! The parser holds a response in memory, trusts the length of a literal, and calls itself for each list in a list. So a response has a
//! limit for its bytes, for the bytes of its literals, and for the depth of its lists. The scan takes the same bytes for literals as the
//! parser does: what could be read in two ways is refused.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::watched::{Watch, Watched};

/// The most bytes of a response outside its literals.
pub(super) const MAX_LINE: usize = 256 << 10;
/// The most bytes of all literals of a response.
pub(super) const MAX_LITERALS: usize = 512 << 10;
/// The largest depth of lists in a response.
pub(super) const MAX_LISTS: usize = 40;

/// A connection, with TLS or without.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<W: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Wire for W {}

/// A connection to a server whose responses are bounded.
pub(super) type Limited = Watched<Box<dyn Wire>, Scan>;

impl Watch for Scan {
    fn check(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.take(bytes).map_err(io::Error::other)
    }
}

/// The limit that a response exceeds, or the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Excess {
    /// The response is too long.
    #[error("an answer has more than {} KiB beside its texts", MAX_LINE >> 10)]
    Line,
    /// Its literals are too long.
    #[error("the texts of an answer have more than {} KiB", MAX_LITERALS >> 10)]
    Literals,
    /// Its lists are too deep.
    #[error("an answer has lists in lists, more than {MAX_LISTS} deep")]
    Lists,
    /// It is no response of the protocol.
    #[error("an answer breaks the rules of IMAP")]
    Form,
}

/// The place in a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The first bytes of a response, which tell its kind.
    #[default]
    Start,
    /// The text of a status response or of a continuation, which has neither lists nor literals.
    Free,
    /// Behind what would begin a literal in data, with the next byte that it needs, of `digits}` and a line break.
    FreeSize(u8),
    Data,
    Quoted,
    Escaped,
    /// The digits of a literal's length.
    Size(usize),
    /// Behind the length, and behind its carriage return.
    SizeEnd(usize),
    SizeReturn(usize),
    /// The bytes of a literal that are still to come.
    Literal(usize),
}

/// Reads the responses of a server byte by byte.
#[derive(Debug, Default)]
pub(super) struct Scan {
    state: State,
    /// The first bytes of the response, in upper case.
    start: Vec<u8>,
    line: usize,
    literals: usize,
    depth: usize,
    /// The number of responses that have arrived as a whole.
    pub(super) complete: u64,
}

/// The length at which the kind of a response is known: `* PREAUTH `.
const START: usize = 10;

impl Scan {
    /// Checks the next bytes. A byte outside of strings that is not ASCII, which none has to be, becomes `?`: the parser cuts some texts
    /// at bytes.
    fn take(&mut self, mut bytes: &mut [u8]) -> Result<(), Excess> {
        while !bytes.is_empty() {
            if let State::Literal(left) = self.state {
                let skipped = left.min(bytes.len());
                self.state = if left > skipped { State::Literal(left - skipped) } else { State::Data };
                bytes = bytes.get_mut(skipped..).unwrap_or_default();
                continue;
            }
            let Some((byte, rest)) = bytes.split_first_mut() else { break };
            if !byte.is_ascii() && !matches!(self.state, State::Quoted | State::Escaped) {
                *byte = b'?';
            }
            self.line += 1;
            if self.line > MAX_LINE {
                return Err(Excess::Line);
            }
            self.state = self.next(*byte)?;
            bytes = rest;
        }
        Ok(())
    }

    fn next(&mut self, byte: u8) -> Result<State, Excess> {
        let state = match (self.state, byte) {
            (State::Quoted | State::Escaped, b'\n' | b'\r') => return Err(Excess::Form),
            (State::FreeSize(b'\n'), b'\n') => return Err(Excess::Form),
            (State::Start | State::Free | State::FreeSize(_) | State::Data, b'\n') => return Ok(self.end()),
            (State::Start, _) => self.begin(byte),
            (State::Free, b'{') => State::FreeSize(b'0'),
            (State::FreeSize(b'0'), b'0'..=b'9') => State::FreeSize(b'0'),
            (State::FreeSize(b'0'), b'}') => State::FreeSize(b'\r'),
            (State::FreeSize(b'\r'), b'\r') => State::FreeSize(b'\n'),
            (State::Free | State::FreeSize(_), _) => {
                if byte == b'{' {
                    State::FreeSize(b'0')
                } else {
                    State::Free
                }
            }
            (State::Quoted, b'"') => State::Data,
            (State::Quoted, b'\\') => State::Escaped,
            (State::Quoted | State::Escaped, _) => State::Quoted,
            (State::Size(size), b'0'..=b'9') => self.size(size, byte)?,
            (State::Size(size), b'}') => State::SizeEnd(size),
            (State::SizeEnd(size), b'\r') => State::SizeReturn(size),
            (State::SizeReturn(size), b'\n') => self.literal(size)?,
            (State::Size(_) | State::SizeEnd(_) | State::SizeReturn(_), _) => return Err(Excess::Form),
            (State::Data, b'"') => State::Quoted,
            (State::Data, b'{') => State::Size(0),
            (State::Data, b'(') => {
                self.depth += 1;
                if self.depth > MAX_LISTS {
                    return Err(Excess::Lists);
                }
                State::Data
            }
            (State::Data, b')') => {
                self.depth = self.depth.saturating_sub(1);
                State::Data
            }
            (other, _) => other,
        };
        Ok(state)
    }

    /// Tells the kind of a response by its first bytes.
    fn begin(&mut self, byte: u8) -> State {
        self.start.push(byte.to_ascii_uppercase());
        let Some(data) = self.start.strip_prefix(b"* ") else {
            let may_be_data = self.start == b"*";
            return if may_be_data { State::Start } else { State::Free };
        };
        let statuses: [&[u8]; 5] = [b"OK", b"NO", b"BAD", b"BYE", b"PREAUTH"];
        let is_status = |status: &&[u8]| {
            data.strip_prefix(*status).is_some_and(|rest| matches!(rest.first(), None | Some(b' ' | b'\r')))
        };
        if statuses.iter().any(|status| is_status(status) && data.len() > status.len()) {
            State::Free
        } else if statuses.iter().any(|status| status.starts_with(data)) && self.start.len() < START {
            State::Start
        } else {
            match byte {
                b'(' => {
                    self.depth += 1;
                    State::Data
                }
                b'"' => State::Quoted,
                b'{' => State::Size(0),
                _ => State::Data,
            }
        }
    }

    fn size(&self, size: usize, digit: u8) -> Result<State, Excess> {
        let size = size.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
        if self.literals.saturating_add(size) > MAX_LITERALS {
            Err(Excess::Literals)
        } else {
            Ok(State::Size(size))
        }
    }

    fn literal(&mut self, size: usize) -> Result<State, Excess> {
        self.literals = self.literals.saturating_add(size);
        match size {
            0 => Ok(State::Data),
            _ if self.literals > MAX_LITERALS => Err(Excess::Literals),
            size => Ok(State::Literal(size)),
        }
    }

    fn end(&mut self) -> State {
        self.start.clear();
        (self.line, self.literals, self.depth) = (0, 0, 0);
        self.complete += 1;
        State::Start
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// The number of complete responses, in whatever pieces they arrive.
    fn scan(text: &[u8]) -> Result<u64, Excess> {
        let scan = |size: usize| {
            let (mut scan, mut text) = (Scan::default(), text.to_vec());
            text.chunks_mut(size).try_for_each(|piece| scan.take(piece)).map(|()| scan.complete)
        };
        let whole = scan(text.len().max(1));
        assert_eq!(scan(1), whole);
        assert_eq!(scan(7), whole);
        whole
    }

    #[test]
    fn responses_of_a_good_server_pass() {
        for (text, complete) in [
            ("* OK [CAPABILITY IMAP4rev1] say \"hi :-( {3} x\r\n", 1),
            ("* ok x\r\n* BYE (((\r\n* PREAUTH \"\r\nA1 NO [X] (\"\r\n+ (\"\r\n+\r\n", 6),
            ("* 2 FETCH (UID 3 BODY[] {5}\r\n((\"\r\n FLAGS (\\Seen))\r\n* 3 EXISTS\r\n", 2),
            ("* LIST () \"/\" \"a\\\"{9}\"\r\n* BADLY\r\n* OKAY\r\n", 3),
            ("* 2 FETCH (BODY[] {0}\r\n)\r\n", 1),
        ] {
            assert_eq!(scan(text.as_bytes()), Ok(complete), "{text}");
        }
    }

    #[test]
    fn responses_have_limits() {
        let big = format!("* 1 FETCH (BODY[] {{{}}}\r\n", MAX_LITERALS + 1);
        assert_eq!(scan(big.as_bytes()), Err(Excess::Literals));
        assert_eq!(scan(b"* 1 FETCH (BODY[] {99999999999999999999999}\r\n"), Err(Excess::Literals));
        let two = format!("* 1 FETCH (A {{{}}}\r\n", MAX_LITERALS);
        let two = [two.as_bytes(), &vec![b'x'; MAX_LITERALS], b" B {1}\r\n"].concat();
        assert_eq!(scan(&two), Err(Excess::Literals));
        assert_eq!(scan(&[b"* SEARCH ".as_slice(), &vec![b'1'; MAX_LINE]].concat()), Err(Excess::Line));
        assert_eq!(scan(&vec![b'1'; MAX_LINE + 1]), Err(Excess::Line));
        let deep = format!("* 1 FETCH {}", "(".repeat(MAX_LISTS + 1));
        assert_eq!(scan(deep.as_bytes()), Err(Excess::Lists));
        assert_eq!(scan(format!("* {}", "(".repeat(MAX_LISTS + 1)).as_bytes()), Err(Excess::Lists));
    }

    #[test]
    fn a_literal_stands_in_data_only_and_a_text_ends_in_its_line() {
        for text in [
            "* OK {300000}\r\n* 1 FETCH (((",
            "* OK [BADCHARSET ({5}\r\n",
            "A1 OK {5}\r\n",
            "+ {5}\r\n",
            "* OK {{5}\r\n",
            "* 1 FETCH (X \"a\r\n",
            "* 1 FETCH (X \"a\\\r\n",
            "* 1 FETCH (X {5}x",
            "* 1 FETCH (X {5x}",
        ] {
            assert_eq!(scan(text.as_bytes()), Err(Excess::Form), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_ascii_are_replaced_outside_of_strings() {
        let (mut scan, mut text) =
            (Scan::default(), "* OK [ALERT]é\r\n* 1 FETCH (X {2}\r\né \"é\")\r\n".as_bytes().to_vec());
        scan.take(&mut text).expect("it is good");
        assert_eq!(String::from_utf8_lossy(&text), "* OK [ALERT]??\r\n* 1 FETCH (X {2}\r\né \"é\")\r\n");
    }
}
