//! Escapes in texts, undone before the search for secrets: encoders differ in which characters they escape, so a secret has too many escaped
//! forms to list.

use std::cell::OnceCell;
use std::ops::Range;

use memchr::{memchr, memchr3};
use text::TRUNCATION_MARK;

/// The maximum length in bytes of an HTML entity before its `;`, with room for a leading zero: `&#x010FFFF;`.
const LONGEST_ENTITY: usize = 10;

/// The least length of a decoded part, in bytes of the source.
const PART_BYTES: usize = 64 * 1024;

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

    /// Returns true if a text has a byte with which an escape of any kind begins.
    pub(super) fn may_be_in(text: &[u8]) -> bool {
        memchr3(b'\\', b'&', b'%', text).is_some()
    }

    /// The maximum length in bytes of the source of `decoded` bytes, including a mark of truncation and an escape that it cut off.
    pub(super) fn source_bytes(self, decoded: usize) -> usize {
        let per_byte = match self {
            Self::Json => 6,
            Self::Html => LONGEST_ENTITY + 1,
            Self::Percent => 3,
        };
        decoded.saturating_add(8).saturating_mul(per_byte)
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

/// A part of a text without its escapes.
pub(super) struct Unescaped<'s> {
    pub(super) text: Vec<u8>,
    source: &'s [u8],
    kind: Escapes,
    /// The part in the source.
    part: Range<usize>,
    /// The ranges of escapes in the decoded text and in the source, in order. Decoded again for them where something was found, which
    /// is rare.
    escapes: OnceCell<Vec<Escape>>,
}

type Escape = (Range<usize>, Range<usize>);

/// The parts of a text that have escapes of one kind, decoded one after another: a copy of a large body would be as large again.
pub(super) struct Parts<'s> {
    source: &'s [u8],
    kind: Escapes,
    /// Each range of the source up to this length that has an escape is in a part.
    longest: usize,
    /// The length of a part in the source.
    size: usize,
    /// The beginning of the next part, which is not inside an escape; `None` at the end.
    next: Option<usize>,
}

impl<'s> Parts<'s> {
    pub(super) fn new(source: &'s [u8], kind: Escapes, longest: usize) -> Self {
        let size = longest.saturating_mul(2).max(PART_BYTES);
        Self { source, kind, longest, size, next: Some(0) }
    }
}

impl<'s> Iterator for Parts<'s> {
    type Item = Unescaped<'s>;

    fn next(&mut self) -> Option<Unescaped<'s>> {
        loop {
            let from = self.next.take()?;
            let escape = from + memchr(self.kind.first(), self.source.get(from..)?)?;
            let start = escape.saturating_sub(self.longest).max(from);
            let end = start.saturating_add(self.size);
            let (mut is_escaped, mut boundary) = (false, start);
            let overlap = end.saturating_sub(self.longest);
            let (text, end) = decode(self.source, self.kind, start..end, |piece, decoded| {
                if piece.start <= overlap {
                    boundary = if decoded.is_none() { overlap.min(piece.end) } else { piece.start };
                }
                is_escaped |= decoded.is_some();
            });
            self.next = (end < self.source.len()).then_some(boundary);
            if is_escaped {
                let (source, kind) = (self.source, self.kind);
                return Some(Unescaped { text, source, kind, part: start..end, escapes: OnceCell::new() });
            }
        }
    }
}

/// Decodes a part of a source, and the whole of an escape at its end. Calls `piece` with each piece of the source: a plain one, or an
/// escape with its place in the decoded text. Returns the decoded text, and the end of the part.
fn decode(
    source: &[u8],
    kind: Escapes,
    part: Range<usize>,
    mut piece: impl FnMut(Range<usize>, Option<Range<usize>>),
) -> (Vec<u8>, usize) {
    let end = part.end.min(source.len());
    let (mut text, mut done) = (Vec::with_capacity(end.saturating_sub(part.start)), part.start);
    while done < end {
        let plain = source.get(done..end).unwrap_or_default();
        let length = memchr(kind.first(), plain).unwrap_or(plain.len());
        text.extend_from_slice(plain.get(..length).unwrap_or_default());
        piece(done..done + length, None);
        done += length;
        if done == end {
            break;
        }
        let start = text.len();
        match kind.decode(source.get(done..).unwrap_or_default(), &mut text) {
            Some(length) => {
                piece(done..done + length, Some(start..text.len()));
                done += length;
            }
            None => {
                text.push(kind.first());
                piece(done..done + 1, None);
                done += 1;
            }
        }
    }
    (text, done)
}

impl Unescaped<'_> {
    fn escapes(&self) -> &[Escape] {
        self.escapes.get_or_init(|| {
            let mut escapes = Vec::new();
            decode(self.source, self.kind, self.part.clone(), |piece, decoded| {
                escapes.extend(decoded.map(|decoded| (decoded, piece)));
            });
            escapes
        })
    }

    /// Converts a range of the decoded text to the source. An escape that is in it in part is in it.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        self.at(range.start, false)..self.at(range.end, true)
    }

    fn at(&self, at: usize, is_end: bool) -> usize {
        // The escapes that begin before this place, and one at its end that was cut off.
        let escapes = self.escapes();
        let before = escapes.partition_point(|(decoded, _)| {
            decoded.start < at || (decoded.start == at && (!is_end || decoded.is_empty()))
        });
        let Some((decoded, source)) = before.checked_sub(1).and_then(|last| escapes.get(last)) else {
            return self.part.start + at;
        };
        match () {
            () if at >= decoded.end && (is_end || at > decoded.start) => source.end + (at - decoded.end),
            () if is_end => source.end,
            () => source.start,
        }
    }
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
    fn escapes_are_decoded_and_ranges_map_back_to_the_source() {
        fn check<'s>(kind: Escapes, source: &'s str, decoded: &str) -> Unescaped<'s> {
            let mut parts = Parts::new(source.as_bytes(), kind, 100);
            let unescaped = parts.next().expect(source);
            assert_eq!(String::from_utf8_lossy(&unescaped.text), decoded, "{source}");
            assert!(parts.next().is_none(), "{source}");
            unescaped
        }
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
        assert!(Parts::new(b"none", Escapes::Json, 100).next().is_none());
        assert!(Parts::new(br"\x", Escapes::Json, 100).next().is_none());
    }

    /// The places in the source of a text in its decoded parts.
    fn places(parts: Parts<'_>, wanted: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for part in parts {
            let at = |start: &usize| part.text.get(*start..).is_some_and(|rest| rest.starts_with(wanted));
            found.extend((0..part.text.len()).filter(at).map(|at| part.source(&(at..at + wanted.len()))));
        }
        found.sort_unstable_by_key(|range| (range.start, range.end));
        found.dedup();
        found
    }

    #[test]
    fn unescaping_in_parts_covers_every_position_of_the_text() {
        let longest = Escapes::Json.source_bytes(4);
        for shift in 0..13 {
            let mut source = "x".repeat(shift);
            for number in 0..40 {
                // Runs of backslashes, of which a part in the middle would begin with another meaning.
                source += &r"\\".repeat(number % 13);
                source += [r"s\u0065cr", r"secr\n", r"\u0073\u0065\u0063\u0072", "secr"][number % 4];
                source += &"-".repeat(number * 7 % 31);
            }
            let whole = places(Parts::new(source.as_bytes(), Escapes::Json, longest), b"secr");
            assert_eq!(whole.len(), 40);
            let parts =
                || Parts { size: 2 * longest, ..Parts::new(source.as_bytes(), Escapes::Json, longest) };
            assert!(parts().count() > 5);
            let mut found = places(parts(), b"secr");
            // A search of the raw text finds secrets without escapes.
            found.extend(source.match_indices("secr").map(|(at, text)| at..at + text.len()));
            found.sort_unstable_by_key(|range| range.start);
            found.dedup();
            assert_eq!(found, whole, "{source}");
        }
    }

    #[test]
    fn parts_are_small_and_text_between_sparse_escapes_is_not_copied() {
        let source = format!("{}\\{}", "a".repeat(300_000), "b".repeat(300_000));
        let parts: Vec<usize> =
            Parts::new(source.as_bytes(), Escapes::Json, 100).map(|part| part.text.len()).collect();
        assert_eq!(parts, [PART_BYTES - 1]);
        let source = "\\".repeat(300_000);
        assert!(Parts::new(source.as_bytes(), Escapes::Json, 100).all(|part| part.text.len() <= PART_BYTES));
    }
}
