//! The supervisor: the single thread that starts workers, reaps them, and ends idle ones.
//!
//! A worker dies with the *thread* that started it (`PR_SET_PDEATHSIG`), so that thread has to live as long as the
//! pool. A thread of the runtime may end whenever it is idle.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::worker_handle::WorkerHandle;
use super::{PoolSettings, Shared};
use crate::program::command;
use crate::protocol::{Tag, encode};

/// The interval between checks of idle workers.
const PIPE_POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Receives a started worker. A function, since callers are tasks as well as blocking threads, maybe within a runtime.
type Reply = Box<dyn FnOnce(Result<WorkerHandle, String>) + Send>;

/// A message to the supervisor.
pub(super) enum Task {
    /// Starts a worker, which gets the sender for its own messages.
    Start(Reply, Sender<Task>),
    /// Reaps a killed worker; if it died in service, starts a replacement.
    Reap(Child, Replace),
}

/// The replacement policy for a worker that is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    Yes,
    No,
}

/// The handle of the supervisor. Its thread starts with the first worker and ends with the pool.
pub(super) struct Supervisor {
    tasks: Mutex<Option<Sender<Task>>>,
    pool: Weak<Shared>,
    settings: PoolSettings,
}

impl Supervisor {
    pub(super) fn new(pool: Weak<Shared>, settings: PoolSettings) -> Self {
        Self { tasks: Mutex::new(None), pool, settings }
    }

    /// Starts a worker. The process runs, but may not be ready yet: see [`WorkerHandle::greeting`].
    pub(super) async fn start(&self) -> Result<WorkerHandle, String> {
        let (reply, answer) = oneshot::channel();
        // If the caller is gone, the worker is dropped with the reply.
        self.enqueue(Box::new(move |worker_handle| drop(reply.send(worker_handle))))?;
        answer.await.map_err(|error| error.to_string())?
    }

    /// Blocking form of [`Supervisor::start`].
    pub(super) fn start_blocking(&self) -> Result<WorkerHandle, String> {
        let (reply, answer) = sync_channel(1);
        self.enqueue(Box::new(move |worker_handle| drop(reply.send(worker_handle))))?;
        answer.recv().map_err(|error| error.to_string())?
    }

    fn enqueue(&self, reply: Reply) -> Result<(), String> {
        let tasks = self.tasks()?;
        tasks.send(Task::Start(reply, tasks.clone())).map_err(|error| error.to_string())
    }

    fn tasks(&self) -> Result<Sender<Task>, String> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*tasks {
            return Ok(sender.clone());
        }
        let (sender, receiver) = channel();
        let thread = Thread { pool: Weak::clone(&self.pool), settings: self.settings.clone() };
        std::thread::Builder::new()
            .name("code-supervisor".to_owned())
            .spawn(move || thread.keep(&receiver))
            .map_err(|error| error.to_string())?;
        Ok(tasks.insert(sender).clone())
    }
}

/// The supervisor's thread. It holds no sender to itself, so that it ends once all others are dropped.
struct Thread {
    pool: Weak<Shared>,
    settings: PoolSettings,
}

impl Thread {
    fn keep(&self, tasks: &Receiver<Task>) {
        loop {
            match tasks.recv_timeout(PIPE_POLL_INTERVAL) {
                Ok(Task::Start(reply, sender)) => reply(self.start(sender)),
                Ok(Task::Reap(mut child, replace)) => {
                    // The process was killed, so this returns soon; without it the process would stay a zombie.
                    let _ = child.wait();
                    if replace == Replace::Yes {
                        self.replace();
                    }
                }
                Err(RecvTimeoutError::Timeout) => match self.pool.upgrade() {
                    Some(pool) => pool.sweep(),
                    None => return,
                },
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Starts a replacement for a worker that is gone, so that the next run does not wait.
    fn replace(&self) {
        let Some(pool) = self.pool.upgrade() else { return };
        pool.lost.increment();
        if pool.idle().len() < self.settings.workers
            && let Ok(sender) = pool.supervisor.tasks()
            && let Ok(worker_handle) = self.start(sender)
        {
            pool.put_back(worker_handle);
        }
    }

    fn start(&self, tasks: Sender<Task>) -> Result<WorkerHandle, String> {
        let say = |error: std::io::Error| error.to_string();
        let (ours, theirs) = UnixStream::pair().map_err(say)?;
        let memory = self.settings.memory.to_string();
        let hello = encode(Tag::Hello, &[memory.as_bytes()]).map_err(|_| "its settings are too long")?;
        (&ours).write_all(&hello).map_err(say)?;
        ours.set_nonblocking(true).map_err(say)?;
        let (pipe, into) = std::io::pipe().map_err(say)?;
        // Neither side ever blocks on the pipe.
        rustix::io::ioctl_fionbio(&pipe, true).map_err(|error| error.to_string())?;
        rustix::io::ioctl_fionbio(&into, true).map_err(|error| error.to_string())?;
        let child = command(&self.settings.program, &self.settings.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(into))
            .spawn()
            .map_err(say)?;
        if let Some(pool) = self.pool.upgrade() {
            pool.started.increment();
        }
        Ok(WorkerHandle::new(child, ours, pipe, tasks))
    }
}
