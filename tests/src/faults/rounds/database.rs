//! The database fails, or the path between it and the daemon: the daemon waits, and continues. It never ends, so that no effect may come
//! twice.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use super::super::oracle::Sent;
use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use crate::daemon::{self, Error as DaemonError};
use crate::proxy::Proxy;
use postgres_server::{Server, unprivileged};

/// The number of connections that are cut in a round.
const CUTS: u32 = 20;
/// Up to how many bytes of answers a cut waits: it falls into any of them.
const MAX_BYTES: u32 = 8000;
/// Up to how many effects after enough progress it fails.
const MAX_FURTHER_EFFECTS: usize = 60;
/// The time limit for the detection and the recovery.
const PATIENCE: Duration = Duration::from_secs(45);

async fn rig(name: &'static str, effort: Effort, store: String) -> Result<Rig, Error> {
    let parts = Parts { ticks: true, stores: vec![store], ..Parts::default() };
    let mut rig = Rig::new(name, effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    Ok(rig)
}

/// Waits until all open executions have ended. The daemon must live.
async fn goes_on(rig: &mut Rig, after: &str) -> Result<(), Error> {
    let owed = rig.shared().oracle().open_numbers();
    rig.wait(PATIENCE, &format!("{after} it does not go on"), |oracle| oracle.have_ended(&owed)).await;
    let has_ended = rig.has_ended()?;
    rig.blame(has_ended.then(|| format!("{after} it ended")));
    rig.verdict().rounds += 1;
    Ok(())
}

/// Waits until new requests are refused. Those from before wait for the database, and so do their senders.
pub(super) async fn until_refused(rig: &Rig, when: &str) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while tokio::time::Instant::now() < deadline {
        let sent = rig.shared().send_one(rig.http(), Sent::Async);
        if tokio::time::timeout(Duration::from_secs(1), sent).await == Ok(Some(503)) {
            return;
        }
    }
    rig.blame(Some(format!("{when} nothing is refused")));
}

/// The server is killed and started again.
pub(super) async fn restart(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let mut rig = rig("database-restart", effort, Server::url(&[&server])).await?;
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        server.restart()?;
        goes_on(&mut rig, "after a restart of the database").await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}

/// Connections are cut within an answer: many times that to a commit is lost.
pub(super) async fn cuts(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let proxy = Proxy::start(server.socket()).await?;
    let mut rig = rig("database-cuts", effort, proxy.url()).await?;
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        for _ in 0..CUTS {
            let before = proxy.cuts();
            proxy.cut_after(rig.random().u32(1..=MAX_BYTES));
            rig.wait(PATIENCE, "no answer comes that could be cut", |_| proxy.cuts() > before).await;
        }
        goes_on(&mut rig, "after cut connections").await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.verdict().notes.push(format!("{} connections cut", proxy.cuts()));
    rig.settle().await
}

/// All bytes are dropped on the way without an error: the connections stay open. In every other round new connections work, and
/// only the older ones stay silent.
pub(super) async fn swallow(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let proxy = Proxy::start(server.socket()).await?;
    let mut rig = rig("database-silence", effort, proxy.url()).await?;
    // One of each kind at least.
    for round in 0..effort.rounds.max(2) {
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        if round % 2 == 0 {
            proxy.swallow();
            until_refused(&rig, "while the database is silent").await;
            proxy.heal();
        } else {
            proxy.swallow_open_ones();
        }
        goes_on(&mut rig, "after silence").await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}

/// A pooler in transaction mode is refused, one in session mode is not.
pub(super) async fn pooler(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let mut pool = Pool::start(&server, "transaction")?;
    let parts = Parts { stores: vec![pool.url()], ..Parts::default() };
    let mut rig = Rig::new("pooler", effort.seed, parts).await?;
    for _ in 0..effort.rounds {
        let said = match rig.start().await {
            Err(Error::Daemon(DaemonError::NotServing { output, .. })) => output,
            Err(error) => return Err(error),
            Ok(()) => "it starts".to_owned(),
        };
        let is_refused = said.contains("a pooler in transaction mode");
        rig.blame((!is_refused).then(|| format!("a pooler in transaction mode is not refused: {said}")));
        let examined =
            daemon::cogwork(rig.project())?.args(["doctor", "--store", &pool.url()]).output().await?;
        let examined = String::from_utf8_lossy(&examined.stdout).into_owned();
        let is_named = ["a pooler in transaction mode", "session-pooled address"]
            .iter()
            .all(|words| examined.contains(words));
        rig.blame((!is_named).then(|| format!("doctor does not name the pooler: {examined}")));
        if !rig.is_well() {
            let wrong = rig.shared().oracle().violations().to_vec();
            return rig.give_up(wrong).await;
        }
        rig.verdict().rounds += 1;
    }
    pool.again("session")?;
    rig.start().await?;
    rig.load();
    rig.progress(PROGRESS).await;
    rig.settle().await
}

/// PgBouncer before a server.
struct Pool {
    folder: PathBuf,
    running: Child,
}

impl Pool {
    fn start(server: &Server, mode: &str) -> Result<Self, Error> {
        let folder = server.folder().to_owned();
        let running = Self::run(&folder, mode)?;
        Ok(Self { folder, running })
    }

    /// Starts it in another mode.
    fn again(&mut self, mode: &str) -> Result<(), Error> {
        self.running.kill()?;
        self.running.wait()?;
        self.running = Self::run(&self.folder, mode)?;
        Ok(())
    }

    fn run(folder: &Path, mode: &str) -> Result<Child, Error> {
        let place = folder.display();
        let config = folder.join(format!("{mode}.ini"));
        let settings = format!(
            "[databases]\npostgres = host={place} user=cogwork\n[pgbouncer]\nunix_socket_dir = {place}\nlisten_addr =\n\
             listen_port = 6432\nauth_type = any\npool_mode = {mode}\n"
        );
        std::fs::write(&config, settings)?;
        let socket = folder.join(".s.PGSQL.6432");
        let _ = std::fs::remove_file(&socket);
        // Programs of the system are not in every path.
        let program = Path::new("/usr/sbin/pgbouncer");
        let mut command = unprivileged(if program.is_file() { program } else { Path::new("pgbouncer") });
        let child = command.arg("-q").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let begun = std::time::Instant::now();
        while !socket.exists() {
            if begun.elapsed() > PATIENCE {
                let reason = "it does not start".to_owned();
                return Err(Error::Tool { program: "pgbouncer".to_owned(), reason });
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(child)
    }

    fn url(&self) -> String {
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://cogwork@{host}:6432/postgres")
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}
