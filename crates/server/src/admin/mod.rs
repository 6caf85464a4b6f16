//! The admin listener: the API under `/api/v1`, described by OpenAPI generated from the code itself.
//!
//! Every request passes the guards, [`access::Access`] and the limits on bodies here, before any route sees it, so no
//! route can forget them; every answer leaves with the same security headers.

mod access;
mod addresses;
mod assist;
mod audit;
mod automations;
mod bulk;
mod caller;
mod connections;
mod connectors;
mod credential;
mod definitions;
mod delays;
mod deployments;
mod described;
mod editing;
mod embedded;
mod execution_list;
mod executions;
mod export;
mod extract;
mod files;
mod follow;
mod graph;
mod guard;
mod hidden;
mod history;
mod hosts;
mod import;
mod input;
mod large;
mod listening;
mod login;
mod manual;
mod metrics;
mod nodes;
mod notices;
mod payload;
mod plan;
mod polls;
mod problem;
mod recorded;
mod replay;
mod routes;
mod saved_payloads;
mod scope;
mod secrets;
mod session;
mod state;
mod statistics;
mod status;
mod stream;
mod subscriptions;
mod test_drafts;
mod tokens;
mod trials;
mod turns;
mod ui;
mod values;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use engine::{Clock, Engine, ReadMemory, ResumeTokens};
use http::header::{self, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body as HttpBody, Incoming};
use store::{Outage, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use value::Secret;

use crate::Error;
use crate::audit::AuditLog;
use crate::net::{self, Budget, FramingState, Respond};
use crate::options::{Deadlines, Limits, ServerOptions};
use crate::server::Addresses;
use access::Access;
use guard::Visit;
use login::Provider;
use session::Sessions;
use stream::Hub;
use tokens::Tokens;

pub(crate) use guard::forwarded_for;

pub use execution_list::TotalView;
pub use executions::{describe, describe_row};
pub use export::{ExportFormat, export, export_lines};
pub use import::{ImportedView, RefusedImport};
pub use problem::Problem;
pub use recorded::Cuts;
pub use routes::openapi;
pub use scope::{Scope, Scopes};

/// The most bytes of a request's body.
const BODY_BYTES: usize = 1 << 20;
/// The most bytes of the body of a request that shows no credential.
const PUBLIC_BYTES: usize = 4 << 10;
/// The most bytes of the files that a plan is asked for or that are deployed, and of the lines of an import.
const LARGE_BYTES: usize = 32 << 20;
/// How long the check of a text waits for its turn.
const CHECK_PATIENCE: Duration = Duration::from_secs(10);
/// The bytes of an answer above which it is written to disk before it is sent.
const LARGE_ANSWER: u64 = 256 << 10;
/// The most event streams at one time.
const STREAMS: usize = 64;

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

/// The state that the routes share.
pub(crate) struct Api {
    pub(crate) engine: Engine,
    pub(crate) addresses: Addresses,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) audit: Arc<AuditLog>,
    /// The identity provider at which people log in, if there is one.
    provider: Option<Provider>,
    /// How long a run that is waited for may take.
    pub(crate) wait: Duration,
    /// True if changes of project files are refused.
    pub(crate) read_only: bool,
    pub(crate) streams: Arc<Semaphore>,
    /// Turns to check texts, which is work for a processor.
    checks: Arc<Semaphore>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) closing: CancellationToken,
    tasks: TaskTracker,
}

impl Api {
    pub(crate) fn new(
        engine: Engine,
        options: &ServerOptions,
        token: &Secret,
        addresses: Addresses,
        audit: Arc<AuditLog>,
        closing: CancellationToken,
        tasks: TaskTracker,
    ) -> Result<Self, Error> {
        let streams = Arc::new(Semaphore::new(STREAMS));
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let checks = Arc::new(Semaphore::new(processors));
        let (store, clock) = (engine.store(), engine.clock());
        let tokens = Tokens::new(store.clone(), clock.clone());
        let port = addresses.admin.port();
        let provider = options.login.clone().map(|login| Provider::new(login, port)).transpose()?;
        let rules = provider.as_ref().map(Provider::rules);
        let sessions = Sessions::new(store.clone(), clock.clone(), tokens.clone(), port, rules, token);
        Ok(Self {
            engine,
            addresses,
            sessions,
            tokens,
            audit,
            provider,
            wait: options.wait,
            read_only: options.read_only,
            streams,
            checks,
            hub: Arc::new(Hub::new()),
            closing,
            tasks,
        })
    }

    /// Checks a text on a thread that may block. As many are checked at a time as there are processors; the others wait for
    /// [`CHECK_PATIENCE`], then they get 503.
    pub(crate) async fn check<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = Arc::clone(&self.checks).acquire_owned();
        let turn = in_turn(turn, CHECK_PATIENCE, "other texts are checked; try again").await?;
        let turn = turn.map_err(|error| Problem::internal(&error))?;
        let work = move || {
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(&error))
    }

    /// Runs an operation to its end, even if the client disconnects.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.tasks.spawn(work).await.map_err(|error| Problem::internal(&error))
    }
}

/// Waits for a turn; 503 with this detail if it does not come within `patience`.
async fn in_turn<T>(
    turn: impl Future<Output = T>,
    patience: Duration,
    detail: &'static str,
) -> Result<T, Problem> {
    tokio::time::timeout(patience, turn).await.map_err(|_| {
        let busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
        Problem { retry_after: Some(patience.as_secs()), ..busy }
    })
}

/// The state that axum hands to every route.
type Shared = axum::extract::State<Arc<Api>>;

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
            resume_tokens: api.engine.runtime().resume_tokens(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_gets_no_turn_in_time_is_refused_for_now() {
        let turns = Arc::new(Semaphore::new(1));
        let turn = |patience| in_turn(Arc::clone(&turns).acquire_owned(), patience, "others are first");
        let held = turn(CHECK_PATIENCE).await.expect("it is free");
        let refused = turn(Duration::ZERO).await.expect_err("it is taken");
        assert_eq!((refused.status, refused.code.as_str()), (503, "busy"));
        drop(held);
        assert!(turn(Duration::ZERO).await.is_ok());
    }
}
