//! PostgreSQL servers of tests and benchmarks, from the programs that the system has installed: primaries and standbys, each on a
//! socket in a folder of its own. The product does not use this crate.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

/// The user that runs a server if this process runs as root, which the server refuses.
const UNPRIVILEGED: (&str, u32) = ("nobody", 65534);
/// The folder in which Debian's packages install each version.
const INSTALLED: &str = "/usr/lib/postgresql";
/// The arguments of every server. Its durability is PostgreSQL's default.
const ARGUMENTS: &str = "-c listen_addresses= -c max_connections=300 -c shared_buffers=64MB -c max_wal_size=256MB \
                         -c synchronous_commit=on";
/// The time limit for the start of a server, and for a standby to follow.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Starts the server and waits for the end of its input, which comes with the end of this process however it ends. Then it stops the
/// server, and deletes the folder unless the server is to be started again.
const RUN: &str = r#"
trap '' INT
"$1/postgres" -D "$2/data" -k "$2" $3 >>"$2/log" 2>&1 </dev/null &
read -r _
"$1/pg_ctl" stop -m immediate -w -D "$2/data" >/dev/null 2>&1
wait
[ -e "$2/stopped" ] || rm -rf "$2" 2>/dev/null
"#;

/// A function that hides the one of the system and returns a shifted time. It must be in the search path of all sessions, before the
/// functions of the system; the tables that they create come into its schema.
const SHIFTED_CLOCK: &str = "
    CREATE SCHEMA shifted;
    CREATE TABLE shifted.clock (seconds int8 NOT NULL);
    INSERT INTO shifted.clock VALUES (0);
    CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 s'' FROM shifted.clock';
    ALTER ROLE cogwork SET search_path = shifted, pg_catalog";

/// The options of a server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The folder in which its own folder is made; by default that of the system for temporary files.
    pub parent: Option<PathBuf>,
    /// The folder of its write-ahead log; by default one within its own folder.
    pub wal: Option<PathBuf>,
    /// Arguments of `initdb`.
    pub initdb: Vec<String>,
    /// Further arguments, such as `-c fsync=off`.
    pub arguments: String,
    /// A network namespace in which it listens at this address, on the usual port, and trusts everybody.
    pub network: Option<(String, String)>,
}

/// A server on a socket in a temporary folder. Dropping it stops it and deletes its data.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    programs: PathBuf,
    setup: Setup,
    /// Its input keeps the server running.
    running: Option<Child>,
}

/// A server cannot do what a test needs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// There are no programs of PostgreSQL.
    #[error("PostgreSQL is not installed; install the package `postgresql`")]
    NotInstalled,
    /// A program of the server fails.
    #[error("`{program}`: {reason}")]
    Failed {
        /// Its name.
        program: String,
        /// Its output.
        reason: String,
    },
}

impl Server {
    /// Makes a server and starts it.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn start() -> Result<Self, Error> {
        Self::start_with("")
    }

    /// Makes a server and starts it with further arguments, such as `-c fsync=off`.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn start_with(arguments: &str) -> Result<Self, Error> {
        Self::start_as(Setup { arguments: arguments.to_owned(), ..Setup::default() })
    }

    /// Makes a server whose data is in a new folder inside of `parent`, and starts it.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn start_in(parent: &Path, arguments: &str) -> Result<Self, Error> {
        let parent = Some(parent.to_owned());
        Self::start_as(Setup { parent, arguments: arguments.to_owned(), ..Setup::default() })
    }

    /// Makes a server with these options and starts it.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn start_as(setup: Setup) -> Result<Self, Error> {
        let mut server = Self::in_new_folder(setup)?;
        server.initialize()?;
        server.run()?;
        Ok(server)
    }

    /// Copies this server to a standby that follows it, and starts that.
    ///
    /// # Errors
    /// It does not start, or does not follow.
    pub fn standby(&self) -> Result<Self, Error> {
        let arguments = self.setup.arguments.clone();
        let mut standby = Self::in_new_folder(Setup { arguments, ..Setup::default() })?;
        let data = standby.data();
        let arguments =
            ["-U", "cogwork", "-c", "fast", "-X", "stream", "-R", "--no-sync", "-h"].map(OsStr::new);
        let places = [self.folder.as_os_str(), OsStr::new("-D"), data.as_os_str()];
        standby.program("pg_basebackup", &[&arguments[..], &places].concat())?;
        standby.run()?;
        self.until("SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'")?;
        Ok(standby)
    }

    fn in_new_folder(setup: Setup) -> Result<Self, Error> {
        let programs = programs().ok_or(Error::NotInstalled)?;
        let parent = setup.parent.clone().unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new().prefix("cogwork-pg-").tempdir_in(parent)?.keep();
        if is_root() {
            std::os::unix::fs::chown(&folder, Some(UNPRIVILEGED.1), None)?;
            if let Some(wal) = &setup.wal {
                std::os::unix::fs::chown(wal, Some(UNPRIVILEGED.1), None)?;
            }
        }
        Ok(Self { folder, programs, setup, running: None })
    }

    fn initialize(&self) -> Result<(), Error> {
        let data = self.data();
        let mut arguments =
            ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--username=cogwork"]
                .map(OsStr::new)
                .to_vec();
        arguments.extend(self.setup.initdb.iter().map(OsStr::new));
        if let Some(wal) = &self.setup.wal {
            arguments.extend([OsStr::new("--waldir"), wal.as_os_str()]);
        }
        arguments.extend([OsStr::new("-D"), data.as_os_str()]);
        self.program("initdb", &arguments)?;
        if self.setup.network.is_some() {
            let mut trusted = File::options().append(true).open(data.join("pg_hba.conf"))?;
            trusted.write_all(b"host all all all trust\n")?;
        }
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of its socket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// The address of a store on these servers, one of which is the primary.
    #[must_use]
    pub fn url(servers: &[&Self]) -> String {
        let hosts = servers.iter().map(|server| server.folder.display().to_string().replace('/', "%2F"));
        format!("postgres://cogwork@{}/postgres", hosts.collect::<Vec<_>>().join(","))
    }

    /// The id of its main process; `None` if it is stopped.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        text.lines().next()?.trim().parse().ok()
    }

    /// A command with one of its programs, such as `pgbench`, as the user that the server runs as.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        unprivileged(&self.programs.join(program))
    }

    /// Starts it, after [`Self::stop`] or for the first time.
    ///
    /// # Errors
    /// It does not start.
    pub fn run(&mut self) -> Result<(), Error> {
        // It is not there the first time.
        let _ = std::fs::remove_file(self.stopped());
        let mut arguments = format!("{ARGUMENTS} {}", self.setup.arguments);
        let mut command = unprivileged(Path::new("sh"));
        if let Some((namespace, address)) = &self.setup.network {
            arguments = format!("{arguments} -c listen_addresses={address}");
            let mut inside = Command::new("ip");
            inside.args(["netns", "exec", namespace]).arg(command.get_program()).args(command.get_args());
            command = inside;
        }
        command.args(["-c", RUN, "sh"]).args([&self.programs, &self.folder]).arg(&arguments);
        self.running = Some(command.stdin(Stdio::piped()).spawn()?);
        blocking(|| self.wait_until_ready())
    }

    fn wait_until_ready(&self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            if self.is_ready()? {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(failed("postgres", self.log("log")));
            }
            std::thread::park_timeout(CHECK_INTERVAL);
        }
    }

    /// True if it takes connections.
    ///
    /// # Errors
    /// The system refuses.
    pub fn is_ready(&self) -> Result<bool, Error> {
        let mut ready = Command::new(self.programs.join("pg_isready"));
        Ok(ready.arg("-q").arg("-h").arg(&self.folder).args(["-t", "5"]).status()?.success())
    }

    /// The output of the server so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.log("log")
    }

    /// Stops it as a crash does.
    ///
    /// # Errors
    /// The system refuses.
    pub fn stop(&mut self) -> Result<(), Error> {
        File::create(self.stopped())?;
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        if let Some(mut running) = self.running.take() {
            drop(running.stdin.take());
            blocking(|| running.wait())?;
        }
        Ok(())
    }

    /// The file that keeps the data of a server that is stopped.
    fn stopped(&self) -> PathBuf {
        self.folder.join("stopped")
    }

    /// Stops it as a crash does, and starts it again.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart(&self) -> Result<(), Error> {
        let data = self.data();
        let arguments = ["restart", "-w", "-s", "-m", "immediate", "-D"].map(OsStr::new);
        self.program("pg_ctl", &[&arguments[..], &[data.as_os_str()]].concat())
    }

    /// Makes a standby a primary.
    ///
    /// # Errors
    /// It does not become one.
    pub fn promote(&self) -> Result<(), Error> {
        let data = self.data();
        let arguments = ["promote", "-w", "-s", "-D"].map(OsStr::new);
        self.program("pg_ctl", &[&arguments[..], &[data.as_os_str()]].concat())
    }

    /// Runs SQL as its owner, and returns the output.
    ///
    /// # Errors
    /// The server refuses.
    pub fn sql(&self, sql: &str) -> Result<String, Error> {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "cogwork", "-d", "postgres"]);
        let output = blocking(|| command.arg("-h").arg(&self.folder).args(["-c", sql]).output())?;
        if !output.status.success() {
            return Err(failed("psql", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Waits until a query gives true.
    ///
    /// # Errors
    /// It does not, or the server refuses.
    pub fn until(&self, sql: &str) -> Result<(), Error> {
        let begun = Instant::now();
        while self.sql(sql)? != "t" {
            if begun.elapsed() > PATIENCE {
                return Err(failed("psql", format!("never true: {sql}")));
            }
            blocking(|| std::thread::park_timeout(CHECK_INTERVAL));
        }
        Ok(())
    }

    /// Lets `clock_timestamp()` return a time that [`Self::shift_clock`] sets, in all sessions that begin from now on. The timers of the
    /// server keep the true time. `libfaketime` cannot do this: it allocates memory in the server's signal handlers, and the server
    /// dies of that.
    ///
    /// # Errors
    /// The server refuses.
    pub fn make_clock_shiftable(&self) -> Result<(), Error> {
        self.sql(SHIFTED_CLOCK).map(drop)
    }

    /// Sets the clock to this many seconds from the true time.
    ///
    /// # Errors
    /// The clock is not shiftable, or the server refuses.
    pub fn shift_clock(&self, seconds: i64) -> Result<(), Error> {
        self.sql(&format!("UPDATE shifted.clock SET seconds = {seconds}")).map(drop)
    }

    /// Runs one of the server's programs to its end.
    fn program(&self, name: &str, arguments: &[&OsStr]) -> Result<(), Error> {
        // The server that it starts keeps its output open: a pipe would never end.
        let mut command = self.command(name);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(self.folder.join("programs"))?);
        if blocking(|| command.status())?.success() {
            return Ok(());
        }
        Err(failed(name, self.log("programs")))
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is stopped even where this fails: its input ends with this process.
        let _ = self.end();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the folder of the server's programs, of the newest version that is installed.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(INSTALLED).into_iter().flatten().flatten();
    let found = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("postgres").is_file().then_some((version, programs))
    });
    found.max().map(|(_, programs)| programs)
}

/// Returns a command that runs as another user if this process runs as root.
#[must_use]
pub fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = UNPRIVILEGED.1.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn failed(program: &str, reason: impl ToString) -> Error {
    Error::Failed { program: program.to_owned(), reason: reason.to_string() }
}

/// Blocks this thread. Other tasks of a runtime with several threads run meanwhile.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
