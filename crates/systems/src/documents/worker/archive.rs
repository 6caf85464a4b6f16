//! ZIP archives and GZIP files.

use std::io::{self, Read, Seek, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use value::Value;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::super::job::{MAX_ENTRIES, MAX_RATIO, MAX_UNPACKED, RATIO_FROM};
use super::channel::Daemon;
use super::failure::Failure;

/// The bytes that are copied at a time.
const CHUNK: usize = 64 << 10;
/// The longest name in an archive, in bytes.
const MAX_NAME: usize = 1_024;
/// The size from which an entry needs the longer form of sizes, in bytes.
const LARGE: u64 = 4_000_000_000;

/// `zip.pack`.
pub(super) fn zip_pack(names: &[String], daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let mut output = daemon.file(None, "application/zip")?;
    let mut archive = ZipWriter::new_stream(&mut output);
    for (index, name) in names.iter().enumerate() {
        let size = daemon.info(index)?.size;
        archive.start_file(name.as_str(), options(size)).map_err(failed)?;
        io::copy(&mut daemon.input(index)?, &mut archive)?;
    }
    archive.finish().map_err(failed)?;
    output.finish()?;
    Ok(Value::Null)
}

/// The options of an entry: the same time for all, so that the same files give the same bytes.
pub(super) fn options(size: u64) -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(size > LARGE)
}

/// `zip.unpack`.
pub(super) fn zip_unpack(pattern: Option<&str>, daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let pattern = pattern.map(Glob::new);
    let mut archive = open(daemon.input(0)?)?;
    let mut left = MAX_UNPACKED;
    for index in 0..archive.len() {
        let Some((name, packed)) = entry(&archive, index, pattern.as_ref())? else { continue };
        let in_entry =
            |failure: Failure| Failure { message: format!("`{name}`: {}", failure.message), ..failure };
        let content = archive.by_index(index).map_err(failed).map_err(in_entry)?;
        let mut output = daemon.file(Some(name.clone()), content_type(&name))?;
        let size = copy(content, packed, left, &mut output).map_err(in_entry)?;
        output.finish()?;
        left = left.saturating_sub(size);
    }
    Ok(Value::Null)
}

/// The name and the packed size of an entry; `None` for a folder, and for a file that the pattern leaves out.
fn entry<R: Read + Seek>(
    archive: &ZipArchive<R>,
    index: usize,
    pattern: Option<&Glob>,
) -> Result<Option<(String, u64)>, Failure> {
    let metadata = archive.metadata();
    let entry = metadata.entry(index).map_err(failed)?;
    let name = entry.name().map_err(failed)?.into_owned();
    if entry.is_dir() || pattern.is_some_and(|pattern| !pattern.matches(&name)) {
        return Ok(None);
    }
    let wrong = |why: &str| {
        let way = "`match` can leave it out";
        Failure::input(format!("its file {} is called `{}`, which {why}; {way}", index + 1, shown(&name)))
    };
    if entry.is_symlink() {
        return Err(Failure::input(format!("`{name}` is a link, and no file; `match` can leave it out")));
    }
    if entry.encrypted() {
        return Err(Failure::input(format!("`{name}` is encrypted; ask for an archive without a password")));
    }
    checked_name(&name).map_err(wrong)?;
    Ok(Some((name.clone(), entry.compressed_size())))
}

/// Opens an archive, and checks its bounds as far as it states them itself.
pub(super) fn open<R: Read + Seek>(input: R) -> Result<ZipArchive<R>, Failure> {
    let archive = ZipArchive::new(input).map_err(failed)?;
    let metadata = archive.metadata();
    if metadata.has_duplicate_names() {
        return Err(Failure::input("two of its files have the same name"));
    }
    if archive.len() > MAX_ENTRIES {
        return Err(Failure::limit(format!("it has {} files, and may have {MAX_ENTRIES}", archive.len())));
    }
    let (mut packed, mut unpacked) = (0_u64, 0_u64);
    for index in 0..archive.len() {
        let entry = metadata.entry(index).map_err(failed)?;
        check_ratio(entry.compressed_size(), entry.size()).map_err(Failure::limit)?;
        packed = packed.saturating_add(entry.compressed_size());
        unpacked = unpacked.saturating_add(entry.size());
    }
    if unpacked > MAX_UNPACKED {
        let most = text::units::format_size(MAX_UNPACKED);
        return Err(Failure::limit(format!("its files have more than {most} unpacked")));
    }
    check_ratio(packed, unpacked).map_err(Failure::limit)?;
    Ok(archive)
}

/// `gzip.pack`.
pub(super) fn gzip_pack(daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let output = daemon.file(None, "application/gzip")?;
    let mut encoder = GzEncoder::new(output, flate2::Compression::default());
    io::copy(&mut daemon.input(0)?, &mut encoder)?;
    encoder.finish()?.finish()?;
    Ok(Value::Null)
}

/// `gzip.unpack`.
pub(super) fn gzip_unpack(daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let content = MultiGzDecoder::new(daemon.input(0)?);
    let mut output = daemon.file(None, "application/octet-stream")?;
    copy(content, daemon.info(0)?.size, MAX_UNPACKED, &mut output)?;
    output.finish()?;
    Ok(Value::Null)
}

/// Copies what was packed in `packed` bytes, at most `most`. Returns the number of bytes.
fn copy(mut content: impl Read, packed: u64, most: u64, output: &mut impl Write) -> Result<u64, Failure> {
    let mut buffer = vec![0; CHUNK];
    let mut size = 0_u64;
    loop {
        let count = content.read(&mut buffer)?;
        if count == 0 {
            return Ok(size);
        }
        size += count as u64;
        if size > most {
            let most = text::units::format_size(MAX_UNPACKED);
            return Err(Failure::limit(format!("there are more than {most} unpacked")));
        }
        check_ratio(packed, size).map_err(Failure::limit)?;
        output.write_all(buffer.get(..count).unwrap_or_default())?;
    }
}

fn check_ratio(packed: u64, unpacked: u64) -> Result<(), String> {
    if unpacked <= RATIO_FROM || unpacked <= packed.saturating_mul(MAX_RATIO) {
        return Ok(());
    }
    Err(format!(
        "it is more than {MAX_RATIO} times as large unpacked as packed, as no file is that people make"
    ))
}

/// A name that stays inside of the folder that the archive is unpacked to.
pub(in crate::documents) fn checked_name(name: &str) -> Result<&str, &'static str> {
    let is_drive = name.as_bytes().get(1) == Some(&b':')
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let mut parts = name.split(['/', '\\']);
    if name.is_empty() || name.len() > MAX_NAME {
        Err("has no letter, or more than 1024")
    } else if name.starts_with(['/', '\\']) || is_drive {
        Err("begins at the root of a disk")
    } else if parts.any(|part| matches!(part, ".." | "." | "")) {
        Err("leads out of the archive, or has an empty part")
    } else if name.contains(|letter: char| letter.is_control()) {
        Err("has a control character")
    } else {
        Ok(name)
    }
}

/// The start of a name, for messages.
pub(in crate::documents) fn shown(name: &str) -> String {
    name.chars().take(100).flat_map(char::escape_debug).collect()
}

/// A pattern of names: `*` stands for all but `/`, `**` for all, `**/` also for nothing, `?` for one character but `/`.
struct Glob(Vec<Wildcard>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    /// Nothing, or all up to a `/`.
    Folders,
    All,
    Part,
    One,
    Letter(char),
}

impl Glob {
    fn new(pattern: &str) -> Self {
        let (mut parts, mut letters) = (Vec::new(), pattern.chars().peekable());
        while let Some(letter) = letters.next() {
            parts.push(match letter {
                '*' if letters.next_if_eq(&'*').is_none() => Wildcard::Part,
                '*' if letters.next_if_eq(&'/').is_some() => Wildcard::Folders,
                '*' => Wildcard::All,
                '?' => Wildcard::One,
                letter => Wildcard::Letter(letter),
            });
        }
        Self(parts)
    }

    /// True if the pattern matches the name. It takes time for each part of the pattern and each letter of the name once.
    fn matches(&self, name: &str) -> bool {
        let letters: Vec<char> = name.chars().collect();
        // The numbers of letters that the parts so far may take.
        let mut ends = vec![false; letters.len() + 1];
        ends[0] = true;
        for part in &self.0 {
            let mut next = vec![false; letters.len() + 1];
            // True if the part may go on from an earlier end.
            let mut is_open = false;
            for at in 0..=letters.len() {
                let before = at.checked_sub(1).map(|before| (letters[before], ends[before]));
                next[at] = match (part, before) {
                    (Wildcard::One, Some((letter, is_end))) => is_end && letter != '/',
                    (Wildcard::Letter(wanted), Some((letter, is_end))) => is_end && letter == *wanted,
                    (Wildcard::One | Wildcard::Letter(_), None) => false,
                    (Wildcard::Folders, before) => {
                        ends[at] || (is_open && before.is_some_and(|(letter, _)| letter == '/'))
                    }
                    (Wildcard::All, _) => ends[at] || is_open,
                    (Wildcard::Part, before) => {
                        is_open = is_open && before.is_none_or(|(letter, _)| letter != '/');
                        ends[at] || is_open
                    }
                };
                is_open = is_open || ends[at];
            }
            ends = next;
        }
        ends[letters.len()]
    }
}

/// The media type that the end of a name tells.
fn content_type(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    match end.as_deref() {
        Some("csv") => "text/csv",
        Some("txt" | "log" | "md") => "text/plain",
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("html" | "htm") => "text/html",
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("zip") => "application/zip",
        Some("gz") => "application/gzip",
        Some("xlsx") => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        Some("ods") => "application/vnd.oasis.opendocument.spreadsheet",
        Some("xls") => "application/vnd.ms-excel",
        _ => "application/octet-stream",
    }
}

/// The failure that an error of the library means.
pub(super) fn failed(error: ZipError) -> Failure {
    match error {
        ZipError::Io(error) => Failure::from(error),
        ZipError::CompressionMethodNotSupported(_) => {
            Failure::input("it is compressed in a way that is not supported; deflate and none are")
        }
        error => Failure::input(format!("it is no ZIP archive that can be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_names_as_people_expect() {
        for (pattern, name, expected) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "b/a.csv", false),
            ("*.csv", "../a.csv", false),
            ("**/*.csv", "a.csv", true),
            ("**/*.csv", "b/c/a.csv", true),
            ("2026/**", "2026/03/a.csv", true),
            ("2026/**", "2025/a.csv", false),
            ("?.csv", "a.csv", true),
            ("?.csv", "ab.csv", false),
            ("a*b*c", "aXbXc", true),
            ("a*b*c", "aXb/Xc", false),
            ("", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_name_stays_inside_of_its_archive() {
        for wrong in [
            "",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a//b",
            "a/",
            "C:\\a",
            "..\\a",
            "\\\\host\\a",
            "a\u{0}b",
            &"a".repeat(1025),
        ] {
            assert!(checked_name(wrong).is_err(), "{wrong}");
        }
        for right in ["a", "a/b.csv", "..a", "a b", "äö/ü.csv", "1:2"] {
            assert!(checked_name(right).is_ok(), "{right}");
        }
    }
}
