//! Moves the stored data of a trigger to another id.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use catalog::Loader;
use ingress::{Ingress, MoveError, MoveRecords};
use model::automation::{TriggerId, TriggerKey};
use runtime::{Error, Runtime};
use store::{News, OutboxRow};

use crate::Engine;

/// Moves records in the store and in the snapshot in force.
pub(crate) struct Mover {
    runtime: Arc<Runtime>,
    /// Weak, since the ingress has the mover.
    ingress: Weak<Ingress>,
    loader: Arc<Loader>,
}

impl Mover {
    /// Creates the mover of the records of an ingress.
    pub(crate) fn new(runtime: &Arc<Runtime>, ingress: &Arc<Ingress>, loader: &Arc<Loader>) -> Self {
        Self { runtime: runtime.clone(), ingress: Arc::downgrade(ingress), loader: loader.clone() }
    }
}

#[async_trait]
impl MoveRecords for Mover {
    async fn move_records(&self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, Error> {
        let context = &self.runtime.context;
        let ingress = self.ingress.upgrade().ok_or(Error::Closing)?;
        let put_in_force = |next: &catalog::Successor| {
            ingress.on_reload(&next.reload);
            self.runtime.put_in_force(next.after.clone(), &next.reload);
        };
        let in_force = || context.catalog.load_full();
        let moved = self.loader.move_trigger(from, to, &*context.store, in_force, put_in_force).await;
        match &moved {
            Err(catalog::Error::Store(store::Error::TriggerHasRows { .. })) => {}
            Err(catalog::Error::Store(error)) => context.lost(error),
            _ => {}
        }
        let moved = moved?;
        // Events of the engine have moved, too.
        for (_, name) in OutboxRow::moved_names(from, to).into_iter().filter(|_| moved > 0) {
            context.outbox.wake(name.clone());
            context.store.tell(None, News::Emitted { name });
        }
        Ok(moved)
    }
}

impl Engine {
    /// Moves the stored data of a trigger to another id of the same automation: its address, its positions, its
    /// subscriptions, and events of the engine on their way. Returns the number of moved rows. A trigger in force goes on with them until the file has the other id.
    ///
    /// # Errors
    /// There is no such automation or trigger, the ids are not valid, rows are under both ids, both triggers are in force, or the store
    /// failed. Nothing changed.
    pub async fn move_trigger(&self, automation: &str, from: &str, to: &str) -> Result<u64, MoveError> {
        let catalog = self.catalog();
        let deployment = catalog.find(automation).map_err(Error::from)?;
        let key = |text: &str| {
            let id = TriggerId::parse(text).ok_or_else(|| {
                let length = TriggerId::MAX_LENGTH;
                Error::Input(format!(
                    "`{text}` is not the id of a trigger; write at most {length} letters, digits and `_`, and no digit first"
                ))
            })?;
            Ok::<_, Error>(deployment.automation.trigger_key(&id))
        };
        let (from, to) = (key(from)?, key(to)?);
        if from == to {
            return Err(Error::Input(format!("`{}` is both ids; give another one", from.name())).into());
        }
        let moved = self.ingress().move_trigger(&from, &to).await?;
        if moved == 0 && deployment.mount(&from.trigger).is_none() {
            catalog.find_mount(&from).map_err(Error::from)?;
        }
        self.store().tell(None, News::Addresses);
        tracing::info!(trigger = %from, %to, rows = moved, "the records of a trigger have moved");
        Ok(moved)
    }
}
