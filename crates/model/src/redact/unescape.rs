//! Escapes in texts, undone before the search for secrets: encoders differ in which characters they escape, so a secret has too many escaped
//! forms to list.

use std::ops::Range;

use super::TRUNCATION_MARK;

/// The maximum of escapes of one character: a surrogate pair in JSON.
const LONGEST_ENTITY: usize = 10;

/// A kind of escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// `\u00fc`, `\"`, `\/` and the others of JSON and JavaScript.
    Json,
    /// `&amp;`, `&#252;`, `&#xfc;`.
    Html,
    /// `%C3%BC`.
    Percent,
}

impl Escapes {
    pub(super) const ALL: [Self; 3] = [Self::Json, Self::Html, Self::Percent];

    /// The byte with which an escape begins.
    fn first(self) -> u8 {
        match self {
            Self::Json => b'\\',
            Self::Html => b'&',
            Self::Percent => b'%',
        }
    }

    /// Decodes the escape at the beginning of `text` into `out`, and returns its length; `None` if no escape begins there.
    fn decode(self, text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        match self {
            Self::Json => decode_json(text, out),
            Self::Html => decode_html(text, out),
            Self::Percent => {
                let byte = u8::try_from(number(text.get(1..3)?, 16)?).ok()?;
                out.push(byte);
                Some(3)
            }
        }
    }
}

/// A text without its escapes, and where each of them was.
pub(super) struct Unescaped {
    pub(super) text: Vec<u8>,
    /// The ranges of escapes in the decoded text and in the source, in order.
    escapes: Vec<Escape>,
}

type Escape = (Range<usize>, Range<usize>);

impl Unescaped {
    /// Decodes the escapes of one kind; `None` if there are none. `wanted` says of the decoded text, in which most often nothing is found,
    /// if the places of its escapes are needed.
    pub(super) fn new(source: &[u8], kind: Escapes, wanted: impl Fn(&[u8]) -> bool) -> Option<Self> {
        let text = Self::decode(source, kind, None)?;
        if !wanted(&text) {
            return Some(Self { text, escapes: Vec::new() });
        }
        let mut escapes = Vec::new();
        let text = Self::decode(source, kind, Some(&mut escapes))?;
        Some(Self { text, escapes })
    }

    fn decode(source: &[u8], kind: Escapes, mut escapes: Option<&mut Vec<Escape>>) -> Option<Vec<u8>> {
        let mut found = memchr(kind.first(), source, 0)?;
        let (mut text, mut done, mut number) = (Vec::new(), 0, 0);
        loop {
            text.extend_from_slice(source.get(done..found)?);
            let start = text.len();
            match kind.decode(source.get(found..)?, &mut text) {
                Some(length) => {
                    number += 1;
                    if let Some(escapes) = &mut escapes {
                        escapes.push((start..text.len(), found..found + length));
                    }
                    done = found + length;
                }
                None => {
                    text.push(kind.first());
                    done = found + 1;
                }
            }
            let Some(next) = memchr(kind.first(), source, done) else { break };
            found = next;
        }
        text.extend_from_slice(source.get(done..)?);
        (number > 0).then_some(text)
    }

    /// Converts a range of the decoded text to the source. An escape that is in it in part is in it.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        self.at(range.start, false)..self.at(range.end, true)
    }

    fn at(&self, at: usize, is_end: bool) -> usize {
        // The escapes that begin before this place, and one at its end that was cut off.
        let before = self.escapes.partition_point(|(decoded, _)| {
            decoded.start < at || (decoded.start == at && (!is_end || decoded.is_empty()))
        });
        let Some((decoded, source)) = before.checked_sub(1).and_then(|last| self.escapes.get(last)) else {
            return at;
        };
        match () {
            () if at >= decoded.end && (is_end || at > decoded.start) => source.end + (at - decoded.end),
            () if is_end => source.end,
            () => source.start,
        }
    }
}

fn memchr(byte: u8, text: &[u8], from: usize) -> Option<usize> {
    text.get(from..)?.iter().position(|found| *found == byte).map(|at| from + at)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u32::from_str_radix(digits, radix).ok()
}

fn push(character: char, out: &mut Vec<u8>) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn decode_json(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let plain = match text.get(1)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        other @ (b'"' | b'\'' | b'\\' | b'/') => *other,
        b'u' => return decode_unicode(text, out).or_else(|| truncated(text)),
        _ => return truncated(text),
    };
    out.push(plain);
    Some(2)
}

fn decode_unicode(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let first = number(text.get(2..6)?, 16)?;
    if let Some(character) = char::from_u32(first) {
        push(character, out);
        return Some(6);
    }
    let second =
        text.get(6..8).filter(|start| *start == b"\\u").and_then(|_| number(text.get(8..12)?, 16))?;
    let high = first.checked_sub(0xd800).filter(|high| *high < 0x400)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    push(char::from_u32(0x1_0000 + (high << 10) + low)?, out);
    Some(12)
}

/// The length of an escape that was cut off at [`TRUNCATION_MARK`]; it decodes to nothing.
fn truncated(text: &[u8]) -> Option<usize> {
    let mut mark = [0; 4];
    let mark = TRUNCATION_MARK.encode_utf8(&mut mark).as_bytes();
    (1..12).find(|length| text.get(*length..).is_some_and(|rest| rest.starts_with(mark))).filter(|length| {
        let rest = text.get(1..*length).unwrap_or_default();
        rest.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'u' | b'\\'))
    })
}

fn decode_html(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let end = text.iter().take(LONGEST_ENTITY + 1).position(|byte| *byte == b';')?;
    let name = text.get(1..end)?;
    let character = match name {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        b"nbsp" => '\u{a0}',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
        _ => named(name)?,
    };
    push(character, out);
    Some(end + 1)
}

/// The letters of Latin 1 by the names that encoders use in place of their numbers.
fn named(name: &[u8]) -> Option<char> {
    const NAMES: [(&str, char); 14] = [
        ("auml", 'ä'),
        ("ouml", 'ö'),
        ("uuml", 'ü'),
        ("Auml", 'Ä'),
        ("Ouml", 'Ö'),
        ("Uuml", 'Ü'),
        ("szlig", 'ß'),
        ("eacute", 'é'),
        ("egrave", 'è'),
        ("agrave", 'à'),
        ("ccedil", 'ç'),
        ("ntilde", 'ñ'),
        ("pound", '£'),
        ("sect", '§'),
    ];
    NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, character)| *character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_ranges_lead_back_to_the_source() {
        let check = |kind, source: &str, decoded: &str| {
            let unescaped = Unescaped::new(source.as_bytes(), kind, |_| true).expect(source);
            assert_eq!(String::from_utf8_lossy(&unescaped.text), decoded, "{source}");
            unescaped
        };
        check(Escapes::Json, r#"a\u00FCb\u003c\/\"\\n\ud83d\ude00"#, "aüb</\"\\n😀");
        check(Escapes::Json, r"x\u00zz\u0041", r"x\u00zzA");
        check(Escapes::Html, "a&amp;b&#252;&#xFC;&none;&uuml;", "a&büü&none;ü");
        check(Escapes::Percent, "a%C3%bc%zz%2", "aü%zz%2");
        let found = check(Escapes::Json, r"12\u00fc34\u00fc56", "12ü34ü56");
        for (decoded, source) in [
            (0..2, 0..2),
            (1..4, 1..8),
            (3..4, 2..8),
            (4..5, 8..9),
            (2..4, 2..8),
            (6..10, 10..18),
            (8..10, 16..18),
        ] {
            assert_eq!(found.source(&decoded), source, "{decoded:?}");
        }
        assert!(Unescaped::new(b"none", Escapes::Json, |_| true).is_none());
        assert!(Unescaped::new(br"\x", Escapes::Json, |_| true).is_none());
    }
}
