//! Failures in a row: `after` of `cogwork.failure`.

use catalog::EngineTrigger;
use model::engine_event::FailureKind;
use model::{AutomationId, Status};
use runtime::{EngineRow, Error};
use store::{ExecutionFilter, Page};

use super::merge::Group;
use crate::ingress::Ingress;

/// Failures in a row that are enough.
pub(super) struct Streak {
    /// The same for all failures since the last success, and no others.
    pub(super) id: String,
    /// Their number.
    pub(super) failures: u64,
}

/// Returns what fails in a row, if the trigger counts such failures; `None` for a row that starts an execution by itself.
pub(super) fn subject(trigger: &EngineTrigger, row: &EngineRow) -> Option<String> {
    if trigger.filter.after <= 1 {
        return None;
    }
    let text = |path: &[&str]| {
        let value = path.iter().try_fold(row.data.clone(), |value, name| value.get(name));
        value.map(|value| value.to_text()).unwrap_or_default()
    };
    let (kind, automation) = (text(&["kind"]), text(&["automation", "id"]));
    if row.streak.is_some() {
        return Some(format!("{kind}:{automation}:{}", text(&["trigger"])));
    }
    (kind == FailureKind::Execution.as_str()).then(|| format!("{kind}:{automation}"))
}

impl Ingress {
    /// Returns the failures in a row that a group belongs to; `None` if they are not enough.
    pub(super) async fn streak(
        &self,
        trigger: &EngineTrigger,
        group: &Group,
    ) -> Result<Option<Streak>, Error> {
        let after = trigger.filter.after;
        if let Some(streak) = &group.last.streak {
            let id = format!("streak:{}:{}", group.id, streak.since);
            let failures = u64::from(streak.failures);
            return Ok((streak.failures >= after).then_some(Streak { id, failures }));
        }
        let automation = group.last.data.get("automation").and_then(|automation| automation.get("id"));
        let Some(automation) = automation.and_then(|id| AutomationId::parse(&id.to_text())) else {
            return Ok(None);
        };
        let of = |status| ExecutionFilter {
            automation: Some(automation.clone()),
            status,
            test: Some(false),
            ..ExecutionFilter::default()
        };
        let store = &self.context.store;
        let one = Page { before: None, limit: 1 };
        let success = store.executions(&of(vec![Status::Succeeded]), one).await?.first().map(|row| row.id);
        let page = Page { before: None, limit: after };
        let failed = store.executions(&of(vec![Status::Failed, Status::Stuck]), page).await?;
        let failures = failed.iter().filter(|row| success.is_none_or(|success| row.id > success)).count();
        let since = success.map_or_else(|| "never".to_owned(), |id| id.to_string());
        let is_enough = failures >= after as usize;
        let id = format!("streak:{}:{since}", group.id);
        Ok(is_enough.then_some(Streak { id, failures: failures as u64 }))
    }
}
