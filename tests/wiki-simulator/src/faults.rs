//! The fault script: failures and the calls that they hit.

use std::time::Duration;

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::Value;

use super::call::{ApiError, Error, Reply};
use super::model::Moment;

const MAX_FAULTS: usize = 1_000;

/// Before or after the effect of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// The wiki does not receive the call.
    Before,
    /// The call has had its effect.
    After,
}

/// An entry of the fault script. A call is hit by the first entry that matches it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fault {
    /// The method; `None` for any.
    pub method: Option<String>,
    /// The path, where `*` stands for any run of characters; empty for any. On the gateway it is matched with and without
    /// `/ex/wiki/{cloudId}` in front.
    pub path: String,
    /// The number of affected calls; 0 counts as 1.
    pub times: u32,
    /// Holds the call until it is released.
    pub hold: Option<When>,
    /// Resets the connection without an answer.
    pub reset: Option<When>,
    /// Answers with this status, and the call has no effect.
    pub status: Option<u16>,
    /// The body sent with `status`: a string as it is, any other value as JSON. By default an error in the shape of
    /// the v2 API.
    pub body: Option<Value>,
    /// The media type of `body`.
    pub content_type: Option<String>,
    /// Headers to set in the answer.
    pub headers: IndexMap<String, String>,
    /// Adds `Retry-After` with this number of seconds.
    pub retry_after_seconds: Option<u64>,
    /// Writes `Retry-After` as an HTTP date.
    pub retry_after_as_date: bool,
    /// Breaks the connection in the middle of the body.
    pub truncate: bool,
}

impl Fault {
    /// A fault on calls of a method (or `*`) to paths of a pattern, without an effect yet.
    pub fn on(method: &str, path: &str) -> Self {
        let method = (method != "*").then(|| method.to_owned());
        Self { method, path: path.to_owned(), ..Self::default() }
    }

    /// Hits this many calls.
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// Hits every call.
    pub fn always(self) -> Self {
        self.times(u32::MAX)
    }

    /// Answers with a status and an error in the shape of the v2 API.
    pub fn status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Answers with a status and this body: a string as it is, any other value as JSON.
    pub fn answer(self, status: u16, body: impl Into<Value>) -> Self {
        Self { body: Some(body.into()), ..self.status(status) }
    }

    /// Answers with a status and a page of HTML, as a proxy does.
    pub fn html(self, status: u16) -> Self {
        let html = "<html><body><h1>The wiki is being looked after</h1></body></html>";
        Self { content_type: Some("text/html; charset=utf-8".to_owned()), ..self.answer(status, html) }
    }

    /// Adds `Retry-After` in seconds.
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    /// Sets a header of the answer.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Holds the call until it is released, before or after its effect.
    pub fn hold(self, when: When) -> Self {
        Self { hold: Some(when), ..self }
    }

    /// Resets the connection, before or after the effect.
    pub fn reset(self, when: When) -> Self {
        Self { reset: Some(when), ..self }
    }

    /// Breaks the connection in the middle of the body.
    pub fn truncated(self) -> Self {
        Self { truncate: true, ..self }
    }

    /// The scripted answer, if there is one.
    pub(super) fn scripted(&self) -> Option<Reply> {
        let status = self.status?;
        let mut reply = match &self.body {
            Some(Value::String(text)) => Reply::bytes(status, "text/plain", Bytes::from(text.clone())),
            Some(body) => Reply::json(status, body),
            None if status >= 400 => ApiError::v2(status, "Scripted").reply(),
            None => Reply::empty(status),
        };
        if let Some(media_type) = &self.content_type {
            reply.set("content-type", media_type);
        }
        Some(reply)
    }

    /// Adds the scripted headers to an answer.
    pub(super) fn add_headers(&self, reply: &mut Reply, now: Moment) {
        if let Some(seconds) = self.retry_after_seconds {
            let date = now.plus(Duration::from_secs(seconds)).http_date();
            reply.set("retry-after", &if self.retry_after_as_date { date } else { seconds.to_string() });
        }
        self.headers.iter().for_each(|(name, value)| reply.set(name, value));
    }
}

/// The faults still to come, each with the number of calls that it has hit.
#[derive(Debug, Default)]
pub(super) struct Script {
    entries: Vec<(Fault, u32)>,
}

impl Script {
    pub(super) fn add(&mut self, fault: Fault) -> Result<(), Error> {
        if self.entries.len() >= MAX_FAULTS {
            return Err(Error(format!("at most {MAX_FAULTS} faults are kept")));
        }
        self.entries.push((fault, 0));
        Ok(())
    }

    /// The fault that hits a call.
    pub(super) fn hit(&mut self, method: &str, paths: [&str; 2]) -> Option<Fault> {
        let index = self.entries.iter().position(|(fault, _)| {
            fault.method.as_deref().is_none_or(|wanted| wanted == method)
                && (fault.path.is_empty() || paths.iter().any(|path| matches_pattern(&fault.path, path)))
        })?;
        let (fault, hits) = &mut self.entries[index];
        *hits += 1;
        if *hits >= fault.times { Some(self.entries.remove(index).0) } else { Some(fault.clone()) }
    }
}

/// True if a text matches a pattern, in which `*` stands for any run of characters.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| matches_pattern(rest, text)))
        }),
    }
}
