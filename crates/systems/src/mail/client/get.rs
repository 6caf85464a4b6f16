//! `mail.get`: the headers, the texts and the attachments of a message.

use async_imap::imap_proto::{AttributeValue, MessageSection, Response, SectionPath};
use connector::{Call, FileSink};
use mail_parser::decoders::charsets::map::charset_decoder;
use model::{ActionError, ErrorKind};
use value::{File, Value};

use super::command::Command;
use super::decode::Decoder;
use super::header::{Place, Summary, headers};
use super::limited::MAX_LITERALS;
use super::mailbox::Access;
use super::session::{Session, uid_of};
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
/// The bytes of the first piece of a part that is read together with others.
const SMALL: usize = 64 << 10;
/// The most parts that are read together, so that an answer with all their pieces has its limit.
const MAX_TOGETHER: usize = MAX_LITERALS / SMALL;
/// The texts of the result.
const TEXTS: [&str; 2] = ["text", "html"];
/// The data of a message that are read before its parts.
const HEAD: &str = "(UID FLAGS INTERNALDATE RFC822.SIZE BODYSTRUCTURE BODY.PEEK[HEADER]<0.65536>)";

/// `mail.get`.
pub(super) async fn get(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let (uid, uid_validity) = numbers(call.inputs)?;
    let mailbox = text_of(call.inputs, "mailbox");
    let place = Place { mailbox, uid_validity };
    session.enter(place, Access::Read).await?;
    let mut found = head(session, place, uid).await;
    if session.doubts(&found) {
        session.enter_anew(place, Access::Read).await?;
        found = head(session, place, uid).await;
    }
    let (mut result, parts) = found?.ok_or_else(|| missing(mailbox, uid))?;
    let attachments = if flag_of(call.inputs, "attachments") { parts.attachments } else { Vec::new() };
    let size: u64 = attachments.iter().map(|part| part.size).sum();
    if size > MAX_SIZE {
        return Err(too_large());
    }
    for name in TEXTS {
        result.insert(name, Value::Null);
    }
    let texts = TEXTS.into_iter().zip([parts.text, parts.html]);
    let texts = texts.filter_map(|(name, part)| Some((Some(name), part?)));
    let wanted: Vec<_> = texts.chain(attachments.into_iter().map(|part| (None, part))).collect();
    let (mut left, mut truncated, mut files) = (MAX_SIZE, false, Vec::new());
    for together in groups(&wanted) {
        let firsts = first_pieces(session, uid, together).await?;
        for ((name, part), first) in together.iter().zip(firsts) {
            let body = Body { session: &mut *session, uid, part, first, left: &mut left };
            if let Some(name) = name {
                let (text, is_cut) = body.text().await?;
                truncated |= is_cut;
                result.insert(*name, text);
            } else {
                let sink = call.file_sink("the attachments").with_memory(MAX_IN_MEMORY);
                files.push(Value::from(body.file(sink).await?));
            }
        }
    }
    result.insert("truncated", truncated);
    result.insert("attachments", Value::from(files));
    Ok(Value::from(result))
}

/// A part that is wanted: a text, whose name in the result is known, or an attachment.
type Wanted = (Option<&'static str>, Part);

/// Cuts parts into groups whose first pieces are read together: small parts, or a large one alone.
fn groups(wanted: &[Wanted]) -> impl Iterator<Item = &[Wanted]> {
    let mut count = 1;
    wanted.chunk_by(move |(_, part), (_, next)| {
        let is_small = |part: &Part| part.size < SMALL as u64;
        count = if count < MAX_TOGETHER && is_small(part) && is_small(next) { count + 1 } else { 1 };
        count > 1
    })
}

/// Reads the first piece of each part of a group.
async fn first_pieces(session: &mut Session, uid: u32, group: &[Wanted]) -> Result<Vec<Piece>, ActionError> {
    let length = if group.len() > 1 { SMALL } else { PIECE };
    let sections: Vec<&str> = group.iter().map(|(_, part)| part.section.as_str()).collect();
    let pieces = pieces(session, uid, &sections, (0, length)).await?;
    Ok(pieces.into_iter().map(|bytes| Piece { is_last: bytes.len() < length, bytes }).collect())
}

/// Bytes of a part.
struct Piece {
    bytes: Vec<u8>,
    is_last: bool,
}

/// Reads the headers and the structure of a message; `None` if it is not there.
async fn head(
    session: &mut Session,
    place: Place<'_>,
    uid: u32,
) -> Result<Option<(value::Map, Parts)>, ActionError> {
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
    Ok(found)
}

/// Takes the bytes of a part.
enum Target<'a> {
    File(&'a mut FileSink),
    /// A text, of which no more than its limit is read.
    Text(&'a mut Vec<u8>),
}

impl Target<'_> {
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

/// The bytes of a part.
struct Body<'b> {
    session: &'b mut Session,
    uid: u32,
    part: &'b Part,
    /// The first piece.
    first: Piece,
    /// The bytes that the call may still read.
    left: &'b mut u64,
}

impl Body<'_> {
    /// Reads a text in its charset. Returns true with it if it is cut.
    async fn text(self) -> Result<(String, bool), ActionError> {
        let charset = self.part.charset.as_deref();
        let mut bytes = Vec::new();
        self.read(Target::Text(&mut bytes)).await?;
        let is_cut = bytes.len() > MAX_TEXT;
        bytes.truncate(MAX_TEXT);
        // The cut may be in a character.
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            bytes.truncate(error.valid_up_to());
        }
        Ok((decoded(bytes, charset), is_cut))
    }

    /// Reads an attachment.
    async fn file(self, mut sink: FileSink) -> Result<File, ActionError> {
        let (content_type, filename) =
            (self.part.content_type.as_str().into(), Some(self.part.name.as_str().into()));
        self.read(Target::File(&mut sink)).await?;
        Ok(File { content_type, filename, data: sink.finish().await? })
    }

    /// Reads the part piece by piece, decodes it, and passes it on.
    async fn read(self, mut target: Target<'_>) -> Result<(), ActionError> {
        let Self { session, uid, part, first: mut piece, left } = self;
        let (mut decoder, mut decoded, mut offset) = (Decoder::new(part.encoding), Vec::new(), 0);
        loop {
            let length = piece.bytes.len();
            *left = left.checked_sub(length as u64).ok_or_else(too_large)?;
            decoded.clear();
            decoder.push(&piece.bytes, &mut decoded);
            if !target.push(&decoded).await? || piece.is_last {
                break;
            }
            offset += length;
            let mut read = pieces(session, uid, &[&part.section], (offset, PIECE)).await?;
            let bytes = read.pop().unwrap_or_default();
            piece = Piece { is_last: bytes.len() < PIECE, bytes };
        }
        decoded.clear();
        decoder.finish(&mut decoded);
        target.push(&decoded).await.map(|_| ())
    }
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

/// Reads a piece of each of some sections, from an offset with at most a length. Returns them in this order.
async fn pieces(
    session: &mut Session,
    uid: u32,
    sections: &[&str],
    (offset, length): (usize, usize),
) -> Result<Vec<Vec<u8>>, ActionError> {
    let items: String =
        sections.iter().map(|section| format!(" BODY.PEEK[{section}]<{offset}.{length}>")).collect();
    let command = Command::new("UID FETCH").plain(format_args!("{uid} (UID{items})"));
    let mut found = vec![None; sections.len()];
    let subject = session.subject.clone();
    let reading = session.run(command, |answer| {
        let Response::Fetch(_, values) = answer else { return Ok(()) };
        if uid_of(values) != Some(uid) {
            return Ok(());
        }
        for value in values {
            let AttributeValue::BodySection { section, data, .. } = value else { continue };
            let data = data.as_deref().unwrap_or_default();
            if data.len() > length {
                return Err(ActionError::new(
                    ErrorKind::Response,
                    format!("{subject} sends more than it was asked for"),
                ));
            }
            let section = section.as_ref().map_or_else(String::new, name_of);
            let slots = found.iter_mut().zip(sections);
            if let Some((slot, _)) = slots.into_iter().find(|(_, known)| **known == section) {
                *slot = Some(data.to_vec());
            }
        }
        Ok(())
    });
    reading.await?;
    found.into_iter().collect::<Option<_>>().ok_or_else(|| {
        let message = format!("the message {uid} went away while it was read");
        ActionError::new(ErrorKind::Response, message).with_code("NOT_FOUND")
    })
}

/// The name of a section, as a command has it: `2.1`.
fn name_of(section: &SectionPath) -> String {
    match section {
        SectionPath::Full(MessageSection::Text) => "TEXT".to_owned(),
        SectionPath::Part(numbers, None) => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join("."),
        _ => String::new(),
    }
}

fn too_large() -> ActionError {
    let most = text::units::format_size(MAX_SIZE);
    limit(format!(
        "the attachments have more than {most} together; `attachments: false` reads the rest of the message"
    ))
}
