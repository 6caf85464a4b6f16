//! Challenges: requests with which a sender verifies an endpoint before it sends events. They are answered without an
//! execution.
//!
//! An answer reflects untrusted input, so it is small, plain, and sealed against execution by a browser. The daemon signs
//! only texts of letters, digits and a few marks, so that a challenge cannot obtain a signature of another message.

use base64::Engine as _;
use jiff::Timestamp;
use model::HttpResponse;
use model::automation::{Challenge, ChallengeGuard, ChallengeResponse, Encoding, RequestField};
use value::{Map, Value};

use crate::rejection::Rejection;
use crate::response;
use crate::verify::mac::Mac;
use crate::verify::{Key, Reason};
use crate::webhook::Request;

/// The largest body that is searched for a challenge, in bytes.
const MAX_BODY: usize = 4 << 10;
/// The longest text that an answer echoes, in bytes.
const MAX_ECHO: usize = 1 << 10;
/// The longest text that an answer signs, in bytes.
const MAX_SIGNED: usize = 256;
/// The content security policy of an answer, which allows nothing.
const DENY_ALL: &str = "sandbox; default-src 'none'";

/// A challenge found in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChallengeRequest {
    /// The text to answer with; empty if the answer needs none.
    pub text: String,
}

/// Finds a challenge in a request. `None` if the request does not match the rule exactly; it is then an ordinary request.
#[must_use]
pub fn detect(challenge: &Challenge, request: &Request) -> Option<ChallengeRequest> {
    let rule = &challenge.rule;
    if request.method != rule.method {
        return None;
    }
    let reads_body = rule
        .markers
        .iter()
        .map(|(place, _)| place)
        .chain(&rule.value)
        .any(|place| matches!(place, RequestField::Body(_)));
    let body: Option<serde_json::Value> = if reads_body && request.body.len() <= MAX_BODY {
        request.body.in_memory().and_then(|body| serde_json::from_slice(body).ok())
    } else {
        None
    };
    let at = |place| text_at(place, request, body.as_ref());
    if !rule.markers.iter().all(|(place, text)| at(place).as_deref() == Some(*text)) {
        return None;
    }
    let text = match &rule.value {
        Some(place) => at(place).filter(|text| !text.is_empty())?,
        None => String::new(),
    };
    Some(ChallengeRequest { text })
}

/// The response to a challenge. `keys` are those of the challenge, or of `verify` if the challenge has none; the first one
/// valid at `now` signs.
///
/// # Errors
/// 401 if the token is wrong or there is no key, with the reason for the log; 400 if the text is too long, or has
/// characters that the daemon does not sign.
pub fn respond(
    challenge: &Challenge,
    challenge_request: &ChallengeRequest,
    request: &Request,
    keys: &[Key],
    now: Timestamp,
) -> Result<HttpResponse, (Rejection, Reason)> {
    let rule = &challenge.rule;
    let unverified = |reason| (Rejection::unverified(), reason);
    let invalid = |message: &str| (Rejection::bad_request("bad_challenge", message), Reason::Form);
    if let ChallengeGuard::Token(place) = &rule.guard {
        let sent = text_at(place, request, None).ok_or_else(|| unverified(Reason::Missing))?;
        let known =
            keys.iter().fold(false, |known, key| Mac::from(key.bytes()).matches(sent.as_bytes()) | known);
        if !known {
            return Err(unverified(Reason::Wrong));
        }
    }
    let text = challenge_request.text.as_str();
    if text.len() > MAX_ECHO {
        return Err(invalid("the text to give back is too long"));
    }
    let json = |entries: Vec<(&str, String)>| {
        HttpResponse::json(200, &Value::from(entries.into_iter().collect::<Map>()))
    };
    let response = match (rule.response, &rule.value) {
        (ChallengeResponse::Empty, _) => {
            HttpResponse { status: 200, headers: Vec::new(), body: Vec::new().into() }
        }
        (ChallengeResponse::Text, _) => HttpResponse::new(200, "text/plain; charset=utf-8", text.to_owned()),
        (ChallengeResponse::Header, Some(RequestField::Header(name))) => {
            let empty = HttpResponse { status: 200, headers: Vec::new(), body: Vec::new().into() };
            empty.with_header(name.clone(), text.to_owned())
        }
        (ChallengeResponse::Header, _) => return Err(invalid("there is no header to give back")),
        (ChallengeResponse::Json(name), _) => json(vec![(name, text.to_owned())]),
        (ChallengeResponse::Mac { value, mac, prefix, encoding }, _) => {
            if text.len() > MAX_SIGNED || !text.bytes().all(is_signable) {
                return Err(invalid(
                    "the text to sign is too long, or has other characters than letters and digits",
                ));
            }
            let key =
                keys.iter().find(|key| key.is_valid_at(now)).ok_or_else(|| unverified(Reason::Wrong))?;
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.bytes());
            let made = ring::hmac::sign(&key, text.as_bytes());
            let made = format!("{prefix}{}", encode(made.as_ref(), encoding));
            json(value.map(|name| (name, text.to_owned())).into_iter().chain([(mac, made)]).collect())
        }
    };
    Ok(response::seal(response.with_header("content-security-policy", DENY_ALL)))
}

/// True for bytes that a signed text may contain. They exclude the separators of the messages that senders sign.
fn is_signable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_=+/".contains(&byte)
}

fn encode(bytes: &[u8], encoding: Encoding) -> String {
    match encoding {
        Encoding::Base64 => base64::engine::general_purpose::STANDARD.encode(bytes),
        Encoding::Base64Url => base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
        Encoding::Hex | Encoding::Text => hex::encode(bytes),
    }
}

/// The text at a location in the request; `None` if there is none or more than one.
fn text_at(place: &RequestField, request: &Request, body: Option<&serde_json::Value>) -> Option<String> {
    let single = |mut found: Box<dyn Iterator<Item = String> + '_>| {
        let first = found.next();
        first.filter(|_| found.next().is_none())
    };
    match place {
        RequestField::Query(name) => {
            let pairs = form_urlencoded::parse(request.raw_query.as_bytes());
            single(Box::new(pairs.filter(|(key, _)| key == name).map(|(_, value)| value.into_owned())))
        }
        RequestField::Header(name) => {
            let values = request.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            let texts = values.filter_map(|(_, value)| String::from_utf8(value.clone()).ok());
            single(Box::new(texts.map(|text| text.trim().to_owned())))
        }
        RequestField::Body(pointer) => body?.pointer(pointer)?.as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
