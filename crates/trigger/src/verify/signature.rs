//! Signatures: found in their header, held against every key.

use jiff::{SignedDuration, Timestamp};
use model::automation::{
    Algorithm, Encoding, Format, SignatureRule, TimeUnit, TimestampPlace, TimestampRule,
};
use ring::{hmac, signature};

use super::content::{Parts, Signed, is_form, signed};
use super::mac::Mac;
use super::{MAX_HEADER, Numbered, Proven, Reason, decode, single_text};
use crate::webhook::{MOST_PARSED, Request};

/// The most signatures of one request that are looked at.
const MAX_SIGNATURES: usize = 8;
/// How far a sender's clock may be ahead (webhook security 2.3).
const AHEAD: SignedDuration = SignedDuration::from_secs(60);

/// Checks a signature, and gives what it is over.
pub(super) fn check<'a>(
    rule: &'a SignatureRule,
    keys: &Numbered<'_>,
    request: &'a Request,
    url: &'a str,
    now: Timestamp,
) -> Result<Proven<'a>, Reason> {
    let headers = found(rule, request)?;
    let texts: Vec<&str> = headers.iter().flat_map(|header| texts(&rule.format, header)).collect();
    if texts.is_empty() || texts.len() > MAX_SIGNATURES {
        return Err(Reason::Form);
    }
    let timestamp = rule.timestamp.as_ref().map(|at| sent_at(at, rule, request, &headers)).transpose()?;
    let id = rule.id.as_deref().map(|name| single_text(request, name)?.ok_or(Reason::Missing)).transpose()?;
    if id.is_some_and(|id| id.contains('.')) {
        // It could stand for another id and another time.
        return Err(Reason::Form);
    }
    let message = signed(rule, &Parts { request, url, timestamp: timestamp.clone(), id });
    let signatures: Vec<Vec<u8>> = texts.iter().filter_map(|text| decode(text, rule.encoding)).collect();
    let mut made = None;
    for (index, key) in keys {
        // Every key is held against it, whichever it was.
        if made_one(rule.algorithm, key.bytes(), &message, &signatures)? {
            made = made.or(Some(*index));
        }
    }
    let key = made.ok_or(Reason::Wrong)?;
    if let (Some(at), Some(sent)) = (&rule.timestamp, timestamp) {
        in_time(at, &sent, now)?;
    }
    match rule.body_digest {
        Some(parameter) if !is_form(request) && !request.body.is_empty() => body_is(request, parameter)?,
        _ => {}
    }
    Ok(Proven { key: Some(key), signed: message })
}

/// The headers that may hold a signature. Of a name with numbers (`x-signature-1`, `x-signature-2`) all do.
fn found<'a>(rule: &SignatureRule, request: &'a Request) -> Result<Vec<&'a str>, Reason> {
    let mut headers = Vec::new();
    for name in &rule.headers {
        let Some(start) = name.strip_suffix('*') else {
            headers.extend(single_text(request, name)?);
            continue;
        };
        for (name, value) in &request.headers {
            let number = name.to_ascii_lowercase();
            let number = number.strip_prefix(start).filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
            if number.is_some_and(|number| !number.is_empty()) && value.len() <= MAX_HEADER {
                headers.push(std::str::from_utf8(value).map(str::trim).map_err(|_| Reason::Form)?);
            }
        }
    }
    if headers.is_empty() { Err(Reason::Missing) } else { Ok(headers) }
}

/// The signatures in a header.
fn texts<'a>(format: &Format, header: &'a str) -> Vec<&'a str> {
    match format {
        Format::Plain { prefix } => header.strip_prefix(prefix.as_str()).into_iter().collect(),
        Format::Pairs { separator, select } => pairs(header, *separator, select).collect(),
        Format::Tagged { tag } => header
            .split(' ')
            .filter_map(|item| item.split_once(',').filter(|(key, _)| key == tag).map(|(_, text)| text))
            .collect(),
    }
}

fn pairs<'a>(header: &'a str, separator: char, select: &str) -> impl Iterator<Item = &'a str> {
    let pairs = header.split(separator).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == select).map(|(_, value)| value)
}

/// When the sender says that it signed, as it says so.
fn sent_at(
    at: &TimestampRule,
    rule: &SignatureRule,
    request: &Request,
    headers: &[&str],
) -> Result<String, Reason> {
    let sent = match &at.place {
        TimestampPlace::Header(name) => single_text(request, name)?.map(str::to_owned),
        TimestampPlace::Pair(key) => match &rule.format {
            Format::Pairs { separator, .. } => {
                headers.iter().find_map(|header| pairs(header, *separator, key).next()).map(str::to_owned)
            }
            Format::Plain { .. } | Format::Tagged { .. } => None,
        },
        TimestampPlace::Body(key) => {
            let body = request.body.in_memory().ok_or(Reason::Time)?;
            let body: serde_json::Value = serde_json::from_slice(body).map_err(|_| Reason::Time)?;
            body.get(key).and_then(serde_json::Value::as_u64).map(|number| number.to_string())
        }
    };
    sent.ok_or(Reason::Time)
}

fn in_time(at: &TimestampRule, sent: &str, now: Timestamp) -> Result<(), Reason> {
    let plain = !sent.is_empty() && sent.len() <= 16 && sent.bytes().all(|byte| byte.is_ascii_digit());
    let number = || if plain { sent.parse::<i64>().ok() } else { None };
    let made = match at.unit {
        TimeUnit::Seconds => number().and_then(|seconds| Timestamp::from_second(seconds).ok()),
        TimeUnit::Milliseconds => number().and_then(|millis| Timestamp::from_millisecond(millis).ok()),
        TimeUnit::Rfc3339 => sent.parse().ok(),
    };
    let age = made.ok_or(Reason::Time)?.duration_until(now);
    let oldest = SignedDuration::try_from(at.tolerance).unwrap_or(SignedDuration::MAX);
    if age > oldest || -age > AHEAD { Err(Reason::Late) } else { Ok(()) }
}

/// Whether a key made one of these signatures over a message. Takes as long for a wrong one as for the right one.
fn made_one(
    algorithm: Algorithm,
    key: &[u8],
    message: &[Signed<'_>],
    made: &[Vec<u8>],
) -> Result<bool, Reason> {
    let digest = match algorithm {
        Algorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Algorithm::Sha256 => hmac::HMAC_SHA256,
        Algorithm::Sha384 => hmac::HMAC_SHA384,
        Algorithm::Sha512 => hmac::HMAC_SHA512,
        Algorithm::Ed25519 => {
            let key = signature::UnparsedPublicKey::new(&signature::ED25519, key);
            // It hashes its message twice, so that has to be there whole.
            let message = concat(message)?;
            return Ok(made.iter().fold(false, |found, made| found | key.verify(&message, made).is_ok()));
        }
    };
    let mut context = hmac::Context::with_key(&hmac::Key::new(digest, key));
    for piece in message {
        piece.for_each_chunk(|bytes| context.update(bytes)).map_err(|_| Reason::Unreadable)?;
    }
    let right = Mac::of(context.sign());
    Ok(made.iter().fold(false, |found, made| found | right.is(made)))
}

fn concat(message: &[Signed<'_>]) -> Result<Vec<u8>, Reason> {
    let mut whole = Vec::new();
    for piece in message {
        if let Signed::Body(body) = piece
            && body.is_external()
            && body.len() > MOST_PARSED
        {
            return Err(Reason::TooLarge);
        }
        piece.for_each_chunk(|bytes| whole.extend_from_slice(bytes)).map_err(|_| Reason::Unreadable)?;
    }
    Ok(whole)
}

/// Whether a parameter of the query, which is signed with the address, has the body's SHA-256 in hex.
fn body_is(request: &Request, parameter: &str) -> Result<(), Reason> {
    let query: Vec<_> = form_urlencoded::parse(request.raw_query.as_bytes()).collect();
    let sent = query.iter().find(|(name, _)| name == parameter).map(|(_, value)| value.as_ref());
    let sent = sent.ok_or(Reason::Missing)?;
    let sent = decode(sent, Encoding::Hex).ok_or(Reason::Form)?;
    if Mac::from(&request.body.digest()[..]).is(&sent) { Ok(()) } else { Err(Reason::Wrong) }
}
