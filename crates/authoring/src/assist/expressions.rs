//! Expressions: names in scope, members by the types of the checker, functions, filters and tests.

use std::ops::Range;

use catalog::{Member, describe_type, members, possible_texts};
use model::action::ErrorKind;
use model::automation::{DeclaredTrigger, TriggerId};

use super::{CompletionItem, Site};

/// The text before the cursor in an expression.
enum Before {
    /// A member of the value at this path, or a name if it is empty.
    Path(Vec<String>),
    /// A text that the value at this path is compared with; true within its quotes.
    Compared(Vec<String>, bool),
    Filter,
    Test,
}

/// Completes an expression; `before` is its text up to the cursor.
pub(super) fn complete(site: &Site<'_>, before: &str) -> Vec<CompletionItem> {
    match read(before) {
        Before::Filter => vocabulary("filter"),
        Before::Test => vocabulary("test"),
        Before::Compared(path, is_quoted) => {
            let own = if is_quoted { Vec::new() } else { complete_path(site, before, &[]) };
            compared_texts(site, &path, is_quoted).into_iter().chain(own).collect()
        }
        Before::Path(path) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            complete_path(site, before, &path)
        }
    }
}

/// Completes a member of the value at a path, or a name if the path is empty.
fn complete_path(site: &Site<'_>, before: &str, path: &[&str]) -> Vec<CompletionItem> {
    if path == ["secrets"] {
        return site.request.secrets.iter().map(|name| CompletionItem::new(name, "secret")).collect();
    }
    let inside = expression::item_at_end(before);
    let of_item = item_members(path, inside.as_ref());
    let path: Vec<&str> =
        of_item.as_ref().map_or(in_trigger(site, path), |path| path.iter().map(String::as_str).collect());
    let mut items: Vec<CompletionItem> = names(site, &path)
        .into_iter()
        .map(|Member { name, detail }| {
            let kind = if path == ["steps"] { "step" } else { "member" };
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let item = CompletionItem::new(&name, kind).detail(detail);
            if is_name { item } else { item.insert(format!("['{name}']")) }
        })
        .collect();
    if path.is_empty() {
        let is_new = inside.is_some() && !items.iter().any(|item| item.label == "item");
        items.extend(is_new.then(|| CompletionItem::new("item", "member")));
        items.extend(functions());
    }
    items
}

/// The path of a member of `item` in an expression for each item; `None` elsewhere. A list has the index 0 for all its items.
fn item_members(path: &[&str], item: Option<&Option<expression::Reference>>) -> Option<Vec<String>> {
    let (item, ["item", members @ ..]) = (item?, path) else { return None };
    // The members of an unknown item are those of an unknown name.
    let Some(item) = item else { return Some(vec![String::new()]) };
    let link = |link| match link {
        expression::Link::Name(name) => name.to_string(),
        expression::Link::Item | expression::Link::Every => "0".to_owned(),
    };
    Some(item.links().map(link).chain(members.iter().map(|name| (*name).to_owned())).collect())
}

fn names(site: &Site<'_>, path: &[&str]) -> Vec<Member> {
    if path.is_empty() && site.kind == catalog::FileKind::Connection {
        return ["env", "secrets"].map(|name| Member { name: name.to_owned(), detail: String::new() }).into();
    }
    let Some((automation, unreadable)) = &site.automation else { return Vec::new() };
    let step = site.step();
    let mut found = members(automation, unreadable, site.request.catalog.registry(), path, step.as_deref());
    if path.is_empty() {
        // Configuration variables, and what verifies a request, read these.
        found.extend(
            ["secrets", "env"].map(|name| Member {
                name: name.to_owned(),
                detail: "in configVars and triggers".to_owned(),
            }),
        );
    }
    found
}

fn functions() -> Vec<CompletionItem> {
    let own = expression::TABLE.iter().map(|function| {
        CompletionItem::new(function.name, "function")
            .detail(function.usage().trim_start_matches(function.name).to_owned())
            .about(function.about)
            .insert(format!("{}(", function.name))
    });
    own.collect()
}

fn vocabulary(kind: &'static str) -> Vec<CompletionItem> {
    let words = expression::vocabulary().filter(|(found, _)| *found == kind).map(|(_, name)| name);
    let about = |name: &str| expression::TABLE.iter().find(|function| function.name == name);
    words
        .map(|name| {
            let item = CompletionItem::new(name, kind);
            let usage = expression::usage(name).filter(|_| kind == "filter");
            let arguments = usage.map(|usage| usage.trim_start_matches(name).to_owned()).unwrap_or_default();
            let item = if arguments.is_empty() { item } else { item.detail(arguments) };
            about(name).map_or(item.clone(), |function| item.about(function.about))
        })
        .collect()
}

/// The texts that the value at a path can be: ids of triggers, kinds of errors, and options by its type.
fn compared_texts(site: &Site<'_>, path: &[String], is_quoted: bool) -> Vec<CompletionItem> {
    let item = |text: &str, detail: &str| {
        let item = CompletionItem::new(text, "value").detail(detail);
        if is_quoted { item } else { item.insert(format!("'{text}'")) }
    };
    let Some((automation, unreadable)) = &site.automation else { return Vec::new() };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["trigger", "id"] => {
            let triggers = automation.triggers.iter();
            triggers.map(|trigger| item(trigger.id.as_str(), trigger.on.keyword())).collect()
        }
        [.., "error", "kind"] => ErrorKind::NAMES.map(|kind| item(kind, "kind of an error")).into(),
        _ => {
            let registry = site.request.catalog.registry();
            let texts = possible_texts(automation, unreadable, registry, &path, site.step().as_deref());
            texts.iter().map(|text| item(text, "")).collect()
        }
    }
}

/// Returns the path of the value with which the text after `before` is compared: by `==` or `!=`, or in a list after `in`.
fn compared_with(before: &str) -> Option<Vec<String>> {
    let before = before.trim_end();
    let compared = before.strip_suffix("==").or_else(|| before.strip_suffix("!=")).or_else(|| {
        let list = before.ends_with([',', '[']).then(|| before.rfind('[')).flatten()?;
        let value = before[..list].trim_end().strip_suffix(" in")?.trim_end();
        Some(value.strip_suffix(" not").unwrap_or(value))
    })?;
    Some(path_before(compared.trim_end())).filter(|path| path.len() > 1)
}

/// Returns a path as steps have it: in the condition and the inputs of a trigger, `event.data` are the data of its event.
fn in_trigger<'p>(site: &Site<'_>, path: &[&'p str]) -> Vec<&'p str> {
    match path {
        ["event", "data", members @ ..] if super::keys::is_in_trigger(&site.cursor.path) => {
            [&["trigger", "results", "body", "data"][..], members].concat()
        }
        _ => path.to_vec(),
    }
}

/// The trigger whose id is at the cursor, within quotes.
pub(super) fn trigger_at<'s>(site: &'s Site<'_>) -> Option<(Range<usize>, &'s DeclaredTrigger)> {
    let word = word_at(site.request.text, site.offset);
    let before = expression_before(site, &word).strip_suffix(['\'', '"'])?;
    let is_compared = compared_with(before).is_some_and(|path| path == ["trigger", "id"]);
    let (automation, _) = site.automation.as_ref().filter(|_| is_compared)?;
    let id = TriggerId::parse(site.request.text.get(word.clone())?)?;
    Some((word, automation.trigger(&id)?))
}

/// Reads the end of an expression.
fn read(before: &str) -> Before {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rest = before.trim_end_matches(is_part);
    let unquoted = rest.strip_suffix(['\'', '"']);
    if let Some(path) = compared_with(unquoted.unwrap_or(rest)) {
        return Before::Compared(path, unquoted.is_some());
    }
    let blank = rest.trim_end();
    if blank.ends_with('|') {
        return Before::Filter;
    }
    let last = blank.rsplit(|c: char| !is_part(c)).next().unwrap_or_default();
    if blank.len() < rest.len() && matches!(last, "is" | "not") && blank.contains(" is") {
        return Before::Test;
    }
    Before::Path(rest.strip_suffix('.').map_or_else(Vec::new, path_before))
}

/// The path that ends a text: `steps.page.results`, `a['b'].c`, `list[0]`.
fn path_before(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        if let Some(inside) = rest.strip_suffix(']') {
            let Some(open) = inside.rfind('[') else { break };
            parts.push(inside[open + 1..].trim_matches(['\'', '"']).to_owned());
            rest = &inside[..open];
            continue;
        }
        let head = rest.trim_end_matches(is_part);
        if head.len() == rest.len() {
            break;
        }
        parts.push(rest[head.len()..].to_owned());
        match head.strip_suffix('.') {
            Some(more) if !more.ends_with('$') => rest = more,
            _ => break,
        }
    }
    parts.reverse();
    parts
}

/// The path at the cursor up to the word that holds it, and its range in the text.
fn path_at(site: &Site<'_>) -> Option<(Vec<String>, Range<usize>)> {
    let text = site.request.text;
    let word = word_at(text, site.offset);
    let name = text.get(word.clone()).filter(|name| !name.is_empty())?;
    let start = text.floor_char_boundary(word.start.saturating_sub(1_000));
    let before = text.get(start..word.start)?;
    let mut path = before.strip_suffix('.').map_or_else(Vec::new, path_before);
    path.push(name.to_owned());
    Some((path, word))
}

fn word_at(text: &str, offset: usize) -> Range<usize> {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let start = offset - text[..offset].chars().rev().take_while(is_part).count();
    let end = offset + text[offset..].chars().take_while(is_part).count();
    start..end
}

/// The step that the expression at the cursor reads.
pub(super) fn step_at(site: &Site<'_>) -> Option<String> {
    let (path, word) = path_at(site)?;
    match path.as_slice() {
        [root, id, ..] if root == "steps" => Some(id.clone()),
        // On the word `steps` itself the name behind it counts.
        [root] if root == "steps" => {
            let rest = site.request.text.get(word.end..)?.strip_prefix('.')?;
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            Some(rest[..end].to_owned())
        }
        _ => None,
    }
}

/// The path at the cursor as an expression; `None` for the name of a function.
pub(super) fn value_at(site: &Site<'_>) -> Option<String> {
    if trigger_at(site).is_some() {
        return None;
    }
    let (path, _) = path_at(site)?;
    let (root, members) = path.split_first()?;
    if members.is_empty() && expression::TABLE.iter().any(|function| function.name == root) {
        return None;
    }
    let mut text = root.clone();
    for name in members {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match name.parse::<usize>() {
            _ if is_name => text.extend([".", name.as_str()]),
            Ok(_) => text.extend(["[", name.as_str(), "]"]),
            Err(_) => {
                let quoted = name.replace('\\', "\\\\").replace('\'', "\\'");
                text.extend(["['", quoted.as_str(), "']"]);
            }
        }
    }
    Some(text)
}

/// The filter at the cursor with its parameters.
fn filter_usage(site: &Site<'_>, word: &Range<usize>) -> Option<String> {
    let before = site.request.text.get(..word.start)?.trim_end();
    let name = site.request.text.get(word.clone()).filter(|_| before.ends_with('|'))?;
    expression::usage(name)
}

/// The word at the cursor, its path and its type; the text is empty if the type of a member is not known.
pub(super) fn hover(site: &Site<'_>) -> Option<(Range<usize>, String, String)> {
    if let Some((word, trigger)) = trigger_at(site) {
        return Some((word, trigger.id.to_string(), format!("trigger, {}", trigger.on.keyword())));
    }
    let (path, word) = path_at(site)?;
    if let [name] = path.as_slice()
        && let Some(function) = expression::TABLE.iter().find(|function| function.name == name)
    {
        return Some((word, function.usage(), function.about.to_owned()));
    }
    if let ([name], Some(usage)) = (path.as_slice(), filter_usage(site, &word)) {
        return Some((word, usage, format!("the filter `{name}`")));
    }
    let (automation, unreadable) = site.automation.as_ref()?;
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let of_item = item_members(&names, expression::item_at_end(expression_before(site, &word)).as_ref());
    let names =
        of_item.as_ref().map_or(in_trigger(site, &names), |path| path.iter().map(String::as_str).collect());
    let registry = site.request.catalog.registry();
    let step = site.step();
    let kind = describe_type(automation, unreadable, registry, &names, step.as_deref());
    let text = kind.or_else(|| {
        let (last, parents) = names.split_last()?;
        let all = members(automation, unreadable, registry, parents, step.as_deref());
        all.into_iter().find(|member| member.name == *last).map(|member| member.detail)
    });
    let text = match text {
        Some(text) if text.is_empty() => "known here".to_owned(),
        Some(text) => text,
        None if names.len() > 1 => String::new(),
        None => return None,
    };
    Some((word, path.join("."), text))
}

/// The text of the expression at the cursor up to a word.
fn expression_before<'s>(site: &'s Site<'_>, word: &Range<usize>) -> &'s str {
    let text = site.request.text;
    let line = text[..word.start].rfind('\n').map_or(0, |at| at + 1);
    let before = text.get(line..word.start).unwrap_or_default();
    before.rsplit("${{").next().unwrap_or(before)
}
