//! NATS: messages of JetStream, and their publishing.
//!
//! * `spec`: the inputs and results of the actions and of the event
//! * `client`: a connection to a server
//! * `publish`: the actions
//! * `source`: messages for triggers

#[cfg(feature = "nats")]
mod client;
#[cfg(feature = "nats")]
mod publish;
#[cfg(feature = "nats")]
mod source;
mod spec;

use std::sync::Arc;

use async_trait::async_trait;
use connector::{Action, Broker, Call, MessageSource, Registry, SourceOptions};
use model::{ActionError, ActionSpec};
use text::diagnostic::Report;
use value::{Map, Value};

/// The called system as messages name it.
const SUBJECT: &str = "the NATS server";

/// Adds the connector.
pub(crate) fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    let shared = Arc::<Shared>::default();
    let build = |kind: Kind, specify: fn(ActionSpec) -> ActionSpec| {
        let shared = shared.clone();
        move |spec: ActionSpec, _: &str| {
            Arc::new(Nats { kind, spec: specify(spec), shared: shared.clone() }) as Arc<dyn Action>
        }
    };
    let registry = registry.with_system(
        "connectors/nats.yaml",
        include_str!("../../manifests/nats.yaml"),
        &[
            ("publish", &build(Kind::Publish, spec::publish)),
            ("serverInfo", &build(Kind::ServerInfo, spec::server_info)),
        ],
    )?;
    let registry = registry.with_system_event("nats", spec::message(Arc::new(JetStream)));
    Ok(if cfg!(feature = "nats") { registry } else { registry.without_feature("nats.server", "nats") })
}

#[cfg(feature = "nats")]
type Shared = client::Clients;
/// The clients of a build without them.
#[cfg(not(feature = "nats"))]
#[derive(Default)]
struct Shared;

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Publish,
    ServerInfo,
}

/// An action.
#[cfg_attr(not(feature = "nats"), allow(dead_code))]
struct Nats {
    kind: Kind,
    spec: ActionSpec,
    shared: Arc<Shared>,
}

#[async_trait]
impl Action for Nats {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn memory_for_files(&self, inputs: &Map) -> usize {
        // The bytes, and the message as it is sent.
        inputs.get("body").map_or(0, Value::external_bytes).saturating_mul(2)
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        call.recorded(&self.spec, SUBJECT, self.live(&call)).await
    }
}

/// The broker.
struct JetStream;

#[cfg(feature = "nats")]
impl Nats {
    async fn live(&self, call: &Call<'_>) -> Result<Value, ActionError> {
        Box::pin(publish::run(self, call)).await
    }
}

#[cfg(feature = "nats")]
#[async_trait]
impl Broker for JetStream {
    async fn open(&self, options: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError> {
        Ok(Box::new(source::Source::open(options).await?))
    }
}

#[cfg(not(feature = "nats"))]
fn not_built() -> ActionError {
    ActionError::new(model::ErrorKind::Connection, "this program was built without `nats`")
}

#[cfg(not(feature = "nats"))]
impl Nats {
    async fn live(&self, _: &Call<'_>) -> Result<Value, ActionError> {
        Err(not_built())
    }
}

#[cfg(not(feature = "nats"))]
#[async_trait]
impl Broker for JetStream {
    async fn open(&self, _: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError> {
        Err(not_built())
    }
}
