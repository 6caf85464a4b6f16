//! A PostgreSQL server for tests, from the programs of the system.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The user that runs the server if the tests run as root, which the server refuses.
const UNPRIVILEGED: (&str, u32) = ("nobody", 65534);

/// Starts the server and waits for the end of its input, which comes with the end of the test however it ends. Then it stops the
/// server and deletes the folder.
const RUN: &str = r#"
trap '' INT
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses='' -c max_connections=300 -c shared_buffers=64MB \
  -c max_wal_size=256MB -c synchronous_commit=on $3 >"$2/log" 2>&1 </dev/null &
read -r _
"$1/pg_ctl" stop -m immediate -w -D "$2/data" >/dev/null 2>&1
wait
rm -rf "$2"
"#;

/// A server on a socket in a temporary folder. Dropping it stops the server and deletes its data.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    programs: PathBuf,
    /// Its input keeps the server running.
    running: Child,
}

/// A schema of a server, which has no tables at first.
#[derive(Debug, Clone)]
pub struct PostgresSpace {
    folder: PathBuf,
    schema: String,
}

impl PostgresServer {
    /// Starts a server; `None` if PostgreSQL is not installed.
    ///
    /// # Panics
    /// It is installed and does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// Starts a server with further arguments, such as `-c fsync=off`.
    ///
    /// # Panics
    /// It is installed and does not start.
    #[must_use]
    pub fn start_with(arguments: &str) -> Option<Self> {
        let programs = programs()?;
        let folder = std::env::temp_dir().join(format!("cogwork-pg-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).expect("the folder is made");
        if is_root() {
            std::os::unix::fs::chown(&folder, Some(UNPRIVILEGED.1), None).expect("the folder is given away");
        }
        let made = unprivileged(&programs.join("initdb"))
            .args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--username=cogwork", "-D"])
            .arg(folder.join("data"))
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let running = unprivileged(Path::new("sh"))
            .args(["-c", RUN, "sh"])
            .args([&programs, &folder])
            .arg(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let server = Self { folder, programs, running };
        server.wait();
        Some(server)
    }

    fn wait(&self) {
        let ready = || {
            let mut command = Command::new(self.programs.join("pg_isready"));
            command
                .arg("-q")
                .arg("-h")
                .arg(&self.folder)
                .args(["-t", "10"])
                .status()
                .is_ok_and(|status| status.success())
        };
        let begun = std::time::Instant::now();
        while !ready() {
            if begun.elapsed() > std::time::Duration::from_secs(60) {
                let mut log = String::new();
                let read = std::fs::File::open(self.folder.join("log"))
                    .and_then(|mut file| file.read_to_string(&mut log));
                panic!("the server does not start: {read:?} {log}");
            }
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
    }

    /// Stops the server as a crash does, and starts it again.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&self) {
        let mut command = unprivileged(&self.programs.join("pg_ctl"));
        command.args(["restart", "-w", "-m", "immediate", "-D"]).arg(self.folder.join("data"));
        let restarted = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("pg_ctl runs");
        assert!(restarted.success(), "the server does not start again");
    }

    /// Returns the folder of the server's socket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a schema of its own for a store.
    ///
    /// # Panics
    /// The server refuses.
    #[must_use]
    pub fn space(&self) -> PostgresSpace {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let schema = format!("space{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.run(&format!("CREATE SCHEMA {schema}"));
        PostgresSpace { folder: self.folder.clone(), schema }
    }

    /// Runs SQL as the owner of the server, and returns what it prints.
    ///
    /// # Panics
    /// The server refuses.
    pub fn run(&self, sql: &str) -> String {
        let mut command = Command::new(self.programs.join("psql"));
        let output = command
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "cogwork", "-d", "postgres", "-h"])
            .arg(&self.folder)
            .args(["-c", sql])
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.running.stdin.take());
        let _ = self.running.wait();
    }
}

impl PostgresSpace {
    /// Returns the address of a store in this schema.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("cogwork")
    }

    /// Returns the address for another user.
    #[must_use]
    pub fn url_as(&self, user: &str) -> String {
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{host}/postgres?options=-c%20search_path%3D{}", self.schema)
    }

    /// Returns the name of the schema.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }
}

/// Returns the folder of the server's programs, of the newest version that is installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let programs = entry.path().join("bin");
            programs.join("postgres").is_file().then_some((version, programs))
        })
        .collect();
    found.sort_unstable();
    found.pop().map(|(_, programs)| programs)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Returns a command that runs as another user if this one is root.
fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = UNPRIVILEGED.1.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
    command
}
