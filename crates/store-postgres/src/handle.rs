//! The handle: closing, and the methods of the traits, each in a line or two.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use model::automation::TriggerKey;
use model::{AutomationId, Event, ExecutionId, LogLine};
use tokio::sync::{Mutex, watch};
use value::{FileStorage, MemoryFiles};

use super::definitions::Numbers;
use super::forms::id_of;
use super::lane::Shared;
use super::op::{AcceptOp, AcceptRow, Done, Op};
use super::open::{Driver, Opened};
use super::queue::Queue;
use super::schema::SCHEMA;
use super::{
    buckets, events, generations, list, listening, moves, pairings, peers, prune, state, triggers, usage,
    waits,
};
use store::codec::{
    AppendRow, CutEvents, HistoryBytes, HistoryRow, LargeTexts, NewExecutionRow, PollRow, state_changes,
};
use store::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, DeployOutcome, DeployedFile, EventWaiter,
    ExecutionFilter, ExecutionRow, Generation, HandedExecution, Info, Letter, LetterState, Load, Metrics,
    NewGeneration, News, Node, NodeDetails, NodeId, OutboxRow, Page, PollEntry, PollState, PollWrite,
    PruneFilter, ReplayLog, RunningGeneration, ServerTime, Shard, ShardSet, SharedSettings, StateEntry,
    StateRow, StateWrite, Subscription, SuspendedExecution, Wait, Watermark,
};
use store::{Error, Outage};
use store::{
    ExecutionStore, GenerationStore, MaintenanceStore, PeerStore, SecretStore, StateStore, Store,
    TriggerStore, WaitStore,
};

/// A handle to a store on PostgreSQL. Dropping it commits the queued writes and closes the connections; [`Store::close`] does the
/// same without blocking a thread.
pub(crate) struct PostgresStore {
    pub(super) opened: Opened,
    large_texts: LargeTexts,
    driver: Mutex<Option<Driver>>,
    /// The size of the large values, and what makes the store weaker, as they were read last.
    last_read: std::sync::Mutex<(u64, Option<String>)>,
}

impl PostgresStore {
    pub(super) fn new(opened: Opened, driver: Driver) -> Self {
        Self {
            opened,
            large_texts: LargeTexts::default(),
            driver: Mutex::new(Some(driver)),
            last_read: std::sync::Mutex::default(),
        }
    }

    pub(super) fn lanes(&self) -> Result<&Arc<Shared>, Error> {
        self.opened.lanes.as_ref().ok_or(Error::ReadOnly)
    }

    /// The number of this node; `None` if the store is open only for reading.
    fn number(&self) -> Option<i64> {
        self.opened.lanes.as_ref().map(|lanes| lanes.node)
    }

    /// Runs a read, unless the database does not answer for [`Outage::GRACE`].
    pub(super) async fn unless_unreachable<T>(
        &self,
        read: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            result = read => result,
            outage = Outage::is_unreachable_for(self.opened.outages.subscribe(), Outage::GRACE) => {
                Err(outage.error())
            }
        }
    }

    pub(super) fn queue(&self) -> Result<&Queue, Error> {
        self.lanes().map(|lanes| &lanes.queue)
    }

    /// Encodes executions, with their large values stored.
    async fn encode_accept(&self, accept: &Accept) -> Result<AcceptOp, Error> {
        let (queue, opened) = (self.queue()?, &self.opened);
        let large = opened.blobs.threshold();
        let encode = |room: &mut _| {
            let rows = accept.executions.iter().map(|new| NewExecutionRow::new(new, large, room));
            rows.collect::<Result<Vec<_>, Error>>()
        };
        let (rows, _room) = self.large_texts.encode(encode).await?;
        let poll = accept.poll.as_ref().map(PollRow::new).transpose()?.map(Box::new);
        opened.partitions.ensure(rows.iter().map(|row| id_of(row.id))).await?;
        let mut executions = Vec::with_capacity(rows.len());
        for (mut row, new) in rows.into_iter().zip(&accept.executions) {
            let numbers = opened.definitions.use_for(queue, row.definition, id_of(row.id)).await?;
            opened.blobs.externalize(&mut row.body, &mut row.external).await?;
            let Numbers { automation, definition } = numbers;
            let gate = new.gated.then(|| i16::from(Shard::of(&row.automation).number()));
            executions.push(AcceptRow { row, automation, definition, gate });
        }
        OutboxRow::check(&accept.emits)?;
        Ok(AcceptOp {
            executions,
            watermark: accept.watermark.clone(),
            poll,
            emits: accept.emits.clone(),
            delivered: accept.delivered.iter().copied().map(id_of).collect(),
        })
    }

    /// Stops the tasks; the thread ends once the queued writes are committed.
    fn stop(&self, driver: &Driver) {
        if let Some(lanes) = &self.opened.lanes {
            lanes.closing.begin();
            lanes.queue.close();
        }
        let _ = driver.stop.send(true);
    }
}

#[async_trait]
impl GenerationStore for PostgresStore {
    async fn deploy(&self, new: NewGeneration) -> Result<DeployOutcome, Error> {
        generations::deploy(self.queue()?, &self.opened.reader, new).await
    }

    async fn generations(&self, limit: u32) -> Result<Vec<Generation>, Error> {
        generations::newest(&self.opened.reader, limit).await
    }

    async fn deployed_files(&self, number: u64) -> Result<Option<Vec<DeployedFile>>, Error> {
        generations::files(&self.opened.reader, number).await
    }
}

#[async_trait]
impl ExecutionStore for PostgresStore {
    async fn accept(&self, accept: &Accept) -> Result<Vec<AcceptOutcome>, Error> {
        let lanes = self.lanes()?;
        if !accept.executions.is_empty() {
            if self.opened.usage.capacity() == Capacity::Exhausted {
                return Err(Error::Full);
            }
            // A caller can try again elsewhere or later; what was accepted waits.
            let outage = lanes.outages.current();
            if let Some(outage) = outage.filter(|outage| outage.keeps_writes() && outage.refuses_starts()) {
                return Err(outage.error());
            }
        }
        // Nothing is sent as long as the write can be withdrawn.
        let refusal =
            async { Outage::keeps_writes_for(lanes.outages.subscribe(), Outage::GRACE).await.error() };
        tokio::pin!(refusal);
        let prepared = async {
            let held = self.opened.definitions.hold().await;
            Ok::<_, Error>((held, self.encode_accept(accept).await?))
        };
        let (_held, op) = tokio::select! {
            biased;
            prepared = prepared => prepared?,
            error = &mut refusal => return Err(error),
        };
        match lanes.queue.write_unless(Op::Accept(op), refusal).await? {
            Done::Accepted(accepted) => Ok(accepted),
            _ => Ok(Vec::new()),
        }
    }

    async fn append(&self, append: &Append) -> Result<(), Error> {
        let (row, room) = self.large_texts.encode(|room| AppendRow::new(append, room)).await?;
        let mut row = Box::new(row);
        self.opened.partitions.ensure(std::iter::once(id_of(row.execution))).await?;
        if let Some(body) = &mut row.body {
            self.opened.blobs.externalize(body, &mut row.external).await?;
        }
        // Its large values are in blobs by now.
        drop(room);
        self.queue()?.write(Op::Append(row)).await.map(drop)
    }

    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error> {
        events::events(&self.opened.reader, &self.opened.blobs, id).await
    }

    async fn events_cut(&self, id: ExecutionId, min: usize) -> Result<Option<CutEvents>, Error> {
        events::events_cut(&self.opened.reader, &self.opened.blobs, id, min).await
    }

    async fn history_row(&self, id: ExecutionId, first: u32) -> Result<Option<HistoryRow>, Error> {
        events::row(&self.opened.reader, &self.opened.blobs, id, first).await
    }

    async fn history_bytes(&self, id: ExecutionId) -> Result<HistoryBytes, Error> {
        events::sizes(&self.opened.blobs, id).await
    }

    async fn replay_log(&self, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
        events::log(&self.opened.reader, &self.opened.blobs, id).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        list::execution(&self.opened.reader, id).await
    }

    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error> {
        list::executions(&self.opened.reader, filter, page).await
    }

    async fn count_executions(&self, filter: &ExecutionFilter, at_most: u32) -> Result<u32, Error> {
        list::count_executions(&self.opened.reader, filter, at_most).await
    }

    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error> {
        events::logs(&self.opened.reader, id, after, limit).await
    }

    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error> {
        list::unfinished(&self.opened.reader, self.number(), after, limit).await
    }

    async fn unfinished_count(&self) -> Result<u64, Error> {
        list::unfinished_count(&self.opened.reader).await
    }
}

#[async_trait]
impl WaitStore for PostgresStore {
    async fn list_suspended(
        &self,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<SuspendedExecution>, Error> {
        waits::list_suspended(&self.opened.reader, self.number(), after, limit).await
    }

    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
        waits::of_execution(&self.opened.reader, execution).await
    }

    async fn event_paths(&self, name: &str) -> Result<Vec<String>, Error> {
        waits::event_paths(&self.opened.reader, name).await
    }

    async fn waiting_for_event(
        &self,
        name: &str,
        path: &str,
        value: Option<&str>,
        after: Option<EventWaiter>,
        limit: u32,
    ) -> Result<Vec<EventWaiter>, Error> {
        waits::for_event(&self.opened.reader, name, path, value, after, limit).await
    }

    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error> {
        waits::for_child(&self.opened.reader, child).await
    }
}

#[async_trait]
impl StateStore for PostgresStore {
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error> {
        Ok(self.read_states(scope, &[key.to_owned()]).await?.pop().flatten())
    }

    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error> {
        state::read(&self.opened.reader, scope, keys).await
    }

    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error> {
        state::list(&self.opened.reader, scope, after.unwrap_or_default(), limit).await
    }

    async fn write_state_and_emit(
        &self,
        writes: Vec<StateWrite>,
        emits: Vec<OutboxRow>,
    ) -> Result<(), Error> {
        OutboxRow::check(&emits)?;
        self.queue()?.write(Op::State(state_changes(&writes)?, emits)).await.map(drop)
    }
}

#[async_trait]
impl TriggerStore for PostgresStore {
    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        triggers::addresses(&self.opened.reader).await
    }

    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error> {
        triggers::put_addresses(self.queue()?, addresses).await
    }

    async fn add_addresses(&self, addresses: Vec<Address>) -> Result<Vec<Address>, Error> {
        triggers::add_addresses(self.queue()?, &self.opened.reader, addresses).await
    }

    async fn move_trigger(&self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, Error> {
        moves::move_rows(self.queue()?, &self.opened.reader, from, to).await
    }

    async fn watermarks(&self) -> Result<Vec<Watermark>, Error> {
        triggers::watermarks(&self.opened.reader).await
    }

    async fn poll_states(&self) -> Result<Vec<(TriggerKey, PollState)>, Error> {
        triggers::poll_states(&self.opened.reader).await
    }

    async fn known_poll_keys(&self, trigger: &TriggerKey, keys: &[String]) -> Result<Vec<bool>, Error> {
        triggers::known_poll_keys(&self.opened.reader, trigger, keys).await
    }

    async fn poll_entries(&self, trigger: &TriggerKey, limit: u32) -> Result<Vec<PollEntry>, Error> {
        triggers::poll_entries(&self.opened.reader, trigger, limit.min(PollWrite::MAX_ENTRIES)).await
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        triggers::subscriptions(&self.opened.reader).await
    }

    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error> {
        triggers::put_subscription(self.queue()?, &subscription).await
    }

    async fn delete_subscription(&self, id: &str) -> Result<(), Error> {
        triggers::delete_subscription(self.queue()?, id).await
    }

    async fn find_dedup(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<DedupHit>, Error> {
        self.unless_unreachable(triggers::find_dedup(&self.opened.reader, automation, key, now)).await
    }
}

#[async_trait]
impl SecretStore for PostgresStore {
    async fn get_or_init_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
        triggers::get_or_init_secret(self.queue()?, fresh).await
    }
}

#[async_trait]
impl MaintenanceStore for PostgresStore {
    async fn prune(&self, filter: PruneFilter, limit: u32) -> Result<u64, Error> {
        let (queue, opened) = (self.queue()?, &self.opened);
        let deleted = prune::prune(queue, &opened.reader, &filter, limit).await?;
        if let Err(error) = opened.usage.note_deleted(&opened.reader, queue, deleted).await {
            tracing::warn!(%error, "the space that a deletion freed cannot be noted; the database counts as fuller than it is");
        }
        Ok(deleted)
    }

    async fn measure(&self) -> Result<Capacity, Error> {
        usage::measure(&self.opened.reader, &self.opened.usage).await?;
        Ok(self.opened.usage.capacity())
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        prune::prune_keys(self.queue()?, before, limit).await
    }

    async fn prune_dedup(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        prune::prune_dedup(self.queue()?, before, limit).await
    }

    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        state::prune(self.queue()?, before, limit).await
    }

    async fn collect_garbage(&self) -> Result<u64, Error> {
        self.opened.definitions.delete_unused(self.queue()?).await?;
        let deleted = self.opened.blobs.delete_unused().await?;
        self.opened.partitions.drop_empty().await?;
        buckets::delete_full(&self.opened.reader).await?;
        listening::delete_old(&self.opened.reader).await?;
        pairings::delete_old(&self.opened.reader).await?;
        Ok(deleted)
    }
}

#[async_trait]
impl PeerStore for PostgresStore {
    fn node(&self) -> Option<NodeId> {
        self.number().map(NodeId)
    }

    fn may_act(&self) -> bool {
        self.opened.lanes.as_ref().is_none_or(|lanes| lanes.exchange.may_act())
    }

    fn server_time(&self) -> Option<watch::Receiver<ServerTime>> {
        self.opened.lanes.as_ref().map(|lanes| lanes.exchange.server_time())
    }

    fn report_load(&self, load: Load) {
        if let Some(lanes) = &self.opened.lanes {
            lanes.exchange.report(load);
        }
    }

    fn report_running(&self, running: RunningGeneration) {
        if let Some(lanes) = &self.opened.lanes {
            lanes.exchange.report_running(running);
        }
    }

    fn report_details(&self, details: NodeDetails) {
        if let Some(lanes) = &self.opened.lanes {
            let settings = Some(self.opened.agreement.own());
            lanes.exchange.report_details(NodeDetails { settings, ..details });
        }
    }

    fn shared_settings(&self) -> Option<SharedSettings> {
        self.opened.lanes.as_ref().map(|_| self.opened.agreement.in_force())
    }

    async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.unless_unreachable(peers::nodes(&self.opened.reader)).await
    }

    async fn owner(&self, execution: ExecutionId) -> Result<Option<NodeId>, Error> {
        peers::owner(&self.opened.reader, execution).await
    }

    async fn take_over(&self, after: Option<ExecutionId>) -> Result<Option<ExecutionId>, Error> {
        let lanes = self.lanes()?;
        peers::take_over(&lanes.queue, lanes.node, after).await
    }

    async fn handed(&self) -> Result<Vec<HandedExecution>, Error> {
        list::handed(&self.opened.reader, self.lanes()?.node).await
    }

    async fn confirm_handed(&self, executions: Vec<ExecutionId>) -> Result<(), Error> {
        let lanes = self.lanes()?;
        peers::confirm(&lanes.queue, lanes.node, &executions).await
    }

    async fn give(&self, to: NodeId, executions: Vec<ExecutionId>) -> Result<Vec<ExecutionId>, Error> {
        let lanes = self.lanes()?;
        peers::give(&lanes.queue, lanes.node, to, &executions).await
    }

    async fn take_shards(&self) -> Result<ShardSet, Error> {
        let lanes = self.lanes()?;
        peers::take_shards(&lanes.queue, lanes.node).await
    }

    async fn give_up_shard(&self, shard: Shard) -> Result<bool, Error> {
        let lanes = self.lanes()?;
        peers::give_up_shard(&lanes.queue, lanes.node, shard).await
    }

    async fn try_lock(&self, name: &str) -> Result<bool, Error> {
        self.lanes()?.exchange.try_lock(name).await
    }

    fn unlock(&self, name: &str) {
        if let Some(lanes) = &self.opened.lanes {
            lanes.exchange.unlock(name);
        }
    }

    async fn send_letter(&self, letter: Letter) -> Result<(), Error> {
        peers::send(self.queue()?, letter).await
    }

    async fn letter_state(&self, letter: &Letter) -> Result<LetterState, Error> {
        peers::letter_state(&self.opened.reader, letter).await
    }

    async fn delete_letter(&self, letter: &Letter) -> Result<(), Error> {
        peers::delete_letter(self.queue()?, letter).await
    }

    async fn letters(&self) -> Result<Vec<Letter>, Error> {
        peers::letters(&self.opened.reader, self.lanes()?.node).await
    }

    async fn answer_letters(&self, replies: Vec<(Letter, Vec<u8>)>) -> Result<(), Error> {
        peers::answer(self.queue()?, replies).await
    }

    async fn waiting_for_ended_children(&self) -> Result<Vec<ExecutionId>, Error> {
        peers::waiting_for_ended_children(&self.opened.reader, self.lanes()?.node).await
    }

    fn tell(&self, to: Option<NodeId>, news: News) {
        if let Some(lanes) = &self.opened.lanes {
            lanes.exchange.tell(to, news);
        }
    }

    async fn next_news(&self) -> News {
        match &self.opened.lanes {
            Some(lanes) => lanes.exchange.next().await,
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn files(&self) -> Arc<dyn FileStorage> {
        match &self.opened.spool {
            Some(spool) => Arc::new(spool.clone()),
            None => Arc::new(MemoryFiles),
        }
    }

    fn capacity(&self) -> Capacity {
        self.opened.usage.capacity()
    }

    fn outages(&self) -> watch::Receiver<Option<Outage>> {
        self.opened.outages.subscribe()
    }

    fn outage(&self) -> Option<Outage> {
        self.opened.outages.current()
    }

    async fn info(&self) -> Result<Info, Error> {
        let opened = &self.opened;
        let read = self.unless_unreachable(usage::read(&opened.reader, &opened.usage)).await;
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(read) => *last = read,
            // The last figures, so that the outage can be reported.
            Err(error) if !error.is_untrusted() && opened.outages.current().is_some() => {}
            Err(error) => return Err(error),
        }
        let (blob_bytes, weakness) = last.clone();
        drop(last);
        let mut weakened = opened.server.weakened.clone();
        weakened.extend(weakness);
        weakened.extend(opened.agreement.weakness());
        Ok(Info {
            engine: format!("PostgreSQL {}", opened.server.version),
            location: opened.address.to_string(),
            schema: u32::try_from(SCHEMA.version()).unwrap_or_default(),
            bytes: opened.usage.bytes(),
            used: opened.usage.used(),
            blob_bytes,
            max_bytes: opened.usage.most(),
            capacity: opened.outages.limit(opened.usage.capacity()),
            weakened,
        })
    }

    fn metrics(&self) -> Metrics {
        self.opened.counters.read(self.opened.lanes.as_ref().map_or(0, |lanes| lanes.queue.len()))
    }

    async fn failure(&self) -> Error {
        Error::Poisoned { reason: self.opened.poison.wait().await }
    }

    async fn close(&self) -> Result<(), Error> {
        // Locked until the end, so that a second caller waits for the first.
        let mut driver = self.driver.lock().await;
        if let Some(driver) = driver.take() {
            self.stop(&driver);
            let joined = tokio::task::spawn_blocking(move || join(driver)).await;
            joined.map_err(|error| Error::Write { reason: error.to_string() })?;
        }
        match self.opened.poison.reason() {
            Some(reason) => Err(Error::Poisoned { reason: reason.to_owned() }),
            None => Ok(()),
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.get_mut().take() {
            self.stop(&driver);
            join(driver);
        }
    }
}

fn join(driver: Driver) {
    if driver.thread.join().is_err() {
        tracing::error!("the thread of the store panicked");
    }
}
