//! Entry points for the fuzz targets: the two parsers of untrusted input.

use bytes::Bytes;

use crate::protocol::{Answer, Inbox, Nonce, restore};
use crate::worker::check;

/// Parses bytes as the pool parses a worker's output: messages, answers, results.
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

/// Loads a text as a worker loads a module: compiles, analyses and wraps it.
pub fn load_module(source: &str) {
    let _ = check(source);
}
