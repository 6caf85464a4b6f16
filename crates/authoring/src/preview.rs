//! Schedules in words, and the JSON Schemas of a project.

use std::sync::Arc;

use catalog::{Catalog, schema_context};
use jiff::Timestamp;
use model::automation::Trigger;
use serde_json::{Value, json};
use text::diagnostic::{Severity, Source};
use trigger::Schedule;

/// The number of instants that are listed.
const FIRES: usize = 5;

/// A schedule in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleWords {
    /// In words; `None` if it has errors.
    pub words: Option<String>,
    /// The time zone.
    pub timezone: Option<String>,
    /// The next five instants.
    pub next_fires: Vec<Timestamp>,
    /// The errors, each in a sentence.
    pub errors: Vec<String>,
}

/// Explains the value of `schedule` in a trigger.
#[must_use]
pub fn preview_schedule(schedule: &Value, now: Timestamp) -> ScheduleWords {
    // JSON is YAML: the loader reads and checks it like a file.
    let file = json!({"trigger": {"schedule": schedule}, "steps": []}).to_string();
    let loaded = language::load::automation(Arc::new(Source::new("preview.yaml", file)), "preview");
    let errors = loaded.report.entries().into_iter().filter(|entry| entry.severity == Severity::Error);
    let errors: Vec<String> = errors.map(|entry| entry.message).collect();
    let trigger = loaded.value.and_then(|automation| automation.triggers.into_iter().next());
    let Some(Trigger::Schedule(schedule)) = trigger.map(|trigger| trigger.on) else {
        return ScheduleWords { errors, ..ScheduleWords::default() };
    };
    match Schedule::compile(&schedule) {
        Ok(schedule) => ScheduleWords {
            words: Some(schedule.describe()),
            timezone: Some(schedule.timezone().to_owned()),
            next_fires: schedule.fires(now).take(FIRES).collect(),
            errors,
        },
        Err(error) => ScheduleWords { errors: vec![error.message.to_string()], ..ScheduleWords::default() },
    }
}

/// The JSON Schema of this name, with the actions and connections of a snapshot: `automation`, `connection`, `connector` or
/// `test`.
#[must_use]
pub fn schema(catalog: &Catalog, name: &str) -> Option<Value> {
    match name {
        "automation" => Some(language::schema::automation(&schema_context(catalog))),
        "connection" => Some(language::schema::connection(&schema_context(catalog))),
        "connector" => Some(connector::manifest_schema()),
        "test" => Some(language::schema::test_suite()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_preview_has_a_description_and_the_next_instants_in_its_zone() {
        let now: Timestamp = "2026-03-01T00:00:00Z".parse().expect("an instant");
        let daily = json!({"daily": {"at": "08:30"}, "timezone": "Europe/Berlin"});
        let found = preview_schedule(&daily, now);
        assert_eq!(found.next_fires.len(), 5);
        assert_eq!(found.next_fires[0].to_string(), "2026-03-01T07:30:00Z");
        assert_eq!(found.timezone.as_deref(), Some("Europe/Berlin"));
        assert!(found.words.is_some_and(|words| words.contains("8:30")));
        for wrong in [json!({"daily": {"at": "25:30"}}), json!({"cron": "0 0 31 2 *"}), json!(7)] {
            let found = preview_schedule(&wrong, now);
            assert!(!found.errors.is_empty() && found.words.is_none(), "{wrong}");
        }
    }
}
