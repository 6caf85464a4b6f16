//! The daemon ends at each boundary around a change with `once`, and in the middle of it: the database has each change once.

use std::path::Path;
use std::time::Duration;

use postgres_server::{Server, Setup};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::super::rig::{END_WITHIN, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::finished::have_ended;

/// The address of the database, which no other fault uses.
const ADDRESS: &str = "127.212.44.5";
/// The boundaries at which the daemon aborts.
const BOUNDARIES: [&str; 5] = ["beforeEffect", "afterEffect", "beforeCommit", "afterCommit", "beforeAck"];
/// The requests of a moment.
const EACH: usize = 20;
/// The time in which some transactions are under way: a part of the load.
const UNDER_WAY: Duration = Duration::from_millis(60);
/// The time limit for the failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// The statement takes some time, so that a kill falls into its transaction.
const AUTOMATION: &str = r#"trigger: {webhook: {verify: none}}
steps:
  - action: sql.execute
    connection: books
    retry: {max: 3, on: all, delay: 50ms}
    with:
      sql: insert into log (execution, slept) select :execution, pg_sleep(0.02)::text
      params: {execution: "${{ execution.id }}"}
      once: true
      expect: 1
"#;

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start_as(Setup {
        initdb: vec!["--auth-host=trust".to_owned()],
        arguments: format!("-c listen_addresses={ADDRESS} -c fsync=off"),
        ..Setup::default()
    })?;
    server.sql("create table log (execution text, slept text)")?;
    let failpoints = tempfile::Builder::new().prefix("cogwork-once-").tempdir()?;
    let variable = ("COGWORK_FAILPOINTS".to_owned(), failpoints.path().display().to_string());
    let allowed = ("COGWORK_OUTBOUND_ALLOW".to_owned(), format!("127.0.0.1,{ADDRESS}"));
    let parts = Parts { variables: vec![variable, allowed], ..Parts::default() };
    let mut rig = Rig::new("once", effort.seed, parts).await?;
    rig.project().automation("once", AUTOMATION)?;
    let connection = format!("{{host: {ADDRESS}, database: postgres, user: cogwork, tls: none}}");
    rig.project().write("connections/books.yaml", &format!("type: sql.postgres\nwith: {connection}\n"))?;
    rig.start().await?;
    let mut acknowledged = Vec::new();
    'rounds: for _ in 0..effort.rounds {
        for boundary in BOUNDARIES.into_iter().map(Some).chain([None]) {
            acknowledged.extend(break_off(&mut rig, failpoints.path(), boundary).await?);
            rig.start().await?;
            have_ended(&rig).await?;
            judge(&rig, &server, &acknowledged)?;
            if !rig.is_well() {
                break 'rounds;
            }
        }
        rig.verdict().rounds += 1;
    }
    rig.verdict().acknowledged += acknowledged.len() as u64;
    rig.settle().await
}

/// Sends requests, and ends the daemon at a boundary, or in the middle of its transactions. Returns the ids of the executions that were
/// acknowledged.
async fn break_off(rig: &mut Rig, failpoints: &Path, boundary: Option<&str>) -> Result<Vec<String>, Error> {
    let url = rig.live_url("once").await?;
    if let Some(boundary) = boundary {
        let draft = failpoints.join("draft");
        std::fs::write(&draft, "abort")?;
        std::fs::rename(draft, failpoints.join(boundary))?;
    }
    let send = || async {
        let sent = rig.http().post(&url).json(&json!({})).send().await.ok()?.error_for_status().ok()?;
        sent.json::<Value>().await.ok()?["executionId"].as_str().map(str::to_owned)
    };
    let sent = futures_util::future::join_all((0..EACH).map(|_| send())).await;
    match boundary {
        Some(boundary) => match timeout(PATIENCE, rig.ended()).await {
            Ok(ended) => drop(ended?),
            Err(_) => rig.blame(Some(format!("`{boundary}` was not reached"))),
        },
        None => {
            sleep(UNDER_WAY).await;
            rig.kill().await?;
        }
    }
    Ok(sent.into_iter().flatten().collect())
}

/// Compares the rows of the database with the executions that were acknowledged.
fn judge(rig: &Rig, server: &Server, acknowledged: &[String]) -> Result<(), Error> {
    let twice = server.sql("select coalesce(string_agg(execution, ' '), '') from (select execution from log group by 1 having count(*) > 1) as twice")?;
    rig.blame((!twice.is_empty()).then(|| format!("changes with `once` happened twice: {twice}")));
    let written = server.sql("select coalesce(string_agg(execution, ' '), '') from log")?;
    let written: std::collections::BTreeSet<&str> = written.split(' ').collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|id| !written.contains(id.as_str())).collect();
    rig.blame(
        (!lost.is_empty()).then(|| format!("within {END_WITHIN:?} these changes did not happen: {lost:?}")),
    );
    Ok(())
}
