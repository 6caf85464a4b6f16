//! The worker: a process that runs nothing but untrusted code.
//!
//! It reads a message, runs it, replies, and reads the next. It ends when the pool closes the socket, when a run has
//! exhausted memory or time, and when a message breaks the protocol.

mod analyse;
mod confine;
mod failure;
mod host;
mod host_state;
mod isolate;
mod isolates;
mod memory;
mod prepare;
mod sequence;
mod transport;

use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use crate::protocol::{Answer, Message, Request, Tag, encode};
pub(crate) use analyse::check;
use isolates::Isolates;
use transport::{ReplySender, RequestReader, protocol_error};

/// The body of the hidden subcommand: confines this process for good, then runs what the pool sends over descriptor 0.
/// To be called from `main`, before there is another thread.
#[must_use]
pub fn work() -> ExitCode {
    // The reader of an error is gone: the pool notices the closed socket.
    if serve().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve() -> io::Result<()> {
    let mut transport = RequestReader::new();
    let Some(memory) = transport.read()?.and_then(|message| settings(&message)) else {
        return Err(protocol_error());
    };
    match confine::confine(memory) {
        Ok(report) => {
            transport::write(&encode(Tag::Hello, &[report.as_bytes()]).map_err(|_| protocol_error())?)?
        }
        Err(error) => {
            let why = error.to_string();
            return transport::write(&encode(Tag::Refused, &[why.as_bytes()]).map_err(|_| protocol_error())?);
        }
    }
    let replies = Rc::new(ReplySender::default());
    let mut isolates = Isolates::new(memory, Rc::clone(&replies));
    while let Some(message) = transport.read()? {
        let (bytes, is_usable) = handle(&mut isolates, message)?;
        replies.send(&bytes)?;
        if !is_usable {
            break;
        }
        isolates.evict();
    }
    // The exit of the process frees the rest at once.
    std::mem::forget(isolates);
    Ok(())
}

/// Handles a message. Returns the reply, and false if this worker must end.
fn handle(isolates: &mut Isolates, message: Message) -> io::Result<(Vec<u8>, bool)> {
    match message.tag {
        Tag::Call => {
            let request = Request::try_from(message).map_err(|_| protocol_error())?;
            let (answer, is_usable) = isolates.run(&request);
            let bytes = answer.encode().or_else(|_| Answer::Failed(failure::too_large()).encode());
            Ok((bytes.map_err(|_| protocol_error())?, is_usable))
        }
        Tag::Check => {
            let checked = check(message.text(0).map_err(|_| protocol_error())?);
            let text = serde_json::to_vec(&checked)?;
            Ok((encode(Tag::Checked, &[&text]).map_err(|_| protocol_error())?, true))
        }
        Tag::Echo => {
            let parts: Vec<&[u8]> = message.parts.iter().map(AsRef::as_ref).collect();
            Ok((encode(Tag::Echo, &parts).map_err(|_| protocol_error())?, true))
        }
        _ => Err(protocol_error()),
    }
}

/// The heap limit of a run, in bytes, from the first message.
fn settings(message: &Message) -> Option<usize> {
    if message.tag != Tag::Hello {
        return None;
    }
    message.text(0).ok()?.parse().ok()
}
