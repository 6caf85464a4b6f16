//! Triggers on events of the engine, with their checked filters.

use std::collections::BTreeSet;
use std::time::Duration;

use connector::{EventSpec, convert_input};
use model::automation::{Automation, EventTrigger, Trigger};
use model::engine_event::{EngineEventName, FailureKind};
use value::{Map, Value};

use super::{Catalog, Mount};

/// An enabled trigger on an event of the engine.
#[derive(Clone)]
pub struct EngineTrigger {
    /// The trigger.
    pub mount: Mount,
    /// The event.
    pub event: EngineEventName,
    /// The part of the events that it wants.
    pub filter: EngineFilter,
}

/// The part of an event of the engine that a trigger wants: its `with`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineFilter {
    /// The kinds of failures; empty for all.
    pub kinds: BTreeSet<FailureKind>,
    /// The ids of the automations; empty for all.
    pub automations: BTreeSet<String>,
    /// Labels, of which the automation has at least one; empty for any automation.
    pub labels: BTreeSet<String>,
    /// The number of failures in a row; 1 for each failure.
    pub after: u32,
    /// The longest silence of `cogwork.missing`; zero for other events.
    pub within: Duration,
    /// The own event that may be missing.
    pub event: Option<String>,
}

impl EngineFilter {
    /// Returns the filter of a trigger whose `with` is literal and has the declared types; `None` for others, which are never in force.
    #[must_use]
    pub fn new(trigger: &EventTrigger, spec: &EventSpec) -> Option<Self> {
        let mut with = Map::new();
        for input in &spec.inputs {
            let given = trigger.call.with.iter().find(|(name, _)| name.name == input.name);
            let Some((_, template)) = given else { continue };
            if let Some(value) = convert_input(input, template.literal()?).ok()? {
                with.insert(input.name.as_str(), value);
            }
        }
        let texts = |name: &str| -> BTreeSet<String> {
            let items = with.get(name).and_then(Value::as_list).unwrap_or_default();
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let text = |name: &str| with.get(name).and_then(Value::as_str);
        let within = text("within").map(text::units::parse_fixed_period);
        let after = with.get("after").and_then(|after| after.to_text().parse().ok());
        Some(Self {
            kinds: texts("kinds").iter().filter_map(|kind| FailureKind::find(kind)).collect(),
            automations: texts("automations"),
            labels: texts("labels"),
            after: after.unwrap_or(1),
            within: within.transpose().ok()?.unwrap_or_default(),
            event: text("event").map(str::to_owned),
        })
    }

    /// Returns true if it wants what happens to an automation; `None` for what concerns no automation.
    #[must_use]
    pub fn wants_automation(&self, automation: Option<&Automation>) -> bool {
        match automation {
            Some(automation) => self.wants(automation.id.as_str(), &automation.labels),
            None => self.automations.is_empty() && self.labels.is_empty(),
        }
    }

    /// Returns true if it wants what happens to the automation with this id and these labels.
    #[must_use]
    pub fn wants(&self, id: &str, labels: &[String]) -> bool {
        let is_named = self.automations.is_empty() || self.automations.contains(id);
        let is_labelled = self.labels.is_empty() || labels.iter().any(|it| self.labels.contains(it));
        is_named && is_labelled
    }

    /// Returns true if it wants failures of this kind.
    #[must_use]
    pub fn wants_kind(&self, kind: FailureKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

impl EngineTrigger {
    /// Returns the trigger on an event of the engine; `None` for other triggers.
    pub(super) fn new(mount: &Mount, catalog: &Catalog) -> Option<Self> {
        let event = EngineEventName::of(mount.on())?;
        let Trigger::Event(trigger) = mount.on() else { return None };
        let filter = EngineFilter::new(trigger, catalog.registry().event(event.as_str())?)?;
        Some(Self { mount: mount.clone(), event, filter })
    }
}
