//! Generations of definitions: the files of the project, deployed into a store that several nodes share. Each node activates all files
//! of the newest generation together. A node that cannot load it keeps its last valid generation, and reports the problem.
//!
//! Where no generation was ever deployed, and always where one process has the store to itself, the project folder counts.

mod deploy;
mod edit;
mod folder;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::{Move, ReloadSummary, Successor};
use runtime::Error;
use store::{Generation, RunningGeneration};
use text::diagnostic::Report;

use crate::Engine;
pub use deploy::{Deploy, DeployError, Deployed, deployable_files};
use folder::DeployedFolders;
pub(crate) use folder::FolderDeployment;

/// The number of generations that a starting node tries, newest first.
const TRIES: u32 = 5;
/// The time between two looks for a generation; a hint of another node and each beat cause further ones.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The generation that this node runs.
pub(crate) struct Generations {
    state: Mutex<State>,
    /// Held while a generation is taken or deployed.
    taking: tokio::sync::Mutex<()>,
    folders: DeployedFolders,
}

#[derive(Default)]
struct State {
    /// The generation in force, with the folder of its files.
    running: Option<(Generation, PathBuf)>,
    /// The generation that is being put in force.
    taken: Option<Generation>,
    problem: Option<String>,
}

/// The definitions that this node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningDefinitions {
    /// The generation in force; `None` if the files of the project folder are.
    pub generation: Option<Generation>,
    /// The reason why the newest generation is not in force; `None` if it is.
    pub problem: Option<String>,
}

impl Generations {
    pub(crate) fn new(data_dir: &std::path::Path) -> Self {
        let folders = DeployedFolders::new(data_dir.join("deployments"));
        Self { state: Mutex::default(), taking: tokio::sync::Mutex::new(()), folders }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the generation that is being put in force; `None` if files of the project folder are.
    pub(crate) fn being_taken(&self) -> Option<Generation> {
        self.state().taken.clone()
    }

    /// Notes the generation that is about to be put in force.
    pub(crate) fn begin(&self, generation: Generation) {
        self.state().taken = Some(generation);
    }

    /// Notes that the generation was put in force, or refused.
    pub(crate) fn end(&self) {
        self.state().taken = None;
    }

    /// Notes the generation in force, with the folder of its files.
    pub(crate) fn run(&self, generation: Generation, dir: PathBuf) {
        self.state().running = Some((generation, dir));
    }

    pub(crate) fn running(&self) -> Option<Generation> {
        self.state().running.as_ref().map(|(generation, _)| generation.clone())
    }
}

impl Engine {
    /// Returns the definitions that this node runs.
    #[must_use]
    pub fn running_definitions(&self) -> RunningDefinitions {
        let state = self.generations.state();
        let generation = state.running.as_ref().map(|(generation, _)| generation.clone());
        RunningDefinitions { generation, problem: state.problem.clone() }
    }

    /// Returns the folder of the files in force: the project folder, unless they were deployed.
    #[must_use]
    pub fn project_dir(&self) -> PathBuf {
        let state = self.generations.state();
        match &state.running {
            Some((_, dir)) if !self.settings().auto_deploy => dir.clone(),
            _ => self.settings().dir.clone(),
        }
    }

    /// Loads the definitions when the engine starts: the newest generation that loads, or else the project folder.
    pub(crate) async fn load_first(&self) -> ReloadSummary {
        if self.store().node().is_some() && self.settings().background {
            self.generations.folders.clear().await;
            if self.settings().auto_deploy {
                self.deploy_folder(false).await;
            }
            if let Some(summary) = self.take_newest().await {
                return summary;
            }
        }
        self.reload_at(catalog::ScanScope::Full).await
    }

    /// Takes each generation that is deployed, until the engine stops.
    pub(crate) async fn follow_generations(self) {
        if self.store().node().is_none() {
            return;
        }
        loop {
            tokio::select! {
                biased;
                () = self.context().closing.cancelled() => return,
                () = self.peers().generations.notified() => {}
                () = self.context().clock.sleep_for(CHECK_INTERVAL) => {}
            }
            self.take_newest().await;
        }
    }

    /// Puts the newest generation in force, if another one is. One that does not load leaves that in force, and is tried again with
    /// the next look. `None` if none was ever deployed, or the store cannot be read.
    pub(crate) async fn take_newest(&self) -> Option<ReloadSummary> {
        let engine = self.clone();
        // A task of its own: a caller that goes away must not leave a folder moved and not put in force.
        let taken = self.context().tracker.spawn(async move {
            let _one_at_a_time = engine.generations.taking.lock().await;
            engine.take_newest_now().await
        });
        taken.await.ok().flatten()
    }

    async fn take_newest_now(&self) -> Option<ReloadSummary> {
        let newest = match self.store().generations(TRIES).await {
            Ok(newest) => newest,
            Err(error) => {
                self.context().lost(&error);
                return None;
            }
        };
        if newest.is_empty() {
            return None;
        }
        let mut summary =
            ReloadSummary { generation: self.catalog().generation(), ..ReloadSummary::default() };
        let running = self.generations.running().map_or(0, |running| running.number);
        let mut problem: Option<(Generation, String)> = None;
        for generation in newest.into_iter().take_while(|generation| generation.number > running) {
            match self.take(generation.clone()).await {
                Ok(taken) => {
                    summary = taken;
                    break;
                }
                Err(reason) => {
                    problem.get_or_insert((generation, reason));
                }
            }
        }
        let text = problem
            .as_ref()
            .map(|(generation, reason)| format!("generation {} does not load: {reason}", generation.number));
        if let Some((generation, reason)) = &problem
            && self.generations.state().problem != text
        {
            self.announcer().generation_refused(generation, reason).await;
        }
        self.report_running(text);
        Some(summary)
    }

    fn report_running(&self, problem: Option<String>) {
        let mut state = self.generations.state();
        if state.problem != problem
            && let Some(problem) = &problem
        {
            tracing::error!(problem, "the newest definitions are not in force here; the last good ones stay");
        }
        state.problem.clone_from(&problem);
        let number = state.running.as_ref().map(|(generation, _)| generation.number);
        drop(state);
        self.store().report_running(RunningGeneration { number, problem });
    }

    /// Puts a generation in force. Returns the reason if that is not possible: then nothing changed.
    async fn take(&self, generation: Generation) -> Result<ReloadSummary, String> {
        let number = generation.number;
        let files = self.store().deployed_files(number).await.map_err(|error| error.to_string())?;
        let files = files.ok_or_else(|| "it was deleted meanwhile".to_owned())?;
        let folders = &self.generations.folders;
        let dir = folders
            .unpack(number, files)
            .await
            .map_err(|error| format!("its files cannot be written: {error}"))?;
        let put_in_force = |next: &Successor| self.put_in_force(next.after.clone(), &next.reload);
        let (store, in_force) = (&**self.store(), || self.catalog());
        self.generations.begin(generation.clone());
        let moved = self.loader().clone().move_to(&dir, store, in_force, put_in_force).await;
        self.generations.end();
        let successor = match moved {
            Ok(Move::Done(successor)) => successor,
            Ok(Move::Refused(reports)) => return Err(first_error(&reports)),
            Err(error) => {
                self.context().lost(&error);
                return Err(error.to_string());
            }
        };
        let Generation { author, note, .. } = &generation;
        tracing::info!(generation = number, author, note, "deployed definitions are in force");
        self.generations.run(generation, dir);
        folders.keep_latest(number).await;
        let Some(next) = successor else {
            let generation = self.catalog().generation();
            return Ok(ReloadSummary { generation, ..ReloadSummary::default() });
        };
        next.log(store, self.clock().now()).await;
        Ok(next.reload)
    }

    /// Returns the newest generations, the newest first, and for each the nodes that run it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn deployments(&self, limit: u32) -> Result<Vec<(Generation, Vec<store::NodeId>)>, Error> {
        let (generations, nodes) = (self.store().generations(limit).await?, self.store().nodes().await?);
        let with_nodes = |generation: Generation| {
            let of = nodes.iter().filter(|node| !node.dead && node.running.number == Some(generation.number));
            let of = of.map(|node| node.id).collect();
            (generation, of)
        };
        Ok(generations.into_iter().map(with_nodes).collect())
    }
}

/// Returns the first error of reports in one line, with the number of the others.
fn first_error(reports: &[Arc<Report>]) -> String {
    let errors: usize = reports.iter().map(|report| report.error_count()).sum();
    let is_error =
        |entry: &text::diagnostic::DiagnosticEntry| entry.severity == text::diagnostic::Severity::Error;
    let first = reports.iter().find_map(|report| report.entries().into_iter().find(is_error));
    match first {
        Some(entry) if errors > 1 => {
            format!("{}:{}: {} ({} more)", entry.file, entry.line, entry.message, errors - 1)
        }
        Some(entry) => format!("{}:{}: {}", entry.file, entry.line, entry.message),
        None => "the files cannot be checked".to_owned(),
    }
}
