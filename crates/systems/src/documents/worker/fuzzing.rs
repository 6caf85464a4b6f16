//! Documents without a daemon, for the fuzzer: it gives bytes, and drops what a job makes of them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use super::super::job::{
    CellErrors, InputInfo, Job, Message, Pick, Range, SheetName, SheetRead, TableOptions,
};
use super::channel::{Daemon, Link};

struct Document {
    bytes: Bytes,
    /// The chunk that the job asked for last.
    asked: Bytes,
}

impl Link for Document {
    fn send(&mut self, message: &Message, _: &[u8]) -> io::Result<()> {
        if let Message::Read { offset, count, .. } = *message {
            let size = self.bytes.len();
            let start = usize::try_from(offset).unwrap_or(size).min(size);
            self.asked = self.bytes.slice(start..start.saturating_add(count).min(size));
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Bytes> {
        Ok(std::mem::take(&mut self.asked))
    }
}

/// Reads bytes as a document of a kind: a sheet, a page or an archive. A panic of a parser ends a worker with an error, and so does none
/// here.
pub fn read_document(kind: u8, bytes: &[u8]) {
    let table = TableOptions { has_header: true, ..TableOptions::default() };
    let css = "table, a".to_owned();
    let job = match kind % 6 {
        0 => Job::SheetRead(SheetRead {
            sheet: SheetName::FirstVisible,
            range: Range::ALL,
            errors: CellErrors::Text,
            table,
        }),
        1 => Job::HtmlTable { css, table },
        2 => Job::HtmlText { css: "*".to_owned() },
        3 => {
            let pick = |attr: Option<&str>, html| Pick {
                css: css.clone(),
                attr: attr.map(str::to_owned),
                html,
                all: true,
            };
            Job::HtmlSelect(vec![
                ("a".to_owned(), pick(Some("href"), false)),
                ("b".to_owned(), pick(None, true)),
            ])
        }
        4 => Job::ZipUnpack(None),
        _ => Job::GzipUnpack,
    };
    let bytes = Bytes::copy_from_slice(bytes);
    let info = InputInfo { size: bytes.len() as u64, charset: None, name: "the document".to_owned() };
    let mut document = Document { bytes, asked: Bytes::new() };
    let daemon = Daemon::new(&mut document, vec![info]);
    let _ = catch_unwind(AssertUnwindSafe(|| super::run(job, &daemon).is_ok()));
}
