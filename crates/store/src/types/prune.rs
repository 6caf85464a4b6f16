//! Deletion of executions, and the remaining capacity.

use jiff::Timestamp;
use model::AutomationId;

/// A selection of ended executions to delete. Executions that have not ended are never deleted.
#[derive(Clone, Debug)]
pub struct PruneFilter {
    /// The executions to delete among those that match the other fields.
    pub rule: PruneRule,
    /// The outcomes that match.
    pub outcome: OutcomeFilter,
    /// The Automation that matches; `None`: every Automation.
    pub automation: Option<AutomationId>,
    /// The Automations that do not match, because they have a rule of their own.
    pub except: Vec<AutomationId>,
}

impl PruneFilter {
    /// Creates a filter with this rule that matches every outcome and every Automation.
    #[must_use]
    pub fn new(rule: PruneRule) -> Self {
        Self { rule, outcome: OutcomeFilter::Any, automation: None, except: Vec::new() }
    }
}

/// The executions to delete among many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneRule {
    /// Executions that ended before this time. Their ids must be from before this time too.
    EndedBefore(Timestamp),
    /// All but this many executions of each Automation; the ones accepted last stay.
    AllButNewest(u32),
    /// The executions accepted first, without a limit of age.
    Oldest,
}

impl PruneRule {
    /// The largest number for [`PruneRule::AllButNewest`]. Every call counts that many rows.
    pub const MAX_KEPT: u32 = 1_000_000;
}

/// The outcomes that a [`PruneFilter`] matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeFilter {
    /// Every outcome.
    Any,
    /// Succeeded.
    Succeeded,
    /// Failed, cancelled or stuck.
    Unsuccessful,
}

/// The part of the store's size limit that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// At least a tenth is left, or there is no limit.
    Ample,
    /// Less than a tenth is left: the oldest executions should be deleted.
    Low,
    /// Less than a twentieth is left, which is reserved for accepted executions:
    /// [`crate::ExecutionStore::accept`] returns [`crate::Error::Full`].
    Exhausted,
}
