//! An export in parts, each an export of its own: a daemon imports them one after the other.

use std::io::BufRead;

use model::ExecutionId;
use serde::Deserialize;

use super::import::{Lines, is_execution, read_header};
use super::{EndLine, Line, TransferError};

/// The bytes from which a part is complete.
const PART_BYTES: usize = 4 << 20;
/// Maximum number of bytes of a part. An execution that alone has more, with its files, is too large for one.
pub const MAX_PART_BYTES: usize = 30 << 20;

/// A part of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Lines that are an export themselves.
    Export(Vec<u8>),
    /// An execution that is larger than a part can be.
    TooLarge(ExecutionId),
}

/// The parts of an export. One of them is in memory at a time.
pub struct Parts<R> {
    lines: Lines<R>,
    header: Vec<u8>,
    /// The lines since the last execution, with the next one: definitions, files, the execution. Empty if they are too large.
    unit: Vec<u8>,
    is_too_large: bool,
    /// An execution that is returned after the part before it.
    waiting: Option<Part>,
    has_ended: bool,
}

/// The beginning of the line of an execution.
#[derive(Deserialize)]
struct Head {
    execution: Id,
}

#[derive(Deserialize)]
struct Id {
    id: ExecutionId,
}

impl<R: BufRead> Parts<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// The file is no export, or that of a later release.
    pub fn new(input: R) -> Result<Self, TransferError> {
        let mut lines = Lines::new(input);
        read_header(&mut lines)?;
        let header = lines.text().to_vec();
        Ok(Self { lines, header, unit: Vec::new(), is_too_large: false, waiting: None, has_ended: false })
    }

    /// Returns the next part; `None` after the last one.
    ///
    /// # Errors
    /// A line is damaged, or the file is cut off.
    pub fn next_part(&mut self) -> Result<Option<Part>, TransferError> {
        if let Some(waiting) = self.waiting.take() {
            return Ok(Some(waiting));
        }
        let (mut part, mut executions) = (self.header.clone(), 0);
        while !self.has_ended {
            match self.next_unit()? {
                None => self.has_ended = true,
                Some(Part::Export(unit)) => {
                    executions += 1;
                    part.extend_from_slice(&unit);
                    if part.len() >= PART_BYTES {
                        break;
                    }
                }
                Some(large) if executions == 0 => return Ok(Some(large)),
                Some(large) => {
                    self.waiting = Some(large);
                    break;
                }
            }
        }
        if executions == 0 {
            return Ok(None);
        }
        let end = Line::End(EndLine { executions });
        serde_json::to_writer(&mut part, &end).map_err(std::io::Error::other)?;
        part.push(b'\n');
        Ok(Some(Part::Export(part)))
    }

    /// Returns an execution with the lines that belong to it; `None` at the end of the export.
    fn next_unit(&mut self) -> Result<Option<Part>, TransferError> {
        while self.lines.next()? {
            let line = self.lines.text();
            if is_end(line) {
                return Ok(None);
            }
            self.is_too_large |= self.unit.len() + line.len() + self.header.len() > MAX_PART_BYTES;
            if self.is_too_large {
                self.unit.clear();
            } else {
                self.unit.extend_from_slice(line);
            }
            if is_execution(line) {
                let unit = std::mem::take(&mut self.unit);
                if !std::mem::take(&mut self.is_too_large) {
                    return Ok(Some(Part::Export(unit)));
                }
                let head: Head = serde_json::from_slice(line).map_err(|error| self.lines.error(error))?;
                return Ok(Some(Part::TooLarge(head.execution.id)));
            }
        }
        Err(TransferError::CutOff)
    }
}

fn is_end(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"end\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "{\"cogworkExecutions\":1,\"release\":\"0.1.0\",\"exportedAt\":\"2026-01-01T00:00:00Z\"}\n";

    fn execution(number: u32, bytes: usize) -> String {
        let id = format!("0190a0a0-0000-7000-8000-{number:012}");
        format!("{{\"execution\":{{\"id\":\"{id}\",\"x\":\"{}\"}}}}\n", "x".repeat(bytes))
    }

    fn parts(text: &str) -> Result<Vec<Part>, TransferError> {
        let mut parts = Parts::new(text.as_bytes())?;
        let mut all = Vec::new();
        while let Some(part) = parts.next_part()? {
            all.push(part);
        }
        Ok(all)
    }

    #[test]
    fn each_part_is_an_export_with_whole_executions() {
        let definition = "{\"definition\":{\"hash\":\"h\"}}\n";
        let units = [format!("{definition}{}", execution(1, 10)), execution(2, PART_BYTES), execution(3, 10)];
        let text = format!("{HEADER}{}{{\"end\":{{\"executions\":3}}}}\n", units.concat());
        let part = |units: &[String]| {
            let end = format!("{{\"end\":{{\"executions\":{}}}}}\n", units.len());
            Part::Export(format!("{HEADER}{}{end}", units.concat()).into_bytes())
        };
        assert_eq!(parts(&text).expect("parts"), [part(&units[..2]), part(&units[2..])]);
        assert_eq!(parts(&format!("{HEADER}{{\"end\":{{\"executions\":0}}}}\n")).expect("parts"), []);
    }

    #[test]
    fn an_execution_that_is_too_large_is_named_and_the_others_stay() {
        let file = format!("{{\"bytes\":\"{}\"}}\n", "A".repeat(MAX_PART_BYTES));
        let text = format!(
            "{HEADER}{}{file}{}{}{{\"end\":{{}}}}\n",
            execution(1, 1),
            execution(2, 1),
            execution(3, 1)
        );
        let found = parts(&text).expect("parts");
        let id = "0190a0a0-0000-7000-8000-000000000002".parse().expect("an id");
        assert_eq!(found.len(), 3);
        assert_eq!(found[1], Part::TooLarge(id));
    }

    #[test]
    fn a_truncated_or_foreign_file_is_refused() {
        assert!(matches!(parts(&format!("{HEADER}{}", execution(1, 1))), Err(TransferError::CutOff)));
        assert!(matches!(parts("{}\n"), Err(TransferError::NoExport)));
    }
}
