//! Checked automations: the typed form of an automation's file. Only the loader creates them.

mod challenge;
mod code;
mod defaults;
mod level;
mod paths;
pub mod setting;
mod step;
mod step_retry;
mod trigger;
mod trigger_key;
mod verbs;
mod verify;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use expression::Expression;
use expression::template::Template;
use serde::{Deserialize, Serialize};
use text::diagnostic::{Source, Span};
use value::Value;

use crate::action::InputSpec;
use crate::retry::RetryPolicy;

pub use challenge::{
    Challenge, ChallengeGuard, ChallengeKey, ChallengeResponse, ChallengeRule, RequestField,
};
pub use code::{CODE_EXTENSIONS, Code};
pub use defaults::{DeclaredDefaults, DefaultRetry, DefaultValue, Defaults, Origin, TakenDefaults};
pub use level::{Level, LeveledWord};
pub use setting::{NameSelection, NameSetting, Setting};
pub use step::{Block, BlockKind, Handler, NestedBlock, OnError, OnInterrupt, Step, Undo, Verb};
pub use step_retry::{RetryRule, StepRetry};
pub use trigger::{
    Cadence, DeclaredTrigger, Dedup, DedupBy, Delivery, EventTrigger, LocalTime, MessageBatch, Misfire,
    Overlap, OwnEventTrigger, Poison, PollStart, PollTrigger, RateLimit, ScheduleTrigger, StartForm,
    StaticResponse, StreamSettings, Trigger, TriggerKind, WebhookMode, WebhookTrigger, Weekday,
};

pub use trigger_key::{InvalidTriggerKey, TriggerId, TriggerKey};

pub use verbs::{
    ActionStep, Approval, CallStep, ConditionCase, FailStep, ForEachStep, IfStep, OnTimeout, ParallelStep,
    RepeatStep, RespondBody, RespondStep, SandboxPermission, SwitchCases, SwitchStep, WaitForStep, WaitOn,
    WaitStep,
};

pub use verify::{
    Algorithm, Encoding, Format, SignatureRule, SignedPart, TimeUnit, TimestampRule, TimestampSource, Verify,
    VerifyKey,
};

/// The id of an automation, which owns its URLs, state and history: `[a-z0-9][a-z0-9-]*`, at most 100 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AutomationId(Arc<str>);

impl AutomationId {
    /// The maximum number of characters.
    pub const MAX_LENGTH: usize = 100;

    /// Parses an id; `None` if `text` is not a valid one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let first = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        let rest = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        (first && rest && text.len() <= Self::MAX_LENGTH).then(|| Self(text.into()))
    }

    /// Suggests an id for any text: `My Flow.v2` gives `my-flow-v2`. `None` if nothing of it can be part of an id.
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

    /// Returns the text.
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

/// The content hash of a definition (SHA-256). An execution keeps the definition that it started with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DefinitionHash([u8; 32]);

impl DefinitionHash {
    /// Computes the hash of a file from its text and its id (which the text may not contain).
    #[must_use]
    pub fn compute(id: &AutomationId, text: &str) -> Self {
        Self::compute_from_parts(id, std::iter::once(text))
    }

    /// Computes the hash of several texts: the file and the code files that it names.
    fn compute_from_parts<'a>(id: &AutomationId, texts: impl Iterator<Item = &'a str>) -> Self {
        use sha2::Digest as _;
        let mut digest = sha2::Sha256::new();
        digest.update(id.as_str().as_bytes());
        for text in texts {
            digest.update([0]);
            digest.update(text.as_bytes());
        }
        Self(digest.finalize().into())
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Creates a hash from its 32 bytes.
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

/// A name or another short text, and its span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpannedName {
    /// The text.
    pub name: String,
    /// The span of the text.
    pub span: Span,
}

/// A checked automation: its triggers and a tree of steps.
#[derive(Clone, Debug)]
pub struct Automation {
    /// The id, which owns URLs, state and history.
    pub id: AutomationId,
    /// The span of the id; the start of the file if the file does not contain one.
    pub id_span: Span,
    /// The name for people. Default: the id.
    pub name: String,
    /// The description for people.
    pub description: Option<String>,
    /// The labels, for people and filters.
    pub labels: Vec<String>,
    /// True if its triggers are mounted.
    pub enabled: bool,
    /// The triggers, in the order of the file, at least one.
    pub triggers: Vec<DeclaredTrigger>,
    /// The inputs, which a manual start gives, or `inputs` of a trigger.
    pub inputs: Vec<InputSpec>,
    /// The configuration variables. Their expressions may read only `env` and `secrets`.
    pub config_vars: Vec<ConfigVar>,
    /// The steps.
    pub steps: Block,
    /// The result; `None` for the result of the last step.
    pub outputs: Option<Template>,
    /// The steps that run if the execution fails.
    pub on_error: Option<Block>,
    /// The steps that run at the end, whatever the outcome.
    pub finally: Option<Block>,
    /// The timeout of the whole execution.
    pub timeout: Duration,
    /// The retry policy of the whole execution. Each retry starts at the failed step.
    pub retry: RetryPolicy,
    /// The concurrency limit; `None` for no limit.
    pub concurrency: Option<Concurrency>,
    /// The retention of finished executions; `None` for the daemon's default.
    pub retention: Option<Retention>,
    /// The content hash of this definition.
    pub definition: DefinitionHash,
    /// The file.
    pub source: Arc<Source>,
    /// The existing code files that it names; see [`Automation::with_code_files`].
    pub code_files: Vec<Arc<Source>>,
    /// The key `defaults` of the file; `None` if it has none.
    pub declared_defaults: Option<Arc<DeclaredDefaults>>,
    /// The defaults that its steps take; `None` if they take none. See [`Automation::with_defaults`].
    pub defaults: Option<Arc<Defaults>>,
    /// The first word of the highest level that it uses; `None` if it needs only the first level.
    pub leveled_word: Option<LeveledWord>,
}

/// A configuration variable.
#[derive(Clone, Debug)]
pub struct ConfigVar {
    /// The name, read as `configVars.<name>`.
    pub name: SpannedName,
    /// The value. Its expressions may read only `env` and `secrets`.
    pub value: Template,
    /// True if the value must never be shown: `{value: …, secret: true}`.
    pub secret: bool,
}

/// The concurrency limit of an automation's executions.
#[derive(Clone, Debug)]
pub struct Concurrency {
    /// The maximum number of concurrent executions, at least 1. A computed one is evaluated for each execution that asks for its turn.
    pub limit: Setting<u32>,
    /// The key of a concurrency group: the limit applies to the executions with the same key.
    pub key: Option<Template>,
    /// The policy for an execution over the limit.
    pub policy: ConcurrencyPolicy,
}

impl Concurrency {
    /// Calls `visit` with the expressions of the key and of the limit, in the order of their evaluation.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.key.iter().for_each(|key| key.expressions(visit));
        self.limit.expression().into_iter().for_each(visit);
    }
}

/// The policy for an execution over the concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// It is queued.
    Queue,
    /// It is cancelled.
    Skip,
    /// It replaces the oldest running execution, which is cancelled.
    CancelRunning,
}

/// The retention of finished executions. A `None` leaves the setting to the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retention {
    /// The number of days.
    pub days: Option<u32>,
    /// The number of days for executions that did not succeed.
    pub failed_days: Option<u32>,
    /// True if executions that did not succeed are kept forever.
    pub keep_failed: Option<bool>,
    /// The maximum number of successful executions, and of others. The ones accepted last are kept.
    pub count: Option<u32>,
}

impl Retention {
    /// Fills settings that are `None` from `defaults`.
    #[must_use]
    pub fn with_defaults(self, defaults: Self) -> Self {
        // `failed_days` and `keep_failed` exclude each other, so both come from the same source.
        let has_failed_rule = self.failed_days.is_some() || self.keep_failed.is_some();
        let failed_rule = if has_failed_rule { self } else { defaults };
        Self {
            days: self.days.or(defaults.days),
            failed_days: failed_rule.failed_days,
            keep_failed: failed_rule.keep_failed,
            count: self.count.or(defaults.count),
        }
    }
}

impl Automation {
    /// The default timeout of an execution: 15 minutes.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);
    /// The default time that a synchronous caller waits: 30 seconds.
    pub const DEFAULT_SYNC_TIMEOUT: Duration = Duration::from_secs(30);
    /// The default maximum size of a webhook's body: 6 MiB.
    pub const DEFAULT_MAX_BODY: usize = 6 << 20;
    /// The maximum number of steps of a file.
    pub const MAX_STEPS: usize = 1000;

    /// Returns the level of the language that the definition needs.
    #[must_use]
    pub fn level(&self) -> Level {
        self.leveled_word.as_ref().map_or(Level::FIRST, |word| word.level)
    }

    /// Computes the hash of the file, its code files and the defaults that its steps take.
    fn compute_definition(&self) -> DefinitionHash {
        let defaults = self.defaults.as_ref().map(|defaults| defaults.hashed_text());
        let code = self.code_files.iter().flat_map(|source| [source.path(), source.text()]);
        let parts = std::iter::once(self.source.text()).chain(code).chain(defaults.as_deref());
        DefinitionHash::compute_from_parts(&self.id, parts)
    }

    /// Returns the trigger with this id.
    #[must_use]
    pub fn trigger(&self, id: &TriggerId) -> Option<&DeclaredTrigger> {
        self.triggers.iter().find(|trigger| trigger.id == *id)
    }

    /// Returns true if a trigger starts executions: both it and the automation are enabled.
    #[must_use]
    pub fn is_mounted(&self, trigger: &DeclaredTrigger) -> bool {
        self.enabled && trigger.enabled != Some(false)
    }

    /// Returns the key of a trigger of this automation.
    #[must_use]
    pub fn trigger_key(&self, trigger: &TriggerId) -> TriggerKey {
        TriggerKey::new(self.id.clone(), trigger.clone())
    }

    /// Returns true if an execution can have a caller who waits for its end.
    #[must_use]
    pub fn has_synchronous_trigger(&self) -> bool {
        self.triggers.iter().any(|trigger| trigger.on.is_synchronous())
    }

    /// Calls `visit` with every expression of the file.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.triggers.iter().for_each(|trigger| trigger.expressions(visit));
        self.concurrency.iter().for_each(|concurrency| concurrency.expressions(visit));
        let templates = self.config_vars.iter().map(|variable| &variable.value);
        templates.chain(&self.outputs).for_each(|template| template.expressions(visit));
        self.walk(&mut |step| step.expressions(visit));
    }

    /// Calls `visit` with every step of the file, in document order.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        self.steps.walk(visit);
        for block in [&self.on_error, &self.finally].into_iter().flatten() {
            block.walk(visit);
        }
    }

    /// Returns the step with this id.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&Step> {
        let mut found = None;
        self.walk(&mut |step| {
            if step.id.as_ref() == id {
                found = Some(step);
            }
        });
        found
    }

    /// Returns the default values of the inputs that have one.
    #[must_use]
    pub fn input_defaults(&self) -> Vec<(&str, &Value)> {
        self.inputs.iter().filter_map(|input| Some((input.name.as_str(), input.default.as_ref()?))).collect()
    }
}
