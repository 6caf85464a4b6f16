//! Compression of blobs: the text of the value, compressed if that saves enough space.

/// The magic number of a Zstandard frame (RFC 8878, 3.1.1). An uncompressed value begins with a quote, a brace or a bracket,
/// so the content of a file shows whether it is compressed.
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The compression level: the default of the library, about 300 MB a second.
const LEVEL: i32 = 3;

/// Compresses; `None` if that saves less than a tenth.
pub fn compress(content: &[u8]) -> Option<Vec<u8>> {
    let packed = zstd::bulk::compress(content, LEVEL).ok()?;
    (packed.len() <= content.len() / 10 * 9).then_some(packed)
}

/// Decompresses stored bytes; `None` if the result does not have `length` bytes.
pub fn decompress(stored: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    let content =
        if stored.starts_with(&FRAME) { zstd::bulk::decompress(&stored, length).ok()? } else { stored };
    (content.len() == length).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressible_content_shrinks_and_round_trips() {
        let content = format!("[{}]", "\"the same again\",".repeat(1000)).into_bytes();
        let packed = compress(&content).expect("it pays");
        assert!(packed.len() < content.len() / 20);
        assert_eq!(decompress(packed.clone(), content.len()), Some(content.clone()));
        assert_eq!(decompress(packed, content.len() - 1), None, "no more than was asked for");
    }

    #[test]
    fn incompressible_content_is_stored_unchanged() {
        // From a pseudorandom generator.
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
    fn damaged_content_is_not_decompressed() {
        let content = vec![b'['; 10_000];
        let mut packed = compress(&content).expect("it pays");
        packed.truncate(packed.len() / 2);
        assert_eq!(decompress(packed, content.len()), None);
    }
}
