//! The route of a request: its token is looked up once, in one snapshot of the catalog, for all that is done with the request.

use std::sync::Arc;

use model::AutomationId;
use model::automation::{Automation, Trigger, WebhookTrigger};

use catalog::{Catalog, Route};
use trigger::Rejection;

/// The automation that the token of a request leads to, in the catalog that was in force when the request came.
#[derive(Clone)]
pub struct RouteMatch {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) route: Option<Route>,
}

impl RouteMatch {
    pub(crate) fn new(catalog: Arc<Catalog>, token: &str) -> Self {
        let route = catalog.route(token).cloned();
        Self { catalog, route }
    }

    /// The automation behind the token, for logs: the token itself is a secret.
    #[must_use]
    pub fn automation(&self) -> Option<&AutomationId> {
        self.route.as_ref().map(|route| &route.mount.deployment.automation.id)
    }

    /// The maximum size of a request body in bytes; `None` if no automation answers here.
    #[must_use]
    pub fn body_limit(&self) -> Option<usize> {
        let route = self.route.as_ref().filter(|route| check_enabled(route).is_ok())?;
        Receiver::of(route.mount.on()).map(Receiver::body_limit)
    }

    /// True if a large request body has to be in memory to be read, by its headers and its first bytes.
    #[must_use]
    pub fn reads_whole(&self, headers: &[(String, Vec<u8>)], start: &[u8]) -> bool {
        let receiver = self.route.as_ref().and_then(|route| Receiver::of(route.mount.on()));
        receiver.is_some_and(|receiver| receiver.reads_whole(headers, start))
    }
}

/// Returns an error if an address takes no requests: a trigger that is disabled has only its test address.
pub(crate) fn check_enabled(route: &Route) -> Result<(), Rejection> {
    if route.is_test || route.mount.is_enabled() {
        return Ok(());
    }
    match route.mount.deployment.automation.enabled {
        true => Err(Rejection::trigger_disabled()),
        false => Err(Rejection::automation_disabled()),
    }
}

/// The trigger that reads the requests of an address.
#[derive(Clone, Copy)]
pub(super) enum Receiver<'a> {
    Webhook(&'a WebhookTrigger),
    /// An event of a connector.
    Event,
}

impl<'a> Receiver<'a> {
    /// Returns the receiver of a trigger; `None` if it takes no requests.
    pub(super) fn of(trigger: &'a Trigger) -> Option<Self> {
        match trigger {
            Trigger::Webhook(webhook) => Some(Self::Webhook(webhook)),
            Trigger::Event(_) => Some(Self::Event),
            _ => None,
        }
    }

    fn body_limit(self) -> usize {
        match self {
            Self::Webhook(webhook) => webhook.max_body,
            Self::Event => Automation::DEFAULT_MAX_BODY,
        }
    }

    fn reads_whole(self, headers: &[(String, Vec<u8>)], start: &[u8]) -> bool {
        match self {
            Self::Webhook(_) => trigger::webhook::must_load(headers, start),
            // A connector reads an event as one document.
            Self::Event => true,
        }
    }
}
