//! `cogwork connections describe` and `prepare`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use authoring::ExpectedVersion;
use clap::Args;
use engine::Engine;
use model::described::{DescribedStatement, DescribedStatements, NamedType, StatementPlace};
use runtime::SystemClock;
use value::{Map, Value};

use crate::commands::run::workspace::Workspace;
use crate::context::{Context, LogProfile};
use crate::daemon;
use crate::exit::Exit;
use crate::output::{self, count, plain};
use crate::project;
use crate::settings::{Config, Flags, RUN};
use crate::store_server;

/// The time for calls that still run at the end.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(super) struct Describe {
    /// The name of the connection
    name: String,
    /// Write nothing, and exit with 1 if the database differs from the file
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    settings: Flags<RUN>,
}

#[derive(Args, Debug)]
pub(super) struct Prepare {
    /// The name of the connection
    name: String,
}

impl Prepare {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let catalog = project::check(context.dir(), &[])?.catalog;
        let Some(connection) = catalog.connection(&self.name) else {
            anyhow::bail!("there is no connection `{}` without errors in `connections/`", self.name);
        };
        let Some(statement) = catalog::table_of_once(&connection.kind) else {
            anyhow::bail!("a connection of the type `{}` is not one to a database", connection.kind);
        };
        output::data(format_args!("{statement};"))?;
        if let Some(index) = catalog::index_of_once(&connection.kind) {
            output::data(format_args!(
                "-- For a table of an earlier version, which has no index on `at`: {index};"
            ))?;
        }
        Ok(Exit::Done)
    }
}

impl Describe {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let config = context.config(self.settings.given(), LogProfile::Tool)?;
        daemon::runtime()?.block_on(self.execute(&config))
    }

    async fn execute(&self, config: &Config) -> anyhow::Result<Exit> {
        let Some(found) = ask(config, Some(&self.name)).await?.into_iter().next() else {
            return Ok(Exit::Failed);
        };
        let Some(described) = &found.now else { return Ok(Exit::Failed) };
        let number = count(described.statements.len(), "statement");
        let (path, differences) = (found.path(), found.differences());
        if self.check {
            differences.iter().for_each(|difference| output::error(plain(difference)));
            if !differences.is_empty() {
                output::say(format_args!(
                    "`cogwork connections describe {}` writes `{path}` anew",
                    self.name
                ));
                return Ok(Exit::Failed);
            }
            output::say(format_args!("`{path}` describes {number} as the database does"));
            return Ok(Exit::Done);
        }
        let expected = match authoring::read_file(&config.dir, &path)? {
            Some(found) => ExpectedVersion::Is(found.version),
            None => ExpectedVersion::Missing,
        };
        authoring::write_file(&config.dir, &path, Some(&text(&self.name, described)), &expected)?;
        differences.iter().for_each(|difference| output::say(plain(difference)));
        output::say(format_args!("`{path}` describes {number}"));
        Ok(Exit::Done)
    }
}

/// Asks the databases of all connections that are described for their statements. Prints what has changed, and returns true if
/// something has.
///
/// # Errors
/// The project or its store cannot be opened.
pub(in crate::commands) fn print_changes(context: &Context) -> anyhow::Result<bool> {
    let config = context.config(&[], LogProfile::Tool)?;
    let found = daemon::runtime()?.block_on(ask(&config, None))?;
    let mut has_changed = false;
    for connection in &found {
        has_changed |= connection.now.is_none();
        for difference in connection.differences() {
            has_changed = true;
            output::error(plain(&format!("{}: {difference}", connection.path())));
        }
    }
    Ok(has_changed)
}

/// The statements of a connection.
struct Found {
    name: String,
    /// The file.
    before: Option<Arc<DescribedStatements>>,
    /// The answers of the database; `None` if it refused a statement, which has been printed.
    now: Option<DescribedStatements>,
}

impl Found {
    fn path(&self) -> String {
        format!("connections/{}.types.yaml", self.name)
    }

    fn differences(&self) -> Vec<String> {
        let none = DescribedStatements::default();
        let before = self.before.as_deref().unwrap_or(&none);
        self.now.as_ref().map(|now| differences(before, now)).unwrap_or_default()
    }
}

/// Asks the database of a connection, or of each that is described, for the statements of all steps.
async fn ask(config: &Config, name: Option<&str>) -> anyhow::Result<Vec<Found>> {
    let workspace = Workspace::of_project(config)?;
    let mut settings = config.engine();
    (settings.watch, settings.background) = (false, false);
    store_server::close(config, &mut settings);
    let vault = Arc::new(workspace.vault(config).await?);
    let store = workspace.store.clone();
    let engine = Engine::start_with(settings, store, vault, Arc::new(SystemClock)).await?;
    let catalog = engine.catalog();
    let described = catalog.connections().map(|connection| connection.name.clone());
    let names: Vec<String> = match name {
        Some(name) => vec![name.to_owned()],
        None => described.filter(|name| catalog.described_statements(name).is_some()).collect(),
    };
    let mut found = Vec::new();
    for name in names {
        let before = catalog.described_statements(&name);
        found.push(describe(&engine, &name).await.map(|now| Found { name, before, now }));
    }
    engine.shutdown(GRACE).await;
    workspace.store.close().await?;
    found.into_iter().collect()
}

/// Asks the database for each statement; `None` if it refuses one of them, which has been printed.
async fn describe(engine: &Engine, name: &str) -> anyhow::Result<Option<DescribedStatements>> {
    let catalog = engine.catalog();
    let Some(connection) = catalog.connection(name) else {
        anyhow::bail!("there is no connection `{name}` without errors in `connections/`");
    };
    let connector = connection.kind.split('.').next().unwrap_or_default();
    let action = format!("{connector}.describe");
    if catalog.registry().action(&action).is_none() {
        anyhow::bail!("a connection of the type `{}` has no statements to describe", connection.kind);
    }
    let statements: BTreeMap<String, StatementPlace> = catalog.statements_of(name);
    if statements.is_empty() {
        output::say(format_args!("no step runs a statement with `{name}`"));
    }
    let mut described = DescribedStatements::default();
    let mut is_refused = false;
    for (sql, place) in statements {
        let inputs = Map::from_iter([("sql", Value::from(&*sql))]);
        match engine.connections().call(&catalog, name, &action, &inputs).await? {
            Ok(result) => {
                let statement = DescribedStatement {
                    parameters: named_types(&result, "parameters"),
                    columns: named_types(&result, "columns"),
                };
                described.statements.insert(sql, statement);
            }
            Err(error) => {
                is_refused = true;
                let StatementPlace { path, step } = place;
                output::error(plain(&format!("{path}, step `{step}`: {}", error.message)));
            }
        }
    }
    Ok((!is_refused).then_some(described))
}

fn named_types(result: &Value, list: &str) -> Vec<NamedType> {
    let items = result.get(list);
    let items = items.as_ref().and_then(Value::as_list).unwrap_or_default();
    let text = |item: &Value, name: &str| item.get(name).map(|text| text.to_text()).unwrap_or_default();
    items.iter().map(|item| NamedType { name: text(item, "name"), kind: text(item, "type") }).collect()
}

/// The changes of statements that both describe, each as a sentence.
fn differences(before: &DescribedStatements, after: &DescribedStatements) -> Vec<String> {
    let mut found = Vec::new();
    for (sql, now) in &after.statements {
        let Some(then) = before.statements.get(sql) else {
            found.push(format!("new: {}", shortened(sql)));
            continue;
        };
        let lists =
            [("column", &then.columns, &now.columns), ("parameter", &then.parameters, &now.parameters)];
        for (what, then, now) in lists {
            let kind = |of: &[NamedType], name: &str| {
                of.iter().find(|typed| typed.name == name).map(|typed| typed.kind.clone())
            };
            let gone = then.iter().filter(|typed| kind(now, &typed.name).is_none());
            found.extend(gone.map(|typed| format!("{what} `{}` is gone: {}", typed.name, shortened(sql))));
            for typed in now {
                let change = match kind(then, &typed.name) {
                    Some(kind) if kind == typed.kind => continue,
                    Some(kind) => format!("was `{kind}` and is `{}`", typed.kind),
                    None => "is new".to_owned(),
                };
                found.push(format!("{what} `{}` {change}: {}", typed.name, shortened(sql)));
            }
        }
    }
    let gone = before.statements.keys().filter(|sql| !after.statements.contains_key(*sql));
    found.extend(gone.map(|sql| format!("no step runs it any more: {}", shortened(sql))));
    found
}

fn shortened(sql: &str) -> String {
    let line: Vec<&str> = sql.split_whitespace().collect();
    text::truncate(&line.join(" "), 60).into_owned()
}

/// The text of the file.
fn text(name: &str, described: &DescribedStatements) -> String {
    let mut text = format!(
        "# Written by `cogwork connections describe {name}`: the columns of each statement, by which rows are checked.\nstatements:"
    );
    if described.statements.is_empty() {
        text.push_str(" []\n");
        return text;
    }
    text.push('\n');
    for (sql, statement) in &described.statements {
        let _ = writeln!(text, "  - sql: {}", quoted(sql));
        for (key, types) in [("parameters", &statement.parameters), ("columns", &statement.columns)] {
            if types.is_empty() {
                continue;
            }
            let _ = writeln!(text, "    {key}:");
            for typed in types {
                let _ = writeln!(text, "      {}: {}", quoted(&typed.name), quoted(&typed.kind));
            }
        }
    }
    text
}

/// A text in the quotes of JSON, which YAML reads alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(columns: &[(&str, &str)]) -> DescribedStatements {
        let named =
            |(name, kind): &(&str, &str)| NamedType { name: (*name).to_owned(), kind: (*kind).to_owned() };
        let statement =
            DescribedStatement { parameters: Vec::new(), columns: columns.iter().map(named).collect() };
        DescribedStatements {
            statements: BTreeMap::from([("select \"a\",\n  'ü:#' as \"b c\" -- x".to_owned(), statement)]),
        }
    }

    #[test]
    fn a_written_description_is_read_as_it_was() {
        for columns in [&[("a", "int4"), ("b c", "double precision"), ("null", "y")][..], &[]] {
            let written = text("books", &described(columns));
            let source = Arc::new(::text::diagnostic::Source::new("connections/books.types.yaml", written));
            let loaded = language::load::described_statements(source);
            assert!(loaded.report.is_empty(), "{}", loaded.report.render(false));
            assert_eq!(loaded.value, Some(described(columns)));
        }
        let none = DescribedStatements::default();
        let source = Arc::new(::text::diagnostic::Source::new("x", text("books", &none)));
        assert_eq!(language::load::described_statements(source).value, Some(none));
    }

    #[test]
    fn a_difference_names_the_column_and_the_statement() {
        let (before, after) =
            (described(&[("a", "int4"), ("b", "text")]), described(&[("a", "int8"), ("c", "text")]));
        let sql = "select \"a\", 'ü:#' as \"b c\" -- x";
        assert_eq!(
            differences(&before, &after),
            [
                format!("column `b` is gone: {sql}"),
                format!("column `a` was `int4` and is `int8`: {sql}"),
                format!("column `c` is new: {sql}"),
            ]
        );
        assert_eq!(differences(&DescribedStatements::default(), &after), [format!("new: {sql}")]);
        assert!(differences(&after, &after).is_empty());
    }
}
