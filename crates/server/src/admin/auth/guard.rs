//! The rule of a route, applied to each request: the scope that it needs, the parameters that it takes, and its entry in the audit log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue};
use runtime::{Clock, ResumeTokens};

use super::access::Access;
use super::credential::Credential;
use super::parameters;
use super::scope::Scope;
use crate::admin::Problem;
use crate::admin::executions::{self, hidden};
use crate::audit::{AuditLog, Entry};

/// The time between two checks of the credential of an open event stream, beside those after a revocation.
const RECHECK: Duration = Duration::from_secs(20);

/// The requirement of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// No credential.
    Nothing,
    /// Any credential.
    Credential,
    /// A credential with this scope.
    Scope(Scope),
}

impl Need {
    /// The scope of the credential; `None` if every credential is enough, or none is needed.
    pub(crate) fn scope(self) -> Option<Scope> {
        match self {
            Self::Scope(scope) => Some(scope),
            Self::Nothing | Self::Credential => None,
        }
    }
}

/// The requirement of a route, and the word for its effect in the audit log; `None` if it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) need: Need,
    pub(crate) action: Option<&'static str>,
}

/// The parts of the listener that a rule needs, and the origin of the request. An extension of each request.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) access: Arc<Access>,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) peer: Option<IpAddr>,
    /// Recognises resume addresses in answers.
    pub(crate) resume_tokens: ResumeTokens,
    /// True if the listener let the request through without a credential.
    pub(crate) is_public: bool,
}

/// The extension of a response to a request that was only tried: nothing was changed, so the audit log has no entry.
#[derive(Clone, Copy)]
pub(crate) struct DryRun;

/// Applies the rule of a route to a request. A request without a credential passes only if the listener says that it is public.
pub(crate) async fn check(rule: Rule, request: Request, next: Next) -> Response {
    let Some(visit) = request.extensions().get::<Visit>().cloned() else {
        return Problem::unauthorized().into_response();
    };
    let credential = request.extensions().get::<Credential>().cloned();
    let mut record = rule.action.map(|action| Record::new(&visit, &request, action, credential.as_ref()));
    let response = match (&credential, rule.need.scope()) {
        (Some(credential), Some(scope)) if !credential.scopes.allow(scope) => {
            Problem::scope_missing(&scope, credential).into_response()
        }
        (None, _) if !visit.is_public => Problem::unauthorized().into_response(),
        _ => match parameters::check(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        },
    };
    if let Some(record) = &mut record {
        record.finish(&response);
    }
    let mut response = match &credential {
        Some(credential) if !credential.scopes.allow(Scope::Run) => {
            hidden::masked(response, visit.resume_tokens.clone()).await
        }
        _ => response,
    };
    if is_stream(response.headers()) {
        // nginx would hold the events back until its buffer is full.
        response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    }
    match credential {
        Some(credential) if is_stream(response.headers()) => until_over(response, visit.access, credential),
        _ => response,
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Ends a stream of events when its credential is revoked or over.
fn until_over(response: Response, access: Arc<Access>, credential: Credential) -> Response {
    let over = async move {
        loop {
            // Before the check: a revocation between both is not missed.
            let revocation = access.revocation();
            if matches!(access.is_valid(&credential).await, Ok(false)) {
                return;
            }
            let _ = tokio::time::timeout(RECHECK, revocation).await;
        }
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(over))))
}

/// The entry of a request, which is appended when the response is there, before it is sent; or when the client leaves before that,
/// since the operation may go on without it.
struct Record {
    audit: Arc<AuditLog>,
    clock: Arc<dyn Clock>,
    entry: Option<Entry>,
}

impl Record {
    fn new(visit: &Visit, request: &Request, action: &str, credential: Option<&Credential>) -> Self {
        let entry = Entry {
            at: visit.clock.now(),
            by: credential.map(ToString::to_string).unwrap_or_default(),
            address: visit.peer,
            forwarded_for: forwarded_for(request.headers()),
            action: action.to_owned(),
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            status: None,
            execution: None,
            count: None,
        };
        Self { audit: Arc::clone(&visit.audit), clock: Arc::clone(&visit.clock), entry: Some(entry) }
    }

    fn finish(&mut self, response: &Response) {
        let Some(mut entry) = self.entry.take() else { return };
        // The credential of a session that begins is known only now.
        if let Some(credential) = response.extensions().get::<Credential>() {
            entry.by = credential.to_string();
        }
        if response.extensions().get::<DryRun>().is_some() {
            return;
        }
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        entry.execution = location.and_then(|path| path.strip_prefix(executions::PATH)).map(str::to_owned);
        entry.status = Some(response.status().as_u16());
        self.append(entry);
    }

    /// Appends the entry. Requests without any credential are not recorded, so that strangers cannot push older entries out.
    fn append(&self, mut entry: Entry) {
        if !entry.by.is_empty() {
            entry.at = self.clock.now();
            self.audit.record(entry);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.append(entry);
        }
    }
}

/// The client that the nearest proxy names in `X-Forwarded-For`; `None` if it is no address. Without a proxy the client chooses it itself.
pub(crate) fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let field = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    field.rsplit(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_last_forwarded_address_is_used() {
        let mut headers = HeaderMap::new();
        assert_eq!(forwarded_for(&headers), None);
        headers.append("x-forwarded-for", HeaderValue::from_static("203.0.113.1, 203.0.113.2"));
        assert_eq!(forwarded_for(&headers), "203.0.113.2".parse().ok());
        headers.append("x-forwarded-for", HeaderValue::from_static("2001:db8::1"));
        assert_eq!(forwarded_for(&headers), "2001:db8::1".parse().ok());
        headers.append("x-forwarded-for", HeaderValue::from_static("<script>"));
        assert_eq!(forwarded_for(&headers), None);
    }
}
