//! The YAML language: reads files into checked types, describes its keys as JSON Schema and as reference, and edits files.
//!
//! Modules, in reading order:
//!
//! * `load`: from text to checked types; `steps` has a file per verb, `lint` warnings about probable mistakes
//! * `schema`: JSON Schemas of the project files
//! * `reference_docs`: the language reference of the manual
//! * `edit`: operations on a project file, such as the renaming of a step

pub mod edit;
pub mod load;
pub mod reference_docs;
pub mod schema;
