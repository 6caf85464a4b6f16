//! The rules that every state keeps, and the events that some states must show, so that the rules are about something.

use stateright::Property;

use crate::database::{EXECUTIONS, Membership, Node, Rows};
use crate::protocol::{Protocol, State};

pub(crate) const STORED: &str = "an acknowledged execution is stored";
pub(crate) const ONCE: &str = "an execution is accepted, begun and ended once";
pub(crate) const OWNED: &str = "the owner of an unfinished execution is a node that can be found dead";
pub(crate) const IN_PLACE: &str = "a gated execution is where its shard is";
pub(crate) const LIMITED: &str = "no more executions have begun than the limit allows";
pub(crate) const TAKEN: &str = "a letter that was taken is in the log once";
pub(crate) const RULES: [&str; 6] = [STORED, ONCE, OWNED, IN_PLACE, LIMITED, TAKEN];

/// Returns the rules, and the events that must be possible.
pub(crate) fn rules() -> Vec<Property<Protocol>> {
    vec![
        Property::always(STORED, |_, state: &State| {
            let rows = state.database.executions.iter().zip(state.acknowledged);
            rows.into_iter().all(|(rows, acknowledged)| !acknowledged || rows.accepted > 0)
        }),
        Property::always(ONCE, |_, state: &State| {
            let once = |rows: &Rows| rows.accepted <= 1 && rows.begun <= 1 && rows.ended <= 1;
            state.database.executions.iter().all(once)
        }),
        Property::always(OWNED, |_, state: &State| {
            let owners = state.database.executions.iter().map(|rows| rows.live.and_then(|live| live.owner));
            let is_known = |owner: Node| state.database.nodes[owner] != Membership::Forgotten;
            owners.chain([state.database.shard]).flatten().all(is_known)
        }),
        Property::always(IN_PLACE, |protocol: &Protocol, state: &State| {
            let shard = state.database.shard;
            let is_there = |rows: &Rows| rows.live.is_none_or(|live| live.owner == shard);
            state.database.executions.iter().zip(protocol.gated).all(|(rows, gated)| !gated || is_there(rows))
        }),
        Property::always(LIMITED, |protocol: &Protocol, state: &State| {
            let rows = state.database.executions.iter().zip(protocol.gated);
            rows.filter(|(rows, gated)| *gated && rows.live.is_some() && rows.begun > 0).count() <= 1
        }),
        Property::always(TAKEN, |_, state: &State| {
            let signals = state.database.executions[0].signals;
            signals <= 1 && (!state.taken || signals == 1)
        }),
        Property::sometimes("all executions end", |_, state: &State| {
            state.database.executions.iter().filter(|rows| rows.ended == 1).count() == EXECUTIONS
        }),
        Property::sometimes("an execution of a forgotten node ends elsewhere", |_, state: &State| {
            state.database.nodes[0] == Membership::Forgotten && state.database.executions[0].ended == 1
        }),
        Property::sometimes(
            "a letter is taken after the first owner died",
            |protocol: &Protocol, state: &State| {
                !protocol.letter || (state.taken && state.database.nodes[0] != Membership::Alive)
            },
        ),
    ]
}
