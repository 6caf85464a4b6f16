//! The structure of a text that is not stored: its steps with their places, its graph, and its data.

use std::path::Path;
use std::sync::Arc;

use catalog::{Catalog, FileKind, Graph, Plan};
use language::edit::{outline, step_references};
use serde_json::Value;
use text::diagnostic::{Report, Source, Span, Utf16Index};
use text::yaml::Node;
use text::yaml::edit::Segment;

use crate::assist::TextRange;
use crate::validate::check_text;

/// The structure of a text.
pub struct Inspection {
    /// All problems.
    pub report: Report,
    /// The structure; `None` if the text does not parse or is no automation.
    pub structure: Option<Structure>,
    /// The data of the file; `None` if the text does not parse, is code, or is an automation without a structure.
    pub data: Option<Value>,
}

/// The structure of an automation's text, as far as it loads.
pub struct Structure {
    /// The step graph.
    pub graph: Graph,
    /// The steps in document order.
    pub outline: Vec<StepPlace>,
    /// The places that read steps.
    pub references: Vec<(String, TextRange)>,
}

/// A step and its place.
pub struct StepPlace {
    /// The id.
    pub id: String,
    /// The name for people.
    pub name: Option<String>,
    /// The verb.
    pub verb: &'static str,
    /// The path in the file's tree.
    pub at: Vec<Segment>,
    /// The range in the text.
    pub range: TextRange,
}

/// Checks a text as [`check_text`] does, and reads its structure.
#[must_use]
pub fn inspect_text(catalog: &Catalog, path: &str, text: &str) -> Inspection {
    let report = check_text(catalog, path, text);
    let kind = FileKind::from_path(Path::new(path));
    let tree = (kind != Some(FileKind::Code)).then(|| text::yaml::parse_text(path, text).ok()).flatten();
    if kind != Some(FileKind::Automation) {
        return Inspection { report, structure: None, data: tree.map(|tree| tree.to_json()) };
    }
    let found = tree.and_then(|tree| Some((structure(catalog, path, text, &tree)?, tree.to_json())));
    let (structure, data) = found.unzip();
    Inspection { report, structure, data }
}

fn structure(catalog: &Catalog, path: &str, text: &str, tree: &Node) -> Option<Structure> {
    let loaded = language::load::automation(Arc::new(Source::new(path, text)), catalog::stem(path));
    let (automation, _) = loaded.for_checking()?;
    let completed = catalog.completed(automation);
    let automation = completed.as_ref().unwrap_or(automation);
    let index = Utf16Index::new(text);
    let range = |span: Span| TextRange {
        from: index.units_at(span.start as usize),
        to: index.units_at(span.end as usize),
    };
    let (plan, _) = Plan::build(automation);
    let steps = outline(automation, tree).into_iter().map(|step| StepPlace {
        id: step.id,
        name: step.name,
        verb: step.verb,
        at: step.at,
        range: range(step.span),
    });
    let references = step_references(automation).into_iter().map(|found| (found.step, range(found.span)));
    Some(Structure {
        graph: Graph::new(automation, &plan, Some(catalog.registry())),
        outline: steps.collect(),
        references: references.collect(),
    })
}
