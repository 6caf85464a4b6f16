//! The settings that act on the shared store. One set is in force for all nodes: the set that all running nodes have, and while they
//! differ, the previous one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::{GenericClient, Row};

use super::op::{Op, params};
use super::queue::Queue;
use super::reader::{Reader, get};
use store::{Error, Options};
use store::{NodeDetails, SharedSettings};

/// The settings in force, and the details of each node that is not dead.
const READ: &str = "SELECT (SELECT value FROM meta WHERE name = 'settings'), \
    (SELECT coalesce(array_agg(coalesce(details, ''::bytea)), '{}') FROM nodes WHERE NOT dead)";
const PUT: &str = "INSERT INTO meta (name, value) VALUES ('settings', $1) \
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// The settings of this node, and those in force.
#[derive(Clone, Debug)]
pub(super) struct Agreement(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    own: SharedSettings,
    in_force: Mutex<SharedSettings>,
}

impl Agreement {
    /// The agreement of a node with these options, which begins with its own settings.
    pub(super) fn new(options: &Options) -> Self {
        let own = SharedSettings { store_size: options.max_bytes, retention: options.retention };
        Self(Arc::new(Inner { own, in_force: Mutex::new(own) }))
    }

    /// Returns the settings of this node.
    pub(super) fn own(&self) -> SharedSettings {
        self.0.own
    }

    /// Returns the settings in force.
    pub(super) fn in_force(&self) -> SharedSettings {
        *self.0.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a sentence for each setting that is not in force here.
    pub(super) fn weakness(&self) -> Vec<String> {
        let differences = self.0.own.differences(&self.in_force());
        let told = differences.into_iter().map(|difference| {
            format!("{difference} for all daemons of the store; give all daemons the same value and restart them one by one")
        });
        told.collect()
    }

    fn put_in_force(&self, settings: SharedSettings) {
        let mut in_force = self.0.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *in_force, settings) == settings {
            return;
        }
        drop(in_force);
        match self.weakness().as_slice() {
            [] => tracing::info!("the settings of this daemon for the shared store are in force"),
            differences => {
                for difference in differences {
                    tracing::warn!(
                        difference,
                        "a setting of this daemon for the shared store is not in force"
                    );
                }
            }
        }
    }

    /// Agrees with the nodes that run, in the transaction in which this one joins.
    pub(super) async fn join(&self, client: &impl GenericClient) -> Result<(), tokio_postgres::Error> {
        let Some(row) = client.query_opt(READ, &[]).await? else { return Ok(()) };
        let (stored, settings) = self.decide(&row)?;
        if stored != Some(settings) {
            client.execute(PUT, &[&encoded(&settings)]).await?;
        }
        self.put_in_force(settings);
        Ok(())
    }

    /// Agrees again, since nodes may have joined or left.
    pub(super) async fn refresh(&self, reader: &Reader, queue: &Queue) -> Result<(), Error> {
        let Some(row) = reader.row(READ, Vec::new()).await? else { return Ok(()) };
        let (stored, settings) =
            self.decide(&row).map_err(|error| Error::Read { reason: error.to_string() })?;
        if stored != Some(settings) {
            queue.write(Op::Statements(vec![(PUT, params![encoded(&settings)])])).await?;
        }
        self.put_in_force(settings);
        Ok(())
    }

    /// Returns the stored settings, and those in force from now on.
    fn decide(&self, row: &Row) -> Result<(Option<SharedSettings>, SharedSettings), tokio_postgres::Error> {
        let (stored, nodes): (Option<Vec<u8>>, Vec<Vec<u8>>) = (row.try_get(0)?, row.try_get(1)?);
        let stored: Option<SharedSettings> = stored.and_then(|text| serde_json::from_slice(&text).ok());
        let of_node = |text: Vec<u8>| serde_json::from_slice::<NodeDetails>(&text).ok()?.settings;
        let mut others = nodes.into_iter().map(of_node);
        let all_agree = others.all(|settings| settings == Some(self.0.own));
        Ok((stored, if all_agree { self.0.own } else { stored.unwrap_or(self.0.own) }))
    }
}

fn encoded(settings: &SharedSettings) -> Vec<u8> {
    serde_json::to_vec(settings).unwrap_or_default()
}

/// Reads the details of a node.
pub(super) fn details(row: &Row, index: usize) -> Result<NodeDetails, Error> {
    let text: Option<Vec<u8>> = get(row, index)?;
    // Values of a later release may have another form.
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default())
}
