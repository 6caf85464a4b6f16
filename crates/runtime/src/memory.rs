//! Bounds the memory of large values over all executions. An execution reserves a share before an evaluation that may make
//! a large value, and releases it when the value is gone. An execution that finds no room waits.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of one permit of the semaphore.
const UNIT: usize = 1 << 10;

/// The memory for the large values of all executions.
pub(crate) struct Memory {
    room: Arc<Semaphore>,
    units: u32,
    /// The right to exceed the memory, reservation by one execution at a time. It prevents a deadlock of executions that each hold
    /// a share and wait for more.
    overdraft: Arc<Semaphore>,
}

/// The part of the memory that an execution has reserved.
#[derive(Default)]
pub(crate) struct Share {
    reservation: Mutex<Reservation>,
}

#[derive(Default)]
struct Reservation {
    room: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// Creates a budget of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self { room: Arc::new(Semaphore::new(units as usize)), units, overdraft: Arc::new(Semaphore::new(1)) }
    }

    /// Grows or shrinks `share` to so many bytes. Growth waits for room, or for the right to exceed the memory.
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

    /// Grows or shrinks `share` without waiting. If there is no room, the share stays smaller.
    pub(crate) fn resize_at_once(&self, share: &Share, bytes: usize) {
        let wanted = units(bytes).min(self.units);
        let missing = wanted.saturating_sub(share.shrink_to(wanted));
        if missing > 0 {
            share.add(self.room.clone().try_acquire_many_owned(missing).ok());
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl Share {
    /// Releases the permits above `units` and returns the number that remains.
    fn shrink_to(&self, units: u32) -> u32 {
        let mut reservation = self.reservation();
        let held = reservation.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let released = held.saturating_sub(units as usize);
        if units == 0 {
            *reservation = Reservation::default();
        } else if let Some(room) = &mut reservation.room {
            drop(room.split(released));
        }
        allocator::note_freed(released * UNIT);
        u32::try_from(held - released).unwrap_or(u32::MAX)
    }

    fn add(&self, more: Option<OwnedSemaphorePermit>) {
        let mut reservation = self.reservation();
        match (&mut reservation.room, more) {
            (Some(room), Some(more)) => room.merge(more),
            (room @ None, more) => *room = more,
            (Some(_), None) => {}
        }
    }

    fn overdraw(&self, right: Option<OwnedSemaphorePermit>) {
        self.reservation().overdraft = right;
    }

    fn is_overdrawn(&self) -> bool {
        self.reservation().overdraft.is_some()
    }

    fn reservation(&self) -> std::sync::MutexGuard<'_, Reservation> {
        self.reservation.lock().unwrap_or_else(PoisonError::into_inner)
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
