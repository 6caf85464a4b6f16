//! The worker: a process that does nothing but run code that nobody trusts.
//!
//! It reads a message, runs what it says, answers, and reads the next. It ends when the pool goes, when it has run
//! out of memory or time, and when what it reads makes no sense.

mod analyse;
mod cell;
mod cells;
mod confine;
mod desk;
mod failure;
mod host;
mod memory;
mod prepare;
mod sequence;
mod wire;

use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use crate::protocol::{Answer, Message, Request, Tag, encode};
pub(crate) use analyse::check;
use cells::Cells;
use wire::{Outlet, Wire, strange};

/// The body of the hidden subcommand: confines this process for good, then runs what the pool sends over descriptor 0.
/// To be called from `main`, before there is another thread.
#[must_use]
pub fn work() -> ExitCode {
    // Whoever would read an error is gone: the pool sees that the socket is closed.
    if serve().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve() -> io::Result<()> {
    let mut wire = Wire::new();
    let Some(memory) = wire.read()?.and_then(|message| settings(&message)) else { return Err(strange()) };
    match confine::confine(memory) {
        Ok(report) => wire::write(&encode(Tag::Hello, &[report.as_bytes()]).map_err(|_| strange())?)?,
        Err(error) => {
            let why = error.to_string();
            return wire::write(&encode(Tag::Refused, &[why.as_bytes()]).map_err(|_| strange())?);
        }
    }
    let outlet = Rc::new(Outlet::default());
    let mut cells = Cells::new(memory, Rc::clone(&outlet));
    while let Some(message) = wire.read()? {
        let (bytes, goes_on) = handle(&mut cells, message)?;
        outlet.send(&bytes)?;
        if !goes_on {
            break;
        }
        cells.tidy();
    }
    // What is left is freed by the end of the process, in no time.
    std::mem::forget(cells);
    Ok(())
}

/// The answer to a message, and whether this worker is good for another.
fn handle(cells: &mut Cells, message: Message) -> io::Result<(Vec<u8>, bool)> {
    match message.tag {
        Tag::Call => {
            let request = Request::try_from(message).map_err(|_| strange())?;
            let (answer, goes_on) = cells.run(&request);
            let bytes = answer.encode().or_else(|_| Answer::Failed(failure::too_large()).encode());
            Ok((bytes.map_err(|_| strange())?, goes_on))
        }
        Tag::Check => {
            let checked = check(message.text(0).map_err(|_| strange())?);
            let text = serde_json::to_vec(&checked)?;
            Ok((encode(Tag::Checked, &[&text]).map_err(|_| strange())?, true))
        }
        Tag::Echo => {
            let parts: Vec<&[u8]> = message.parts.iter().map(AsRef::as_ref).collect();
            Ok((encode(Tag::Echo, &parts).map_err(|_| strange())?, true))
        }
        _ => Err(strange()),
    }
}

/// The heap of a run, in bytes: the first message says it.
fn settings(message: &Message) -> Option<usize> {
    if message.tag != Tag::Hello {
        return None;
    }
    message.text(0).ok()?.parse().ok()
}
