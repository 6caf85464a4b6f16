//! The loaders of the nodes of a cluster: each node takes the deployed generations at its own time, late, twice, or never.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::{AnnounceReload as _, Successor};
use jiff::Timestamp;
use runtime::Runtime;
use store::{Generation, GenerationSource, NodeId};
use tokio::sync::Notify;

use super::program::Program;
use super::world::World;
use crate::engine::Engine;

/// The deployed generations, and what the nodes have done with them.
#[derive(Default)]
pub(super) struct Deployments(Mutex<Deployed>);

#[derive(Clone, Default)]
pub(super) struct Deployed {
    /// The version of the files of each generation; the first one is generation 1.
    versions: Vec<usize>,
    /// Generations that a node has begun to load.
    pub(super) begun: BTreeSet<u64>,
    /// Generations that are in force at a node, each with true if it told of them before any node had begun to load a later one.
    pub(super) loaded: BTreeMap<u64, bool>,
}

impl Deployed {
    /// The version of the files of a generation.
    fn version(&self, number: u64) -> Option<usize> {
        self.versions.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    /// The versions of the files of generations.
    pub(super) fn versions_of<'n>(&self, numbers: impl Iterator<Item = &'n u64>) -> Vec<usize> {
        numbers.filter_map(|number| self.version(*number)).collect()
    }

    fn newest(&self) -> u64 {
        self.versions.len() as u64
    }
}

impl Deployments {
    pub(super) fn deploy(&self, version: usize) {
        self.change(|deployed| deployed.versions.push(version));
    }

    pub(super) fn get(&self) -> Deployed {
        self.change(|deployed| deployed.clone())
    }

    fn change<R>(&self, change: impl FnOnce(&mut Deployed) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The loader of a node.
#[derive(Clone)]
pub(super) struct NodeLoader {
    pub(super) node: NodeId,
    pub(super) world: Arc<World>,
    pub(super) program: Arc<Program>,
    pub(super) deployments: Arc<Deployments>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) engine: Engine,
    /// Notified if the node is to look for a generation.
    pub(super) hint: Arc<Notify>,
}

impl NodeLoader {
    /// Takes the newest generation each time that the node hears of one.
    pub(super) async fn follow(self) {
        loop {
            self.hint.notified().await;
            if !self.take_newest().await {
                return;
            }
        }
    }

    /// True if the newest generation is in force.
    pub(super) fn is_current(&self) -> bool {
        self.running() == self.deployments.get().newest()
    }

    fn running(&self) -> u64 {
        self.engine.generations.running().map_or(0, |running| running.number)
    }

    /// Puts the newest generation in force as `Engine::take_newest` does. Returns false if the store failed.
    pub(super) async fn take_newest(&self) -> bool {
        let (running, number) = (self.running(), self.deployments.get().newest());
        if number <= running {
            return true;
        }
        let deployed = self.deployments.change(|deployed| {
            deployed.begun.insert(number);
            deployed.clone()
        });
        // The files take a while to arrive. Meanwhile other nodes may load a later generation.
        let arrive_within = self.world.state().random.below(4);
        if arrive_within > 0 {
            self.runtime.context.clock.sleep_for(Duration::from_secs(arrive_within.into())).await;
        }
        let version = deployed.version(number).expect("it was deployed");
        let is_same = deployed.version(running) == Some(version);
        let (before, after) = (self.engine.catalog(), self.program.versions[version].catalog.clone());
        let reload = self.program.versions[version].reload.clone();
        let next = match is_same {
            true => Successor::unchanged(before),
            false => Successor { before, after, reload },
        };
        let generation = Generation {
            number,
            at: Timestamp::UNIX_EPOCH,
            author: String::new(),
            note: String::new(),
            source: GenerationSource::Folder,
            files: 0,
        };
        self.world.note(format!("{} loads generation {number}", self.node));
        self.engine.generations.begin(generation.clone());
        // A look at the generation that is interrupted before it is in force is repeated.
        let is_repeated = self.world.state().random.one_in(4);
        for _ in 0..=u32::from(is_repeated) {
            while let Err(error) = self.engine.announcer().announce(&next).await {
                self.runtime.context.lost(&error);
                if !self.runtime.context.accepting() {
                    return false;
                }
            }
        }
        self.engine.generations.end();
        self.deployments.change(|deployed| {
            let is_newest = deployed.begun.last() == Some(&number);
            *deployed.loaded.entry(number).or_default() |= is_newest;
        });
        self.engine.generations.run(generation, PathBuf::new());
        if !is_same {
            self.engine.put_in_force(next.after.clone(), &next.reload);
        }
        true
    }
}
