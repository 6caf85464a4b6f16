//! Executions, and what belongs to their acceptance.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use model::automation::{Level, TriggerKey};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine, Outcome, Status};

use super::peers::Cluster;
use crate::Error;
use crate::types::{
    Accept, AcceptOutcome, Address, Append, DedupHit, DedupRecord, Definition, DefinitionUse, ExecutionRow,
    InitialEvents, NewExecution, NodeId, OutboxCount, OutboxRow, OutcomeFilter, PollEntry, PollState,
    PollWrite, PruneFilter, PruneRule, ReplayLog, Shard, Snapshot, SnapshotChange, StateEntry, Subscription,
    Wait, Watermark,
};

/// The maximum length in characters of an error in a list.
const ERROR_CHARS: usize = 500;

/// The reason why a node that was declared dead cannot write.
pub(super) const TAKEN_OVER: &str = "another daemon has taken over";

/// The content of a store.
#[derive(Default)]
pub(super) struct Data {
    /// The level of the language that its definitions may have.
    pub(super) level: Level,
    /// Each with the number of its last store.
    definitions: HashMap<DefinitionHash, (Definition, u64)>,
    pub(super) executions: BTreeMap<ExecutionId, StoredExecution>,
    keys: BTreeSet<(ExecutionId, AutomationId, String)>,
    owners: HashMap<(AutomationId, String), ExecutionId>,
    sendings: HashMap<(AutomationId, [u8; 32]), (DedupHit, Timestamp)>,
    pub(super) watermarks: BTreeMap<TriggerKey, Watermark>,
    pub(super) addresses: BTreeMap<TriggerKey, Address>,
    pub(super) polls: BTreeMap<TriggerKey, Poll>,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    pub(super) state: BTreeMap<(String, String), StateEntry>,
    pub(super) outbox: BTreeMap<ExecutionId, OutboxRow>,
    /// The last used version.
    pub(super) version: u64,
    pub(super) secret: Option<[u8; 32]>,
    /// A counter for records that are ordered by their writes.
    sequence: u64,
    pub(super) writes: u64,
    pub(super) cluster: Cluster,
}

/// An execution.
pub(super) struct StoredExecution {
    pub(super) row: ExecutionRow,
    pub(super) holds: bool,
    pub(super) events: Vec<Event>,
    pub(super) logs: Vec<LogLine>,
    pub(super) waits: Vec<Wait>,
    pub(super) snapshot: Option<Snapshot>,
    /// The node that has it; `None` if one process has the store, or the shard of a gated one has no owner.
    pub(super) owner: Option<NodeId>,
    /// The shard in which it waits for others.
    pub(super) gate: Option<Shard>,
    /// True if it was assigned to its owner, who has not loaded it yet.
    pub(super) handed: bool,
}

impl StoredExecution {
    /// Returns the events that a replay needs, as [`crate::ExecutionStore::replay_log`].
    pub(super) fn replay_log(&self) -> ReplayLog {
        let from = self.snapshot.as_ref().map_or(1, |snapshot| snapshot.events as usize);
        let later = self.events.iter().skip(from);
        let events = self.events.first().into_iter().chain(later).cloned().collect();
        ReplayLog { snapshot: self.snapshot.clone(), events, count: self.row.events }
    }
}

/// A poll.
pub(super) struct Poll {
    pub(super) standing: PollState,
    /// Its keys, each with the number of the last poll that had it.
    pub(super) keys: HashMap<String, u64>,
    pub(super) entries: VecDeque<PollEntry>,
}

pub(super) fn invalid(reason: impl Into<String>) -> Error {
    Error::Invalid { reason: reason.into() }
}

impl Data {
    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn raise_level(&mut self, level: Level) -> Result<(), Error> {
        if level <= self.level {
            return Ok(());
        }
        let daemons = self.cluster.older_than(level);
        if !daemons.is_empty() {
            return Err(Error::OlderDaemons { level: level.number(), daemons });
        }
        self.level = level;
        Ok(())
    }

    pub(super) fn put_definition(&mut self, definition: Definition) {
        let number = self.next();
        self.definitions.insert(definition.hash, (definition, number));
    }

    pub(super) fn definition(&self, hash: DefinitionHash) -> Option<Definition> {
        self.definitions.get(&hash).map(|(definition, _)| definition.clone())
    }

    pub(super) fn definitions(&self, automation: &AutomationId, limit: u32) -> Vec<DefinitionUse> {
        let own = self.definitions.values().filter(|(definition, _)| definition.automation == *automation);
        let mut own: Vec<_> = own.collect();
        own.sort_by_key(|(_, number)| Reverse(*number));
        let uses = |hash| self.executions.values().filter(|stored| stored.row.definition == hash).count();
        let used = own.into_iter().take(limit.min(1000) as usize).map(|(definition, _)| DefinitionUse {
            hash: definition.hash,
            path: definition.path.clone(),
            executions: u64::try_from(uses(definition.hash)).unwrap_or_default(),
        });
        used.collect()
    }

    pub(super) fn accept(
        &mut self,
        node: Option<NodeId>,
        accept: &Accept,
    ) -> Result<Vec<AcceptOutcome>, Error> {
        accept.poll.as_ref().map_or(Ok(()), check_poll)?;
        OutboxRow::check(&accept.emits)?;
        accept.executions.iter().try_for_each(|new| OutboxRow::check(&new.initial.emits))?;
        // First the outcomes, then the changes: a refusal changes nothing.
        let mut batch = Batch::default();
        let mut accepted = Vec::with_capacity(accept.executions.len());
        for new in &accept.executions {
            accepted.push(self.judge(new, &mut batch)?);
        }
        for (new, outcome) in accept.executions.iter().zip(&mut accepted) {
            if *outcome == AcceptOutcome::New && self.take(node, new.clone()) != node {
                *outcome = AcceptOutcome::Elsewhere;
            }
        }
        if let Some(watermark) = accept.watermark.clone() {
            self.watermarks.insert(watermark.trigger.clone(), watermark);
        }
        accept.poll.clone().into_iter().for_each(|poll| self.put_poll(poll));
        self.outbox.retain(|id, _| !accept.delivered.contains(id));
        self.send(&accept.emits);
        Ok(accepted)
    }

    fn judge(&self, new: &NewExecution, batch: &mut Batch) -> Result<AcceptOutcome, Error> {
        let Event::Started { at, automation, definition, .. } = &new.started else {
            return Err(invalid("the first event of an execution must be `started`"));
        };
        if new.dedup.len() > DedupRecord::MAX {
            return Err(invalid(format!("an execution has at most {} names", DedupRecord::MAX)));
        }
        if !self.definitions.contains_key(definition) {
            return Err(Error::NoSuchDefinition(*definition));
        }
        for DedupRecord { key, content, .. } in &new.dedup {
            let name = (automation.clone(), *key);
            let before = batch.sendings.get(&name).copied();
            if let Some(sent) = before.or_else(|| self.sent(automation, *key, *at)) {
                let conflicts_with = sent.conflicts_with(*content);
                let first = sent.execution;
                return Ok(if conflicts_with {
                    AcceptOutcome::Mismatch(first)
                } else {
                    AcceptOutcome::Duplicate(first)
                });
            }
        }
        if let Some(key) = &new.key {
            let name = (automation.clone(), key.clone());
            if let Some(first) = batch.owners.get(&name).or_else(|| self.owners.get(&name)) {
                return Ok(AcceptOutcome::Duplicate(*first));
            }
            batch.owners.insert(name, new.id);
        }
        if self.executions.contains_key(&new.id) || !batch.ids.insert(new.id) {
            return Err(Error::AlreadyExists(new.id));
        }
        for DedupRecord { key, content, .. } in &new.dedup {
            let sent = DedupHit { execution: new.id, content: *content };
            batch.sendings.insert((automation.clone(), *key), sent);
        }
        Ok(AcceptOutcome::New)
    }

    /// Stores a new execution, and returns the node that has it.
    fn take(&mut self, node: Option<NodeId>, new: NewExecution) -> Option<NodeId> {
        let Event::Started { at, automation, definition, origin, trigger, .. } = &new.started else {
            return node;
        };
        let (gate, owner) = self.place(node, &new);
        let mut row = ExecutionRow {
            id: new.id,
            automation: automation.clone(),
            trigger: trigger.clone(),
            definition: *definition,
            origin: origin.clone(),
            status: new.status(),
            started_at: *at,
            finished_at: None,
            error: None,
            events: 1,
        };
        if let Some(key) = new.key {
            self.keys.insert((new.id, row.automation.clone(), key.clone()));
            self.owners.insert((row.automation.clone(), key), new.id);
        }
        for DedupRecord { key, content, until } in new.dedup {
            let sent = DedupHit { execution: new.id, content };
            self.sendings.insert((row.automation.clone(), key), (sent, until));
        }
        let InitialEvents { events: already, logs, emits } = new.initial;
        self.send(&emits);
        if let Some(Event::Finished { at, outcome }) = already.last() {
            ended(&mut row, *at, outcome);
        }
        row.events += u32::try_from(already.len()).unwrap_or(u32::MAX);
        let owner = if row.status.is_terminal() { node } else { owner };
        let events = std::iter::once(new.started).chain(already).collect();
        let stored = StoredExecution {
            row,
            holds: false,
            events,
            logs,
            waits: Vec::new(),
            snapshot: None,
            owner,
            gate,
            handed: owner != node,
        };
        self.executions.insert(new.id, stored);
        owner
    }

    pub(super) fn append(&mut self, node: Option<NodeId>, append: &Append) -> Result<(), Error> {
        append.waits.as_deref().map_or(Ok(()), check_waits)?;
        append.snapshot.check(append.first)?;
        OutboxRow::check(&append.emits)?;
        self.check_state(&append.state)?;
        let id = append.execution;
        let stored = self.executions.get_mut(&id).ok_or(Error::NoSuchExecution(id))?;
        if node.is_some() && !stored.row.status.is_terminal() && stored.owner != node {
            return Err(Error::Poisoned { reason: TAKEN_OVER.to_owned() });
        }
        if append.first != stored.row.events {
            return Err(Error::Conflict { execution: id, expected: append.first, found: stored.row.events });
        }
        stored.row.status = append.status;
        stored.holds = append.keeps_permit && append.status == Status::Waiting;
        if !append.status.is_terminal() {
            (stored.row.finished_at, stored.row.error) = (None, None);
        } else if let Some(Event::Finished { at, outcome }) = append.events.last() {
            ended(&mut stored.row, *at, outcome);
        }
        stored.row.events += u32::try_from(append.events.len()).unwrap_or(u32::MAX);
        stored.events.extend(append.events.iter().cloned());
        stored.logs.extend(append.logs.iter().cloned());
        if let Some(mut waits) = append.waits.clone() {
            waits.sort_unstable_by(|one, other| one.step.cmp(&other.step));
            stored.waits = waits;
        }
        match &append.snapshot {
            SnapshotChange::Keep => {}
            SnapshotChange::Put(snapshot) => stored.snapshot = Some(snapshot.clone()),
            SnapshotChange::Delete => stored.snapshot = None,
        }
        if append.status.is_terminal() {
            stored.waits.clear();
        }
        self.put_state(append.state.clone());
        self.send(&append.emits);
        Ok(())
    }

    pub(super) fn send(&mut self, rows: &[OutboxRow]) {
        for row in rows {
            self.outbox.entry(row.id).or_insert_with(|| row.clone());
        }
    }

    pub(super) fn outbox_counts(&self) -> Vec<OutboxCount> {
        let mut counts: BTreeMap<&str, OutboxCount> = BTreeMap::new();
        for row in self.outbox.values() {
            let count = counts.entry(&row.name).or_insert_with(|| OutboxCount {
                name: row.name.clone(),
                rows: 0,
                oldest: row.at,
                last: row.id,
            });
            (count.rows, count.oldest, count.last) = (count.rows + 1, count.oldest.min(row.at), row.id);
        }
        counts.into_values().collect()
    }

    pub(super) fn move_trigger(&mut self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, Error> {
        let has = |key: &TriggerKey| {
            let poll = self.polls.contains_key(key);
            let subscribes = self.subscriptions.values().any(|subscription| subscription.trigger == *key);
            [self.addresses.contains_key(key), self.watermarks.contains_key(key), poll, subscribes]
        };
        let names = OutboxRow::moved_names(from, to);
        let on_the_way = self.outbox.values().any(|row| names.iter().any(|(name, _)| *name == row.name));
        if !has(from).contains(&true) && !on_the_way {
            return Ok(0);
        }
        let words = ["an address", "the position of a schedule", "the position of a poll", "a subscription"];
        Error::check_free(to, words.into_iter().zip(has(to)))?;
        let mut moved = 0;
        if let Some(address) = self.addresses.remove(from) {
            self.addresses.insert(to.clone(), Address { trigger: to.clone(), ..address });
            moved += 1;
        }
        if let Some(watermark) = self.watermarks.remove(from) {
            self.watermarks.insert(to.clone(), Watermark { trigger: to.clone(), ..watermark });
            moved += 1;
        }
        if let Some(poll) = self.polls.remove(from) {
            moved += 1 + poll.keys.len() as u64 + poll.entries.len() as u64;
            self.polls.insert(to.clone(), poll);
        }
        for subscription in self.subscriptions.values_mut().filter(|one| one.trigger == *from) {
            *subscription = subscription.clone().moved_to(to);
            moved += 1;
        }
        for row in self.outbox.values_mut() {
            if let Some((_, name)) = names.iter().find(|(name, _)| *name == row.name) {
                row.name.clone_from(name);
                moved += 1;
            }
        }
        Ok(moved)
    }

    fn put_poll(&mut self, write: PollWrite) {
        let number = self.next();
        let poll = self.polls.entry(write.trigger).or_insert_with(|| Poll {
            standing: write.state.clone(),
            keys: HashMap::new(),
            entries: VecDeque::new(),
        });
        poll.standing = write.state;
        if write.forgets_keys {
            poll.keys.clear();
        }
        poll.keys.extend(write.keys.into_iter().map(|key| (key, number)));
        if poll.keys.len() > PollWrite::MAX_KEYS {
            let mut by_age: Vec<(u64, String)> =
                poll.keys.drain().map(|(key, number)| (number, key)).collect();
            by_age.sort_unstable_by(|one, other| other.cmp(one));
            by_age.truncate(PollWrite::MAX_KEYS);
            poll.keys.extend(by_age.into_iter().map(|(number, key)| (key, number)));
        }
        poll.entries.extend(write.entry);
        while poll.entries.len() > PollWrite::MAX_ENTRIES as usize {
            poll.entries.pop_front();
        }
    }

    pub(super) fn sent(&self, automation: &AutomationId, key: [u8; 32], now: Timestamp) -> Option<DedupHit> {
        let (sent, until) = self.sendings.get(&(automation.clone(), key))?;
        (*until > now).then_some(*sent)
    }

    pub(super) fn prune_dedup(&mut self, before: Timestamp, limit: u32) -> u64 {
        let over = self.sendings.iter().filter(|(_, (_, until))| *until < before);
        let over: Vec<_> = over.map(|(name, _)| name.clone()).take(limit as usize).collect();
        over.iter().filter(|name| self.sendings.remove(name).is_some()).count() as u64
    }

    pub(super) fn prune(&mut self, filter: &PruneFilter, limit: u32) -> u64 {
        let fits = |row: &ExecutionRow| {
            let outcome = match filter.outcome {
                OutcomeFilter::Any => true,
                OutcomeFilter::Succeeded => row.status == Status::Succeeded,
                OutcomeFilter::Unsuccessful => row.status != Status::Succeeded,
            };
            row.status.is_terminal()
                && outcome
                && filter.automation.as_ref().is_none_or(|automation| *automation == row.automation)
                && !filter.except.contains(&row.automation)
        };
        let rows = self.executions.values().map(|stored| &stored.row).filter(|row| fits(row));
        let rows: Vec<&ExecutionRow> = match filter.rule {
            PruneRule::Oldest => rows.collect(),
            PruneRule::EndedBefore(at) => {
                rows.filter(|row| row.finished_at.is_some_and(|ended| ended < at)).collect()
            }
            PruneRule::AllButNewest(count) => {
                let mut newer: HashMap<&AutomationId, u32> = HashMap::new();
                let newest_first = rows.rev().filter(|row| {
                    let newer = newer.entry(&row.automation).or_default();
                    *newer += 1;
                    *newer > count
                });
                newest_first.collect::<Vec<_>>().into_iter().rev().collect()
            }
        };
        let gone: Vec<ExecutionId> = rows.into_iter().take(limit as usize).map(|row| row.id).collect();
        for id in &gone {
            self.executions.remove(id);
        }
        self.forget_definitions();
        gone.len() as u64
    }

    /// Deletes definitions without references, except the latest of each Automation.
    fn forget_definitions(&mut self) {
        let used: HashSet<DefinitionHash> =
            self.executions.values().map(|stored| stored.row.definition).collect();
        let mut last: HashMap<AutomationId, u64> = HashMap::new();
        for (definition, number) in self.definitions.values() {
            let newest = last.entry(definition.automation.clone()).or_default();
            *newest = (*newest).max(*number);
        }
        self.definitions.retain(|hash, (definition, number)| {
            used.contains(hash) || last.get(&definition.automation) == Some(number)
        });
    }

    pub(super) fn prune_keys(&mut self, before: Timestamp, limit: u32) -> u64 {
        let before = ExecutionId::new(before, [0; 10]);
        let old = self.keys.iter().take_while(|(id, ..)| *id < before);
        let old = old.filter(|(id, ..)| !self.executions.contains_key(id)).take(limit as usize);
        let old: Vec<_> = old.cloned().collect();
        for key in &old {
            self.keys.remove(key);
            self.owners.remove(&(key.1.clone(), key.2.clone()));
        }
        old.len() as u64
    }
}

/// Returns the end of an execution for lists.
fn ended(row: &mut ExecutionRow, at: Timestamp, outcome: &Outcome) {
    row.finished_at = Some(at);
    row.error = outcome.message().map(|message| message.chars().take(ERROR_CHARS).collect());
}

/// The keys that earlier executions of a batch take.
#[derive(Default)]
struct Batch {
    ids: HashSet<ExecutionId>,
    owners: HashMap<(AutomationId, String), ExecutionId>,
    sendings: HashMap<(AutomationId, [u8; 32]), DedupHit>,
}

fn check_waits(waits: &[Wait]) -> Result<(), Error> {
    let steps: HashSet<&str> = waits.iter().map(|wait| wait.step.as_str()).collect();
    if waits.len() > Wait::MAX || steps.len() < waits.len() {
        return Err(invalid(format!("an execution has at most {} waits, and a step one", Wait::MAX)));
    }
    Ok(())
}

fn check_poll(poll: &PollWrite) -> Result<(), Error> {
    if poll.keys.len() > PollWrite::MAX_KEYS {
        return Err(invalid(format!("a poll sees at most {} things", PollWrite::MAX_KEYS)));
    }
    match poll.keys.iter().find(|key| key.len() > PollWrite::MAX_KEY_BYTES) {
        Some(long) => Err(Error::TooLarge { bytes: long.len(), limit: PollWrite::MAX_KEY_BYTES }),
        None => Ok(()),
    }
}
