//! `project.yaml`: what the files of a project share.

use std::sync::Arc;

use text::diagnostic::Source;

use crate::automation::DeclaredDefaults;

/// The path of the file, relative to the project folder.
pub const PROJECT_FILE: &str = "project.yaml";

/// A checked `project.yaml`.
#[derive(Clone, Debug)]
pub struct Project {
    /// The defaults of all automations; `defaults` in the file of an automation take precedence.
    pub defaults: DeclaredDefaults,
    /// The file.
    pub source: Arc<Source>,
}
