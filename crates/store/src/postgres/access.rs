//! Access to the server: new connections, and the question on one of them if the server still works on a request whose answer is late.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::{Session, message};

/// The time after which the server is asked what it does with a request, and the time for its answer.
const SLOW: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of times in a row that the server has to know nothing of a request.
const UNKNOWN: u32 = 2;

/// The process of a connection.
pub(super) const PID: &str = "SELECT pg_backend_pid()";
/// One row while the server works on a request; true while the commit waits for a standby.
const WORK: &str = "SELECT coalesce(wait_event = 'SyncRep', false) FROM pg_stat_activity \
    WHERE pid = $1 AND coalesce(state, 'active') = 'active'";

/// The settings with which connections are opened.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) config: Config,
    pub(super) encryption: MakeRustlsConnect,
}

/// The work of a process of the server on a request whose answer is late.
pub(super) enum Late {
    /// It works on the request.
    Active,
    /// It has committed, and waits for the standby.
    WaitsForStandby,
    /// It does not answer the question, for this reason.
    Unreachable(String),
}

/// The server does not work on a request, so that its answer is lost on the way.
pub(super) struct Lost;

impl Access {
    /// Opens a connection and applies `settings`.
    pub(super) async fn open(&self, settings: &str) -> Result<Session, tokio_postgres::Error> {
        Session::open(&self.config, &self.encryption, settings).await
    }

    /// Waits for the answer to a request, as long as the server works on it. `late` hears of each question and decides if the wait goes
    /// on; the time is that since the request began.
    pub(super) async fn watch<T>(
        &self,
        pid: i32,
        request: impl Future<Output = T>,
        mut late: impl FnMut(Late, Instant) -> Result<(), Lost>,
    ) -> Result<T, Lost> {
        let (begun, mut unknown) = (Instant::now(), 0);
        tokio::pin!(request);
        loop {
            if let Ok(answer) = tokio::time::timeout(SLOW, &mut request).await {
                return Ok(answer);
            }
            let work = tokio::time::timeout(PATIENCE, self.work(pid)).await;
            let work = match work.unwrap_or_else(|_| Err("there is no answer".to_owned())) {
                Ok(Some(true)) => Late::WaitsForStandby,
                Ok(Some(false)) => Late::Active,
                Ok(None) => {
                    unknown += 1;
                    if unknown >= UNKNOWN {
                        return Err(Lost);
                    }
                    continue;
                }
                Err(reason) => Late::Unreachable(reason),
            };
            unknown = 0;
            late(work, begun)?;
        }
    }

    /// Asks the server what this process of it does; `None` if it waits for a request, or is gone.
    async fn work(&self, pid: i32) -> Result<Option<bool>, String> {
        let session = self.open("SET statement_timeout = '5s'").await.map_err(|error| message(&error))?;
        let row = session.client.query_opt(WORK, &[&pid]).await.map_err(|error| message(&error))?;
        row.map(|row| row.try_get(0)).transpose().map_err(|error| message(&error))
    }
}
