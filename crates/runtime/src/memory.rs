//! The memory of large values, over all executions: an execution takes its share of it before an evaluation that may make
//! a large value, and gives it back when the value is gone. One that finds no room waits.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of one permit of the semaphore.
const UNIT: usize = 1 << 10;

/// The room for large values.
pub struct Memory {
    room: Arc<Semaphore>,
    units: u32,
    /// The right to go on without room. One execution at a time has it, so that executions that hold a share and wait for
    /// more of it do not wait for one another forever.
    overdraft: Arc<Semaphore>,
}

/// The part of the room that an execution holds.
#[derive(Default)]
pub(crate) struct Share {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    room: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self { room: Arc::new(Semaphore::new(units as usize)), units, overdraft: Arc::new(Semaphore::new(1)) }
    }

    /// Grows or shrinks `share` to so many bytes. Growth waits for room, or for the right to go on without it.
    pub(crate) async fn resize(&self, share: &Share, bytes: usize) {
        let wanted = units(bytes).min(self.units);
        let missing = wanted.saturating_sub(share.shrink_to(wanted));
        if missing == 0 {
            return share.overdraw(None);
        }
        if share.is_overdrawn() {
            return;
        }
        // Neither semaphore is ever closed.
        tokio::select! {
            biased;
            room = self.room.clone().acquire_many_owned(missing) => share.add(room.ok()),
            overdraft = self.overdraft.clone().acquire_owned() => share.overdraw(overdraft.ok()),
        }
    }

    /// Grows or shrinks `share` without waiting: where there is no room, it stays smaller.
    pub(crate) fn resize_at_once(&self, share: &Share, bytes: usize) {
        let wanted = units(bytes).min(self.units);
        let missing = wanted.saturating_sub(share.shrink_to(wanted));
        if missing > 0 {
            share.add(self.room.clone().try_acquire_many_owned(missing).ok());
        }
    }
}

impl Share {
    /// Gives back what is more than `units`, and gives the units held.
    fn shrink_to(&self, units: u32) -> u32 {
        let mut held = self.held();
        if units == 0 {
            *held = Held::default();
            return 0;
        }
        let Some(room) = &mut held.room else { return 0 };
        let count = u32::try_from(room.num_permits()).unwrap_or(u32::MAX);
        if count > units {
            drop(room.split((count - units) as usize));
        }
        count.min(units)
    }

    fn add(&self, more: Option<OwnedSemaphorePermit>) {
        let mut held = self.held();
        match (&mut held.room, more) {
            (Some(room), Some(more)) => room.merge(more),
            (room @ None, more) => *room = more,
            (Some(_), None) => {}
        }
    }

    fn overdraw(&self, right: Option<OwnedSemaphorePermit>) {
        self.held().overdraft = right;
    }

    fn is_overdrawn(&self) -> bool {
        self.held().overdraft.is_some()
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        future.now_or_never().is_some()
    }

    #[test]
    fn a_share_that_shrinks_gives_its_room_to_others() {
        let (memory, one, other, third) =
            (Memory::new(64 << 10), Share::default(), Share::default(), Share::default());
        assert!(is_ready(memory.resize(&one, 60 << 10)));
        assert!(is_ready(memory.resize(&other, 60 << 10)), "one may go on without room");
        assert!(!is_ready(memory.resize(&third, 60 << 10)), "and only one");
        assert!(is_ready(memory.resize(&one, 2 << 10)));
        assert!(is_ready(memory.resize(&third, 60 << 10)));
        drop(other);
        assert!(is_ready(memory.resize(&one, 60 << 10)), "the right was given back");
    }

    #[test]
    fn an_execution_that_goes_on_without_room_does_not_wait_again() {
        let (memory, one, other) = (Memory::new(64 << 10), Share::default(), Share::default());
        assert!(is_ready(memory.resize(&one, 64 << 10)));
        assert!(is_ready(memory.resize(&other, 10 << 10)));
        assert!(is_ready(memory.resize(&other, 40 << 10)));
    }

    #[test]
    fn more_than_all_is_all() {
        let (memory, one) = (Memory::new(64 << 10), Share::default());
        assert!(is_ready(memory.resize(&one, 1 << 30)));
        assert!(is_ready(memory.resize(&one, 0)));
        assert_eq!(memory.room.available_permits(), 64);
    }

    #[test]
    fn a_share_that_cannot_wait_stays_smaller() {
        let (memory, one, other) = (Memory::new(64 << 10), Share::default(), Share::default());
        memory.resize_at_once(&one, 60 << 10);
        memory.resize_at_once(&other, 60 << 10);
        assert_eq!(memory.room.available_permits(), 4);
        drop(one);
        assert_eq!(memory.room.available_permits(), 64);
    }
}
