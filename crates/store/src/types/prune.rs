//! Which executions go, and how much room there is.

use jiff::Timestamp;
use model::AutomationId;

/// Which ended executions to delete. One that has not ended never goes.
#[derive(Clone, Debug)]
pub struct Prune {
    /// Which of those that the rest of this names.
    pub rule: PruneRule,
    /// How they ended.
    pub outcome: Outcomes,
    /// Of this Automation only.
    pub automation: Option<AutomationId>,
    /// Not of these Automations, which have a rule of their own.
    pub except: Vec<AutomationId>,
}

impl Prune {
    /// By this rule, however they ended and of whatever Automation.
    #[must_use]
    pub fn new(rule: PruneRule) -> Self {
        Self { rule, outcome: Outcomes::Any, automation: None, except: Vec::new() }
    }
}

/// Which executions go of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneRule {
    /// Those that ended before; by their ids they were accepted before it too.
    EndedBefore(Timestamp),
    /// Of each Automation all but so many, the ones accepted last.
    AllButNewest(u32),
    /// Those accepted first, whenever that was.
    Oldest,
}

impl PruneRule {
    /// The most executions that [`PruneRule::AllButNewest`] can leave: they are counted each time.
    pub const MOST_LEFT: u32 = 1_000_000;
}

/// How executions ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcomes {
    /// In whatever way.
    Any,
    /// As they should.
    Succeeded,
    /// Otherwise: failed, cancelled or stuck.
    Other,
}

/// How much room a store has left of the size that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Enough.
    Enough,
    /// Less than a tenth: what is oldest should go.
    Little,
    /// Less than a twentieth, which is for what was accepted: [`crate::Store::accept`] gives [`crate::Error::Full`].
    None,
}
