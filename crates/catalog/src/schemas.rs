//! Collects the project's actions and connections for JSON Schemas.

use language::schema::{ConnectionType, ProjectContext};

use crate::snapshot::Catalog;

/// Returns the actions, connection types and connections of a snapshot, for [`language::schema`].
#[must_use]
pub fn schema_context(catalog: &Catalog) -> ProjectContext<'_> {
    let registry = catalog.registry();
    let types = registry.connection_types().map(|kind| ConnectionType {
        name: &kind.name,
        title: &kind.title,
        description: kind.description.as_deref(),
        inputs: kind.inputs.iter().map(|input| &input.spec).collect(),
    });
    let connections =
        catalog.connections().map(|connection| (connection.name.as_str(), connection.kind.as_str()));
    ProjectContext {
        actions: registry.actions().map(|action| action.spec()).collect(),
        connection_types: types.collect(),
        connections: connections.collect(),
    }
}
