//! Conversion between byte offsets and offsets in UTF-16 code units, in which JavaScript and editors count.

/// The bytes between two stored offsets.
const STRIDE: usize = 256;

/// An index of a text. Each conversion reads at most 256 bytes.
#[derive(Debug)]
pub struct Utf16Index<'t> {
    text: &'t str,
    /// For each multiple of the stride, rounded down to a character: the bytes and the units before it.
    marks: Vec<(usize, usize)>,
}

impl<'t> Utf16Index<'t> {
    /// Creates the index of a text.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        let (mut marks, mut last, mut units) = (Vec::with_capacity(text.len() / STRIDE + 1), 0, 0);
        for at in (0..=text.len()).step_by(STRIDE) {
            let at = text.floor_char_boundary(at);
            units += units_of(&text[last..at]);
            last = at;
            marks.push((at, units));
        }
        Self { text, marks }
    }

    /// The offset in UTF-16 units of a byte; an offset past the end gives the end.
    #[must_use]
    pub fn units_at(&self, offset: usize) -> usize {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let (bytes, units) = self.mark(|mark| mark.0 <= offset);
        units + units_of(&self.text[bytes..offset])
    }

    /// The byte of an offset in UTF-16 units; the middle of a character gives its start, an offset past the end the end.
    #[must_use]
    pub fn byte_at(&self, offset: usize) -> usize {
        let (mut bytes, mut units) = self.mark(|mark| mark.1 <= offset);
        for c in self.text[bytes..].chars() {
            units += c.len_utf16();
            if units > offset {
                break;
            }
            bytes += c.len_utf8();
        }
        bytes
    }

    fn mark(&self, is_before: impl Fn(&(usize, usize)) -> bool) -> (usize, usize) {
        let after = self.marks.partition_point(is_before);
        after.checked_sub(1).and_then(|last| self.marks.get(last)).copied().unwrap_or_default()
    }
}

fn units_of(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn utf16_offsets_round_trip(text in "([a-zé日😀\n]{0,20}){0,40}", at in 0usize..2000) {
            let index = Utf16Index::new(&text);
            let byte = text.floor_char_boundary(at.min(text.len()));
            let units = text[..byte].encode_utf16().count();
            prop_assert_eq!(index.units_at(byte), units);
            prop_assert_eq!(index.byte_at(units), byte);
        }
    }

    #[test]
    fn an_offset_inside_a_character_maps_to_its_start() {
        let index = Utf16Index::new("a😀b");
        assert_eq!((index.byte_at(2), index.byte_at(3), index.byte_at(99)), (1, 5, 6));
        assert_eq!((index.units_at(3), index.units_at(99)), (1, 4));
    }
}
