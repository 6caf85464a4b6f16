//! The path of one request: guard, concurrency limit, exchange, and redirects by our own rules.

use std::borrow::Cow;
use std::time::Duration;

use ::http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, LOCATION, USER_AGENT};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use model::{ActionError, ErrorKind};
use url::Url;
use value::{Data, Secret, memory_of_parts};

use super::body_sink::stopped;
use super::content_encoding::{self, BodyError, BodyReader};
use super::gated_body::GatedBody;
use super::host_health::CallOutcome;
use super::request::{Body, Request};
use super::response::Response;
use super::streaming_body::StreamingBody;
use super::{
    Http, MAX_REDIRECTS, MAX_RESPONSE_HEADERS, MAX_TIMEOUT, RequestContext, SendResult, Transport, debug,
    multipart, transport_failure,
};
use crate::action::AnswerMemory;
use crate::trace::{TRACE_HEADER, TRACEPARENT};

/// The bytes of an answer that is read, and becomes a value, without being counted; the value takes up to some 25 times as much.
const SMALL_ANSWER: usize = 64 << 10;

/// Headers that may follow a redirect to another origin, because they reveal nothing about the caller.
const CROSS_ORIGIN_HEADERS: [HeaderName; 3] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT];

impl Http {
    /// Sends a request and returns the response, whatever its status. Redirects of GET and HEAD are followed. If the
    /// service rejects the token, the request is repeated once with a new token.
    pub(crate) async fn send(&self, request: &Request, context: &RequestContext<'_>) -> SendResult {
        let request =
            if request.reads_files() { &self.encode(request).await? } else { &request.encoded()? };
        let Some(tokens) = context.connection.and_then(|connection| connection.tokens()) else {
            return self.send_with(request, context, None).await;
        };
        let token = tokens.token().await?;
        let response = self.send_with(request, context, Some(&token)).await?;
        if !crate::oauth::refuses_token(&response) {
            return Ok(response);
        }
        match tokens.replacement(&token).await? {
            // The service did not execute the rejected request, so it may be repeated regardless of its effect.
            Some(fresh) => self.send_with(request, context, Some(&fresh)).await,
            None => Ok(response),
        }
    }

    /// Makes the bytes of a body with external files, on another thread.
    async fn encode(&self, request: &Request) -> Result<Request<Data>, ActionError> {
        let failed = |error: String| ActionError::new(ErrorKind::Internal, error);
        let _turn = self.encoders.acquire().await.map_err(|error| failed(error.to_string()))?;
        let request = request.clone();
        let encoding = allocator::large_work(move || request.encoded());
        encoding.await.map_err(|error| failed(error.to_string()))?
    }

    async fn send_with(
        &self,
        request: &Request<Data>,
        context: &RequestContext<'_>,
        token: Option<&Secret>,
    ) -> SendResult {
        let limit = request.timeout.unwrap_or(self.options.timeout).min(MAX_TIMEOUT);
        let sent = Box::pin(self.follow_redirects(request, context, token));
        match within(limit, context.answers, sent).await {
            Some(sent) => sent,
            None => {
                let error = transport_failure::timeout_error(context.subject, limit);
                self.record_outcome(&request.url, context, &CallOutcome::Failure(&error));
                Err(mark_outcome_unknown(error, request))
            }
        }
    }

    async fn follow_redirects(
        &self,
        request: &Request<Data>,
        context: &RequestContext<'_>,
        token: Option<&Secret>,
    ) -> SendResult {
        let mut url = request.url.clone();
        let mut headers = headers(request, context);
        if let (Some(token), Some(connection)) = (token, context.connection) {
            let header = connection.token_header();
            headers.insert(header.name.clone(), header.value(token)?);
        }
        for _ in 0..=MAX_REDIRECTS {
            let response = self.exchange(request, &url, &headers, context).await?;
            let Some(next) = redirect(&request.method, &response, context.subject)? else {
                return Ok(response);
            };
            if !request.rules.may_redirect(&request.url, &next) {
                let host = next.host_str().unwrap_or_default();
                let message = format!(
                    "{} redirects to the host `{host}`, which its connector does not name",
                    context.subject
                );
                return Err(ActionError::new(ErrorKind::Blocked, message));
            }
            // Credentials are bound to the connection's address, including its path.
            let leaves = context.connection.is_some_and(|connection| {
                connection.base().contains(&request.url) && !connection.base().contains(&next)
            });
            if leaves || next.origin() != url.origin() {
                headers.retain_cross_origin();
            }
            url = next;
        }
        let message = format!("{} redirects more than {MAX_REDIRECTS} times", context.subject);
        Err(ActionError::new(ErrorKind::Response, message))
    }

    async fn exchange(
        &self,
        request: &Request<Data>,
        url: &Url,
        headers: &HeaderMap,
        context: &RequestContext<'_>,
    ) -> SendResult {
        context.log.record_request(request.method.as_str(), &history_url(url));
        context.log_debug(|| debug::request(request, url, headers, context));
        let response = match (&self.options.transport, &self.client) {
            // A recording replays offline; the guard does not apply.
            (Transport::Cassette(cassette), None) => {
                let response = cassette.replay(request, url, headers, context)?;
                if let Some(sink) = context.body.filter(|_| response.status.is_success()) {
                    sink.push(&response.body).await?;
                }
                response
            }
            (_, None) => return Err(transport_failure::network_disabled(context.subject)),
            (Transport::Cassette(cassette), Some(client)) if context.is_recorded => {
                let response = self.send_over_network(client, request, url, headers, context).await?;
                cassette.record(request, url, headers, &response, context);
                response
            }
            (_, Some(client)) => self.send_over_network(client, request, url, headers, context).await?,
        };
        context.log_debug(|| debug::response(&response, context));
        Ok(response)
    }

    async fn send_over_network(
        &self,
        client: &reqwest::Client,
        request: &Request<Data>,
        url: &Url,
        headers: &HeaderMap,
        context: &RequestContext<'_>,
    ) -> SendResult {
        self.guard.look_up_servers(|port| url.port_or_known_default() == Some(port)).await;
        let _in_flight = self.guard.enter(url).map_err(|reason| transport_failure::blocked(&reason))?;
        let requested_at = self.timer().now();
        let _permit = self.host_limits.acquire(url).await;
        let now = self.timer().now();
        let wait =
            self.hosts.admit(url, context.connection_name(), context.subject, context.host_policy, now)?;
        if !wait.is_zero() {
            self.timer().pause(wait).await;
        }
        let waited = Duration::try_from(requested_at.duration_until(now)).unwrap_or_default() + wait;
        if !waited.is_zero() {
            context.log.record_host_wait(url.host_str().unwrap_or_default(), waited);
        }
        let sent = self.perform(client, request, url, headers, context).await;
        let sent =
            sent.map_err(|error| if error.not_sent { error } else { mark_outcome_unknown(error, request) });
        match &sent {
            Ok(response) => self.record_outcome(
                url,
                context,
                &CallOutcome::Response(response, request.rules.rate.as_ref()),
            ),
            Err(error) if matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout) => {
                self.record_outcome(url, context, &CallOutcome::Failure(error));
            }
            Err(_) => {}
        }
        sent
    }

    fn record_outcome(&self, url: &Url, context: &RequestContext<'_>, outcome: &CallOutcome<'_>) {
        self.hosts.record(url, context.connection_name(), outcome, self.timer().now());
    }

    /// Creates a body of these parts. Content in memory is passed on as it is, unless there is a gate that it has to pass; a file is
    /// read while it is sent, with its length known in advance.
    fn request_body(&self, mut parts: Vec<Data>) -> reqwest::Body {
        if let Some(gate) = &self.options.gate {
            let body = StreamingBody::new(parts);
            return reqwest::Body::wrap(GatedBody::new(body, gate.clone(), self.options.timer.clone()));
        }
        match parts.as_mut_slice() {
            [Data::InMemory(bytes)] => std::mem::take(bytes).into(),
            _ => reqwest::Body::wrap(StreamingBody::new(parts)),
        }
    }

    async fn perform(
        &self,
        client: &reqwest::Client,
        request: &Request<Data>,
        url: &Url,
        headers: &HeaderMap,
        context: &RequestContext<'_>,
    ) -> SendResult {
        let client_error = |error| transport_failure::client_error(context.subject, url, error);
        let target = context.connection.map_or(Cow::Borrowed(url), |connection| connection.outgoing(url));
        let mut signed = headers.clone();
        if let Some(signer) = context.connection.and_then(|connection| connection.signer(url)) {
            let refuse = |words| ActionError::new(ErrorKind::Connection, words);
            let now = self.timer().now();
            signer.sign(&request.method, url, &mut signed, &request.body, now).map_err(refuse)?;
        }
        let mut builder = client.request(request.method.clone(), target.into_owned()).headers(signed);
        builder = match &request.body {
            Body::Empty => builder,
            Body::Whole(data) => builder.body(self.request_body(vec![data.clone()])),
            Body::Multipart(parts) => {
                let boundary = multipart::boundary();
                builder
                    .header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}"))
                    .body(self.request_body(multipart::encode(parts, &boundary)))
            }
        };
        self.pass_gate().await;
        if let Some(accepted) = content_encoding::accepted(headers) {
            builder = builder.header(ACCEPT_ENCODING, accepted);
        }
        let response = builder.send().await.map_err(client_error)?;
        let status = response.status();
        let sent_headers = headers;
        let mut headers = response.headers().clone();
        let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size > MAX_RESPONSE_HEADERS {
            let message =
                format!("{} answered with {size} bytes of headers; at most 64KiB are read", context.subject);
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        // The response to a HEAD has no body, even if its headers announce one.
        let body = if request.method == Method::HEAD {
            Bytes::new()
        } else if let Some(sink) = context.body.filter(|_| status.is_success()) {
            self.stream_body(response, sink, context).await?
        } else {
            self.read_body(response, request, (sent_headers, &mut headers), context).await?
        };
        let redactor = self.options.redactor.clone();
        let is_large = body.len() > SMALL_ANSWER;
        let response = Response { status, headers, body, url: url.clone(), redactor, parsed: None };
        if !is_large {
            return Ok(response);
        }
        let body = response.body.clone();
        let counting = allocator::large_work(move || body.len() + memory_of_parts(&body));
        let memory =
            counting.await.map_err(|error| ActionError::new(ErrorKind::Internal, error.to_string()))?;
        context.answers.arrived(memory).await;
        response.parse_ahead().await
    }

    /// Reads the whole decompressed body up to the limit. A body announced as larger is not read at all.
    async fn read_body(
        &self,
        mut response: reqwest::Response,
        request: &Request<Data>,
        (sent, received): (&HeaderMap, &mut HeaderMap),
        context: &RequestContext<'_>,
    ) -> Result<Bytes, ActionError> {
        let most = request.max_response.unwrap_or(usize::MAX).min(self.options.max_response);
        let url = response.url().clone();
        let unreadable = |error| {
            let subject = context.subject;
            match error {
                BodyError::TooLarge => {
                    let most = text::units::format_size(most as u64);
                    let message =
                        format!("the answer of {subject} is larger than {most}, the most that is read");
                    ActionError::new(ErrorKind::Limit, message)
                }
                BodyError::Invalid(reason) => {
                    let message = format!("the answer of {subject} cannot be decoded: {reason}");
                    ActionError::new(ErrorKind::Response, message)
                }
            }
        };
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(unreadable(BodyError::TooLarge));
        }
        let mut body = BodyReader::for_response(sent, received, most).map_err(unreadable)?;
        let (mut has_bytes, mut counted) = (false, SMALL_ANSWER);
        if let Some(length) = response.content_length().and_then(|length| usize::try_from(length).ok())
            && length > counted
        {
            // Counted before it is read: until then the connection holds little of it.
            counted = length;
            context.answers.arriving(counted).await;
            body.expect(length);
        }
        loop {
            let idle = self.options.idle_timeout;
            match tokio::time::timeout(idle, response.chunk()).await {
                Err(_) => return Err(stopped(context.subject, idle)),
                Ok(Err(error)) => return Err(transport_failure::client_error(context.subject, &url, error)),
                Ok(Ok(None)) => break,
                Ok(Ok(Some(chunk))) => {
                    has_bytes |= !chunk.is_empty();
                    for part in body.parts(&chunk) {
                        body.push(part).map_err(unreadable)?;
                        while body.len() > counted {
                            // As the buffer of the body grows.
                            counted *= 2;
                            context.answers.arriving(counted.min(most)).await;
                        }
                    }
                }
            }
        }
        body.finish(has_bytes).map(Bytes::from).map_err(unreadable)
    }
}

/// Runs a request until its time limit, in which the time that it waits for memory does not count: the host is not slow then. Returns
/// `None` at the limit.
async fn within<T>(
    limit: Duration,
    answers: &dyn AnswerMemory,
    mut sent: impl Future<Output = T> + Unpin,
) -> Option<T> {
    let mut counted = answers.waited();
    let mut left = limit;
    while !left.is_zero() {
        if let Ok(sent) = tokio::time::timeout(left, &mut sent).await {
            return Some(sent);
        }
        let waited = answers.waited();
        left = waited.saturating_sub(std::mem::replace(&mut counted, waited));
    }
    None
}

/// Marks the failure of a request that was sent: if the request may have changed something, its outcome is unknown.
fn mark_outcome_unknown(error: ActionError, request: &Request<Data>) -> ActionError {
    if request.is_safe() { error } else { error.with_outcome_unknown() }
}

/// Returns the address for the history: scheme, host, port and path.
fn history_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

trait RetainCrossOrigin {
    fn retain_cross_origin(&mut self);
}

impl RetainCrossOrigin for HeaderMap {
    /// Removes all other headers: a custom header may be a credential as much as `Authorization`.
    fn retain_cross_origin(&mut self) {
        let kept = CROSS_ORIGIN_HEADERS
            .into_iter()
            .filter_map(|name| self.get(&name).cloned().map(|value| (name, value)));
        *self = kept.collect();
    }
}

/// Returns the headers of the request with those of every request: credentials, idempotency key, trace.
fn headers(request: &Request<Data>, context: &RequestContext<'_>) -> HeaderMap {
    let mut headers = request.headers.clone();
    if matches!(request.body, Body::Multipart(_)) {
        // The client sets it with the boundary, which is not known yet.
        headers.remove(CONTENT_TYPE);
    }
    for (name, value) in context.connection.into_iter().flat_map(|connection| connection.own_headers()) {
        headers.insert(name.clone(), value.clone());
    }
    if !request.is_safe()
        && let Some(name) = &request.rules.key_header
        && !headers.contains_key(name)
        && let Ok(key) = HeaderValue::from_str(context.idempotency_key)
    {
        headers.insert(name.clone(), key);
    }
    if let Some(trace) = context.trace.and_then(|trace| HeaderValue::from_str(&trace.to_string()).ok()) {
        headers.insert(HeaderName::from_static(TRACE_HEADER), trace);
    }
    // A header of the author's own wins: it may belong to a trace that the automation knows and Cogwork does not.
    if let Some(parent) = context.trace.and_then(|trace| trace.parent.as_deref())
        && !headers.contains_key(TRACEPARENT)
        && let Ok(parent) = HeaderValue::from_str(parent)
    {
        headers.insert(HeaderName::from_static(TRACEPARENT), parent);
    }
    headers
}

/// Returns the redirect target of a response to a GET or HEAD; `None` if it is not a redirect.
fn redirect(method: &Method, response: &Response, subject: &str) -> Result<Option<Url>, ActionError> {
    let is_redirect = matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    if !is_redirect || !matches!(*method, Method::GET | Method::HEAD) {
        return Ok(None);
    }
    let Some(location) = response.headers.get(LOCATION) else { return Ok(None) };
    let next = std::str::from_utf8(location.as_bytes()).ok().and_then(|text| response.url.join(text).ok());
    match next {
        Some(mut next) => {
            next.set_fragment(None);
            Ok(Some(next))
        }
        None => {
            let message = format!("{subject} redirects to something that is no address");
            Err(ActionError::new(ErrorKind::Response, message))
        }
    }
}

#[cfg(test)]
mod tests;
