//! `mail.get`: the headers, the texts and the attachments of a message.

use async_imap::imap_proto::{AttributeValue, Response};
use connector::{Call, FileSink};
use mail_parser::decoders::charsets::map::charset_decoder;
use model::{ActionError, ErrorKind};
use value::{File, Value};

use super::command::Command;
use super::decode::Decoder;
use super::header::{Place, Summary, headers};
use super::session::{Access, Session, uid_of};
use super::structure::{Part, Parts, limit, parts};
use super::{flag_of, missing, numbers, text_of};

/// The bytes of a piece of a part.
const PIECE: usize = 256 << 10;
/// The most bytes of a message that one call reads.
const MAX_SIZE: u64 = 50 << 20;
/// The most bytes of a text.
const MAX_TEXT: usize = 1 << 20;
/// The bytes that a small attachment may have in memory once it is complete: there may be many.
const MAX_IN_MEMORY: usize = 64 << 10;
/// The data of a message that are read before its parts.
const HEAD: &str = "(UID FLAGS INTERNALDATE RFC822.SIZE BODYSTRUCTURE BODY.PEEK[HEADER]<0.65536>)";

/// `mail.get`.
pub(super) async fn get(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let (uid, uid_validity) = numbers(call.inputs)?;
    let mailbox = text_of(call.inputs, "mailbox");
    session.select(mailbox, Access::Read, Some(uid_validity)).await?;
    let (mut result, parts) = head(session, Place { mailbox, uid_validity }, uid).await?;
    let wanted = if flag_of(call.inputs, "attachments") { parts.attachments } else { Vec::new() };
    let size: u64 = wanted.iter().map(|part| part.size).sum();
    if size > MAX_SIZE {
        return Err(too_large());
    }
    let (mut left, mut truncated) = (MAX_SIZE, false);
    for (name, part) in [("text", parts.text), ("html", parts.html)] {
        let text = match part {
            Some(part) => {
                let (text, is_cut) = text(session, (uid, &part), &mut left).await?;
                truncated |= is_cut;
                Value::from(text)
            }
            None => Value::Null,
        };
        result.insert(name, text);
    }
    result.insert("truncated", truncated);
    let mut attachments = Vec::with_capacity(wanted.len());
    for part in wanted {
        let sink = call.file_sink("the attachments").with_memory(MAX_IN_MEMORY);
        let mut target = Target::File(sink);
        read(session, (uid, &part), &mut target, &mut left).await?;
        let Target::File(sink) = target else { continue };
        let (content_type, filename) = (part.content_type.into(), Some(part.name.into()));
        attachments.push(Value::from(File { content_type, filename, data: sink.finish().await? }));
    }
    result.insert("attachments", Value::from(attachments));
    Ok(Value::from(result))
}

/// Reads the headers and the structure of a message.
async fn head(session: &mut Session, place: Place<'_>, uid: u32) -> Result<(value::Map, Parts), ActionError> {
    let mut found = None;
    let command = Command::new("UID FETCH").plain(format_args!("{uid}")).word(HEAD);
    let reading = session.run(command, |answer| {
        let Response::Fetch(_, values) = answer else { return Ok(()) };
        let Some(summary) = Summary::of(place, values).filter(|summary| summary.uid == uid) else {
            return Ok(());
        };
        let mut result = summary.value;
        let (mut parts_of, mut header) = (Parts::default(), None);
        for value in values {
            match value {
                AttributeValue::BodyStructure(structure) => parts_of = parts(structure)?,
                AttributeValue::BodySection { data, .. } => header = data.as_deref(),
                _ => {}
            }
        }
        result.insert("headers", headers(header.unwrap_or_default()));
        found = Some((result, parts_of));
        Ok(())
    });
    reading.await?;
    found.ok_or_else(|| missing(place.mailbox, uid))
}

/// Takes the bytes of a part.
enum Target {
    File(FileSink),
    /// A text, of which no more than its limit is read.
    Text(Vec<u8>),
}

impl Target {
    /// Takes bytes. Returns false if no more are wanted.
    async fn push(&mut self, bytes: &[u8]) -> Result<bool, ActionError> {
        match self {
            Self::File(sink) => sink.push(bytes).await.map(|()| true),
            Self::Text(text) => {
                text.extend_from_slice(bytes);
                Ok(text.len() <= MAX_TEXT)
            }
        }
    }
}

/// Reads a text in its charset. Returns true with it if it is cut.
async fn text(
    session: &mut Session,
    (uid, part): (u32, &Part),
    left: &mut u64,
) -> Result<(String, bool), ActionError> {
    let mut target = Target::Text(Vec::new());
    read(session, (uid, part), &mut target, left).await?;
    let Target::Text(mut bytes) = target else { return Ok((String::new(), false)) };
    let is_cut = bytes.len() > MAX_TEXT;
    bytes.truncate(MAX_TEXT);
    // The cut may be in a character.
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    Ok((decoded(bytes, part.charset.as_deref()), is_cut))
}

/// A text in its charset.
fn decoded(bytes: Vec<u8>, charset: Option<&str>) -> String {
    // Programs that name no other charset, or none, write UTF-8.
    let charset = charset.filter(|charset| !charset.eq_ignore_ascii_case("us-ascii"));
    let bytes = match (String::from_utf8(bytes), charset) {
        (Ok(text), None) => return text,
        (Ok(text), Some(_)) => text.into_bytes(),
        (Err(error), _) => error.into_bytes(),
    };
    let decode = charset_decoder(charset.unwrap_or("windows-1252").as_bytes());
    decode.map_or_else(|| String::from_utf8_lossy(&bytes).into_owned(), |decode| decode(&bytes))
}

/// Reads a part piece by piece, decodes it, and passes it on.
async fn read(
    session: &mut Session,
    (uid, part): (u32, &Part),
    target: &mut Target,
    left: &mut u64,
) -> Result<(), ActionError> {
    let (mut decoder, mut decoded, mut offset) = (Decoder::new(part.encoding), Vec::new(), 0_u64);
    loop {
        let piece = piece(session, uid, &part.section, offset).await?;
        *left = left.checked_sub(piece.len() as u64).ok_or_else(too_large)?;
        decoded.clear();
        decoder.push(&piece, &mut decoded);
        let is_last = piece.len() < PIECE;
        if !target.push(&decoded).await? || is_last {
            break;
        }
        offset += piece.len() as u64;
    }
    decoded.clear();
    decoder.finish(&mut decoded);
    target.push(&decoded).await.map(|_| ())
}

/// Reads a piece of a section.
async fn piece(session: &mut Session, uid: u32, section: &str, offset: u64) -> Result<Vec<u8>, ActionError> {
    let mut found = None;
    let command =
        Command::new("UID FETCH").plain(format_args!("{uid} (UID BODY.PEEK[{section}]<{offset}.{PIECE}>)"));
    let subject = session.subject.clone();
    let reading = session.run(command, |answer| {
        let Response::Fetch(_, values) = answer else { return Ok(()) };
        if uid_of(values) != Some(uid) {
            return Ok(());
        }
        for value in values {
            let AttributeValue::BodySection { data, .. } = value else { continue };
            let data = data.as_deref().unwrap_or_default();
            if data.len() > PIECE {
                return Err(ActionError::new(
                    ErrorKind::Response,
                    format!("{subject} sends more than it was asked for"),
                ));
            }
            found = Some(data.to_vec());
        }
        Ok(())
    });
    reading.await?;
    found.ok_or_else(|| {
        let message = format!("the message {uid} went away while it was read");
        ActionError::new(ErrorKind::Response, message).with_code("NOT_FOUND")
    })
}

fn too_large() -> ActionError {
    let most = text::units::format_size(MAX_SIZE);
    limit(format!(
        "the attachments have more than {most} together; `attachments: false` reads the rest of the message"
    ))
}
