//! The real daemon as a process of its own: the `cogwork` binary over a project folder, on free ports.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::canary;
use crate::project::Project;

/// The time limit for the start and the end of the daemon.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit for the rest of its output after its end.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes of its output that are kept for messages.
const LARGEST_OUTPUT: usize = 1 << 20;
/// Variables that are passed on to it; nothing else of this process's surroundings is.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"];

/// Errors of starting or stopping a daemon.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no binary to start.
    #[error("there is no `{}`: build it first with `cargo build --bin {name}`", path.display())]
    NoBinary {
        /// Its name.
        name: String,
        /// The expected path.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("the daemon cannot be started or ended: {0}")]
    Io(#[from] std::io::Error),
    /// It ended, or took too long.
    #[error("the daemon {what}; it said:\n{output}")]
    NotServing {
        /// The exit status.
        what: String,
        /// Its output.
        output: String,
    },
}

/// The path of a binary of this workspace, built in the same profile as the program that asks.
///
/// # Errors
/// It has not been built.
pub fn binary(name: &str) -> Result<PathBuf, Error> {
    let own = std::env::current_exe()?;
    // A test lies in `target/<profile>/deps/`, a binary in `target/<profile>/`.
    let folder = own.parent().filter(|folder| folder.ends_with("deps")).and_then(Path::parent);
    let folder = folder.or_else(|| own.parent()).unwrap_or(Path::new("."));
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if path.is_file() { Ok(path) } else { Err(Error::NoBinary { name: name.to_owned(), path }) }
}

/// A call of `cogwork` in a project, without anything of this process's surroundings.
///
/// # Errors
/// The binary has not been built.
pub fn cogwork(project: &Project) -> Result<Command, Error> {
    let mut command = Command::new(binary("cogwork")?);
    // Nor the service of this machine.
    command
        .env_clear()
        .env("COGWORK_SERVICE_FILE", "")
        .current_dir(project.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command.envs(PASSED_ON.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    Ok(command)
}

/// A daemon that has not been started.
#[derive(Debug)]
pub struct Builder<'p> {
    project: &'p Project,
    variables: Vec<(OsString, OsString)>,
    arguments: Vec<OsString>,
    is_searched: bool,
}

impl Builder<'_> {
    /// Sets a variable of its surroundings.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Its disk will die under it, so that nothing it leaves behind can be searched.
    #[must_use]
    pub fn on_a_disk_that_dies(mut self) -> Self {
        self.is_searched = false;
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// The binary has not been built, or it does not serve within 30 s.
    pub async fn start(self) -> Result<Daemon, Error> {
        let mut command = cogwork(self.project)?;
        command
            .args(["serve", "--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(self.arguments)
            .env("COGWORK_OUTBOUND_ALLOW", "127.0.0.1")
            .envs(self.variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let output = Arc::new(Output::default());
        let readers = [
            child.stdout.take().map(|stream| tokio::spawn(read(stream, output.clone()))),
            child.stderr.take().map(|stream| tokio::spawn(read(stream, output.clone()))),
        ];
        let mut readers = readers.into_iter().flatten().collect();
        let announced = announcement(self.project, &mut child, &output, &mut readers).await?;
        Ok(Daemon {
            child,
            readers,
            announced,
            output,
            data_dir: self.project.data_dir(),
            is_searched: self.is_searched,
        })
    }
}

/// The output of the daemon so far.
#[derive(Debug, Default)]
struct Output {
    text: Mutex<String>,
    lines: watch::Sender<u64>,
}

impl Output {
    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, line: &str) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if text.len() + line.len() < LARGEST_OUTPUT {
            text.push_str(line);
            text.push('\n');
        }
        drop(text);
        self.lines.send_modify(|count| *count += 1);
    }
}

async fn read(stream: impl AsyncRead + Unpin, output: Arc<Output>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        output.add(&line);
    }
}

/// Waits until all output of an ended daemon is read. Its child processes may go on, and keep its output open.
async fn read_to_end(readers: &mut Vec<JoinHandle<()>>) {
    let _ = tokio::time::timeout(LAST_OUTPUT, futures_util::future::join_all(readers.drain(..))).await;
}

/// `daemon.json`, by which a running daemon can be found.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Announced {
    pid: u32,
    admin: SocketAddr,
    hooks: SocketAddr,
}

impl Announced {
    fn read(data_dir: &Path, pid: Option<u32>) -> Option<Self> {
        let text = std::fs::read_to_string(data_dir.join("daemon.json")).ok()?;
        serde_json::from_str::<Self>(&text).ok().filter(|found| Some(found.pid) == pid)
    }
}

/// Waits for the file with the daemon's addresses, which is read again after each line of the daemon's output.
async fn announcement(
    project: &Project,
    child: &mut Child,
    output: &Output,
    readers: &mut Vec<JoinHandle<()>>,
) -> Result<Announced, Error> {
    let (data_dir, pid) = (project.data_dir(), child.id());
    let mut lines = output.lines.subscribe();
    let found = async {
        loop {
            if let Some(found) = Announced::read(&data_dir, pid) {
                return Some(found);
            }
            if lines.changed().await.is_err() {
                return None;
            }
        }
    };
    let failed = |what: String| Error::NotServing { what, output: output.text() };
    tokio::select! {
        found = tokio::time::timeout(PATIENCE, found) => match found {
            Ok(Some(found)) => Ok(found),
            _ => Err(failed(format!("did not serve within {} s", PATIENCE.as_secs()))),
        },
        ended = child.wait() => {
            let ended = ended?;
            read_to_end(readers).await;
            Err(failed(format!("ended with {ended}")))
        }
    }
}

/// A running daemon. Dropping it kills it. After its end, however it came, its files and its output are searched for secrets.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    readers: Vec<JoinHandle<()>>,
    announced: Announced,
    output: Arc<Output>,
    data_dir: PathBuf,
    /// True if the files that it leaves are searched for secrets.
    is_searched: bool,
}

impl Daemon {
    /// A daemon over `project`, on free ports, that may call this machine.
    pub fn builder(project: &Project) -> Builder<'_> {
        Builder { project, variables: Vec::new(), arguments: Vec::new(), is_searched: true }
    }

    /// The id of its process.
    ///
    /// # Errors
    /// It has ended.
    pub fn id(&self) -> Result<u32, Error> {
        let gone = || Error::NotServing { what: "has ended".to_owned(), output: self.output() };
        self.child.id().ok_or_else(gone)
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The system refuses.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        Ok(self.child.try_wait()?)
    }

    /// The address of its webhooks: `http://127.0.0.1:port`.
    pub fn hooks_url(&self) -> String {
        format!("http://{}", self.announced.hooks)
    }

    /// The address of its API: `http://127.0.0.1:port`.
    pub fn admin_url(&self) -> String {
        format!("http://{}", self.announced.admin)
    }

    /// The token of its API.
    ///
    /// # Errors
    /// The file with it cannot be read.
    pub fn admin_token(&self) -> Result<String, Error> {
        Ok(std::fs::read_to_string(self.data_dir.join("admin-token"))?.trim().to_owned())
    }

    /// Its output so far.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Waits until its output contains `words`.
    ///
    /// # Errors
    /// The output does not contain them within the time limit.
    pub async fn wait_for_output(&self, words: &str) -> Result<(), Error> {
        let mut lines = self.output.lines.subscribe();
        let said = lines.wait_for(|_| self.output.text().contains(words));
        match tokio::time::timeout(PATIENCE, said).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::NotServing { what: format!("did not say `{words}`"), output: self.output() }),
        }
    }

    /// Kills it, as a crash would: it gets no chance to do anything. Returns when it is gone.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(mut self) -> Result<(), Error> {
        self.child.kill().await?;
        Ok(())
    }

    /// Asks it to stop, without waiting for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub fn terminate(&self) -> Result<(), Error> {
        self.signal(Signal::TERM)
    }

    /// Freezes it, as if no processor ran it any more. Its pending requests to the system are still done.
    ///
    /// # Errors
    /// The system refuses.
    pub fn freeze(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Lets it run again after [`Daemon::freeze`].
    ///
    /// # Errors
    /// The system refuses.
    pub fn thaw(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        // Without an id it has ended already.
        pid.map_or(Ok(()), |pid| Ok(kill_process(pid, signal).map_err(std::io::Error::from)?))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not end within a minute.
    pub async fn ended(self) -> Result<ExitStatus, Error> {
        Ok(self.ended_with_output().await?.0)
    }

    /// Waits for its end, and returns its output too.
    ///
    /// # Errors
    /// It does not end within 30 s.
    pub async fn ended_with_output(mut self) -> Result<(ExitStatus, String), Error> {
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => {
                let status = status?;
                read_to_end(&mut self.readers).await;
                Ok((status, self.output()))
            }
            Err(_) => Err(Error::NotServing {
                what: format!("did not end within {} s", PATIENCE.as_secs()),
                output: self.output(),
            }),
        }
    }

    /// Asks it to stop and waits for its end.
    ///
    /// # Errors
    /// The system refuses, or it does not end within 30 s.
    pub async fn stop(self) -> Result<ExitStatus, Error> {
        self.terminate()?;
        self.ended().await
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let output = self.output();
        canary::look(&output, "what the daemon said");
        let own = self.admin_token().unwrap_or_default();
        assert!(own.is_empty() || !output.contains(&own), "the daemon said the token of its API");
        // A test may have taken its project away, or its disk.
        if self.is_searched && self.data_dir.exists() {
            let searched = canary::search(&self.data_dir);
            assert!(searched.is_ok_and(|files| files > 0), "the data folder cannot be searched for secrets");
        }
    }
}
