//! A transaction with an old snapshot stays open beside the load, and nothing vacuums: dead rows stay.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use postgres_server::Server;

/// The default length of a round.
const LENGTH: Duration = Duration::from_secs(8);
/// The time in which the rate without a snapshot is measured.
const BASE: Duration = Duration::from_secs(4);
const HELD: &str = "SELECT count(*) > 0 FROM pg_stat_activity \
    WHERE state = 'idle in transaction' AND backend_xmin IS NOT NULL AND application_name = 'psql'";
const DEAD_ROWS: &str = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'live'";

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start_with("-c autovacuum=off")?;
    let parts = Parts { ticks: true, stores: vec![Server::url(&[&server])], ..Parts::default() };
    let mut rig = Rig::new("database-snapshot", effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    let length = effort.length.unwrap_or(LENGTH);
    let (mut base, mut beside, mut last, mut rows) = (0.0, 0.0, 0.0, 0);
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        base += rig.rate(BASE).await;
        let snapshot = Snapshot::take(&server)?;
        beside += rig.rate(length * 2 / 3).await;
        last += rig.rate(length / 3).await;
        rig.blame((server.sql(HELD)? != "t").then(|| "the snapshot is gone".to_owned()));
        rows = rows.max(server.sql(DEAD_ROWS)?.parse().unwrap_or(0_u64));
        snapshot.end()?;
        rig.progress(PROGRESS).await;
        rig.all_live("beside a long snapshot")?;
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    let rounds = f64::from(rig.verdict().rounds.max(1));
    let [base, beside, last] = [base, beside, last].map(|sum| sum / rounds);
    rig.verdict().notes.push(format!(
        "acknowledged per second: {base:.0} before the snapshot, {beside:.0} beside it for {:.0} s, {last:.0} in the {:.0} s after that; \
         up to {rows} dead rows of unfinished executions",
        (length * 2 / 3).as_secs_f64(),
        (length / 3).as_secs_f64(),
    ));
    rig.settle().await
}

/// A transaction that has read, and stays open.
struct Snapshot(Child);

impl Snapshot {
    fn take(server: &Server) -> Result<Self, Error> {
        let mut command = server.command("psql");
        command.args(["-X", "-A", "-t", "-q", "-U", "cogwork", "-d", "postgres", "-h"]).arg(server.folder());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(input) = &mut child.stdin {
            input.write_all(b"BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM live;\n")?;
        }
        let mut taken = String::new();
        if let Some(output) = &mut child.stdout {
            BufReader::new(output).read_line(&mut taken)?;
        }
        Ok(Self(child))
    }

    fn end(mut self) -> Result<(), Error> {
        drop(self.0.stdin.take());
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
