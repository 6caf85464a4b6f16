//! The budget of an evaluation: the work and the memory that expressions, templates, JSONPath queries and JSON Schemas may
//! spend on data from outside.
//!
//! Every operation charges the budget by the size of its operands *before* it allocates or loops. One that cannot pay
//! fails with [`Exceeded`], so an evaluation ends within its limits whatever the data is. A budget also asks its
//! [`Interrupt`] at regular intervals, so that a time limit or a cancellation ends an evaluation that is within its limits.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// The work of one evaluation, in units. A unit is one value visited, one comparison, or [`BYTES_PER_UNIT`] bytes of text
/// read or written: between one and some ten nanoseconds.
pub const MAX_WORK: u64 = 50_000_000;
/// The bytes that one evaluation may allocate, all its intermediate values together.
pub const MAX_MEMORY: usize = 64 << 20;
/// The work of an evaluation that runs where it is called, in units: about a millisecond.
pub const INLINE_WORK: u64 = 200_000;
/// The bytes of text that cost one unit of work.
pub const BYTES_PER_UNIT: usize = 8;
/// The memory of a list's item, in bytes.
pub const ITEM_MEMORY: usize = 32;
/// The memory of a map's entry beside its key, in bytes.
pub const ENTRY_MEMORY: usize = 96;

/// The units of work between two questions to the [`Interrupt`].
const INTERVAL: u64 = 100_000;

/// The limits of an evaluation, and the remainder of each.
pub struct Budget {
    work: Cell<u64>,
    memory: Cell<usize>,
    /// The remaining work at which the interrupt is asked next.
    next_check: Cell<u64>,
    limits: Limits,
    /// The first refusal. All that follows is refused for the same reason.
    exceeded: Cell<Option<Exceeded>>,
    interrupt: Option<Arc<dyn Interrupt>>,
}

/// The limits of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Units of work, as [`MAX_WORK`] has them.
    pub work: u64,
    /// Bytes allocated.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { work: MAX_WORK, memory: MAX_MEMORY }
    }
}

/// The owner of an evaluation, asked at regular intervals for a reason to end it.
pub trait Interrupt: Send + Sync {
    /// The reason to end the evaluation now; `None` to continue.
    fn check(&self) -> Option<Interruption>;
}

/// A reason to end an evaluation that is within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The time limit of the step or of the automation has passed.
    Timeout,
    /// The execution was cancelled.
    Cancelled,
    /// The daemon is stopping.
    Stopping,
}

/// The limit that ended an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The units of work.
    Work(u64),
    /// The bytes allocated.
    Memory(usize),
    /// The owner ended it.
    Interrupted(Interruption),
}

impl fmt::Display for Exceeded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(limit) => write!(formatter, "it takes more than {limit} units of work"),
            Self::Memory(limit) if *limit >= 1 << 20 => {
                write!(formatter, "it takes more than {} MiB of memory", limit >> 20)
            }
            Self::Memory(limit) => write!(formatter, "it takes more than {limit} bytes of memory"),
            Self::Interrupted(Interruption::Timeout) => formatter.write_str("its time limit has passed"),
            Self::Interrupted(Interruption::Cancelled) => formatter.write_str("the execution was cancelled"),
            Self::Interrupted(Interruption::Stopping) => formatter.write_str("the daemon is stopping"),
        }
    }
}

impl std::error::Error for Exceeded {}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Limits::default(), None)
    }
}

impl Budget {
    /// A budget of `limits`, which `interrupt` may end early.
    #[must_use]
    pub fn new(limits: Limits, interrupt: Option<Arc<dyn Interrupt>>) -> Self {
        Self {
            work: Cell::new(limits.work),
            memory: Cell::new(limits.memory),
            next_check: Cell::new(limits.work.saturating_sub(INTERVAL)),
            limits,
            exceeded: Cell::new(None),
            interrupt,
        }
    }

    /// The budget of an evaluation on a thread of the runtime: [`INLINE_WORK`] units.
    #[must_use]
    pub fn inline() -> Self {
        Self::new(Limits { work: INLINE_WORK, ..Limits::default() }, None)
    }

    /// The limits that it began with.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The units of work spent so far.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.limits.work - self.work.get()
    }

    /// The bytes that may still be allocated.
    #[must_use]
    pub fn memory_left(&self) -> usize {
        self.memory.get()
    }

    /// The limit that ended the evaluation, if one did.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }

    /// Charges `units` of work.
    ///
    /// # Errors
    /// The work is spent, or the interrupt ends the evaluation.
    pub fn work(&self, units: usize) -> Result<(), Exceeded> {
        let Some(left) = self.work.get().checked_sub(units as u64) else {
            return Err(self.refuse(Exceeded::Work(self.limits.work)));
        };
        self.work.set(left);
        if left <= self.next_check.get() { self.check() } else { Ok(()) }
    }

    /// Charges the work of reading `bytes` of text.
    ///
    /// # Errors
    /// As [`Budget::work`].
    pub fn read(&self, bytes: usize) -> Result<(), Exceeded> {
        self.work(bytes / BYTES_PER_UNIT + 1)
    }

    /// Charges an allocation of `bytes`, and the work of filling it.
    ///
    /// # Errors
    /// The memory or the work is spent, or the interrupt ends the evaluation.
    pub fn allocate(&self, bytes: usize) -> Result<(), Exceeded> {
        let Some(left) = self.memory.get().checked_sub(bytes) else {
            return Err(self.refuse(Exceeded::Memory(self.limits.memory)));
        };
        self.memory.set(left);
        self.read(bytes)
    }

    /// Charges a list of `items`, without what they hold.
    ///
    /// # Errors
    /// As [`Budget::allocate`].
    pub fn list(&self, items: usize) -> Result<(), Exceeded> {
        self.allocate(items.saturating_mul(ITEM_MEMORY))
    }

    #[cold]
    fn check(&self) -> Result<(), Exceeded> {
        self.next_check.set(self.work.get().saturating_sub(INTERVAL));
        match self.interrupt.as_ref().and_then(|interrupt| interrupt.check()) {
            Some(reason) => Err(self.refuse(Exceeded::Interrupted(reason))),
            None => Ok(()),
        }
    }

    /// Notes a refusal. A caller that goes on all the same is refused again at its next charge.
    #[cold]
    fn refuse(&self, reason: Exceeded) -> Exceeded {
        self.work.set(0);
        self.memory.set(0);
        self.exceeded.get().unwrap_or_else(|| {
            self.exceeded.set(Some(reason));
            reason
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Never;
    impl Interrupt for Never {
        fn check(&self) -> Option<Interruption> {
            None
        }
    }

    struct Always;
    impl Interrupt for Always {
        fn check(&self) -> Option<Interruption> {
            Some(Interruption::Timeout)
        }
    }

    #[test]
    fn work_over_the_limit_is_refused_and_so_is_all_that_follows() {
        let budget = Budget::new(Limits { work: 10, memory: 100 }, Some(Arc::new(Never)));
        assert_eq!(budget.work(10), Ok(()));
        assert_eq!(budget.spent(), 10);
        assert_eq!(budget.work(1), Err(Exceeded::Work(10)));
        let budget = Budget::new(Limits { work: 10, memory: 100 }, None);
        assert_eq!(budget.work(11), Err(Exceeded::Work(10)));
        assert_eq!(budget.allocate(1), Err(Exceeded::Work(10)));
        assert_eq!(budget.exceeded(), Some(Exceeded::Work(10)));
    }

    #[test]
    fn an_allocation_is_charged_as_memory_and_as_work() {
        let budget = Budget::new(Limits { work: 10, memory: 64 }, None);
        assert_eq!(budget.allocate(32), Ok(()));
        assert_eq!((budget.memory_left(), budget.spent()), (32, 5));
        assert_eq!(budget.list(2), Err(Exceeded::Memory(64)));
        assert_eq!(budget.allocate(1), Err(Exceeded::Memory(64)));
    }

    #[test]
    fn an_interrupt_is_asked_at_regular_intervals_and_ends_the_evaluation() {
        let budget = Budget::new(Limits::default(), Some(Arc::new(Always)));
        let calls = (0..10_000).find_map(|_| budget.work(100).err());
        assert_eq!(calls, Some(Exceeded::Interrupted(Interruption::Timeout)));
        assert_eq!(budget.work(1), Err(Exceeded::Interrupted(Interruption::Timeout)));
    }
}
