//! What starts an Automation.

use std::time::Duration;

use super::{ActionStep, Challenge, Code, RequestField, SpannedName, Verify};
use crate::diagnostic::Span;
use crate::expression::Expression;
use crate::json_schema::JsonSchema;

/// What starts an Automation.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// A request on its address.
    Webhook(Box<WebhookTrigger>),
    /// The clock.
    Schedule(ScheduleTrigger),
    /// Something that happens in another application, as its connector declares it.
    Event(Box<EventTrigger>),
    /// New data in the results of an action.
    Poll(Box<PollTrigger>),
    /// A person, the command line or the API.
    Manual,
}

impl Trigger {
    /// The key that is written for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::Schedule(_) => "schedule",
            Self::Event(_) => "event",
            Self::Poll(_) => "poll",
            Self::Manual => "manual",
        }
    }

    /// What is asked, with which connection and inputs, by a trigger that call: the action of a poll, or an app event.
    #[must_use]
    pub fn call(&self) -> Option<&ActionStep> {
        match self {
            Self::Event(event) => Some(&event.call),
            Self::Poll(poll) => Some(&poll.call),
            Self::Webhook(_) | Self::Schedule(_) | Self::Manual => None,
        }
    }

    /// Calls `visit` with every expression of a trigger that call.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        for (_, template) in self.call().into_iter().flat_map(|call| &call.with) {
            template.expressions(visit);
        }
        if let Self::Poll(poll) = self {
            [&poll.items, &poll.id, &poll.cursor].into_iter().flatten().for_each(visit);
        }
    }
}

/// Something that happens in another application. Whether its connector is told of it or polls for it, the connector says.
#[derive(Clone, Debug)]
pub struct EventTrigger {
    /// The event in the place of an action: `connector.event`, its connection and its inputs.
    pub call: ActionStep,
    /// How often it is polled for, where it is, and where that is written; else as often as the connector says.
    pub every: Option<(Duration, Span)>,
    /// What the first poll does, and where that is written.
    pub start: Option<(PollStart, Span)>,
    /// Whether several are given to one execution, and where that is written.
    pub deliver: Option<(Delivery, Span)>,
}

/// New data in the results of any action.
#[derive(Clone, Debug)]
pub struct PollTrigger {
    /// The action, its connection and its inputs. These may read `cursor`.
    pub call: ActionStep,
    /// How often.
    pub every: Duration,
    /// The list, read from `result`; else the result itself, or its `results`.
    pub items: Option<Expression>,
    /// What tells one from all others, read from `item`; else its `id`, or the whole of it.
    pub id: Option<Expression>,
    /// What the next poll reads as `cursor`, from `result`.
    pub cursor: Option<Expression>,
    /// What the first poll does.
    pub start: PollStart,
    /// Whether several are given to one execution.
    pub deliver: Delivery,
}

/// What becomes of what the first poll finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollStart {
    /// It is known from then on, and starts nothing.
    #[default]
    New,
    /// All of it is new.
    All,
}

/// How what is new is given to executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// All that one poll found to one execution, as a list.
    #[default]
    Batch,
    /// Each to one of its own.
    Each,
}

/// A universal webhook.
#[derive(Clone, Debug)]
pub struct WebhookTrigger {
    /// Whether the caller waits for the end.
    pub mode: WebhookMode,
    /// The methods that are taken; all five where none is named.
    pub methods: Vec<String>,
    /// The static answer of an asynchronous start.
    pub respond: Option<StaticResponse>,
    /// How long a synchronous caller waits before 504.
    pub timeout: Duration,
    /// The most bytes of a body.
    pub max_body: usize,
    /// Who may start it, where the secret in the address is not enough.
    pub verify: Option<Verify>,
    /// What a body has to be.
    pub schema: Option<JsonSchema>,
    /// What its sender call before it sends anything.
    pub challenge: Option<Challenge>,
    /// What tells that the same was sent before.
    pub dedup: Option<Dedup>,
    /// How often it may be started.
    pub rate_limit: Option<RateLimit>,
    /// Decides the payload and the answer of an asynchronous start (specification 6.4).
    pub code: Option<Code>,
}

/// What tells that the same was sent before, and for how long that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    /// What two sendings of the same have in common.
    pub by: DedupBy,
    /// How long it is remembered, whatever becomes of the execution.
    pub window: Duration,
}

/// What two sendings of the same have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedupBy {
    /// The text at this place.
    Field(RequestField),
    /// Everything that is signed.
    Signed,
}

/// How often a webhook may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// So many requests.
    pub max: u32,
    /// In this time, evenly.
    pub per: Duration,
    /// How many may come at once.
    pub burst: u32,
}

/// Whether a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookMode {
    /// It gets the execution's id at once.
    Async,
    /// It gets the result at the end.
    Sync,
}

/// An answer that is the same for every caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticResponse {
    /// 200 to 599.
    pub status: u16,
    /// The media type of the body; `text/plain` where a body has none.
    pub content_type: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// The body; the execution's id as JSON where there is none.
    pub body: Option<String>,
}

/// A schedule as it is written; the trigger crate compiles and checks it further.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleTrigger {
    /// When it fires.
    pub cadence: Cadence,
    /// Where the cadence is written.
    pub cadence_span: Span,
    /// The IANA zone of its local times; `UTC` where none is given.
    pub timezone: SpannedName,
    /// What happens to instants missed while no daemon ran.
    pub misfire: Misfire,
    /// What happens when the last execution still runs.
    pub overlap: Overlap,
}

/// When a schedule fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// At fixed distances of elapsed time, counted from the Unix epoch.
    Every(Duration),
    /// Each hour at this minute.
    Hourly {
        /// 0 to 59.
        minute: u8,
    },
    /// Each day at this local time.
    Daily {
        /// When.
        at: LocalTime,
    },
    /// On these weekdays at this local time.
    Weekly {
        /// Which days, at least one.
        on: Vec<Weekday>,
        /// When.
        at: LocalTime,
    },
    /// A cron expression of five fields.
    Cron(String),
}

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
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
    /// All of them by the names that are written, Sunday first as in cron.
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

/// What happens to instants that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfire {
    /// Nothing.
    Skip,
    /// The latest one runs.
    Latest,
    /// All run, oldest first, at most 100.
    All,
}

/// What happens when the last execution still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The instant is passed over.
    Skip,
    /// Both run.
    Allow,
    /// It runs after.
    Queue,
}
