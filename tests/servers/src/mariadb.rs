//! A MariaDB server, from the program that the system has installed.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres_server::unprivileged;
use tempfile::TempDir;

/// The time limit for the start.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Runs the server until the end of its input, which comes with the end of this process however it ends.
const RUN: &str = r#""$@" >/dev/null 2>&1 </dev/null & read -r _; kill -9 $!; wait"#;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct MariaDb {
    process: Child,
    folder: TempDir,
}

impl MariaDb {
    /// Starts a server at `address` with the database `postgres` and the account `cogwork`, and with further arguments.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(address: &str, password: &str, arguments: &[String]) -> io::Result<Self> {
        let program = Path::new("/usr/sbin/mariadbd");
        if !program.is_file() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "mariadb-server is not installed"));
        }
        let folder = tempfile::tempdir()?;
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody)?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut install = unprivileged(Path::new("/usr/bin/mariadb-install-db"));
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        // Servers that start at once would take each other's temporary tables.
        install.env("TMPDIR", folder.path());
        let installed = install.arg(format!("--datadir={}", path("data"))).output()?;
        if !installed.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&installed.stderr).into_owned()));
        }
        let server = unprivileged(program);
        let mut run = Command::new("sh");
        run.args(["-c", RUN, "sh"]).arg(server.get_program()).args(server.get_args());
        run.args(["--no-defaults", "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"]);
        run.arg(format!("--datadir={}", path("data"))).arg(format!("--socket={}", path("socket")));
        run.arg(format!("--bind-address={address}")).arg(format!("--pid-file={}", path("pid")));
        run.args(arguments).env("TMPDIR", folder.path());
        let process = run.stdin(Stdio::piped()).spawn()?;
        let server = Self { process, folder };
        let begun = Instant::now();
        while server.sql("select 1").is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "MariaDB does not start"));
            }
            std::thread::park_timeout(CHECK_INTERVAL);
        }
        server.sql(&format!(
            "create database postgres character set utf8mb4; create user cogwork@'%' identified by '{password}'; \
             grant all on postgres.* to cogwork@'%'"
        ))?;
        Ok(server)
    }

    /// A command with its client, which talks to the server over its socket.
    #[must_use]
    pub fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        let socket = format!("--socket={}", self.folder.path().join("socket").display());
        client.args(["--no-defaults", &socket, "-uroot"]);
        client
    }

    fn sql(&self, sql: &str) -> io::Result<()> {
        let done = self.client().args(["-e", sql]).output()?;
        match done.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned())),
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
