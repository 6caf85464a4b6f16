//! Failures of triggers, as triggers on `cogwork.failure` hear of them.

use catalog::Mount;
use jiff::Timestamp;
use model::ExecutionId;
use model::action::{ActionError, ErrorKind};
use model::engine_event::FailureKind;
use runtime::{FailureStreak, Occurrence};
use store::OutboxRow;

use crate::ingress::Ingress;

impl Ingress {
    /// Returns the rows by which triggers hear of a failed poll; `polls` is its number, `last_success` the time of the last successful one.
    pub(crate) fn poll_failure(
        &self,
        mount: &Mount,
        error: &str,
        (polls, failures): (u64, u32),
        last_success: Option<Timestamp>,
    ) -> Vec<OutboxRow> {
        let since = last_success.map_or_else(|| "never".to_owned(), |at| at.to_string());
        self.trigger_failure(mount, FailureKind::Poll, &polls.to_string(), |name| Occurrence {
            title: format!("a poll of {name} failed: {error}"),
            error: Some(ActionError::new(ErrorKind::Failed, error)),
            streak: Some(FailureStreak { failures, since }),
            ..Occurrence::default()
        })
    }

    /// Returns the rows by which triggers hear that the subscription `id`, which is as it is since `since`, failed.
    pub(crate) fn subscription_failure(
        &self,
        mount: &Mount,
        (id, since): (&str, Timestamp),
        failures: u32,
        error: &str,
    ) -> Vec<OutboxRow> {
        let id = format!("{id}:{since}:{failures}");
        self.trigger_failure(mount, FailureKind::Subscription, &id, |name| Occurrence {
            title: format!("the subscription of {name} failed: {error}"),
            error: Some(ActionError::new(ErrorKind::Failed, error)),
            streak: Some(FailureStreak { failures, since: since.to_string() }),
            ..Occurrence::default()
        })
    }

    /// Returns the rows by which triggers hear of missed instants of a schedule, the first of them after `since`.
    pub(crate) fn missed_instants(&self, mount: &Mount, missed: u64, since: Timestamp) -> Vec<OutboxRow> {
        if missed == 0 {
            return Vec::new();
        }
        let instants = if missed == 1 { "an instant".to_owned() } else { format!("{missed} instants") };
        self.trigger_failure(mount, FailureKind::Schedule, &format!("missed:{since}"), |name| Occurrence {
            title: format!("{instants} of the schedule of {name} passed while nothing could start"),
            count: missed,
            since: Some(since),
            ..Occurrence::default()
        })
    }

    /// Returns the rows by which triggers hear that an instant of a schedule could not be accepted.
    pub(crate) fn refused_instant(
        &self,
        mount: &Mount,
        instant: Timestamp,
        error: &runtime::Error,
    ) -> Vec<OutboxRow> {
        self.trigger_failure(mount, FailureKind::Schedule, &format!("refused:{instant}"), |name| Occurrence {
            title: format!("the instant {instant} of the schedule of {name} could not start: {error}"),
            error: Some(ActionError::new(ErrorKind::Failed, error.to_string())),
            since: Some(instant),
            ..Occurrence::default()
        })
    }

    /// Returns the rows by which triggers hear that a trigger did not get the event `id`.
    pub(crate) fn dropped_event(&self, mount: &Mount, event: &str, id: &str, reason: &str) -> Vec<OutboxRow> {
        self.trigger_failure(mount, FailureKind::Event, id, |name| Occurrence {
            title: format!("{name} did not get the event `{event}`: {reason}"),
            error: Some(ActionError::new(ErrorKind::Limit, reason)),
            event_name: Some(event.to_owned()),
            ..Occurrence::default()
        })
    }

    /// Returns the rows by which triggers hear that a consumer of a broker, which works since `since` no more, failed again.
    pub(crate) fn source_failure(
        &self,
        mount: &Mount,
        (consumer, since): (u32, Timestamp),
        failures: u32,
        error: &str,
    ) -> Vec<OutboxRow> {
        let id = format!("{consumer}:{since}:{failures}");
        self.trigger_failure(mount, FailureKind::Source, &id, |name| Occurrence {
            title: format!("the messages of {name} cannot be read: {error}"),
            error: Some(ActionError::new(ErrorKind::Failed, error)),
            streak: Some(FailureStreak { failures, since: since.to_string() }),
            ..Occurrence::default()
        })
    }

    /// Returns the rows by which triggers hear that the message `id` started nothing.
    pub(crate) fn poisoned_message(&self, mount: &Mount, id: &str, error: &str) -> Vec<OutboxRow> {
        self.trigger_failure(mount, FailureKind::Message, id, |name| Occurrence {
            title: format!("a message of {name} started nothing: {error}"),
            error: Some(ActionError::new(ErrorKind::Failed, error)),
            ..Occurrence::default()
        })
    }

    /// Returns the rows for the failure of a trigger. `id` tells it from others of the same trigger and kind; `make` gets the name of
    /// the automation.
    fn trigger_failure(
        &self,
        mount: &Mount,
        kind: FailureKind,
        id: &str,
        make: impl FnOnce(&str) -> Occurrence,
    ) -> Vec<OutboxRow> {
        let (automation, key) = (&mount.deployment.automation, mount.key());
        let catalog = self.context.catalog.load();
        let place = |_: &str| self.admission.next_event_place();
        self.context.failure_rows(&catalog, kind, Some(automation), place, || Occurrence {
            id: format!("{}:{key}:{id}", kind.as_str()),
            kind: kind.as_str(),
            trigger: Some(mount.declared().id.clone()),
            page: format!("/automations/{}", automation.id),
            ..make(&automation.name)
        })
    }

    /// Creates the place of an event of the engine in the order of delivery.
    #[must_use]
    pub fn next_event_place(&self) -> ExecutionId {
        self.admission.next_event_place()
    }

    /// Wakes the delivery of rows that are stored.
    pub(crate) fn rows_committed(&self, rows: &[OutboxRow]) {
        self.context.outbox.committed(rows.iter().map(|row| row.name.as_str()));
    }
}
