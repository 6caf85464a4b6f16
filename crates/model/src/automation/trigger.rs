//! Triggers.

use std::time::Duration;

use expression::Expression;
use expression::json_schema::JsonSchema;
use expression::template::Template;
use jiff::Timestamp;
use text::diagnostic::Span;
use value::Value;

use super::{ActionStep, Challenge, Code, RequestField, SpannedName, TriggerId, Verify};
use crate::action::InputSpec;
use crate::engine_event::EngineEventName;
use crate::payload::{EmittedEvent, Payload};

/// A trigger as its file declares it.
#[derive(Clone, Debug)]
pub struct DeclaredTrigger {
    /// The id, unique in the file: `main` for the key `trigger`.
    pub id: TriggerId,
    /// The span of the id; of the trigger's kind for the key `trigger`.
    pub id_span: Span,
    /// The event that starts executions.
    pub on: Trigger,
    /// The span of the trigger's kind.
    pub span: Span,
    /// The key `enabled`: false if it starts nothing. `None` without the key.
    pub enabled: Option<bool>,
    /// The condition: if it is false, no execution starts.
    pub condition: Option<Expression>,
    /// The inputs that it gives an execution, and the span of the key `inputs`; `None` if it has none.
    pub inputs: Option<(Vec<(SpannedName, Template)>, Span)>,
}

impl DeclaredTrigger {
    /// Calls `visit` with every expression of the trigger itself, except in a webhook's `verify` and `challenge`.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.condition.iter().for_each(&mut *visit);
        self.on.expressions(visit);
        self.input_templates().for_each(|(_, template)| template.expressions(visit));
    }

    /// Returns the inputs that it gives an execution.
    pub fn input_templates(&self) -> impl Iterator<Item = &(SpannedName, Template)> {
        self.inputs.iter().flat_map(|(inputs, _)| inputs)
    }
}

/// The event that starts executions.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// A request to the webhook's URL.
    Webhook(Box<WebhookTrigger>),
    /// A schedule.
    Schedule(ScheduleTrigger),
    /// An event of another application, as declared by its connector.
    Event(Box<EventTrigger>),
    /// An own event, which automations and the API send.
    Own(Box<OwnEventTrigger>),
    /// New data in the results of a polled action.
    Poll(Box<PollTrigger>),
    /// A manual start by a person, the command line or the API.
    Manual,
}

/// The kind of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum TriggerKind {
    /// A request.
    Webhook,
    /// The clock.
    Schedule,
    /// An event of another application, or an own one.
    Event,
    /// New data in the results of an action.
    Poll,
    /// A person, the command line or the API.
    Manual,
}

impl Trigger {
    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> TriggerKind {
        match self {
            Self::Webhook(_) => TriggerKind::Webhook,
            Self::Schedule(_) => TriggerKind::Schedule,
            Self::Event(_) | Self::Own(_) => TriggerKind::Event,
            Self::Poll(_) => TriggerKind::Poll,
            Self::Manual => TriggerKind::Manual,
        }
    }

    /// Returns the YAML key of the trigger.
    #[must_use]
    pub fn keyword(&self) -> &'static str {
        match self.kind() {
            TriggerKind::Webhook => "webhook",
            TriggerKind::Schedule => "schedule",
            TriggerKind::Event => "event",
            TriggerKind::Poll => "poll",
            TriggerKind::Manual => "manual",
        }
    }

    /// Returns the polled action or the connector's event, with its connection and inputs; `None` for other triggers.
    #[must_use]
    pub fn call(&self) -> Option<&ActionStep> {
        match self {
            Self::Event(event) => Some(&event.call),
            Self::Poll(poll) => Some(&poll.call),
            Self::Webhook(_) | Self::Schedule(_) | Self::Own(_) | Self::Manual => None,
        }
    }

    /// Returns the form of the data with which a person starts the automation by hand.
    #[must_use]
    pub fn start_form(&self) -> StartForm<'_> {
        match self {
            Self::Webhook(webhook) => StartForm::Request(webhook),
            Self::Schedule(_) => StartForm::Instant,
            Self::Event(_) => StartForm::Data { or_request: EngineEventName::of(self).is_none() },
            Self::Poll(_) | Self::Own(_) => StartForm::Data { or_request: false },
            Self::Manual => StartForm::Inputs,
        }
    }

    /// Returns the payload of a start with these data: by hand, or by a test.
    #[must_use]
    pub fn data_payload(&self, data: Value, now: Timestamp) -> Payload {
        let emitted = |event: &str, data| {
            let event = event.to_owned();
            Payload::Emitted(EmittedEvent { event, id: format!("{now}"), sent_at: now, by: None, data })
        };
        match (self.own_event(), EngineEventName::of(self)) {
            (Some(own), _) => emitted(&own.name.name, data),
            (None, Some(event)) => emitted(event.as_str(), event.complete(data, now)),
            (None, None) => Payload::Poll { data, polled_at: now },
        }
    }

    /// Returns the own event that starts executions; `None` for other triggers.
    #[must_use]
    pub fn own_event(&self) -> Option<&OwnEventTrigger> {
        if let Self::Own(own) = self { Some(own) } else { None }
    }

    /// Returns true if a caller gets a response from the trigger.
    #[must_use]
    pub fn answers_caller(&self) -> bool {
        matches!(self, Self::Webhook(_))
    }

    /// Returns true if a caller waits for the end of the execution.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        matches!(self, Self::Webhook(webhook) if webhook.mode == WebhookMode::Sync)
    }

    /// Returns the expression over `item` that identifies a polled item or a message.
    #[must_use]
    pub fn identity(&self) -> Option<&Expression> {
        match self {
            Self::Poll(poll) => poll.id.as_ref(),
            Self::Event(event) => event.stream.dedup.as_ref().map(|(by, _)| by),
            _ => None,
        }
    }

    /// Calls `visit` with every expression of a poll or event trigger.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        for (_, template) in self.call().into_iter().flat_map(|call| &call.with) {
            template.expressions(visit);
        }
        if let Self::Poll(poll) = self {
            [&poll.items, &poll.id, &poll.cursor].into_iter().flatten().for_each(&mut *visit);
        }
        if let Self::Event(event) = self {
            event.stream.dedup.iter().map(|(by, _)| by).for_each(visit);
        }
    }
}

/// The form of the data of a start by hand: by the command line, the API or a test.
#[derive(Clone, Copy, Debug)]
pub enum StartForm<'a> {
    /// A request to this webhook.
    Request(&'a WebhookTrigger),
    /// An instant of the schedule.
    Instant,
    /// The data that a poll finds or an event brings.
    Data {
        /// True if the data may also be a request: the connector determines if an event is received or polled.
        or_request: bool,
    },
    /// The declared inputs by name.
    Inputs,
}

/// A trigger on an event of another application. The connector determines if it is received by subscription or polled.
#[derive(Clone, Debug)]
pub struct EventTrigger {
    /// The event (`connector.event`, in the place of an action), its connection and inputs.
    pub call: ActionStep,
    /// The polling interval and its span; `None` for the connector's default.
    pub every: Option<(Duration, Span)>,
    /// The handling of the first poll, and its span; `None` for the default.
    pub start: Option<(PollStart, Span)>,
    /// The delivery of several events, and its span; `None` for the default.
    pub deliver: Option<(Delivery, Span)>,
    /// The settings for messages of a broker.
    pub stream: StreamSettings,
}

/// The settings of a trigger on messages of a broker, each with its span.
#[derive(Clone, Debug, Default)]
pub struct StreamSettings {
    /// The size of a commit; `None` for the default.
    pub batch: Option<(MessageBatch, Span)>,
    /// The handling of messages that cannot start an execution; `None` for the default.
    pub poison: Option<(Poison, Span)>,
    /// The number of consumers; `None` for one.
    pub consumers: Option<(u32, Span)>,
    /// The identity of a message, read from `item`; `None` for the broker's or the sender's.
    pub dedup: Option<(Expression, Span)>,
}

impl StreamSettings {
    /// The maximum number of consumers of a trigger.
    pub const MAX_CONSUMERS: u32 = 16;
    /// The largest `maxBody`, in bytes.
    pub const MAX_BODY: u64 = 8 << 20;

    /// Returns the keys that are set, with their spans.
    pub fn keys(&self) -> impl Iterator<Item = (&'static str, Span)> {
        let batch = self.batch.map(|(_, span)| ("batch", span));
        let poison = self.poison.as_ref().map(|(_, span)| ("poison", *span));
        let consumers = self.consumers.map(|(_, span)| ("consumers", span));
        let dedup = self.dedup.as_ref().map(|(_, span)| ("dedup", *span));
        [batch, poison, consumers, dedup].into_iter().flatten()
    }
}

/// The size of a commit of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageBatch {
    /// The maximum number of messages.
    pub max: usize,
    /// The time for which it waits for more after the first message.
    pub within: Duration,
}

impl MessageBatch {
    /// The largest `max`.
    pub const MAX: usize = 500;
    /// The longest `within`.
    pub const MAX_WITHIN: Duration = Duration::from_secs(30);
}

impl Default for MessageBatch {
    fn default() -> Self {
        Self { max: 100, within: Duration::ZERO }
    }
}

/// The handling of messages that cannot start an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poison {
    /// The number of attempts before a message goes to the list.
    pub after: u32,
    /// The subject or queue to which a copy is published; `None` for no copy.
    pub to: Option<String>,
}

impl Poison {
    /// The largest `after`.
    pub const MAX_AFTER: u32 = 100;
}

impl Default for Poison {
    fn default() -> Self {
        Self { after: 5, to: None }
    }
}

/// A trigger on an own event, which `events.emit` or the API sends.
#[derive(Clone, Debug)]
pub struct OwnEventTrigger {
    /// The name of the event.
    pub name: SpannedName,
    /// The declared data, in the order of the file; empty if the trigger takes any data.
    pub data: Vec<InputSpec>,
    /// The span of the key `data`; `None` without the key.
    pub data_span: Option<Span>,
}

impl OwnEventTrigger {
    /// The maximum number of triggers in force for one name.
    pub const MAX_PER_NAME: usize = 100;
}

/// A trigger on new data in the results of any action.
#[derive(Clone, Debug)]
pub struct PollTrigger {
    /// The action, its connection and its inputs. The inputs may read `cursor`.
    pub call: ActionStep,
    /// The polling interval.
    pub every: Duration,
    /// The list of items, read from `result`. Default: the result itself, or its `results`.
    pub items: Option<Expression>,
    /// The unique id of an item, read from `item`. Default: its `id`, or the whole item.
    pub id: Option<Expression>,
    /// The `cursor` of the next poll, read from `result`.
    pub cursor: Option<Expression>,
    /// The handling of the first poll.
    pub start: PollStart,
    /// The delivery of several items.
    pub deliver: Delivery,
}

/// The handling of the items of the first poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollStart {
    /// They are recorded as known, and start nothing.
    #[default]
    New,
    /// All of them count as new.
    All,
}

/// The delivery of new items to executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// One execution gets all items of a poll, as a list.
    #[default]
    Batch,
    /// Each item gets an execution of its own.
    Each,
}

/// A webhook.
#[derive(Clone, Debug)]
pub struct WebhookTrigger {
    /// Tells if the caller waits for the end.
    pub mode: WebhookMode,
    /// The accepted methods. Default: all five.
    pub methods: Vec<String>,
    /// The static response of an asynchronous webhook; `None` for the default one.
    pub respond: Option<StaticResponse>,
    /// The time that a synchronous caller waits before it gets 504.
    pub timeout: Duration,
    /// The maximum size of a body, in bytes.
    pub max_body: usize,
    /// The verification of senders; `None` if the secret in the URL is enough.
    pub verify: Option<Verify>,
    /// The JSON Schema of the body; `None` accepts any body.
    pub schema: Option<JsonSchema>,
    /// The sender's challenge; `None` if there is none.
    pub challenge: Option<Challenge>,
    /// The detection of repeated deliveries; `None` disables it.
    pub dedup: Option<Dedup>,
    /// The rate limit; `None` for no limit.
    pub rate_limit: Option<RateLimit>,
    /// The code that computes the payload, and the response of an asynchronous webhook (specification 6.4).
    pub code: Option<Code>,
}

/// The detection of repeated deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    /// The key that repeated deliveries have in common.
    pub by: DedupBy,
    /// The time for which a key is remembered, independent of the execution.
    pub window: Duration,
}

/// The key of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedupBy {
    /// The text of this field.
    Field(RequestField),
    /// The signed content.
    Signed,
}

/// The rate limit of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The number of requests per period.
    pub max: u32,
    /// The period, over which requests are spread evenly.
    pub per: Duration,
    /// The maximum burst.
    pub burst: u32,
}

/// The response mode of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookMode {
    /// The caller gets the execution's id at once.
    Async,
    /// The caller waits for the result.
    Sync,
}

/// A constant response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticResponse {
    /// The status code, 200 to 599.
    pub status: u16,
    /// The media type of the body. Default: `text/plain`.
    pub content_type: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// The body. Default: the execution's id as JSON.
    pub body: Option<String>,
}

impl StaticResponse {
    /// The maximum number of headers that an author may set on a response.
    pub const MAX_HEADERS: usize = 64;
    /// Their maximum size in bytes, names and values together.
    pub const MAX_HEADER_BYTES: usize = 16 << 10;
}

/// A schedule. The trigger crate compiles it and validates cron fields and time zones.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleTrigger {
    /// The instants at which it fires.
    pub cadence: Cadence,
    /// The span of the cadence.
    pub cadence_span: Span,
    /// The IANA time zone of its local times. Default: `UTC`.
    pub timezone: SpannedName,
    /// The handling of instants missed while no daemon ran.
    pub misfire: Misfire,
    /// The handling of an instant while the previous execution still runs.
    pub overlap: Overlap,
}

/// The instants at which a schedule fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// At fixed intervals of elapsed time, counted from the Unix epoch.
    Every(Duration),
    /// Hourly at this minute.
    Hourly {
        /// The minute, 0 to 59.
        minute: u8,
    },
    /// Daily at this local time.
    Daily {
        /// The local time.
        at: LocalTime,
    },
    /// On these weekdays at this local time.
    Weekly {
        /// The weekdays, at least one.
        on: Vec<Weekday>,
        /// The local time.
        at: LocalTime,
    },
    /// A cron expression of five fields.
    Cron(String),
}

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The hour, 0 to 23.
    pub hour: u8,
    /// The minute, 0 to 59.
    pub minute: u8,
}

/// A day of the week, with cron's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weekday {
    /// 0
    Sun,
    /// 1
    Mon,
    /// 2
    Tue,
    /// 3
    Wed,
    /// 4
    Thu,
    /// 5
    Fri,
    /// 6
    Sat,
}

impl Weekday {
    /// All weekdays by their YAML names, Sunday first as in cron.
    pub const ALL: [(&'static str, Self); 7] = [
        ("sun", Self::Sun),
        ("mon", Self::Mon),
        ("tue", Self::Tue),
        ("wed", Self::Wed),
        ("thu", Self::Thu),
        ("fri", Self::Fri),
        ("sat", Self::Sat),
    ];
}

/// The handling of missed instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfire {
    /// None runs.
    Skip,
    /// The latest one runs.
    Latest,
    /// All run, oldest first, at most 100.
    All,
}

/// The handling of an instant while the previous execution still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The instant is skipped.
    Skip,
    /// Both run.
    Allow,
    /// The new execution runs after the previous one.
    Queue,
}
