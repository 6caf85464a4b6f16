//! Checks of the running daemon, over its API.

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
    queued: usize,
    broken: usize,
    store: StoreStatus,
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

/// The status of the daemon that runs on the data folder; `None` if none runs.
pub(super) async fn running(config: &Config, findings: &mut Findings) -> Option<Status> {
    match daemon::get::<Status>(config, "/api/v1/status").await {
        Ok(Some(status)) => Some(status),
        Ok(None) => {
            match Daemon::find(&config.data_dir) {
                Ok(Some(gone)) => {
                    let detail =
                        format!("the daemon of process {} was killed, or its machine stopped", gone.pid);
                    findings.warning(
                        SECTION,
                        "running",
                        detail,
                        "start it with `cogwork serve`: executions go on",
                    );
                }
                _ => findings.skipped(SECTION, "running", "no daemon runs on the data folder"),
            }
            None
        }
        Err(error) => {
            let help =
                "the token in `admin-token` or COGWORK_ADMIN_TOKEN must be the one of the running daemon";
            findings.error(SECTION, "running", exit::message(&error), help);
            None
        }
    }
}

/// Checks that a daemon runs and accepts starts.
pub(super) async fn ready(config: &Config, findings: &mut Findings) {
    match running(config, findings).await {
        Some(status) if status.accepting => findings.ok(SECTION, "accepting", "it accepts starts"),
        Some(_) => findings.error(SECTION, "accepting", "it accepts no starts", "read its log"),
        None => findings.error(SECTION, "ready", "no daemon runs", "start it with `cogwork serve`"),
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
    match stored::room(&status.store.room) {
        Some(Capacity::Exhausted) => {
            let help = "raise `limits.storeSize`, or keep executions for fewer days (`retention.days`)";
            findings.error(SECTION, "room", "the store is full, and starts are refused", help);
        }
        Some(Capacity::Low) => {
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
    let Ok(Some(found)) = daemon::get::<Connections>(config, "/api/v1/connections").await else { return };
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
    if let Ok(Some(found)) = daemon::get::<Polls>(config, "/api/v1/polls").await {
        for poll in found.polls.iter().filter(|poll| poll.failures > 0) {
            let detail = format!("the poll of `{}` failed {} times in a row", poll.automation, poll.failures);
            findings.warning(SECTION, "polls", detail, format!("`cogwork polls show {}`", poll.automation));
        }
    }
    if let Ok(Some(found)) = daemon::get::<Subscriptions>(config, "/api/v1/subscriptions").await {
        for subscription in found.subscriptions {
            let Some(error) = subscription.error else { continue };
            let detail = format!("the subscription of `{}` cannot be made: {error}", subscription.automation);
            findings.warning(
                SECTION,
                "subscriptions",
                detail,
                "`cogwork subscriptions` shows the next attempt",
            );
        }
    }
}
