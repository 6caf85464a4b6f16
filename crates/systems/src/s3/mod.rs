//! Objects in a bucket, by the protocol of Amazon S3.
//!
//! * `spec`: the inputs and results of the actions
//! * `bucket`: the bucket of a connection: addresses, signed requests
//! * `identity`: keys for the token of a workload
//! * `failure`: errors of the store
//! * `document`: the XML of requests and answers
//! * `read`: `get`, `head` and `presign`
//! * `write`: `put`, `delete` and `copy`
//! * `parts`: uploads in parts
//! * `list`: `list` and `listChanged`

mod bucket;
mod document;
mod failure;
mod identity;
mod list;
mod parts;
mod read;
mod spec;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use connector::{Action, Call, InputProblem, Registry, StaticInputs};
use model::{ActionError, ActionSpec, ErrorKind};
use text::diagnostic::Report;
use value::{Map, Value};

use bucket::Bucket;
use identity::Identities;

use crate::spec::{check_content, instant_of, literal_problems, period_of};

/// Adds the connector.
pub(crate) fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    let identities = Arc::new(Identities::default());
    let build = |kind: Kind, specify: fn(ActionSpec) -> ActionSpec| {
        let identities = identities.clone();
        move |spec: ActionSpec, subject: &str| {
            let (spec, subject) = (specify(spec), subject.to_owned());
            Arc::new(S3 { kind, spec, subject, identities: identities.clone() }) as Arc<dyn Action>
        }
    };
    registry.with_system(
        "connectors/s3.yaml",
        include_str!("../../manifests/s3.yaml"),
        &[
            ("get", &build(Kind::Get, spec::get)),
            ("head", &build(Kind::Head, spec::head)),
            ("put", &build(Kind::Put, spec::put)),
            ("list", &build(Kind::List, spec::list)),
            ("listChanged", &build(Kind::ListChanged, spec::list_changed)),
            ("delete", &build(Kind::Delete, spec::delete)),
            ("copy", &build(Kind::Copy, spec::copy)),
            ("presign", &build(Kind::Presign, spec::presign)),
        ],
    )
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Head,
    Put,
    List,
    ListChanged,
    Delete,
    Copy,
    Presign,
}

/// An action.
struct S3 {
    kind: Kind,
    spec: ActionSpec,
    subject: String,
    identities: Arc<Identities>,
}

#[async_trait]
impl Action for S3 {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let mut found: Vec<InputProblem> = ["key", "from", "to"]
            .into_iter()
            .filter_map(|name| {
                let (text, is_whole) = inputs.text_prefix(name)?;
                let problem = bucket::key_problem(text).filter(|_| is_whole || !text.is_empty())?;
                Some(InputProblem::new(name, problem, "write a key without such a part"))
            })
            .collect();
        found.extend(literal_problems(&self.spec.inputs, inputs, check));
        if self.kind == Kind::Delete && inputs.literal("key").is_some() == (inputs.template)("keys").is_some()
        {
            let is_both = inputs.literal("key").is_some();
            let message = if is_both { "it is given beside `key`" } else { "neither it nor `key` is given" };
            let is_computed = (inputs.template)("key").is_some() && !is_both;
            if !is_computed {
                found.push(InputProblem::new("keys", message, "write either `key` or `keys`"));
            }
        }
        found
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        let bucket = Bucket::open(self, &call).await?;
        match self.kind {
            Kind::Get => read::get(&bucket).await,
            Kind::Head => read::head(&bucket).await,
            Kind::Put => write::put(&bucket).await,
            Kind::List => list::list(&bucket).await,
            Kind::ListChanged => list::list_changed(&bucket).await,
            Kind::Delete => write::delete(&bucket).await,
            Kind::Copy => write::copy(&bucket).await,
            Kind::Presign => read::presign(&bucket),
        }
    }
}

/// Checks the inputs of any of the actions, as far as they are known.
fn check(inputs: &Map) -> Result<(), ActionError> {
    check_content(inputs, "content")?;
    read::range_of(inputs)?;
    read::lifetime(inputs)?;
    write::check_metadata(inputs)?;
    inputs.get("keys").and_then(Value::as_list).map_or(Ok(()), write::check_keys)?;
    period_of(inputs, "overlap")?;
    instant_of(inputs, "after").map(drop)
}

fn input_error(message: impl Into<String>) -> ActionError {
    ActionError::new(ErrorKind::Input, message)
}
