//! Builds a mail message from the inputs of a step.

use std::time::SystemTime;

use jiff::Timestamp;
use lettre::Message;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use value::{Map, Reserved, Value};

use super::super::text_of;

/// The largest number of recipients.
const MAX_RECIPIENTS: usize = 100;
/// The largest total size of attachments in bytes; most servers accept no more.
const MAX_ATTACHMENTS: usize = 25 << 20;

/// A message ready for SMTP.
pub(super) struct Mail {
    pub id: String,
    pub content: Message,
}

/// Builds a message. The message id derives from `key`, which is equal for all attempts at a step.
pub(super) fn build(inputs: &Map, key: &str, now: Timestamp, memory: &Reserved) -> Result<Mail, String> {
    let from = mailbox("from", text_of(inputs, "from"))?;
    let id = format!("<{}@{}>", plain(key), from.email.domain());
    let mut builder = Message::builder().message_id(Some(id.clone())).date(SystemTime::from(now)).from(from);
    let mut count = 0;
    for name in ["to", "cc", "bcc"] {
        for address in inputs.get(name).and_then(Value::as_list).unwrap_or_default() {
            let mailbox = mailbox(name, &address.to_text())?;
            count += 1;
            builder = match name {
                "to" => builder.to(mailbox),
                "cc" => builder.cc(mailbox),
                _ => builder.bcc(mailbox),
            };
        }
    }
    if count == 0 {
        return Err("`to` is empty; a mail needs a recipient".to_owned());
    }
    if count > MAX_RECIPIENTS {
        return Err(format!("there are {count} recipients; one mail takes at most {MAX_RECIPIENTS}"));
    }
    let reply_to = text_of(inputs, "replyTo");
    if !reply_to.is_empty() {
        builder = builder.reply_to(mailbox("replyTo", reply_to)?);
    }
    let subject = text_of(inputs, "subject");
    if subject.contains(['\r', '\n']) {
        return Err("`subject` holds a line break".to_owned());
    }
    let builder = builder.subject(subject);
    let attachments = attachments(inputs, memory)?;
    let content = match (content(inputs)?, attachments.is_empty()) {
        (Content::Single(part), true) => builder.singlepart(part),
        (Content::Both(parts), true) => builder.multipart(parts),
        (content, false) => {
            let mixed = match content {
                Content::Single(part) => MultiPart::mixed().singlepart(part),
                Content::Both(parts) => MultiPart::mixed().multipart(parts),
            };
            builder.multipart(attachments.into_iter().fold(mixed, MultiPart::singlepart))
        }
    };
    let content = content.map_err(|error| format!("the mail cannot be put together: {error}"))?;
    Ok(Mail { id, content })
}

enum Content {
    Single(SinglePart),
    Both(MultiPart),
}

fn content(inputs: &Map) -> Result<Content, String> {
    let (text, html) = (text_of(inputs, "text").to_owned(), text_of(inputs, "html").to_owned());
    match (text.is_empty(), html.is_empty()) {
        (true, true) => Err("one of `text` and `html` must be given".to_owned()),
        (false, true) => Ok(Content::Single(SinglePart::plain(text))),
        (true, false) => Ok(Content::Single(SinglePart::html(html))),
        (false, false) => Ok(Content::Both(MultiPart::alternative_plain_html(text, html))),
    }
}

/// The bytes of attachments that are not in memory.
pub(super) fn external_bytes(inputs: &Map) -> usize {
    inputs.get("attachments").map_or(0, Value::external_bytes)
}

fn attachments(inputs: &Map, memory: &Reserved) -> Result<Vec<SinglePart>, String> {
    let files = inputs.get("attachments").and_then(Value::as_list).unwrap_or_default();
    let files: Vec<_> = files.iter().filter_map(Value::as_file).collect();
    if files.iter().map(|file| file.data.len()).sum::<usize>() > MAX_ATTACHMENTS {
        let most = text::units::format_size(MAX_ATTACHMENTS as u64);
        return Err(format!("`attachments` have more than {most} together"));
    }
    let part = |(at, file): (usize, &&std::sync::Arc<value::File>)| {
        let name = file.filename.as_deref().map_or_else(|| format!("file-{}", at + 1), str::to_owned);
        let octets = || ContentType::parse("application/octet-stream").map_err(|error| error.to_string());
        let kind = ContentType::parse(&file.content_type).or_else(|_| octets())?;
        let data = file.data.load(MAX_ATTACHMENTS, memory).map_err(|error| error.to_string())?;
        Ok(Attachment::new(name.replace(|c: char| c.is_control(), " ")).body(data.to_vec(), kind))
    };
    files.iter().enumerate().map(part).collect()
}

fn mailbox(input: &str, text: &str) -> Result<Mailbox, String> {
    if text.chars().any(char::is_control) {
        return Err(format!("`{input}` holds a line break or another control character"));
    }
    text.trim().parse().map_err(|error| {
        format!("`{input}` is not an address such as `ops@example.com` or `Ops <ops@example.com>`: {error}")
    })
}

/// Returns the characters of a key that are allowed in a message id (RFC 5322, 3.6.4).
fn plain(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    key.chars().map(plain).collect::<String>().trim_matches('.').replace("..", ".-")
}
