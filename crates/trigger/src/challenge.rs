//! What senders ask of an address before they send anything to it, answered without an execution.
//!
//! A question reflects what a stranger wrote, so every answer is small, plain, and sealed against being run by a browser.
//! What is signed for the sender is of letters and digits alone: no message that a key signs otherwise can be asked for.

use base64::Engine as _;
use jiff::Timestamp;
use model::automation::{Challenge, ChallengeAnswer, ChallengeGuard, Encoding, RequestPlace};
use model::{HttpResponse, Map, Value};

use crate::rejection::Rejection;
use crate::response;
use crate::verify::mac::Mac;
use crate::verify::{Key, Reason};
use crate::webhook::Request;

/// The most bytes of a body that may be a question.
const MAX_BODY: usize = 4 << 10;
/// The most bytes of a text that is given back.
const MAX_ECHO: usize = 1 << 10;
/// The most bytes of a text that is signed.
const MAX_SIGNED: usize = 256;
/// What an answer may do in a browser: nothing.
const NOTHING: &str = "sandbox; default-src 'none'";

/// A question that a request asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The text that the answer is made of.
    pub text: String,
}

/// The question that a request asks, if it asks this one. Anything else about it makes it a request like any other.
#[must_use]
pub fn asked(challenge: &Challenge, request: &Request) -> Option<Asked> {
    let rule = &challenge.rule;
    if request.method != rule.method {
        return None;
    }
    let reads_body = rule
        .marks
        .iter()
        .map(|(place, _)| place)
        .chain(&rule.value)
        .any(|place| matches!(place, RequestPlace::Body(_)));
    let body: Option<serde_json::Value> = if reads_body && request.body.len() <= MAX_BODY {
        request.body.in_memory().and_then(|body| serde_json::from_slice(body).ok())
    } else {
        None
    };
    let at = |place| text_at(place, request, body.as_ref());
    if !rule.marks.iter().all(|(place, text)| at(place).as_deref() == Some(*text)) {
        return None;
    }
    let text = match &rule.value {
        Some(place) => at(place).filter(|text| !text.is_empty())?,
        None => String::new(),
    };
    Some(Asked { text })
}

/// The answer to a question. `keys` are those of the challenge, or of `verify` where it has none of its own; of several
/// in force at `now` the first one signs.
///
/// # Errors
/// 401 where the token is wrong or there is no key, with the reason for the log; 400 for a text that is too long, or has
/// characters that are not signed for a stranger.
pub fn answer(
    challenge: &Challenge,
    asked: &Asked,
    request: &Request,
    keys: &[Key],
    now: Timestamp,
) -> Result<HttpResponse, (Rejection, Reason)> {
    let rule = &challenge.rule;
    let refused = |reason| (Rejection::unverified(), reason);
    let odd = |message: &str| (Rejection::bad_request("bad_challenge", message), Reason::Form);
    if let ChallengeGuard::Token(place) = &rule.guard {
        let sent = text_at(place, request, None).ok_or_else(|| refused(Reason::Missing))?;
        let known = keys.iter().fold(false, |known, key| Mac::from(key.bytes()).is(sent.as_bytes()) | known);
        if !known {
            return Err(refused(Reason::Wrong));
        }
    }
    let text = asked.text.as_str();
    if text.len() > MAX_ECHO {
        return Err(odd("the text to give back is too long"));
    }
    let json = |entries: Vec<(&str, String)>| {
        HttpResponse::json(200, &Value::from(entries.into_iter().collect::<Map>()))
    };
    let response = match (rule.answer, &rule.value) {
        (ChallengeAnswer::Nothing, _) => {
            HttpResponse { status: 200, headers: Vec::new(), body: Vec::new().into() }
        }
        (ChallengeAnswer::Text, _) => HttpResponse::new(200, "text/plain; charset=utf-8", text.to_owned()),
        (ChallengeAnswer::Header, Some(RequestPlace::Header(name))) => {
            let empty = HttpResponse { status: 200, headers: Vec::new(), body: Vec::new().into() };
            empty.with_header(name.clone(), text.to_owned())
        }
        (ChallengeAnswer::Header, _) => return Err(odd("there is no header to give back")),
        (ChallengeAnswer::Json(name), _) => json(vec![(name, text.to_owned())]),
        (ChallengeAnswer::Mac { value, mac, prefix, encoding }, _) => {
            if text.len() > MAX_SIGNED || !text.bytes().all(is_signed) {
                return Err(odd(
                    "the text to sign is too long, or has other characters than letters and digits",
                ));
            }
            let key = keys.iter().find(|key| key.in_force(now)).ok_or_else(|| refused(Reason::Wrong))?;
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.bytes());
            let made = ring::hmac::sign(&key, text.as_bytes());
            let made = format!("{prefix}{}", encode(made.as_ref(), encoding));
            json(value.map(|name| (name, text.to_owned())).into_iter().chain([(mac, made)]).collect())
        }
    };
    Ok(response::sealed(response.with_header("content-security-policy", NOTHING)))
}

/// What a text to sign may have: nothing with which the messages that senders sign begin or are put together.
fn is_signed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_=+/".contains(&byte)
}

fn encode(bytes: &[u8], encoding: Encoding) -> String {
    match encoding {
        Encoding::Base64 => base64::engine::general_purpose::STANDARD.encode(bytes),
        Encoding::Base64Url => base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
        Encoding::Hex | Encoding::Text => hex::encode(bytes),
    }
}

/// The text at a place, if there is exactly one.
fn text_at(place: &RequestPlace, request: &Request, body: Option<&serde_json::Value>) -> Option<String> {
    let single = |mut found: Box<dyn Iterator<Item = String> + '_>| {
        let first = found.next();
        first.filter(|_| found.next().is_none())
    };
    match place {
        RequestPlace::Query(name) => {
            let pairs = form_urlencoded::parse(request.raw_query.as_bytes());
            single(Box::new(pairs.filter(|(key, _)| key == name).map(|(_, value)| value.into_owned())))
        }
        RequestPlace::Header(name) => {
            let values = request.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            let texts = values.filter_map(|(_, value)| String::from_utf8(value.clone()).ok());
            single(Box::new(texts.map(|text| text.trim().to_owned())))
        }
        RequestPlace::Body(pointer) => body?.pointer(pointer)?.as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
