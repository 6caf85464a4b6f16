//! The disk of the database is full for a while: that of its data, or that of its write-ahead log, at which the server gives up.

use std::time::Duration;

use super::super::oracle::Sent;
use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::tools::{Disk, needs_root};
use super::super::{Effort, Error, Verdict};
use postgres_server::{Server, Setup};

/// Up to how many effects after enough progress the disk is full.
const MAX_FURTHER_EFFECTS: usize = 60;
/// The number of consecutive refusals that is required while it is full. The tables may still have room before.
const REFUSALS: u64 = 10;
/// The time limit for the detection and the recovery.
const PATIENCE: Duration = Duration::from_secs(45);
/// The time limit for the server's own recovery when there is space.
const RECOVERY: Duration = Duration::from_secs(5);
/// The end of the server's process, by which it gives up a log that it cannot write.
const PANIC: &str = "PANIC:";
/// The log continues in a new file, which needs space.
const NEXT_FILE: &str = "SELECT pg_switch_wal()";

/// The part of the database that has no space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Data,
    Log,
}

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    needs_root()?;
    let (data, mut log) = tokio::try_join!(rounds(effort, Part::Data), rounds(effort, Part::Log))?;
    if data.violations.is_empty() {
        log.follow(data);
        return Ok(log);
    }
    Ok(data)
}

async fn rounds(effort: Effort, part: Part) -> Result<Verdict, Error> {
    let disk = Disk::new().await?;
    let elsewhere = tempfile::tempdir()?;
    let setup = match part {
        Part::Data => Setup {
            parent: Some(disk.path()),
            wal: Some(elsewhere.path().to_owned()),
            arguments: "-c max_wal_size=64MB".to_owned(),
            ..Setup::default()
        },
        // Small files, only a few of which are kept: the next one needs space soon.
        Part::Log => Setup {
            wal: Some(disk.new_folder("log")?),
            initdb: vec!["--wal-segsize=1".to_owned()],
            arguments: "-c min_wal_size=2MB -c max_wal_size=8MB".to_owned(),
            ..Setup::default()
        },
    };
    let mut server = Server::start_as(setup)?;
    let parts = Parts { ticks: true, stores: vec![Server::url(&[&server])], ..Parts::default() };
    let mut rig = Rig::new("database-full", effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    let (mut refused_in_all, mut given_up) = (0, 0);
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        let before = panics(&server);
        disk.fill()?;
        if part == Part::Log {
            use_up_log(&server, &disk, before)?;
        }
        let refused = until_all_refused(&rig).await;
        rig.blame(
            (refused < REFUSALS).then(|| "with a full disk of the database it takes requests".to_owned()),
        );
        refused_in_all += refused;
        disk.make_room()?;
        if part == Part::Log {
            given_up += 1;
            recover(&mut server).await?;
        }
        let owed = rig.shared().oracle().open_numbers();
        let stuck = "with space for the database again it does not go on";
        rig.wait(PATIENCE, stuck, |oracle| oracle.have_ended(&owed)).await;
        rig.all_live("with a full disk of the database")?;
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    let note = match part {
        Part::Data => format!("without space for data: {refused_in_all} requests refused"),
        Part::Log => format!(
            "without space for the log: {refused_in_all} requests refused; the server gave up {given_up} times"
        ),
    };
    rig.verdict().notes.push(note);
    rig.settle().await
}

/// Sends requests beside the senders, which wait for their own responses, and returns the number of consecutive refusals.
async fn until_all_refused(rig: &Rig) -> u64 {
    let (deadline, mut refused) = (tokio::time::Instant::now() + PATIENCE, 0);
    while refused < REFUSALS && tokio::time::Instant::now() < deadline {
        let sent = rig.shared().send_one(rig.http(), Sent::Async);
        let answer = tokio::time::timeout(Duration::from_secs(1), sent).await;
        refused = if answer == Ok(Some(503)) { refused + 1 } else { 0 };
    }
    refused
}

fn panics(server: &Server) -> usize {
    server.output().matches(PANIC).count()
}

/// Makes the server use the files of its log that it has, until it gives up.
fn use_up_log(server: &Server, disk: &Disk, before: usize) -> Result<(), Error> {
    let begun = std::time::Instant::now();
    while panics(server) == before {
        if begun.elapsed() > PATIENCE {
            let reason = "the server still writes its log".to_owned();
            return Err(Error::Tool { program: "postgres".to_owned(), reason });
        }
        // It fails once there is no space.
        let _ = server.sql(NEXT_FILE);
        // Files that are not needed any more are removed.
        disk.fill()?;
    }
    Ok(())
}

/// Waits until a server has recovered; restarts a server that has exited, as its supervisor does.
async fn recover(server: &mut Server) -> Result<(), Error> {
    let recovered = async {
        let mut looks = tokio::time::interval(Duration::from_millis(100));
        while !server.is_ready()? {
            looks.tick().await;
        }
        Ok::<(), Error>(())
    };
    match tokio::time::timeout(RECOVERY, recovered).await {
        Ok(recovered) => recovered,
        Err(_) => {
            server.stop()?;
            Ok(server.run()?)
        }
    }
}
