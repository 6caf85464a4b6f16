//! Help for authors at a place of a text: completion, descriptions and definitions.
//!
//! Everything comes from the tables of the loader, the registry and the types of the checker. A text that does not parse is read
//! from its lines, so it completes too. Nothing here reads a secret's value.

mod cursor;
mod expressions;
mod keys;

use std::sync::Arc;

use catalog::{Catalog, FileKind};
use language::load::Unreadable;
use model::automation::Automation;
use text::diagnostic::{Source, Utf16Index};

use self::cursor::{Cursor, PathPart, Role};

/// Maximum number of items of a completion.
const MAX_ITEMS: usize = 500;

/// A place in a text of a project file.
pub struct AssistRequest<'a> {
    /// The snapshot whose actions and connections are known.
    pub catalog: &'a Catalog,
    /// The names of the secrets, never their values.
    pub secrets: &'a [String],
    /// The path of the file.
    pub path: &'a str,
    /// The text.
    pub text: &'a str,
    /// The offset in UTF-16 units.
    pub offset: usize,
}

/// A range of a text, in UTF-16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRange {
    /// The start.
    pub from: usize,
    /// The end.
    pub to: usize,
}

/// An item of a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionItem {
    /// The name that is shown and compared with what was typed.
    pub label: String,
    /// The kind: `key`, `value`, `action`, `input`, `connection`, `step`, `member`, `secret`, `function`, `filter`, `test`,
    /// `template`.
    pub kind: &'static str,
    /// A few words beside the name.
    pub detail: Option<String>,
    /// A description.
    pub about: Option<String>,
    /// The text to insert, if it is not the label.
    pub insert: Option<String>,
}

impl CompletionItem {
    fn new(label: impl Into<String>, kind: &'static str) -> Self {
        Self { label: label.into(), kind, detail: None, about: None, insert: None }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { detail: (!detail.is_empty()).then_some(detail), ..self }
    }

    fn about(self, about: impl Into<String>) -> Self {
        let about = about.into();
        Self { about: (!about.is_empty()).then_some(about), ..self }
    }

    fn insert(self, insert: impl Into<String>) -> Self {
        Self { insert: Some(insert.into()), ..self }
    }
}

/// A completion: items that replace a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The range that an item replaces.
    pub range: TextRange,
    /// The items, the likeliest first.
    pub items: Vec<CompletionItem>,
}

/// The description of the text at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// The range that it describes.
    pub range: TextRange,
    /// A title: a key, an action, an expression.
    pub title: String,
    /// The description, as plain text; empty for a member whose type is not known, which may have a value.
    pub text: String,
    /// The expression that it describes, if it has a value: a path such as `steps.page.results`.
    pub expression: Option<String>,
    /// The id of the step that holds the offset.
    pub step: Option<String>,
}

/// The place where a name is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The path of the file.
    pub path: String,
    /// The range in the text, if the target is in the same file.
    pub range: Option<TextRange>,
}

/// The request, prepared: the cursor, and the automation as far as it loads.
struct Site<'a> {
    request: &'a AssistRequest<'a>,
    index: Utf16Index<'a>,
    offset: usize,
    cursor: Cursor,
    kind: FileKind,
    automation: Option<(Arc<Automation>, Unreadable)>,
}

impl<'a> Site<'a> {
    fn new(request: &'a AssistRequest<'a>) -> Self {
        let index = Utf16Index::new(request.text);
        let offset = index.byte_at(request.offset);
        let cursor = Cursor::at(request.text, offset);
        let kind = FileKind::from_path(std::path::Path::new(request.path)).unwrap_or(FileKind::Automation);
        let automation =
            (kind == FileKind::Automation).then(|| load(request.path, request.text, offset)).flatten();
        let automation = automation.map(|(automation, unreadable)| {
            let completed = request.catalog.with_own_events(&automation);
            (completed.map_or(automation, Arc::new), unreadable)
        });
        Self { request, index, offset, cursor, kind, automation }
    }

    fn range(&self, range: std::ops::Range<usize>) -> TextRange {
        TextRange { from: self.index.units_at(range.start), to: self.index.units_at(range.end) }
    }

    fn word(&self) -> &'a str {
        self.request.text.get(self.cursor.word.clone()).unwrap_or_default()
    }

    /// The id of the step that holds the cursor.
    fn step(&self) -> Option<String> {
        let (automation, _) = self.automation.as_ref()?;
        let mut found: Option<(usize, String)> = None;
        automation.walk(&mut |step| {
            let start = step.span.start as usize;
            if start <= self.offset && found.as_ref().is_none_or(|(last, _)| *last <= start) {
                found = Some((start, step.id.to_string()));
            }
        });
        found.map(|(_, id)| id)
    }
}

/// Loads the text; if it does not parse, without the line of the cursor, which is being written.
fn load(path: &str, text: &str, offset: usize) -> Option<(Arc<Automation>, Unreadable)> {
    let try_load = |text: &str| {
        let loaded = language::load::automation(Arc::new(Source::new(path, text)), catalog::stem(path));
        let found =
            loaded.for_checking().map(|(automation, unreadable)| (automation.clone(), unreadable.clone()));
        found.map(|(automation, unreadable)| (Arc::new(automation), unreadable))
    };
    try_load(text).or_else(|| {
        let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[offset..].find('\n').map_or(text.len(), |newline| offset + newline);
        let blank = " ".repeat(end - start);
        try_load(&format!("{}{blank}{}", &text[..start], &text[end..])).or_else(|| try_load(&text[..start]))
    })
}

/// Completes the text before the offset.
#[must_use]
pub fn complete(request: &AssistRequest<'_>) -> Completion {
    let site = Site::new(request);
    let mut items = match &site.cursor.role {
        Role::Text => Vec::new(),
        Role::Expression(before) => expressions::complete(&site, before),
        Role::Key => keys::complete_key(&site),
        Role::Value(key) => keys::complete_value(&site, key),
        Role::Item => keys::complete_item(&site),
    };
    items.truncate(MAX_ITEMS);
    Completion { range: site.range(site.cursor.word.clone()), items }
}

/// Describes the text at the offset; `None` if it is unknown.
#[must_use]
pub fn hover(request: &AssistRequest<'_>) -> Option<Hover> {
    let site = Site::new(request);
    let (range, title, text) = match &site.cursor.role {
        Role::Text => return None,
        Role::Expression(_) => expressions::hover(&site)?,
        Role::Key | Role::Value(_) | Role::Item => keys::hover(&site)?,
    };
    let expression = match &site.cursor.role {
        Role::Expression(_) => expressions::value_at(&site),
        _ => None,
    };
    Some(Hover { range: site.range(range), title, text, expression, step: site.step() })
}

/// Finds the definition of the name at the offset: a step, a trigger, a connection or a called automation.
#[must_use]
pub fn definition(request: &AssistRequest<'_>) -> Option<Definition> {
    let site = Site::new(request);
    let step = match &site.cursor.role {
        Role::Expression(_) => expressions::step_at(&site),
        _ => keys::step_at(&site),
    };
    if let Some(id) = step {
        let (automation, _) = site.automation.as_ref()?;
        let range = site.range(automation.step(&id)?.span.range());
        return Some(Definition { path: request.path.to_owned(), range: Some(range) });
    }
    if let Some((_, trigger)) = expressions::trigger_at(&site) {
        let range = site.range(trigger.id_span.range());
        return Some(Definition { path: request.path.to_owned(), range: Some(range) });
    }
    let elsewhere = |path: &str| Definition { path: path.to_owned(), range: None };
    let selecting = keys::selecting_key(&site);
    let last = match site.cursor.path.last() {
        Some(PathPart::Key(key)) if key != "of" => Some(key.as_str()),
        _ => selecting,
    };
    match last {
        Some("connection") => {
            request.catalog.connection(site.word()).map(|found| elsewhere(found.source.path()))
        }
        Some("call" | "automation") => {
            request.catalog.find(site.word()).ok().map(|found| elsewhere(found.automation.source.path()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
