//! The YAML language: reads files into checked types, describes its keys as JSON Schema and as reference, and edits files.

pub mod edit;
pub mod load;
pub mod reference_docs;
pub mod schema;
