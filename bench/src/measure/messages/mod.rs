//! Messages that steps publish to a broker and that a source takes, beside a plain client of it.

mod plain;

use plain::Plain;
use value::Value;

use super::Terms;
use super::comparison::{Comparison, rounds};
use super::ours::Ours;
use crate::Error;
use crate::report::{Report, Unit};

/// The messages of a round that are published, each confirmed before the next.
const PUBLISHED: u32 = 1_000;
/// The messages of a round that are taken.
const TAKEN: u32 = 10_000;
/// The messages that are taken and acknowledged at a time.
const BATCH: usize = 100;
const BODY: &str = r#"{"id": 17, "items": [{"price": 4}, {"price": 5}]}"#;

/// Measures publishing, and taking with acknowledgements, with each broker that is there.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(Error::io("a folder"))?;
    for mut plain in Plain::all(terms.processors).await? {
        let (kind, with) = plain.connection();
        let ours = Ours::new(folder.path(), kind, &with)?;
        let (broker, client) = plain.names();
        let [mut published, mut taken] = [
            (format!("messages published to {broker}"), PUBLISHED),
            (format!("messages taken from {broker}"), TAKEN),
        ]
        .map(|(name, count)| Comparison::new(name, count, Unit::PerSecond));
        for _ in 0..rounds(terms) {
            plain.set_up();
            let publish = async {
                for _ in 0..PUBLISHED {
                    let (action, to) = plain.publishing();
                    ours.call(action, [to, ("body", Value::from(BODY))]).await?;
                }
                Ok(())
            };
            published.ours(publish).await?;
            published.plain(plain.publish(PUBLISHED)).await?;
            let count = TAKEN as usize;
            plain.set_up();
            plain.fill(count);
            let (event, inputs) = plain.event();
            taken.ours(ours.take(event, inputs, (count, BATCH))).await?;
            plain.set_up();
            plain.fill(count);
            taken.plain(plain.take(count)).await?;
        }
        for work in [published, taken] {
            work.report(report, "messages", client, None);
        }
    }
    Ok(())
}
