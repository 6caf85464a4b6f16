//! The keeper: the one thread that starts workers, buries them, and looks after those with nothing to do.
//!
//! A worker dies with the *thread* that started it (`PR_SET_PDEATHSIG`), so that thread has to live as long as the
//! pool. A thread of the runtime may end any time it has nothing to do.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::link::Link;
use super::{PoolSettings, Shared};
use crate::protocol::{Tag, encode};

/// How often it looks for workers with nothing to do, while there are any.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// What is done with a worker that was started. A function, since some who ask are tasks and some are threads that block,
/// maybe within a runtime.
type Reply = Box<dyn FnOnce(Result<Link, String>) + Send>;

/// What the keeper is asked for.
pub(super) enum Order {
    /// Start a worker, which gives its orders by the sender.
    Start(Reply, Sender<Order>),
    /// Wait for a worker that was killed; if it fell in service, start another in its place.
    Bury(Child, Replace),
}

/// Whether another worker is to take the place of one that is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    Yes,
    No,
}

/// The way to the keeper. Its thread starts with the first worker, and ends with the pool.
pub(super) struct Keeper {
    orders: Mutex<Option<Sender<Order>>>,
    pool: Weak<Shared>,
    settings: PoolSettings,
}

impl Keeper {
    pub(super) fn new(pool: Weak<Shared>, settings: PoolSettings) -> Self {
        Self { orders: Mutex::new(None), pool, settings }
    }

    /// Starts a worker. It is there, but may not be ready yet: see [`Link::greeting`].
    pub(super) async fn start(&self) -> Result<Link, String> {
        let (reply, answer) = oneshot::channel();
        // Whoever asked may have gone: then the worker goes with the answer.
        self.order(Box::new(move |link| drop(reply.send(link))))?;
        answer.await.map_err(|error| error.to_string())?
    }

    /// As [`Keeper::start`], for a thread that may block.
    pub(super) fn start_blocking(&self) -> Result<Link, String> {
        let (reply, answer) = sync_channel(1);
        self.order(Box::new(move |link| drop(reply.send(link))))?;
        answer.recv().map_err(|error| error.to_string())?
    }

    fn order(&self, reply: Reply) -> Result<(), String> {
        let orders = self.orders()?;
        orders.send(Order::Start(reply, orders.clone())).map_err(|error| error.to_string())
    }

    fn orders(&self) -> Result<Sender<Order>, String> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*orders {
            return Ok(sender.clone());
        }
        let (sender, receiver) = channel();
        let thread = Thread { pool: Weak::clone(&self.pool), settings: self.settings.clone() };
        std::thread::Builder::new()
            .name("code-keeper".to_owned())
            .spawn(move || thread.keep(&receiver))
            .map_err(|error| error.to_string())?;
        Ok(orders.insert(sender).clone())
    }
}

/// The keeper at work. It holds no way to itself, so that it ends when nobody can ask it for anything any more.
struct Thread {
    pool: Weak<Shared>,
    settings: PoolSettings,
}

impl Thread {
    fn keep(&self, orders: &Receiver<Order>) {
        loop {
            match orders.recv_timeout(LOOK_EVERY) {
                Ok(Order::Start(reply, sender)) => reply(self.start(sender)),
                Ok(Order::Bury(mut child, replace)) => {
                    // It was killed, so this does not last. Not waited for, it would stay a zombie.
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

    /// Starts a worker in the place of one that is gone, so that the next run does not wait for it.
    fn replace(&self) {
        let Some(pool) = self.pool.upgrade() else { return };
        if pool.idle().len() < self.settings.workers
            && let Ok(sender) = pool.keeper.orders()
            && let Ok(link) = self.start(sender)
        {
            pool.put_back(link);
        }
    }

    fn start(&self, orders: Sender<Order>) -> Result<Link, String> {
        let say = |error: std::io::Error| error.to_string();
        let (ours, theirs) = UnixStream::pair().map_err(say)?;
        let memory = self.settings.memory.to_string();
        let hello = encode(Tag::Hello, &[memory.as_bytes()]).map_err(|_| "its settings are too long")?;
        (&ours).write_all(&hello).map_err(say)?;
        ours.set_nonblocking(true).map_err(say)?;
        let (aside, into) = std::io::pipe().map_err(say)?;
        // Neither side ever waits for the pipe.
        rustix::io::ioctl_fionbio(&aside, true).map_err(|error| error.to_string())?;
        rustix::io::ioctl_fionbio(&into, true).map_err(|error| error.to_string())?;
        let child = Command::new(&self.settings.program)
            .args(&self.settings.arguments)
            .env_clear()
            // No file of time zones can be read there: `Date` is in UTC wherever Cogwork runs.
            .env("TZ", "UTC0")
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(into))
            .stderr(Stdio::null())
            .spawn()
            .map_err(say)?;
        Ok(Link::new(child, ours, aside, orders))
    }
}
