//! Files that steps write to object storage and over SSH and read from there and from mailboxes, beside a plain client of each.

mod mailbox;
mod plain;

use std::path::Path;

use plain::Plain;

use super::Terms;
use super::comparison::{Comparison, rounds};
use super::ours::Ours;
use crate::Error;
use crate::report::{Report, Unit};

/// The small files of a round, and the bytes of each.
const SMALL: (u32, usize) = (100, 4 << 10);
/// The large file of a round, in MiB.
const LARGE: u32 = 64;

/// Measures with each system that this machine has.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(Error::io("a folder"))?;
    for plain in Plain::all(terms.processors, folder.path())? {
        let (kind, with) = plain.connection();
        let ours = Ours::new(folder.path(), kind, &with)?;
        let (system, client) = plain.names();
        let large = LARGE as usize * (1 << 20);
        for (size, count, works, unit) in [
            (SMALL.1, SMALL.0, ("small files", SMALL.0), Unit::PerSecond),
            (large, 1, ("a large file", LARGE), Unit::MebibytesPerSecond),
        ] {
            let path = folder.path().join(format!("of {size} bytes"));
            std::fs::write(&path, vec![b'x'; size]).map_err(Error::io("a file"))?;
            let names: Vec<String> = (0..count).map(|number| format!("{size}-{number}")).collect();
            let (what, amount) = works;
            let mut put = Comparison::new(format!("{what} to {system}"), amount, unit);
            let mut get = Comparison::new(format!("{what} from {system}"), amount, unit);
            let work = Work { ours: &ours, plain: &plain, names: &names, path: &path };
            for _ in 0..rounds(terms) {
                work.round(&mut put, &mut get).await?;
            }
            put.report(report, "files", client, None);
            get.report(report, "files", client, None);
        }
    }
    mailbox::measure(terms, folder.path(), report).await
}

/// Files of one size that are written and read.
struct Work<'w> {
    ours: &'w Ours<'w>,
    plain: &'w Plain,
    names: &'w [String],
    /// A file with the content of each.
    path: &'w Path,
}

impl Work<'_> {
    async fn round(&self, put: &mut Comparison, get: &mut Comparison) -> Result<(), Error> {
        let Self { ours, plain, names, path } = self;
        let content = ours.file(path)?;
        let written = async {
            for name in *names {
                let (action, place) = plain.writing(name);
                ours.call(action, [place, ("content", content.clone())]).await?;
            }
            Ok(())
        };
        put.ours(written).await?;
        let read = async {
            for name in *names {
                let (action, place) = plain.reading(name);
                ours.call(action, [place]).await?;
            }
            Ok(())
        };
        get.ours(read).await?;
        let addresses = plain.addresses(ours, names).await?;
        put.plain(plain.write(names, &addresses, path)).await?;
        get.plain(plain.read(names, &addresses, &path.with_extension("read"))).await
    }
}
