//! The failed end of an execution, as triggers on `cogwork.failure` hear of it.

use model::action::{ActionError, ErrorKind};
use model::engine_event::{EngineEventName, FailureKind};
use model::execution::{ExecutionId, Outcome};
use store::OutboxRow;
use value::{Map, Value};

use super::Run;
use crate::engine_events::{Occurrence, title_of_end};

impl Run {
    /// Returns the rows by which triggers hear of this end; none if it is no failure, or no trigger wants it.
    ///
    /// Tests, executions of a trigger on an event of the engine, and executions started by these raise nothing, or a
    /// failing handler would start itself.
    pub(super) async fn failure_rows(&self, outcome: &Outcome) -> Vec<OutboxRow> {
        let (Outcome::Failed { error } | Outcome::Stuck { error }) = outcome else { return Vec::new() };
        if self.origin.is_test() {
            return Vec::new();
        }
        let (id, automation) = (self.journal.id(), &self.deployment.automation);
        if self.is_handler() {
            self.handler_failed(outcome);
            return Vec::new();
        }
        let execution = || {
            Map::from_iter([
                ("id", Value::from(id.to_string())),
                ("origin", Value::from(self.origin.as_str())),
                ("startedAt", Value::from(self.started_at.to_string())),
                ("attempt", Value::from(self.journal.attempt())),
            ])
        };
        let catalog = self.context.catalog.load();
        let rows = self.context.failure_rows(
            &catalog,
            FailureKind::Execution,
            Some(automation),
            |_| self.events.next_place(Some(id)),
            || Occurrence {
                id: id.to_string(),
                kind: FailureKind::Execution.as_str(),
                title: title_of_end(automation, outcome),
                trigger: Some(self.by.trigger.clone()),
                error: Some(error.clone()),
                execution: Some(execution()),
                sender: Some(id),
                page: format!("/executions/{id}"),
                ..Occurrence::default()
            },
        );
        drop(catalog);
        if !rows.is_empty() && self.is_begun_by_handler().await {
            self.handler_failed(outcome);
            return Vec::new();
        }
        rows
    }

    /// Tells triggers that an event of this execution starts nothing, with the next commit.
    pub(crate) async fn raise_dropped_event(&self, event: &str, id: &str, reason: &str) {
        if self.origin.is_test() || self.is_handler() || self.is_begun_by_handler().await {
            return;
        }
        let (sender, automation) = (self.journal.id(), &self.deployment.automation);
        let catalog = self.context.catalog.load();
        let place = |_: &str| self.events.next_place(Some(sender));
        let rows =
            self.context.failure_rows(&catalog, FailureKind::Event, Some(automation), place, || Occurrence {
                id: id.to_owned(),
                kind: FailureKind::Event.as_str(),
                title: format!("{}: {reason}", automation.name),
                trigger: Some(self.by.trigger.clone()),
                error: Some(ActionError::new(ErrorKind::Limit, reason)),
                sender: Some(sender),
                event_name: Some(event.to_owned()),
                page: format!("/executions/{sender}"),
                ..Occurrence::default()
            });
        self.journal.send_with_end(rows);
    }

    /// Reports the failure of an execution that raises none.
    fn handler_failed(&self, outcome: &Outcome) {
        let automation = &self.deployment.automation.id;
        self.context.rejections.count(Some(automation), "handler_failed");
        tracing::error!(
            execution = %self.journal.id(),
            %automation,
            error = outcome.message(),
            "an execution that an event of the engine has started failed; no trigger hears of it"
        );
    }

    /// Returns true if an event of the engine started it.
    fn is_handler(&self) -> bool {
        let trigger = self.deployment.automation.trigger(&self.by.trigger);
        trigger.is_some_and(|trigger| EngineEventName::of(&trigger.on).is_some())
    }

    /// Returns true if the first execution of its chain was started by an event of the engine.
    async fn is_begun_by_handler(&self) -> bool {
        let chain = self.chain_of_run().chain;
        let Ok(first) = chain.parse::<ExecutionId>() else { return false };
        if first == self.journal.id() {
            return false;
        }
        // A failure that cannot be looked up is raised rather than lost.
        let Ok(Some(row)) = self.context.store.execution(first).await else { return false };
        let catalog = self.context.catalog.load();
        let deployment = catalog.get(&row.automation);
        let trigger = deployment.and_then(|deployment| deployment.automation.trigger(&row.trigger));
        trigger.is_some_and(|trigger| EngineEventName::of(&trigger.on).is_some())
            || row.origin.emitted_event().is_some_and(|event| EngineEventName::find(event).is_some())
    }
}
