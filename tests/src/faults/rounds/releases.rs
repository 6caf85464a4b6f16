//! A later release migrates the tables under the load of this one, which runs as long as they allow it.

use super::super::rig::{END_WITHIN, PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::IN_DOUBT;
use crate::daemon::Error as DaemonError;
use postgres_server::Server;

/// The version of the tables.
const VERSION: &str = "SELECT max(version) FROM refinery_schema_history";
/// The additions of a later release, which this one does not mind.
const EXPAND: &str = "BEGIN; \
    ALTER TABLE live ADD COLUMN later text; \
    ALTER TABLE executions ADD COLUMN later int8; \
    ALTER TABLE nodes ADD COLUMN later bytea; \
    CREATE TABLE later (id int8 PRIMARY KEY, body bytea NOT NULL); \
    INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
      SELECT max(version) + 1, 'later', max(applied_on), '0' FROM refinery_schema_history; \
    COMMIT";
/// A daemon's message for tables of a later release.
const TOO_OLD: &str = "use the release that wrote it, or a later one";

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let mut verdict = None::<Verdict>;
    for _ in 0..effort.rounds {
        let mut round = expanded(effort).await?;
        round.rounds = 1;
        if let Some(earlier) = verdict.take() {
            round.follow(earlier);
        }
        let is_well = round.violations.is_empty();
        verdict = Some(round);
        if !is_well {
            break;
        }
    }
    verdict.ok_or(Error::NoDaemon)
}

async fn rig(effort: Effort, server: &Server) -> Result<Rig, Error> {
    let stores = vec![Server::url(&[server]); 2];
    Rig::new("releases", effort.seed, Parts { ticks: true, stores, ..Parts::default() }).await
}

/// Sets the oldest version that a release must know to use the tables.
fn set_oldest(server: &Server, version: i32) -> Result<(), Error> {
    server.sql(&format!(
        "INSERT INTO meta (name, value) VALUES ('oldest', '{version}') ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    ))?;
    Ok(())
}

/// A later release expands the tables, and then takes away what this one needs.
async fn expanded(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let mut rig = rig(effort, &server).await?;
    rig.start().await?;
    rig.load();
    rig.progress(PROGRESS).await;
    let version = server.sql(VERSION)?.parse().unwrap_or_default();
    set_oldest(&server, version)?;
    server.sql(EXPAND)?;
    rig.progress(PROGRESS).await;
    rig.daemon_at(1)?.terminate()?;
    let status = rig.ended_node(1).await?;
    rig.blame((!status.success()).then(|| format!("beside a later release it ended with {status}")));
    rig.start_node(1).await?;
    rig.progress(PROGRESS).await;
    rig.all_live("beside a later release")?;
    if rig.is_well() {
        too_old(&mut rig, &server, version).await?;
    }
    rig.settle().await
}

/// No daemon of this release may use the tables any more: those that run stop, and none starts.
async fn too_old(rig: &mut Rig, server: &Server, version: i32) -> Result<(), Error> {
    set_oldest(server, version + 1)?;
    for index in [0, 1] {
        let status = rig.ended_node(index).await?;
        let is_right = status.code() == Some(IN_DOUBT);
        rig.blame((!is_right).then(|| format!("with tables that it does not know it ended with {status}")));
    }
    rig.shared().oracle().next_life();
    let told = rig.ended_output().matches(TOO_OLD).count();
    rig.blame((told < 2).then(|| format!("the daemons do not say why they stop: {}", rig.ended_output())));
    let refused = match rig.start_node(0).await {
        Err(Error::Daemon(DaemonError::NotServing { output, .. })) => output.contains(TOO_OLD),
        Err(error) => return Err(error),
        Ok(()) => false,
    };
    rig.blame((!refused).then(|| "tables that need a later release are not refused".to_owned()));
    set_oldest(server, version)?;
    let owed = rig.shared().oracle().open_numbers();
    rig.start().await?;
    let stuck = "what was open when the tables were those of a later release did not end";
    rig.wait(END_WITHIN, stuck, |oracle| oracle.have_ended(&owed)).await;
    Ok(())
}
