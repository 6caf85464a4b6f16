//! A proxy between a daemon and its database, which cuts and swallows.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The treatment of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They pass.
    Passing,
    /// Bytes in both directions are dropped without an error.
    Swallowing,
    /// Connections are closed.
    Closed,
}

/// The treatment of the bytes of all connections, and of those that were opened before.
#[derive(Clone, Copy, Debug)]
struct State {
    mode: Mode,
    /// The number of the last connection that stays silent for ever.
    silent: u64,
}

/// The state that the connections share.
#[derive(Debug)]
struct Shared {
    socket: Mutex<PathBuf>,
    state: watch::Sender<State>,
    /// The bytes from the server until the connection on which the last of them comes is cut; negative: none is.
    left: AtomicI64,
    cuts: AtomicU64,
    connections: AtomicU64,
}

/// A proxy on a free port of this machine. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy before the server with this socket.
    ///
    /// # Errors
    /// The system gives no port.
    pub async fn start(socket: PathBuf) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            socket: Mutex::new(socket),
            state: watch::Sender::new(State { mode: Mode::Passing, silent: 0 }),
            left: AtomicI64::new(-1),
            cuts: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, accepting })
    }

    /// The address of a store through it.
    #[must_use]
    pub fn url(&self) -> String {
        Self::url_of(std::slice::from_ref(self))
    }

    /// The address of a store through these, one of which leads to the primary.
    #[must_use]
    pub fn url_of(proxies: &[Self]) -> String {
        let hosts: Vec<String> = proxies.iter().map(|proxy| proxy.address.to_string()).collect();
        format!("postgres://cogwork@{}/postgres", hosts.join(","))
    }

    /// Leads new connections to another server.
    pub fn lead_to(&self, socket: PathBuf) {
        *self.shared.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }

    /// From now on all bytes are dropped without an error.
    pub fn swallow(&self) {
        self.set(Mode::Swallowing);
    }

    /// From now on all bytes on the open connections are dropped without an error. New ones work.
    pub fn swallow_open_ones(&self) {
        let last = self.shared.connections.load(Ordering::SeqCst);
        self.shared.state.send_modify(|state| state.silent = last);
    }

    /// From now on bytes pass again. Dropped bytes are lost: the connections that were open are closed.
    pub fn heal(&self) {
        self.set(Mode::Closed);
        self.set(Mode::Passing);
    }

    fn set(&self, mode: Mode) {
        self.shared.state.send_modify(|state| state.mode = mode);
    }

    /// Cuts a connection after this many bytes of answers in total, the one with the last of them. The cut may fall within a message.
    pub fn cut_after(&self, bytes: u32) {
        self.shared.left.store(i64::from(bytes), Ordering::SeqCst);
    }

    /// The number of cut connections.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.set(Mode::Closed);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::spawn(carry(client, number, shared.clone()));
    }
}

/// Carries the bytes of a connection until either side ends or it is cut.
async fn carry(mut client: TcpStream, number: u64, shared: Arc<Shared>) {
    let mut state = shared.state.subscribe();
    let socket = shared.socket.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Ok(mut server) = UnixStream::connect(socket).await else { return };
    let _ = client.set_nodelay(true);
    let (mut questions, mut answers) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    let mut was_swallowed = false;
    loop {
        let State { mode, silent } = *state.borrow_and_update();
        if mode == Mode::Closed || (was_swallowed && mode == Mode::Passing && number > silent) {
            return;
        }
        if mode == Mode::Swallowing || number <= silent {
            was_swallowed = true;
            if state.changed().await.is_err() {
                return;
            }
            continue;
        }
        tokio::select! {
            biased;
            changed = state.changed() => if changed.is_err() { return },
            read = client.read(&mut questions) => match read {
                Ok(count) if count > 0 && server.write_all(&questions[..count]).await.is_ok() => {}
                _ => return,
            },
            read = server.read(&mut answers) => match read {
                Ok(count) if count > 0 => {
                    let passing = pass(&shared, count);
                    if client.write_all(&answers[..passing]).await.is_err() || passing < count {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}

/// Returns how many of these bytes of an answer pass: all, unless the connection is cut within them.
fn pass(shared: &Shared, count: usize) -> usize {
    let taken = i64::try_from(count).unwrap_or(i64::MAX);
    let before = shared.left.fetch_sub(taken, Ordering::SeqCst);
    if before < 0 || before >= taken {
        return count;
    }
    shared.cuts.fetch_add(1, Ordering::SeqCst);
    usize::try_from(before).unwrap_or_default()
}
