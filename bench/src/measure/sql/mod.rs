//! Statements of steps to databases, beside the plain client of each.

mod plain;

use std::path::Path;

use plain::Plain;
use value::Value;

use super::Terms;
use super::comparison::{Comparison, rounds};
use super::ours::Ours;
use crate::Error;
use crate::report::{Report, Target, Unit};

/// The rows that are read and written at a time.
const ROWS: u32 = 100_000;
/// The statements of one row that are run in a round.
const STATEMENTS: u32 = 300;
const READ: &str = "select n, s from numbers";
const ONE: &str = "select n, s from numbers where n = 7";

/// Measures single statements, rows into a file, and rows into a table.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(Error::io("a folder"))?;
    for plain in terms.processors.for_servers(|| Plain::all(folder.path()))? {
        plain.set_up()?;
        let (kind, with) = plain.connection();
        let ours = Ours::new(folder.path(), kind, &with)?;
        let (database, client) = plain.names();
        let mut works = [
            (format!("rows of {database} into a file"), ROWS),
            (format!("rows of a file into {database}"), ROWS),
            (format!("statements to {database}"), STATEMENTS),
        ]
        .map(|(name, count)| Comparison::new(name, count, Unit::PerSecond));
        for _ in 0..rounds(terms) {
            round(&ours, &plain, folder.path(), &mut works).await?;
        }
        for work in works {
            work.report(report, "sql", client, Some(Target::Ratio(0.02)));
        }
    }
    Ok(())
}

/// Runs each work once with the actions, and once with the plain client.
async fn round(
    ours: &Ours<'_>,
    plain: &Plain,
    folder: &Path,
    works: &mut [Comparison; 3],
) -> Result<(), Error> {
    let [read, insert, statements] = works;
    let found =
        read.ours(ours.call("sql.query", [("sql", Value::from(READ)), ("as", Value::from("csv"))])).await?;
    read.plain(async { plain.export(&folder.join("export")) }).await?;

    let file = found.get("file").unwrap_or_default();
    let path = folder.join("rows.csv");
    if let Value::File(file) = &file {
        let mut bytes = Vec::new();
        let copied = file.data.for_each_chunk(|chunk| bytes.extend_from_slice(chunk));
        copied.and_then(|()| std::fs::write(&path, bytes)).map_err(Error::io("the rows"))?;
    }
    insert.ours(ours.call("sql.insert", [("table", Value::from("copies")), ("rows", file)])).await?;
    insert.plain(async { plain.insert(&path) }).await?;
    plain.clear()?;

    let run = async {
        for _ in 0..STATEMENTS {
            ours.call("sql.query", [("sql", Value::from(ONE))]).await?;
        }
        Ok(())
    };
    statements.ours(run).await?;
    statements.plain(async { plain.statements() }).await
}
