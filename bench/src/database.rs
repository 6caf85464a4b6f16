//! The PostgreSQL of a measurement: Debian's programs with their default durability, and the figures of the server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use postgres_server::Server;
use tempfile::TempDir;

use crate::Error;
use crate::process::{Processors, processor_time_of_family};
use crate::project::{BODY, scratch};

/// The connections of `pgbench`, each of which waits for the commit of its row.
const CLIENTS: u32 = 32;
/// The name of the script of `pgbench`.
const SCRIPT: &str = "insert.sql";

/// A running server. Dropping it ends it and deletes its data.
pub(crate) struct Database {
    server: Server,
    scripts: TempDir,
}

impl Database {
    /// Starts a server on the processors of servers.
    pub(crate) fn start(processors: Processors) -> Result<Self, Error> {
        let scripts = scratch()?;
        let parent = scripts.path().parent().unwrap_or_else(|| Path::new("."));
        // A server of a machine that does nothing else has more than the default of 128 MB.
        let arguments = "-c shared_buffers=512MB -c max_wal_size=4GB";
        let server = processors.for_servers(|| Server::start_in(parent, arguments))?;
        Ok(Self { server, scripts })
    }

    /// The address of a store on it.
    pub(crate) fn url(&self) -> String {
        Server::url(&[&self.server])
    }

    /// The folder of its socket.
    pub(crate) fn socket_folder(&self) -> &Path {
        self.server.folder()
    }

    /// The processor time of all its processes; `None` where the system does not say.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        processor_time_of_family(self.server.process()?)
    }

    /// Bytes of write-ahead log since its data was made.
    pub(crate) fn logged(&self) -> Result<u64, Error> {
        let text = self.server.sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")?;
        text.parse().map_err(|_| Error::Server(format!("a position in the log: {text}")))
    }

    /// Makes the table of [`Self::insert_rows`], and has the planner know the tables of the store.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        let row = format!("INSERT INTO measured (body) VALUES ('{}');\n", "x".repeat(BODY));
        let file = self.scripts.path().join(SCRIPT);
        std::fs::write(&file, row).map_err(Error::io(file.display()))?;
        self.server.sql(
            "CREATE TABLE measured (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)",
        )?;
        Ok(())
    }

    /// Commits single rows of [`BODY`] bytes with `pgbench`, for whole seconds, and returns rows a second.
    pub(crate) async fn insert_rows(&self, time: Duration) -> Result<f64, Error> {
        let mut command = tokio::process::Command::from(self.server.command("pgbench"));
        command.args(["--no-vacuum", "--protocol=prepared", "--username=cogwork", "--file=/dev/stdin"]);
        command.arg(format!("--client={CLIENTS}")).arg(format!("--time={}", time.as_secs().max(1)));
        let file = self.scripts.path().join(SCRIPT);
        let script = std::fs::File::open(&file).map_err(Error::io(file.display()))?;
        command.arg("--host").arg(self.socket_folder()).arg("postgres").stdin(Stdio::from(script));
        let output = command.kill_on_drop(true).output().await.map_err(Error::io("pgbench"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        rate(&said).ok_or_else(|| {
            Error::Server(format!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)))
        })
    }
}

/// The rate from the output of `pgbench`: `tps = 1234.567 (without initial connection time)`.
fn rate(output: &str) -> Option<f64> {
    let line = output.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_pgbench_is_read_from_its_line() {
        let output = "transaction type: insert.sql\nlatency average = 2.1 ms\ntps = 14873.25 (without initial connection time)\n";
        assert_eq!(rate(output), Some(14873.25));
        assert_eq!(rate("pgbench: error: connection failed\n"), None);
    }
}
