//! Keys and values: from the JSON Schema that the loader's tables give, and from the registry.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use catalog::FileKind;
use language::schema::ProjectContext;
use model::automation::{DeclaredTrigger, TriggerKey};
use model::{ActionSpec, AutomationId, InputSpec, InputType};
use serde_json::Value;

use super::cursor::{PathPart, Role, Siblings};
use super::{CompletionItem, Site, expressions};

/// The deepest nesting of references in a schema.
const MAX_DEPTH: usize = 12;

static AUTOMATION: LazyLock<Value> =
    LazyLock::new(|| language::schema::automation(&ProjectContext::default()));
static CONNECTION: LazyLock<Value> =
    LazyLock::new(|| language::schema::connection(&ProjectContext::default()));
static PROJECT: LazyLock<Value> = LazyLock::new(language::schema::project);
static TESTS: LazyLock<Value> = LazyLock::new(language::schema::test_suite);

/// A schema, and the schemas of the value at a path.
struct Schemas {
    root: &'static Value,
    found: Vec<&'static Value>,
}

impl Schemas {
    fn root(site: &Site<'_>) -> Option<Self> {
        let root: &'static Value = match site.kind {
            _ if model::test_suite::is_test_file(site.request.path) => &TESTS,
            FileKind::Automation => &AUTOMATION,
            FileKind::Connection => &CONNECTION,
            FileKind::Project => &PROJECT,
            FileKind::Manifest | FileKind::ConnectorLock | FileKind::Code | FileKind::StatementTypes => {
                return None;
            }
        };
        Some(Self { root, found: vec![root] })
    }

    /// The schemas of the value at the path of the cursor.
    fn at(site: &Site<'_>, path: &[PathPart]) -> Option<Self> {
        let mut schemas = Self::root(site)?;
        let mut level = 0;
        for part in path {
            schemas = match part {
                PathPart::Key(key) => {
                    let next = schemas.key(key, site.cursor.levels.get(level));
                    level += 1;
                    next
                }
                PathPart::Item => schemas.item(),
            };
        }
        Some(schemas)
    }

    /// All alternatives with resolved references. Kinds of steps without the existing keys are left out.
    fn alternatives(&self, present: Option<&Siblings>) -> Vec<&'static Value> {
        let mut all = Vec::new();
        for schema in &self.found {
            self.flatten(schema, 0, &mut all);
        }
        let Some(present) = present else { return all };
        let has =
            |schema: &Value, key: &str| schema.get("properties").is_some_and(|keys| keys.get(key).is_some());
        let known: Vec<&str> = present
            .iter()
            .map(|(key, _)| key.as_str())
            .filter(|key| all.iter().any(|schema| has(schema, key)))
            .collect();
        let fits = |schema: &&Value| known.iter().all(|key| has(schema, key));
        if all.iter().any(fits) {
            all.retain(|schema| fits(schema));
        }
        all
    }

    fn flatten(&self, schema: &'static Value, depth: usize, all: &mut Vec<&'static Value>) {
        if depth > MAX_DEPTH {
            return;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str)
            && let Some(target) = self.root.pointer(reference.trim_start_matches('#'))
        {
            self.flatten(target, depth + 1, all);
        }
        all.push(schema);
        for word in ["anyOf", "oneOf", "allOf"] {
            let inner = schema.get(word).and_then(Value::as_array);
            inner.into_iter().flatten().for_each(|inner| self.flatten(inner, depth + 1, all));
        }
        if let Some(then) = schema.get("then") {
            self.flatten(then, depth + 1, all);
        }
    }

    fn key(&self, key: &str, present: Option<&Siblings>) -> Self {
        let child = |schema: &&'static Value| {
            let named = schema.get("properties").and_then(|keys| keys.get(key));
            named.or_else(|| schema.get("additionalProperties").filter(|any| any.is_object()))
        };
        let found = self.alternatives(present).iter().filter_map(child).collect();
        Self { root: self.root, found }
    }

    fn item(&self) -> Self {
        let found = self.alternatives(None).iter().filter_map(|schema| schema.get("items")).collect();
        Self { root: self.root, found }
    }

    /// The keys of a mapping, each with its schema.
    fn properties(&self, present: Option<&Siblings>) -> Vec<(&'static str, &'static Value)> {
        let mut keys: Vec<(&'static str, &'static Value)> = Vec::new();
        for schema in self.alternatives(present) {
            for (key, value) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if !keys.iter().any(|(known, _)| known == key) {
                    keys.push((key.as_str(), value));
                }
            }
        }
        keys
    }

    fn description(&self, schema: &'static Value) -> Option<&'static str> {
        let mut all = Vec::new();
        self.flatten(schema, 0, &mut all);
        all.iter().find_map(|schema| schema.get("description").and_then(Value::as_str))
    }
}

/// The action of the step that holds the cursor.
fn action<'s>(site: &'s Site<'_>) -> Option<&'s ActionSpec> {
    let name = site.cursor.nearest("action")?;
    site.request.catalog.registry().action(name.trim_matches(['"', '\''])).map(|action| action.spec())
}

/// The inputs at the cursor, if it is directly below `with` of a step or a trigger, or below the data of an event that a step sends.
fn inputs<'s>(site: &'s Site<'_>, path: &[PathPart]) -> Option<Cow<'s, [InputSpec]>> {
    let ends_with = |keys: &[&str]| {
        path.len() >= keys.len()
            && path
                .iter()
                .rev()
                .zip(keys.iter().rev())
                .all(|(part, key)| matches!(part, PathPart::Key(own) if own == key))
    };
    let catalog = site.request.catalog;
    if ends_with(&["with", "data"]) && sends_event(site) {
        let declared = catalog.declared_data(site.cursor.outer("name")?);
        return (!declared.is_empty()).then_some(Cow::Owned(declared));
    }
    if !ends_with(&["with"]) {
        return None;
    }
    if site.kind == FileKind::Connection {
        let kind = site.cursor.nearest("type")?;
        return catalog.registry().connection_type(kind).map(|_| Cow::default());
    }
    if let Some(spec) = action(site) {
        return Some(Cow::Borrowed(spec.inputs.as_slice()));
    }
    if !is_in_trigger(path) {
        return None;
    }
    let event = catalog.registry().event(site.cursor.outer("event")?)?;
    Some(Cow::Borrowed(event.inputs.as_slice()))
}

/// The inputs of the automation, if the cursor is at a name in the `inputs` of a trigger.
fn declared_inputs<'s>(site: &'s Site<'_>) -> Option<&'s [InputSpec]> {
    let is_inputs = site.cursor.path.last() == Some(&PathPart::Key("inputs".to_owned()));
    let (automation, _) = site.automation.as_ref()?;
    (is_inputs && is_in_trigger(&site.cursor.path)).then_some(automation.inputs.as_slice())
}

/// Returns true if a path is that of a trigger, or of a part of one.
pub(super) fn is_in_trigger(path: &[PathPart]) -> bool {
    matches!(path.first(), Some(PathPart::Key(key)) if key == "trigger" || key == "triggers")
}

/// The input whose value, or an item of whose value, is at the cursor.
fn input_at(site: &Site<'_>) -> Option<InputSpec> {
    let at = site.cursor.path.iter().rposition(|part| *part != PathPart::Item)?;
    let PathPart::Key(name) = site.cursor.path.get(at)? else { return None };
    inputs(site, &site.cursor.path[..at])?.iter().find(|input| input.name == *name).cloned()
}

/// The values that an input can have, as far as they are known: its options, or the names of what it selects.
fn input_values(site: &Site<'_>, input: &InputSpec) -> Vec<CompletionItem> {
    let automations = || site.request.catalog.automations().map(|found| &found.automation);
    match input.name.as_str() {
        "automations" if is_in_trigger(&site.cursor.path) => automations()
            .map(|found| CompletionItem::new(found.id.as_str(), "value").detail(found.name.clone()))
            .collect(),
        "labels" if is_in_trigger(&site.cursor.path) => {
            let labels: BTreeSet<&String> = automations().flat_map(|found| &found.labels).collect();
            labels.into_iter().map(|label| CompletionItem::new(label.as_str(), "value")).collect()
        }
        _ => options(&input.kind),
    }
}

pub(super) fn complete_key(site: &Site<'_>) -> Vec<CompletionItem> {
    // An item of a block list looks like a key that is being written.
    if selecting_key(site).is_some() {
        return complete_of(site);
    }
    let present = site.cursor.levels.last();
    let is_present = |key: &str| {
        site.word() != key && present.is_some_and(|level| level.iter().any(|(known, _)| known == key))
    };
    let insert = |key: &str| if site.cursor.has_colon { key.to_owned() } else { format!("{key}: ") };
    if let Some(inputs) = inputs(site, &site.cursor.path) {
        let input = |input: &InputSpec| {
            let detail =
                format!("{}{}", input.kind.describe(), if input.required { ", required" } else { "" });
            CompletionItem::new(&input.name, "input")
                .detail(detail)
                .about(input.description.clone().unwrap_or_default())
                .insert(insert(&input.name))
        };
        return inputs.iter().filter(|spec| !is_present(&spec.name)).map(input).collect();
    }
    if let Some(declared) = declared_inputs(site) {
        let open = declared.iter().filter(|input| !is_present(&input.name));
        let item = |input: &InputSpec| {
            CompletionItem::new(&input.name, "input")
                .detail(input.kind.describe())
                .insert(insert(&input.name))
        };
        return open.map(item).collect();
    }
    // An item of a block list looks like a key that is being written.
    if site.cursor.path.last() == Some(&PathPart::Item) && !site.cursor.has_colon {
        let items = complete_item(site);
        if !items.is_empty() {
            return items;
        }
    }
    let Some(schemas) = Schemas::at(site, &site.cursor.path) else { return Vec::new() };
    let properties = schemas.properties(present).into_iter().filter(|(key, _)| !is_present(key));
    let item = |(key, schema): (&'static str, &'static Value)| {
        CompletionItem::new(key, "key")
            .about(schemas.description(schema).unwrap_or_default())
            .insert(insert(key))
    };
    properties.map(item).collect()
}

pub(super) fn complete_value(site: &Site<'_>, key: &str) -> Vec<CompletionItem> {
    let catalog = site.request.catalog;
    match key {
        "action" => {
            let item = |spec: &ActionSpec| {
                CompletionItem::new(&spec.name, "action")
                    .detail(spec.title.clone())
                    .about(spec.description.clone().unwrap_or_default())
            };
            return catalog.registry().actions().map(|action| item(action.spec())).collect();
        }
        "connection" => {
            let accepted = action(site).map(|spec| spec.connections.as_slice()).unwrap_or_default();
            let fits = |kind: &String| accepted.is_empty() || accepted.contains(kind);
            let found = catalog.connections().filter(|connection| fits(&connection.kind));
            return found
                .map(|found| CompletionItem::new(&found.name, "connection").detail(found.kind.clone()))
                .collect();
        }
        "event" if input_at(site).is_some() => return own_events(site),
        "event" => {
            let is_wait = site.cursor.path.iter().any(|part| *part == PathPart::Key("waitFor".to_owned()));
            let events = catalog.registry().events().filter(|_| !is_wait);
            let events =
                events.map(|event| CompletionItem::new(&event.name, "value").detail(event.title.clone()));
            return own_events(site).into_iter().chain(events).collect();
        }
        "name" if sends_event(site) => {
            let mut items = own_events(site);
            items.push(template());
            return items;
        }
        "of" => return complete_of(site),
        "call" => {
            let all = catalog.automations().map(|found| &found.automation);
            return all
                .map(|found| CompletionItem::new(found.id.as_str(), "value").detail(found.name.clone()))
                .collect();
        }
        "needs" => return steps(site),
        "trigger" => {
            if let Some(id) = model::test_suite::suite_stem(site.request.path) {
                let found = catalog.find(id).map(|found| found.automation.triggers.as_slice());
                let item = |trigger: &DeclaredTrigger| {
                    CompletionItem::new(trigger.id.as_str(), "value").detail(trigger.on.keyword())
                };
                return found.unwrap_or_default().iter().map(item).collect();
            }
        }
        _ => {}
    }
    if language::load::takes_expression(key) {
        let line = site.request.text.get(..site.offset).unwrap_or_default();
        let before = line.rsplit('\n').next().unwrap_or_default();
        let value = before.split_once(':').map_or(before, |(_, value)| value);
        return expressions::complete(site, value);
    }
    let parents = &site.cursor.path[..site.cursor.path.len().saturating_sub(1)];
    if inputs(site, parents).is_some() {
        let mut items = input_at(site).map_or_else(Vec::new, |input| input_values(site, &input));
        // The inputs of an event of the engine are constant.
        if !is_in_trigger(parents) {
            items.push(template());
        }
        return items;
    }
    Schemas::at(site, &site.cursor.path).map_or_else(Vec::new, |schemas| values(&schemas))
}

/// Returns true if the step at the cursor sends an event.
fn sends_event(site: &Site<'_>) -> bool {
    action(site).is_some_and(|spec| spec.name == "events.emit")
}

/// Describes an event of a connector, or an own event with its senders and the triggers that it starts.
fn about_event(site: &Site<'_>, name: &str) -> Option<String> {
    let catalog = site.request.catalog;
    if let Some(event) = catalog.registry().event(name) {
        return Some(event.title.clone());
    }
    let uses = catalog.event_uses().remove(name)?;
    let ids =
        |ids: &BTreeSet<AutomationId>| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let starts: Vec<String> = uses.consumers.iter().map(TriggerKey::name).collect();
    let lines =
        [("sent by", ids(&uses.senders)), ("starts", starts.join(", ")), ("awaited by", ids(&uses.waiters))];
    let lines = lines.iter().filter(|(_, ids)| !ids.is_empty()).map(|(what, ids)| format!("{what} {ids}"));
    Some(format!("own event\n\n{}", lines.collect::<Vec<_>>().join("\n")))
}

/// The own events that files of the project name.
fn own_events(site: &Site<'_>) -> Vec<CompletionItem> {
    let names = site.request.catalog.own_event_names();
    names.iter().map(|name| CompletionItem::new(&**name, "value").detail("own event")).collect()
}

/// The names from which the mapping at the cursor selects: `of` below `connection` or `call`.
fn complete_of(site: &Site<'_>) -> Vec<CompletionItem> {
    selecting_key(site).map_or_else(Vec::new, |key| complete_value(site, key))
}

/// The key whose mapping has an `of` at the cursor: `connection` or `call`.
pub(super) fn selecting_key(site: &Site<'_>) -> Option<&'static str> {
    let mut keys = site.cursor.path.iter().rev().filter_map(|part| match part {
        PathPart::Key(key) => Some(key.as_str()),
        PathPart::Item => None,
    });
    if keys.next() != Some("of") {
        return None;
    }
    let outer = keys.next()?;
    ["connection", "call"].into_iter().find(|key| *key == outer)
}

pub(super) fn complete_item(site: &Site<'_>) -> Vec<CompletionItem> {
    let above = site.cursor.path.iter().rev().find(|part| **part != PathPart::Item);
    if selecting_key(site).is_some() {
        return complete_of(site);
    }
    if above == Some(&PathPart::Key("connection".to_owned())) {
        return complete_value(site, "connection");
    }
    if above == Some(&PathPart::Key("needs".to_owned())) {
        return steps(site);
    }
    let is_test = model::test_suite::is_test_file(site.request.path);
    if is_test && above == Some(&PathPart::Key("receivers".to_owned())) {
        return complete_value(site, "call");
    }
    if let Some(input) = input_at(site) {
        return input_values(site, &input);
    }
    Schemas::at(site, &site.cursor.path).map_or_else(Vec::new, |schemas| values(&schemas))
}

fn template() -> CompletionItem {
    CompletionItem::new("${{ … }}", "template").detail("an expression").insert("${{  }}")
}

/// The words that a schema allows.
fn values(schemas: &Schemas) -> Vec<CompletionItem> {
    let mut items: Vec<CompletionItem> = Vec::new();
    let mut add = |label: String| {
        if !items.iter().any(|item| item.label == label) {
            items.push(CompletionItem::new(label, "value"));
        }
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for schema in schemas.alternatives(None) {
        for word in ["enum", "examples"] {
            schema.get(word).and_then(Value::as_array).into_iter().flatten().map(text).for_each(&mut add);
        }
        schema.get("const").map(text).into_iter().for_each(&mut add);
        if schema.get("type").and_then(Value::as_str) == Some("boolean") {
            ["true", "false"].map(str::to_owned).into_iter().for_each(&mut add);
        }
    }
    items
}

fn options(kind: &InputType) -> Vec<CompletionItem> {
    match kind {
        InputType::Boolean => ["true", "false"].map(|word| CompletionItem::new(word, "value")).into(),
        InputType::Choice { options } => {
            options.iter().map(|word| CompletionItem::new(word.to_string(), "value")).collect()
        }
        InputType::List { items } => options(items),
        _ => Vec::new(),
    }
}

fn steps(site: &Site<'_>) -> Vec<CompletionItem> {
    let Some((automation, _)) = &site.automation else { return Vec::new() };
    let mut items = Vec::new();
    automation.walk(&mut |step| {
        let name = step.name.clone().unwrap_or_else(|| step.verb.keyword().to_owned());
        items.push(CompletionItem::new(step.id.as_ref(), "step").detail(name));
    });
    items
}

/// The step that a `needs` names at the cursor.
pub(super) fn step_at(site: &Site<'_>) -> Option<String> {
    let above = site.cursor.path.iter().rev().find(|part| **part != PathPart::Item);
    let is_needs = above == Some(&PathPart::Key("needs".to_owned()));
    if is_needs { Some(site.word().to_owned()) } else { expressions::step_at(site) }
}

/// The settings of the step at the cursor that `defaults` can give, a line each with its place.
fn effective(site: &Site<'_>) -> Option<String> {
    let (automation, _) = site.automation.as_ref()?;
    let completed = site.request.catalog.completed(automation);
    let automation = completed.as_ref().unwrap_or(automation);
    let settings = catalog::effective_settings(automation, automation.step(&site.step()?)?);
    let lines: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Some(lines.join("\n"))
}

pub(super) fn hover(site: &Site<'_>) -> Option<(Range<usize>, String, String)> {
    let word = site.word();
    let range = site.cursor.word.clone();
    match &site.cursor.role {
        Role::Value(key) if key == "action" => {
            let action = site.request.catalog.registry().action(word)?;
            let spec = action.spec();
            let inputs: Vec<String> = spec
                .inputs
                .iter()
                .map(|input| {
                    format!(
                        "{}{}: {}",
                        input.name,
                        if input.required { "*" } else { "" },
                        input.kind.describe()
                    )
                })
                .collect();
            let parts = [
                Some(spec.title.clone()),
                spec.description.clone(),
                Some(inputs.join("\n")),
                effective(site),
            ];
            let text =
                parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
            Some((range, spec.name.clone(), text))
        }
        Role::Value(key) if key == "event" || key == "name" && sends_event(site) => {
            Some((range, word.to_owned(), about_event(site, word)?))
        }
        _ if selecting_key(site) == Some("connection") => {
            let found = site.request.catalog.connection(word)?;
            Some((range, found.name.clone(), format!("{} in {}", found.kind, found.source.path())))
        }
        Role::Value(key) if key == "connection" => {
            let found = site.request.catalog.connection(word)?;
            Some((range, found.name.clone(), format!("{} in {}", found.kind, found.source.path())))
        }
        Role::Value(key) if language::load::takes_expression(key) => expressions::hover(site),
        Role::Key if site.cursor.has_colon => {
            if let Some(inputs) = inputs(site, &site.cursor.path) {
                let input = inputs.iter().find(|input| input.name == word)?;
                let about = input.description.clone().unwrap_or_default();
                return Some((range, format!("{word}: {}", input.kind.describe()), about));
            }
            let schemas = Schemas::at(site, &site.cursor.path)?;
            let (_, schema) =
                schemas.properties(site.cursor.levels.last()).into_iter().find(|(key, _)| *key == word)?;
            let mut text = schemas.description(schema)?.to_owned();
            if ["action", "call"].contains(&word) {
                text.extend(effective(site).map(|settings| format!("\n\n{settings}")));
            }
            Some((range, word.to_owned(), text))
        }
        _ => {
            let (automation, _) = site.automation.as_ref()?;
            let id = step_at(site)?;
            let detail = format!("step, {}", automation.step(&id)?.verb.keyword());
            Some((range, id, detail))
        }
    }
}
