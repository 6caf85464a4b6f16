//! The worker: a process that runs nothing but untrusted code, or one task on untrusted data.
//!
//! The first message says which. With code it reads a message, runs it, replies, and reads the next. It ends when the pool closes
//! the socket, when a run has exhausted memory or time, and when a message breaks the protocol.

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
pub(crate) mod transport;

use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use crate::protocol::{Answer, Message, Request, Tag, encode};
use crate::task::{Channel, Task};
pub(crate) use analyse::check;
use isolates::Isolates;
use transport::{ReplySender, RequestReader, protocol_error};

/// Address space beside the heap of code: messages in both directions, JSON buffers, the syntax tree. In bytes.
const BESIDE_HEAP: u64 = 192 * 1024 * 1024;

/// The body of the hidden subcommand: confines this process for good, then runs what the pool sends over descriptor 0, or the one of
/// `tasks` that the first message names. To be called from `main`, before there is another thread.
#[must_use]
pub fn work(tasks: &[Task]) -> ExitCode {
    // The usual hook makes system calls that the process may not: a panic would look like a breach.
    std::panic::set_hook(Box::new(|_| {}));
    // The reader of an error is gone: the pool notices the closed socket.
    if serve(tasks).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(tasks: &[Task]) -> io::Result<()> {
    let mut transport = RequestReader::new();
    let Some(message) = transport.read()? else { return Err(protocol_error()) };
    match message.tag {
        Tag::Hello => {
            let memory = number(&message, 0).ok_or_else(protocol_error)?;
            let heap = usize::try_from(memory).map_err(|_| protocol_error())?;
            match greet(memory.saturating_mul(2).saturating_add(BESIDE_HEAP))? {
                true => serve_code(transport, heap),
                false => Ok(()),
            }
        }
        Tag::Task => {
            let name = message.text(0).map_err(|_| protocol_error())?;
            let task = tasks.iter().find(|task| task.name == name).ok_or_else(protocol_error)?;
            match greet(number(&message, 1).ok_or_else(protocol_error)?)? {
                true => (task.run)(&mut Channel::new(transport)),
                false => Ok(()),
            }
        }
        _ => Err(protocol_error()),
    }
}

/// Confines the process and says so to the pool. Returns false if it cannot be confined.
fn greet(memory: u64) -> io::Result<bool> {
    let (tag, text) = match confine::confine(memory) {
        Ok(report) => (Tag::Hello, report),
        Err(error) => (Tag::Refused, error.to_string()),
    };
    transport::write(&encode(tag, &[text.as_bytes()]).map_err(|_| protocol_error())?)?;
    Ok(tag == Tag::Hello)
}

fn serve_code(mut transport: RequestReader, memory: usize) -> io::Result<()> {
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

/// A number of bytes in the first message.
fn number(message: &Message, index: usize) -> Option<u64> {
    message.text(index).ok()?.parse().ok()
}
