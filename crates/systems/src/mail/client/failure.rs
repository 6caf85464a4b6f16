//! Errors of the protocol and of the connection, as the kinds of the engine.

use async_imap::imap_proto::{Outcome, ResponseCode, Status};
use model::{ActionError, ErrorKind};

use super::limited::Excess;

/// The length at which a message of the server is cut, in characters.
const MAX_MESSAGE: usize = 300;
/// The codes of refusals that do not last (RFC 5530).
const TEMPORARY: [&str; 4] = ["UNAVAILABLE", "INUSE", "SERVERBUG", "LIMIT"];

/// The error of a connection that broke.
pub(super) fn broken(subject: &str, error: &std::io::Error) -> ActionError {
    if let Some(excess) = error.get_ref().and_then(|error| error.downcast_ref::<Excess>()) {
        let kind = if *excess == Excess::Form { ErrorKind::Response } else { ErrorKind::Limit };
        return ActionError::new(kind, format!("{subject} sends what is not read: {excess}"));
    }
    // The parser repeats what it got, which may be a mail.
    if error.kind() == std::io::ErrorKind::Other {
        let message = format!("{subject} sends what is not read: an answer breaks the rules of IMAP");
        return ActionError::new(ErrorKind::Response, message);
    }
    ActionError::new(ErrorKind::Network, format!("the connection to {subject} broke: {}", error.kind()))
}

/// The error of a server that ends the connection.
pub(super) fn closed(subject: &str, outcome: Option<&Outcome<'_>>) -> ActionError {
    let words = outcome.map(|outcome| Refusal::of(outcome).text).filter(|text| !text.is_empty());
    let words = words.map_or_else(String::new, |text| format!(": {text}"));
    ActionError::new(ErrorKind::Network, format!("{subject} has ended the connection{words}"))
}

/// The code and the text of a refusal.
pub(super) struct Refusal {
    pub code: Option<String>,
    text: String,
}

impl Refusal {
    pub(super) fn of(outcome: &Outcome<'_>) -> Self {
        let text = outcome.information.as_deref().unwrap_or_default();
        // A code that the parser does not know is still in the text.
        let (code, text) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((code, rest)) if outcome.code.is_none() => {
                (code.split(' ').next().map(str::to_owned), rest.trim_start())
            }
            _ => (known_code(outcome.code.as_ref()).map(str::to_owned), text),
        };
        Self { code, text: text::truncate(text, MAX_MESSAGE).into_owned() }
    }

    /// True if the refusal does not last.
    pub(super) fn is_temporary(&self) -> bool {
        self.code
            .as_deref()
            .is_some_and(|code| TEMPORARY.iter().any(|known| known.eq_ignore_ascii_case(code)))
    }
}

fn known_code(code: Option<&ResponseCode<'_>>) -> Option<&'static str> {
    match code? {
        ResponseCode::TryCreate => Some("TRYCREATE"),
        ResponseCode::ReadOnly => Some("READ-ONLY"),
        ResponseCode::BadCharset(_) => Some("BADCHARSET"),
        _ => None,
    }
}

/// The error of a command that the server refuses. `command` is named: `SELECT`.
pub(super) fn refused(subject: &str, command: &str, status: &Status, outcome: &Outcome<'_>) -> ActionError {
    let refusal = Refusal::of(outcome);
    let word = if matches!(status, Status::Bad) { "BAD" } else { "NO" };
    let kind = if refusal.is_temporary() { ErrorKind::Network } else { ErrorKind::Response };
    let message = format!("{subject} refuses {command}: {}", refusal.text);
    ActionError::new(kind, message).with_code(refusal.code.unwrap_or_else(|| word.to_owned()))
}
