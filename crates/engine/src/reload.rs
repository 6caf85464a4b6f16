//! Taking what changed on disk: look, check, make addresses durable, swap, tell.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connector::Registry;
use model::automation::AutomationId;
use store::Address;

use crate::catalog::{Catalog, Folder, Look, Parts, Reload, assemble};
use crate::engine::{Notice, Services};
use crate::intake::random;

/// What is kept from one look at the project folder to the next.
pub(crate) struct Loader {
    builtin: Arc<Registry>,
    folder: tokio::sync::Mutex<Folder>,
    addresses: Mutex<HashMap<AutomationId, Arc<Address>>>,
    /// The Automations that were decided upon since the scheduler last asked.
    decided: Mutex<BTreeSet<AutomationId>>,
}

/// The next snapshot, not yet in force.
struct Assembled {
    catalog: Catalog,
    reload: Reload,
    /// Addresses that were made for it.
    fresh: Vec<Arc<Address>>,
}

impl Loader {
    /// For a project folder whose Automations have had these addresses.
    pub(crate) fn new(dir: &Path, builtin: Arc<Registry>, addresses: Vec<Address>) -> Self {
        let addresses =
            addresses.into_iter().map(|address| (address.automation.clone(), Arc::new(address))).collect();
        Self {
            builtin,
            folder: tokio::sync::Mutex::new(Folder::new(dir)),
            addresses: Mutex::new(addresses),
            decided: Mutex::default(),
        }
    }

    /// The Automations that were decided upon since this was last asked.
    pub(crate) fn take_decided(&self) -> BTreeSet<AutomationId> {
        std::mem::take(&mut self.decided.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The snapshot that the files make after another look at them; `None` where nothing changed.
    fn assemble(&self, previous: &Catalog, folder: &mut Folder, look: &Look) -> Option<Assembled> {
        let changed = folder.look(look);
        if changed.is_empty() && previous.generation() > 0 {
            return None;
        }
        let known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::new();
        let (catalog, reload) = assemble(Parts {
            previous,
            folder: folder.clone(),
            changed,
            builtin: &self.builtin,
            address: &mut |id, by_request| {
                let known = known.get(id).cloned();
                known.or_else(|| {
                    by_request
                        .then(|| Arc::new(new_address(id)))
                        .inspect(|address| fresh.push(address.clone()))
                })
            },
        });
        Some(Assembled { catalog, reload, fresh })
    }
}

impl Services {
    /// Looks at the folder and takes what changed. To be run in a task of its own: one that is dropped on the way would
    /// leave what was read and not taken to the next look everywhere.
    pub(crate) async fn reload(self: Arc<Self>, look: Look) -> Reload {
        let mut folder = self.loader.folder.lock().await;
        // Reading and checking is work for a thread of its own.
        let (services, mut looked) = (self.clone(), folder.clone());
        let work = tokio::task::spawn_blocking(move || {
            let assembled = services.loader.assemble(&services.catalog.load(), &mut looked, &look);
            (looked, assembled)
        });
        let nothing = || Reload { generation: self.catalog.load().generation(), ..Reload::default() };
        let (looked, assembled) = match work.await {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "loading the project failed; what was in force stays");
                return nothing();
            }
        };
        let Some(Assembled { catalog, reload, fresh }) = assembled else {
            *folder = looked;
            return nothing();
        };
        if !fresh.is_empty() {
            // An address that people are shown must outlive a crash.
            let addresses = fresh.iter().map(|address| Address::clone(address)).collect();
            if let Err(error) = self.store.put_addresses(addresses).await {
                self.lost(&error);
                return nothing();
            }
            let mut known = self.loader.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(fresh.into_iter().map(|address| (address.automation.clone(), address)));
        }
        *folder = looked;
        self.take(catalog, &reload);
        reload
    }

    fn take(&self, catalog: Catalog, reload: &Reload) {
        self.catalog.store(Arc::new(catalog));
        if self.settings.background {
            // The scheduler takes them away; where there is none they would stay for ever.
            let mut decided = self.loader.decided.lock().unwrap_or_else(PoisonError::into_inner);
            decided.extend(reload.decided.iter().cloned());
        }
        self.generation.send_replace(reload.generation);
        let _ = self.notices.send(Notice::CatalogChanged { generation: reload.generation });
        tell(reload);
    }
}

/// Two tokens of 256 random bits, base64url without padding (webhook security 2.6).
fn new_address(automation: &AutomationId) -> Address {
    let token = || URL_SAFE_NO_PAD.encode(random::<32>());
    Address { automation: automation.clone(), live: token(), test: token() }
}

fn tell(reload: &Reload) {
    for (word, ids) in [("added", &reload.added), ("changed", &reload.changed), ("removed", &reload.removed)]
    {
        // The first load of a large project is one line elsewhere, not one for each file.
        if reload.generation > 1 {
            for id in ids {
                tracing::info!(automation = %id, "{word}");
            }
        }
    }
    for id in &reload.stale {
        tracing::warn!(automation = %id, "its file does not load; the last good version stays in force");
    }
    for report in reload.reports.iter().filter(|report| report.has_errors()) {
        tracing::error!(file = report.source().path(), "\n{}", report.render(false));
    }
}
