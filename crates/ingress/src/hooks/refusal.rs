//! The reply to a request, and the requests that started nothing, with their reason.

use catalog::Mount;
use model::AutomationId;
use model::automation::TriggerId;
use model::payload::HttpResponse;
use trigger::webhook::Request;

use super::RouteMatch;
use crate::ingress::Ingress;
use crate::refusals::{Refusal, RefusedRequest};

/// The number of characters of a path or a content type that are kept.
const MAX_CHARS: usize = 200;
/// The number of characters of a method that are kept.
const MAX_METHOD_CHARS: usize = 20;

/// The answer to a request that was not rejected.
pub struct Reply {
    /// The response to the sender.
    pub response: HttpResponse,
    /// The reason why the request started nothing, as the counters name it; `None` if it started an execution, or is of a kind
    /// that starts none, such as a challenge.
    pub started_nothing: Option<&'static str>,
}

impl Reply {
    /// A reply to a request that started nothing.
    pub(crate) fn without_start(response: HttpResponse, reason: &'static str) -> Self {
        Self { response, started_nothing: Some(reason) }
    }
}

impl From<HttpResponse> for Reply {
    fn from(response: HttpResponse) -> Self {
        Self { response, started_nothing: None }
    }
}

/// The parts of a request that are kept if it starts nothing.
pub(super) fn describe(request: &Request, is_test: bool) -> RefusedRequest {
    let mut headers = request.headers.iter();
    let content_type = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    RefusedRequest {
        is_test,
        method: request.method.clone(),
        fragment: request.fragment.clone(),
        content_type: content_type.map(|(_, value)| String::from_utf8_lossy(value).into_owned()),
        bytes: Some(request.body.len() as u64),
    }
}

impl Ingress {
    /// Keeps a request that started nothing.
    pub(super) fn keep_refusal(
        &self,
        mount: &Mount,
        reason: &'static str,
        status: u16,
        mut request: RefusedRequest,
    ) {
        let short = |text: &str, chars| {
            let shown = self.context.settings.redactor.redact_text(text);
            text::truncate(&shown, chars).into_owned()
        };
        request.method = short(&request.method, MAX_METHOD_CHARS);
        request.fragment = short(&request.fragment, MAX_CHARS);
        request.content_type = request.content_type.map(|kind| short(&kind, MAX_CHARS));
        let (at, trigger) = (self.context.clock.now(), mount.declared().id.clone());
        let refusal = Refusal { at, trigger, reason, status, request };
        self.refusals.record(&mount.deployment.automation.id, refusal);
    }

    /// Counts and keeps a request that the HTTP layer rejected with `status` before it reached [`Ingress::receive_on`].
    pub fn refuse_early(
        &self,
        target: &RouteMatch,
        reason: &'static str,
        status: u16,
        request: RefusedRequest,
    ) {
        self.count_early_rejection(Some(target), reason);
        if let Some(route) = &target.route {
            let request = RefusedRequest { is_test: route.is_test, ..request };
            self.keep_refusal(&route.mount, reason, status, request);
        }
    }

    /// The latest requests to an Automation, or to one of its triggers, that started nothing, newest first.
    #[must_use]
    pub fn refusals_of(&self, automation: &AutomationId, trigger: Option<&TriggerId>) -> Vec<Refusal> {
        self.refusals.of(automation, trigger)
    }
}
