//! Entry points for the fuzz targets: the two parsers of foreign input.

use bytes::Bytes;

use crate::protocol::{Answer, Inbox, Nonce, restore};
use crate::worker::check;

/// Reads bytes as a pool reads what a worker sends: messages, answers, results.
pub fn read_answers(bytes: &[u8]) {
    let mut inbox = Inbox::default();
    inbox.push(bytes);
    while let Ok(Some(message)) = inbox.next() {
        if let Ok(Answer::Done(done)) = Answer::try_from(message) {
            let _ = restore(&done.result, Some((Nonce([0; 16]), &done.files)));
        }
    }
    let _ = restore(bytes, Some((Nonce([0; 16]), &[Bytes::copy_from_slice(bytes)])));
}

/// Reads a text as a worker reads a module: compiles it, looks into it, wraps it.
pub fn load_module(source: &str) {
    let _ = check(source);
}
