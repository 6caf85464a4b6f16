//! The operations of a store in memory for the other nodes that share it.

use async_trait::async_trait;
use model::ExecutionId;

use super::{MemoryStore, Operation};
use crate::Error;
use crate::traits::PeerStore;
use crate::types::{HandedExecution, Letter, LetterState, Load, News, Node, NodeId, Shard, ShardSet};

#[async_trait]
impl PeerStore for MemoryStore {
    fn node(&self) -> Option<NodeId> {
        self.peer.as_ref().map(|peer| peer.node)
    }

    fn may_act(&self) -> bool {
        self.check_alive(&self.memory.data()).is_ok()
    }

    fn report_load(&self, load: Load) {
        if let Some(peer) = &self.peer {
            self.memory.data().cluster.report_load(peer.node, load);
        }
    }

    async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.read(|data| data.cluster.nodes()).await
    }

    async fn owner(&self, execution: ExecutionId) -> Result<Option<NodeId>, Error> {
        self.read(|data| data.owner(execution)).await
    }

    async fn take_over(&self, after: Option<ExecutionId>) -> Result<Option<ExecutionId>, Error> {
        let node = self.own()?;
        self.write(Operation::Write, |data| Ok(data.take_over(node, after))).await
    }

    async fn handed(&self) -> Result<Vec<HandedExecution>, Error> {
        let node = self.own()?;
        self.read(|data| data.handed(node)).await
    }

    async fn confirm_handed(&self, executions: Vec<ExecutionId>) -> Result<(), Error> {
        let node = self.own()?;
        self.write(Operation::Write, |data| {
            data.confirm_handed(node, &executions);
            Ok(())
        })
        .await
    }

    async fn give(&self, to: NodeId, executions: Vec<ExecutionId>) -> Result<Vec<ExecutionId>, Error> {
        let node = self.own()?;
        self.write(Operation::Write, |data| Ok(data.give(node, to, &executions))).await
    }

    async fn take_shards(&self) -> Result<ShardSet, Error> {
        match self.node() {
            Some(node) => self.write(Operation::Write, |data| Ok(data.take_shards(node))).await,
            None => Ok(ShardSet::ALL),
        }
    }

    async fn give_up_shard(&self, shard: Shard) -> Result<bool, Error> {
        let node = self.own()?;
        self.write(Operation::Write, |data| Ok(data.give_up_shard(node, shard))).await
    }

    async fn try_lock(&self, name: &str) -> Result<bool, Error> {
        match self.node() {
            Some(node) => self.write(Operation::Write, |data| Ok(data.cluster.try_lock(node, name))).await,
            None => Ok(true),
        }
    }

    fn unlock(&self, name: &str) {
        if let Some(peer) = &self.peer {
            self.memory.data().cluster.unlock(peer.node, name);
        }
    }

    async fn send_letter(&self, letter: Letter) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            data.send_letter(letter);
            Ok(())
        })
        .await
    }

    async fn letter_state(&self, letter: &Letter) -> Result<LetterState, Error> {
        self.read(|data| data.letter_state(letter)).await
    }

    async fn delete_letter(&self, letter: &Letter) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            data.cluster.delete_letter(letter);
            Ok(())
        })
        .await
    }

    async fn letters(&self) -> Result<Vec<Letter>, Error> {
        let node = self.own()?;
        self.read(|data| data.letters(node)).await
    }

    async fn answer_letters(&self, replies: Vec<(Letter, Vec<u8>)>) -> Result<(), Error> {
        self.write(Operation::Write, |data| {
            data.cluster.answer_letters(replies);
            Ok(())
        })
        .await
    }

    async fn waiting_for_ended_children(&self) -> Result<Vec<ExecutionId>, Error> {
        let node = self.own()?;
        self.read(|data| data.waiting_for_ended_children(node)).await
    }

    fn tell(&self, to: Option<NodeId>, news: News) {
        if !self.faults.loses_news() {
            self.memory.data().cluster.tell(self.node(), to, &news);
        }
    }

    async fn next_news(&self) -> News {
        let received = match &self.peer {
            Some(peer) => peer.news.lock().await.recv().await,
            None => None,
        };
        match received {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }
}
