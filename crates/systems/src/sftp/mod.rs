//! Files on a server that takes logins by SSH.
//!
//! * `spec`: the inputs and results of the actions
//! * `client`: what they do, in a program that was built with the feature `sftp`

#[cfg(feature = "sftp")]
mod client;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connector::{Action, Call, InputProblem, Registry, StaticInputs};
use model::{ActionError, ActionSpec, ErrorKind};
use text::diagnostic::Report;
use value::{Map, Value};

#[cfg(feature = "sftp")]
use crate::pool::Pools;
use crate::spec::{check_content, instant_of, literal_problems, period_of};

#[cfg(feature = "sftp")]
use client::{Arrivals, Moves, Session};

/// The longest time for which a file must stay the same.
const MAX_SETTLE: Duration = Duration::from_secs(24 * 60 * 60);

/// Adds the connector.
pub(crate) fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    #[cfg(feature = "sftp")]
    let (arrivals, moves, pools) =
        (Arc::new(Arrivals::default()), Arc::new(Moves::default()), Arc::new(Pools::default()));
    let build = |kind: Kind, specify: fn(ActionSpec) -> ActionSpec| {
        #[cfg(feature = "sftp")]
        let (arrivals, moves, pools) = (arrivals.clone(), moves.clone(), pools.clone());
        move |spec: ActionSpec, subject: &str| {
            let action = Sftp {
                kind,
                spec: specify(spec),
                subject: subject.to_owned(),
                #[cfg(feature = "sftp")]
                arrivals: arrivals.clone(),
                #[cfg(feature = "sftp")]
                moves: moves.clone(),
                #[cfg(feature = "sftp")]
                pools: pools.clone(),
            };
            Arc::new(action) as Arc<dyn Action>
        }
    };
    let registry = registry.with_system(
        "connectors/sftp.yaml",
        include_str!("../../manifests/sftp.yaml"),
        &[
            ("list", &build(Kind::List, spec::list)),
            ("listArrived", &build(Kind::ListArrived, spec::list_arrived)),
            ("stat", &build(Kind::Stat, spec::stat)),
            ("get", &build(Kind::Get, spec::get)),
            ("put", &build(Kind::Put, spec::put)),
            ("move", &build(Kind::Move, spec::rename)),
            ("delete", &build(Kind::Delete, spec::delete)),
            ("makeFolder", &build(Kind::MakeFolder, spec::make_folder)),
        ],
    )?;
    let is_built = cfg!(feature = "sftp");
    let without =
        |registry: Registry, name| if is_built { registry } else { registry.without_feature(name, "sftp") };
    Ok(["sftp.key", "sftp.password"].into_iter().fold(registry, without))
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    List,
    ListArrived,
    Stat,
    Get,
    Put,
    Move,
    Delete,
    MakeFolder,
}

/// An action.
struct Sftp {
    #[cfg_attr(not(feature = "sftp"), expect(dead_code, reason = "the client reads it"))]
    kind: Kind,
    spec: ActionSpec,
    subject: String,
    #[cfg(feature = "sftp")]
    arrivals: Arc<Arrivals>,
    #[cfg(feature = "sftp")]
    moves: Arc<Moves>,
    #[cfg(feature = "sftp")]
    pools: Arc<Pools<Session>>,
}

#[async_trait]
impl Action for Sftp {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        literal_problems(&self.spec.inputs, inputs, check)
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        Box::pin(call.recorded(&self.spec, &self.subject, self.run(&call))).await
    }
}

impl Sftp {
    #[cfg(not(feature = "sftp"))]
    async fn run(&self, _: &Call<'_>) -> Result<Value, ActionError> {
        Err(ActionError::new(ErrorKind::Connection, "this program was built without `sftp`"))
    }
}

/// Checks the inputs of any of the actions, as far as they are known.
fn check(inputs: &Map) -> Result<(), ActionError> {
    for name in ["path", "from", "to"].into_iter().filter(|name| inputs.contains_key(name)) {
        path_of(inputs, name)?;
    }
    check_content(inputs, "content")?;
    instant_of(inputs, "after")?;
    settle(inputs).map(drop)
}

/// The path in an input. The protocol ends a path at its end, and a server at a NUL.
fn path_of<'a>(inputs: &'a Map, name: &str) -> Result<&'a str, ActionError> {
    match inputs.get(name).and_then(Value::as_str).unwrap_or_default() {
        "" => Err(input_error(format!("`{name}` is empty; `.` is the folder of the account"))),
        path if path.contains('\0') => Err(input_error(format!("`{name}` has a NUL character"))),
        path => Ok(path),
    }
}

/// Reads the time for which a file must stay the same.
fn settle(inputs: &Map) -> Result<Duration, ActionError> {
    let time = period_of(inputs, "settle")?.unwrap_or_default();
    if time > MAX_SETTLE { Err(input_error("`settle` is at most 1d")) } else { Ok(time) }
}

fn input_error(message: impl Into<String>) -> ActionError {
    ActionError::new(ErrorKind::Input, message)
}
