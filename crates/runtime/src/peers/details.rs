//! The details of this node that others read: its address, its folder and its keys.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use store::{Node, NodeDetails};

use super::Peers;

impl Peers {
    /// Tells the other nodes the address of the admin listener.
    pub fn report_address(self: &Arc<Self>, address: SocketAddr) {
        let _ = self.admin_address.set(address);
        let peers = self.clone();
        self.context.tracker.spawn(async move { peers.report_details_now().await });
    }

    /// Reads the other nodes, and reports the details of this one to them.
    pub(crate) async fn report_details_now(&self) {
        // A failure of the store is reported elsewhere, and the next look at the nodes reports the details.
        if self.context.store.node().is_some()
            && let Ok(nodes) = self.context.store.nodes().await
        {
            self.report_details(&nodes);
        }
    }

    /// Compares the keys of this node with the keys of the others, and tells them about it.
    pub(crate) fn report_details(&self, nodes: &[Node]) {
        let Some(vault) = &self.context.vault else { return };
        let conflict = vault.conflict(nodes);
        self.context.store.report_details(NodeDetails {
            address: self.admin_address.get().map(ToString::to_string),
            data_dir: Some(self.context.settings.data_dir.display().to_string()),
            keys: vault.key_ids(),
            problems: conflict.iter().cloned().collect(),
            settings: None,
        });
        let mut known = self.key_conflict.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != conflict {
            if let Some(problem) = &conflict {
                tracing::error!(problem, "this daemon and the others have different keys for secrets");
            }
            *known = conflict;
        }
    }

    /// Returns the reason why this node cannot read secrets of the store, or the others could not read the secrets that are stored here.
    #[must_use]
    pub fn key_conflict(&self) -> Option<String> {
        let of_others = self.key_conflict.lock().unwrap_or_else(PoisonError::into_inner).clone();
        of_others.or_else(|| self.context.vault.as_ref()?.key_problem())
    }
}
