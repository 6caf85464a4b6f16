//! The JSON Schemas of project files, generated for a project: they include its own connectors.

use catalog::Catalog;
use language::schema::ProjectContext;
use serde_json::Value;

/// A schema that can be printed or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaFile {
    /// The kind of file that it describes.
    pub(crate) name: &'static str,
    make: fn(&ProjectContext<'_>) -> Value,
}

/// All schemas.
pub(crate) const SCHEMAS: [SchemaFile; 6] = [
    SchemaFile { name: "automation", make: language::schema::automation },
    SchemaFile { name: "connection", make: language::schema::connection },
    SchemaFile { name: "connector", make: |_| connector::manifest_schema() },
    SchemaFile { name: "project", make: |_| language::schema::project() },
    SchemaFile { name: "settings", make: |_| crate::settings::schema() },
    SchemaFile { name: "test", make: |_| language::schema::test_suite() },
];

impl SchemaFile {
    /// Its path in a project folder.
    pub(crate) fn path(&self) -> String {
        format!("schemas/{}.schema.json", self.name)
    }

    /// Its text, for a project with this catalog.
    ///
    /// # Errors
    /// It has no JSON form, which would be a bug.
    pub(crate) fn text(&self, catalog: &Catalog) -> anyhow::Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(&(self.make)(&catalog::schema_context(catalog)))?))
    }
}
