//! Statements of steps to databases, beside the plain client of each: the difference is Cogwork's.

mod plain;

use std::path::Path;
use std::time::{Duration, Instant};

use plain::Plain;
use value::Value;

use super::Terms;
use super::ours::Ours;
use crate::Error;
use crate::process::own_processor_time;
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::median;

/// The number of rounds of each.
const ROUNDS: usize = 7;
/// The rows that are read and written at a time.
const ROWS: u32 = 100_000;
/// The statements of one row that are run in a round.
const STATEMENTS: u32 = 300;
const READ: &str = "select n, s from numbers";
const ONE: &str = "select n, s from numbers where n = 7";

/// Measures single statements, rows into a file, and rows into a table.
pub(super) async fn measure(_: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(Error::io("a folder"))?;
    for plain in Plain::all(folder.path())? {
        plain.set_up()?;
        let (kind, with) = plain.connection();
        let ours = Ours::new(folder.path(), kind, &with)?;
        let mut works = [Work::default(), Work::default(), Work::default()];
        for _ in 0..ROUNDS {
            round(&ours, &plain, folder.path(), &mut works).await?;
        }
        let (database, client) = plain.names();
        let [read, insert, statements] = works;
        for (name, count, work) in [
            (format!("rows of {database} into a file"), ROWS, read),
            (format!("rows of a file into {database}"), ROWS, insert),
            (format!("statements to {database}"), STATEMENTS, statements),
        ] {
            work.report(report, name, count, client);
        }
    }
    Ok(())
}

/// Runs each work once with the actions, and once with the plain client.
async fn round(ours: &Ours<'_>, plain: &Plain, folder: &Path, works: &mut [Work; 3]) -> Result<(), Error> {
    let [read, insert, statements] = works;
    let began = Instant::now();
    let used = own_processor_time();
    let found = ours.call("sql.query", [("sql", Value::from(READ)), ("as", Value::from("csv"))]).await?;
    read.ours(began, used);
    read.plain(|| plain.export(&folder.join("export")))?;

    let file = found.get("file").unwrap_or_default();
    let path = folder.join("rows.csv");
    if let Value::File(file) = &file {
        let mut bytes = Vec::new();
        let copied = file.data.for_each_chunk(|chunk| bytes.extend_from_slice(chunk));
        copied.and_then(|()| std::fs::write(&path, bytes)).map_err(Error::io("the rows"))?;
    }
    let (began, used) = (Instant::now(), own_processor_time());
    ours.call("sql.insert", [("table", Value::from("copies")), ("rows", file)]).await?;
    insert.ours(began, used);
    insert.plain(|| plain.insert(&path))?;
    plain.clear()?;

    let (began, used) = (Instant::now(), own_processor_time());
    for _ in 0..STATEMENTS {
        ours.call("sql.query", [("sql", Value::from(ONE))]).await?;
    }
    statements.ours(began, used);
    statements.plain(|| plain.statements())
}

/// The times of one work, in seconds, with the actions and with the plain client: of the clock and of the processor of the client.
#[derive(Default)]
struct Work {
    ours: Vec<[f64; 2]>,
    plain: Vec<[f64; 2]>,
}

impl Work {
    fn ours(&mut self, began: Instant, used: Option<Duration>) {
        self.ours.push([began.elapsed().as_secs_f64(), since(used)]);
    }

    fn plain(&mut self, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let (began, used) = (Instant::now(), own_processor_time());
        // A library works in this process, a program in a child.
        work()?;
        self.plain.push([began.elapsed().as_secs_f64(), since(used)]);
        Ok(())
    }

    fn report(&self, report: &mut Report, name: String, count: u32, client: &'static str) {
        let pairs = || self.ours.iter().zip(&self.plain);
        let ratio = median(pairs().map(|([ours, _], [plain, _])| plain / ours));
        let of = |times: &[[f64; 2]], at: usize| median(times.iter().map(|time| time[at]));
        let per_second = |times: &[[f64; 2]]| f64::from(count) / of(times, 0);
        let row = Row::new("sql", name.clone(), per_second(&self.ours), Unit::PerSecond);
        report.add(row.beside(client, per_second(&self.plain), ratio).target(Some(Target::Ratio(0.02))));
        let micros = |times: &[[f64; 2]]| of(times, 1) * 1e6 / f64::from(count);
        let (ours, plain) = (micros(&self.ours), micros(&self.plain));
        let row = Row::new("sql", format!("… processor time, {name}"), ours, Unit::Microseconds);
        report.add(row.beside(client, plain, ours / plain));
    }
}

fn since(before: Option<Duration>) -> f64 {
    let used = before.zip(own_processor_time()).map(|(before, after)| after.saturating_sub(before));
    used.map_or(f64::NAN, |used| used.as_secs_f64())
}
