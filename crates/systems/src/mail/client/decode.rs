//! The transfer encodings of parts, decoded while their pieces arrive.

/// The encoding of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// The bytes themselves.
    Plain,
    Base64,
    QuotedPrintable,
}

/// Decodes a part. What breaks the rules of its encoding is left out or kept as it is, as programs for mail do.
#[derive(Debug)]
pub(super) struct Decoder {
    encoding: Encoding,
    /// The bits of base64 that no byte has yet, and their number of characters.
    bits: u32,
    count: u8,
    /// The characters behind `=` of quoted-printable that are not decoded yet, and that sign.
    escape: Vec<u8>,
}

impl Decoder {
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, bits: 0, count: 0, escape: Vec::new() }
    }

    /// Decodes a piece, which may end anywhere.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Plain => out.extend_from_slice(piece),
            Encoding::Base64 => piece.iter().for_each(|byte| self.base64(*byte, out)),
            Encoding::QuotedPrintable => piece.iter().for_each(|byte| self.quoted(*byte, out)),
        }
    }

    /// Decodes the rest at the end.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        self.end_base64(out);
        if self.escape != b"=" && self.escape != b"=\r" {
            out.append(&mut self.escape);
        }
    }

    fn base64(&mut self, byte: u8, out: &mut Vec<u8>) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            // Some programs encode a file in pieces, each with its end.
            b'=' => return self.end_base64(out),
            _ => return,
        };
        self.bits = self.bits << 6 | u32::from(value);
        self.count += 1;
        if self.count == 4 {
            out.extend_from_slice(self.bits.to_be_bytes().get(1..).unwrap_or_default());
            (self.bits, self.count) = (0, 0);
        }
    }

    fn end_base64(&mut self, out: &mut Vec<u8>) {
        let bytes = usize::from(self.count.saturating_sub(1));
        let missing = 4 - u32::from(self.count);
        let bits = if missing == 4 { 0 } else { self.bits << (6 * missing) };
        out.extend(bits.to_be_bytes().iter().skip(1).take(bytes));
        (self.bits, self.count) = (0, 0);
    }

    fn quoted(&mut self, byte: u8, out: &mut Vec<u8>) {
        match (self.escape.as_slice(), byte) {
            ([], b'=') => self.escape.push(byte),
            ([], _) => out.push(byte),
            // A line that goes on.
            ([_], b'\n') | ([_, b'\r'], b'\n') => self.escape.clear(),
            ([_], b'\r') => self.escape.push(byte),
            ([_], _) if byte.is_ascii_hexdigit() => self.escape.push(byte),
            ([_, high], _) if high.is_ascii_hexdigit() && byte.is_ascii_hexdigit() => {
                let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
                out.push(digit(*high) << 4 | digit(byte));
                self.escape.clear();
            }
            _ => {
                out.append(&mut self.escape);
                self.quoted(byte, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn decode(encoding: Encoding, text: &[u8], size: usize) -> Vec<u8> {
        let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
        text.chunks(size).for_each(|piece| decoder.push(piece, &mut out));
        decoder.finish(&mut out);
        out
    }

    #[test]
    fn encodings_are_decoded_as_programs_for_mail_do() {
        for (encoding, text, expected) in [
            (Encoding::Plain, "a=3D\r\n", "a=3D\r\n"),
            (Encoding::QuotedPrintable, "a=3D=\r\nb=\nc=c3=BC\r\n", "a=bcü\r\n"),
            (Encoding::QuotedPrintable, "a=xy=4z==41=", "a=xy=4z=A"),
            (Encoding::QuotedPrintable, "=\rx=4", "=\rx=4"),
            (Encoding::Base64, "SGVs\r\nbG8=\r\n", "Hello"),
            (Encoding::Base64, "SGk=SGk=", "HiHi"),
            (Encoding::Base64, "SGk", "Hi"),
            (Encoding::Base64, "S", ""),
        ] {
            for size in [1, 2, 3, 100] {
                let decoded = decode(encoding, text.as_bytes(), size);
                assert_eq!(String::from_utf8_lossy(&decoded), expected, "{text} by {size}");
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in any::<Vec<u8>>(), size in 1..50_usize) {
            let text = STANDARD.encode(&bytes);
            let lines: Vec<&[u8]> = text.as_bytes().chunks(76).collect();
            prop_assert_eq!(decode(Encoding::Base64, &lines.join(b"\r\n".as_slice()), size), bytes.clone());
            let text: String = bytes.iter().map(|byte| format!("={byte:02X}")).collect();
            prop_assert_eq!(decode(Encoding::QuotedPrintable, text.as_bytes(), size), bytes);
        }

        #[test]
        fn pieces_change_nothing(bytes in any::<Vec<u8>>(), size in 1..50_usize) {
            for encoding in [Encoding::Plain, Encoding::Base64, Encoding::QuotedPrintable] {
                prop_assert_eq!(decode(encoding, &bytes, size), decode(encoding, &bytes, bytes.len().max(1)));
            }
        }
    }
}
