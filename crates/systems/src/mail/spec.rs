//! The specifications of the actions: inputs, results, effects.

use model::action::ResultField;
use model::{ActionSpec, Effect, InputSpec, InputType, ResultType};

use crate::spec::{defaulted, object, optional, required};

const INTEGER: InputType = InputType::Integer { min: None, max: None };
/// A number that a server gives: RFC 9051, section 9, `nz-number`.
const NUMBER: InputType = InputType::Integer { min: Some(1), max: Some(u32::MAX as i64) };

fn field(name: &str, kind: ResultType, about: &str) -> ResultField {
    ResultField::new(name, kind).with_description(about)
}

fn mailbox() -> InputSpec {
    defaulted("mailbox", InputType::Text, super::INBOX, "The mailbox: `INBOX`, `Archive/2026`.")
}

/// The inputs that name a message.
fn message() -> Vec<InputSpec> {
    vec![
        required("uid", NUMBER, "The number of the message in its mailbox."),
        required(
            "uidValidity",
            NUMBER,
            "The number of the mailbox's numbering, which comes with each `uid`. Another one is an error, since the `uid` is then that of another message.",
        ),
        mailbox(),
    ]
}

fn words() -> InputType {
    InputType::List { items: Box::new(InputType::Text) }
}

fn address() -> ResultType {
    object([
        field("address", ResultType::Text.or_null(), "The address: `ada@example.com`."),
        field("name", ResultType::Text.or_null(), "The name beside it."),
    ])
}

/// The number of a message, and that of the numbering.
fn place() -> Vec<ResultField> {
    vec![
        field("uid", ResultType::Integer, "The number of the message in its mailbox."),
        field("uidValidity", ResultType::Integer, "The number of the mailbox's numbering."),
    ]
}

fn summary() -> Vec<ResultField> {
    let flags = "The flags, such as `\\Seen` and `\\Flagged`, and the keywords.";
    let own = [
        field("mailbox", ResultType::Text, "The mailbox."),
        field("messageId", ResultType::Text.or_null(), "The `Message-ID`, without `<` and `>`."),
        field("from", address().or_null(), "The first sender."),
        field("to", ResultType::list(address()), "The recipients, at most 100."),
        field("cc", ResultType::list(address()), "The recipients of a copy, at most 100."),
        field("replyTo", address().or_null(), "The address for answers, if the message names one."),
        field("subject", ResultType::Text.or_null(), "The subject."),
        field("date", ResultType::Text.or_null(), "The instant at which the sender says that he wrote it."),
        field("received", ResultType::Text.or_null(), "The instant at which the server got it."),
        field("flags", ResultType::list(ResultType::Text), flags),
        field("size", ResultType::Integer, "The number of bytes, with all attachments."),
        field(
            "hasAttachments",
            ResultType::Boolean,
            "True if the form of the message is one for attachments.",
        ),
    ];
    place().into_iter().chain(own).collect()
}

fn criteria() -> Vec<InputSpec> {
    vec![
        mailbox(),
        optional("from", InputType::Text, "A part of the sender's address or name."),
        optional("subject", InputType::Text, "A part of the subject."),
    ]
}

/// `mail.search`.
pub(super) fn search(spec: ActionSpec) -> ActionSpec {
    let own = [
        optional("to", InputType::Text, "A part of a recipient's address or name."),
        optional("text", InputType::Text, "A part of the whole message."),
        optional(
            "since",
            InputType::Text,
            "The first day, as the server dates the message: `2026-01-31`, or an instant.",
        ),
        optional("before", InputType::Text, "The day after the last one."),
        optional(
            "unseen",
            InputType::Boolean,
            "True for messages without the flag `\\Seen`, false for the others.",
        ),
        optional(
            "flagged",
            InputType::Boolean,
            "True for messages with the flag `\\Flagged`, false for the others.",
        ),
        optional("keywords", words(), "Keywords that the messages have."),
        defaulted("limit", INTEGER, 100, "The largest number of messages, at most 1,000."),
    ];
    ActionSpec {
        title: "Search messages".to_owned(),
        description: Some("Gives the newest messages that fit all inputs, newest first.".to_owned()),
        effect: Effect::Read,
        inputs: criteria().into_iter().chain(own).collect(),
        result: Some("`{results: [{uid, uidValidity, from, subject, …}], more}`".to_owned()),
        results: object([
            field("results", ResultType::list(object(summary())), "The messages."),
            field("more", ResultType::Boolean, "True if older messages fit too."),
        ]),
        ..spec
    }
}

/// `mail.listReceived`.
pub(super) fn list_received(spec: ActionSpec) -> ActionSpec {
    let own = [
        defaulted(
            "attachments",
            InputType::Boolean,
            false,
            "True for messages with attachments only, by the form of the message.",
        ),
        optional(
            "idle",
            InputType::Boolean,
            "True to hold a connection on which the server tells of new messages (IDLE), which are then read at once.",
        ),
        optional("after", InputType::Text, "For the event."),
        defaulted("newest", InputType::Boolean, false, "For the event."),
    ];
    let record =
        ResultType::object([("id", ResultType::Text), ("at", ResultType::Text), ("mail", object(summary()))]);
    ActionSpec {
        title: "List messages that have arrived".to_owned(),
        description: Some(
            "Gives the messages that arrived after a position. The event `mail.received` is made of it."
                .to_owned(),
        ),
        effect: Effect::Read,
        inputs: criteria().into_iter().chain(own).collect(),
        result: Some("`{results: [{id, at, mail}], position, more, problem}`".to_owned()),
        results: object([
            field("results", ResultType::list(record), "The messages, oldest first."),
            field("position", ResultType::Text, "The position behind them."),
            field("more", ResultType::Boolean, "True if more messages follow."),
            field("problem", ResultType::Text.or_null(), "The reason for which the position was left."),
        ]),
        ..spec
    }
}

/// `mail.get`.
pub(super) fn get(spec: ActionSpec) -> ActionSpec {
    let own = [
        field("text", ResultType::Text.or_null(), "The content as plain text, up to 1 MiB."),
        field("html", ResultType::Text.or_null(), "The content as HTML, up to 1 MiB."),
        field("truncated", ResultType::Boolean, "True if `text` or `html` was longer."),
        field(
            "headers",
            ResultType::map(ResultType::Text),
            "The first 64 KiB of headers, names in lower case; the values of a repeated one on lines of their own.",
        ),
        field(
            "attachments",
            ResultType::list(ResultType::File),
            "The attachments, pictures of the text too.",
        ),
    ];
    let with = defaulted("attachments", InputType::Boolean, true, "False to leave out the attachments.");
    ActionSpec {
        title: "Read a message".to_owned(),
        description: Some(
            "Reads the text and writes the attachments to disk while they arrive. The message stays unread."
                .to_owned(),
        ),
        effect: Effect::Read,
        inputs: message().into_iter().chain([with]).collect(),
        result: Some("`{…, text, html, truncated, headers, attachments: [file]}`".to_owned()),
        results: object(summary().into_iter().chain(own)),
        ..spec
    }
}

/// `mail.mark`.
pub(super) fn mark(spec: ActionSpec) -> ActionSpec {
    let own = [
        optional("seen", InputType::Boolean, "True to mark it as read, false as unread."),
        optional("flagged", InputType::Boolean, "True to set the flag `\\Flagged`, false to take it away."),
        optional("keywords", words(), "Keywords to add."),
        optional("removeKeywords", words(), "Keywords to take away."),
    ];
    let flags = field("flags", ResultType::list(ResultType::Text), "The flags and keywords that it has now.");
    ActionSpec {
        title: "Mark a message".to_owned(),
        description: Some("Sets flags and keywords of a message.".to_owned()),
        inputs: message().into_iter().chain(own).collect(),
        result: Some("`{uid, uidValidity, flags}`".to_owned()),
        results: object(place().into_iter().chain([flags])),
        ..spec
    }
}

/// `mail.move`.
pub(super) fn transfer(spec: ActionSpec) -> ActionSpec {
    let to = required("to", InputType::Text, "The other mailbox, which must exist.");
    ActionSpec {
        title: "Move a message".to_owned(),
        description: Some("Moves a message to another mailbox, where it gets another number.".to_owned()),
        inputs: message().into_iter().chain([to]).collect(),
        result: Some("`{moved, mailbox, uid, uidValidity}`".to_owned()),
        results: object([
            field(
                "moved",
                ResultType::Boolean,
                "False if it was not there: an earlier attempt, or somebody else, has moved it.",
            ),
            field("mailbox", ResultType::Text, "The other mailbox."),
            field("uid", ResultType::Integer.or_null(), "Its number there, if the server tells it."),
            field("uidValidity", ResultType::Integer.or_null(), "The number of the numbering there."),
        ]),
        ..spec
    }
}

/// `mail.append`.
pub(super) fn append(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Put a message into a mailbox".to_owned(),
        description: Some(
            "Stores a message without sending it. A mailbox that has a message with its `Message-ID` stays as it is; a message without one gets one."
                .to_owned(),
        ),
        inputs: vec![
            required("mailbox", InputType::Text, "The mailbox, which must exist."),
            required("content", InputType::Any, "The message as a text or a file: headers, an empty line, the body."),
            defaulted("seen", InputType::Boolean, false, "True if it is stored as read."),
            defaulted("flagged", InputType::Boolean, false, "True if it is stored with the flag `\\Flagged`."),
            defaulted("draft", InputType::Boolean, false, "True if it is a draft."),
            optional("keywords", words(), "Its keywords."),
        ],
        result: Some("`{mailbox, messageId, uid, uidValidity, repeated}`".to_owned()),
        results: object([
            field("mailbox", ResultType::Text, "The mailbox."),
            field("messageId", ResultType::Text, "Its `Message-ID`, without `<` and `>`."),
            field("uid", ResultType::Integer.or_null(), "Its number, if the server tells it."),
            field("uidValidity", ResultType::Integer.or_null(), "The number of the mailbox's numbering."),
            field(
                "repeated",
                ResultType::Boolean,
                "True if the mailbox had it already, such as from an earlier attempt.",
            ),
        ]),
        ..spec
    }
}

/// `mail.delete`.
pub(super) fn delete(spec: ActionSpec) -> ActionSpec {
    let deleted = field("deleted", ResultType::Boolean, "False if it was not there.");
    ActionSpec {
        title: "Delete a message".to_owned(),
        description: Some(
            "Deletes a message for good. To keep it, move it to the mailbox for deleted messages.".to_owned(),
        ),
        inputs: message(),
        result: Some("`{deleted}`".to_owned()),
        results: object([deleted]),
        ..spec
    }
}
