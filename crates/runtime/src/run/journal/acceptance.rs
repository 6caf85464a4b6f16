//! The acceptance of an execution that runs before it is stored: a value that its journal owns and writes.

use std::sync::Arc;

use model::automation::Automation;
use store::{Accept, AcceptOutcome, InitialEvents, Store};

use crate::definition::StoredDefinitions;

/// The start of an execution that is not in the store yet. The journal writes it with its first commit, together with the
/// events of the first steps if these changed nothing outside.
pub(crate) struct PendingAcceptance {
    accept: Accept,
    automation: Arc<Automation>,
    definitions: Arc<StoredDefinitions>,
}

impl PendingAcceptance {
    pub(crate) fn new(
        accept: Accept,
        automation: Arc<Automation>,
        definitions: Arc<StoredDefinitions>,
    ) -> Self {
        Self { accept, automation, definitions }
    }

    /// Writes the execution with what has happened in it already.
    pub(super) async fn write(
        mut self,
        store: &dyn Store,
        already: InitialEvents,
    ) -> Result<AcceptOutcome, store::Error> {
        if let [new] = self.accept.executions.as_mut_slice() {
            new.initial = already;
        }
        let accepted = self.definitions.accept(store, &self.automation, &self.accept).await?;
        Ok(accepted.into_iter().next().unwrap_or(AcceptOutcome::New))
    }
}

#[cfg(test)]
mod tests {
    use model::execution::{Event, Origin};
    use model::{ExecutionId, Payload};
    use store::{Memory, NewExecution};
    use text::diagnostic::Source;
    use tokio::sync::broadcast;
    use tokio_util::sync::CancellationToken;
    use value::{Map, Value};

    use crate::clock::{Clock, ManualClock};
    use crate::run::{Journal, JournalContext};

    use super::*;

    #[tokio::test]
    async fn acceptance_is_written_by_the_journal() {
        let source = Source::new("automations/x.yaml", "trigger: {manual: {}}\nsteps: [{set: {x: 1}}]\n");
        let automation = language::load::automation(Arc::new(source), "x").value.expect("it loads");
        let automation = Arc::new(automation);
        let store: Arc<dyn Store> = Memory::default().open();
        let clock = ManualClock::new("2026-03-02T08:00:00Z".parse().expect("an instant"));
        let (id, at) = (ExecutionId::new(clock.now(), [7; 10]), clock.now());
        let started = Event::Started {
            at,
            automation: automation.id.clone(),
            definition: automation.definition,
            origin: Origin::Manual,
            payload: Payload::manual(Map::new()).into(),
            trigger: model::automation::TriggerId::MAIN,
            inputs: None,
        };
        let new = NewExecution {
            id,
            started,
            key: None,
            dedup: Vec::new(),
            starts_running: true,
            initial: InitialEvents::default(),
            gated: false,
        };
        let accept = Accept { executions: vec![new], ..Accept::default() };
        let around = JournalContext {
            store: store.clone(),
            closing: CancellationToken::new(),
            clock: Arc::new(clock.clone()),
            notices: broadcast::channel(1).0,
            redactor: value::redact::Redactor::default(),
            outbox: Arc::default(),
        };
        let acceptance = PendingAcceptance::new(accept, automation.clone(), Arc::default());
        let journal = Journal::to_accept(id, &automation, (at, clock.wall_offset()), around, acceptance);
        journal.push(Event::Responded { at, response: model::HttpResponse::json(200, &Value::Null) });
        assert!(store.events(id).await.expect("it reads").is_none(), "nothing is written yet");
        journal.commit().await.expect("it is written");
        let events = store.events(id).await.expect("it reads").expect("it is known");
        assert!(matches!(events.as_slice(), [Event::Started { .. }, Event::Responded { .. }]), "{events:?}");
        let definition = store.definition(automation.definition).await.expect("it reads");
        assert!(definition.is_some(), "the definition is written first");
    }
}
