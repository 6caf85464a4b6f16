//! `cogwork connectors`

mod shared;
mod source;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand as Choice};
use connector::{ConnectionType, Connector, ProofKind, Registry};
use model::action::{ActionSpec, Effect, InputSpec, InputType, ObjectType};
use serde_json::json;
use text::diagnostic::nearest;

use shared::{Add, Remove, Update, Verify};

use super::Subcommand;
use crate::context::{Context, LogProfile};
use crate::exit::Exit;
use crate::output::{self, QUIET, STRONG, Table, cut, paint, plain};

const EXAMPLES: &str = "\
Examples:
  cogwork connectors list
  cogwork connectors show wiki
  cogwork connectors show wiki.createPage
  cogwork connectors test shop
  cogwork connectors test shop --against shop.openapi.json
  cogwork connectors add https://git.example.com/acme/shop.git@v1.2.0";

/// The maximum length of a default, in characters.
const DEFAULT: usize = 30;

/// Show, test and share connectors
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Connectors {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// List the connectors
    #[command(after_help = "Examples:\n  cogwork connectors list\n  cogwork connectors list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a connector, an action or a connection type
    #[command(after_help = EXAMPLES)]
    Show {
        /// A connector, `connector.action`, or a connection type
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Test the examples of connectors up to their requests, without a network
    #[command(
        after_help = "Examples:\n  cogwork connectors test\n  cogwork connectors test shop\n  cogwork connectors test shop --against shop.openapi.json"
    )]
    Test {
        /// A connector; default: all of the project
        name: Option<String>,
        /// Also compare its examples and results with the OpenAPI document of the service (JSON or YAML)
        #[arg(long, value_name = "FILE", requires = "name")]
        against: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Add(Add),
    Update(Update),
    Remove(Remove),
    Verify(Verify),
}

impl Subcommand for Connectors {
    const NAME: &'static str = "connectors";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        context.config(&[], LogProfile::Tool)?;
        // A user's own manifests are part of the project; outside a project there are only the built-in ones.
        let checked = authoring::check_project(context.dir(), &[])?;
        let registry = checked.catalog.registry();
        match self.what {
            Command::List { json } => list(registry, json)?,
            Command::Show { name, json } => show(registry, &name, json)?,
            Command::Test { name: Some(name), against: Some(file), json } => {
                return test_against(registry, &name, &file, json);
            }
            Command::Test { name, json, .. } => return test(&checked, name.as_deref(), json),
            Command::Add(add) => return add.run(context.dir(), registry),
            Command::Update(update) => return update.run(context.dir(), registry),
            Command::Remove(remove) => return remove.run(context.dir(), registry),
            Command::Verify(verify) => return verify.run(context.dir(), registry),
        }
        Ok(Exit::Done)
    }
}

/// Prints the request of each example, and reports the manifests whose examples differ.
fn test(checked: &authoring::ProjectCheck, name: Option<&str>, json: bool) -> anyhow::Result<Exit> {
    let registry = checked.catalog.registry();
    let of_project = |path: &str| path.starts_with("connectors/");
    let broken: Vec<_> = checked
        .reports
        .iter()
        .filter(|report| of_project(report.source().path()) && report.has_errors())
        .filter(|report| {
            name.is_none_or(|name| report.source().text().contains(&format!("connector: {name}")))
        })
        .collect();
    let wanted = |connector: &&Connector| match name {
        Some(name) => connector.name == name,
        None => connector.file.is_some(),
    };
    let connectors: Vec<&Connector> = registry.connectors().filter(wanted).collect();
    if let Some(name) = name.filter(|_| connectors.is_empty() && broken.is_empty()) {
        let near = nearest(name, registry.connectors().map(|connector| connector.name.as_str()));
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        anyhow::bail!("there is no connector `{name}`{near}");
    }
    let actions =
        connectors.iter().flat_map(|connector| &connector.actions).filter_map(|name| registry.action(name));
    let shown: Vec<_> = actions
        .filter_map(|action| Some((action.spec().name.as_str(), connector::show(&**action)?)))
        .collect();
    let count = shown.len();
    if json {
        let row = |(name, shown): &(&str, Result<connector::Shown, String>)| match shown {
            Ok(shown) => {
                json!({"action": name, "request": shown.request, "body": shown.body.as_ref().map(value::Value::to_serde)})
            }
            Err(words) => json!({"action": name, "error": words}),
        };
        output::json(&shown.iter().map(row).collect::<Vec<_>>())?;
    } else if count > 0 {
        let mut table = Table::new(&["ACTION", "ITS EXAMPLE SENDS"]);
        for (name, shown) in &shown {
            table.row([*name, shown.as_ref().map_or_else(|words| words.as_str(), |shown| &shown.request)]);
        }
        table.print()?;
    }
    output::reports(broken.iter().copied());
    let failed = broken.iter().map(|report| report.error_count()).sum::<usize>();
    output::say(format_args!(
        "{} right, {}",
        output::count(count, "example"),
        output::count(failed, "error")
    ));
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

/// Prints the differences between a connector and the description of its service.
fn test_against(registry: &Registry, name: &str, file: &Path, json: bool) -> anyhow::Result<Exit> {
    let document = super::import::read(file)?;
    let differences = connector::differences(registry, name, &document)
        .map_err(|words| anyhow::anyhow!("{}: {words}", file.display()))?;
    if json {
        let row = |one: &connector::Difference| json!({"action": one.action, "difference": one.message});
        output::json(&differences.iter().map(row).collect::<Vec<_>>())?;
    } else if !differences.is_empty() {
        let mut table = Table::new(&["ACTION", "DIFFERS FROM THE DOCUMENT"]);
        differences.iter().for_each(|one| table.row([&one.action, &one.message]));
        table.print()?;
    }
    output::say(output::count(differences.len(), "difference"));
    Ok(if differences.is_empty() { Exit::Done } else { Exit::Failed })
}

fn list(registry: &Registry, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&registry.connectors().collect::<Vec<_>>());
    }
    let mut table = Table::new(&["NAME", "TITLE", "ACTIONS", "CONNECTIONS", "FROM"]);
    for connector in registry.connectors() {
        let (actions, connections) = (connector.actions.len().to_string(), connector.connections.join(", "));
        let from = connector.file.as_deref().unwrap_or("built in");
        table.row([&connector.name, &connector.title, &actions, &connections, from]);
    }
    Ok(table.print()?)
}

fn show(registry: &Registry, name: &str, json: bool) -> anyhow::Result<()> {
    if let Some(connector) = registry.connectors().find(|connector| connector.name == name) {
        return show_connector(registry, connector, json);
    }
    if let Some(action) = registry.action(name) {
        return if json { output::json(action.spec()) } else { show_action(action.spec()) };
    }
    if let Some(kind) = registry.connection_type(name) {
        return if json { output::json(kind) } else { show_connection(kind) };
    }
    let names = registry.connectors().flat_map(|connector| {
        std::iter::once(&connector.name).chain(&connector.actions).chain(&connector.connections)
    });
    let near = nearest(name, names.map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    anyhow::bail!("there is no connector, action or connection type `{name}`{near}")
}

fn show_connector(registry: &Registry, connector: &Connector, json: bool) -> anyhow::Result<()> {
    let actions =
        connector.actions.iter().filter_map(|name| registry.action(name)).map(|action| action.spec());
    let kinds: Vec<_> =
        connector.connections.iter().filter_map(|name| registry.connection_type(name)).collect();
    if json {
        let actions: Vec<_> = actions.collect();
        return output::json(&json!({"connector": connector, "actions": actions, "connectionTypes": kinds}));
    }
    title(&connector.name, &connector.title, connector.description.as_deref())?;
    if let Some(proof) = &connector.proof {
        let by = match proof.by {
            ProofKind::OpenApi => "the service's own description",
            ProofKind::Examples => "the examples of the service's reference",
            ProofKind::Live => "calls of the service",
        };
        output::data(format_args!("\nproven by {by}, {}", proof.date))?;
    }
    let mut table = Table::new(&["ACTION", "", "DOES"]);
    for spec in actions {
        table.row([&spec.name, effect(spec.effect), &spec.title]);
    }
    output::data("")?;
    table.print()?;
    if !kinds.is_empty() {
        let mut table = Table::new(&["CONNECTION TYPE", "IS"]);
        kinds.iter().for_each(|kind| table.row([&kind.name, &kind.title]));
        output::data("")?;
        table.print()?;
    }
    Ok(())
}

fn show_action(spec: &ActionSpec) -> anyhow::Result<()> {
    title(&spec.name, &spec.title, spec.description.as_deref())?;
    if !spec.connections.is_empty() {
        let need = if spec.connection_required { "needs" } else { "takes" };
        output::data(format_args!("\n{need} a connection of type {}", spec.connections.join(" or ")))?;
    }
    inputs(spec.inputs.iter().map(|input| (input, false)))?;
    results(spec)?;
    let connection =
        spec.connections.first().map(|kind| format!("my{}", capital(kind.split('.').next().unwrap_or(kind))));
    let connection = connection.filter(|_| spec.connection_required);
    output::data(format_args!("\n{}\n{}", paint(STRONG, "EXAMPLE"), example(spec, connection)?.trim_end()))?;
    Ok(())
}

fn show_connection(kind: &ConnectionType) -> anyhow::Result<()> {
    title(&kind.name, &kind.title, kind.description.as_deref())?;
    inputs(kind.inputs.iter().map(|input| (&input.spec, input.secret)))
}

fn title(name: &str, title: &str, description: Option<&str>) -> anyhow::Result<()> {
    output::data(format_args!("{}  {}", paint(STRONG, name), plain(title)))?;
    for line in description.unwrap_or_default().lines() {
        output::data(format_args!("{}", paint(QUIET, plain(line))))?;
    }
    Ok(())
}

fn inputs<'a>(inputs: impl Iterator<Item = (&'a InputSpec, bool)>) -> anyhow::Result<()> {
    let mut table = Table::new(&["INPUT", "TYPE", "DEFAULT", "MEANS"]);
    let mut rows = 0;
    for (input, secret) in inputs {
        rows += add_input(&mut table, input, secret, 0);
    }
    output::data("")?;
    if rows == 0 { Ok(output::data("no inputs")?) } else { Ok(table.print()?) }
}

/// Adds an input and, indented, the entries of a map. Returns the number of rows.
fn add_input(table: &mut Table, input: &InputSpec, secret: bool, depth: usize) -> usize {
    let default = match (&input.default, input.required) {
        (Some(value), _) => cut(&value.to_json(), DEFAULT).into_owned(),
        (None, true) => "required".to_owned(),
        (None, false) => String::new(),
    };
    let name = format!("{}{}", "  ".repeat(depth), input.name);
    let kind = if secret { format!("{}, secret", input.kind.describe()) } else { input.kind.describe() };
    table.row([&name, &kind, &default, input.description.as_deref().unwrap_or_default()]);
    let mut inner = &input.kind;
    while let InputType::List { items } = inner {
        inner = items;
    }
    match inner {
        InputType::Object { fields } => {
            1 + fields.iter().map(|field| add_input(table, field, false, depth + 1)).sum::<usize>()
        }
        _ => 1,
    }
}

/// The result of the action: its description, and its fields.
fn results(spec: &ActionSpec) -> anyhow::Result<()> {
    let words = spec.result.clone().unwrap_or_else(|| spec.results.describe());
    output::data(format_args!("\n{}\n  {}", paint(STRONG, "RESULTS"), plain(&words)))?;
    let Some(object) = spec.results.object_within() else { return Ok(()) };
    let mut table = Table::new(&["FIELD", "TYPE", "MEANS"]);
    add_fields(&mut table, object, 0, &mut Vec::new());
    output::data("")?;
    Ok(table.print()?)
}

/// Adds the fields of a map and, indented, the fields of nested maps. A named type is expanded at its first occurrence.
fn add_fields<'a>(table: &mut Table, object: &'a ObjectType, depth: usize, shown: &mut Vec<&'a str>) {
    for field in &object.fields {
        let name = format!("{}{}", "  ".repeat(depth), field.name);
        let kind = field.kind.describe();
        let kind = if field.optional { format!("{kind}, optional") } else { kind };
        table.row([&name, &kind, field.description.as_deref().unwrap_or_default()]);
        let Some(inner) = field.kind.object_within() else { continue };
        match inner.name.as_deref() {
            Some(name) if shown.contains(&name) => continue,
            Some(name) => shown.push(name),
            None => {}
        }
        add_fields(table, inner, depth + 1, shown);
    }
}

/// The example as a step in an automation.
fn example(spec: &ActionSpec, connection: Option<String>) -> anyhow::Result<String> {
    let mut step = serde_json::Map::new();
    step.insert("action".to_owned(), spec.name.clone().into());
    step.extend(connection.map(|name| ("connection".to_owned(), name.into())));
    let with = spec.example.to_serde();
    if with.as_object().is_some_and(|with| !with.is_empty()) {
        step.insert("with".to_owned(), with);
    }
    let text = serde_yaml::to_string(&[step]).context("an example has a YAML form")?;
    Ok(text.lines().map(|line| format!("  {line}\n")).collect())
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Pure => "pure",
        Effect::Read => "reads",
        Effect::Write => "writes",
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
