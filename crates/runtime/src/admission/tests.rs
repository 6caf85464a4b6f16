//! The rules of the execution table, without any run.

use std::time::Duration;

use jiff::SignedDuration;
use model::automation::AutomationId;
use model::execution::{DelayReason, Event, ExecutionId, Origin};

use super::backlog::Lane;
use super::table::{Ahead, Cancel, Claim, ExecutionState, ExecutionTable, Queued, Suspended};
use crate::clock::{Clock, ManualClock};
use crate::run::{ReplaySource, Wake};

fn id(number: u8) -> ExecutionId {
    ExecutionId::from_bytes([number; 16])
}

fn clock() -> ManualClock {
    ManualClock::new("2026-03-02T08:00:00Z".parse().expect("an instant"))
}

fn queued(clock: &ManualClock) -> Queued {
    Queued::new(SignedDuration::ZERO, clock.monotonic_now())
}

fn suspended(clock: &ManualClock) -> Suspended {
    let wake = Wake { at: None, after: Some(clock.monotonic_now().after(Duration::from_secs(9))) };
    Suspended { wake, wall_offset: SignedDuration::ZERO, keeps_permit: false }
}

#[test]
fn a_claimed_execution_keeps_its_position_in_the_backlog() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    table.enqueue(id(1), queued(&clock));
    table.enqueue(id(2), queued(&clock));
    let Claim::Queued(first) = table.claim(id(1)) else { panic!("it is queued") };
    assert!(table.claim_next(Lane::Slot, &clock).is_none(), "no later one is dispatched before it");
    assert!(matches!(table.claim(id(1)), Claim::Unavailable), "one task claims it");
    table.release(id(1), ExecutionState::Queued(first), clock.monotonic_now());
    assert_eq!(table.claim_next(Lane::Slot, &clock).map(|(next, _)| next), Some(id(1)));
    assert_eq!(table.claim_next(Lane::Slot, &clock).map(|(next, _)| next), Some(id(2)));
}

#[test]
fn executions_that_wait_for_memory_block_none_that_wait_for_a_slot() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    for number in [1, 2] {
        table.enqueue(id(number), Queued { memory: 1 << 20, ..queued(&clock) });
    }
    table.enqueue(id(3), queued(&clock));
    assert_eq!((table.backlog_len(), table.waiting_count(Lane::Slot)), (3, 1));
    let waits = table.queue_status(id(2)).expect("it is queued");
    assert_eq!((waits.queued_behind, waits.for_memory), (Some(1), true));
    assert_eq!(table.claim_next(Lane::Slot, &clock).map(|(next, _)| next), Some(id(3)));
    assert!(table.claim_next(Lane::Slot, &clock).is_none());
    clock.advance(Duration::from_secs(2));
    let (first, queued) = table.claim_next(Lane::Memory, &clock).expect("it is queued");
    assert_eq!(first, id(1));
    assert!(matches!(&queued.notes[..], [Event::Waited { reason: DelayReason::Memory, .. }]), "{queued:?}");
    assert!(matches!(table.cancel(id(2), "no longer wanted", &clock), Cancel::Claimed(_)));
    assert_eq!(table.backlog_len(), 0);
}

#[test]
fn a_wait_for_a_slot_is_recorded_when_it_ends() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    table.enqueue(id(1), queued(&clock));
    clock.advance(Duration::from_millis(99));
    table.enqueue(id(2), queued(&clock));
    clock.advance(Duration::from_millis(1));
    let (_, first) = table.claim_next(Lane::Slot, &clock).expect("it is queued");
    assert!(matches!(first.notes.as_slice(), [Event::Waited { reason: DelayReason::Slot, ms: 100, .. }]));
    let (_, second) = table.claim_next(Lane::Slot, &clock).expect("it is queued");
    assert_eq!(second.notes, [], "a short wait is not noted");
}

#[test]
fn a_cancellation_during_a_claim_is_left_to_the_claimant() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    table.suspend(id(1), suspended(&clock));
    let Claim::Suspended(claimed) = table.claim(id(1)) else { panic!("it is suspended") };
    assert!(matches!(table.cancel(id(1), "why", &clock), Cancel::Requested));
    let reason = table.release(id(1), ExecutionState::Suspended(claimed), clock.monotonic_now());
    assert_eq!(reason.as_deref(), Some("why"));
    assert!(matches!(table.cancel(id(2), "why", &clock), Cancel::Unknown));
}

#[test]
fn an_execution_woken_during_a_claim_is_queued_afterwards() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    table.suspend(id(1), suspended(&clock));
    let Claim::Suspended(claimed) = table.claim(id(1)) else { panic!("it is suspended") };
    assert!(!table.wake(id(1), clock.monotonic_now()));
    table.release(id(1), ExecutionState::Suspended(claimed), clock.monotonic_now());
    assert_eq!((table.suspended_count(), table.backlog_len()), (0, 1));
}

#[test]
fn only_a_suspended_execution_has_timers() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    table.suspend(id(1), suspended(&clock));
    assert!(table.next_wake().after.is_some());
    let Claim::Suspended(claimed) = table.claim(id(1)) else { panic!("it is suspended") };
    assert_eq!((table.next_wake(), table.suspended_count()), (Wake::default(), 0));
    table.release(id(1), ExecutionState::Suspended(claimed), clock.monotonic_now());
    table.wake_due(clock.now(), clock.monotonic_now().after(Duration::from_secs(9)));
    assert_eq!((table.next_wake(), table.backlog_len()), (Wake::default(), 1));
}

#[test]
fn the_oldest_movable_execution_leaves_first_and_returns_to_its_position() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    let movable = || queued(&clock).movable(&Origin::Manual, false);
    table.enqueue(id(1), queued(&clock).movable(&Origin::Manual, true));
    (2..=4).for_each(|number| table.enqueue(id(number), movable()));
    assert_eq!(table.movable_count(), 3);
    let leaving = table.begin_leaving(2);
    assert_eq!(leaving.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(2), id(3)]);
    assert_eq!((table.movable_count(), table.backlog_len()), (1, 2));
    assert!(table.is_leaving(id(2)) && !table.is_leaving(id(4)));
    assert!(matches!(table.cancel(id(2), "why", &clock), Cancel::Requested));
    let [second, third] = leaving.try_into().expect("two");
    assert_eq!(table.end_leaving(third.0, Some(third.1)), None);
    assert_eq!(table.end_leaving(second.0, None).as_deref(), Some("why"), "it is cancelled where it is now");
    assert!(!table.has(id(2)));
    let order: Vec<_> =
        std::iter::from_fn(|| table.claim_next(Lane::Slot, &clock).map(|(id, _)| id)).collect();
    assert_eq!(order, [id(3), id(1), id(4)]);
    assert_eq!(table.movable_count(), 0);
}

#[test]
fn scheduled_and_gated_executions_do_not_move() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    let scheduled = Origin::Schedule { instant: clock.now() };
    table.enqueue(id(1), queued(&clock).movable(&scheduled, false));
    table.enqueue(id(2), queued(&clock).movable(&Origin::Webhook, true));
    assert!(table.begin_leaving(9).is_empty());
    assert_eq!(table.backlog_len(), 2);
}

/// Pauses an execution for 9 seconds, since the store has refused a write of it.
fn pause(table: &mut ExecutionTable, clock: &ManualClock, number: u8) {
    let until = clock.monotonic_now().after(Duration::from_secs(9));
    let queued = Queued { source: ReplaySource::AnotherProcess, ..queued(clock) };
    table.park(id(number), ExecutionState::Paused { until, queued: Box::new(queued) }, None);
}

#[test]
fn an_execution_with_a_refused_write_pauses_outside_the_backlog() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    pause(&mut table, &clock, 1);
    table.enqueue(id(2), queued(&clock));
    assert_eq!(
        table.claim_next(Lane::Slot, &clock).map(|(next, _)| next),
        Some(id(2)),
        "others get the slot"
    );
    assert_eq!((table.backlog_len(), table.is_parked(id(1))), (0, true));
    let end = table.next_wake().after.expect("a timer");
    table.wake_due(clock.now(), clock.monotonic_now());
    assert_eq!(table.backlog_len(), 0, "the pause goes on");
    table.wake_due(clock.now(), end);
    let (next, queued) = table.claim_next(Lane::Slot, &clock).expect("the pause is over");
    assert_eq!((next, queued.source), (id(1), ReplaySource::AnotherProcess));
    assert_eq!(table.next_wake(), Wake::default());
}

#[test]
fn a_cancellation_or_a_signal_ends_the_pause_after_a_refused_write() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    pause(&mut table, &clock, 1);
    pause(&mut table, &clock, 2);
    assert!(matches!(table.cancel(id(1), "why", &clock), Cancel::Claimed(_)));
    let Claim::Queued(claimed) = table.claim(id(2)) else { panic!("it is paused") };
    table.release(id(2), ExecutionState::Queued(claimed), clock.monotonic_now());
    assert_eq!((table.backlog_len(), table.next_wake()), (1, Wake::default()));
}

#[test]
fn an_execution_behind_a_recovered_one_that_is_being_loaded_is_held_until_that_asks_for_its_permit() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    let limited = AutomationId::parse("limited").expect("an id");
    table.recover_first(&limited, id(1), true);
    table.recover_first(&limited, id(2), false);
    table.enqueue_first(id(1), queued(&clock));
    table.enqueue(id(2), queued(&clock));
    let dispatched = |table: &mut ExecutionTable| table.claim_next(Lane::Slot, &clock).map(|(next, _)| next);
    // The first is cancelled, and so loaded out of turn.
    assert!(matches!(table.cancel(id(1), "no longer wanted", &clock), Cancel::Claimed(_)));
    assert_eq!(dispatched(&mut table), Some(id(2)));
    for number in [2, 3] {
        let ahead = table.take_recovered(&limited, id(number));
        assert_eq!(ahead, if number == 2 { Ahead::Begun } else { Ahead::All });
        assert!(table.has_ahead(&limited, ahead));
        table.park(id(number), ExecutionState::Queued(queued(&clock)), None);
        table.hold(&limited, id(number), ahead);
        assert!(table.queue_status(id(number)).is_some(), "it shows that it waits");
    }
    assert_eq!((dispatched(&mut table), table.backlog_len()), (None, 2));
    assert_eq!(table.take_recovered(&limited, id(1)), Ahead::Nobody);
    assert_eq!(dispatched(&mut table), Some(id(2)));
    assert_eq!(table.take_recovered(&limited, id(2)), Ahead::Nobody);
    assert_eq!(dispatched(&mut table), Some(id(3)));
    assert_eq!(table.take_recovered(&limited, id(3)), Ahead::Nobody);
}

#[test]
fn held_executions_are_dispatched_before_younger_ones_in_the_backlog() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    let limited = AutomationId::parse("limited").expect("an id");
    for number in [1, 2, 3] {
        table.recover_first(&limited, id(number), number == 1);
        table.enqueue(id(number), queued(&clock));
    }
    let dispatched = |table: &mut ExecutionTable| table.claim_next(Lane::Slot, &clock).map(|(next, _)| next);
    // The first is being loaded while the next ones ask for their permits.
    for number in [1, 2, 3] {
        assert_eq!(dispatched(&mut table), Some(id(number)));
    }
    for number in [2, 3] {
        let ahead = table.take_recovered(&limited, id(number));
        table.park(id(number), ExecutionState::Queued(queued(&clock)), None);
        table.hold(&limited, id(number), ahead);
    }
    table.enqueue(id(4), queued(&clock));
    assert_eq!(table.take_recovered(&limited, id(1)), Ahead::Nobody);
    assert_eq!([(); 3].map(|()| dispatched(&mut table)), [2, 3, 4].map(|number| Some(id(number))));
}

#[test]
fn an_execution_behind_a_recovered_one_that_cannot_be_read_back_is_dispatched() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    let limited = AutomationId::parse("limited").expect("an id");
    table.recover_first(&limited, id(1), true);
    table.enqueue(id(1), queued(&clock));
    assert!(table.claim_next(Lane::Slot, &clock).is_some());
    let ahead = table.take_recovered(&limited, id(2));
    table.park(id(2), ExecutionState::Queued(queued(&clock)), None);
    table.hold(&limited, id(2), ahead);
    assert!(table.claim_next(Lane::Slot, &clock).is_none());
    table.give_up(id(1), &clock);
    assert_eq!(table.claim_next(Lane::Slot, &clock).map(|(next, _)| next), Some(id(2)));
}

#[test]
fn a_newer_execution_joins_the_backlog_behind_recovered_ones_that_are_queued() {
    let (clock, mut table) = (clock(), ExecutionTable::default());
    let limited = AutomationId::parse("limited").expect("an id");
    table.recover_first(&limited, id(1), false);
    table.enqueue(id(1), queued(&clock));
    let ahead = table.take_recovered(&limited, id(2));
    table.park(id(2), ExecutionState::Queued(queued(&clock)), None);
    table.hold(&limited, id(2), ahead);
    let dispatched = [(); 2].map(|()| table.claim_next(Lane::Slot, &clock).map(|(next, _)| next));
    assert_eq!(dispatched, [Some(id(1)), Some(id(2))]);
}
