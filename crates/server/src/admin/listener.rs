//! The admin listener. Every request passes the guards, [`Access`] and the limits on bodies here, before any route sees it,
//! so no route can forget them; every answer leaves with the same security headers.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use http::header::{self, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body as HttpBody, Incoming};
use runtime::{Clock, ReadMemory, ResumeTokens};
use store::{Outage, Store};
use tower::ServiceExt as _;
use value::Secret;

use super::auth::access::Access;
use super::auth::guard::Visit;
use super::definitions::deployments;
use super::executions::import;
use super::{Api, Problem, routes};
use crate::audit::AuditLog;
use crate::net::{self, Budget, FramingState, Respond};
use crate::options::{Deadlines, Limits, ServerOptions};

/// Maximum number of bytes of a request's body.
const BODY_BYTES: usize = 1 << 20;
/// Maximum number of bytes of the body of a request that shows no credential.
const PUBLIC_BYTES: usize = 4 << 10;
/// Maximum number of bytes of the files that a plan is asked for or that are deployed, and of the lines of an import.
const LARGE_BYTES: usize = 32 << 20;
/// The bytes of an answer above which it is written to disk before it is sent.
const LARGE_ANSWER: u64 = 256 << 10;

/// Sent with every answer: it is data, for programs, not to be stored, framed, sniffed or embedded by anybody.
const SECURITY: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (CACHE_CONTROL, "no-store"),
];

/// The service of the admin listener.
pub(crate) struct Admin {
    router: Router,
    access: Arc<Access>,
    audit: Arc<AuditLog>,
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    limits: Limits,
    deadlines: Deadlines,
    budget: Arc<Budget>,
    resume_tokens: ResumeTokens,
}

impl Admin {
    pub(crate) fn new(api: Api, options: &ServerOptions, token: Secret, budget: Arc<Budget>) -> Self {
        Self {
            access: Arc::new(Access::new(
                token,
                api.addresses.admin,
                options,
                Arc::clone(&api.sessions),
                Arc::clone(&api.tokens),
            )),
            audit: Arc::clone(&api.audit),
            clock: api.engine.clock().clone(),
            store: api.engine.store().clone(),
            resume_tokens: api.engine.context().resume_tokens(),
            router: routes::router().with_state(Arc::new(api)),
            limits: options.admin_limits.clone(),
            deadlines: options.deadlines.clone(),
            budget,
        }
    }

    async fn answer(&self, request: Request<Incoming>, seen: &FramingState) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        if let Err(refusal) = net::check(&head, seen, &self.limits) {
            return closed(Problem::from(refusal));
        }
        let credential = match self.access.check(&head).await {
            Ok(credential) => credential,
            Err(problem) => return problem.into_response(),
        };
        let is_large = head.method == Method::POST
            && matches!(head.uri.path(), "/api/v1/plan" | import::PATH | deployments::PATH);
        let most = match &credential {
            None => PUBLIC_BYTES,
            Some(_) if is_large => LARGE_BYTES,
            Some(_) => BODY_BYTES,
        };
        let visit = Visit {
            access: Arc::clone(&self.access),
            audit: Arc::clone(&self.audit),
            clock: Arc::clone(&self.clock),
            peer: seen.peer(),
            resume_tokens: self.resume_tokens.clone(),
            is_public: credential.is_none(),
        };
        head.extensions.insert(visit);
        if let Some(credential) = credential {
            seen.trust(&credential.to_string());
            head.extensions.insert(credential);
        }
        let held = match net::read(body, most, &self.budget, &self.deadlines).await {
            Ok(held) => held,
            Err(refusal) => return closed(Problem::from(refusal)),
        };
        self.route(Request::from_parts(head, Body::from(held.bytes()))).await
    }

    /// Writes a large body to disk until it is sent: a slow reader holds no memory. A stream stays as it is.
    async fn kept_for_sending(&self, response: Response<Body>) -> Response<Body> {
        let length = HttpBody::size_hint(response.body()).exact();
        let is_history = response.extensions().get::<Option<Arc<ReadMemory>>>().is_some();
        // The length of an answer in which tokens are masked is not known.
        if length.map_or(!is_history, |length| length <= LARGE_ANSWER) {
            return response;
        }
        let (mut head, body) = response.into_parts();
        match self.budget.outgoing_parts(body).await {
            Ok(body) => {
                // The memory of the reader of an execution is free from here on.
                head.extensions.clear();
                Response::from_parts(head, Body::new(body))
            }
            Err(Ok(refusal)) => Problem::from(refusal).into_response(),
            Err(Err(error)) => Problem::internal(&std::io::Error::other(error)).into_response(),
        }
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        match self.router.clone().oneshot(request).await {
            Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
                let allow =
                    response.headers().get(ALLOW).and_then(|allow| allow.to_str().ok()).map(str::to_owned);
                Problem::method_not_allowed(allow).into_response()
            }
            // A request that cannot be served now frees its connection for other clients.
            Ok(mut response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

impl Respond for Admin {
    type Body = Body;

    async fn respond(&self, request: Request<Incoming>, seen: &FramingState) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = tokio::select! {
            biased;
            answer = self.answer(request, seen) => answer,
            () = unreachable_store(&*self.store) => unanswered(&method).into_response(),
        };
        let mut response = self.kept_for_sending(answer).await;
        secure(response.headers_mut());
        let status = response.status().as_u16();
        // Requests that change something are logged at `info`, others at `debug`.
        if matches!(method, Method::GET | Method::HEAD) {
            tracing::debug!(%method, path, status, "answered the API");
        } else {
            tracing::info!(%method, path, status, "answered the API");
        }
        response
    }
}

/// Completes once a request has waited for [`Outage::GRACE`] and the database has not answered for as long.
async fn unreachable_store(store: &dyn Store) {
    tokio::time::sleep(Outage::GRACE).await;
    Outage::is_unreachable_for(store.outages(), Outage::GRACE).await;
}

/// The answer to a request that waited for the database in vain.
fn unanswered(method: &Method) -> Problem {
    let detail = match *method {
        Method::GET | Method::HEAD => "the database does not answer; try again",
        _ => {
            "the database does not answer, and the change may have been made or not; look when it answers again"
        }
    };
    Problem {
        retry_after: Some(5),
        ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unreachable", detail)
    }
}

/// An answer after which the connection closes, since what follows on it cannot be trusted.
fn closed(problem: Problem) -> Response<Body> {
    let mut response = problem.into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn secure(headers: &mut HeaderMap) {
    for (name, value) in SECURITY {
        // The files of the UI have a policy and a cache time of their own.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    }
}
