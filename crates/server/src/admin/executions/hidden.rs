//! Resume addresses in answers to credentials without `run`. An author may put the address into any value, so each answer is searched
//! for tokens before it leaves the listener.

use axum::body::{Body, HttpBody as _};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_LENGTH;
use runtime::ResumeTokens;
use serde_json::Value;
use value::redact::Mask as _;

/// Masks the tokens in a value.
pub(crate) fn mask(value: &mut Value, tokens: &ResumeTokens) {
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

/// The bytes from which on a text is searched on a thread of its own: a hostile text of a megabyte takes half a second.
const LARGE: usize = 8 << 10;

/// Masks the tokens in a response: at once in a body in memory, which has an exact size, else part by part as it is sent.
pub(crate) async fn masked(mut response: Response, tokens: ResumeTokens) -> Response {
    response.headers_mut().remove(CONTENT_LENGTH);
    if response.body().size_hint().exact().is_some() {
        let (parts, body) = response.into_parts();
        let bytes = async {
            let bytes = axum::body::to_bytes(body, usize::MAX).await?;
            mask_bytes(tokens, bytes).await
        };
        let body = match bytes.await {
            Ok(bytes) => bytes.into(),
            Err(error) => Body::from_stream(stream::once(async { Err::<Bytes, _>(error) })),
        };
        return Response::from_parts(parts, body);
    }
    response.map(|body| {
        let filter = Filter { tokens, rest: Vec::new() };
        let masked = stream::unfold(Some((body.into_data_stream(), filter)), async |state| {
            let (mut parts, mut filter) = state?;
            loop {
                let (masked, is_last) = match parts.next().await {
                    Some(Ok(part)) => (filter.push(part).await, false),
                    Some(Err(error)) => return Some((Err(error), None)),
                    None => (Ok(Bytes::from(std::mem::take(&mut filter.rest))), true),
                };
                match masked {
                    Ok(bytes) if bytes.is_empty() && is_last => return None,
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Some((Ok(bytes), (!is_last).then_some((parts, filter)))),
                    Err(error) => return Some((Err(error), None)),
                }
            }
        });
        Body::from_stream(masked)
    })
}

/// Masks the tokens in bytes, on a thread that may block if they are many.
async fn mask_bytes(tokens: ResumeTokens, bytes: Bytes) -> Result<Bytes, axum::Error> {
    let is_large = bytes.len() >= LARGE;
    let mask = move || tokens.masked(&bytes).map_or(bytes, Bytes::from);
    if is_large { tokio::task::spawn_blocking(mask).await.map_err(axum::Error::new) } else { Ok(mask()) }
}

/// A filter for the parts of a body.
struct Filter {
    tokens: ResumeTokens,
    /// The end of the previous part, which may be the beginning of a token.
    rest: Vec<u8>,
}

impl Filter {
    /// Masks the tokens up to the end of a part, without the beginning of another one.
    async fn push(&mut self, part: Bytes) -> Result<Bytes, axum::Error> {
        let joined = if self.rest.is_empty() {
            part
        } else {
            let mut joined = std::mem::take(&mut self.rest);
            joined.extend_from_slice(&part);
            joined.into()
        };
        let mut masked = mask_bytes(self.tokens.clone(), joined).await?;
        let tail = masked.iter().rev().take(ResumeTokens::LEN - 1);
        let tail = tail.take_while(|byte| ResumeTokens::is_part(**byte)).count();
        self.rest = masked.split_off(masked.len() - tail).into();
        Ok(masked)
    }
}

#[cfg(test)]
mod tests {
    use model::ExecutionId;

    use super::*;

    async fn sent(parts: &[&[u8]], tokens: &ResumeTokens) -> Bytes {
        let parts: Vec<_> =
            parts.iter().map(|part| Ok::<_, axum::Error>(Bytes::copy_from_slice(part))).collect();
        let response = Response::new(Body::from_stream(stream::iter(parts)));
        let body = masked(response, tokens.clone()).await.into_body();
        axum::body::to_bytes(body, usize::MAX).await.expect("a body")
    }

    #[tokio::test]
    async fn a_resume_token_is_masked_across_chunk_boundaries() {
        let tokens = ResumeTokens::with_key([7; 32]);
        let id = ExecutionId::new(jiff::Timestamp::UNIX_EPOCH, [9; 10]);
        let text = format!("{}{}, ü", "e".repeat(LARGE), tokens.token(id));
        let masked = format!("{}***, ü", "e".repeat(LARGE));
        for end in [1, LARGE - 1, LARGE, LARGE + 20, LARGE + ResumeTokens::LEN, text.len()] {
            let (first, second) = text.as_bytes().split_at(end);
            assert_eq!(sent(&[first, b"", second], &tokens).await, masked, "{end}");
        }
        assert_eq!(sent(&[], &tokens).await, "");
    }
}
