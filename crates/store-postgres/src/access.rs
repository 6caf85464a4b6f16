//! Access to the server: new connections, and the question on one of them if the server still works on a request whose answer is late.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::{Config, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::{Session, message};

/// The time after which the server is asked what it does with a request, and the time for its answer.
const SLOW: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of times in a row that the server has to know nothing of a request.
const UNKNOWN: u32 = 2;

/// The process of a connection.
pub(super) const PID: &str = "SELECT pg_backend_pid()";
/// One row while the server works on a request: the type and the name of the event that it waits for.
const WORK: &str = "SELECT wait_event_type, wait_event FROM pg_stat_activity \
    WHERE pid = $1 AND coalesce(state, 'active') = 'active'";
/// The event for which a commit waits that a synchronous standby has yet to confirm.
const STANDBY_WAIT: &str = "SyncRep";

/// The settings with which connections are opened.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) config: Config,
    pub(super) encryption: MakeRustlsConnect,
}

/// The work of a process of the server on a request whose answer is late.
pub(super) enum Late {
    /// It works on the request; the event for which it waits, such as `Lock: transactionid`, or `none`.
    Active(String),
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
                Ok(Some(work)) => work,
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
    async fn work(&self, pid: i32) -> Result<Option<Late>, String> {
        let session = self.open("SET statement_timeout = '5s'").await.map_err(|error| message(&error))?;
        let row = session.client.query_opt(WORK, &[&pid]).await.map_err(|error| message(&error))?;
        row.map(|row| waits(&row)).transpose().map_err(|error| message(&error))
    }
}

fn waits(row: &Row) -> Result<Late, tokio_postgres::Error> {
    let (kind, event): (Option<&str>, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(match (kind, event) {
        (_, Some(STANDBY_WAIT)) => Late::WaitsForStandby,
        (Some(kind), Some(event)) => Late::Active(format!("{kind}: {event}")),
        _ => Late::Active("none".to_owned()),
    })
}
