//! Connections: named credentials as declared in YAML.

use std::sync::Arc;

use expression::template::Template;
use text::diagnostic::{Source, Span};

use crate::automation::SpannedName;

/// A checked connection file: a connection type of a connector, and its inputs, which may refer to secrets.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The name that steps refer to: the file's stem.
    pub name: String,
    /// The type, such as `wiki.basic`.
    pub kind: String,
    /// The span of the type.
    pub kind_span: Span,
    /// The inputs by name. Their expressions may read only `env` and `secrets`, and are evaluated when a step runs.
    pub with: Vec<(SpannedName, Template)>,
    /// The author's description of its purpose.
    pub description: Option<String>,
    /// The file.
    pub source: Arc<Source>,
}
