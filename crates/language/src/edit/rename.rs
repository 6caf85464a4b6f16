//! Renames a step and all references to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use expression::{Expression, Link, Reference};
use model::automation::{Automation, Code};
use text::diagnostic::{Source, Span};
use text::yaml::edit::{EditError, Position, Segment, TreeOperation};
use text::yaml::{Kind, Node, parse_text};

use crate::load;

/// The ranges to replace, by the path of their text.
type Splices = BTreeMap<Vec<String>, (Vec<Segment>, Vec<Range<usize>>)>;

/// The changes that rename a step.
pub(super) fn rename(source: Source, from: &str, to: &str) -> Result<Vec<TreeOperation>, EditError> {
    let invalid = |message: String| Err(EditError::Invalid(message));
    let source = Arc::new(source);
    let Ok(tree) = parse_text(source.path(), source.text()) else {
        return Err(EditError::Unsafe("the text is not valid YAML".to_owned()));
    };
    let loaded = load::automation(source.clone(), "draft");
    let Some((automation, _)) = loaded.for_checking() else {
        return Err(EditError::Unsafe("the file does not load".to_owned()));
    };
    if !load::is_step_id(to) {
        return invalid(format!(
            "`{to}` cannot be the id of a step: an id has letters, digits and `_`, and begins with no digit"
        ));
    }
    let (mut head, mut is_taken) = (None, false);
    automation.walk(&mut |step| {
        is_taken |= *step.id == *to;
        if *step.id == *from {
            head = Some(step.span);
        }
    });
    let Some(head) = head else { return invalid(format!("there is no step `{from}`")) };
    if is_taken && from != to {
        return invalid(format!("there is a step `{to}` already"));
    }
    let mut renamer = Renamer { texts: Vec::new(), from, to, splices: Splices::new() };
    collect(&tree, &mut Vec::new(), &mut renamer.texts);
    let own = own_id(&tree, from, head, &mut Vec::new())
        .ok_or_else(|| EditError::Unsafe("the step's own place was not found".to_owned()))?;
    renamer.references(automation)?;
    renamer.needs(automation);
    renamer.code(automation);
    let mut operations = vec![own.into_operation(to)];
    operations.extend(renamer.splices.into_values().map(|(at, mut ranges)| {
        ranges.sort_by_key(|range| range.start);
        ranges.dedup();
        TreeOperation::Splice { at, parts: ranges.into_iter().map(|range| (range, to.to_owned())).collect() }
    }));
    Ok(operations)
}

struct Renamer<'a> {
    /// All texts of the file, with their paths.
    texts: Vec<(Vec<Segment>, &'a Node)>,
    from: &'a str,
    to: &'a str,
    splices: Splices,
}

impl Renamer<'_> {
    fn references(&mut self, automation: &Automation) -> Result<(), EditError> {
        let mut expressions: Vec<&Expression> = Vec::new();
        automation.walk(&mut |step| step.expressions(&mut |expression| expressions.push(expression)));
        automation
            .outputs
            .iter()
            .for_each(|outputs| outputs.expressions(&mut |found| expressions.push(found)));
        for expression in expressions {
            if expression.references().iter().any(|reference| names(reference, self.from)) {
                self.expression(expression)?;
            }
        }
        Ok(())
    }

    fn expression(&mut self, expression: &Expression) -> Result<(), EditError> {
        let cannot = || {
            EditError::Unsafe(format!("the expression `{}` names the step in another way", expression.text()))
        };
        let text = expression.text();
        let ranges = member_names(text, "steps", self.from, true);
        let renamed = replace(text, &ranges, self.to);
        let compiled = Expression::compile(&renamed, expression.span()).map_err(|_| cannot())?;
        let expected: Vec<Reference> =
            expression.references().iter().map(|reference| self.renamed(reference)).collect();
        if compiled.references() != expected {
            return Err(cannot());
        }
        let start = expression.span().start as usize;
        let (at, node) = self.text_at(start).ok_or_else(cannot)?;
        let value = node.as_str().unwrap_or_default();
        let mut offsets = value.match_indices(text).map(|(offset, _)| offset);
        let offset = offsets.find(|&offset| node.locate(offset) == start).ok_or_else(cannot)?;
        self.add(at, ranges.into_iter().map(|range| offset + range.start..offset + range.end));
        Ok(())
    }

    fn renamed(&self, reference: &Reference) -> Reference {
        let mut reference = reference.clone();
        if names(&reference, self.from) {
            if let Some(name) = reference.path.get_mut(1) {
                *name = self.to.into();
            } else if let Some(name) = reference.suffix.first_mut() {
                *name = Link::Name(self.to.into());
            }
        }
        reference
    }

    fn needs(&mut self, automation: &Automation) {
        let mut spans: Vec<Span> = Vec::new();
        automation.walk(&mut |step| {
            let needs = step.needs.iter().flatten().filter(|name| name.name == self.from);
            spans.extend(needs.map(|name| name.span));
        });
        for span in spans {
            if let Some((at, node)) = self.text_at(span.start as usize)
                && node.as_str() == Some(self.from)
            {
                self.add(at, std::iter::once(0..self.from.len()));
            }
        }
    }

    /// Renames members of `stepResults` in inline code. The check of the result reports references in any other form.
    fn code(&mut self, automation: &Automation) {
        for (_, code) in automation.code_modules() {
            let Code::Inline { span, text } = code else { continue };
            let ranges = member_names(&text.value, "stepResults", self.from, false);
            if let Some((at, _)) = self.text_at(span.start as usize).filter(|_| !ranges.is_empty()) {
                self.add(at, ranges);
            }
        }
    }

    fn text_at(&self, offset: usize) -> Option<(Vec<Segment>, &Node)> {
        let holds = |node: &Node| {
            let range = node.span.range();
            range.contains(&offset) || (range.is_empty() && range.start == offset)
        };
        let found = self.texts.iter().find(|(_, node)| holds(node));
        found.map(|(at, node)| (at.clone(), *node))
    }

    fn add(&mut self, at: Vec<Segment>, ranges: impl IntoIterator<Item = Range<usize>>) {
        let key = at.iter().map(|segment| format!("{segment:?}")).collect();
        self.splices.entry(key).or_insert_with(|| (at, Vec::new())).1.extend(ranges);
    }
}

/// The location of a step's own id.
enum OwnId {
    Present(Vec<Segment>),
    Absent(Vec<Segment>),
}

impl OwnId {
    fn into_operation(self, to: &str) -> TreeOperation {
        let (at, position) = match self {
            Self::Present(at) => (at, Position::Last),
            Self::Absent(at) => (at, Position::First),
        };
        TreeOperation::Set { at, value: to.into(), position }
    }
}

/// Finds the step with an id, or the step without an id that begins at `head`.
fn own_id(node: &Node, id: &str, head: Span, at: &mut Vec<Segment>) -> Option<OwnId> {
    let is_item = matches!(at.last(), Some(Segment::Index(_)));
    if let Some(map) = node.as_map().filter(|_| is_item) {
        let own = || at.iter().cloned().chain([Segment::Key("id".to_owned())]).collect();
        match map.get("id") {
            Some(found) if found.as_str() == Some(id) && node.head() == head => {
                return Some(OwnId::Present(own()));
            }
            None if node.head() == head => return Some(OwnId::Absent(own())),
            _ => {}
        }
    }
    for (segment, child) in children(node) {
        at.push(segment);
        let found = own_id(child, id, head, at);
        at.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

fn children(node: &Node) -> Vec<(Segment, &Node)> {
    match &node.kind {
        Kind::Map(map) => map.iter().map(|entry| (Segment::Key(entry.key.clone()), &entry.value)).collect(),
        Kind::List(items) => {
            items.iter().enumerate().map(|(index, item)| (Segment::Index(index), item)).collect()
        }
        _ => Vec::new(),
    }
}

fn collect<'n>(node: &'n Node, at: &mut Vec<Segment>, texts: &mut Vec<(Vec<Segment>, &'n Node)>) {
    if node.as_text().is_some() {
        texts.push((at.clone(), node));
    }
    for (segment, child) in children(node) {
        at.push(segment);
        collect(child, at, texts);
        at.pop();
    }
}

/// True if a path reads the step.
fn names(reference: &Reference, id: &str) -> bool {
    reads_step(reference).is_some_and(|step| step == id)
}

/// The id of the step that a path reads.
pub(super) fn reads_step(reference: &Reference) -> Option<String> {
    let mut links = reference.links();
    match (links.next(), links.next()) {
        (Some(Link::Name(root)), Some(Link::Name(id))) if root.as_str() == "steps" => {
            Some(id.as_str().to_owned())
        }
        _ => None,
    }
}

fn replace(text: &str, ranges: &[Range<usize>], to: &str) -> String {
    let mut text = text.to_owned();
    for range in ranges.iter().rev() {
        text.replace_range(range.clone(), to);
    }
    text
}

/// The ranges of `name` as a member of `root`: `root.name`, `root?.name`, `root['name']`. With `quotes`, text inside quoted
/// strings is ignored.
pub(super) fn member_names(text: &str, root: &str, name: &str, quotes: bool) -> Vec<Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut found, mut at, mut quote) = (Vec::new(), 0, None);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        match quote {
            Some(_) if c == '\\' => {
                let escaped = rest[1..].chars().next().map_or(0, char::len_utf8);
                at += 1 + escaped;
                continue;
            }
            Some(open) => quote = (c != open).then_some(open),
            None if quotes && matches!(c, '\'' | '"') => quote = Some(c),
            None if is_part(c) => {
                let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                let before = &text[..at];
                let is_root = rest[..word] == *root && (!before.ends_with('.') || before.ends_with("$."));
                if let Some(range) = is_root.then(|| member(text, at + word, name)).flatten() {
                    at = range.end;
                    found.push(range);
                    // The quote and bracket of a subscript.
                    at += text[at..].find(|c| !matches!(c, '\'' | '"' | ']')).unwrap_or(text.len() - at);
                } else {
                    at += word;
                }
                continue;
            }
            None => {}
        }
        at += c.len_utf8();
    }
    found
}

/// The range of a member's name directly after its parent.
fn member(text: &str, after: usize, name: &str) -> Option<Range<usize>> {
    let rest = &text[after..];
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for open in [".", "?."] {
        if let Some(tail) = rest.strip_prefix(open)
            && tail.starts_with(name)
            && !tail[name.len()..].starts_with(is_part)
        {
            return Some(after + open.len()..after + open.len() + name.len());
        }
    }
    for quote in ["'", "\""] {
        let open = format!("[{quote}");
        if rest.strip_prefix(&open).is_some_and(|tail| {
            tail.strip_prefix(name).is_some_and(|tail| tail.starts_with(&format!("{quote}]")))
        }) {
            return Some(after + 2..after + 2 + name.len());
        }
    }
    None
}
