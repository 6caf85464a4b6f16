//! The route of a request: its token is looked up once, in one snapshot of the catalog, for all that is done with the request.

use std::sync::Arc;

use model::AutomationId;
use model::automation::{Automation, Trigger};

use catalog::{Catalog, Route};

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
        self.route.as_ref().map(|route| &route.deployment.automation.id)
    }

    /// The maximum size of a request body in bytes; `None` if no automation answers here.
    #[must_use]
    pub fn body_limit(&self) -> Option<usize> {
        let route = self.route.as_ref()?;
        let automation = &route.deployment.automation;
        let answers = route.is_test || automation.enabled;
        match &automation.trigger {
            Trigger::Webhook(webhook) if answers => Some(webhook.max_body),
            Trigger::Event(_) if answers => Some(Automation::DEFAULT_MAX_BODY),
            _ => None,
        }
    }

    /// True if a large request body has to be in memory to be read, by its headers and its first bytes.
    #[must_use]
    pub fn reads_whole(&self, headers: &[(String, Vec<u8>)], start: &[u8]) -> bool {
        let Some(route) = &self.route else { return false };
        match &route.deployment.automation.trigger {
            Trigger::Webhook(_) => trigger::webhook::must_load(headers, start),
            // A connector reads an event as one document.
            _ => true,
        }
    }
}
