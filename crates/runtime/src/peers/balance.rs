//! Shares the shards among the nodes.

use store::{Node, Shard};

use super::Peers;
use crate::error::Error;

impl Peers {
    /// Takes free shards up to the part of this node, and gives up what it has beyond it. A node that does not run the newest
    /// definitions has no part, unless there are no others. Writes only if there is something to do.
    pub(super) async fn balance_shards(&self, nodes: &[Node]) -> Result<(), Error> {
        let alive: Vec<&Node> = nodes.iter().filter(|node| !node.dead).collect();
        let current = alive.iter().filter(|node| node.running.problem.is_none());
        let (current, own_id) = (current.map(|node| node.id).collect::<Vec<_>>(), self.context.store.node());
        let part = match current.len() {
            0 => usize::from(Shard::COUNT).div_ceil(alive.len().max(1)),
            count if own_id.is_none_or(|own| current.contains(&own)) => {
                usize::from(Shard::COUNT).div_ceil(count)
            }
            _ => 0,
        };
        let owned: usize = alive.iter().map(|node| node.shards.len()).sum();
        let this = alive.iter().find(|node| Some(node.id) == own_id);
        // False if the previous pass was interrupted: memory and store then disagree.
        let is_known = this.is_none_or(|node| node.shards == self.shards.own());
        if part > 0 && (owned < usize::from(Shard::COUNT) || !is_known) {
            let own = self.context.store.take_shards().await?;
            self.adopt_handed().await?;
            self.shards.set(own);
        }
        self.shards.keep_all();
        let own = self.shards.own();
        let mut left = own.len();
        for shard in own.iter() {
            if left <= part {
                break;
            }
            // Nothing new begins in it from here on.
            let Some(rest) = self.shards.withdraw(shard) else { continue };
            if self.context.store.give_up_shard(shard).await? {
                left -= 1;
                self.shards.set(rest);
            } else {
                let mut again = rest;
                again.insert(shard);
                self.shards.set(again);
            }
        }
        if left < own.len() {
            self.context.store.tell(None, store::News::Nodes);
        }
        Ok(())
    }
}
