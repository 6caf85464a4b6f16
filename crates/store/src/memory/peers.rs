//! Several nodes on one store in memory, as the database has them: owners, shards, letters, locks and news.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use model::automation::Level;
use model::{Event, ExecutionId, Status};
use tokio::sync::mpsc;

use super::data::{Data, StoredExecution};
use crate::types::{
    HandedExecution, Letter, LetterState, Load, NewExecution, News, Node, NodeDetails, NodeId, Recipient,
    RunningGeneration, Shard, ShardSet,
};

/// The maximum number of queued notifications for a node.
const NEWS: usize = 1024;
/// Maximum number of rows of a page.
const PAGE: usize = 1000;

/// The nodes of a store, and what they share beside executions.
#[derive(Default)]
pub(super) struct Cluster {
    nodes: BTreeMap<NodeId, NodeRow>,
    last_node: i64,
    shards: BTreeMap<u8, NodeId>,
    letters: BTreeMap<[u8; 16], (Letter, Option<Vec<u8>>)>,
    locks: HashMap<String, NodeId>,
}

struct NodeRow {
    dead: bool,
    /// The level of the language that it knows.
    level: Level,
    load: Load,
    news: mpsc::Sender<News>,
}

impl Cluster {
    /// Adds a node. Returns its number and its news.
    pub(super) fn join(&mut self) -> (NodeId, mpsc::Receiver<News>) {
        self.last_node += 1;
        let (node, (news, received)) = (NodeId(self.last_node), mpsc::channel(NEWS));
        self.nodes.insert(node, NodeRow { dead: false, level: Level::KNOWN, load: Load::default(), news });
        (node, received)
    }

    /// Declares a node dead, whose locks are free from then on.
    pub(super) fn declare_dead(&mut self, node: NodeId) {
        if let Some(row) = self.nodes.get_mut(&node) {
            row.dead = true;
        }
        self.locks.retain(|_, owner| *owner != node);
        self.tell(None, None, &News::Nodes);
    }

    pub(super) fn set_known_level(&mut self, node: NodeId, level: Level) {
        if let Some(row) = self.nodes.get_mut(&node) {
            row.level = level;
        }
    }

    /// Returns the nodes that run and do not know a level, for people.
    pub(super) fn older_than(&self, level: Level) -> Vec<String> {
        let older = self.nodes.iter().filter(|(_, row)| !row.dead && row.level < level);
        older.map(|(node, _)| format!("the daemon {node} on `memory`")).collect()
    }

    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|row| !row.dead)
    }

    pub(super) fn report_load(&mut self, node: NodeId, load: Load) {
        if let Some(row) = self.nodes.get_mut(&node) {
            row.load = load;
        }
    }

    pub(super) fn nodes(&self) -> Vec<Node> {
        let node = |(id, row): (&NodeId, &NodeRow)| Node {
            id: *id,
            host: "memory".to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            joined_at: Timestamp::UNIX_EPOCH,
            dead: row.dead,
            shards: self.shards_of(*id),
            load: row.load,
            running: RunningGeneration::default(),
            details: NodeDetails::default(),
        };
        self.nodes.iter().map(node).collect()
    }

    pub(super) fn shards_of(&self, node: NodeId) -> ShardSet {
        let own = self.shards.iter().filter(|(_, owner)| **owner == node);
        own.filter_map(|(number, _)| Shard::new(*number)).collect()
    }

    /// Sends news to a node, or to all but the sender.
    pub(super) fn tell(&self, from: Option<NodeId>, to: Option<NodeId>, news: &News) {
        let is_meant = |node: &NodeId| to.map_or(Some(*node) != from, |to| *node == to);
        for (_, row) in self.nodes.iter().filter(|(node, _)| is_meant(node)) {
            // News without room are lost, as a database loses some.
            let _ = row.news.try_send(news.clone());
        }
    }

    pub(super) fn try_lock(&mut self, node: NodeId, name: &str) -> bool {
        *self.locks.entry(name.to_owned()).or_insert(node) == node
    }

    pub(super) fn unlock(&mut self, node: NodeId, name: &str) {
        if self.locks.get(name) == Some(&node) {
            self.locks.remove(name);
        }
    }

    pub(super) fn delete_letter(&mut self, letter: &Letter) {
        self.letters.remove(&letter.id);
    }

    pub(super) fn answer_letters(&mut self, replies: Vec<(Letter, Vec<u8>)>) {
        for (letter, reply) in replies {
            if let Some((_, stored)) = self.letters.get_mut(&letter.id) {
                *stored = Some(reply);
            }
        }
    }
}

impl Data {
    /// Returns the shard in which an execution waits for others, and the node that gets it.
    pub(super) fn place(&self, node: Option<NodeId>, new: &NewExecution) -> (Option<Shard>, Option<NodeId>) {
        let Event::Started { automation, .. } = &new.started else { return (None, node) };
        let gate = (node.is_some() && new.gated).then(|| Shard::of(automation));
        let owner = match gate {
            Some(shard) => self.cluster.shards.get(&shard.number()).copied(),
            None => node,
        };
        (gate, owner)
    }

    fn unfinished_rows(&self) -> impl Iterator<Item = &StoredExecution> {
        self.executions.values().filter(|stored| !stored.row.status.is_terminal())
    }

    fn is_unfinished(&self, execution: ExecutionId) -> bool {
        self.executions.get(&execution).is_some_and(|stored| !stored.row.status.is_terminal())
    }

    pub(super) fn owner(&self, execution: ExecutionId) -> Option<NodeId> {
        let stored = self.executions.get(&execution).filter(|stored| !stored.row.status.is_terminal());
        stored.and_then(|stored| stored.owner)
    }

    /// Gives a page of executions of dead nodes to `node`. Forgets the dead nodes if there are none left.
    pub(super) fn take_over(&mut self, node: NodeId, after: Option<ExecutionId>) -> Option<ExecutionId> {
        let cluster = &self.cluster;
        let is_orphan = |stored: &&mut StoredExecution| {
            let is_dead = |owner: NodeId| cluster.nodes.get(&owner).is_some_and(|row| row.dead);
            let is_open = !stored.row.status.is_terminal() && stored.gate.is_none();
            is_open && after.is_none_or(|after| stored.row.id > after) && stored.owner.is_some_and(is_dead)
        };
        let mut last = None;
        for stored in self.executions.values_mut().filter(is_orphan).take(PAGE) {
            (stored.owner, stored.handed) = (Some(node), true);
            last = Some(stored.row.id);
        }
        if last.is_none() {
            self.forget_dead();
        }
        last
    }

    fn forget_dead(&mut self) {
        let owners: BTreeSet<NodeId> = self.unfinished_rows().filter_map(|stored| stored.owner).collect();
        let cluster = &mut self.cluster;
        let shards: BTreeSet<NodeId> = cluster.shards.values().copied().collect();
        cluster.nodes.retain(|node, row| !row.dead || owners.contains(node) || shards.contains(node));
    }

    /// Gives executions of a node that have not begun to another one. Returns those that it still has.
    pub(super) fn give(&mut self, node: NodeId, to: NodeId, executions: &[ExecutionId]) -> Vec<ExecutionId> {
        let takes = self.cluster.is_alive(to);
        let mut own = Vec::new();
        for id in executions {
            let Some(stored) = self.executions.get_mut(id).filter(|stored| stored.owner == Some(node)) else {
                continue;
            };
            match stored.row.status {
                Status::Queued if takes && stored.gate.is_none() => {
                    (stored.owner, stored.handed) = (Some(to), true);
                }
                status if status.is_terminal() => {}
                _ => own.push(*id),
            }
        }
        own
    }

    /// Gives free shards to a node until it has its part, with their gated executions. Returns all that it has.
    pub(super) fn take_shards(&mut self, node: NodeId) -> ShardSet {
        let cluster = &mut self.cluster;
        let alive = cluster.nodes.values().filter(|row| !row.dead).count().max(1);
        let part = usize::from(Shard::COUNT).div_ceil(alive);
        let wanted = part.saturating_sub(cluster.shards_of(node).len());
        let is_free = |number: &u8| !cluster.shards.get(number).is_some_and(|owner| cluster.is_alive(*owner));
        let free: Vec<u8> = (0..Shard::COUNT).filter(is_free).take(wanted).collect();
        cluster.shards.extend(free.iter().map(|number| (*number, node)));
        let own = cluster.shards_of(node);
        for stored in self.executions.values_mut().filter(|stored| !stored.row.status.is_terminal()) {
            let is_new = stored.gate.is_some_and(|gate| own.contains(gate)) && stored.owner != Some(node);
            if is_new {
                (stored.owner, stored.handed) = (Some(node), true);
            }
        }
        own
    }

    /// Frees a shard of a node if no gated execution of it is unfinished. Returns true if another node may have it.
    pub(super) fn give_up_shard(&mut self, node: NodeId, shard: Shard) -> bool {
        if self.cluster.shards.get(&shard.number()) == Some(&node) {
            if self.unfinished_rows().any(|stored| stored.gate == Some(shard)) {
                return false;
            }
            self.cluster.shards.remove(&shard.number());
        }
        true
    }

    /// Returns executions that were given to a node; those that have begun come first.
    pub(super) fn handed(&self, node: NodeId) -> Vec<HandedExecution> {
        let handed = self.unfinished_rows().filter(|stored| stored.handed && stored.owner == Some(node));
        let mut handed: Vec<HandedExecution> = handed
            .map(|stored| HandedExecution {
                row: stored.row.clone(),
                keeps_permit: stored.holds,
                wake_at: stored.waits.iter().filter_map(|wait| wait.until).min(),
            })
            .collect();
        handed.sort_by_key(|handed| (handed.row.events == 1, handed.row.id));
        handed.truncate(PAGE);
        handed
    }

    pub(super) fn confirm_handed(&mut self, node: NodeId, executions: &[ExecutionId]) {
        for id in executions {
            if let Some(stored) = self.executions.get_mut(id).filter(|stored| stored.owner == Some(node)) {
                stored.handed = false;
            }
        }
    }

    pub(super) fn send_letter(&mut self, letter: Letter) {
        if self.is_open(&letter) {
            self.cluster.letters.entry(letter.id).or_insert((letter, None));
        }
    }

    fn is_open(&self, letter: &Letter) -> bool {
        match letter.to {
            Recipient::Execution(execution) => self.is_unfinished(execution),
            Recipient::Shard(_) => true,
        }
    }

    fn recipient(&self, letter: &Letter) -> Option<NodeId> {
        match letter.to {
            Recipient::Execution(execution) => self.owner(execution),
            Recipient::Shard(shard) => self.cluster.shards.get(&shard.number()).copied(),
        }
    }

    pub(super) fn letter_state(&self, letter: &Letter) -> LetterState {
        match self.cluster.letters.get(&letter.id) {
            Some((_, Some(reply))) => LetterState::Answered(reply.clone()),
            Some((letter, None)) if self.is_open(letter) => LetterState::Open,
            _ => LetterState::Ended,
        }
    }

    pub(super) fn letters(&self, node: NodeId) -> Vec<Letter> {
        let open = self.cluster.letters.values().filter(|(_, reply)| reply.is_none());
        let own = open.filter(|(letter, _)| self.recipient(letter) == Some(node));
        own.map(|(letter, _)| letter.clone()).take(PAGE).collect()
    }

    pub(super) fn waiting_for_ended_children(&self, node: NodeId) -> Vec<ExecutionId> {
        let own = self.unfinished_rows().filter(|stored| stored.owner == Some(node));
        let waits = own.filter(|stored| {
            stored.waits.iter().filter_map(|wait| wait.child).any(|child| !self.is_unfinished(child))
        });
        waits.map(|stored| stored.row.id).take(PAGE).collect()
    }
}
