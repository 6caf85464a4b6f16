//! A model of the protocol between the nodes of a store on PostgreSQL. Each test explores every state that three nodes and two
//! executions can reach, or enough of them to find a violation of a rule.

mod database;
mod protocol;
mod rules;

use protocol::Protocol;
use rules::{LIMITED, ONCE, OWNED, RULES};
use stateright::{Checker, HasDiscoveries, Model};

/// The unmodified protocol, without crashes: any process can be declared dead.
const PLAIN: Protocol =
    Protocol { gated: [false, false], letter: false, fence: true, holds_back: true, crashes: 0 };

/// Explores all states, and requires that they keep all rules.
fn holds(protocol: Protocol) {
    let checker = protocol.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
}

/// Explores states until each of these rules is violated, and requires that no other one is.
fn breaks(protocol: Protocol, broken: &'static [&'static str]) {
    let found = HasDiscoveries::AllOf(broken.iter().copied().collect());
    let checker = protocol.checker().threads(2).finish_when(found).spawn_bfs().join();
    let discovered: Vec<&str> = RULES.into_iter().filter(|rule| checker.discovery(rule).is_some()).collect();
    assert_eq!(discovered, broken);
}

#[test]
fn executions_are_accepted_once_and_continue_on_another_node() {
    holds(Protocol { crashes: 1, ..PLAIN });
}

#[test]
fn gated_executions_keep_their_limit_while_their_shard_moves() {
    holds(Protocol { gated: [true, true], ..PLAIN });
}

#[test]
fn a_processed_letter_is_in_the_log_exactly_once() {
    holds(Protocol { letter: true, ..PLAIN });
}

#[test]
fn without_the_fence_executions_are_lost_and_run_twice() {
    breaks(Protocol { fence: false, ..PLAIN }, &[ONCE, OWNED]);
}

#[test]
fn without_waiting_for_its_shard_a_gated_execution_breaks_the_limit() {
    breaks(Protocol { gated: [true, true], holds_back: false, ..PLAIN }, &[LIMITED]);
}
