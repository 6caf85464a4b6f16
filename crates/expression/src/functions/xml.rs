//! XML parsing to maps, lists and texts.
//!
//! The document is a map with the name of its root element. An element with neither attributes nor children is its text
//! (empty if it has none); any other element is a map of its attributes under `@name`, its children under their names, and its
//! text, if any, under `#text`. Children of the same name become a list. Text is trimmed, unless `trim` is false; comments, processing instructions
//! and the document type are ignored. Only the five predefined entities of XML are expanded: nothing is fetched and nothing
//! grows.

use std::sync::Arc;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion, escape};
use value::{Key, Map, Value};

use super::arguments::{Arguments, shorten};
use super::{MAX_DEPTH, MAX_NODES};

/// `parseXml(data, lists=, trim=)`.
pub(super) fn parse_xml(arguments: &Arguments<'_>) -> Result<Value, String> {
    let text = &*arguments.document("data")?;
    let lists = arguments.names("lists")?.unwrap_or_default();
    let mut reader = Reader::from_str(text);
    let trims = arguments.flag("trim", true)?;
    let mut tree = Tree { open: Vec::new(), root: None, lists, trims, left: MAX_NODES };
    loop {
        let step = reader.read_event().map_err(|error| error.to_string()).and_then(|event| tree.take(event));
        match step {
            Ok(true) => {}
            Ok(false) => return tree.finish(),
            Err(problem) => {
                let at = usize::try_from(reader.buffer_position()).unwrap_or(text.len()).min(text.len());
                let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
                return Err(format!("`data` is not XML that can be read: line {line}: {problem}"));
            }
        }
    }
}

/// An open element.
struct Element {
    name: Key,
    members: Map,
    text: String,
}

struct Tree<'a> {
    open: Vec<Element>,
    root: Option<(Key, Value)>,
    lists: Vec<&'a str>,
    /// True if the text of an element without children loses white space at its ends. Beside children it always does.
    trims: bool,
    left: usize,
}

impl Tree<'_> {
    /// Handles a parser event; returns false at the end of the document.
    fn take(&mut self, event: Event<'_>) -> Result<bool, String> {
        match event {
            Event::Start(start) => self.begin(&start)?,
            Event::Empty(start) => {
                self.begin(&start)?;
                self.end();
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.text(&text.xml10_content())?,
            Event::CData(text) => self.text(&text.xml10_content())?,
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(character)) => self.text(character.encode_utf8(&mut [0; 4]))?,
                Ok(None) => {
                    let name = reference.xml10_content();
                    let known = escape::resolve_xml_entity(&name).ok_or_else(|| {
                        format!("the entity `&{};` is not one of XML itself", shorten(&name))
                    })?;
                    self.text(known)?;
                }
                Err(error) => return Err(error.to_string()),
            },
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => return Ok(false),
        }
        Ok(true)
    }

    fn begin(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        if self.open.is_empty() && self.root.is_some() {
            return Err("there is a second root element".to_owned());
        }
        if self.open.len() == MAX_DEPTH {
            return Err(format!("elements nest deeper than {MAX_DEPTH} levels"));
        }
        self.count()?;
        let mut members = Map::new();
        // The reader's own check for duplicates takes quadratic time.
        let mut attributes = start.attributes();
        for attribute in attributes.with_checks(false) {
            self.count()?;
            let attribute = attribute.map_err(|error| error.to_string())?;
            let key = name(attribute.key.as_ref())?;
            let value =
                attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
            if members.insert(format!("@{key}"), value.as_ref()).is_some() {
                return Err(format!("the attribute `{}` occurs twice", shorten(key)));
            }
        }
        let name = name(start.name().as_ref())?.into();
        self.open.push(Element { name, members, text: String::new() });
        Ok(())
    }

    fn end(&mut self) {
        let Some(Element { name, mut members, text }) = self.open.pop() else { return };
        let value = if members.is_empty() {
            Value::from(if self.trims { text.trim() } else { &*text })
        } else {
            let text = text.trim();
            if !text.is_empty() {
                members.insert("#text", text);
            }
            Value::from(members)
        };
        let is_list = self.lists.contains(&name.as_ref());
        let Some(parent) = self.open.last_mut() else {
            self.root = Some((name, value));
            return;
        };
        match parent.members.get_mut(&name) {
            // Only repeated children become a list, since no element is a list itself.
            Some(Value::List(list)) => Arc::make_mut(list).0.push(value),
            Some(first) => *first = Value::from(vec![std::mem::take(first), value]),
            None if is_list => _ = parent.members.insert(name, vec![value]),
            None => _ = parent.members.insert(name, value),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => {
                return Err(format!("there is text outside the root element: `{}`", shorten(text.trim())));
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        let over = || format!("there are more than {MAX_NODES} elements and attributes");
        self.left = self.left.checked_sub(1).ok_or_else(over)?;
        Ok(())
    }

    fn finish(self) -> Result<Value, String> {
        if let Some(open) = self.open.last() {
            return Err(format!(
                "`data` is not XML that can be read: `<{}>` is not closed",
                shorten(&open.name)
            ));
        }
        let root = self.root.ok_or("`data` is not XML: it has no element")?;
        Ok(Value::from(Map::from_iter([root])))
    }
}

/// Checks the name of an element or attribute, because the reader accepts any characters.
fn name(text: &str) -> Result<&str, String> {
    let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':') || !c.is_ascii();
    let other = |c: char| first(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
    let fits = text.starts_with(first) && text.chars().all(other);
    if fits { Ok(text) } else { Err(format!("`{}` is not a name", shorten(text))) }
}
