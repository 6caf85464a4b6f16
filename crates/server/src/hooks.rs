//! The hook listener: serves only `/trigger/<token>[/<fragment>]`, `/resume/<token>[/<step>]`, `/healthz` and `/readyz`.
//!
//! Requests go straight from the parser to the engine: no router, no layers, no copy of the body. The token is a
//! secret and appears in no log.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use engine::Engine;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use ingress::{RefusedRequest, RouteMatch};
use model::HttpResponse;
use tokio_util::sync::CancellationToken;
use trigger::webhook::MAX_PARSED_BYTES;
use value::Data;

use crate::admin::forwarded_for;
use crate::audit::{AuditLog, Entry};
use crate::callback;
use crate::net::{self, Budget, BufferedBody, FramingState, Outgoing, Refusal, Respond};
use crate::options::{Deadlines, Limits};
use crate::resume::{self, Resume};

type Answer = Response<Outgoing>;

/// The handler of the hook listener.
pub(crate) struct Hooks {
    pub(crate) engine: Engine,
    pub(crate) resume: Resume,
    /// The log of answers; `None` for an engine without a daemon.
    pub(crate) audit: Option<Arc<AuditLog>>,
    /// False if only resume addresses are served, and no webhooks.
    pub(crate) triggers: bool,
    pub(crate) limits: Limits,
    pub(crate) deadlines: Deadlines,
    pub(crate) budget: Arc<Budget>,
    pub(crate) closing: CancellationToken,
}

impl Respond for Hooks {
    type Body = Outgoing;

    async fn respond(&self, request: Request<Incoming>, seen: &FramingState) -> Answer {
        let (head, body) = request.into_parts();
        if let Err(refusal) = net::check(&head, seen, &self.limits) {
            tracing::debug!(status = refusal.status.as_u16(), code = refusal.code, "refused a request");
            self.engine.ingress().count_early_rejection(None, refusal.code);
            return refusal.into_response();
        }
        match route(head.uri.path()) {
            Ok(Route::Trigger { token, fragment }) if self.triggers => {
                // One lookup and one snapshot of the catalog for the whole request.
                let target = self.engine.ingress().route(token);
                let answer = self.trigger(&head, &target, fragment, body).await;
                self.engine.context().metrics.count_answer(answer.status().as_u16());
                note(&head.method, &target, answer.status());
                answer
            }
            // On the heap, so that the future of every request has no room for rare ones.
            Ok(Route::Resume { token, step }) => {
                Box::pin(self.resume(&head, token, step, body, seen.peer())).await
            }
            Ok(Route::Callback) => Box::pin(callback::answer(&self.engine, &head)).await,
            Ok(Route::Health) => probe(&head.method, StatusCode::OK, "ok"),
            Ok(Route::Ready) if self.is_ready() => probe(&head.method, StatusCode::OK, "ready"),
            Ok(Route::Ready) => probe(&head.method, StatusCode::SERVICE_UNAVAILABLE, "not accepting"),
            Ok(Route::Unknown | Route::Trigger { .. }) => {
                plain(StatusCode::NOT_FOUND, "not_found", "there is nothing here")
            }
            Err(refusal) => {
                self.engine.ingress().count_early_rejection(None, refusal.code);
                refusal.into_response()
            }
        }
    }
}

impl Hooks {
    fn is_ready(&self) -> bool {
        !self.closing.is_cancelled() && self.engine.context().accepts_starts()
    }

    async fn trigger(
        &self,
        head: &http::request::Parts,
        target: &RouteMatch,
        fragment: &str,
        body: Incoming,
    ) -> Answer {
        let Some(limit) = target.body_limit() else {
            let plain =
                self.engine.ingress().receive_on(target, request(head, fragment, Data::default())).await;
            return self.answer(plain).await;
        };
        match self.body(head, target, body, limit).await {
            // The bytes count against the budget until the response is complete, not only while they arrive.
            Ok(held) => {
                let request = request(head, fragment, held.data());
                self.answer(self.engine.ingress().receive_on(target, request).await).await
            }
            Err(refusal) => {
                tracing::debug!(status = refusal.status.as_u16(), code = refusal.code, "refused a body");
                let content_type =
                    head.headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
                let request = RefusedRequest {
                    method: head.method.as_str().to_owned(),
                    fragment: fragment.to_owned(),
                    content_type: content_type.map(Cow::into_owned),
                    ..RefusedRequest::default()
                };
                self.engine.ingress().refuse_early(target, refusal.code, refusal.status.as_u16(), request);
                refusal.into_response()
            }
        }
    }

    /// Converts the engine's response to HTTP. Without disk space for a large body the caller gets 503 with the execution id.
    async fn answer(&self, mut plain: HttpResponse) -> Answer {
        match self.budget.outgoing(std::mem::take(&mut plain.body)).await {
            Ok(body) => answer(plain, body),
            Err(refusal) => {
                let mut refused: Answer = refusal.into_response();
                let id = plain.headers.into_iter().find(|(name, _)| name == trigger::response::EXECUTION_ID);
                if let Some(id) = id.and_then(|(_, id)| HeaderValue::from_maybe_shared(bytes_of(id)).ok()) {
                    refused.headers_mut().insert(trigger::response::EXECUTION_ID, id);
                }
                refused
            }
        }
    }

    /// Reads the body: a large one stays on disk, unless its type must be parsed in memory.
    async fn body(
        &self,
        head: &http::request::Parts,
        target: &RouteMatch,
        body: Incoming,
        limit: usize,
    ) -> Result<BufferedBody, Refusal> {
        let held = net::arrive(body, limit, &self.budget, &self.deadlines).await?;
        if !held.is_on_disk() || !target.reads_whole(&headers(&head.headers), &held.start()) {
            return Ok(held);
        }
        if held.data().len() > MAX_PARSED_BYTES {
            return Err(Refusal::too_large(MAX_PARSED_BYTES));
        }
        held.into_memory().await
    }

    async fn resume(
        &self,
        head: &http::request::Parts,
        token: &str,
        step: Option<&str>,
        body: Incoming,
        peer: Option<IpAddr>,
    ) -> Answer {
        let asking = match self.resume.find(head, token, step) {
            Ok(asking) => asking,
            Err(refusal) => return *refusal,
        };
        // A method without a body only reads.
        if head.method != Method::POST {
            return self.resume.show(head, &asking).await;
        }
        match net::read(body, resume::BODY_BYTES, &self.budget, &self.deadlines).await {
            Ok(held) => {
                let answer = self.resume.take(head, &asking, &held.bytes()).await;
                if let Some(audit) = &self.audit {
                    let mut entry =
                        Entry::of_answer(asking.execution(), answer.status(), self.engine.clock().now());
                    (entry.address, entry.forwarded_for) = (peer, forwarded_for(&head.headers));
                    audit.record(entry);
                }
                answer
            }
            Err(refusal) => refusal.into_response(),
        }
    }
}

/// Writes a line of the access log. The token is a secret, so the line names the automation instead.
fn note(method: &Method, target: &RouteMatch, status: StatusCode) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        let automation = target.automation().map(ToString::to_string).unwrap_or_default();
        tracing::debug!(automation, %method, status = status.as_u16(), "answered a request");
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Route<'p> {
    Trigger { token: &'p str, fragment: &'p str },
    Resume { token: &'p str, step: Option<&'p str> },
    Callback,
    Health,
    Ready,
    Unknown,
}

/// The route of a path. The part after the token is opaque; the part before it and the token are compared
/// byte by byte, so an escape or a dot segment there is always invalid and is rejected before anyone resolves it.
fn route(path: &str) -> Result<Route<'_>, Refusal> {
    let rest = path.strip_prefix('/').unwrap_or(path);
    let (first, rest) = rest.split_once('/').map_or((rest, None), |(first, rest)| (first, Some(rest)));
    plain_segment(first)?;
    match (first, rest) {
        ("trigger", Some(rest)) => {
            let (token, fragment) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            plain_segment(token)?;
            Ok(Route::Trigger { token, fragment })
        }
        ("resume", Some(rest)) => {
            let (token, step) =
                rest.split_once('/').map_or((rest, None), |(token, step)| (token, Some(step)));
            plain_segment(token)?;
            Ok(Route::Resume { token, step })
        }
        ("oauth", Some("callback")) => Ok(Route::Callback),
        ("healthz", None) => Ok(Route::Health),
        ("readyz", None) => Ok(Route::Ready),
        _ => Ok(Route::Unknown),
    }
}

fn plain_segment(segment: &str) -> Result<(), Refusal> {
    if segment == "." || segment == ".." || segment.contains(['%', '\\']) {
        return Err(Refusal::bad_request(
            "bad_path",
            "the path may hold no escapes and no dot segments up to the token",
        ));
    }
    Ok(())
}

/// Converts the head to the engine's plain request value.
fn request(head: &http::request::Parts, fragment: &str, body: Data) -> trigger::webhook::Request {
    trigger::webhook::Request {
        method: head.method.as_str().to_owned(),
        fragment: fragment.to_owned(),
        raw_query: head.uri.query().unwrap_or_default().to_owned(),
        headers: headers(&head.headers),
        body,
    }
}

fn headers(map: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    map.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// Converts the engine's response to HTTP. Invalid headers and statuses were rejected when it was created; any left
/// here are dropped, never sent partially.
fn answer(plain: HttpResponse, body: Outgoing) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(plain.status)
        .ok()
        .filter(|status| !status.is_informational())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    for (name, value) in plain.headers {
        let value = HeaderValue::from_maybe_shared(bytes_of(value));
        match (HeaderName::from_bytes(name.as_bytes()), value) {
            (Ok(name), Ok(value)) => {
                headers.append(name, value);
            }
            _ => tracing::warn!(header = %name, "left a malformed header out of an answer"),
        }
    }
    response
}

fn probe(method: &Method, status: StatusCode, word: &'static str) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "use GET");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    json(status, format!("{{\"status\":\"{word}\"}}").into())
}

fn plain(status: StatusCode, code: &'static str, message: &'static str) -> Answer {
    json(status, serde_json::json!({ "error": message, "code": code }).to_string().into())
}

fn json(status: StatusCode, body: Cow<'static, str>) -> Answer {
    let mut response = Response::new(Outgoing::from(bytes_of(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn bytes_of(text: Cow<'static, str>) -> Bytes {
    match text {
        Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Result<Route<'_>, &str>) {
        assert_eq!(route(path).map_err(|refusal| refusal.code), expected, "{path}");
    }

    #[test]
    fn the_path_after_the_token_is_opaque() {
        let to = |token, fragment| Ok(Route::Trigger { token, fragment });
        check("/trigger/abc", to("abc", ""));
        check("/trigger/abc/", to("abc", "/"));
        check("/trigger/abc//x/../%2e%2F%00/", to("abc", "//x/../%2e%2F%00/"));
        check("/trigger/", to("", ""));
    }

    #[test]
    fn a_resume_address_may_name_a_step() {
        let to = |token, step| Ok(Route::Resume { token, step });
        check("/resume/abc", to("abc", None));
        check("/resume/abc/", to("abc", Some("")));
        check("/resume/abc/ask%5B2%5D", to("abc", Some("ask%5B2%5D")));
        check("/resume", Ok(Route::Unknown));
        check("/resume/a%62c", Err("bad_path"));
    }

    #[test]
    fn escapes_and_dot_segments_before_the_token_are_rejected() {
        for path in
            ["/trigger/a%62c", "/trigger/..", "/trigger/./abc", "/%74rigger/abc", "/../x", "/trigger/a\\b"]
        {
            check(path, Err("bad_path"));
        }
    }

    #[test]
    fn only_hook_and_health_paths_are_routed() {
        for path in ["/", "/trigger", "/triggers/abc", "/healthz/", "/api/v1/status", "//trigger/abc"] {
            check(path, Ok(Route::Unknown));
        }
        check("/healthz", Ok(Route::Health));
        check("/readyz", Ok(Route::Ready));
    }

    #[test]
    fn invalid_headers_and_statuses_are_never_sent() {
        let plain = HttpResponse::new(101, "text/plain", "x")
            .with_header("x-a", "1\r\nx-b: 2")
            .with_header("x-c", "3");
        let response = answer(plain, Outgoing::from(Bytes::new()));
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "x-c"]);
    }
}
