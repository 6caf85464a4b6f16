//! The reference of the connectors as Markdown: a page each, made of what their actions declare of themselves.

use std::fmt::Write as _;

use anyhow::Context as _;
use connector::{Connector, Registry};
use model::action::{ActionSpec, Effect, InputSpec, InputType, ObjectType, ResultType};

/// The page of a connector.
pub(crate) fn page(registry: &Registry, connector: &Connector) -> anyhow::Result<String> {
    let mut text = format!("# {}\n", connector.name);
    if let Some(about) = &connector.description {
        let _ = write!(text, "\n{about}\n");
    }
    let actions =
        || connector.actions.iter().filter_map(|name| registry.action(name)).map(|action| action.spec());
    text.push_str("\n| Action | Does |\n|---|---|\n");
    for spec in actions() {
        let _ = writeln!(text, "| [`{}`](#{}) | {} |", spec.name, anchor(&spec.name), spec.title);
    }
    for kind in connector.connections.iter().filter_map(|name| registry.connection_type(name)) {
        let _ = write!(text, "\n## Connection type {}\n\n{}.\n", kind.name, kind.title);
        let secrets: Vec<&str> =
            kind.inputs.iter().filter(|input| input.secret).map(|input| input.spec.name.as_str()).collect();
        inputs(&mut text, kind.inputs.iter().map(|input| &input.spec), &secrets);
    }
    for spec in actions() {
        action(&mut text, spec, registry)?;
    }
    Ok(text)
}

/// The page about the keys of calls: the placement of each connector, and the actions that another attempt may repeat.
pub(crate) fn call_keys(registry: &Registry) -> String {
    let mut text = "# Keys of calls\n\nHow the services of the connectors take [the key of a call](../guarantees.md), which is the same for each \
                    attempt at a step. If the answer to an action of the last column is lost, another attempt changes the data once \
                    more: a `retry` of it is the warning [`repeated-write`](../diagnostics/steps.md#repeated-write).\n\n\
                    | Connector | Key | Repeated by another attempt |\n|---|---|---|\n"
        .to_owned();
    for connector in registry.connectors() {
        let Some(key) = &connector.idempotency else { continue };
        let sends =
            connector.actions.iter().filter_map(|name| registry.action(name)).filter(|action| {
                action.spec().effect == Effect::Write && connector::show(&***action).is_some()
            });
        let sends: Vec<_> = sends.collect();
        if sends.is_empty() {
            continue;
        }
        let repeated = sends.iter().filter(|action| action.repeats_change(&|_| None));
        let name = |name: &str| name.split('.').next_back().map(|name| format!("`{name}`"));
        let repeated: Vec<String> = repeated.filter_map(|action| name(&action.spec().name)).collect();
        cells(&mut text, [&format!("`{}`", connector.name), &key.in_words(), &repeated.join(", ")]);
    }
    text
}

fn action(text: &mut String, spec: &ActionSpec, registry: &Registry) -> anyhow::Result<()> {
    let _ = write!(text, "\n## {}\n\n{}.", spec.name, spec.title);
    if let Some(about) = &spec.description {
        let _ = write!(text, " {about}");
    }
    let effect = match spec.effect {
        Effect::Pure => "It has no outside effects.",
        Effect::Read => "It only reads data.",
        Effect::Write => "It changes data.",
    };
    let _ = write!(text, "\n\n{effect}");
    if !spec.connections.is_empty() {
        let need = if spec.connection_required { "needs" } else { "takes" };
        let types: Vec<String> = spec.connections.iter().map(|kind| format!("`{kind}`")).collect();
        let _ = write!(text, " It {need} a connection of type {}.", types.join(" or "));
    }
    text.push('\n');
    inputs(text, spec.inputs.iter(), &[]);
    let words = spec.result.clone().unwrap_or_else(|| spec.results.describe());
    let _ = write!(text, "\nResult: {}.\n", words.trim_end_matches('.'));
    if let Some(object) = spec.results.object_within().filter(|object| !object.fields.is_empty()) {
        text.push_str("\n| Field | Type | Meaning |\n|---|---|---|\n");
        fields(text, object, "", &mut Vec::new());
    }
    let _ = write!(text, "\n```yaml steps\n{}```\n", example(spec, registry)?);
    Ok(())
}

fn inputs<'a>(text: &mut String, inputs: impl Iterator<Item = &'a InputSpec>, secrets: &[&str]) {
    let mut rows = String::new();
    for input in inputs {
        row(&mut rows, input, secrets.contains(&input.name.as_str()), "");
    }
    if rows.is_empty() {
        text.push_str("\nIt has no inputs.\n");
    } else {
        text.push_str("\n| Input | Takes | Default | Meaning |\n|---|---|---|---|\n");
        text.push_str(&rows);
    }
}

/// The row of an input and, below it, those of the entries of a map.
fn row(rows: &mut String, input: &InputSpec, secret: bool, above: &str) {
    let default = match (&input.default, input.required) {
        (Some(value), _) => format!("`{}`", value.to_json()),
        (None, true) => "required".to_owned(),
        (None, false) => String::new(),
    };
    let name = format!("{above}{}", input.name);
    let secret = if secret { ", secret" } else { "" };
    let takes = format!("{}{secret}", input.kind.describe());
    let about = input.description.as_deref().unwrap_or_default();
    cells(rows, [&format!("`{name}`"), &takes, &default, about]);
    let mut inner = &input.kind;
    let mut name = name;
    while let InputType::List { items } = inner {
        inner = items;
        name.push_str("[]");
    }
    if let InputType::Object { fields } = inner {
        fields.iter().for_each(|field| row(rows, field, false, &format!("{name}.")));
    }
}

/// The fields of a map and, below each, those of the map in it. A named type is taken apart where it first appears.
fn fields<'a>(text: &mut String, object: &'a ObjectType, above: &str, shown: &mut Vec<&'a str>) {
    for field in &object.fields {
        let kind = field.kind.describe();
        let kind = if field.optional { format!("{kind}, optional") } else { kind };
        let name = format!("{above}{}", field.name);
        cells(text, [&format!("`{name}`"), &kind, field.description.as_deref().unwrap_or_default()]);
        let Some(inner) = field.kind.object_within() else { continue };
        match inner.name.as_deref() {
            Some(name) if shown.contains(&name) => continue,
            Some(name) => shown.push(name),
            None => {}
        }
        let list = if matches!(field.kind, ResultType::List { .. }) { "[]" } else { "" };
        fields(text, inner, &format!("{name}{list}."), shown);
    }
}

fn cells<const N: usize>(text: &mut String, cells: [&str; N]) {
    let _ = writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
}

/// The example as a step, with a connection that is there.
fn example(spec: &ActionSpec, registry: &Registry) -> anyhow::Result<String> {
    let mut step = serde_json::Map::new();
    step.insert("action".to_owned(), spec.name.clone().into());
    if let Some(kind) = spec.connections.first().filter(|_| spec.connection_required) {
        step.insert("connection".to_owned(), registry.usual_connection_name(kind).into());
    }
    let with = spec.example.to_serde();
    if with.as_object().is_some_and(|with| !with.is_empty()) {
        step.insert("with".to_owned(), with);
    }
    let text = serde_yaml::to_string(&[step]).context("an example has a YAML form")?;
    Ok(text.lines().map(|line| quoted(line) + "\n").collect())
}

/// The line, with quotes around a word that some readers of YAML take for true or false.
fn quoted(line: &str) -> String {
    match line.split_once(": ") {
        Some((key, word @ ("yes" | "no" | "on" | "off" | "y" | "n"))) => format!("{key}: \"{word}\""),
        _ => line.to_owned(),
    }
}

fn anchor(name: &str) -> String {
    name.to_lowercase().replace('.', "")
}
