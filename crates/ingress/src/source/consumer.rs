//! One consumer: connects, takes messages as long as its trigger is in force and its shard is here, and connects again after an error.

use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Mount};
use connector::{
    Broker, ConnectionValue, LogSink, MessageSource, ResolvedConnection, SourceOptions, check_event_inputs,
};
use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use model::automation::{Delivery, MessageBatch, NameSetting, Poison, PollStart};
use model::{Backoff, LogLevel};
use runtime::MonotonicTime;
use tokio::sync::watch;
use value::Map;

use super::Streamed;
use super::attempts::Attempts;
use super::intake::Taken;
use super::message::{Identity, Reading};
use super::state::{ConsumerId, SourceState};
use crate::ingress::Ingress;

/// The pauses after errors.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The longest wait for a message, after which the consumer looks around.
const WAIT: Duration = Duration::from_secs(1);
/// The time between two looks for room.
const ROOM_CHECK: Duration = Duration::from_millis(250);
/// The time for which a consumer leaves its shard alone if another node is to get it.
const LEAVE: Duration = Duration::from_secs(2);
/// The time between two questions for the number of messages that wait, and two looks at the values of the connection.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// The largest number of messages that a broker sends ahead.
const MAX_PREFETCH: usize = 500;

/// A consumer.
pub(super) struct Consumer {
    pub(super) ingress: Arc<Ingress>,
    pub(super) id: ConsumerId,
    pub(super) attempts: Attempts,
    pauses: Backoff,
    /// The failures in a row, and when the first of them was.
    failures: (u32, Option<Timestamp>),
    /// The time until which the source counts as failing although it takes messages, since a copy could not be published.
    uncopied: Option<MonotonicTime>,
    generation: watch::Receiver<u64>,
}

/// All that a consumer takes from the definitions in force.
pub(super) struct Plan {
    pub(super) mount: Mount,
    pub(super) batch: MessageBatch,
    pub(super) poison: Poison,
    pub(super) deliver: Delivery,
    pub(super) reading: Reading,
    pub(super) identity: Identity,
    /// The parts with which the source was opened.
    opened: Opened,
}

/// The parts of a plan with which a source is opened: if they change, it is opened anew.
struct Opened {
    event: String,
    from_oldest: bool,
    prefetch: usize,
    inputs: Map,
    connection: ResolvedConnection,
}

/// The reason why a source is closed.
enum End {
    /// Its trigger is not in force, its shard is elsewhere, or the engine stops.
    NotWanted,
    /// It is to be opened with other values.
    Changed,
    Failed(ActionError),
}

impl From<ActionError> for End {
    fn from(error: ActionError) -> Self {
        Self::Failed(error)
    }
}

impl Consumer {
    pub(super) fn new(ingress: Arc<Ingress>, id: ConsumerId) -> Self {
        let generation = ingress.context.generation.subscribe();
        let (attempts, failures) = (Attempts::default(), (0, None));
        Self { ingress, id, attempts, pauses: PAUSES, failures, uncopied: None, generation }
    }

    /// Takes messages until the consumer is not wanted any more.
    pub(super) async fn run(mut self) {
        loop {
            self.generation.borrow_and_update();
            let catalog = self.ingress.context.catalog.load_full();
            let Some(mount) = self.ingress.wanted_mount(&self.id, &catalog) else { return };
            self.uncopied = None;
            // A source that fails stays so until a try has succeeded.
            if self.failures.0 == 0 {
                self.enter(SourceState::Connecting, None);
            }
            let end = match self.open(&catalog, mount.clone()).await {
                Ok((plan, mut source)) => {
                    let end = self.consume(plan, &mut *source).await;
                    source.release().await;
                    end
                }
                Err(error) => End::Failed(error),
            };
            match end {
                End::NotWanted => return,
                End::Changed => {}
                End::Failed(error) => {
                    self.failed(&mount, error).await;
                    let pause = self.pauses.pause();
                    self.sleep(pause).await;
                }
            }
        }
    }

    async fn open(
        &self,
        catalog: &Catalog,
        mount: Mount,
    ) -> Result<(Plan, Box<dyn MessageSource>), ActionError> {
        let mut plan = self.plan(catalog, mount.clone()).await?;
        let missing = || ActionError::new(ErrorKind::Internal, "the trigger takes no messages");
        let broker = Streamed::of(&mount, catalog).ok_or_else(missing)?.broker.clone();
        let refusal = match self.open_with(&*broker.broker, &plan.opened).await {
            Ok(source) => return Ok((plan, source)),
            Err(error) => error,
        };
        let connections = &self.ingress.connections;
        let renewed = connections.renewed(catalog, &plan.opened.connection, &refusal).await;
        plan.opened.connection = renewed.ok_or(refusal)?;
        let source = self.open_with(&*broker.broker, &plan.opened).await?;
        Ok((plan, source))
    }

    async fn open_with(
        &self,
        broker: &dyn Broker,
        opened: &Opened,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        let Opened { from_oldest, prefetch, inputs, connection, .. } = opened;
        let options = SourceOptions {
            http: &self.ingress.context.http,
            connection,
            inputs,
            from_oldest: *from_oldest,
            consumer: &format!("cogwork:{}/{}", self.id.trigger, self.id.number),
            prefetch: *prefetch,
            log: &Log(&self.id),
        };
        let closing = &self.ingress.context.closing;
        let stopped = || ActionError::new(ErrorKind::Interrupted, "the daemon is stopping");
        closing.run_until_cancelled(broker.open(options)).await.ok_or_else(stopped)?
    }

    async fn plan(&self, catalog: &Catalog, mount: Mount) -> Result<Plan, ActionError> {
        let wrong = |message: String| ActionError::new(ErrorKind::Input, message);
        let streamed = Streamed::of(&mount, catalog);
        let Streamed { event, spec, .. } =
            streamed.ok_or_else(|| wrong("it takes no messages".to_owned()))?;
        let given = self.ingress.event_inputs(&mount).await.map_err(wrong)?;
        let inputs = check_event_inputs(&spec.name, &spec.inputs, &given)?;
        let reading = Reading::of(&inputs).map_err(wrong)?;
        // A trigger names its connection literally.
        let name = event.call.connection.as_ref().and_then(NameSetting::literal);
        let name = name.ok_or_else(|| wrong(format!("`{}` needs a connection", spec.name)))?;
        let connection = self.ingress.connections.connect(catalog, &name.name).await?;
        let (stream, deliver, start) = (&event.stream, event.deliver, event.start);
        let batch = stream.batch.map(|(batch, _)| batch).unwrap_or_default();
        Ok(Plan {
            batch,
            poison: stream.poison.as_ref().map(|(poison, _)| poison.clone()).unwrap_or_default(),
            deliver: deliver.map_or(Delivery::Each, |(deliver, _)| deliver),
            reading,
            identity: Identity::of(event),
            opened: Opened {
                prefetch: batch.max.saturating_mul(2).min(MAX_PREFETCH),
                event: spec.name.to_string(),
                from_oldest: start.is_some_and(|(start, _)| start == PollStart::All),
                inputs,
                connection,
            },
            mount,
        })
    }

    /// Takes messages of an open source.
    async fn consume(&mut self, mut plan: Plan, source: &mut dyn MessageSource) -> End {
        let (mut look_at, mut lag) = (self.now(), None);
        loop {
            let is_due = self.now() >= look_at;
            if is_due || self.generation.has_changed().unwrap_or(true) {
                self.generation.borrow_and_update();
                match self.refreshed(&plan).await {
                    Ok(Some(new)) => plan = new,
                    Ok(None) => return End::Changed,
                    Err(end) => return end,
                }
            }
            if !self.ingress.context.accepting() || !self.is_here() {
                return End::NotWanted;
            }
            if is_due {
                look_at = self.now().after(LOOK_INTERVAL);
                match source.lag().await {
                    Ok(found) => lag = found,
                    Err(error) => return End::Failed(error),
                }
                self.ingress.sources.change(&self.id, |view| view.lag = lag);
            }
            if let Some(reason) = self.no_room() {
                self.enter(SourceState::Waiting, Some(reason.to_owned()));
                self.sleep(ROOM_CHECK).await;
                continue;
            }
            let has_message = match source.wait(WAIT).await {
                Ok(has_message) => has_message,
                Err(error) => return End::Failed(error),
            };
            if !has_message {
                self.works();
                // The broker has nothing for this consumer: a lag that was read earlier may be over.
                if lag.is_some_and(|lag| lag > 0) {
                    look_at = self.now();
                }
                continue;
            }
            // A message that comes after a reload is taken by the definitions that are in force since.
            if self.generation.has_changed().unwrap_or_default() {
                continue;
            }
            match self.intake(&plan, source).await {
                Ok(taken) => {
                    self.works();
                    // The messages come again, here or at the next owner of the shard.
                    if taken == Taken::NotHere {
                        self.sleep(LEAVE).await;
                    }
                }
                Err(error) => return End::Failed(error),
            }
        }
    }

    /// Returns the plan by the definitions in force; `None` if the source has to be opened anew for it.
    async fn refreshed(&self, plan: &Plan) -> Result<Option<Plan>, End> {
        let catalog = self.ingress.context.catalog.load_full();
        let Some(mount) = self.ingress.wanted_mount(&self.id, &catalog) else { return Err(End::NotWanted) };
        let new = self.plan(&catalog, mount).await?;
        Ok(new.opened.is_same(&plan.opened).then_some(new))
    }

    /// The reason why no message is asked for; `None` if there is room.
    fn no_room(&self) -> Option<&'static str> {
        if self.ingress.admission.queue_room() == 0 {
            return Some("the queue of executions is full");
        }
        (!self.ingress.context.accepts_starts()).then_some("the store takes no executions at the moment")
    }

    fn is_here(&self) -> bool {
        self.ingress.peers.shards.has_shard(self.id.shard())
    }

    fn now(&self) -> MonotonicTime {
        self.ingress.context.clock.monotonic_now()
    }

    /// Sleeps until the engine stops, at most `time`. A reload ends the pause.
    async fn sleep(&mut self, time: Duration) {
        let context = self.ingress.context.clone();
        tokio::select! {
            biased;
            () = context.closing.cancelled() => {}
            _ = self.generation.changed() => self.generation.mark_changed(),
            () = context.clock.sleep_for(time) => {}
        }
    }

    fn enter(&self, state: SourceState, error: Option<String>) {
        let now = self.ingress.context.clock.now();
        self.ingress.sources.change(&self.id, |view| view.enter(state, error, now));
    }

    /// Notes that the source works.
    fn works(&mut self) {
        self.pauses.reset();
        if self.uncopied.is_some_and(|until| self.now() < until) {
            return;
        }
        self.uncopied = None;
        self.failures = (0, None);
        let now = self.ingress.context.clock.now();
        self.ingress.sources.change(&self.id, |view| {
            view.failures = 0;
            view.enter(SourceState::Running, None, now);
        });
    }

    /// Notes that a message could not be copied, which comes again after `pause`. The source stays open for the others.
    pub(super) async fn copy_failed(&mut self, mount: &Mount, error: ActionError, pause: Duration) {
        // Until it must have come again, and some time for that.
        self.uncopied = Some(self.now().after(pause * 2));
        self.failed(mount, error).await;
    }

    /// Notes that messages were copied.
    pub(super) fn copied(&mut self) {
        self.uncopied = None;
    }

    /// Notes a failure, of which triggers on `cogwork.failure` hear.
    async fn failed(&mut self, mount: &Mount, error: ActionError) {
        let context = &self.ingress.context;
        if !context.accepting() {
            return;
        }
        let now = context.clock.now();
        let error = context.settings.redactor.redact_message(&error.into_message()).into_owned();
        let (failures, since) = (self.failures.0.saturating_add(1), self.failures.1.unwrap_or(now));
        self.failures = (failures, Some(since));
        tracing::warn!(trigger = %self.id.trigger, consumer = self.id.number, error, failures, "messages cannot be read");
        let emits = self.ingress.source_failure(mount, (self.id.number, since), failures, &error);
        self.ingress.sources.change(&self.id, |view| {
            view.failures = failures;
            view.enter(SourceState::Failing, Some(error), now);
        });
        self.ingress.store_rows(emits).await;
    }
}

impl Opened {
    fn is_same(&self, other: &Self) -> bool {
        let values = |opened: &Self| -> Vec<(String, ConnectionValue)> {
            let values = &opened.connection.values;
            values.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
        };
        let settings = |opened: &Self| (opened.from_oldest, opened.prefetch);
        // The broker does not see how messages are read.
        let inputs = |opened: &Self| -> Vec<(String, value::Value)> {
            let inputs = opened.inputs.iter().filter(|(name, _)| !Reading::INPUTS.contains(&&***name));
            inputs.map(|(name, value)| (name.to_string(), value.clone())).collect()
        };
        let connection = |opened: &Self| (opened.connection.kind.clone(), opened.connection.name.clone());
        (&self.event, settings(self), inputs(self)) == (&other.event, settings(other), inputs(other))
            && connection(self) == connection(other)
            && values(self) == values(other)
    }
}

/// Writes the log lines of a source to the daemon's log, since no execution owns them.
struct Log<'a>(&'a ConsumerId);

impl LogSink for Log<'_> {
    fn line(&self, level: LogLevel, message: &str) {
        tracing::debug!(trigger = %self.0.trigger, ?level, message, "a source");
    }
}
