//! A million rows out of a database into a file, and from the file into the database.

use std::io;
use std::time::Duration;

use postgres_server::{Server, Setup};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Bounds, Findings, Observed, Started, write_others};
use crate::daemon::{self, Daemon};
use crate::project::Project;

/// The address of the database of this row.
const ADDRESS: &str = "127.213.8.9";
/// The number of rows.
const ROWS: u32 = 1_000_000;
/// The time limit of an execution, and the time between two looks at it.
const MAX_TIME: Duration = Duration::from_secs(900);
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Reads and writes a million rows with each database that is there, in a daemon with these further `arguments`, and holds each to
/// `bounds`.
///
/// # Errors
/// The daemon cannot be started, or the system refuses.
pub async fn run_rows(
    bounds: Bounds,
    arguments: &[String],
) -> Result<Vec<(&'static str, Findings)>, daemon::Error> {
    let project = Project::new()?;
    project.write("connections/lite.yaml", "type: sql.sqlite\nwith: {file: rows.db}\n")?;
    let files = tempfile::tempdir()?;
    let numbers =
        format!("with recursive c (n) as (select 1 union all select n + 1 from c where n < {ROWS})");
    write(&project, "lite", &format!("{numbers} select n, 'row ' || n as s from c"))?;
    let server = Server::start_as(Setup {
        initdb: vec!["--auth-host=trust".to_owned()],
        arguments: format!("-c listen_addresses={ADDRESS} -c fsync=off"),
        ..Setup::default()
    });
    let mut databases = vec![("a million rows of SQLite", "lite")];
    if server.is_ok() {
        let with = format!("{{host: {ADDRESS}, database: postgres, user: cogwork, tls: none}}");
        project.write("connections/post.yaml", &format!("type: sql.postgres\nwith: {with}\n"))?;
        write(
            &project,
            "post",
            &format!("select n, 'row ' || n as s from generate_series(1, {ROWS}) as c (n)"),
        )?;
        databases.push(("a million rows of PostgreSQL", "post"));
    }
    write_others(&project)?;
    let allow = format!("127.0.0.1,{ADDRESS}");
    let builder = Daemon::builder(&project).argument("--outbound-allow").argument(&allow);
    let folder = files.path().display().to_string();
    let builder = builder.argument("--files-dir").argument(&folder);
    let started = Started::new(builder, arguments).await?;
    let found = execute_each(&started, &databases, bounds).await?;
    started.daemon.stop().await?;
    Ok(found)
}

/// Executes automations one after another, each with a title, and holds each to `bounds`.
pub(super) async fn execute_each(
    started: &Started,
    automations: &[(&'static str, &str)],
    bounds: Bounds,
) -> Result<Vec<(&'static str, Findings)>, daemon::Error> {
    let Started { daemon, pid, client, addresses, idle } = started;
    let address = |name: &str| addresses.get(name).cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (title, name) in automations {
        // Resets the peak (proc(5)).
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
        let observed = Observed::new(client.clone(), address("others"));
        let mut findings = Findings::default();
        if !addresses.contains_key(*name) {
            return Err(io::Error::other(format!("`{name}` does not load")).into());
        }
        match execute(daemon, client, &address(name)).await {
            Ok(()) => findings.answered = 1,
            Err(error) => findings.broken.push(error.to_string()),
        }
        observed.judge(&mut findings, *pid, *idle, bounds).await?;
        found.push((*title, findings));
    }
    Ok(found)
}

/// An automation that reads rows into a file, and writes them to a table.
fn write(project: &Project, name: &str, query: &str) -> io::Result<()> {
    let step = |id: &str, action: &str, with: Value| json!({"id": id, "action": action, "connection": name, "timeout": "15m", "retry": {"max": 1}, "with": with});
    let automation = json!({"timeout": "20m", "trigger": {"webhook": {"verify": "none"}}, "steps": [
        step("create", "sql.execute", json!({"sql": "create table t (n integer, s varchar(40))"})),
        step("read", "sql.query", json!({"sql": query, "as": "csv"})),
        step("write", "sql.insert", json!({"table": "t", "rows": "${{ steps.read.results.file }}"})),
        step("count", "sql.query", json!({"sql": "select count(*) as n, sum(n) as total from t", "decimals": "number"})),
        {"if": format!("steps.count.results.row.n != {ROWS}"), "then": [{"fail": "rows are missing"}]},
    ]});
    project.automation(name, &automation.to_string())
}

/// Starts an execution and waits for its success.
async fn execute(daemon: &Daemon, client: &reqwest::Client, address: &str) -> Result<(), daemon::Error> {
    let failed = |reason: String| daemon::Error::from(io::Error::other(reason));
    let request = client.post(address).header("content-type", "application/json").body("{}");
    let sent = request.send().await.map_err(io::Error::other)?;
    let sent: Value = sent.json().await.map_err(io::Error::other)?;
    let id = sent["executionId"].as_str().ok_or_else(|| failed(format!("no execution: {sent}")))?;
    let url = format!("{}/api/v1/executions/{id}", daemon.admin_url());
    let until = Instant::now() + MAX_TIME;
    while Instant::now() < until {
        let shown =
            client.get(&url).bearer_auth(daemon.admin_token()?).send().await.map_err(io::Error::other)?;
        let shown: Value = shown.json().await.map_err(io::Error::other)?;
        match shown["status"].as_str() {
            Some("succeeded") => return Ok(()),
            Some("failed" | "cancelled" | "stuck") => {
                return Err(failed(format!("it failed: {}", shown["error"])));
            }
            _ => sleep(CHECK_INTERVAL).await,
        }
    }
    Err(failed("it did not end".to_owned()))
}
