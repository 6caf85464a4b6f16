//! The request log: what was asked, in order, without the secrets that came with it.

use std::collections::VecDeque;

use bytes::Bytes;
use http::HeaderMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::clock::Moment;
use super::faults::matches_pattern;

/// The most requests that are remembered.
pub(super) const MOST_REQUESTS: usize = 10_000;
/// How much of a body is remembered, in bytes.
const LARGEST_EXCERPT: usize = 256 * 1024;
/// How much all remembered bodies may take together, in bytes.
const LARGEST_TOTAL: usize = 64 * 1024 * 1024;
/// Fields of the token endpoint that are secrets.
const SECRET_FIELDS: [&str; 6] =
    ["client_secret", "refresh_token", "access_token", "code", "code_verifier", "password"];
/// Headers that are secrets.
const SECRET_HEADERS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// A short digest that stands for a secret: two secrets are the same when their fingerprints are.
pub fn fingerprint(secret: &str) -> String {
    let digest = Sha256::digest(secret.as_bytes());
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// A request as it is remembered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggedRequest {
    /// Its place among all requests, from 1.
    pub sequence: u64,
    /// When it came, by the simulator's clock.
    pub at: Moment,
    /// Upper case.
    pub method: String,
    /// As it was sent, with the gateway's prefix.
    pub path: String,
    /// Decoded, in order.
    pub query: Vec<(String, String)>,
    /// In order; names in lower case. Secrets are replaced by their fingerprint: `Bearer sha256:0123456789abcdef`.
    pub headers: Vec<(String, String)>,
    /// The request's body, up to 256 KiB; secrets of the token endpoint are replaced by their fingerprint.
    #[serde(serialize_with = "as_text")]
    pub body: Bytes,
    /// The size of the request's body, in bytes.
    pub body_bytes: usize,
    /// The response; `None` while it is being made and after a reset.
    pub status: Option<u16>,
    /// A fault of the script hit it.
    pub fault: bool,
}

impl LoggedRequest {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The first query parameter of this name.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null when it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// True if the request carried exactly this Authorization header.
    pub fn was_authorized_by(&self, authorization: &str) -> bool {
        self.header("authorization") == Some(redact(authorization).as_str())
    }

    /// True if method (or `*`) and path pattern match the request.
    pub fn is(&self, method: &str, path: &str) -> bool {
        (method == "*" || method.eq_ignore_ascii_case(&self.method)) && matches_pattern(path, &self.path)
    }
}

fn as_text<S: Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(body) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => serializer.collect_str(&format_args!("{} bytes that are not text", body.len())),
    }
}

/// The scheme of a credential and the fingerprint of the rest.
fn redact(value: &str) -> String {
    match value.trim().split_once(' ') {
        Some((scheme, secret)) => format!("{scheme} {}", fingerprint(secret.trim())),
        None => fingerprint(value.trim()),
    }
}

fn redact_body(path: &str, body: &Bytes) -> Bytes {
    if !path.ends_with("/oauth/token") {
        return body.clone();
    }
    if let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) {
        for (name, value) in &mut fields {
            if let (true, Some(text)) = (SECRET_FIELDS.contains(&name.as_str()), value.as_str()) {
                *value = fingerprint(text).into();
            }
        }
        return serde_json::to_vec(&fields).unwrap_or_default().into();
    }
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in url::form_urlencoded::parse(body) {
        let secret = SECRET_FIELDS.contains(&name.as_ref());
        form.append_pair(&name, &if secret { fingerprint(&value) } else { value.into_owned() });
    }
    form.finish().into()
}

/// The last requests.
#[derive(Debug, Default)]
pub(super) struct Log {
    requests: VecDeque<LoggedRequest>,
    total: u64,
    kept_bytes: usize,
}

impl Log {
    /// Remembers a request and returns its place.
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, each of another type")]
    pub(super) fn add(
        &mut self,
        at: Moment,
        method: &str,
        path: &str,
        query: &[(String, String)],
        headers: &HeaderMap,
        body: &Bytes,
        fault: bool,
    ) -> u64 {
        self.total += 1;
        let kept = redact_body(path, body);
        // Copied when cut: a slice would keep the whole body alive.
        let kept = if kept.len() > LARGEST_EXCERPT {
            Bytes::copy_from_slice(&kept[..LARGEST_EXCERPT])
        } else {
            kept
        };
        let headers = headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            let secret = SECRET_HEADERS.contains(&name.as_str());
            (name.as_str().to_owned(), if secret { redact(&value) } else { value })
        });
        self.kept_bytes += kept.len();
        self.requests.push_back(LoggedRequest {
            sequence: self.total,
            at,
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_vec(),
            headers: headers.collect(),
            body: kept,
            body_bytes: body.len(),
            status: None,
            fault,
        });
        while self.requests.len() > MOST_REQUESTS
            || (self.kept_bytes > LARGEST_TOTAL && self.requests.len() > 1)
        {
            let Some(oldest) = self.requests.pop_front() else { break };
            self.kept_bytes -= oldest.body.len();
        }
        self.total
    }

    /// Notes what a request was answered.
    pub(super) fn answered(&mut self, sequence: u64, status: u16) {
        // Recent requests are at the back.
        if let Some(request) = self.requests.iter_mut().rev().find(|request| request.sequence == sequence) {
            request.status = Some(status);
        }
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.requests.iter()
    }

    /// How many requests there have been, also those no longer remembered.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.kept_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &mut Log, path: &str, headers: &[(&'static str, &'static str)], body: impl Into<Bytes>) {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        log.add(Moment::from_millis(0), "POST", path, &[], &headers, &body.into(), false);
    }

    #[test]
    fn credentials_are_redacted_but_can_be_compared() {
        let mut log = Log::default();
        add(&mut log, "/x", &[("authorization", "Bearer very-secret")], "");
        let request = log.requests().next().unwrap();
        assert!(request.was_authorized_by("Bearer very-secret"));
        assert!(!request.was_authorized_by("Bearer other"));
        assert!(!serde_json::to_string(request).unwrap().contains("very-secret"));
    }

    #[test]
    fn secrets_of_the_token_endpoint_are_redacted_in_json_and_in_forms() {
        let mut log = Log::default();
        add(&mut log, "/oauth/token", &[], r#"{"grant_type":"refresh_token","client_secret":"hush"}"#);
        add(&mut log, "/oauth/token", &[], "grant_type=refresh_token&client_secret=hush");
        let text = serde_json::to_string(&log.requests().collect::<Vec<_>>()).unwrap();
        assert!(!text.contains("hush"), "{text}");
        assert_eq!(log.requests().next().unwrap().json()["client_secret"], fingerprint("hush"));
    }

    #[test]
    fn the_log_is_bounded_in_requests_and_in_bytes() {
        let mut log = Log::default();
        for _ in 0..(MOST_REQUESTS + 10) {
            add(&mut log, "/x", &[], "");
        }
        assert_eq!(log.requests.len(), MOST_REQUESTS);
        assert_eq!(log.total(), MOST_REQUESTS as u64 + 10);
        let large = Bytes::from(vec![b'x'; LARGEST_EXCERPT + 1]);
        for _ in 0..300 {
            add(&mut log, "/x", &[], large.clone());
        }
        assert!(log.kept_bytes <= LARGEST_TOTAL);
        assert_eq!(log.requests.back().unwrap().body_bytes, LARGEST_EXCERPT + 1);
    }
}
