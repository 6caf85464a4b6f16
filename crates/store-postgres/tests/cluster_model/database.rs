//! The rows of the database, and the writes of lanes as the functions of the schema do them.

pub(crate) const NODES: usize = 3;
pub(crate) const EXECUTIONS: usize = 2;
/// The number of events of an execution that has been accepted.
pub(crate) const ACCEPTED: u8 = 1;

/// The number of a node.
pub(crate) type Node = usize;
/// The number of an execution.
pub(crate) type Execution = usize;

/// A write of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Write {
    Accept(Execution),
    /// Appends an event at the index `first`. `ends` moves the execution to the history.
    Append {
        execution: Execution,
        first: u8,
        is_signal: bool,
        ends: bool,
    },
    TakeOver,
    TakeShard,
    GiveUpShard,
    ForgetDead,
    SendLetter,
    AnswerLetter,
}

/// The row of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Membership {
    Alive,
    Dead,
    Forgotten,
}

/// The row of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneRow {
    pub(crate) is_dead: bool,
    /// The batch that the process sent last is committed.
    pub(crate) has_committed: bool,
}

/// An execution that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Live {
    pub(crate) owner: Option<Node>,
    pub(crate) events: u8,
    pub(crate) handed: bool,
}

/// All rows of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Rows {
    pub(crate) live: Option<Live>,
    /// The number of times it was accepted.
    pub(crate) accepted: u8,
    /// The number of results of its step in the log.
    pub(crate) begun: u8,
    /// The number of signals in its log.
    pub(crate) signals: u8,
    /// The number of times it was moved to the history.
    pub(crate) ended: u8,
}

/// The row of the letter to the first execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Letter {
    None,
    Open,
    Answered,
}

/// The database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Database {
    pub(crate) nodes: [Membership; NODES],
    pub(crate) lanes: [LaneRow; NODES],
    pub(crate) executions: [Rows; EXECUTIONS],
    /// The executions that have a concurrency limit, and with it the shard.
    pub(crate) gated: [bool; EXECUTIONS],
    /// The owner of the shard.
    pub(crate) shard: Option<Node>,
    pub(crate) letter: Letter,
}

impl Database {
    /// Runs a write in a transaction that its lane may commit. Returns false if it was refused.
    pub(crate) fn run(&mut self, node: Node, write: Write) -> bool {
        match write {
            Write::Accept(execution) => {
                if self.executions[execution].live.is_some() {
                    return false;
                }
                let owner = if self.gated[execution] { self.shard } else { Some(node) };
                let rows = &mut self.executions[execution];
                rows.live = Some(Live { owner, events: ACCEPTED, handed: owner != Some(node) });
                rows.accepted += 1;
            }
            Write::Append { execution, first, is_signal, ends } => {
                let rows = &mut self.executions[execution];
                let Some(live) = &mut rows.live else { return false };
                if live.events != first || live.owner != Some(node) {
                    return false;
                }
                live.events += 1;
                rows.signals += u8::from(is_signal);
                rows.begun += u8::from(!is_signal && !ends);
                if ends {
                    rows.live = None;
                    rows.ended += 1;
                }
            }
            Write::TakeOver => self.take_over(node),
            Write::TakeShard => self.take_shard(node),
            Write::GiveUpShard => {
                if self.shard == Some(node) && !self.has_gated() {
                    self.shard = None;
                }
            }
            Write::ForgetDead => {
                for dead in 0..NODES {
                    if self.is_forgettable(dead) {
                        self.nodes[dead] = Membership::Forgotten;
                        self.lanes[dead].is_dead = true;
                    }
                }
            }
            Write::SendLetter => {
                if self.executions[0].live.is_some() && self.letter == Letter::None {
                    self.letter = Letter::Open;
                }
            }
            Write::AnswerLetter => self.letter = Letter::Answered,
        }
        true
    }

    fn take_over(&mut self, node: Node) {
        for (rows, gated) in self.executions.iter_mut().zip(self.gated) {
            if let Some(live) = &mut rows.live
                && !gated
                && live.owner.is_some_and(|owner| self.nodes[owner] == Membership::Dead)
            {
                (live.owner, live.handed) = (Some(node), true);
            }
        }
    }

    fn take_shard(&mut self, node: Node) {
        if !self.is_shard_free() {
            return;
        }
        self.shard = Some(node);
        for (rows, gated) in self.executions.iter_mut().zip(self.gated) {
            if let Some(live) = &mut rows.live
                && gated
                && live.owner != Some(node)
            {
                (live.owner, live.handed) = (Some(node), true);
            }
        }
    }

    /// Returns true if a gated execution has not ended.
    pub(crate) fn has_gated(&self) -> bool {
        (0..EXECUTIONS).any(|execution| self.gated[execution] && self.executions[execution].live.is_some())
    }

    /// Returns true if an execution that is not gated belongs to a dead node.
    pub(crate) fn has_orphans(&self) -> bool {
        let is_dead = |live: Live| live.owner.is_some_and(|owner| self.nodes[owner] == Membership::Dead);
        self.executions.iter().zip(self.gated).any(|(rows, gated)| !gated && rows.live.is_some_and(is_dead))
    }

    /// Returns true if a node may take the shard.
    pub(crate) fn is_shard_free(&self) -> bool {
        self.shard.is_none_or(|owner| self.nodes[owner] != Membership::Alive)
    }

    /// Returns true if the row of a node can be deleted.
    pub(crate) fn is_forgettable(&self, node: Node) -> bool {
        let owns = |rows: &Rows| rows.live.is_some_and(|live| live.owner == Some(node));
        self.nodes[node] == Membership::Dead && self.shard != Some(node) && !self.executions.iter().any(owns)
    }
}
