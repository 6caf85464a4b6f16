//! Events of the engine: failures, missing successes and changes, on which triggers `event: cogwork.…` start.

use std::time::Duration;

use jiff::Timestamp;
use value::{Map, Value};

use crate::automation::Trigger;

/// The connector of the engine's events.
pub const CONNECTOR: &str = "cogwork";

/// The longest `within` for an event: events are kept for so long.
pub const MAX_EVENT_SILENCE: Duration = Duration::from_secs(7 * 86_400);
/// The largest `after`.
pub const MAX_AFTER: u32 = 1000;

/// The members of `trigger.results` of each of the events: the members of its data, then the members that each own event has.
pub const RESULTS: &[&str] = &[
    "kind",
    "title",
    "automation",
    "trigger",
    "error",
    "execution",
    "file",
    "eventName",
    "count",
    "since",
    "url",
    "body",
    "event",
];
/// The members of the data of each of the events; a member that does not apply is null.
pub const MEMBERS: &[&str] = RESULTS.split_at(RESULTS.len() - 2).0;

/// An event of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineEventName {
    /// Something failed.
    Failure,
    /// Nothing succeeded for some time.
    Missing,
    /// An automation was added, changed, removed, or its state changed.
    Changed,
}

impl EngineEventName {
    /// All events of the engine.
    pub const ALL: [Self; 3] = [Self::Failure, Self::Missing, Self::Changed];

    /// Returns the full name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "cogwork.failure",
            Self::Missing => "cogwork.missing",
            Self::Changed => "cogwork.changed",
        }
    }

    /// Returns the event with this full name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Returns the event that starts executions of a trigger; `None` if no event of the engine does.
    #[must_use]
    pub fn of(trigger: &Trigger) -> Option<Self> {
        match trigger {
            Trigger::Event(event) => Self::find(&event.call.action.name),
            _ => None,
        }
    }

    /// Returns the values of `trigger.results.kind`.
    #[must_use]
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Failure => &FailureKind::NAMES,
            Self::Missing => &["automation", "label", "event"],
            Self::Changed => &["added", "changed", "removed", "enabled", "disabled", "stale", "valid"],
        }
    }

    /// Returns the data of a start by hand or by a test, with the members that are not given: a text, a count of 1, or null.
    #[must_use]
    pub fn complete(self, data: Value, now: Timestamp) -> Value {
        let given = match data {
            Value::Map(given) => given.as_ref().clone(),
            Value::Null => Map::new(),
            // Steps read it from `body.data`.
            other => return other,
        };
        let kind = self.kinds().first().copied().unwrap_or_default();
        let mut all: Map = MEMBERS.iter().map(|name| (*name, Value::Null)).collect();
        all.insert("kind", kind);
        all.insert("title", self.as_str());
        all.insert("count", 1);
        all.insert("since", now.to_string());
        for (name, value) in given {
            all.insert(name, value);
        }
        Value::from(all)
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// An execution ended failed or stuck.
    Execution,
    /// A poll failed.
    Poll,
    /// A subscription could not be created or taken back.
    Subscription,
    /// An instant of a schedule was missed, or could not be accepted.
    Schedule,
    /// An event was dropped.
    Event,
    /// A file in force no longer loads.
    File,
    /// A broker cannot be read.
    Source,
    /// A message of a broker started nothing, and is in the message list.
    Message,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Execution,
        Self::Poll,
        Self::Subscription,
        Self::Schedule,
        Self::Event,
        Self::File,
        Self::Source,
        Self::Message,
    ];
    /// The names of all kinds.
    pub const NAMES: [&str; 8] =
        ["execution", "poll", "subscription", "schedule", "event", "file", "source", "message"];

    /// Returns the name, as in `kinds` and in `trigger.results.kind`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Poll => "poll",
            Self::Subscription => "subscription",
            Self::Schedule => "schedule",
            Self::Event => "event",
            Self::File => "file",
            Self::Source => "source",
            Self::Message => "message",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns true if failures of this kind are counted in a row, so that a trigger can wait for a number of them.
    #[must_use]
    pub fn is_counted(self) -> bool {
        matches!(self, Self::Execution | Self::Poll | Self::Subscription | Self::Source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_that_are_not_given_are_filled_in() {
        let given = Value::from(Map::from_iter([("title", Value::from("gone")), ("mine", Value::from(1))]));
        let now = "2026-03-02T08:00:00Z".parse().expect("an instant");
        let data = EngineEventName::Failure.complete(given, now);
        assert_eq!(
            data.to_json(),
            r#"{"kind":"execution","title":"gone","automation":null,"trigger":null,"error":null,"execution":null,"file":null,"eventName":null,"count":1,"since":"2026-03-02T08:00:00Z","url":null,"mine":1}"#
        );
        assert_eq!(EngineEventName::Changed.complete(Value::from("x"), now), Value::from("x"));
    }

    #[test]
    fn names_and_kinds_agree() {
        assert_eq!(FailureKind::ALL.map(FailureKind::as_str), FailureKind::NAMES);
        assert!(EngineEventName::ALL.iter().all(|event| event.as_str().starts_with("cogwork.")));
    }
}
