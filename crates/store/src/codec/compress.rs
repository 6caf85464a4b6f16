//! Compression of blobs: the text of the value, compressed if that saves enough space.

use std::io::{self, BufRead, ErrorKind, Read, Write as _};

use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

/// The magic number of a Zstandard frame (RFC 8878, 3.1.1). An uncompressed value begins with a quote, a brace or a bracket,
/// so the content of a file shows whether it is compressed.
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The compression level: the default of the library, about 300 MB a second.
const LEVEL: i32 = 3;

/// The largest window of a frame that is read, as a power of two: 8 MiB, the most that [`LEVEL`] uses.
const LARGEST_WINDOW: u32 = 23;

/// The bytes that are compressed or compared at a time. Neither holds a second copy of the content.
const PART: usize = 64 << 10;

/// Compresses; `None` if that saves less than a tenth.
pub(crate) fn compress(content: &[u8]) -> Option<Vec<u8>> {
    let most = content.len() / 10 * 9;
    let mut encoder = Encoder::new(Vec::new(), LEVEL).ok()?;
    encoder.set_pledged_src_size(Some(u64::try_from(content.len()).ok()?)).ok()?;
    for part in content.chunks(PART) {
        encoder.write_all(part).ok()?;
        if encoder.get_ref().len() > most {
            return None;
        }
    }
    let packed = encoder.finish().ok()?;
    (packed.len() <= most).then_some(packed)
}

/// Decompresses stored bytes; `None` if the result does not have `length` bytes.
pub(crate) fn decompress(stored: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    let content =
        if stored.starts_with(&FRAME) { zstd::bulk::decompress(&stored, length).ok()? } else { stored };
    (content.len() == length).then_some(content)
}

/// True if stored bytes stand for this content. A damaged frame does not.
///
/// # Errors
/// The error of the first read.
pub(crate) fn holds(mut stored: impl BufRead, content: &[u8]) -> io::Result<bool> {
    if !stored.fill_buf()?.starts_with(&FRAME) {
        return is_equal(stored, content);
    }
    let frame = Decoder::with_buffer(stored).and_then(|mut decoder| {
        decoder.window_log_max(LARGEST_WINDOW)?;
        is_equal(decoder, content)
    });
    Ok(frame.unwrap_or(false))
}

fn is_equal(mut stored: impl Read, content: &[u8]) -> io::Result<bool> {
    let mut part = vec![0; PART];
    let mut left = content;
    loop {
        let read = match stored.read(&mut part) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        match left.strip_prefix(&part[..read]) {
            Some(rest) if read > 0 => left = rest,
            rest => return Ok(rest.is_some_and(<[u8]>::is_empty)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compresses_well_is_smaller_and_comes_back() {
        let content = format!("[{}]", "\"the same again\",".repeat(1000)).into_bytes();
        let packed = compress(&content).expect("it pays");
        assert!(packed.len() < content.len() / 20);
        assert_eq!(decompress(packed.clone(), content.len()), Some(content.clone()));
        assert_eq!(decompress(packed, content.len() - 1), None, "no more than was asked for");
    }

    #[test]
    fn what_does_not_compress_stays_as_it_is() {
        // From a generator whose output looks random.
        let mut state = 1_u64;
        let noise = (0..5000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[1]
        });
        let content: Vec<u8> = std::iter::once(b'"').chain(noise).collect();
        assert!(compress(&content).is_none());
        assert_eq!(decompress(content.clone(), content.len()), Some(content));
    }

    #[test]
    fn what_is_damaged_is_not_given() {
        let content = vec![b'['; 10_000];
        let mut packed = compress(&content).expect("it pays");
        packed.truncate(packed.len() / 2);
        assert!(!holds(&packed[..], &content).expect("it is read"));
        assert_eq!(decompress(packed, content.len()), None);
    }

    #[test]
    fn stored_bytes_hold_one_content_compressed_or_not() {
        let content = format!("[{}]", "\"the same again\",".repeat(20_000)).into_bytes();
        let packed = compress(&content).expect("it pays");
        for stored in [&content, &packed] {
            let is_held = |content: &[u8]| holds(&stored[..], content).expect("it is read");
            assert!(is_held(&content));
            assert!(!is_held(&content[..content.len() - 1]), "longer than what is asked for");
            assert!(!is_held(&[&content[..], b"x"].concat()), "shorter");
            let mut other = content.clone();
            other[100_000] = b'x';
            assert!(!is_held(&other));
        }
        assert!(!holds(&b""[..], b"[]").expect("it is read"), "an empty file holds nothing");
    }
}
