//! The bytes of a file as UTF-8, while they are read.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};
use value::{CHUNK_SIZE, Data, File, Value, mime};

/// Reads the bytes of a value.
pub(crate) struct DataReader {
    data: Data,
    offset: u64,
}

impl DataReader {
    /// A reader of all bytes.
    pub(crate) fn new(data: Data) -> Self {
        Self { data, offset: 0 }
    }
}

impl Read for DataReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.data.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The bytes and the media type of an input that is a file or a text; `None` for another value.
pub(crate) fn document(value: &Value) -> Option<File> {
    match value {
        Value::File(file) => Some(File::clone(file)),
        Value::String(text) => Some(File {
            content_type: "text/plain; charset=utf-8".into(),
            filename: None,
            data: Data::from(text.as_bytes().to_vec()),
        }),
        _ => None,
    }
}

/// The encoding of a label such as `windows-1252`.
pub(crate) fn encoding(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label(label.trim().as_bytes())
}

/// The encoding of a file: of its mark, else `given`, else of its media type, else UTF-8.
pub(crate) fn encoding_of(file: &File, given: Option<&'static Encoding>) -> io::Result<&'static Encoding> {
    let mut first = [0; 3];
    let count = file.data.read_at(0, &mut first)?;
    let marked = Encoding::for_bom(first.get(..count).unwrap_or_default()).map(|(encoding, _)| encoding);
    Ok(marked.or(given).or_else(|| mime::charset(&file.content_type)).unwrap_or(UTF_8))
}

/// The text of a reader in an encoding. A byte that is invalid in it is an error that names its line.
pub(crate) struct Decoded<R> {
    bytes: R,
    decoder: Decoder,
    input: Vec<u8>,
    used: usize,
    output: Vec<u8>,
    given: usize,
    line: usize,
    is_over: bool,
}

impl<R: Read> Decoded<R> {
    /// Decodes `bytes`, without a mark of the encoding at their begin.
    pub(crate) fn new(bytes: R, encoding: &'static Encoding) -> Self {
        let (decoder, empty) = (encoding.new_decoder_with_bom_removal(), Vec::new);
        Self { bytes, decoder, input: empty(), used: 0, output: empty(), given: 0, line: 1, is_over: false }
    }

    /// Decodes the next chunk. The output stays empty at the end only.
    fn fill(&mut self) -> io::Result<()> {
        self.output.clear();
        self.given = 0;
        while self.output.is_empty() && !self.is_over {
            if self.used == self.input.len() {
                self.input.resize(CHUNK_SIZE, 0);
                let count = self.bytes.read(&mut self.input)?;
                self.input.truncate(count);
                self.used = 0;
            }
            let is_last = self.input.is_empty();
            let rest = self.input.get(self.used..).unwrap_or_default();
            // At most three bytes of UTF-8 for a byte, and what the decoder holds back.
            self.output.resize(3 * rest.len() + 32, 0);
            let (result, read, written) =
                self.decoder.decode_to_utf8_without_replacement(rest, &mut self.output, is_last);
            self.output.truncate(written);
            self.line += memchr::memchr_iter(b'\n', &self.output).count();
            self.used += read;
            match result {
                DecoderResult::Malformed(..) => return Err(self.malformed()),
                DecoderResult::InputEmpty => self.is_over = is_last,
                DecoderResult::OutputFull => {}
            }
        }
        Ok(())
    }

    fn malformed(&self) -> io::Error {
        let name = self.decoder.encoding().name();
        io::Error::other(format!(
            "line {} is not in {name}; name the encoding of the file with `encoding`, such as `windows-1252`",
            self.line
        ))
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.output.len() {
            self.fill()?;
        }
        let rest = self.output.get(self.given..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}
