//! The budget of an evaluation: the work and the memory that expressions, templates, JSONPath queries and JSON Schemas may
//! spend on data from outside.
//!
//! Every operation charges the budget by the size of its operands *before* it allocates or loops. One that cannot pay
//! fails with [`Exceeded`], so an evaluation ends within its limits for any data. A budget also checks its stop
//! flag at regular intervals, so that a time limit or a cancellation ends an evaluation that is within its limits.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The work of one evaluation, in units. A unit is one value visited, one comparison, or [`BYTES_PER_UNIT`] bytes of text
/// read or written: between one and some ten nanoseconds.
pub const MAX_WORK: u64 = 50_000_000;
/// The bytes that one evaluation may allocate, all its intermediate values together.
pub const MAX_MEMORY: usize = 32 << 20;
/// The work of an evaluation on the calling thread, in units: about a millisecond.
pub const INLINE_WORK: u64 = 200_000;
/// The bytes of text that cost one unit of work.
pub const BYTES_PER_UNIT: usize = 8;
/// The memory of a list's item, in bytes.
pub const ITEM_MEMORY: usize = 32;
/// The memory of a map's entry without its key, in bytes.
pub const ENTRY_MEMORY: usize = 96;

/// Interval between two checks of the stop flag, in units of work.
const STOP_CHECK_INTERVAL: u64 = 100_000;

/// The limits of an evaluation, and the remainder of each.
pub struct Budget {
    work: Cell<u64>,
    memory: Cell<usize>,
    /// The remaining work at which the budget next checks the stop flag.
    next_check: Cell<u64>,
    limits: Limits,
    /// The first limit exceeded; every later charge fails with the same reason.
    exceeded: Cell<Option<Exceeded>>,
    stop: Option<Arc<AtomicBool>>,
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

/// The limit that an evaluation exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The units of work.
    Work(u64),
    /// The bytes allocated.
    Memory(usize),
    /// The stop flag was set: the caller no longer waits for the value.
    Stopped,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(limit) => write!(formatter, "it takes more than {limit} units of work"),
            Self::Memory(limit) if *limit >= 1 << 20 => {
                write!(formatter, "it takes more than {} MiB of memory", limit >> 20)
            }
            Self::Memory(limit) => write!(formatter, "it takes more than {limit} bytes of memory"),
            Self::Stopped => formatter.write_str("it was stopped"),
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
    /// Creates a budget with `limits`. Setting `stop` ends the evaluation early.
    #[must_use]
    pub fn new(limits: Limits, stop: Option<Arc<AtomicBool>>) -> Self {
        Self {
            work: Cell::new(limits.work),
            memory: Cell::new(limits.memory),
            next_check: Cell::new(limits.work.saturating_sub(STOP_CHECK_INTERVAL)),
            limits,
            exceeded: Cell::new(None),
            stop,
        }
    }

    /// Creates a budget of [`INLINE_WORK`] units, for an evaluation on a thread of the runtime.
    #[must_use]
    pub fn inline() -> Self {
        Self::new(Limits { work: INLINE_WORK, ..Limits::default() }, None)
    }

    /// True if the evaluation exceeded only the work of an [inline](Budget::inline) budget; a full budget may be enough.
    #[must_use]
    pub fn exceeded_inline_work(&self) -> bool {
        self.exceeded() == Some(Exceeded::Work(INLINE_WORK))
    }

    /// The bytes allocated so far.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.limits.memory - self.memory.get()
    }

    /// The initial limits.
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

    /// The limit that ended the evaluation; `None` if it is within its limits.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }

    /// Charges `units` of work.
    ///
    /// # Errors
    /// Returns an error if the work is spent or the stop flag is set.
    pub fn charge(&self, units: usize) -> Result<(), Exceeded> {
        let Some(left) = self.work.get().checked_sub(units as u64) else {
            return Err(self.refuse(Exceeded::Work(self.limits.work)));
        };
        self.work.set(left);
        if left <= self.next_check.get() { self.check() } else { Ok(()) }
    }

    /// Charges the work of reading `bytes` of text.
    ///
    /// # Errors
    /// As [`Budget::charge`].
    pub fn charge_text(&self, bytes: usize) -> Result<(), Exceeded> {
        self.charge(bytes / BYTES_PER_UNIT + 1)
    }

    /// Charges an allocation of `bytes`, and the work of filling it.
    ///
    /// # Errors
    /// Returns an error if the memory or the work is spent, or the stop flag is set.
    pub fn allocate(&self, bytes: usize) -> Result<(), Exceeded> {
        let Some(left) = self.memory.get().checked_sub(bytes) else {
            return Err(self.refuse(Exceeded::Memory(self.limits.memory)));
        };
        self.memory.set(left);
        self.charge_text(bytes)
    }

    /// Charges the allocation of a list of `items`, without the memory of the items' own data.
    ///
    /// # Errors
    /// As [`Budget::allocate`].
    pub fn allocate_list(&self, items: usize) -> Result<(), Exceeded> {
        self.allocate(items.saturating_mul(ITEM_MEMORY))
    }

    #[cold]
    fn check(&self) -> Result<(), Exceeded> {
        self.next_check.set(self.work.get().saturating_sub(STOP_CHECK_INTERVAL));
        match &self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(self.refuse(Exceeded::Stopped)),
            _ => Ok(()),
        }
    }

    /// Records the first exceeded limit and zeroes both remainders, so that every later charge fails too.
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

    #[test]
    fn work_over_the_limit_is_rejected_and_so_is_all_further_work() {
        let budget = Budget::new(Limits { work: 10, memory: 100 }, Some(Arc::default()));
        assert_eq!(budget.charge(10), Ok(()));
        assert_eq!(budget.spent(), 10);
        assert_eq!(budget.charge(1), Err(Exceeded::Work(10)));
        let budget = Budget::new(Limits { work: 10, memory: 100 }, None);
        assert_eq!(budget.charge(11), Err(Exceeded::Work(10)));
        assert_eq!(budget.allocate(1), Err(Exceeded::Work(10)));
        assert_eq!(budget.exceeded(), Some(Exceeded::Work(10)));
    }

    #[test]
    fn an_allocation_is_charged_as_memory_and_as_work() {
        let budget = Budget::new(Limits { work: 10, memory: 64 }, None);
        assert_eq!(budget.allocate(32), Ok(()));
        assert_eq!((budget.memory_left(), budget.spent()), (32, 5));
        assert_eq!(budget.allocate_list(2), Err(Exceeded::Memory(64)));
        assert_eq!(budget.allocate(1), Err(Exceeded::Memory(64)));
    }

    #[test]
    fn the_stop_flag_ends_an_evaluation_within_its_limits() {
        let stop = Arc::new(AtomicBool::new(false));
        let budget = Budget::new(Limits::default(), Some(stop.clone()));
        assert_eq!(budget.charge(1_000_000), Ok(()));
        stop.store(true, Ordering::Relaxed);
        let refused = (0..10_000).find_map(|_| budget.charge(100).err());
        assert_eq!(refused, Some(Exceeded::Stopped));
        assert_eq!(budget.charge(1), Err(Exceeded::Stopped));
    }

    #[test]
    fn full_and_inline_budgets_have_the_documented_limits() {
        let whole = Budget::default();
        let units = |units: u64| usize::try_from(units).expect("it fits");
        assert_eq!(
            (whole.charge(units(MAX_WORK)), whole.charge(1)),
            (Ok(()), Err(Exceeded::Work(50_000_000)))
        );
        assert_eq!(Budget::default().allocate(MAX_MEMORY), Ok(()));
        assert_eq!(Budget::default().allocate(MAX_MEMORY + 1), Err(Exceeded::Memory(32 << 20)));
        let inline = Budget::inline();
        assert_eq!(inline.charge(units(INLINE_WORK)), Ok(()));
        assert!(!inline.exceeded_inline_work());
        assert_eq!(inline.charge(1), Err(Exceeded::Work(200_000)));
        assert!(inline.exceeded_inline_work());
    }
}
