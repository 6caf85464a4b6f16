//! The work of each action in its transaction.

use connector::Call;
use model::{ActionError, ErrorKind};
use value::{File, Map, Reserved, Value};

use super::Kind;
use super::insert::Insert;
use super::list::List;
use super::params::{Bound, bind, input_error, parse};
use super::rows::{Form, RowSink};
use super::session::{Done, Failure, Isolation, Session};
use super::spec::USUAL_ROWS;
use super::statement::{Dialect, Statement};

/// The work of a call, with its inputs checked.
pub(super) enum Work<'a> {
    /// `sql.query`.
    Query(Statement, Bound),
    /// `sql.listRows`.
    List(List),
    /// `sql.describe`.
    Describe(Statement),
    /// `sql.execute`.
    Execute(Statement, Bound, Option<i64>),
    /// `sql.insert`.
    Insert(Insert<'a>),
    /// `sql.transaction`.
    Transaction(Vec<Part<'a>>, Isolation),
}

/// A statement of a transaction.
pub(super) struct Part<'a> {
    statement: Statement,
    inputs: &'a Map,
}

fn text<'a>(inputs: &'a Map, name: &str) -> &'a str {
    inputs.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn params(inputs: &Map) -> Map {
    inputs.get("params").and_then(Value::as_map).cloned().unwrap_or_default()
}

/// Refuses `once` for a statement that would commit the key before its result.
fn check_once(statement: &Statement, inputs: &Map) -> Result<(), ActionError> {
    let is_once = inputs.get("once").and_then(Value::as_bool) == Some(true);
    if is_once && statement.commits_by_itself() {
        return Err(input_error(
            "`once` cannot be kept: the database commits this statement by itself; leave `once` out",
        ));
    }
    Ok(())
}

fn expected(inputs: &Map) -> Option<i64> {
    inputs.get("expect").and_then(Value::as_i64)
}

impl<'a> Work<'a> {
    pub(super) fn of(kind: Kind, call: &Call<'a>, dialect: Dialect) -> Result<Self, ActionError> {
        let inputs = call.inputs;
        let bound = || -> Result<(Statement, Bound), ActionError> {
            let statement = parse(text(inputs, "sql"), dialect)?;
            let bound = bind(&statement, &loaded(&params(inputs), call.memory)?)?;
            Ok((statement, bound))
        };
        match kind {
            Kind::Query => bound().map(|(statement, bound)| Self::Query(statement, bound)),
            Kind::List => List::of(inputs, dialect).map(Self::List),
            Kind::Describe => parse(text(inputs, "sql"), dialect).map(Self::Describe),
            Kind::Execute => {
                let (statement, bound) = bound()?;
                check_once(&statement, inputs)?;
                Ok(Self::Execute(statement, bound, expected(inputs)))
            }
            Kind::Insert => Insert::of(inputs, dialect).map(Self::Insert),
            Kind::Transaction => {
                let statements = inputs.get("statements").and_then(Value::as_list).unwrap_or_default();
                let statements = statements.iter().filter_map(Value::as_map);
                let part = |part: &'a Map| {
                    let statement = parse(text(part, "sql"), dialect)?;
                    check_once(&statement, inputs)?;
                    Ok(Part { statement, inputs: part })
                };
                let parts: Vec<Part<'a>> = statements.map(part).collect::<Result<_, ActionError>>()?;
                if parts.is_empty() {
                    return Err(input_error("`statements` is an empty list; name at least one statement"));
                }
                Ok(Self::Transaction(parts, Isolation::parse(text(inputs, "isolation"))))
            }
        }
    }

    /// True if a statement may leave something in the session, such as a setting, a temporary table or a lock.
    pub(super) fn changes_session(&self) -> bool {
        match self {
            Self::Query(statement, _) | Self::Execute(statement, ..) => statement.changes_session(),
            Self::List(_) | Self::Describe(_) | Self::Insert(_) => false,
            Self::Transaction(parts, _) => parts.iter().any(|part| part.statement.changes_session()),
        }
    }

    pub(super) fn isolation(&self) -> Isolation {
        if let Self::Transaction(_, isolation) = self { *isolation } else { Isolation::default() }
    }

    /// Reads the rows of a query.
    pub(super) async fn read(&self, session: &mut dyn Session, call: &Call<'_>) -> Result<Value, Failure> {
        let bound = match self {
            Self::Query(_, bound) => bound,
            Self::List(list) => return list.read(session, call).await,
            Self::Describe(statement) => return describe(statement, session).await,
            _ => return Err(mixed_up()),
        };
        let max = call.inputs.get("maxRows").and_then(Value::as_i64).unwrap_or(USUAL_ROWS);
        let form = match text(call.inputs, "as") {
            "csv" => Form::Csv(call.file_sink("the rows")),
            "jsonLines" => Form::JsonLines(call.file_sink("the rows")),
            _ => Form::Rows { max: usize::try_from(max).unwrap_or_default() },
        };
        let mut rows = sink(form, call);
        rows.numbers = text(call.inputs, "decimals") == "number";
        session.run(bound, &mut rows).await?;
        Ok(rows.into_result().await?)
    }

    /// Changes data. The result has no `repeated` yet.
    pub(super) async fn write(&self, session: &mut dyn Session, call: &Call<'_>) -> Result<Map, Failure> {
        match self {
            Self::Query(..) | Self::List(_) | Self::Describe(_) => Err(mixed_up()),
            Self::Execute(_, bound, expected) => {
                let mut rows = sink(Form::Rows { max: rows_limit() }, call);
                let done = session.run(bound, &mut rows).await?;
                executed(done, rows, *expected)
            }
            Self::Insert(insert) => insert.run(session, call).await,
            Self::Transaction(parts, _) => {
                let mut results: Vec<Value> = Vec::with_capacity(parts.len());
                for (index, part) in parts.iter().enumerate() {
                    let found = |id: &str| {
                        let at = parts[..index].iter().position(|part| text(part.inputs, "id") == id);
                        at.and_then(|at| Some((&parts[at], results.get(at)?)))
                    };
                    let result = part.run(session, call, &found).await.map_err(|mut failure| {
                        let place = format!("statement {}: ", index + 1);
                        failure.error.message.insert_str(0, &place);
                        failure
                    })?;
                    results.push(Value::from(result));
                }
                Ok(Map::from_iter([("results", Value::from(results))]))
            }
        }
    }
}

/// Returns an earlier statement and its result by its id.
type Results<'f, 'v> = dyn Fn(&str) -> Option<(&'v Part<'v>, &'v Value)> + Sync + 'f;

impl Part<'_> {
    /// The maps of values for each of which it runs; `None` if it runs once.
    fn rows(&self) -> Option<&[Value]> {
        self.inputs.get("rows").and_then(Value::as_list)
    }

    async fn run<'v>(
        &self,
        session: &mut dyn Session,
        call: &Call<'_>,
        found: &Results<'_, 'v>,
    ) -> Result<Map, Failure> {
        let mut rows = sink(Form::Rows { max: rows_limit() }, call);
        let mut fixed = params(self.inputs);
        let references = self.inputs.get("from").and_then(Value::as_map);
        for (name, reference) in references.into_iter().flat_map(Map::iter) {
            if fixed.insert(name.clone(), referred(name, reference, found)?).is_some() {
                return Err(input_error(format!("`{name}` is in `params` and in `from`")).into());
            }
        }
        let several = self.rows();
        let mut done = Done::default();
        let turns = several.map_or(1, <[Value]>::len);
        for turn in 0..turns {
            let mut params = fixed.clone();
            let own = several.and_then(|rows| rows.get(turn)).and_then(Value::as_map);
            for (name, value) in own.into_iter().flat_map(Map::iter) {
                params.insert(name.clone(), value.clone());
            }
            let bound = bind(&self.statement, &loaded(&params, call.memory)?)?;
            let turn = session.run(&bound, &mut rows).await?;
            done.affected = done.affected.saturating_add(turn.affected);
            done.last_id = turn.last_id.or(done.last_id);
            if rows.is_truncated() {
                break;
            }
        }
        executed(done, rows, expected(self.inputs))
    }
}

/// Asks the database for the parameters and columns of a statement.
async fn describe(statement: &Statement, session: &mut dyn Session) -> Result<Value, Failure> {
    let mut names = Vec::new();
    let sql = statement.render(|name, _| {
        names.push(name.to_owned());
        1
    });
    Ok(session.describe(&sql).await?.into_result(&names))
}

/// Returns the column of the first row of an earlier statement. `params` and `rows` hold data, which never choose what is read.
fn referred(name: &str, reference: &Value, found: &Results<'_, '_>) -> Result<Value, ActionError> {
    let part = |key| reference.as_map().and_then(|map| map.get(key)?.as_str()).unwrap_or_default();
    let (id, column) = (part("result"), part("column"));
    let (statement, result) = found(id)
        .ok_or_else(|| input_error(format!("`from.{name}`: no earlier statement has the id `{id}`")))?;
    if let Some(rows) = statement.rows().map(<[Value]>::len).filter(|rows| *rows > 1) {
        return Err(input_error(format!("`from.{name}`: {}", runs_several_times(id, rows))));
    }
    let row = result.get("row").unwrap_or_default();
    row.get(column).ok_or_else(|| {
        let words = if row.is_null() { "returned no row" } else { "has no such column" };
        let message = format!("`from.{name}` is the column `{column}` of `{id}`, which {words}");
        ActionError::new(ErrorKind::Failed, message).with_code("no_row")
    })
}

/// The message about a statement that `from` names, and that runs several times.
pub(super) fn runs_several_times(id: &str, rows: usize) -> String {
    format!(
        "the statement `{id}` runs {rows} times, once for each of its `rows`, so it has no row that could be meant"
    )
}

/// The values with the bytes of their files in memory.
fn loaded(params: &Map, memory: &Reserved) -> Result<Map, ActionError> {
    let mut loaded = Map::with_capacity(params.len());
    for (name, value) in params.iter() {
        let value = match value {
            Value::File(file) if file.data.is_external() => {
                let file = file.load(value::MAX_LOADED_BYTES, memory);
                let file: File = file.map_err(|error| input_error(format!("`params.{name}`: {error}")))?;
                Value::from(file)
            }
            other => other.clone(),
        };
        loaded.insert(name.clone(), value);
    }
    Ok(loaded)
}

fn sink<'s>(form: Form, call: &'s Call<'_>) -> RowSink<'s> {
    RowSink::new(form, call.http.options().max_response, call.answers)
}

fn rows_limit() -> usize {
    usize::try_from(USUAL_ROWS).unwrap_or_default()
}

fn executed(done: Done, rows: RowSink<'_>, expected: Option<i64>) -> Result<Map, Failure> {
    if rows.is_truncated() {
        let message =
            format!("the statement returns more than {USUAL_ROWS} rows; return fewer. Nothing was changed");
        return Err(ActionError::new(ErrorKind::Limit, message).into());
    }
    expect(expected, done.affected, "the statement")?;
    let last_id = done.last_id.map_or(Value::Null, Value::from);
    let affected = [("affected", Value::from(done.affected))];
    Ok(affected.into_iter().chain(rows.into_rows()).chain([("lastId", last_id)]).collect())
}

/// Compares the number of affected rows with the expected one.
fn expect(expected: Option<i64>, affected: u64, what: &str) -> Result<(), ActionError> {
    match expected {
        Some(expected) if u64::try_from(expected) != Ok(affected) => {
            let message =
                format!("{what} affected {affected} rows, and `expect` is {expected}; nothing was changed");
            Err(ActionError::new(ErrorKind::Failed, message).with_code("unexpected_count"))
        }
        _ => Ok(()),
    }
}

fn mixed_up() -> Failure {
    ActionError::new(ErrorKind::Internal, "an action ran the work of another").into()
}
