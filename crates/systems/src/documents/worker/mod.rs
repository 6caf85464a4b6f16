//! The worker: runs one job on a document, and ends.
//!
//! * `channel`: what the job reads and writes, over the channel to the daemon
//! * `failure`: the reason why a job has no result
//! * `rows`: the rows of a table, on their way to the daemon
//! * `sheet`: sheets
//! * `html`: HTML
//! * `archive`: ZIP and GZIP
//! * `fuzzing`: documents without a daemon, for the fuzzer

mod archive;
mod channel;
mod failure;
mod fuzzing;
mod html;
mod rows;
mod sheet;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use script::{Channel, Task};

use super::job::{InputInfo, Job, MAX_JSON, Message};
pub(super) use archive::{checked_name, shown};
use channel::Daemon;
use failure::Failure;
pub use fuzzing::read_document;

/// The task of a worker process.
pub(super) const TASK: Task = Task { name: "document", run: work };

fn work(channel: &mut Channel) -> io::Result<()> {
    let parts = channel.receive()?;
    let [job, inputs] = parts.as_slice() else { return Err(io::ErrorKind::InvalidData.into()) };
    let job: Job = serde_json::from_slice(job)?;
    let inputs: Vec<InputInfo> = serde_json::from_slice(inputs)?;
    let daemon = Daemon::new(channel, inputs);
    let done = catch_unwind(AssertUnwindSafe(|| run(job, &daemon)));
    let done = done.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
        Err(Failure::input(format!("its reader gave up: {}", words.unwrap_or_default())))
    });
    let done = done.map(|value| value.to_json()).and_then(|json| match json.len() {
        0..=MAX_JSON => Ok(json),
        _ => Err(Failure::limit("the result has more than 7MiB; select less of it")),
    });
    match done {
        Ok(json) => daemon.send(&Message::Done, json.as_bytes()),
        Err(failure) => {
            let message = format!("{}: {}", daemon.subject(), failure.message);
            daemon.send(&Message::Failed { is_limit: failure.is_limit, message }, &[])
        }
    }
}

fn run(job: Job, daemon: &Daemon<'_>) -> Result<value::Value, Failure> {
    match job {
        Job::SheetRead(job) => sheet::read(&job, daemon),
        Job::SheetWrite(sheets) => sheet::write(&sheets, daemon),
        Job::HtmlSelect(picks) => html::select(&picks, daemon),
        Job::HtmlTable { css, table } => html::table(&css, &table, daemon),
        Job::HtmlText { css } => html::text(&css, daemon),
        Job::ZipPack(names) => archive::zip_pack(&names, daemon),
        Job::ZipUnpack(pattern) => archive::zip_unpack(pattern.as_deref(), daemon),
        Job::GzipPack => archive::gzip_pack(daemon),
        Job::GzipUnpack => archive::gzip_unpack(daemon),
    }
}
