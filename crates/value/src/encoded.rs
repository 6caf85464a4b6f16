//! JSON and forms that contain external files, without the files in memory: the bytes are made from the files while they are
//! read.
//!
//! The result is a [`Blob`] of segments: text in memory, and ranges that encode a file chunk by chunk. Its length and its hash
//! are computed once, so it is sent and stored like any other file.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sha2::{Digest as _, Sha256};

use super::data::{Blob, Data, ExternalBytes, FileLoadError, damaged};
use super::{File, Value};

/// The bytes of a file that are encoded at a time: a multiple of three, so that base64 has padding only at the end.
const CHUNK: usize = 96 << 10;
/// The unreserved characters of URLs (RFC 3986, section 2.3) stay.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes `value` as JSON in the public form, with the bytes of its files. Reads external files, which may have `max` bytes
/// together. Blocks if there are any.
///
/// # Errors
/// Returns an error if the external files have more bytes, or one cannot be read.
pub fn encode_json(value: &Value, max: usize) -> Result<Data, FileLoadError> {
    if !value.has_external_file() {
        return Ok(value.to_json().into());
    }
    check_size(value.external_bytes(), max)?;
    let mut encoder = Encoder::default();
    encoder.json(value, &[Layer::Json])?;
    Ok(encoder.finish())
}

/// Encodes `fields` as `application/x-www-form-urlencoded`: an item of a list is a field of its own, `null` is left out. Reads
/// external files as [`encode_json`] does.
///
/// # Errors
/// As [`encode_json`].
pub fn encode_form(fields: &[(String, Value)], max: usize) -> Result<Data, FileLoadError> {
    check_size(fields.iter().map(|(_, value)| value.external_bytes()).sum(), max)?;
    let mut encoder = Encoder::default();
    for (name, value) in fields {
        for item in value.as_list().unwrap_or(std::slice::from_ref(value)) {
            if item.is_null() {
                continue;
            }
            if encoder.length() > 0 {
                encoder.text.push(b'&');
            }
            encoder.push(name.as_bytes(), &[Layer::Form]);
            encoder.text.push(b'=');
            match item {
                Value::File(file) => encoder.file(file, &[Layer::Form])?,
                Value::List(_) | Value::Map(_) => encoder.json(item, &[Layer::Json, Layer::Form])?,
                plain => encoder.push(plain.to_text().as_bytes(), &[Layer::Form]),
            }
        }
    }
    Ok(encoder.finish())
}

fn check_size(bytes: usize, max: usize) -> Result<(), FileLoadError> {
    if bytes <= max {
        return Ok(());
    }
    Err(FileLoadError::TooLarge { bytes: bytes as u64, max: max as u64 })
}

/// An encoding of bytes that works byte by byte, so that chunks can be encoded on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Base64; only chunks of a multiple of three bytes can be joined.
    Base64,
    /// The inside of a JSON text.
    Json,
    /// Percent-encoding.
    Form,
}

impl Layer {
    fn encode<'a>(self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            Self::Base64 => Cow::Owned(STANDARD.encode(bytes).into_bytes()),
            Self::Json => escape_json(bytes),
            Self::Form => Cow::Owned(percent_encode(bytes, FORM).flat_map(|part| part.bytes()).collect()),
        }
    }
}

fn encode<'a>(bytes: &'a [u8], layers: &[Layer]) -> Cow<'a, [u8]> {
    layers.iter().fold(Cow::Borrowed(bytes), |bytes, layer| match bytes {
        Cow::Borrowed(bytes) => layer.encode(bytes),
        Cow::Owned(bytes) => Cow::Owned(layer.encode(&bytes).into_owned()),
    })
}

/// Escapes a part of a text for JSON, as `serde_json` does.
fn escape_json(bytes: &[u8]) -> Cow<'_, [u8]> {
    let needs_escape = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    if !bytes.iter().any(needs_escape) {
        return Cow::Borrowed(bytes);
    }
    let mut escaped = Vec::with_capacity(bytes.len() + bytes.len() / 8);
    for byte in bytes {
        match byte {
            b'"' => escaped.extend_from_slice(b"\\\""),
            b'\\' => escaped.extend_from_slice(b"\\\\"),
            b'\n' => escaped.extend_from_slice(b"\\n"),
            b'\r' => escaped.extend_from_slice(b"\\r"),
            b'\t' => escaped.extend_from_slice(b"\\t"),
            0x08 => escaped.extend_from_slice(b"\\b"),
            0x0c => escaped.extend_from_slice(b"\\f"),
            control if *control < 0x20 => {
                // Writing to memory cannot fail.
                let _ = write!(escaped, "\\u{control:04x}");
            }
            plain => escaped.push(*plain),
        }
    }
    Cow::Owned(escaped)
}

/// Collects the segments of an encoded value, with their hash.
#[derive(Default)]
struct Encoder {
    segments: Vec<Segment>,
    /// The text after the last segment.
    text: Vec<u8>,
    digest: Sha256,
}

impl Encoder {
    fn length(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.end) + self.text.len() as u64
    }

    fn push(&mut self, bytes: &[u8], layers: &[Layer]) {
        self.text.extend_from_slice(&encode(bytes, layers));
    }

    /// Writes a value as JSON. `layers` begins with [`Layer::Json`], the encoding of its texts.
    fn json(&mut self, value: &Value, layers: &[Layer]) -> Result<(), FileLoadError> {
        let outer = layers.get(1..).unwrap_or_default();
        match value {
            Value::File(file) if file.data.is_external() => {
                let is_text = is_text(&file.data)?;
                let mut head =
                    format!("{{\"contentType\":{}", Value::from(file.content_type.clone()).to_json());
                if let Some(name) = &file.filename {
                    head.push_str(&format!(",\"filename\":{}", Value::from(name.clone()).to_json()));
                }
                let encoding = if is_text { "utf8" } else { "base64" };
                head.push_str(&format!(
                    ",\"size\":{},\"encoding\":\"{encoding}\",\"data\":\"",
                    file.data.len()
                ));
                self.push(head.as_bytes(), outer);
                self.bytes_of(&file.data, is_text, layers)?;
                self.push(b"\"}", outer);
            }
            Value::List(list) => {
                self.push(b"[", outer);
                for (at, item) in list.0.iter().enumerate() {
                    self.push(if at > 0 { b"," } else { b"" }, outer);
                    self.json(item, layers)?;
                }
                self.push(b"]", outer);
            }
            Value::Map(map) => {
                self.push(b"{", outer);
                for (at, (key, item)) in map.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    self.push(format!("{comma}{}:", Value::from(key.as_str()).to_json()).as_bytes(), outer);
                    self.json(item, layers)?;
                }
                self.push(b"}", outer);
            }
            plain => self.push(plain.to_json().as_bytes(), outer),
        }
        Ok(())
    }

    /// Writes a file as its text, or as base64 if it is not UTF-8.
    fn file(&mut self, file: &File, layers: &[Layer]) -> Result<(), FileLoadError> {
        if file.data.is_external() {
            let is_text = is_text(&file.data)?;
            return self.bytes_of(&file.data, is_text, layers);
        }
        self.push(Value::from(file.clone()).to_text().as_bytes(), layers);
        Ok(())
    }

    /// Adds the encoded bytes of an external file as a segment.
    fn bytes_of(&mut self, data: &Data, is_text: bool, layers: &[Layer]) -> Result<(), FileLoadError> {
        self.flush();
        let mut all = if is_text { Vec::new() } else { vec![Layer::Base64] };
        all.extend_from_slice(layers);
        let mut end = self.length();
        let mut file = EncodedFile { data: data.clone(), layers: all, ends: Vec::new() };
        for chunk in 0..data.len().div_ceil(CHUNK) {
            let encoded = file.chunk(chunk)?;
            self.digest.update(&encoded);
            end += encoded.len() as u64;
            file.ends.push(end);
        }
        self.segments.push(Segment { end, content: Content::File(file) });
        Ok(())
    }

    fn flush(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let (end, text) = (self.length(), std::mem::take(&mut self.text));
        self.digest.update(&text);
        self.segments.push(Segment { end, content: Content::Text(text) });
    }

    fn finish(mut self) -> Data {
        if self.segments.is_empty() {
            return self.text.into();
        }
        self.flush();
        let (length, digest) = (self.length(), self.digest.finalize().into());
        ExternalBytes::new(Arc::new(Encoded { segments: self.segments, length, digest })).into()
    }
}

/// True if external bytes are UTF-8. Verifies their hash, which detects a damaged disk.
fn is_text(data: &Data) -> Result<bool, FileLoadError> {
    let (mut digest, mut is_text, mut rest) = (Sha256::new(), true, Vec::new());
    data.for_each_chunk(|chunk| {
        digest.update(chunk);
        if !is_text {
            return;
        }
        rest.extend_from_slice(chunk);
        let valid = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            Err(error) => {
                // A character may continue in the next chunk.
                is_text = error.error_len().is_none();
                error.valid_up_to()
            }
        };
        rest.drain(..valid);
    })?;
    if digest.finalize()[..] != data.digest() {
        return Err(FileLoadError::Unreadable(damaged()));
    }
    Ok(is_text && rest.is_empty())
}

/// A value in an encoding, made while it is read.
struct Encoded {
    segments: Vec<Segment>,
    length: u64,
    digest: [u8; 32],
}

/// A range of an encoded value, and where it ends.
struct Segment {
    end: u64,
    content: Content,
}

enum Content {
    Text(Vec<u8>),
    File(EncodedFile),
}

/// The bytes of a file in an encoding.
struct EncodedFile {
    data: Data,
    layers: Vec<Layer>,
    /// The end of each encoded chunk in the whole value.
    ends: Vec<u64>,
}

impl EncodedFile {
    fn chunk(&self, index: usize) -> io::Result<Vec<u8>> {
        let start = index * CHUNK;
        let mut bytes = vec![0; self.data.len().saturating_sub(start).min(CHUNK)];
        self.data.read_exact_at(start as u64, &mut bytes)?;
        Ok(encode(&bytes, &self.layers).into_owned())
    }
}

impl Blob for Encoded {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let index = self.segments.partition_point(|segment| segment.end <= offset);
        let Some(segment) = self.segments.get(index) else { return Ok(0) };
        let begin =
            index.checked_sub(1).and_then(|before| self.segments.get(before)).map_or(0, |one| one.end);
        let copy = |bytes: &[u8], begin: u64, buffer: &mut [u8]| {
            let from = usize::try_from(offset - begin).ok().and_then(|from| bytes.get(from..));
            let from = from.unwrap_or_default();
            let count = from.len().min(buffer.len());
            buffer[..count].copy_from_slice(&from[..count]);
            count
        };
        match &segment.content {
            Content::Text(text) => Ok(copy(text, begin, buffer)),
            Content::File(file) => {
                let chunk = file.ends.partition_point(|end| *end <= offset);
                let begin =
                    chunk.checked_sub(1).and_then(|before| file.ends.get(before)).map_or(begin, |end| *end);
                Ok(copy(&file.chunk(chunk)?, begin, buffer))
            }
        }
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an encoded value of {} bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::super::{FileStorage as _, Map, MemoryFiles, Reserved};
    use super::*;

    /// A blob in memory that is treated as external.
    #[derive(Debug)]
    struct Stored(Vec<u8>);

    impl Blob for Stored {
        fn digest(&self) -> [u8; 32] {
            Sha256::digest(&self.0).into()
        }

        fn length(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            Data::from(self.0.clone()).read_at(offset, buffer)
        }
    }

    fn file(bytes: &[u8], is_external: bool) -> Value {
        let data = match is_external {
            true => ExternalBytes::new(Arc::new(Stored(bytes.to_vec()))).into(),
            false => Data::from(bytes.to_vec()),
        };
        Value::from(File { content_type: "a/\"b\"".into(), filename: Some("ä.txt".into()), data })
    }

    fn holding(bytes: &[u8], is_external: bool) -> Value {
        let list = Value::from(vec![Value::from("a\"\n"), file(bytes, is_external), file(b"", is_external)]);
        Value::from(Map::from_iter([("k\"", list), ("n", Value::from(1_i64))]))
    }

    /// Reads in steps of `step` bytes.
    fn read(data: &Data, step: usize) -> String {
        let (mut all, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            let count = data.read_at(all.len() as u64, &mut buffer).expect("it is read");
            if count == 0 {
                return String::from_utf8(all).expect("text");
            }
            all.extend_from_slice(&buffer[..count]);
        }
    }

    fn check_same_as_loaded(bytes: &[u8]) {
        let encoded = encode_json(&holding(bytes, true), usize::MAX).expect("it is encoded");
        let loaded = holding(bytes, false);
        assert!(encoded.is_external());
        assert_eq!(read(&encoded, 1 << 20), loaded.to_json());
        assert_eq!(encoded.digest(), <[u8; 32]>::from(Sha256::digest(loaded.to_json())));
        let form = |is_external| {
            let fields = [
                ("a b".to_owned(), file(bytes, is_external)),
                ("j".to_owned(), Value::from(vec![holding(bytes, is_external)])),
            ];
            read(&encode_form(&fields, usize::MAX).expect("it is encoded"), 70_000)
        };
        assert_eq!(form(true), form(false));
    }

    #[test]
    fn a_large_file_in_json_is_encoded_as_if_it_were_in_memory() {
        check_same_as_loaded(&"zwölf \"Boxkämpfer\"\\ \u{1}\r\n".repeat(20_000).into_bytes());
        check_same_as_loaded(&(0..400_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        // The last character is cut off.
        check_same_as_loaded("ä".repeat(CHUNK).as_bytes().split_last().expect("bytes").1);
    }

    #[test]
    fn files_over_the_limit_are_rejected_before_they_are_read() {
        let error = encode_json(&holding(b"abcd", true), 3).expect_err("too large");
        assert!(matches!(error, FileLoadError::TooLarge { bytes: 4, max: 3 }), "{error}");
    }

    #[test]
    fn a_file_is_loaded_only_into_reserved_memory_and_keeps_the_reservation() {
        let hold = Arc::new(());
        let reserved = Reserved::new(6, hold.clone());
        let data = Data::from(ExternalBytes::new(Arc::new(Stored(b"abcd".to_vec()))));
        let loaded = data.load(10, &reserved).expect("there is room");
        assert!(matches!(data.load(10, &reserved), Err(FileLoadError::NotReserved { bytes: 4 })));
        drop(reserved);
        assert_eq!(Arc::strong_count(&hold), 2, "the bytes hold it");
        drop(loaded);
        assert_eq!(Arc::strong_count(&hold), 1);
        let mut writer = MemoryFiles.create().expect("a file");
        writer.write(b"ab").expect("written");
        assert!(
            writer.finish().expect("there").load(9, &Reserved::nothing()).is_ok(),
            "it is in memory already"
        );
    }

    proptest! {
        #[test]
        fn any_range_of_an_encoded_value_equals_that_of_its_json(
            bytes in prop_oneof![proptest::collection::vec(any::<u8>(), 0..50), ".{0,20}".prop_map(String::into_bytes)],
            step in 1usize..20,
        ) {
            let encoded = encode_json(&holding(&bytes, true), usize::MAX).expect("it is encoded");
            prop_assert_eq!(read(&encoded, step), holding(&bytes, false).to_json());
        }
    }
}
