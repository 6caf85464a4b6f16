//! Checks of the running daemon, over its API.

use jiff::Timestamp;
use serde::Deserialize;
use server::Daemon;
use store::Capacity;

use super::finding::Findings;
use super::stored;
use crate::settings::Config;
use crate::{daemon, exit};

const SECTION: &str = "daemon";
const CONNECTIONS: &str = "connections";

/// The part of `GET /api/v1/status` that is checked.
#[derive(Deserialize)]
pub(super) struct Status {
    version: String,
    accepting: bool,
    outage: Option<Outage>,
    queued: usize,
    broken: usize,
    store: StoreStatus,
}

/// An outage of the store.
#[derive(Deserialize)]
struct Outage {
    kind: String,
    reason: String,
    since: Timestamp,
}

impl Outage {
    fn report(&self, findings: &mut Findings) {
        let is_refused = self.kind == "refused";
        let (reason, way_out) = match exit::split_way_out(&self.reason) {
            (reason, Some(way_out)) if is_refused => (reason, way_out),
            _ => (&*self.reason, "correct what the message names, such as a missing right"),
        };
        let what = if is_refused { "refused writes" } else { "taken no writes" };
        let detail = format!("the store has {what} since {:.0}: {reason}", self.since);
        let help = match self.kind.as_str() {
            "unreachable" => "start the database server, or mend the network to it",
            "stalled" => {
                "end the session that holds the lock (`SELECT * FROM pg_stat_activity`), or wait for it"
            }
            "readOnly" => "end the read-only mode of the database, or name the primary server in `store`",
            "full" => "free space on the disk of the store",
            _ => way_out,
        };
        findings.error(SECTION, "outage", detail, format!("{help}; the daemon then continues by itself"));
    }
}

#[derive(Deserialize)]
struct StoreStatus {
    room: String,
    #[serde(default)]
    weakened: Vec<String>,
}

#[derive(Deserialize)]
struct Connections {
    connections: Vec<Connection>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    name: String,
    state: String,
    last_error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Polls {
    polls: Vec<Poll>,
}

#[derive(Deserialize)]
struct Poll {
    automation: String,
    #[serde(default)]
    failures: u64,
}

#[derive(Deserialize)]
struct Subscriptions {
    subscriptions: Vec<Subscription>,
}

#[derive(Deserialize)]
struct Subscription {
    automation: String,
    error: Option<String>,
}

/// A daemon on the data folder.
pub(super) enum Found {
    /// No daemon is running.
    Nothing,
    /// A daemon is running but does not return its status; the finding has the reason.
    Silent,
    /// A daemon is running.
    Running(Status),
}

impl Found {
    /// True if a daemon runs, so that its listeners are open.
    pub(super) fn is_running(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// Requests the status of the daemon on the data folder. `store_fails` is true if its store is unusable.
pub(super) async fn running(config: &Config, store_fails: bool, findings: &mut Findings) -> Found {
    let error = match daemon::get_quickly::<Status>(config, "/api/v1/status").await {
        Ok(Some(status)) => return Found::Running(status),
        Ok(None) => {
            match Daemon::find(&config.data_dir) {
                Ok(Some(gone)) => {
                    let detail =
                        format!("the daemon of process {} was killed, or its machine stopped", gone.pid);
                    findings.warning(
                        SECTION,
                        "running",
                        detail,
                        "start it with `cogwork serve`: executions continue",
                    );
                }
                _ => findings.skipped(SECTION, "running", "no daemon runs on the data folder"),
            }
            return Found::Nothing;
        }
        Err(error) => error,
    };
    let message = exit::message(&error);
    let (problem, way_out) = exit::split_way_out(&message);
    let help = match error.downcast_ref::<server::Error>() {
        Some(server::Error::Refused(problem)) if matches!(problem.status, 401 | 403) => {
            "the token in `admin-token` or COGWORK_ADMIN_TOKEN must be the one of the running daemon"
        }
        Some(server::Error::Refused(_) | server::Error::Slow { .. }) if store_fails => {
            "repair the store, as above; the daemon then continues by itself"
        }
        Some(server::Error::Refused(_) | server::Error::Slow { .. }) => "read its log",
        Some(server::Error::Answer { .. }) => {
            "another program listens at the address in `daemon.json`: stop it, or delete that file if no daemon runs"
        }
        _ => way_out.unwrap_or("correct what the message names"),
    };
    findings.error(SECTION, "running", problem, help);
    // Without its files nothing is known of a daemon.
    match error.downcast_ref::<server::Error>() {
        Some(server::Error::Refused(_) | server::Error::Slow { .. }) => Found::Silent,
        _ => Found::Nothing,
    }
}

/// Checks that a daemon is running and accepts starts.
pub(super) async fn ready(config: &Config, findings: &mut Findings) {
    match running(config, false, findings).await {
        Found::Running(status) if status.accepting => {
            findings.ok(SECTION, "accepting", "it accepts starts");
        }
        Found::Running(Status { outage: Some(outage), .. }) => outage.report(findings),
        Found::Running(_) => findings.error(SECTION, "accepting", "it accepts no starts", "read its log"),
        Found::Silent => {}
        Found::Nothing if findings.has_error(SECTION) => {}
        Found::Nothing => {
            findings.error(SECTION, "ready", "no daemon runs", "start it with `cogwork serve`");
        }
    }
}

/// Checks the state of the running daemon.
pub(super) async fn check(config: &Config, status: &Status, findings: &mut Findings) {
    let own = env!("CARGO_PKG_VERSION");
    let detail = format!("it runs with version {}", status.version);
    if status.version == own {
        findings.ok(SECTION, "running", detail);
    } else {
        findings.warning(
            SECTION,
            "running",
            format!("{detail}, this program is {own}"),
            "restart the daemon",
        );
    }
    match (stored::room(&status.store.room), &status.outage) {
        // A full disk has no capacity either.
        (_, Some(outage)) => outage.report(findings),
        (Some(Capacity::Exhausted), None) => {
            let help = "raise `limits.storeSize`, or keep executions for fewer days (`retention.days`)";
            findings.error(SECTION, "room", "the store is full, and starts are refused", help);
        }
        (Some(Capacity::Low), None) => {
            let help = "raise `limits.storeSize`, or keep executions for fewer days (`retention.days`)";
            findings.warning(
                SECTION,
                "room",
                "the store is nearly full: the oldest executions are deleted",
                help,
            );
        }
        _ if !status.accepting => {
            findings.error(
                SECTION,
                "accepting",
                "it accepts no starts: it is stopping, or its store failed",
                "read its log",
            );
        }
        _ => {
            findings.ok(SECTION, "accepting", format!("it accepts starts; {} wait for a slot", status.queued))
        }
    }
    if status.broken > 0 {
        let detail = format!("{} of its project do not load", crate::output::count(status.broken, "file"));
        findings.error(SECTION, "files", detail, "`cogwork validate` shows why");
    }
    for weakness in &status.store.weakened {
        let known = findings.iter().any(|finding| finding.detail == *weakness);
        if !known {
            findings.warning(
                "weakened",
                "store",
                weakness.clone(),
                "put the store on a local disk, or accept it",
            );
        }
    }
    connections(config, findings).await;
    sources(config, findings).await;
}

async fn connections(config: &Config, findings: &mut Findings) {
    let found = match daemon::get_quickly::<Connections>(config, "/api/v1/connections").await {
        Ok(Some(found)) => found,
        Ok(None) => return,
        Err(error) => return unknown(CONNECTIONS, "state", &error, findings),
    };
    let mut healthy = true;
    for connection in found.connections {
        let name = &connection.name;
        let error = connection.last_error.as_ref().map_or_else(String::new, |error| {
            let message = error.get("message").unwrap_or(error);
            format!(": {}", message.as_str().map_or_else(|| message.to_string(), str::to_owned))
        });
        match connection.state.as_str() {
            "needsLogin" => {
                let help = format!("`cogwork connections login {name}`");
                findings.error(CONNECTIONS, "login", format!("`{name}` needs a login{error}"), help);
            }
            "failing" => {
                let help = format!("`cogwork connections test {name}`");
                findings.warning(CONNECTIONS, "failing", format!("`{name}` fails{error}"), help);
            }
            _ => continue,
        }
        healthy = false;
    }
    if healthy {
        findings.ok(CONNECTIONS, "state", "none fails");
    }
}

/// Polls and subscriptions.
async fn sources(config: &Config, findings: &mut Findings) {
    match daemon::get_quickly::<Polls>(config, "/api/v1/polls").await {
        Ok(found) => {
            for poll in found.iter().flat_map(|found| &found.polls).filter(|poll| poll.failures > 0) {
                let detail =
                    format!("the poll of `{}` failed {} times in a row", poll.automation, poll.failures);
                findings.warning(
                    SECTION,
                    "polls",
                    detail,
                    format!("`cogwork polls show {}`", poll.automation),
                );
            }
        }
        Err(error) => unknown(SECTION, "polls", &error, findings),
    }
    match daemon::get_quickly::<Subscriptions>(config, "/api/v1/subscriptions").await {
        Ok(found) => {
            for subscription in found.into_iter().flat_map(|found| found.subscriptions) {
                let Some(error) = subscription.error else { continue };
                let detail =
                    format!("the subscription of `{}` cannot be made: {error}", subscription.automation);
                let help = "`cogwork subscriptions` shows the next attempt";
                findings.warning(SECTION, "subscriptions", detail, help);
            }
        }
        Err(error) => unknown(SECTION, "subscriptions", &error, findings),
    }
}

/// Adds the finding that the daemon did not return a part of its state.
fn unknown(section: &'static str, name: &'static str, error: &anyhow::Error, findings: &mut Findings) {
    findings.error(section, name, exit::message(error), "read its log, and look at `store` above");
}
