//! Bounds the memory of large values over all executions. An execution reserves a share before it runs, if the data of its trigger
//! are large, and before an evaluation that may make a large value. It releases the share when the values are gone. An execution
//! waits if the memory is taken, and so do calls that load files and other short loads of large data.

use std::sync::{Arc, Mutex, PoisonError};

use model::payload::{EmittedEvent, Payload};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use value::{Reserved, Value};

use crate::api::StartedBy;

/// The bytes of one permit of the semaphore.
const UNIT: usize = 1 << 10;

/// The memory from which on a value is large, in bytes.
pub(crate) const LARGE_VALUE: usize = 256 << 10;
/// The length of a body, in bytes, below which its values are not large: a value takes up to some 25 times its length.
pub(crate) const SMALL_BODY: usize = 10 << 10;

/// The memory for the data of a trigger, in bytes; 0 if they are small. `results` is `trigger.results`, if the payload has been
/// parsed already.
pub(crate) fn trigger_memory(payload: &Payload, by: &StartedBy, results: Option<&Value>) -> usize {
    // Inputs are parts of the payload, or computed from it.
    let inputs =
        by.inputs.as_ref().map_or(0, |inputs| inputs.iter().map(|(_, value)| value.estimated_memory()).sum());
    let memory = inputs
        + match payload {
            Payload::Webhook(request) if request.body.data.len() < SMALL_BODY => 0,
            Payload::Webhook(request) => {
                let body = request.body.data.in_memory().map_or(0, |bytes| bytes.len());
                body + results.map_or(0, Value::estimated_memory)
            }
            Payload::Poll { data, .. } | Payload::Emitted(EmittedEvent { data, .. }) => {
                data.estimated_memory()
            }
            Payload::Manual { .. } | Payload::Schedule { .. } => 0,
        };
    if memory < LARGE_VALUE { 0 } else { memory }
}

/// The memory for the large values of all executions.
pub(crate) struct Memory {
    room: Arc<Semaphore>,
    units: u32,
    /// The right to exceed the memory, reservation by one execution at a time. It prevents a deadlock of executions that each hold
    /// a share and wait for more.
    overdraft: Arc<Semaphore>,
    /// The right to load files without room, one at a time. Its holder waits for no other reservation, so each wait for
    /// it ends.
    load_overdraft: Arc<Semaphore>,
}

/// Memory of loaded files.
struct LoadedShare {
    bytes: usize,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for LoadedShare {
    fn drop(&mut self) {
        allocator::note_freed(self.bytes);
    }
}

/// The part of the memory that an execution has reserved.
#[derive(Default)]
pub struct Share {
    reservation: Mutex<Reservation>,
    /// Wakes those who wait until it exceeds the memory.
    overdrawing: Notify,
}

#[derive(Default)]
struct Reservation {
    room: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// Creates a budget of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        let one = || Arc::new(Semaphore::new(1));
        let (overdraft, load_overdraft) = (one(), one());
        Self { room: Arc::new(Semaphore::new(units as usize)), units, overdraft, load_overdraft }
    }

    /// Reserves memory for files that are about to be loaded, and frees it with them. Waits for room, after all who wait
    /// already, or for the right to exceed the memory. More than all is all.
    pub(crate) async fn reserve_to_load(&self, bytes: usize) -> Reserved {
        if bytes == 0 {
            return Reserved::nothing();
        }
        // Neither semaphore is ever closed.
        let permit = tokio::select! {
            biased;
            room = self.room.clone().acquire_many_owned(units(bytes).min(self.units)) => room.ok(),
            overdraft = self.load_overdraft.clone().acquire_owned() => overdraft.ok(),
        };
        Reserved::new(bytes, LoadedShare { bytes, _permit: permit })
    }

    /// Grows or shrinks `share` to `bytes` bytes. Growth waits for room, or for the right to exceed the memory.
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

    /// Reserves `bytes` bytes for an empty `share`, if there is room. More than all is all.
    pub(crate) fn try_reserve(&self, share: &Share, bytes: usize) -> bool {
        let room = self.room.clone().try_acquire_many_owned(units(bytes).min(self.units));
        let has_room = room.is_ok();
        share.add(room.ok());
        has_room
    }

    /// Reserves `bytes` bytes for an empty `share`, after all who wait already. More than all is all.
    pub(crate) async fn reserve(&self, share: &Share, bytes: usize) {
        // The semaphore is never closed.
        let room = self.room.clone().acquire_many_owned(units(bytes).min(self.units)).await;
        share.add(room.ok());
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
        let is_overdrawn = right.is_some();
        self.reservation().overdraft = right;
        if is_overdrawn {
            self.overdrawing.notify_waiters();
        }
    }

    /// Waits until the share has the right to exceed the memory.
    pub(crate) async fn overdrawn(&self) {
        loop {
            let overdrawing = self.overdrawing.notified();
            if self.is_overdrawn() {
                return;
            }
            overdrawing.await;
        }
    }

    /// Releases all of it.
    pub(crate) fn release(&self) {
        self.shrink_to(0);
    }

    /// True if it has any memory.
    pub(crate) fn is_reserved(&self) -> bool {
        let reservation = self.reservation();
        reservation.room.is_some() || reservation.overdraft.is_some()
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
    fn a_shrinking_share_frees_memory_for_others() {
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
    fn an_execution_over_the_budget_does_not_wait_again() {
        let (memory, one, other) = (Memory::new(64 << 10), Share::default(), Share::default());
        assert!(is_ready(memory.resize(&one, 64 << 10)));
        assert!(is_ready(memory.resize(&other, 10 << 10)));
        assert!(is_ready(memory.resize(&other, 40 << 10)));
    }

    #[test]
    fn a_reservation_is_capped_at_the_whole_budget() {
        let (memory, one) = (Memory::new(64 << 10), Share::default());
        assert!(is_ready(memory.resize(&one, 1 << 30)));
        assert!(is_ready(memory.resize(&one, 0)));
        assert_eq!(memory.room.available_permits(), 64);
    }

    #[test]
    fn trigger_memory_is_reserved_in_order_and_capped_at_the_budget() {
        let (memory, one, other, third) =
            (Memory::new(64 << 10), Share::default(), Share::default(), Share::default());
        assert!(memory.try_reserve(&one, 1 << 30) && one.is_reserved());
        assert!(!memory.try_reserve(&other, 1 << 10) && !other.is_reserved());
        let mut waiting = Box::pin(memory.reserve(&other, 60 << 10));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(one);
        assert!(!memory.try_reserve(&third, 60 << 10), "the one that waits comes first");
        assert!(waiting.now_or_never().is_some() && other.is_reserved());
    }

    #[test]
    fn trigger_data_counts_from_256_kib_on() {
        let data = |items: usize| Value::from((0..items).map(|_| Value::from(true)).collect::<Vec<_>>());
        let poll = |items| Payload::Poll { data: data(items), polled_at: jiff::Timestamp::UNIX_EPOCH };
        assert_eq!(trigger_memory(&poll(8_000), &StartedBy::default(), None), 0);
        assert_eq!(trigger_memory(&poll(10_000), &StartedBy::default(), None), 320_000);
    }

    #[test]
    fn loading_a_file_reserves_memory_until_its_bytes_are_dropped() {
        let memory = Memory::new(64 << 10);
        let reserve = |bytes| memory.reserve_to_load(bytes).now_or_never();
        let first = reserve(60 << 10).expect("there is room");
        let second = reserve(60 << 10).expect("one exceeds the memory");
        assert!(reserve(60 << 10).is_none(), "and only one");
        assert!(reserve(4 << 10).is_some() && reserve(0).is_some());
        drop(second);
        assert!(reserve(60 << 10).is_some());
        drop(first);
        assert_eq!(memory.room.available_permits(), 64);
    }

    #[test]
    fn a_share_that_cannot_wait_takes_only_free_memory() {
        let (memory, one, other) = (Memory::new(64 << 10), Share::default(), Share::default());
        memory.resize_at_once(&one, 60 << 10);
        memory.resize_at_once(&other, 60 << 10);
        assert_eq!(memory.room.available_permits(), 4);
        drop(one);
        assert_eq!(memory.room.available_permits(), 64);
    }
}
