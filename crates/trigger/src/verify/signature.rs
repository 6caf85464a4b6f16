//! Signatures: extracts them from their headers and checks them against every key.

use jiff::{SignedDuration, Timestamp};
use model::automation::{
    Algorithm, Encoding, Format, SignatureRule, TimeUnit, TimestampRule, TimestampSource,
};
use ring::{hmac, signature};

use super::mac::Mac;
use super::signed_content::{SignedParts, SignedSegment, is_form, signed_content};
use super::{MAX_HEADER, Reason, ValidKeys, Verified, decode, single_text};
use crate::webhook::{MAX_PARSED_BYTES, Request};

/// The maximum number of signatures of a request.
const MAX_SIGNATURES: usize = 8;
/// The maximum clock skew of a sender into the future (webhook security 2.3).
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// Checks the signatures of a request and returns the signed content.
pub(super) fn check<'a>(
    rule: &'a SignatureRule,
    keys: &ValidKeys<'_>,
    request: &'a Request,
    url: &'a str,
    now: Timestamp,
) -> Result<Verified<'a>, Reason> {
    let headers = signature_headers(rule, request)?;
    let texts: Vec<&str> = headers.iter().flat_map(|header| signature_texts(&rule.format, header)).collect();
    if texts.is_empty() || texts.len() > MAX_SIGNATURES {
        return Err(Reason::Form);
    }
    let timestamp =
        rule.timestamp.as_ref().map(|at| signature_timestamp(at, rule, request, &headers)).transpose()?;
    let id = rule.id.as_deref().map(|name| single_text(request, name)?.ok_or(Reason::Missing)).transpose()?;
    if id.is_some_and(|id| id.contains('.')) {
        // A dot in the id could shift the boundary between id and timestamp.
        return Err(Reason::Form);
    }
    let message = signed_content(rule, &SignedParts { request, url, timestamp: timestamp.clone(), id });
    let signatures: Vec<Vec<u8>> = texts.iter().filter_map(|text| decode(text, rule.encoding)).collect();
    let mut made = None;
    for (index, key) in keys {
        // Check every key, even after a match.
        if is_signed_by(rule.algorithm, key.bytes(), &message, &signatures)? {
            made = made.or(Some(*index));
        }
    }
    let key = made.ok_or(Reason::Wrong)?;
    if let (Some(at), Some(sent)) = (&rule.timestamp, timestamp) {
        check_timestamp(at, &sent, now)?;
    }
    match rule.body_digest {
        Some(parameter) if !is_form(request) && !request.body.is_empty() => {
            check_body_digest(request, parameter)?
        }
        _ => {}
    }
    Ok(Verified { key: Some(key), signed: message })
}

/// The headers that may contain a signature. A name with a wildcard matches numbered headers (`x-signature-1`, `x-signature-2`).
fn signature_headers<'a>(rule: &SignatureRule, request: &'a Request) -> Result<Vec<&'a str>, Reason> {
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

/// The signatures in a header value.
fn signature_texts<'a>(format: &Format, header: &'a str) -> Vec<&'a str> {
    match format {
        Format::Plain { prefix } => header.strip_prefix(prefix.as_str()).into_iter().collect(),
        Format::Pairs { separator, select } => pair_values(header, *separator, select).collect(),
        Format::Tagged { tag } => header
            .split(' ')
            .filter_map(|item| item.split_once(',').filter(|(key, _)| key == tag).map(|(_, text)| text))
            .collect(),
    }
}

fn pair_values<'a>(header: &'a str, separator: char, select: &str) -> impl Iterator<Item = &'a str> {
    let pairs = header.split(separator).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == select).map(|(_, value)| value)
}

/// The timestamp of the signature, in the sender's notation.
fn signature_timestamp(
    at: &TimestampRule,
    rule: &SignatureRule,
    request: &Request,
    headers: &[&str],
) -> Result<String, Reason> {
    let sent = match &at.source {
        TimestampSource::Header(name) => single_text(request, name)?.map(str::to_owned),
        TimestampSource::Pair(key) => match &rule.format {
            Format::Pairs { separator, .. } => headers
                .iter()
                .find_map(|header| pair_values(header, *separator, key).next())
                .map(str::to_owned),
            Format::Plain { .. } | Format::Tagged { .. } => None,
        },
        TimestampSource::Body(key) => {
            let body = request.body.in_memory().ok_or(Reason::Time)?;
            let body: serde_json::Value = serde_json::from_slice(body).map_err(|_| Reason::Time)?;
            body.get(key).and_then(serde_json::Value::as_u64).map(|number| number.to_string())
        }
    };
    sent.ok_or(Reason::Time)
}

fn check_timestamp(at: &TimestampRule, sent: &str, now: Timestamp) -> Result<(), Reason> {
    let plain = !sent.is_empty() && sent.len() <= 16 && sent.bytes().all(|byte| byte.is_ascii_digit());
    let number = || if plain { sent.parse::<i64>().ok() } else { None };
    let made = match at.unit {
        TimeUnit::Seconds => number().and_then(|seconds| Timestamp::from_second(seconds).ok()),
        TimeUnit::Milliseconds => number().and_then(|millis| Timestamp::from_millisecond(millis).ok()),
        TimeUnit::Rfc3339 => sent.parse().ok(),
    };
    let age = made.ok_or(Reason::Time)?.duration_until(now);
    let oldest = SignedDuration::try_from(at.tolerance).unwrap_or(SignedDuration::MAX);
    if age > oldest || -age > MAX_CLOCK_SKEW { Err(Reason::Late) } else { Ok(()) }
}

/// True if `key` made one of the signatures of the message. Takes constant time.
fn is_signed_by(
    algorithm: Algorithm,
    key: &[u8],
    message: &[SignedSegment<'_>],
    made: &[Vec<u8>],
) -> Result<bool, Reason> {
    let digest = match algorithm {
        Algorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Algorithm::Sha256 => hmac::HMAC_SHA256,
        Algorithm::Sha384 => hmac::HMAC_SHA384,
        Algorithm::Sha512 => hmac::HMAC_SHA512,
        Algorithm::Ed25519 => {
            let key = signature::UnparsedPublicKey::new(&signature::ED25519, key);
            // Ed25519 hashes its message twice, so the whole message must be in memory.
            let message = load_message(message)?;
            return Ok(made.iter().fold(false, |found, made| found | key.verify(&message, made).is_ok()));
        }
    };
    let mut context = hmac::Context::with_key(&hmac::Key::new(digest, key));
    for piece in message {
        piece.for_each_chunk(|bytes| context.update(bytes)).map_err(|_| Reason::Unreadable)?;
    }
    let right = Mac::from_tag(context.sign());
    Ok(made.iter().fold(false, |found, made| found | right.matches(made)))
}

fn load_message(message: &[SignedSegment<'_>]) -> Result<Vec<u8>, Reason> {
    let mut whole = Vec::new();
    for piece in message {
        if let SignedSegment::Body(body) = piece
            && body.is_external()
            && body.len() > MAX_PARSED_BYTES
        {
            return Err(Reason::TooLarge);
        }
        piece.for_each_chunk(|bytes| whole.extend_from_slice(bytes)).map_err(|_| Reason::Unreadable)?;
    }
    Ok(whole)
}

/// Checks that a query parameter, which the signature covers, is the body's SHA-256 in hex.
fn check_body_digest(request: &Request, parameter: &str) -> Result<(), Reason> {
    let query: Vec<_> = form_urlencoded::parse(request.raw_query.as_bytes()).collect();
    let sent = query.iter().find(|(name, _)| name == parameter).map(|(_, value)| value.as_ref());
    let sent = sent.ok_or(Reason::Missing)?;
    let sent = decode(sent, Encoding::Hex).ok_or(Reason::Form)?;
    if Mac::from(&request.body.digest()[..]).matches(&sent) { Ok(()) } else { Err(Reason::Wrong) }
}
