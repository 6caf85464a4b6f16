//! A store that passes its calls through a layer, which observes, delays or refuses them.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use model::automation::{Level, TriggerKey};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine};
use tokio::sync::watch;
use value::FileStorage;

use crate::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, Definition, DefinitionStore, DefinitionUse,
    Error, EventWaiter, ExecutionFilter, ExecutionRow, ExecutionStore, GenerationStore, Info,
    MaintenanceStore, Metrics, Outage, OutboxCount, OutboxRow, OutboxStore, Page, PeerStore, PollEntry,
    PollState, PruneFilter, ReplayLog, SecretStore, SharedTriggerStore, StateEntry, StateRow, StateStore,
    StateWrite, Store, Subscription, SuspendedExecution, TriggerStore, Wait, WaitStore, Watermark,
};

/// A call of a store, as its layer sees it.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// [`ExecutionStore::accept`].
    Accept(&'a Accept),
    /// [`ExecutionStore::append`].
    Append,
    /// [`ExecutionStore::replay_log`].
    ReplayLog,
    /// [`ExecutionStore::execution`].
    Execution,
    /// [`WaitStore::waiting_for_event`].
    WaitingForEvent,
    /// [`OutboxStore::outbox_page`].
    OutboxPage,
    /// [`TriggerStore::put_subscription`].
    PutSubscription(&'a Subscription),
    /// Any other call.
    Other,
}

/// The layer before a store.
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    /// Lives as long as the call.
    type Guard: Send;

    /// Runs before each call of the store.
    ///
    /// # Errors
    /// The result of the call, which then does not reach the store.
    async fn before(&self, call: Call<'_>) -> Result<Self::Guard, Error>;

    /// Returns true if the store has no log of this execution.
    fn hides(&self, _execution: ExecutionId) -> bool {
        false
    }

    /// The outage of the layer, which is reported in place of the store's.
    fn outage(&self) -> Option<Outage> {
        None
    }

    /// Waits for a fatal failure of the layer, as [`Store::failure`].
    async fn failure(&self) -> Error {
        std::future::pending().await
    }
}

/// A store behind a layer, which one process owns. Methods with a default in their trait keep it.
pub struct Layered<L> {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The layer before it.
    pub layer: Arc<L>,
}

/// Returns the call of a row of [`pass_on`].
macro_rules! call {
    () => {
        Call::Other
    };
    ($call:expr) => {
        $call
    };
}

/// Implements a trait: each method asks the layer and then calls the store. The methods in braces are written out.
macro_rules! pass_on {
    ($trait:ident { $($written_out:tt)* }
        $($method:ident($($name:ident: $type:ty),*) -> $result:ty $(, $call:expr)?;)*) => {
        #[async_trait]
        impl<L: Layer> $trait for Layered<L> {
            $($written_out)*

            $(async fn $method(&self, $($name: $type),*) -> Result<$result, Error> {
                let _guard = self.layer.before(call!($($call)?)).await?;
                self.store.$method($($name),*).await
            })*
        }
    };
}

pass_on! { DefinitionStore {}
    put_definition(definition: Definition) -> ();
    definition(hash: DefinitionHash) -> Option<Definition>;
    definitions(automation: &AutomationId, limit: u32) -> Vec<DefinitionUse>;
    raise_level(level: Level) -> ();
}

pass_on! { ExecutionStore {
        async fn replay_log(&self, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
            let _guard = self.layer.before(Call::ReplayLog).await?;
            if self.layer.hides(id) { Ok(None) } else { self.store.replay_log(id).await }
        }
    }
    accept(accept: &Accept) -> Vec<AcceptOutcome>, Call::Accept(accept);
    append(append: &Append) -> (), Call::Append;
    events(id: ExecutionId) -> Option<Vec<Event>>;
    execution(id: ExecutionId) -> Option<ExecutionRow>, Call::Execution;
    executions(filter: &ExecutionFilter, page: Page) -> Vec<ExecutionRow>;
    count_executions(filter: &ExecutionFilter, at_most: u32) -> u32;
    logs(id: ExecutionId, after: u32, limit: u32) -> Vec<LogLine>;
    unfinished(after: Option<ExecutionId>, limit: u32) -> Vec<ExecutionRow>;
    unfinished_count() -> u64;
}

pass_on! { WaitStore {}
    list_suspended(after: Option<ExecutionId>, limit: u32) -> Vec<SuspendedExecution>;
    waits(execution: ExecutionId) -> Vec<Wait>;
    event_paths(name: &str) -> Vec<String>;
    waiting_for_event(name: &str, path: &str, value: Option<&str>, after: Option<EventWaiter>, limit: u32)
        -> Vec<EventWaiter>, Call::WaitingForEvent;
    waiting_for_child(child: ExecutionId) -> Option<(ExecutionId, String)>;
}

pass_on! { StateStore {}
    read_state(scope: &str, key: &str) -> Option<StateEntry>;
    read_states(scope: &str, keys: &[String]) -> Vec<Option<StateEntry>>;
    list_state(scope: &str, after: Option<&str>, limit: u32) -> Vec<StateRow>;
    write_state_and_emit(writes: Vec<StateWrite>, emits: Vec<OutboxRow>) -> ();
}

pass_on! { OutboxStore {}
    outbox_page(name: &str, after: Option<ExecutionId>, limit: u32) -> Vec<OutboxRow>, Call::OutboxPage;
    outbox_counts() -> Vec<OutboxCount>;
}

pass_on! { TriggerStore {}
    addresses() -> Vec<Address>;
    put_addresses(addresses: Vec<Address>) -> ();
    move_trigger(from: &TriggerKey, to: &TriggerKey) -> u64;
    watermarks() -> Vec<Watermark>;
    poll_states() -> Vec<(TriggerKey, PollState)>;
    known_poll_keys(trigger: &TriggerKey, keys: &[String]) -> Vec<bool>;
    poll_entries(trigger: &TriggerKey, limit: u32) -> Vec<PollEntry>;
    subscriptions() -> Vec<Subscription>;
    put_subscription(subscription: Subscription) -> (), Call::PutSubscription(&subscription);
    delete_subscription(id: &str) -> ();
    find_dedup(automation: &AutomationId, key: [u8; 32], now: Timestamp) -> Option<DedupHit>;
}

pass_on! { SecretStore {}
    get_or_init_secret(fresh: [u8; 32]) -> [u8; 32];
}

impl<L: Layer> PeerStore for Layered<L> {}

impl<L: Layer> SharedTriggerStore for Layered<L> {}

impl<L: Layer> GenerationStore for Layered<L> {}

pass_on! { MaintenanceStore {}
    prune(filter: PruneFilter, limit: u32) -> u64;
    measure() -> Capacity;
    prune_keys(before: Timestamp, limit: u32) -> u64;
    prune_dedup(before: Timestamp, limit: u32) -> u64;
    prune_state(before: Timestamp, limit: u32) -> u64;
    collect_garbage() -> u64;
}

pass_on! { Store {
        fn files(&self) -> Arc<dyn FileStorage> {
            self.store.files()
        }

        fn capacity(&self) -> Capacity {
            self.store.capacity()
        }

        fn outages(&self) -> watch::Receiver<Option<Outage>> {
            self.store.outages()
        }

        fn outage(&self) -> Option<Outage> {
            self.layer.outage().or_else(|| self.store.outage())
        }

        fn metrics(&self) -> Metrics {
            self.store.metrics()
        }

        async fn failure(&self) -> Error {
            tokio::select! {
                error = self.store.failure() => error,
                error = self.layer.failure() => error,
            }
        }
    }
    info() -> Info;
    close() -> ();
}
