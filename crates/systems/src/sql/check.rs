//! Problems of a step's statements that its file shows.

use connector::{InputProblem, StaticInputs};
use expression::Template;
use language::load::PathSegment;
use model::{ActionError, ActionSpec};
use value::{Map, Value};

use super::insert::table_name;
use super::statement::{Dialect, Statement, StatementError};
use super::work::runs_several_times;
use crate::spec::literal_problems;

/// The way out if a statement that `from` names runs several times.
const ONE_ROW: &str =
    "give it no `rows`, or read what is meant with a `select` between both, and name that one";

/// Checks the statement of `sql.query` and `sql.execute`, and, without values, that of `sql.describe`.
pub(super) fn statement(inputs: &StaticInputs<'_>, has_values: bool) -> Vec<InputProblem> {
    let part = Part {
        template: &|name| (inputs.template)(name),
        place: &|name| (name.to_owned(), Vec::new()),
        has_values,
    };
    part.problems(&dialects(inputs), &|_| None)
}

/// Checks the statements of `sql.transaction`.
pub(super) fn transaction(inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
    let Some(template) = (inputs.template)("statements") else { return Vec::new() };
    if let Template::Map(_) | Template::Literal(Value::Map(_)) = template {
        let message = "it is a map, and must be a list of statements";
        return vec![InputProblem::new("statements", message, "write a dash before it: `- sql: …`")];
    }
    let Some(statements) = items(template) else { return Vec::new() };
    if statements.is_empty() {
        let message = "it is an empty list";
        return vec![InputProblem::new("statements", message, "add a statement: `- sql: …`")];
    }
    let dialects = dialects(inputs);
    let mut found = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        let place = |name: &str| {
            let path = vec![PathSegment::Item(index), PathSegment::Entry(name.to_owned())];
            ("statements".to_owned(), path)
        };
        let has_id = |id: &str, other: &Entries<'_>| other.literal("id").and_then(Value::as_str) == Some(id);
        let earlier = |read: &Read<'_>| {
            let is_known = statements[..index].iter().all(Entries::has_known_id);
            match statements[..index].iter().find(|other| has_id(read.result, other)) {
                Some(source) => missing_column(source, read).or_else(|| several_rows(source, read)),
                None => is_known.then(|| unknown_id(read.result)),
            }
        };
        let part = Part { template: &|name| statement.template(name), place: &place, has_values: true };
        found.extend(part.problems(&dialects, &earlier));
        let id = statement.literal("id").and_then(Value::as_str);
        if let Some(id) = id.filter(|id| statements[..index].iter().any(|other| has_id(id, other))) {
            let message = format!("an earlier statement has the id `{id}` too, and `from` reads that one");
            found.push(part.at("id", None, InputProblem::new("id", message, "give it another id")));
        }
        if let Some(id) = id.filter(|id| !is_id(id)) {
            let message = format!("`{id}` is no id, which has letters, digits, `_` and `-`");
            found.push(part.at("id", None, InputProblem::new("id", message, "write it like `newOrder`")));
        }
    }
    found
}

fn is_id(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    !text.is_empty() && text.chars().all(is_part)
}

/// Returns the fault of a statement that runs several times: it has no row that a later one could mean.
fn several_rows(source: &Entries<'_>, read: &Read<'_>) -> Option<(String, String)> {
    let rows = items(source.template("rows")?)?.len();
    (rows > 1).then(|| (runs_several_times(read.result, rows), ONE_ROW.to_owned()))
}

/// Returns the fault of a column that an earlier statement does not return.
fn missing_column(source: &Entries<'_>, read: &Read<'_>) -> Option<(String, String)> {
    let text = source.literal("sql")?.as_str()?;
    let (id, column) = (read.result, read.column);
    let is_change = ["insert", "update", "delete"].into_iter().any(|word| starts_with_word(text, word));
    let Some(at) = text.to_ascii_lowercase().rfind("returning") else {
        let help = format!("end it with `returning {column}`");
        return is_change.then(|| (format!("the statement `{id}` returns no rows"), help));
    };
    let columns = plain_columns(text.get(at + "returning".len()..)?)?;
    if columns.iter().any(|known| known.eq_ignore_ascii_case(column)) {
        return None;
    }
    let help = match text::diagnostic::nearest(column, columns.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it returns {}", columns.join(", ")),
    };
    Some((format!("the statement `{id}` returns no column `{column}`"), help))
}

fn starts_with_word(text: &str, word: &str) -> bool {
    let first: &str = text.split_whitespace().next().unwrap_or_default();
    first.eq_ignore_ascii_case(word)
}

/// The columns of a list of plain names; `None` for any other list.
fn plain_columns(text: &str) -> Option<Vec<&str>> {
    let is_name = |name: &&str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let text = text.trim().trim_end_matches(';');
    text.split(',').map(str::trim).map(|name| Some(name).filter(is_name)).collect()
}

/// The statements of `sql.transaction` that are written out.
pub(super) fn texts(statements: &Template) -> Vec<String> {
    let statements = items(statements).unwrap_or_default();
    let text = |statement: &Entries<'_>| statement.literal("sql")?.as_str().map(str::to_owned);
    statements.iter().filter_map(text).collect()
}

/// Checks the name of the table.
pub(super) fn table(inputs: &StaticInputs<'_>) -> Option<InputProblem> {
    match (inputs.template)("table")? {
        Template::Literal(Value::String(table)) => {
            let message = table_name(table, Dialect::Postgres).err()?;
            Some(InputProblem::new("table", message, "correct the name"))
        }
        Template::Literal(_) => None,
        _ => Some(computed("table", "write the name of the table")),
    }
}

/// Checks the values of inputs, as far as they are known, for the dialects that the statement may be written in.
pub(super) fn values(
    spec: &ActionSpec,
    inputs: &StaticInputs<'_>,
    check: impl Fn(&Map, Dialect) -> Result<(), ActionError>,
) -> Vec<InputProblem> {
    literal_problems(&spec.inputs, inputs, |known| {
        let mut result = Ok(());
        for dialect in dialects(inputs) {
            result = check(known, dialect);
            if result.is_ok() {
                break;
            }
        }
        result
    })
}

/// Checks `sql.insert`.
pub(super) fn insert(inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
    let mut found = Vec::from_iter(table(inputs));
    let literal = |name: &str| inputs.literal(name);
    let updates = literal("onConflict").and_then(Value::as_str) == Some("update");
    let has_key = (inputs.template)("key").is_some_and(|key| key.literal().is_none_or(|key| !is_empty(key)));
    if updates && !has_key {
        let message = "`update` needs `key`, the columns by which a row is found";
        found.push(InputProblem::new("onConflict", message, "add `key: [id]` with the columns of the key"));
    }
    found
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_list().is_some_and(<[Value]>::is_empty)
}

fn computed(input: &str, first: &str) -> InputProblem {
    let message = "it is computed, so a value from outside could change what the statement does";
    let help = format!(
        "{first}, and give values as parameters: `:name` with `params: {{name: \"${{{{ … }}}}\"}}`; if it is meant, put `# cogwork: allow(computed-statement)` above"
    );
    InputProblem::new(input, message, help).with_code("computed-statement")
}

fn unknown_id(id: &str) -> (String, String) {
    let message = format!("no statement before this one has the id `{id}`");
    (message, "name the `id` of an earlier statement".to_owned())
}

/// A parameter that is a column of an earlier statement.
struct Read<'t> {
    parameter: &'t str,
    /// The id of the statement.
    result: &'t str,
    column: &'t str,
}

/// Returns the fault of a column of an earlier statement, and the way out.
type FindFault<'f> = dyn Fn(&Read<'_>) -> Option<(String, String)> + 'f;

/// The dialects that a statement may be written in.
fn dialects(inputs: &StaticInputs<'_>) -> Vec<Dialect> {
    let known: Vec<Dialect> = inputs.connection_types.iter().filter_map(|kind| Dialect::of(kind)).collect();
    if known.is_empty() { Dialect::ALL.to_vec() } else { known }
}

/// The statement of a step, or one of several.
struct Part<'p, 't> {
    /// The template of `sql`, `params`, `from` or `rows`.
    template: &'p dyn Fn(&str) -> Option<&'t Template>,
    /// The place of that key.
    place: &'p dyn Fn(&str) -> (String, Vec<PathSegment>),
    /// True if the parameters have values.
    has_values: bool,
}

impl Part<'_, '_> {
    /// The problems; `find_fault` returns the fault of a column of an earlier statement.
    fn problems(&self, dialects: &[Dialect], find_fault: &FindFault<'_>) -> Vec<InputProblem> {
        let text = match (self.template)("sql") {
            Some(Template::Literal(Value::String(text))) => text,
            Some(Template::Literal(_)) | None => return Vec::new(),
            Some(_) => return vec![self.at("sql", None, computed("sql", "write the statement out"))],
        };
        // With several kinds of connections, or none that is known, the text is right if any of them takes it.
        let parsed = dialects.iter().map(|dialect| Statement::parse(text, *dialect));
        let parsed: Result<Vec<Statement>, StatementError> = match dialects {
            [_] => parsed.collect(),
            _ => {
                let (good, bad): (Vec<_>, Vec<_>) = parsed.partition(Result::is_ok);
                match bad.into_iter().find_map(Result::err).filter(|_| good.is_empty()) {
                    Some(error) => Err(error),
                    None => good.into_iter().collect(),
                }
            }
        };
        match parsed {
            Err(error) => {
                let help = match &error {
                    StatementError::Second(_) => "write it in a step of its own, or use `sql.transaction`",
                    StatementError::Placeholder(_) => {
                        "name it, such as `:id`, and give its value in `params`"
                    }
                    StatementError::Control(_) => "leave it out: a step is one transaction",
                    StatementError::Empty | StatementError::Unclosed(_) => "correct the statement",
                };
                vec![self.at("sql", None, InputProblem::new("sql", error.to_string(), help))]
            }
            Ok(statements) if self.has_values => self.parameter_problems(&statements, find_fault),
            Ok(_) => Vec::new(),
        }
    }

    fn parameter_problems(&self, statements: &[Statement], find_fault: &FindFault<'_>) -> Vec<InputProblem> {
        let Some(first) = statements.first() else { return Vec::new() };
        let names = first.parameters();
        let params = (self.template)("params");
        let (from, rows) = ((self.template)("from"), (self.template)("rows"));
        let mut found = Vec::new();
        if from.is_some_and(|from| from.literal().is_none()) {
            found.push(self.at("from", None, computed("from", "write the statement and the column out")));
        }
        let (given, referred) = (keys(params), keys(from).unwrap_or_default());
        for name in given.iter().flatten().filter(|name| referred.contains(name)) {
            let message = format!("`{name}` has a value in `params` and in `from`");
            found.push(self.at("from", Some(name), InputProblem::new("from", message, "remove one of them")));
        }
        if let (Some(given), None) = (&given, rows) {
            for name in names.iter().filter(|name| !given.contains(name) && !referred.contains(name)) {
                let unused = given.iter().copied().filter(|given| !names.contains(given));
                let help = match text::diagnostic::nearest(name, unused) {
                    Some(near) => format!("did you mean `:{near}`?"),
                    None => format!("add it below `params`, such as `{name}: …`"),
                };
                let message = format!("the parameter `:{name}` has no value");
                found.push(self.at("sql", None, InputProblem::new("sql", message, help)));
            }
        }
        let used = |name: &&str| statements.iter().any(|statement| statement.parameters().contains(name));
        let all = given.iter().flatten().map(|name| ("params", name));
        for (key, name) in
            all.chain(referred.iter().map(|name| ("from", name))).filter(|(_, name)| !used(name))
        {
            let has_value =
                |name: &&str| referred.contains(name) || given.iter().flatten().any(|given| given == name);
            let free = names.iter().copied().filter(|name| !has_value(name));
            let help = match text::diagnostic::nearest(name, free) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write `:{name}` into the statement, or remove it"),
            };
            let message = format!("`{name}` is not a parameter of the statement");
            found.push(self.at(key, Some(name), InputProblem::new(key, message, help)));
        }
        for read in from.into_iter().flat_map(references) {
            if let Some((message, help)) = find_fault(&read) {
                let problem = InputProblem::new("from", message, help);
                found.push(self.at("from", Some(read.parameter), problem));
            }
        }
        if let (Some(rows), Some(given)) = (rows.and_then(items), &given) {
            let beside: Vec<&str> = given.iter().chain(&referred).copied().collect();
            found.extend(row_problem(&rows, &names, &beside).map(|problem| self.at("rows", None, problem)));
        }
        found
    }

    /// Places a problem at a key, or at an entry below it.
    fn at(&self, name: &str, entry: Option<&str>, problem: InputProblem) -> InputProblem {
        let (input, mut path) = (self.place)(name);
        let name = match (entry, path.pop()) {
            (Some(entry), last) => {
                path.extend(last);
                Some(entry.to_owned())
            }
            (None, Some(PathSegment::Entry(name))) => Some(name),
            (None, last) => {
                path.extend(last);
                None
            }
        };
        path.extend(name.map(PathSegment::Key));
        InputProblem { input, ..problem }.at(path)
    }
}

/// The keys of a map, none if there is no map; `None` if they are not known.
fn keys(template: Option<&Template>) -> Option<Vec<&str>> {
    let Some(template) = template else { return Some(Vec::new()) };
    match template {
        Template::Map(entries) => Some(entries.iter().map(|(key, _)| &**key).collect()),
        Template::Literal(Value::Map(map)) => Some(map.keys().collect()),
        Template::Literal(Value::Null) => Some(Vec::new()),
        _ => None,
    }
}

/// The parameters that are a column of an earlier statement.
fn references(template: &Template) -> Vec<Read<'_>> {
    let entries = template.literal().and_then(Value::as_map).into_iter().flat_map(Map::iter);
    entries
        .filter_map(|(name, value)| {
            let map = value.as_map()?;
            let (result, column) = (map.get("result")?.as_str()?, map.get("column")?.as_str()?);
            Some(Read { parameter: name.as_str(), result, column })
        })
        .collect()
}

/// The first problem of rows that are written out: `names` are the parameters of the statement, `beside` the ones with a value of
/// their own.
fn row_problem(rows: &[Entries<'_>], names: &[&str], beside: &[&str]) -> Option<InputProblem> {
    if rows.is_empty() {
        let message = "`rows` is an empty list, so the statement never runs";
        return Some(InputProblem::new("rows", message, "add a row, or remove `rows`"));
    }
    let known: Vec<Vec<&str>> = rows.iter().map(Entries::names).collect::<Option<_>>()?;
    for (index, row) in known.iter().enumerate() {
        let missing = names.iter().find(|name| !row.contains(name) && !beside.contains(name));
        let unused = row.iter().find(|name| !names.contains(name));
        let message = match (missing, unused) {
            (Some(name), _) => format!("row {}: the parameter `:{name}` has no value", index + 1),
            (None, Some(name)) => format!("row {}: `{name}` is not a parameter of the statement", index + 1),
            (None, None) => continue,
        };
        let free = || names.iter().copied().filter(|name| !row.contains(name) && !beside.contains(name));
        let near = unused.and_then(|unused| text::diagnostic::nearest(unused, free()));
        let help = match (near, missing) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(name)) => format!("add `{name}: …` to the row, or below `params` for all rows"),
            (None, None) => "write it into the statement, or remove it".to_owned(),
        };
        return Some(InputProblem::new("rows", message, help));
    }
    let name = beside.iter().find(|name| known.iter().all(|row| row.contains(name)))?;
    let message = format!("`{name}` has a value in each row, so its other one is never used");
    Some(InputProblem::new("rows", message, "remove one of them"))
}

/// The entries of a map in a list.
enum Entries<'t> {
    Template(&'t Template),
    /// A literal map, whose values are made templates.
    Literal(Vec<(String, Template)>),
}

/// The maps of a list; `None` if it is not known.
fn items(template: &Template) -> Option<Vec<Entries<'_>>> {
    match template {
        Template::List(items) => Some(items.iter().map(entries).collect()),
        Template::Literal(Value::List(list)) => Some(list.0.iter().map(literal_entries).collect()),
        _ => None,
    }
}

fn entries(template: &Template) -> Entries<'_> {
    match template {
        Template::Literal(value) => literal_entries(value),
        other => Entries::Template(other),
    }
}

fn literal_entries<'t>(value: &Value) -> Entries<'t> {
    let map = value.as_map().into_iter().flat_map(Map::iter);
    Entries::Literal(map.map(|(key, value)| (key.to_string(), Template::Literal(value.clone()))).collect())
}

impl Entries<'_> {
    fn template(&self, name: &str) -> Option<&Template> {
        match self {
            Self::Template(Template::Map(entries)) => {
                entries.iter().find(|(key, _)| &**key == name).map(|(_, template)| template)
            }
            Self::Template(_) => None,
            Self::Literal(entries) => {
                entries.iter().find(|(key, _)| key == name).map(|(_, template)| template)
            }
        }
    }

    fn literal(&self, name: &str) -> Option<&Value> {
        self.template(name)?.literal()
    }

    /// The names of the entries; `None` if they are not known.
    fn names(&self) -> Option<Vec<&str>> {
        match self {
            Self::Template(Template::Map(entries)) => Some(entries.iter().map(|(key, _)| &**key).collect()),
            Self::Template(_) => None,
            Self::Literal(entries) => Some(entries.iter().map(|(key, _)| key.as_str()).collect()),
        }
    }

    /// True if the id of the statement, or that it has none, is written out.
    fn has_known_id(&self) -> bool {
        let is_map = !matches!(self, Self::Template(template) if !matches!(template, Template::Map(_)));
        is_map && self.template("id").is_none_or(|id| id.literal().is_some())
    }
}
