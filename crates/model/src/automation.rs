//! An Automation as it is after checking: what cannot be wrong any more. Only the loader makes it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::action::InputSpec;
use crate::diagnostic::{Source, Span};
use crate::expression::Expression;
use crate::retry::RetryPolicy;
use crate::template::Template;
use crate::value::Value;

/// What URLs, state and history of an Automation belong to: `[a-z0-9][a-z0-9-]*`, at most 100 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AutomationId(Arc<str>);

impl AutomationId {
    /// The most characters of an id.
    pub const MAX_LENGTH: usize = 100;

    /// The id, if `text` can be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let first = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        let rest = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        (first && rest && text.len() <= Self::MAX_LENGTH).then(|| Self(text.into()))
    }

    /// The nearest id to any text, for a suggestion: `My Flow.v2` gives `my-flow-v2`.
    #[must_use]
    pub fn suggest(text: &str) -> Option<Self> {
        let mut id = String::new();
        for character in text.chars().flat_map(char::to_lowercase).take(Self::MAX_LENGTH) {
            if character.is_ascii_alphanumeric() {
                id.push(character);
            } else if !id.is_empty() && !id.ends_with('-') {
                id.push('-');
            }
        }
        Self::parse(id.trim_end_matches('-'))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AutomationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The identity of a definition: the SHA-256 of its source text. An execution keeps the one it started with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DefinitionHash([u8; 32]);

impl DefinitionHash {
    /// The hash of a file: of its text and the id it has when the text names none.
    #[must_use]
    pub fn of(id: &AutomationId, text: &str) -> Self {
        use sha2::Digest as _;
        let mut digest = sha2::Sha256::new();
        digest.update(id.as_str().as_bytes());
        digest.update([0]);
        digest.update(text.as_bytes());
        Self(digest.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for DefinitionHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for DefinitionHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl From<DefinitionHash> for String {
    fn from(hash: DefinitionHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for DefinitionHash {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

/// A text and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The text.
    pub name: String,
    /// Where it is written.
    pub span: Span,
}

/// One checked file: one trigger and a tree of steps.
#[derive(Clone, Debug)]
pub struct Automation {
    /// What URLs, state and history belong to.
    pub id: AutomationId,
    /// Where the id is written, if it is; else the start of the file.
    pub id_span: Span,
    /// For people; the id where none is given.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// For people and filters.
    pub labels: Vec<String>,
    /// Whether its trigger is mounted.
    pub enabled: bool,
    /// What starts it.
    pub trigger: Trigger,
    /// Where the trigger's kind is written.
    pub trigger_span: Span,
    /// A condition on the trigger: not met, no execution.
    pub trigger_if: Option<Expression>,
    /// What a manual start takes.
    pub inputs: Vec<InputSpec>,
    /// Values named once; their expressions may read `env` and `secrets` only.
    pub config_vars: Vec<ConfigVar>,
    /// The work.
    pub steps: Block,
    /// The result, if it is not the last step's.
    pub outputs: Option<Template>,
    /// Steps for an execution that failed.
    pub on_error: Option<Block>,
    /// Steps that run at the end, whatever it is.
    pub finally: Option<Block>,
    /// The longest that the whole execution may take.
    pub timeout: Duration,
    /// Further tries of the whole execution, each from the step that failed.
    pub retry: RetryPolicy,
    /// How many executions may run side by side.
    pub concurrency: Option<Concurrency>,
    /// How long finished executions are kept, where it is not the daemon's default.
    pub retention: Option<Retention>,
    /// The identity of this definition.
    pub definition: DefinitionHash,
    /// The file it was read from.
    pub source: Arc<Source>,
}

/// A value named once for the whole file.
#[derive(Clone, Debug)]
pub struct ConfigVar {
    /// The name: `configVars.<name>`.
    pub name: Named,
    /// The value; only `env` and `secrets` exist in its expressions.
    pub value: Template,
    /// Whether it is never shown: `{value: …, secret: true}`.
    pub secret: bool,
}

/// How many executions of an Automation may run side by side.
#[derive(Clone, Debug)]
pub struct Concurrency {
    /// How many, at least 1.
    pub limit: u32,
    /// Executions with different keys do not count against each other.
    pub key: Option<Template>,
    /// What happens to one over the limit.
    pub policy: ConcurrencyPolicy,
}

/// What happens to an execution over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// It waits its turn.
    Queue,
    /// It ends as cancelled.
    Skip,
    /// The oldest one running is cancelled for it.
    CancelRunning,
}

/// How long finished executions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// For so many days.
    pub days: u32,
    /// Whether failed ones are kept beyond that.
    pub keep_failed: bool,
}

/// What starts an Automation.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// A request on its address.
    Webhook(WebhookTrigger),
    /// The clock.
    Schedule(ScheduleTrigger),
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
            Self::Manual => "manual",
        }
    }
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
    pub timezone: Named,
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

/// Steps in the order they are written.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The steps.
    pub steps: Vec<Step>,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Step {
    /// What `steps.<id>` and the history call it; unique in the file. Without `id` it is the name in camelCase,
    /// and without a name `stepN`, the N-th step of the file in reading order.
    pub id: Arc<str>,
    /// For people.
    pub name: Option<String>,
    /// Where the step begins.
    pub span: Span,
    /// A guard: not met, the step is skipped.
    pub guard: Option<Expression>,
    /// The steps it waits for, in place of the one before it.
    pub needs: Option<Vec<Named>>,
    /// Further tries.
    pub retry: RetryPolicy,
    /// The longest that one try may take.
    pub timeout: Option<Duration>,
    /// What follows when it fails for good.
    pub on_error: OnError,
    /// What it does.
    pub verb: Verb,
}

/// What follows when a step fails for good.
#[derive(Clone, Debug)]
pub enum OnError {
    /// The error passes up.
    Fail,
    /// The result is `null` and `steps.<id>.error` is set.
    Continue,
    /// These steps run and see `error`; where they end well, their last result takes the step's place.
    Steps(Block),
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Calls an action.
    Action(ActionStep),
    /// Names values.
    Set(Vec<(Arc<str>, Template)>),
    /// Branches.
    If(IfStep),
    /// Runs steps for each item of a list.
    ForEach(Box<ForEachStep>),
    /// Runs named lists of steps side by side.
    Parallel(Vec<(Arc<str>, Block)>),
    /// Answers the caller.
    Respond(Box<RespondStep>),
    /// Ends the execution well.
    Stop {
        /// Its result.
        result: Template,
    },
    /// Ends the execution with an error.
    Fail {
        /// What the error says.
        message: Template,
    },
}

impl Verb {
    /// The key that is written for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Action(_) => "action",
            Self::Set(_) => "set",
            Self::If(_) => "if",
            Self::ForEach(_) => "forEach",
            Self::Parallel(_) => "parallel",
            Self::Respond(_) => "respond",
            Self::Stop { .. } => "stop",
            Self::Fail { .. } => "fail",
        }
    }

    /// The lists of steps inside it, and when each of them runs.
    #[must_use]
    pub fn lists(&self) -> Vec<Inner<'_>> {
        match self {
            Self::If(branch) => {
                let case = |name, block, holds| Inner {
                    name: Some(name),
                    block,
                    runs: Runs::Case { condition: Some((&branch.condition, holds)) },
                };
                let otherwise = branch.otherwise.as_ref().map(|block| case("else", block, false));
                std::iter::once(case("then", &branch.then, true)).chain(otherwise).collect()
            }
            Self::ForEach(each) => {
                let certain = match &each.items {
                    Template::Literal(value) => value.as_list().is_some_and(|items| !items.is_empty()),
                    Template::List(items) => !items.is_empty(),
                    Template::Expression(_) | Template::Text(_) | Template::Map(_) => false,
                };
                let in_order = each.concurrency <= 1;
                let runs = Runs::Turns { item: Some(&each.item), in_order, certain };
                vec![Inner { name: None, block: &each.steps, runs }]
            }
            Self::Parallel(branches) => {
                let beside = branches.iter();
                let beside = beside.map(|(name, block)| Inner {
                    name: Some(name.as_ref()),
                    block,
                    runs: Runs::Beside,
                });
                beside.collect()
            }
            Self::Action(_) | Self::Set(_) | Self::Respond(_) | Self::Stop { .. } | Self::Fail { .. } => {
                Vec::new()
            }
        }
    }

    /// Whether one of its [`Runs::Case`] lists runs for certain.
    #[must_use]
    pub fn covers_every_case(&self) -> bool {
        match self {
            Self::If(branch) => branch.otherwise.is_some(),
            _ => false,
        }
    }

    /// Whether nothing after it in its list runs.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self, Self::Stop { .. } | Self::Fail { .. })
    }

    /// Calls `visit` with every expression that the verb itself reads, those of the lists inside it left out.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Action(call) => call.with.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::Set(values) => values.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::If(branch) => visit(&branch.condition),
            Self::ForEach(each) => each.items.expressions(visit),
            Self::Parallel(_) => {}
            Self::Respond(respond) => {
                let body = match &respond.body {
                    RespondBody::Empty => None,
                    RespondBody::Body(body) | RespondBody::Json(body) | RespondBody::File(body) => Some(body),
                };
                let parts =
                    [Some(&respond.status), respond.content_type.as_ref(), Some(&respond.headers), body];
                parts.into_iter().flatten().for_each(|template| template.expressions(visit));
            }
            Self::Stop { result: template } | Self::Fail { message: template } => template.expressions(visit),
        }
    }
}

/// A list of steps inside a step.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    /// What it is called, where it has a name.
    pub name: Option<&'a str>,
    /// The steps.
    pub block: &'a Block,
    /// When they run.
    pub runs: Runs<'a>,
}

/// When a list of steps inside a step runs. What is checked of the paths through the steps goes by this alone, so
/// that a verb needs no rule of its own there.
#[derive(Clone, Copy, Debug)]
pub enum Runs<'a> {
    /// When its case is the one: of several such lists one runs, or none.
    Case {
        /// The condition that decides and whether it has to hold, where it is a plain condition.
        condition: Option<(&'a Expression, bool)>,
    },
    /// Turn after turn.
    Turns {
        /// What the item of a turn is called, where there is one.
        item: Option<&'a str>,
        /// Whether a turn begins only when the one before has ended.
        in_order: bool,
        /// Whether there is at least one turn.
        certain: bool,
    },
    /// Always, beside the other lists.
    Beside,
}

/// A call of an action.
#[derive(Clone, Debug)]
pub struct ActionStep {
    /// Which action: `connector.action`.
    pub action: Named,
    /// With which connection.
    pub connection: Option<Named>,
    /// The inputs as they are written, by name with the place of each.
    pub with: Vec<(Named, Template)>,
    /// Where `with` stands, or the step if it does not.
    pub with_span: Span,
    /// Whether the request is logged (Debug Request).
    pub debug: bool,
}

/// A branch.
#[derive(Clone, Debug)]
pub struct IfStep {
    /// What decides.
    pub condition: Expression,
    /// Runs when it holds.
    pub then: Block,
    /// Runs when it does not.
    pub otherwise: Option<Block>,
}

/// A loop over a list.
#[derive(Clone, Debug)]
pub struct ForEachStep {
    /// The list: an expression, or its items.
    pub items: Template,
    /// What an item is called inside.
    pub item: Arc<str>,
    /// Runs for each item.
    pub steps: Block,
    /// How many turns run side by side, at least 1.
    pub concurrency: u32,
    /// Whether the first failed turn ends the loop.
    pub fail_fast: bool,
}

/// An answer to the caller.
#[derive(Clone, Debug)]
pub struct RespondStep {
    /// 200 to 599; 200 where none is given.
    pub status: Template,
    /// The media type, where it is not the body's own.
    pub content_type: Option<Template>,
    /// Further headers, a map.
    pub headers: Template,
    /// The body.
    pub body: RespondBody,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum RespondBody {
    /// None.
    Empty,
    /// A text, `text/plain` unless the type says otherwise; any other value becomes JSON.
    Body(Template),
    /// JSON, whatever the value.
    Json(Template),
    /// A file's bytes with its type.
    File(Template),
}

impl Block {
    /// Calls `visit` with every step, blocks inside and `onError` lists included, in reading order.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        for step in &self.steps {
            visit(step);
            for inner in step.verb.lists() {
                inner.block.walk(visit);
            }
            if let OnError::Steps(block) = &step.on_error {
                block.walk(visit);
            }
        }
    }
}

impl Automation {
    /// The longest an execution may take where its file does not say: 15 minutes.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);
    /// How long a synchronous caller waits where the file does not say: 30 seconds.
    pub const DEFAULT_SYNC_TIMEOUT: Duration = Duration::from_secs(30);
    /// The most bytes of a webhook's body where the file does not say: 6 MiB.
    pub const DEFAULT_MAX_BODY: usize = 6 << 20;
    /// The most steps of a file.
    pub const MAX_STEPS: usize = 1000;

    /// Calls `visit` with every step of the file, in reading order.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        self.steps.walk(visit);
        for block in [&self.on_error, &self.finally].into_iter().flatten() {
            block.walk(visit);
        }
    }

    /// The default of each input that has one, over which the given ones are laid.
    #[must_use]
    pub fn input_defaults(&self) -> Vec<(&str, &Value)> {
        self.inputs.iter().filter_map(|input| Some((input.name.as_str(), input.default.as_ref()?))).collect()
    }
}
