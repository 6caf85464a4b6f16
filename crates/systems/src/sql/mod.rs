//! SQL: statements with bound parameters, in one transaction a step.
//!
//! * `spec`: the inputs and results of the actions
//! * `statement`: statements and their parameters, by the lexical rules of each database
//! * `check`: problems of a step's statements that its file shows
//! * `description`, `described`: statements as the database describes them
//! * `params`: values of parameters
//! * `work`: what each action does in its transaction
//! * `insert`: statements that insert many rows
//! * `list`: rows of a table by the time at which they were written
//! * `once`: the keys by which a repeated step changes nothing more
//! * `attempt`: one transaction a call, tried again after a conflict
//! * `session`: what each database has to offer
//! * `rows`, `file`: results and inputs that may be large
//! * `server`: the database of a connection
//! * `postgres`, `mysql`, `sqlite`: the databases

mod attempt;
mod check;
mod described;
mod description;
pub(crate) mod file;
mod insert;
mod list;
#[cfg(feature = "mysql")]
mod mysql;
mod once;
mod params;
mod postgres;
pub(crate) mod rows;
mod server;
mod session;
pub(crate) mod spec;
mod sqlite;
mod statement;
mod work;

use std::sync::Arc;

use async_trait::async_trait;
use connector::{Action, Call, InputProblem, Registry, StaticInputs};
use model::described::DescribedStatement;
use model::{ActionError, ActionSpec, Effect, ResultType};
use text::diagnostic::Report;
use value::{Map, Value};

use crate::pool::Pools;

pub use once::{index_of_once, table_of_once};
use server::Server;
use session::Opened;
pub use statement::{Dialect, Piece, Statement, StatementError};

/// Adds the connector.
pub(crate) fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    let pools = Arc::new(Pools::default());
    let build = |kind: Kind, specify: fn(ActionSpec) -> ActionSpec| {
        let pools = pools.clone();
        move |spec: ActionSpec, subject: &str| {
            let action = Sql { kind, spec: specify(spec), subject: subject.to_owned(), pools: pools.clone() };
            Arc::new(action) as Arc<dyn Action>
        }
    };
    let registry = registry.with_system(
        "connectors/sql.yaml",
        include_str!("../../manifests/sql.yaml"),
        &[
            ("query", &build(Kind::Query, spec::query)),
            ("listRows", &build(Kind::List, spec::list)),
            ("describe", &build(Kind::Describe, spec::describe)),
            ("execute", &build(Kind::Execute, spec::execute)),
            ("insert", &build(Kind::Insert, spec::insert)),
            ("transaction", &build(Kind::Transaction, spec::transaction)),
        ],
    )?;
    Ok(if cfg!(feature = "mysql") { registry } else { registry.without_feature("sql.mysql", "mysql") })
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Query,
    List,
    Describe,
    Execute,
    Insert,
    Transaction,
}

impl Kind {
    /// True if the action only reads.
    fn reads(self) -> bool {
        matches!(self, Self::Query | Self::List | Self::Describe)
    }
}

/// An action.
struct Sql {
    kind: Kind,
    spec: ActionSpec,
    subject: String,
    pools: Arc<Pools<Opened>>,
}

#[async_trait]
impl Action for Sql {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn memory_for_files(&self, inputs: &Map) -> usize {
        // A file of `sql.insert` is read in pieces; a file as the value of a parameter is sent as a whole, and exists twice for a moment.
        let parameters = inputs.iter().filter(|(name, _)| self.kind != Kind::Insert || &***name != "rows");
        let values = parameters.map(|(_, value)| value.external_bytes()).fold(0, usize::saturating_add);
        values.saturating_mul(2)
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        match self.kind {
            Kind::Query | Kind::Execute => check::statement(inputs, true),
            Kind::Describe => check::statement(inputs, false),
            Kind::List => {
                let check = |known: &Map, dialect| list::List::of(known, dialect).map(drop);
                check::table(inputs).into_iter().chain(check::values(&self.spec, inputs, check)).collect()
            }
            Kind::Insert => {
                let check = |known: &Map, dialect| insert::Insert::of(known, dialect).map(drop);
                let problems = check::insert(inputs);
                problems.into_iter().chain(check::values(&self.spec, inputs, check)).collect()
            }
            Kind::Transaction => check::transaction(inputs),
        }
    }

    fn transport_inputs(&self) -> &'static [&'static str] {
        if self.kind == Kind::List { &["wake"] } else { &[] }
    }

    async fn listen(&self, call: Call<'_>, wake: &(dyn Fn() + Send + Sync)) -> ActionError {
        let channel = call.inputs.get("wake").and_then(Value::as_str).unwrap_or_default();
        match Server::of(&call, self) {
            Ok(server) => server.listen(&call, channel, wake).await,
            Err(error) => error,
        }
    }

    fn statements(&self, inputs: &StaticInputs<'_>) -> Vec<String> {
        described::statements(self.kind, inputs)
    }

    fn described_results<'d>(
        &self,
        inputs: &StaticInputs<'_>,
        described: &dyn Fn(&str) -> Option<&'d DescribedStatement>,
    ) -> Option<ResultType> {
        matches!(self.kind, Kind::Query | Kind::Execute)
            .then(|| described::results(&self.spec, inputs, described))?
    }

    fn repeats_change(&self, known: &dyn Fn(&str) -> Option<Value>) -> bool {
        let is_safe =
            known("onConflict").is_some_and(|value| matches!(value.as_str(), Some("skip" | "update")));
        let is_once = known("once").is_some_and(|value| value.as_bool() == Some(true));
        self.spec.effect == Effect::Write && !is_once && !is_safe
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        call.recorded(&self.spec, &self.subject, attempt::run(self, &call)).await
    }
}
