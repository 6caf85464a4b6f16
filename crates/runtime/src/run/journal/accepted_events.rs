//! An event ends one wait of a step: it is not taken by a wait of the same step that begins later, however late and however
//! often it is delivered.

use std::collections::HashMap;

use model::execution::{Event, WaitReason};
use serde::{Deserialize, Serialize};

use super::pauses::Taken;
use super::{Journal, State};
use crate::recent_events::Delivery;

/// The events that ended waits of one step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AcceptedEvents {
    /// For each name of an event a key in the order of retained events: no event up to it can end a later wait.
    pub(super) passed: HashMap<String, String>,
    /// The ids of the later events that ended a wait, each with the number of waits of the execution that signals had ended by
    /// then. The stored form has no numbers, and 0 is read: all later waits begin after a snapshot.
    #[serde(with = "stored_ids")]
    ids: HashMap<String, u64>,
}

impl AcceptedEvents {
    /// Adds the event that ended the wait with this number. Of parallel waits, the first counts.
    pub(super) fn insert(&mut self, id: &str, number: u64) {
        self.ids.entry(id.to_owned()).or_insert(number);
    }

    /// True if the event ended a wait up to the one with this number.
    pub(super) fn contains(&self, id: &str, until: u64) -> bool {
        self.ids.get(id).is_some_and(|number| *number <= until)
    }
}

/// The stored form of the ids: a list.
mod stored_ids {
    use std::collections::HashMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(ids: &HashMap<String, u64>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.keys())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<HashMap<String, u64>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().map(|id| (id, 0)).collect())
    }
}

/// The id of the step in the key of one of its iterations.
fn step_id(key: &str) -> &str {
    key.split('[').next().unwrap_or_default()
}

impl State {
    /// The events that ended waits of a step, by the key of one of its iterations.
    fn accepted_events(&self, key: &str) -> Option<&AcceptedEvents> {
        self.accepted_events.get(step_id(key))
    }

    /// Records that a signal ended a wait.
    pub(super) fn accept(&mut self, key: &str, signal: &str) {
        let number = self.pauses.ended_by_signal();
        self.accepted_events.entry(step_id(key).to_owned()).or_default().insert(signal, number);
    }

    /// The key up to which no event of the name can end a wait of the step that begins now.
    pub(super) fn passed(&self, key: &str, on: &WaitReason) -> Option<String> {
        let WaitReason::Event { name } = on else { return None };
        self.accepted_events(key)?.passed.get(name).cloned()
    }

    fn is_accepted(&self, key: &str, delivery: &Delivery) -> bool {
        self.pauses.is_accepted(key, delivery, self.accepted_events(key))
    }
}

impl Journal {
    /// Records a signal for a step. The caller must commit.
    pub(crate) fn signal(&self, step: &str, delivery: Delivery) -> Taken {
        let mut state = self.state();
        if state.outcome.is_some() {
            return Taken::NotWaiting;
        }
        if state.is_accepted(step, &delivery) {
            return Taken::Known;
        }
        let signal = delivery.signal;
        let taken = state.pauses.take(step, signal.clone());
        if taken == Taken::New {
            let event = Event::Signalled { at: self.clock.now(), step: step.to_owned(), signal };
            state.record(&*self.clock, event);
        }
        taken
    }

    /// True if the event ended an earlier wait of the step that waits now.
    pub(crate) fn is_accepted(&self, step: &str, delivery: &Delivery) -> bool {
        self.state().is_accepted(step, delivery)
    }

    /// The key up to which no event can end the present wait of a step; `None` if all events count.
    pub(crate) fn passed_events(&self, step: &str) -> Option<String> {
        self.state().pauses.passed(step)
    }

    /// Notes that no event with this name, up to this one, can end the present wait of a step; and if `of_all`, none of the waits
    /// that begin later. Returns false if a parallel wait of the step still needs to know that the event ended an earlier one.
    pub(crate) fn pass_event(&self, step: &str, event: &Delivery, of_all: bool) -> bool {
        let Some(key) = &event.key else { return false };
        let mut state = self.state();
        let state = &mut *state;
        state.pauses.pass(step, key);
        if !of_all {
            return false;
        }
        let (id, signal) = (step_id(step), &event.signal);
        let accepted = state.accepted_events.entry(id.to_owned()).or_default();
        if let Some(number) = accepted.ids.get(&signal.id) {
            let same_step = |waiting: &str| step_id(waiting) == id;
            if state.pauses.has_not_passed(&signal.name, key, *number, same_step) {
                return false;
            }
            accepted.ids.remove(&signal.id);
        }
        let passed = accepted.passed.entry(signal.name.clone()).or_default();
        if *passed < *key {
            passed.clone_from(key);
        }
        true
    }

    /// Notes that a waiting step has looked for earlier events.
    pub(crate) fn looked_for_events(&self, step: &str) {
        let mut state = self.state();
        let state = &mut *state;
        if let Some(accepted) = state.accepted_events.get(step_id(step)) {
            state.loops.pass_events(step_id(step), accepted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use model::execution::ExecutionId;
    use store::Memory;
    use text::diagnostic::Source;
    use tokio::sync::broadcast;
    use tokio_util::sync::CancellationToken;
    use value::Value;
    use value::redact::Redactor;

    use model::action::{ActionError, ErrorKind};
    use model::automation::Automation;
    use model::execution::Signal;

    use crate::run::StepWait;

    use super::super::{JournalContext, Times, Tries};
    use super::*;
    use crate::clock::{Clock, ManualClock};

    fn automation() -> Automation {
        let yaml = "trigger: {manual: {}}\nsteps: [{id: paid, waitFor: {event: paid}}]\n";
        let source = Arc::new(Source::new("automations/x.yaml", yaml));
        language::load::automation(source, "x").value.expect("it loads")
    }

    fn journal() -> Box<Journal> {
        let automation = automation();
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let around = JournalContext {
            store: Memory::default().open(),
            closing: CancellationToken::new(),
            clock: Arc::new(clock.clone()),
            notices: broadcast::channel(1).0,
            redactor: Redactor::default(),
            outbox: Arc::default(),
        };
        let id = ExecutionId::new(clock.now(), [7; 10]);
        Journal::new(id, &automation, (clock.now(), clock.wall_offset()), around)
    }

    fn wait(journal: &Journal, step: &str) {
        let on = WaitReason::Event { name: "paid".to_owned() };
        let waiting = StepWait { since: Timestamp::UNIX_EPOCH, until: None, on };
        let since = journal.clock.monotonic_now();
        journal.pause_begins(step, &waiting, Times { since, due: None, limit: None, stays_in_memory: false });
    }

    fn end(journal: &Journal, step: &str, event: &Delivery) {
        assert_eq!(journal.signal(step, event.clone()), Taken::New, "{step}");
        journal.wait_ended(step, Some(&event.signal.id));
        journal.abandon(|waiting| waiting == step);
    }

    fn event(key: &str) -> Delivery {
        let signal = Signal { id: format!("id {key}"), name: "paid".to_owned(), data: Value::Null, by: None };
        Delivery { signal, key: Some(key.to_owned()) }
    }

    #[test]
    fn a_step_inside_another_that_is_tried_again_may_have_sent_its_event() {
        let journal = journal();
        assert!(!journal.may_have_begun("emit"));
        let at = journal.clock.now();
        let error = ActionError::new(ErrorKind::Timeout, "it took too long");
        let event =
            Event::StepRetry { at, step: "around".to_owned(), attempt: 1, error, next_at: at, policy: None };
        let mut tries = Tries::default();
        tries.add(1, None, journal.clock.monotonic_now());
        journal.step_retry(&automation(), "around", event, &tries);
        assert!(journal.may_have_begun("emit"));
    }

    #[test]
    fn an_event_ends_only_waits_that_began_before_it_ended_the_first_one() {
        let journal = journal();
        wait(&journal, "paid[0]");
        wait(&journal, "paid[1]");
        end(&journal, "paid[0]", &event("b"));
        wait(&journal, "paid[2]");
        assert_eq!(journal.signal("paid[2]", event("b")), Taken::Known);
        // Another wait of the same name is not concerned.
        wait(&journal, "other[2]");
        end(&journal, "other[2]", &event("b"));
        end(&journal, "paid[1]", &event("b"));
        assert_eq!(journal.signal("paid[2]", event("b")), Taken::Known, "after the second wait too");
        end(&journal, "paid[2]", &event("c"));
    }

    #[test]
    fn an_event_passed_by_a_step_is_recognised_by_its_key() {
        let journal = journal();
        wait(&journal, "paid[0]");
        wait(&journal, "paid[1]");
        end(&journal, "paid[0]", &event("b"));
        wait(&journal, "paid[2]");
        assert!(journal.pass_event("paid[2]", &event("b"), true));
        assert_eq!(journal.signal("paid[2]", event("b")), Taken::Known, "for the wait that passed it");
        end(&journal, "paid[2]", &event("c"));
        wait(&journal, "paid[3]");
        assert_eq!(journal.signal("paid[3]", event("a")), Taken::Known, "for a later wait");
        assert_eq!(journal.signal("paid[3]", event("b")), Taken::Known, "for a later wait");
        end(&journal, "paid[1]", &event("b"));
    }

    #[test]
    fn an_event_is_remembered_until_all_parallel_waits_have_passed_it() {
        let journal = journal();
        wait(&journal, "paid[0]");
        end(&journal, "paid[0]", &event("b"));
        wait(&journal, "paid[1]");
        wait(&journal, "paid[2]");
        assert!(!journal.pass_event("paid[1]", &event("b"), true));
        assert!(!journal.pass_event("paid[1]", &event("c"), false), "no later event is passed either");
        assert_eq!(journal.passed_events("paid[1]").as_deref(), Some("c"));
        assert_eq!(journal.signal("paid[2]", event("b")), Taken::Known);
        wait(&journal, "paid[3]");
        assert_eq!(journal.passed_events("paid[3]"), None);
        assert!(!journal.pass_event("paid[2]", &event("b"), true));
        assert!(journal.pass_event("paid[3]", &event("b"), true));
        wait(&journal, "paid[4]");
        assert_eq!(journal.passed_events("paid[4]").as_deref(), Some("b"));
    }

    #[test]
    fn the_stored_form_of_accepted_events_is_a_list_of_ids_that_ended_earlier_waits() {
        let mut accepted = AcceptedEvents::default();
        accepted.insert("x", 7);
        assert!(!accepted.contains("x", 6) && accepted.contains("x", 7));
        let stored = serde_json::to_string(&accepted).expect("it is written");
        assert_eq!(stored, r#"{"passed":{},"ids":["x"]}"#);
        let read: AcceptedEvents = serde_json::from_str(&stored).expect("it is read");
        assert!(read.contains("x", 0));
    }
}
