//! A daemon over a project of its own, the senders that keep it busy, and the judge of its behaviour.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;

use super::load::{self, Addresses, Load, Shared};
use super::oracle::Oracle;
use super::ticks::Ticks;
use super::work::{self, Work};
use super::{Error, Verdict};
use crate::daemon::Daemon;
use crate::project::Project;
use crate::recorder::Recorder;

/// The time limit after a start for the end of all executions that were open before it.
pub(super) const END_WITHIN: Duration = Duration::from_secs(30);
/// The time limit for other expected events.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at what the sink has received.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The number of acknowledged requests without which a round proves nothing.
pub(super) const PROGRESS: u64 = 100;

/// The options of a rig.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    /// True to include a schedule of one second.
    pub(super) ticks: bool,
    /// The number of further schedules of one second.
    pub(super) schedules: usize,
    /// The length of the pause of asynchronous executions; a moment by default.
    pub(super) pause: Option<&'a str>,
    /// True to retry calls: some of them are made to fail.
    pub(super) retries: bool,
    /// True if instants of the schedule may be missing, since the clock is not reliable.
    pub(super) has_gaps: bool,
    /// The parent folder of the project; a temporary folder by default.
    pub(super) within: Option<&'a Path>,
    /// Lines of `cogwork.yaml`.
    pub(super) settings: &'a str,
    /// Variables of the daemon's surroundings.
    pub(super) variables: Vec<(String, String)>,
    /// The address of the store of each daemon. One daemon with a file by default.
    pub(super) stores: Vec<String>,
    /// Further automations, each with its name.
    pub(super) automations: Vec<(&'a str, String)>,
    /// Connections, each with its name.
    pub(super) connections: Vec<(&'a str, String)>,
}

/// A daemon, which has a project of its own with the same files as the others.
#[derive(Debug)]
struct Node {
    project: Project,
    daemon: Option<Daemon>,
    store: Option<String>,
    /// Variables of its own surroundings.
    variables: Vec<(String, String)>,
    /// The address of its webhooks; while it is `None`, no sender uses this daemon.
    addresses: Option<Addresses>,
}

/// A daemon under test, with its load.
#[derive(Debug)]
pub(super) struct Rig {
    nodes: Vec<Node>,
    shared: Arc<Shared>,
    load: Option<Load>,
    http: Client,
    random: fastrand::Rng,
    variables: Vec<(String, String)>,
    has_gaps: bool,
    /// True if the daemon's disk fails during the run.
    disk_dies: bool,
    verdict: Verdict,
}

impl Rig {
    /// A project, a sink and no running sender or daemon.
    pub(super) async fn new(name: &'static str, seed: u64, parts: Parts<'_>) -> Result<Self, Error> {
        // The oracle's files are never on the mistreated disk.
        let records = tempfile::Builder::new().prefix("cogwork-faults-").tempdir()?.keep();
        let sink = Recorder::with_journal(&records.join("received.jsonl")).await?;
        let pause = parts.pause.unwrap_or("50ms");
        let work = Work { sink: sink.url(), retries: parts.retries, pause };
        let mut nodes = Vec::new();
        let stores =
            if parts.stores.is_empty() { vec![None] } else { parts.stores.into_iter().map(Some).collect() };
        for store in stores {
            let project = parts.within.map_or_else(Project::new, Project::within)?;
            work.write(&project)?;
            if parts.ticks {
                work.write_ticks(&project)?;
            }
            work.write_schedules(&project, parts.schedules)?;
            for (name, text) in &parts.automations {
                project.automation(name, text)?;
            }
            for (name, text) in &parts.connections {
                project.write(&format!("connections/{name}.yaml"), text)?;
            }
            if !parts.settings.is_empty() {
                project.write("cogwork.yaml", parts.settings)?;
            }
            nodes.push(Node { project, daemon: None, store, variables: Vec::new(), addresses: None });
        }
        Ok(Self {
            nodes,
            shared: Shared::new(sink, &records.join("acknowledged.jsonl"))?,
            load: None,
            http: load::client()?,
            random: fastrand::Rng::with_seed(seed),
            variables: parts.variables,
            has_gaps: parts.has_gaps,
            disk_dies: parts.within.is_some(),
            verdict: Verdict::new(name, seed, records),
        })
    }

    /// Starts the daemons that do not run and gives the senders their addresses.
    pub(super) async fn start(&mut self) -> Result<(), Error> {
        for index in 0..self.nodes.len() {
            if self.nodes[index].daemon.is_none() {
                self.start_node(index).await?;
            }
        }
        Ok(())
    }

    /// Starts one of the daemons.
    pub(super) async fn start_node(&mut self, index: usize) -> Result<(), Error> {
        let began = Instant::now();
        let node = &self.nodes[index];
        let variables = self.variables.iter().chain(&node.variables);
        let daemon =
            variables.fold(Daemon::builder(&node.project), |daemon, (name, value)| daemon.env(name, value));
        let daemon = if self.disk_dies { daemon.on_a_disk_that_dies() } else { daemon };
        let daemon = match &node.store {
            Some(store) => daemon.env("COGWORK_STORE", store),
            None => daemon,
        };
        let daemon = daemon.start().await?;
        self.verdict.slowest_start = self.verdict.slowest_start.max(began.elapsed());
        self.nodes[index].daemon = Some(daemon);
        let addresses = Addresses {
            asynchronous: self.live_url_at(index, work::ASYNC).await?,
            synchronous: self.live_url_at(index, work::SYNC).await?,
        };
        self.nodes[index].addresses = Some(addresses);
        self.tell_addresses();
        Ok(())
    }

    /// Sets variables of one of the daemons, from its next start on.
    pub(super) fn surround(&mut self, index: usize, variables: &[(String, String)]) {
        self.nodes[index].variables = variables.to_vec();
    }

    /// The address of the asynchronous webhook of one of the daemons.
    pub(super) fn url_at(&self, index: usize) -> String {
        self.nodes[index]
            .addresses
            .as_ref()
            .map_or_else(String::new, |addresses| addresses.asynchronous.clone())
    }

    /// From now on no sender uses this daemon.
    pub(super) fn avoid(&mut self, index: usize) {
        self.nodes[index].addresses = None;
        self.tell_addresses();
    }

    fn tell_addresses(&self) {
        self.shared.serve_at(self.nodes.iter().filter_map(|node| node.addresses.clone()).collect());
    }

    /// Lets the senders begin.
    pub(super) fn load(&mut self) {
        self.load = Some(Load::start(&self.shared, &self.http));
    }

    pub(super) fn project(&self) -> &Project {
        &self.nodes[0].project
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn http(&self) -> &Client {
        &self.http
    }

    pub(super) fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    pub(super) fn verdict(&mut self) -> &mut Verdict {
        &mut self.verdict
    }

    pub(super) fn daemon(&self) -> Result<&Daemon, Error> {
        self.daemon_at(0)
    }

    /// One of the daemons.
    pub(super) fn daemon_at(&self, index: usize) -> Result<&Daemon, Error> {
        self.nodes[index].daemon.as_ref().ok_or(Error::NoDaemon)
    }

    /// Waits until this many more requests were acknowledged. Without them the round proves nothing.
    pub(super) async fn progress(&mut self, acknowledged: u64) {
        let wanted = self.shared.oracle().acknowledged() + acknowledged;
        let what = format!(
            "no progress: {acknowledged} requests were not acknowledged within {} s",
            PATIENCE.as_secs()
        );
        self.wait(PATIENCE, &what, |oracle| oracle.acknowledged() >= wanted).await;
    }

    /// Waits so long, and returns how many requests were acknowledged per second meanwhile.
    pub(super) async fn rate(&self, length: Duration) -> f64 {
        let (begun, before) = (Instant::now(), self.shared.oracle().acknowledged());
        let mut looks = tokio::time::interval(CHECK_INTERVAL.min(length));
        while begun.elapsed() < length {
            looks.tick().await;
            // Locking the oracle reads the requests that the sink has received.
            drop(self.shared.oracle());
        }
        let acknowledged = self.shared.oracle().acknowledged() - before;
        acknowledged as f64 / begun.elapsed().as_secs_f64()
    }

    /// Waits until all schedules have run the latest instant that any of them has run and each one before it, and judges them up to it.
    /// The order is open: after a schedule moves to another daemon, the former one may still be executing earlier instants.
    pub(super) async fn finish_ticks(&self, schedules: usize, patience: Duration) {
        let last = self.shared.oracle().ticks().last();
        let what = format!("not all of the {schedules} schedules have run their instants up to {last:?}");
        let have_run =
            |ticks: &Ticks| ticks.schedules_at(last) == schedules && ticks.missing(last).is_empty();
        self.wait(patience, &what, |oracle| have_run(oracle.ticks())).await;
        self.shared.oracle().judge_ticks(last);
    }

    /// Waits until a random number of further effects, up to `most`, was received.
    pub(super) async fn some_more(&mut self, most: usize) {
        let mut received = self.shared.sink().count();
        let wanted = *received.borrow() + self.random.usize(..=most);
        // If they do not come, this moment is as good as any.
        let _ =
            tokio::time::timeout(Duration::from_secs(1), received.wait_for(|count| *count >= wanted)).await;
    }

    /// Kills the daemon as a crash would, and waits until all that it sent is known.
    pub(super) async fn kill(&mut self) -> Result<(), Error> {
        self.kill_node(0).await?;
        self.shared.sink().idle().await?;
        self.shared.oracle().next_life();
        Ok(())
    }

    /// Kills one of the daemons; its sent requests may still arrive.
    pub(super) async fn kill_node(&mut self, index: usize) -> Result<(), Error> {
        let daemon = self.take(index)?;
        Ok(daemon.kill().await?)
    }

    /// Takes a daemon that is about to end. No sender uses it any more.
    fn take(&mut self, index: usize) -> Result<Daemon, Error> {
        let daemon = self.nodes[index].daemon.take().ok_or(Error::NoDaemon)?;
        self.avoid(index);
        self.keep(&daemon)?;
        Ok(daemon)
    }

    /// Freezes the daemon, which sends and answers nothing any more.
    pub(super) fn freeze(&self) -> Result<(), Error> {
        Ok(self.daemon()?.freeze()?)
    }

    /// True if the daemon has ended, or is about to: it accepts no more, and only finishes its responses. In an outage of its store it
    /// accepts nothing either, and lives.
    pub(super) async fn is_ending(&mut self) -> Result<bool, Error> {
        if self.has_ended()? {
            return Ok(true);
        }
        let url = format!("{}/readyz", self.daemon()?.hooks_url().trim_end_matches('/'));
        let answer = self.http().get(url).send().await;
        if answer.is_ok_and(|answer| answer.status() == reqwest::StatusCode::OK) {
            return Ok(false);
        }
        Ok(!self.has_outage().await)
    }

    /// Waits for the end of an outage of the store. True if the daemon has ended, or is about to.
    pub(super) async fn ends_after_outage(&mut self, patience: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + patience;
        let mut received = self.shared.sink().count();
        while self.has_outage().await && Instant::now() < deadline {
            let _ = tokio::time::timeout(CHECK_INTERVAL, received.changed()).await;
        }
        self.is_ending().await
    }

    async fn has_outage(&self) -> bool {
        self.ask("/status").await.is_ok_and(|status| !status["outage"].is_null())
    }

    /// True if the daemon has ended by itself.
    pub(super) fn has_ended(&mut self) -> Result<bool, Error> {
        self.has_ended_at(0)
    }

    /// True if one of the daemons has ended by itself.
    pub(super) fn has_ended_at(&mut self, index: usize) -> Result<bool, Error> {
        Ok(self.nodes[index].daemon.as_mut().ok_or(Error::NoDaemon)?.has_ended()?.is_some())
    }

    /// Blames each daemon that has ended by itself.
    pub(super) fn all_live(&mut self, after: &str) -> Result<(), Error> {
        for index in 0..self.nodes.len() {
            if self.nodes[index].daemon.is_some() && self.has_ended_at(index)? {
                let said = self.daemon_at(index)?.output();
                let last = said.lines().rev().take(3).collect::<Vec<_>>().join("\n");
                self.blame(Some(format!("{after} the daemon {index} ended: {last}")));
            }
        }
        Ok(())
    }

    /// Asks the daemon to stop, and waits for it.
    pub(super) async fn stop(&mut self) -> Result<ExitStatus, Error> {
        self.daemon()?.terminate()?;
        self.ended().await
    }

    /// Waits for the daemon's end, which something else has brought about.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, Error> {
        let status = self.ended_node(0).await?;
        self.shared.sink().idle().await?;
        self.shared.oracle().next_life();
        Ok(status)
    }

    /// Waits for the end of one of the daemons, which something else has brought about.
    pub(super) async fn ended_node(&mut self, index: usize) -> Result<ExitStatus, Error> {
        let daemon = self.nodes[index].daemon.take().ok_or(Error::NoDaemon)?;
        self.avoid(index);
        let (status, said) = daemon.ended_with_output().await?;
        self.keep_output(&said)?;
        Ok(status)
    }

    /// Keeps the daemon's output beside the sent and received requests.
    fn keep(&self, daemon: &Daemon) -> Result<(), Error> {
        self.keep_output(&daemon.output())
    }

    fn keep_output(&self, said: &str) -> Result<(), Error> {
        let path = self.verdict.records.join("daemon.log");
        let mut file = File::options().create(true).append(true).open(path)?;
        Ok(file.write_all(said.as_bytes())?)
    }

    /// The output of the daemons that have ended.
    pub(super) fn ended_output(&self) -> String {
        std::fs::read_to_string(self.verdict.records.join("daemon.log")).unwrap_or_default()
    }

    /// Starts again after an end; the executions that were open before it must end in time.
    pub(super) async fn start_and_finish(&mut self) -> Result<(), Error> {
        let owed = self.shared.oracle().open_numbers();
        self.start().await?;
        let began = Instant::now();
        let what = format!("not everything came to its end within {} s of the start", END_WITHIN.as_secs());
        self.wait(END_WITHIN, &what, |oracle| oracle.have_ended(&owed)).await;
        self.verdict.slowest_end = self.verdict.slowest_end.max(began.elapsed());
        Ok(())
    }

    /// Waits for something that the judge can see; blames the daemon if it does not come.
    pub(super) async fn wait(&self, patience: Duration, what: &str, holds: impl Fn(&Oracle) -> bool) -> bool {
        let mut received = self.shared.sink().count();
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            received.mark_unchanged();
            if holds(&self.shared.oracle()) {
                return true;
            }
            if tokio::time::Instant::now() >= deadline {
                let mut oracle = self.shared.oracle();
                let open = oracle.open_numbers();
                oracle.blame(Some(format!("{what}; open: {open:?}")));
                return false;
            }
            // Answers are seen too, not only effects.
            let _ = tokio::time::timeout(Duration::from_millis(100), received.changed()).await;
        }
    }

    /// Notes a broken promise that was seen here.
    pub(super) fn blame(&self, wrong: Option<String>) {
        self.shared.oracle().blame(wrong);
    }

    /// True if there is no violation so far.
    pub(super) fn is_well(&self) -> bool {
        self.shared.oracle().violations().is_empty()
    }

    /// Ends the load, waits for the end of everything, and returns the verdict.
    pub(super) async fn settle(mut self) -> Result<Verdict, Error> {
        if let Some(load) = self.load.take() {
            load.stop().await;
        }
        self.wait(END_WITHIN, "not everything came to its end", |oracle| oracle.open() == 0).await;
        for row in self.unsuccessful().await? {
            self.blame(Some(format!("an execution has not succeeded: {row}")));
        }
        for index in (0..self.nodes.len()).rev() {
            if self.nodes[index].daemon.is_none() {
                continue;
            }
            self.daemon_at(index)?.terminate()?;
            let status = self.ended_node(index).await?;
            self.blame((!status.success()).then(|| format!("the daemon ended with {status}")));
        }
        self.shared.sink().idle().await?;
        let mut oracle = self.shared.oracle();
        if !self.has_gaps {
            let last = oracle.ticks().last();
            oracle.judge_ticks(last);
        }
        self.verdict.hear(&oracle);
        drop(oracle);
        Ok(self.verdict)
    }

    /// Ends the load and the daemons. Only these violations count: acknowledged requests are lost, as intended.
    pub(super) async fn give_up(mut self, violations: Vec<String>) -> Result<Verdict, Error> {
        if let Some(load) = self.load.take() {
            load.stop().await;
        }
        for index in 0..self.nodes.len() {
            if self.nodes[index].daemon.is_some() {
                self.kill_node(index).await?;
            }
        }
        self.verdict.acknowledged += self.shared.oracle().acknowledged();
        self.verdict.violations = violations;
        Ok(self.verdict)
    }

    /// Executions that have not succeeded, after the running ones had time to be stored.
    async fn unsuccessful(&self) -> Result<Vec<Value>, Error> {
        let deadline = tokio::time::Instant::now() + END_WITHIN;
        loop {
            let path = "/executions?status=queued,running,waiting,failed,stuck,cancelled&limit=5";
            let left = self.ask(path).await?["executions"].as_array().cloned().unwrap_or_default();
            // A tick may begin at any time.
            let is_under_way =
                |row: &Value| ["queued", "running"].iter().any(|status| row["status"] == *status);
            let left: Vec<Value> = left
                .into_iter()
                .filter(|row| {
                    !row["automation"].as_str().is_some_and(|name| name.starts_with(work::TICKS))
                        || !is_under_way(row)
                })
                .collect();
            if !left.iter().any(is_under_way) || tokio::time::Instant::now() >= deadline {
                return Ok(left);
            }
            let mut received = self.shared.sink().count();
            let _ = tokio::time::timeout(Duration::from_millis(100), received.changed()).await;
        }
    }

    /// All executions of an automation, as the list has them.
    pub(super) async fn executions(&self, automation: &str) -> Result<Vec<Value>, Error> {
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.ask(&format!("/executions?automation={automation}&limit=200{cursor}")).await?;
            found.extend(page["executions"].as_array().cloned().unwrap_or_default());
            let Some(next) = page["next"].as_str() else { return Ok(found) };
            cursor = format!("&cursor={next}");
        }
    }

    /// The API's response to a GET.
    pub(super) async fn ask(&self, path: &str) -> Result<Value, Error> {
        self.ask_at(0, path).await
    }

    async fn ask_at(&self, index: usize, path: &str) -> Result<Value, Error> {
        let daemon = self.daemon_at(index)?;
        let url = format!("{}/api/v1{path}", daemon.admin_url());
        let answer = self.http.get(url).bearer_auth(daemon.admin_token()?).send().await;
        let answer = answer.map_err(|error| Error::Silent { error, said: daemon.output() })?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// The live address of an automation.
    pub(super) async fn live_url(&self, automation: &str) -> Result<String, Error> {
        self.live_url_at(0, automation).await
    }

    /// The live address of an automation at one of the daemons.
    pub(super) async fn live_url_at(&self, index: usize, automation: &str) -> Result<String, Error> {
        let shown = self.ask_at(index, &format!("/automations/{automation}")).await?;
        shown["liveUrl"].as_str().map(str::to_owned).ok_or_else(|| Error::NoAddress(shown.to_string()))
    }
}
