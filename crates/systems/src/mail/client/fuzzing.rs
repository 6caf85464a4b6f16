//! The responses of a server, for the fuzzer.

use async_imap::imap_proto::{AttributeValue, Response};

use super::decode::{Decoder, Encoding};
use super::header::{Place, Summary, headers};
use super::session::Session;
use super::structure::parts;

/// Reads bytes as the responses of a server until one breaks a rule: with the headers and the parts of messages in them.
pub fn read_responses(bytes: &[u8]) {
    let wire = tokio::io::join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink());
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    runtime.block_on(async {
        let mut session = Session::new("the server", Box::new(wire));
        while session.next(read).await.is_ok() {}
    });
}

fn read(response: &Response<'_>) {
    let Response::Fetch(_, values) = response else { return };
    let _ = Summary::of(Place { mailbox: "INBOX", uid_validity: 1 }, values);
    for value in values {
        match value {
            AttributeValue::BodyStructure(structure) => drop(parts(structure)),
            AttributeValue::BodySection { data: Some(data), .. } => {
                let _ = headers(data);
                for encoding in [Encoding::Base64, Encoding::QuotedPrintable, Encoding::Plain] {
                    let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
                    decoder.push(data, &mut out);
                    decoder.finish(&mut out);
                }
            }
            _ => {}
        }
    }
}
