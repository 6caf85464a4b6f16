//! The JSON Schemas of project files, generated for a project: they include its own connectors.

use catalog::Catalog;
use language::schema::ProjectContext;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

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
        let schema = (self.make)(&catalog::schema_context(catalog));
        // With the usual two spaces, a quarter of the text would be indentation.
        let mut text = Vec::new();
        schema.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" ")))?;
        text.push(b'\n');
        Ok(String::from_utf8(text)?)
    }
}
