//! Resume addresses in answers to credentials without `run`. An author may put the address into any value, so each answer is searched
//! for tokens before it leaves the listener.

use axum::body::{Body, HttpBody as _};
use axum::response::Response;
use bytes::Bytes;
use engine::ResumeTokens;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_LENGTH;
use model::redact::Mask as _;
use serde_json::Value;

/// Masks the tokens in a value.
pub(super) fn mask(value: &mut Value, tokens: &ResumeTokens) {
    match value {
        Value::String(text) => {
            if let Some(masked) = tokens.masked_text(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, tokens)),
        Value::Object(entries) => {
            entries.values_mut().for_each(|value| mask(value, tokens));
            if entries.keys().any(|key| tokens.masked_text(key).is_some()) {
                let renamed = std::mem::take(entries).into_iter();
                entries.extend(renamed.map(|(key, value)| (tokens.masked_text(&key).unwrap_or(key), value)));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks the tokens in a response: at once in a body in memory, which has an exact size, else part by part as it is sent.
pub(super) async fn masked(mut response: Response, tokens: ResumeTokens) -> Response {
    response.headers_mut().remove(CONTENT_LENGTH);
    if response.body().size_hint().exact().is_some() {
        let (parts, body) = response.into_parts();
        return match axum::body::to_bytes(body, usize::MAX).await {
            Ok(bytes) => Response::from_parts(parts, tokens.masked(&bytes).map_or(bytes, Bytes::from).into()),
            Err(error) => {
                Response::from_parts(parts, Body::from_stream(stream::once(async { Err::<Bytes, _>(error) })))
            }
        };
    }
    response.map(|body| {
        let parts = body.into_data_stream().map(Some).chain(stream::once(async { None }));
        let masked = parts.scan(Filter { tokens, rest: Vec::new() }, |filter, part| {
            let part = match part {
                Some(part) => part.map(|part| filter.push(part)),
                None => Ok(Bytes::from(std::mem::take(&mut filter.rest))),
            };
            std::future::ready(Some(part))
        });
        Body::from_stream(
            masked.filter(|part| {
                std::future::ready(part.as_ref().map_or(true, |part: &Bytes| !part.is_empty()))
            }),
        )
    })
}

/// A filter for the parts of a body.
struct Filter {
    tokens: ResumeTokens,
    /// The end of the previous part, which may be the beginning of a token.
    rest: Vec<u8>,
}

impl Filter {
    fn push(&mut self, part: Bytes) -> Bytes {
        if self.rest.is_empty() && Self::tail(&part) == 0 {
            return self.tokens.masked(&part).map_or(part, Bytes::from);
        }
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(&part);
        let mut bytes = self.tokens.masked(&bytes).unwrap_or(bytes);
        self.rest = bytes.split_off(bytes.len() - Self::tail(&bytes));
        bytes.into()
    }

    /// The length of the end of the bytes that may be the beginning of a token.
    fn tail(bytes: &[u8]) -> usize {
        let last = bytes.iter().rev().take(ResumeTokens::LEN - 1);
        last.take_while(|byte| ResumeTokens::is_part(**byte)).count()
    }
}
