//! Problems of a step's statements that its file shows.

use connector::{InputProblem, StaticInputs};
use expression::Template;
use language::load::PathSegment;
use value::{Map, Value};

use super::insert::table_name;
use super::statement::{Dialect, Statement, StatementError};

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
    let Some(statements) = (inputs.template)("statements").and_then(items) else { return Vec::new() };
    let dialects = dialects(inputs);
    let mut found = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        let place = |name: &str| {
            let path = vec![PathSegment::Item(index), PathSegment::Entry(name.to_owned())];
            ("statements".to_owned(), path)
        };
        let earlier = |id: &str| {
            let is_it = |other: &Entries<'_>| other.literal("id").and_then(Value::as_str) == Some(id);
            let is_known = statements[..index].iter().all(Entries::has_known_id);
            (is_known && !statements[..index].iter().any(is_it)).then(|| unknown_id(id))
        };
        let part = Part { template: &|name| statement.template(name), place: &place, has_values: true };
        found.extend(part.problems(&dialects, &earlier));
    }
    found
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

fn unknown_id(id: &str) -> String {
    format!("no statement before this one has the id `{id}`")
}

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
    /// The problems; `id_problem` returns the fault of the id of an earlier statement.
    fn problems(
        &self,
        dialects: &[Dialect],
        id_problem: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<InputProblem> {
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
            Ok(statements) if self.has_values => self.parameter_problems(&statements, id_problem),
            Ok(_) => Vec::new(),
        }
    }

    fn parameter_problems(
        &self,
        statements: &[Statement],
        id_problem: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<InputProblem> {
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
            let near = text::diagnostic::nearest(name, names.iter().copied());
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write `:{name}` into the statement, or remove it"),
            };
            let message = format!("`{name}` is not a parameter of the statement");
            found.push(self.at(key, Some(name), InputProblem::new(key, message, help)));
        }
        for (name, id) in from.into_iter().flat_map(references) {
            if let Some(problem) = id_problem(id) {
                let help = "name the `id` of an earlier statement";
                found.push(self.at("from", Some(name), InputProblem::new("from", problem, help)));
            }
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

/// The parameters that are a column of an earlier statement, each with the id of that statement.
fn references(template: &Template) -> Vec<(&str, &str)> {
    let entries = template.literal().and_then(Value::as_map).into_iter().flat_map(Map::iter);
    entries
        .filter_map(|(name, value)| Some((name.as_str(), value.as_map()?.get("result")?.as_str()?)))
        .collect()
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

    /// True if the id of the statement, or that it has none, is written out.
    fn has_known_id(&self) -> bool {
        let is_map = !matches!(self, Self::Template(template) if !matches!(template, Template::Map(_)));
        is_map && self.template("id").is_none_or(|id| id.literal().is_some())
    }
}
