//! The fault script: what goes wrong, on which call.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::clock::Moment;
use super::error::{ApiError, Error};
use super::reply::Reply;

/// The most faults that are kept.
const MOST_FAULTS: usize = 1_000;
/// The longest scripted delay.
const LONGEST_DELAY: Duration = Duration::from_secs(600);

/// Before or after the call has had its effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// The wiki never hears of the call.
    Before,
    /// The wiki has done what was asked.
    After,
}

/// One entry of the fault script. Faults are tried in the order they were scripted; the first that matches is carried out.
///
/// As JSON (for the control API) every field is optional, in camelCase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Fault {
    /// The method, or any.
    pub method: Option<String>,
    /// The path, where `*` stands for any run of characters. On the gateway it is matched with and without
    /// `/ex/wiki/{cloudId}` in front.
    pub path: String,
    /// A text that the query must contain.
    pub query: Option<String>,
    /// The first matching call that can be hit, from 1.
    pub nth: u32,
    /// How many calls are hit; 0 means all from then on. A call that an earlier fault takes is not one of them, so a list
    /// of faults on one path hits one call after the other.
    pub times: u32,
    /// Waits this long before anything else. At most 10 minutes.
    pub delay_ms: u64,
    /// Holds the call until it is released, or for a minute.
    pub hold: Option<When>,
    /// Resets the connection without an answer.
    pub reset: Option<When>,
    /// Answers with this status.
    pub status: Option<u16>,
    /// The body that goes with `status`: text is sent as it is, anything else as JSON. By default an error in the shape
    /// of the v2 API.
    pub body: Option<Value>,
    /// The media type of `body`.
    pub content_type: Option<String>,
    /// Headers to add to the answer; an empty value removes the header.
    pub headers: IndexMap<String, String>,
    /// Adds `Retry-After` with these seconds.
    pub retry_after_seconds: Option<u64>,
    /// Writes `Retry-After` as an HTTP date.
    pub retry_after_as_date: bool,
    /// With `status`: the call has its effect all the same.
    pub apply: bool,
    /// Breaks the connection in the middle of the body.
    pub truncate: bool,
}

impl Default for Fault {
    fn default() -> Self {
        Self {
            method: None,
            path: "*".to_owned(),
            query: None,
            nth: 1,
            times: 1,
            delay_ms: 0,
            hold: None,
            reset: None,
            status: None,
            body: None,
            content_type: None,
            headers: IndexMap::new(),
            retry_after_seconds: None,
            retry_after_as_date: false,
            apply: false,
            truncate: false,
        }
    }
}

impl Fault {
    /// A fault on calls of this method (or `*`) to paths of this pattern; it does nothing until told what.
    pub fn on(method: &str, path: &str) -> Self {
        let method = (method != "*").then(|| method.to_owned());
        Self { method, path: path.to_owned(), ..Self::default() }
    }

    /// Hits the nth matching call, from 1.
    #[must_use]
    pub fn nth(self, nth: u32) -> Self {
        Self { nth, ..self }
    }

    /// Hits this many calls.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// Hits every call.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(0)
    }

    /// Answers with a status and an error in the shape of the v2 API.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Answers with a status and this body: a string as it is, anything else as JSON.
    #[must_use]
    pub fn answer(self, status: u16, body: impl Into<Value>) -> Self {
        Self { status: Some(status), body: Some(body.into()), ..self }
    }

    /// Answers with a status and a page of HTML, as a proxy does.
    #[must_use]
    pub fn html(self, status: u16) -> Self {
        let html = "<html><body><h1>The wiki is being looked after</h1></body></html>";
        Self { content_type: Some("text/html; charset=utf-8".to_owned()), ..self.answer(status, html) }
    }

    /// Answers 429 without a `Retry-After`.
    #[must_use]
    pub fn too_many_requests(self) -> Self {
        self.status(429)
    }

    /// Adds `Retry-After` in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    /// Adds `Retry-After` as an HTTP date this many seconds from now, by the simulator's clock.
    #[must_use]
    pub fn retry_after_date(self, seconds: u64) -> Self {
        Self { retry_after_as_date: true, ..self.retry_after(seconds) }
    }

    /// Adds a header to the answer; an empty value removes one.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Waits before anything else.
    #[must_use]
    pub fn delay(self, while_: Duration) -> Self {
        Self { delay_ms: u64::try_from(while_.as_millis()).unwrap_or(u64::MAX), ..self }
    }

    /// Holds the call until it is released, before or after its effect.
    #[must_use]
    pub fn hold(self, when: When) -> Self {
        Self { hold: Some(when), ..self }
    }

    /// Resets the connection, before or after the effect.
    #[must_use]
    pub fn reset(self, when: When) -> Self {
        Self { reset: Some(when), ..self }
    }

    /// Lets the call have its effect although the answer says otherwise.
    #[must_use]
    pub fn after_effect(self) -> Self {
        Self { apply: true, ..self }
    }

    /// Breaks the connection in the middle of the body.
    #[must_use]
    pub fn truncated(self) -> Self {
        Self { truncate: true, ..self }
    }

    fn matches(&self, method: &str, paths: &[&str], query: &str) -> bool {
        self.method.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(method))
            && paths.iter().any(|path| matches_pattern(&self.path, path))
            && self.query.as_deref().is_none_or(|wanted| query.contains(wanted))
    }

    /// How long to wait first.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_millis(self.delay_ms).min(LONGEST_DELAY)
    }

    /// The scripted answer, when there is one.
    pub(super) fn scripted(&self) -> Option<Reply> {
        let status = StatusCode::from_u16(self.status?).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut reply = match &self.body {
            Some(Value::String(text)) => Reply::text(status, text),
            Some(body) => Reply::json(status, body),
            None if status == StatusCode::UNAUTHORIZED => ApiError::unauthorized().reply(),
            None if status == StatusCode::FORBIDDEN => ApiError::forbidden("Forbidden").reply(),
            None if status == StatusCode::NOT_FOUND => ApiError::not_found().reply(),
            None if status.is_client_error() || status.is_server_error() => {
                let title = status.canonical_reason().unwrap_or("Error");
                let code = title.to_uppercase().replace(' ', "_");
                let entry = json!({"status": status.as_u16(), "code": code, "title": title, "detail": null});
                Reply::json(status, &json!({"errors": [entry]}))
            }
            None => Reply { status, ..Reply::no_content() },
        };
        if let Some(media_type) = &self.content_type {
            reply.set("content-type", media_type);
        }
        Some(reply)
    }

    /// Adds the scripted headers to an answer.
    pub(super) fn dress(&self, reply: &mut Reply, now: Moment) {
        if let Some(seconds) = self.retry_after_seconds {
            let text = match self.retry_after_as_date {
                true => now.plus(Duration::from_secs(seconds)).http_date(),
                false => seconds.to_string(),
            };
            reply.set("retry-after", &text);
        }
        for (name, value) in &self.headers {
            if value.is_empty() {
                reply.headers.remove(name.as_str());
            } else {
                reply.set(name, value);
            }
        }
    }
}

/// The faults that are still to come.
#[derive(Debug, Default)]
pub(super) struct Script {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    fault: Fault,
    /// Matching calls so far, whoever took them.
    seen: u32,
    /// Calls hit so far.
    hits: u32,
}

impl Entry {
    fn is_spent(&self) -> bool {
        self.fault.times != 0 && self.hits >= self.fault.times
    }
}

impl Script {
    pub(super) fn add(&mut self, fault: Fault) -> Result<(), Error> {
        if self.entries.len() >= MOST_FAULTS {
            return Err(Error::TooMany { what: "faults", limit: MOST_FAULTS });
        }
        self.entries.push(Entry { fault, seen: 0, hits: 0 });
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn pending(&self) -> Vec<Fault> {
        self.entries.iter().map(|entry| entry.fault.clone()).collect()
    }

    /// Counts a call on every entry it matches and returns the first fault that hits it. Spent ones are dropped.
    pub(super) fn hit(&mut self, method: &str, paths: &[&str], query: &str) -> Option<Fault> {
        let mut hit = None;
        for entry in self.entries.iter_mut().filter(|entry| entry.fault.matches(method, paths, query)) {
            entry.seen = entry.seen.saturating_add(1);
            if hit.is_none() && entry.seen >= entry.fault.nth {
                entry.hits = entry.hits.saturating_add(1);
                hit = Some(entry.fault.clone());
            }
        }
        self.entries.retain(|entry| !entry.is_spent());
        hit
    }
}

/// True if `text` matches `pattern`, in which `*` stands for any run of characters.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(first) = pieces.next() else { return text.is_empty() };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The first half of a body: what comes through of an answer that breaks off.
pub(super) fn first_half(body: &Bytes) -> Bytes {
    body.slice(..body.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, text, expected) in [
            ("*", "/x", true),
            ("/a/*", "/a/b/c", true),
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/d", false),
            ("/a", "/a/b", false),
            ("*pages*", "/wiki/api/v2/pages", true),
            ("/a*a", "/a", false),
            ("", "", true),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn the_nth_call_is_hit_and_a_spent_fault_is_dropped() {
        let mut script = Script::default();
        script.add(Fault::on("GET", "/p*").nth(2).times(2).status(500)).unwrap();
        let hits: Vec<bool> = (0..4).map(|_| script.hit("GET", &["/p"], "").is_some()).collect();
        assert_eq!(hits, [false, true, true, false]);
        assert!(script.pending().is_empty());
        assert!(script.hit("POST", &["/p"], "").is_none());
    }

    #[test]
    fn faults_come_in_the_order_they_were_scripted() {
        let mut script = Script::default();
        script.add(Fault::on("*", "*").status(500)).unwrap();
        script.add(Fault::on("*", "*").status(501)).unwrap();
        script.add(Fault::on("*", "*").nth(3).status(502)).unwrap();
        for expected in [500, 501, 502] {
            assert_eq!(script.hit("GET", &["/"], "").unwrap().status, Some(expected));
        }
        assert!(script.hit("GET", &["/"], "").is_none());
    }

    #[test]
    fn a_fault_reads_back_from_its_json() {
        let fault = Fault::on("PUT", "/x").html(503).retry_after_date(4).hold(When::After);
        let text = serde_json::to_string(&fault).unwrap();
        assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault);
        assert!(serde_json::from_str::<Fault>(r#"{"staus":500}"#).is_err());
    }
}
