//! `mail.append`.

use async_imap::imap_proto::{MailboxDatum, Response};
use connector::Call;
use model::{ActionError, ErrorKind};
use sha2::{Digest as _, Sha256};
use value::{Data, Map, Value};

use super::command::Command;
use super::header::message_id;
use super::mailbox::Access;
use super::session::Session;
use super::{flag_of, input_error, text_of, unknown_outcome};
use crate::mail::keywords;
use crate::spec::content_of;

/// The bytes that are read and sent at a time.
const CHUNK: usize = 128 << 10;
/// The bytes of the headers that are searched for a `Message-ID`.
const MAX_HEADER: usize = 64 << 10;
/// The largest message, in bytes.
const MAX_SIZE: usize = 50 << 20;

/// `mail.append`.
pub(super) async fn append(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let mailbox = text_of(call.inputs, "mailbox");
    let message = Message::read(call).await?;
    let selected = session.select(mailbox, Access::Write, None).await?;
    let known = find(session, &message.id).await?;
    let written = match known {
        Some(uid) => Some((selected.uid_validity, uid)),
        None => send(session, call, mailbox, &message).await?,
    };
    let entries = [
        ("mailbox", Value::from(mailbox)),
        ("messageId", Value::from(message.id)),
        ("uid", Value::from(written.map(|(_, uid)| uid))),
        ("uidValidity", Value::from(written.map(|(uid_validity, _)| uid_validity))),
        ("repeated", Value::from(known.is_some())),
    ];
    Ok(Value::from(Map::from_iter(entries)))
}

/// A message that is to be stored.
struct Message {
    data: Data,
    id: String,
    /// The header that is put in front of it; empty if it has an id.
    prefix: String,
    /// The bytes with the line breaks of the protocol.
    length: u64,
}

impl Message {
    async fn read(call: &Call<'_>) -> Result<Self, ActionError> {
        let data = content_of(call.inputs, "content")?.data;
        if data.len() > MAX_SIZE {
            let most = text::units::format_size(MAX_SIZE as u64);
            return Err(ActionError::new(ErrorKind::Limit, format!("`content` has more than {most}")));
        }
        let head = chunk(&data, 0, MAX_HEADER).await?;
        let own = message_id(&head);
        if own.is_none() && !is_header(&head) {
            return Err(input_error(
                "`content` is no message: it begins with headers, such as `Subject: Hello`",
            ));
        }
        // Each attempt of a step gives the same one.
        let made = || {
            let hash = Sha256::digest(call.idempotency_key);
            let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("{hash}@cogwork")
        };
        let (id, prefix) = match own {
            Some(id) => (id, String::new()),
            None => {
                let id = made();
                let prefix = format!("Message-ID: <{id}>\r\n");
                (id, prefix)
            }
        };
        let (mut length, mut lines) = (prefix.len() as u64, Lines::default());
        for offset in (0..data.len()).step_by(CHUNK) {
            length += lines.convert(&chunk(&data, offset, CHUNK).await?)?.len() as u64;
        }
        Ok(Self { data, id, prefix, length })
    }
}

/// True if a text begins with the name of a header.
fn is_header(head: &[u8]) -> bool {
    let name = head.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic());
    is_name && name.len() < head.len()
}

async fn chunk(data: &Data, offset: usize, most: usize) -> Result<Vec<u8>, ActionError> {
    let length = most.min(data.len().saturating_sub(offset));
    crate::file::bytes_of(data.clone(), offset, length).await
}

/// Gives lines the ends of the protocol.
#[derive(Default)]
struct Lines {
    last: u8,
}

impl Lines {
    fn convert(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ActionError> {
        let mut converted = Vec::with_capacity(bytes.len() + bytes.len() / 32);
        for byte in bytes {
            match byte {
                b'\n' if self.last != b'\r' => converted.extend_from_slice(b"\r\n"),
                0 => {
                    return Err(input_error(
                        "`content` has a NUL, which no message has; encode files with base64",
                    ));
                }
                _ => converted.push(*byte),
            }
            self.last = *byte;
        }
        Ok(converted)
    }
}

/// Searches a message in the mailbox by its id.
async fn find(session: &mut Session, id: &str) -> Result<Option<u32>, ActionError> {
    let mut found = None;
    let command = Command::new("UID SEARCH");
    let command = if id.is_ascii() { command } else { command.word("CHARSET UTF-8") };
    let command = command.word("HEADER Message-ID").text(&format!("<{id}>"));
    let searching = session.run(command, |answer| {
        if let Response::MailboxData(MailboxDatum::Search(uids)) = answer {
            found = found.max(uids.iter().max().copied());
        }
        Ok(())
    });
    searching.await?;
    Ok(found)
}

async fn send(
    session: &mut Session,
    call: &Call<'_>,
    mailbox: &str,
    message: &Message,
) -> Result<Option<(u32, u32)>, ActionError> {
    let mut flags: Vec<&str> = Vec::new();
    for (name, flag) in [("seen", "\\Seen"), ("flagged", "\\Flagged"), ("draft", "\\Draft")] {
        if flag_of(call.inputs, name) {
            flags.push(flag);
        }
    }
    flags.extend(keywords(call.inputs, "keywords")?);
    let command = Command::new("APPEND").mailbox(mailbox).flags(flags).literal(message.length);
    call.http.dialer().pass_gate().await;
    let tag = session.send(&command).await?;
    session.question(&command, &tag).await?;
    let mut lines = Lines::default();
    session.send_bytes(message.prefix.as_bytes()).await?;
    for offset in (0..message.data.len()).step_by(CHUNK) {
        let bytes = lines.convert(&chunk(&message.data, offset, CHUNK).await?)?;
        session.send_bytes(&bytes).await?;
    }
    // The server stores the message once it has all of it.
    session.send_line("").await.map_err(unknown_outcome)?;
    let done = session.end_of(&command, &tag, |_| Ok(())).await.map_err(unknown_outcome)?;
    Ok(done.written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_the_protocol_wants_them_in_whatever_pieces_they_come() {
        for size in [1, 2, 100] {
            let mut lines = Lines::default();
            let text = b"a\nb\r\nc\r\rd\n\n";
            let converted: Vec<u8> =
                text.chunks(size).flat_map(|piece| lines.convert(piece).expect("it is good")).collect();
            assert_eq!(converted, b"a\r\nb\r\nc\r\rd\r\n\r\n", "{size}");
        }
        assert!(Lines::default().convert(b"a\0").is_err());
    }

    #[test]
    fn a_message_begins_with_a_header() {
        assert!(is_header(b"Subject: x\n"));
        for text in ["", "hello", "hello you: x", ": x", "Größe: x"] {
            assert!(!is_header(text.as_bytes()), "{text}");
        }
    }
}
