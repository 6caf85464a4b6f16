//! Definitions in the store, and the level of the language that they may have.

use async_trait::async_trait;
use model::automation::Level;
use model::{AutomationId, DefinitionHash};
use store::{Definition, DefinitionStore, DefinitionUse, Error};

use super::handle::PostgresStore;
use super::op::{Done, Op, params};
use super::reader::get;
use super::schema::version_for;

const RAISE: &str = "SELECT raise_level($1, $2)";

#[async_trait]
impl DefinitionStore for PostgresStore {
    async fn put_definition(&self, definition: Definition) -> Result<(), Error> {
        self.opened.definitions.put(self.queue()?, definition).await
    }

    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        self.opened.definitions.read(hash).await
    }

    async fn definitions(&self, automation: &AutomationId, limit: u32) -> Result<Vec<DefinitionUse>, Error> {
        self.opened.definitions.list(automation, limit).await
    }

    async fn raise_level(&self, level: Level) -> Result<(), Error> {
        let raise = (RAISE, params![number(level), version_for(level)]);
        let done = self.queue()?.write(Op::Statements(vec![raise])).await?;
        let Done::Rows(lists) = done else { return Ok(()) };
        let row = lists.first().and_then(|rows| rows.first());
        let daemons: Vec<String> = row.map(|row| get(row, 0)).transpose()?.unwrap_or_default();
        if daemons.is_empty() { Ok(()) } else { Err(Error::OlderDaemons { level: level.number(), daemons }) }
    }
}

/// Returns the number of a level as the database has it.
pub(super) fn number(level: Level) -> i32 {
    i32::try_from(level.number()).unwrap_or(i32::MAX)
}
