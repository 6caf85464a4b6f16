//! The statements that steps run with a connection, and what its database states of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use connector::StaticInputs;
use model::automation::Verb;
use model::described::{DescribedStatements, StatementPlace};

use super::Catalog;
use super::file::{Content, FileKind, STATEMENT_TYPES};

impl Catalog {
    /// Returns the statements of a connection with the types that its database states; `None` if nobody has described them.
    #[must_use]
    pub fn described_statements(&self, connection: &str) -> Option<Arc<DescribedStatements>> {
        let path = format!("connections/{connection}{STATEMENT_TYPES}");
        match &self.folder.get(&path)?.content {
            Content::StatementTypes(loaded) => loaded.value.clone(),
            _ => None,
        }
    }

    /// Returns the statements that steps run with a connection, each with its first place: also from files with errors, which an
    /// outdated description may have caused.
    #[must_use]
    pub fn statements_of(&self, connection: &str) -> BTreeMap<String, StatementPlace> {
        let mut found = BTreeMap::new();
        let kind = self.connection(connection).map(|connection| connection.kind.clone());
        for (path, file) in self.folder.files(FileKind::Automation) {
            let Some((automation, _)) = file.automation().and_then(|loaded| loaded.for_checking()) else {
                continue;
            };
            let completed = self.completed(automation);
            completed.as_ref().unwrap_or(automation).walk(&mut |step| {
                let Verb::Action(call) = &step.verb else { return };
                let names = call.connection.iter().flat_map(|setting| setting.candidates());
                let is_used = names.into_iter().any(|name| name.name == connection);
                let Some(action) = self.registry.action(&call.action.name).filter(|_| is_used) else {
                    return;
                };
                let template = |name: &str| {
                    let given = call.with.iter().find(|(given, _)| given.name == name);
                    given.map(|(_, template)| template)
                };
                let statements = action.statements(&StaticInputs {
                    template: &template,
                    has_connection: true,
                    connection_types: kind.iter().cloned().collect(),
                });
                let place = || StatementPlace { path: path.to_string(), step: step.id.to_string() };
                statements.into_iter().for_each(|sql| {
                    found.entry(sql).or_insert_with(place);
                });
            });
        }
        found
    }
}
