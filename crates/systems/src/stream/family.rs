//! The connector of a broker: a manifest with native actions, and the event of its messages.

use std::sync::Arc;

use async_trait::async_trait;
use connector::{
    Action, Broker, Call, EventSpec, Http, InputProblem, LogSink, MessageSource, Registry,
    ResolvedConnection, SourceOptions, StaticInputs,
};
use model::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec};
use text::diagnostic::Report;
use value::{Map, Value};

use crate::connection::connection_error;
use crate::spec::literal_problems;

/// The server of a connection, and the way to it.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(any(feature = "amqp", feature = "nats", feature = "redis")),
    expect(dead_code, reason = "the clients read it")
)]
pub(crate) struct Target<'a> {
    pub http: &'a Http,
    pub connection: &'a ResolvedConnection,
    pub log: &'a dyn LogSink,
}

impl<'a> From<SourceOptions<'a>> for Target<'a> {
    fn from(options: SourceOptions<'a>) -> Self {
        Self { http: options.http, connection: options.connection, log: options.log }
    }
}

/// The client of a kind of broker. `K` tells its actions apart.
#[async_trait]
pub(crate) trait Family<K>: Send + Sync {
    /// Checks the inputs of an action, as far as they are known.
    fn check(&self, kind: K, inputs: &Map) -> Result<(), ActionError>;

    /// Checks the inputs of the event, as far as they are known.
    fn check_event(&self, _: &Map) -> Result<(), ActionError> {
        Ok(())
    }

    /// Carries out an action, whose inputs are checked.
    async fn call(&self, kind: K, call: &Call<'_>, target: Target<'_>) -> Result<Value, ActionError>;

    /// Opens a source of messages.
    async fn open(&self, options: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError>;
}

/// An action: its name, the kind by which its family knows it, and its specification.
pub(crate) type Described<K> = (&'static str, K, fn(ActionSpec) -> ActionSpec);

/// A connector of a broker.
pub(crate) struct Connector<K: 'static> {
    /// Its name, which is also that of the feature with its client.
    pub name: &'static str,
    /// The broker as messages name it.
    pub subject: &'static str,
    /// Its type of connection.
    pub connection: &'static str,
    /// The path of its manifest, as reports name it, and its text.
    pub manifest: (&'static str, &'static str),
    pub actions: &'static [Described<K>],
    pub event: fn(Arc<dyn Broker>) -> EventSpec,
}

impl<K: Copy + Send + Sync + 'static> Connector<K> {
    /// Adds the connector. Without its client, `family` is `None`.
    pub(crate) fn register(
        &'static self,
        registry: Registry,
        family: Option<Arc<dyn Family<K>>>,
    ) -> Result<Registry, Box<Report>> {
        type Build = Box<dyn Fn(ActionSpec, &str) -> Arc<dyn Action> + Sync>;
        let build = |&(name, kind, specify): &Described<K>| -> (&'static str, Build) {
            let family = family.clone();
            let build = move |spec: ActionSpec, _: &str| {
                let (spec, family) = (specify(spec), family.clone());
                Arc::new(BrokerAction { connector: self, kind, spec, family }) as Arc<dyn Action>
            };
            (name, Box::new(build))
        };
        let built: Vec<(&'static str, Build)> = self.actions.iter().map(build).collect();
        let natives: Vec<_> = built.iter().map(|(name, build)| (*name, &**build as _)).collect();
        let registry = registry.with_system(self.manifest.0, self.manifest.1, &natives)?;
        let is_built = family.is_some();
        let event = (self.event)(Arc::new(Brought { connector: self, family }));
        let registry = registry.with_system_event(self.name, event);
        Ok(if is_built { registry } else { registry.without_feature(self.connection, self.name) })
    }

    fn client<'a>(
        &self,
        family: &'a Option<Arc<dyn Family<K>>>,
    ) -> Result<&'a Arc<dyn Family<K>>, ActionError> {
        let missing = || connection_error(format!("this program was built without `{}`", self.name));
        family.as_ref().ok_or_else(missing)
    }
}

/// An action of a broker.
struct BrokerAction<K: 'static> {
    connector: &'static Connector<K>,
    kind: K,
    spec: ActionSpec,
    family: Option<Arc<dyn Family<K>>>,
}

#[async_trait]
impl<K: Copy + Send + Sync + 'static> Action for BrokerAction<K> {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn memory_for_files(&self, inputs: &Map) -> usize {
        // The bytes, and the message as it is sent.
        inputs
            .iter()
            .map(|(_, value)| value.external_bytes())
            .fold(0, usize::saturating_add)
            .saturating_mul(2)
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let Some(family) = &self.family else { return Vec::new() };
        literal_problems(&self.spec.inputs, inputs, |known| family.check(self.kind, known))
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        call.recorded(&self.spec, self.connector.subject, self.live(&call)).await
    }
}

impl<K: Copy + Send + Sync + 'static> BrokerAction<K> {
    async fn live(&self, call: &Call<'_>) -> Result<Value, ActionError> {
        let missing = || connection_error(format!("`{}` needs a connection", self.spec.name));
        let connection = call.connection_for(&self.spec)?.ok_or_else(missing)?;
        let client = self.connector.client(&self.family)?;
        client.check(self.kind, call.inputs)?;
        let target = Target { http: call.http, connection, log: call.log };
        let work = client.call(self.kind, call, target);
        let Some(limit) = call.time_left else { return work.await };
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let limit = text::units::format_duration(limit);
            let message = format!("{} did not answer within {limit}", self.connector.subject);
            let error = ActionError::new(ErrorKind::Timeout, message);
            Err(if self.spec.effect == Effect::Write { error.with_outcome_unknown() } else { error })
        })
    }
}

/// The broker whose messages start executions.
struct Brought<K: 'static> {
    connector: &'static Connector<K>,
    family: Option<Arc<dyn Family<K>>>,
}

#[async_trait]
impl<K: Copy + Send + Sync + 'static> Broker for Brought<K> {
    async fn open(&self, options: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError> {
        let client = self.connector.client(&self.family)?;
        client.check_event(options.inputs)?;
        client.open(options).await
    }

    fn check_static(&self, specs: &[InputSpec], inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let Some(family) = &self.family else { return Vec::new() };
        literal_problems(specs, inputs, |known| family.check_event(known))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Registers a connector as a program without its client does.
    fn check_unbuilt<K: Copy + Send + Sync + 'static>(connector: &'static Connector<K>, feature: &str) {
        let builtin = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let registry = connector.register(builtin, None);
        let registry = registry.unwrap_or_else(|report| panic!("{}", report.render(false)));
        let kind = format!("{feature}.server");
        assert_eq!(registry.missing_feature(&kind), Some(feature));
        assert!(
            registry.connection_type(&kind).is_some()
                && registry.event(&format!("{feature}.message")).is_some()
        );
        assert!(
            include_str!("../../Cargo.toml").contains(&format!("\n{feature} = [")),
            "`{feature}` is a feature"
        );
        let error = connector.client(&None).err().expect("there is no client");
        assert_eq!(error.message, format!("this program was built without `{feature}`"));
    }

    #[test]
    fn a_program_without_a_client_names_the_feature_that_has_it() {
        check_unbuilt(&crate::nats::CONNECTOR, "nats");
        check_unbuilt(&crate::amqp::CONNECTOR, "amqp");
        check_unbuilt(&crate::redis::CONNECTOR, "redis");
    }
}
