//! Hostile requests against a daemon: every row of the corpus in `tests/hostile`, with operands from bodies of three sizes,
//! many at one time. An observer beside them measures the answers to others and the memory of the daemon.

mod data;
mod files;
mod rows;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::daemon::{self, Builder, Daemon};
use crate::project::{Project, repository};

pub use data::{Amounts, run_data};
pub use files::run_files;
pub use rows::run_rows;

/// The sizes of the bodies, in bytes.
const SIZES: [usize; 3] = [1 << 10, 100 << 10, 5 << 20];
/// The address space of the daemon, in bytes: an evaluation without a bound ends the daemon instead of the machine.
const ADDRESS_SPACE: u64 = 4_500_000_000;
/// The hostile requests at one time beside one for each processor.
const MORE_THAN_PROCESSORS: usize = 8;
/// The longest wait for the answer to one hostile request.
const PATIENCE: Duration = Duration::from_secs(120);

/// Rows by kind and name: a list of expressions, or a schema.
pub type Corpus = BTreeMap<String, BTreeMap<String, Value>>;

/// The bounds that a daemon has to keep.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Memory above that of the idle daemon, in bytes.
    pub memory: u64,
    /// The 99th percentile of the answers to others.
    pub others: Duration,
}

/// The findings of a run.
#[derive(Debug, Default)]
pub struct Findings {
    /// The hostile requests that were answered.
    pub answered: usize,
    /// The answers by status.
    pub statuses: BTreeMap<u16, usize>,
    /// The peak of the daemon's memory above idle, in bytes.
    pub peak: u64,
    /// The answers to others: their number, and their median, 99th percentile and maximum.
    pub others: (usize, Duration, Duration, Duration),
    /// The broken bounds, in words.
    pub broken: Vec<String>,
}

impl Findings {
    /// Notes the bounds that are broken.
    fn judge(&mut self, bounds: Bounds) {
        if self.peak > bounds.memory {
            self.broken.push(format!("the daemon took {} MiB above idle", self.peak >> 20));
        }
        if self.others.2 > bounds.others {
            self.broken.push(format!("the 99th percentile of others was {:?}", self.others.2));
        }
    }
}

/// The number of `times`, with their median, 99th percentile and maximum.
fn percentiles(mut times: Vec<Duration>) -> (usize, Duration, Duration, Duration) {
    times.sort();
    let at = |permille: usize| times.get(times.len() * permille / 1000).copied().unwrap_or(PATIENCE);
    (times.len(), at(500), at(990), times.last().copied().unwrap_or(PATIENCE))
}

/// A daemon with a bound on its address space.
struct Started {
    daemon: Daemon,
    pid: u32,
    client: reqwest::Client,
    /// The addresses of its automations, by name.
    addresses: BTreeMap<String, String>,
    /// The memory of the idle daemon.
    idle: u64,
}

impl Started {
    /// Starts a daemon with these further `arguments`.
    async fn new(builder: Builder<'_>, arguments: &[String]) -> Result<Self, daemon::Error> {
        let builder = arguments.iter().fold(builder, |builder, argument| builder.argument(argument));
        let daemon = builder.start().await?;
        let pid = daemon.id()?;
        limit(pid)?;
        let client = client().map_err(io::Error::other)?;
        let addresses = addresses(&daemon, &client).await?;
        Ok(Self { daemon, pid, client, addresses, idle: memory(pid, "VmRSS:")? })
    }
}

/// The answers to others while requests are sent.
struct Observed {
    stop: Arc<AtomicBool>,
    others: JoinHandle<Vec<Duration>>,
}

impl Observed {
    fn new(client: reqwest::Client, others: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let others = tokio::spawn(observe(client, others, stop.clone()));
        Self { stop, others }
    }

    /// Ends, and adds the answers and the peak of the daemon's memory above `idle` to the findings.
    async fn judge(self, findings: &mut Findings, pid: u32, idle: u64, bounds: Bounds) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        findings.others = percentiles(self.others.await.map_err(io::Error::other)?);
        findings.peak = memory(pid, "VmHWM:")?.saturating_sub(idle);
        findings.judge(bounds);
        Ok(())
    }
}

/// Reads the corpus.
///
/// # Errors
/// The file is not there, or is no corpus.
pub fn corpus() -> io::Result<Corpus> {
    let path: PathBuf = repository().join("tests/hostile/corpus.json");
    serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::other)
}

/// Sends every row to a daemon with these further `arguments`, and holds it to `bounds`.
///
/// # Errors
/// The daemon cannot be started, or the system refuses.
pub async fn run(bounds: Bounds, sizes: usize, arguments: &[String]) -> Result<Findings, daemon::Error> {
    let corpus = corpus()?;
    let project = Project::new()?;
    write_automations(&project, &corpus)?;
    let Started { daemon, pid, client, addresses, idle } =
        Started::new(Daemon::builder(&project), arguments).await?;
    let rows = corpus.values().map(BTreeMap::len).sum::<usize>();
    if addresses.len() != rows + 1 {
        let message = format!("{} of {rows} rows do not load", rows + 1 - addresses.len().min(rows + 1));
        return Err(io::Error::other(message).into());
    }
    let observed = Observed::new(client.clone(), addresses["others"].clone());
    let mut findings = Findings::default();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    for size in SIZES.into_iter().take(sizes) {
        let body = bytes::Bytes::from(body(size).to_string());
        let hostile = addresses.iter().filter(|(name, _)| *name != "others");
        let requests = hostile.map(|(name, address)| {
            let request = client.post(address).header("content-type", "application/json").body(body.clone());
            async move { (name.clone(), request.send().await) }
        });
        let mut answers = stream::iter(requests).buffer_unordered(processors + MORE_THAN_PROCESSORS);
        while let Some((name, answer)) = answers.next().await {
            match answer {
                Ok(answer) => {
                    findings.answered += 1;
                    *findings.statuses.entry(answer.status().as_u16()).or_default() += 1;
                }
                Err(error) => findings.broken.push(format!("`{name}` with {size} bytes: {error}")),
            }
        }
    }
    observed.judge(&mut findings, pid, idle, bounds).await?;
    if !daemon.stop().await?.success() {
        findings.broken.push("the daemon did not end well".to_owned());
    }
    Ok(findings)
}

/// Sends every row alone, and returns the peak of the daemon's memory above that before the request, in bytes, with the size of
/// the body and the name of the row: the largest first.
///
/// # Errors
/// The daemon cannot be started, or the system refuses.
pub async fn run_each(sizes: usize) -> Result<Vec<(u64, usize, String)>, daemon::Error> {
    let corpus = corpus()?;
    let project = Project::new()?;
    write_automations(&project, &corpus)?;
    let daemon = Daemon::builder(&project).start().await?;
    let pid = daemon.id()?;
    let client = client().map_err(io::Error::other)?;
    let addresses = addresses(&daemon, &client).await?;
    let mut peaks = Vec::new();
    for size in SIZES.into_iter().take(sizes) {
        let body = bytes::Bytes::from(body(size).to_string());
        for (kind, rows) in &corpus {
            for (at, name) in rows.keys().enumerate() {
                let Some(address) = addresses.get(&format!("{kind}-{at}")) else { continue };
                // Resets the peak (proc(5)).
                std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
                let before = memory(pid, "VmRSS:")?;
                let request = client.post(address).header("content-type", "application/json");
                request.body(body.clone()).send().await.map_err(io::Error::other)?;
                let peak = memory(pid, "VmHWM:")?.saturating_sub(before);
                peaks.push((peak, size, format!("{kind} {name}")));
            }
        }
    }
    peaks.sort_by(|one, other| other.cmp(one));
    Ok(peaks)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the sender, not the engine: the guard of addresses is the daemon's"
)]
fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().timeout(PATIENCE).build()
}

/// Writes an automation for each row, and one for others. JSON is YAML.
fn write_automations(project: &Project, corpus: &Corpus) -> io::Result<()> {
    for (kind, rows) in corpus {
        for (at, row) in rows.values().enumerate() {
            let mut webhook = json!({"mode": "sync", "verify": "none", "timeout": "100s", "maxBody": "8MiB"});
            let steps = if kind == "schema" {
                webhook["schema"] = row.clone();
                json!([{"set": {"a": 1}}])
            } else {
                let expressions = row.as_array().into_iter().flatten().filter_map(Value::as_str);
                let step = |text: &str| {
                    let text = format!("${{{{ {} }}}}", text.replace("B.", "vars.b.").replace('B', "vars.b"));
                    json!({"onError": "continue", "set": {"x": text}})
                };
                let first = json!({"set": {"b": "${{ trigger.results.body.data }}"}});
                std::iter::once(first).chain(expressions.map(step)).collect()
            };
            let automation = json!({"timeout": "100s", "trigger": {"webhook": webhook}, "steps": steps});
            project.automation(&format!("{kind}-{at}"), &automation.to_string())?;
        }
    }
    write_others(project)
}

/// Writes the automation of the small requests beside the hostile ones.
fn write_others(project: &Project) -> io::Result<()> {
    let others = json!({
        "trigger": {"webhook": {"mode": "sync", "verify": "none"}},
        "steps": [{"respond": {"json": {"ok": true}}}],
    });
    project.automation("others", &others.to_string())
}

/// The address of each automation, by its id. A file that the daemon refuses is an error: its row would test nothing.
async fn addresses(
    daemon: &Daemon,
    client: &reqwest::Client,
) -> Result<BTreeMap<String, String>, daemon::Error> {
    let list = client.get(format!("{}/api/v1/automations", daemon.admin_url()));
    let list = list.bearer_auth(daemon.admin_token()?).send().await.map_err(io::Error::other)?;
    let list: Value = list.json().await.map_err(io::Error::other)?;
    let mut addresses = BTreeMap::new();
    for automation in list["automations"].as_array().or(list["items"].as_array()).into_iter().flatten() {
        let id = automation["id"].as_str().unwrap_or_default();
        let Some(token) = address(automation) else {
            return Err(io::Error::other(format!("`{id}` has no address: {automation}")).into());
        };
        addresses.insert(id.to_owned(), format!("{}{token}", daemon.hooks_url()));
    }
    Ok(addresses)
}

/// The path of an automation's live address.
fn address(automation: &Value) -> Option<String> {
    let live = automation.get("liveUrl")?;
    let path = live.as_str()?;
    Some(path.find("/trigger/").map_or_else(|| format!("/trigger/{path}"), |at| path[at..].to_owned()))
}

fn limit(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let limit = Rlimit { current: Some(ADDRESS_SPACE), maximum: Some(ADDRESS_SPACE) };
    prlimit(pid, Resource::As, limit)?;
    Ok(())
}

/// A figure of a process's memory, in bytes.
fn memory(pid: u32, name: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other(format!("there is no {name} of process {pid}")))
}

/// Sends one small request after another, and returns the time of each answer.
async fn observe(client: reqwest::Client, address: String, stop: Arc<AtomicBool>) -> Vec<Duration> {
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = client.post(&address).header("content-type", "application/json").body("{}").send().await;
        let is_well = answer.is_ok_and(|answer| answer.status().is_success());
        times.push(if is_well { began.elapsed() } else { PATIENCE });
    }
    times
}

/// A body of about `size` bytes, with something of each kind, and a tree for schemas that come to themselves.
fn body(size: usize) -> Value {
    let part = size / 10;
    let most = |count: usize, limit: usize| count.min(limit);
    let numbers = |from: usize| (from..from + most(part / 7, 40_000)).collect::<Vec<_>>();
    let entry = |at: usize| json!({"k": format!("a+b{at}"), "v": "x".repeat(at % 7)});
    let tree = (0..28).fold(json!({"type": "z"}), |below, _| json!({"type": "a", "children": [below]}));
    let object = (0..most(part / 20, 15_000)).map(|at| (format!("key{at}"), json!(at)));
    let mut body = json!({
        "s": "a".repeat(part * 2),
        "t": "line of text\n".repeat(part / 13),
        "u": "ab".repeat(part / 6),
        "f": "%s %5d %-10s".repeat(part / 24),
        "g": "%(a)5000d".repeat(part / 18),
        "l": numbers(0),
        "m": numbers(500_000),
        "w": (0..most(part / 12, 20_000)).map(|at| format!("k{at} word")).collect::<Vec<_>>(),
        "q": (0..most(part / 30, 10_000)).map(entry).collect::<Vec<_>>(),
        "o": object.collect::<serde_json::Map<_, _>>(),
        "p": (0..most(part / 40, 5_000)).map(|at| format!("(a|b{at}){{3}}c*$")).collect::<Vec<_>>(),
        "n": 1_000_000_000,
        "i": 7,
        "d": "2026-01-31T08:30:00Z",
        "j": format!("[{}1]", "1,".repeat(part / 4)),
        "x": format!("<a>{}</a>", "<b c='d'>e</b>".repeat(part / 28)),
        "c": "a,b,c\n".repeat(part / 12),
        "type": "a",
    });
    body["children"] = json!([tree]);
    body
}
