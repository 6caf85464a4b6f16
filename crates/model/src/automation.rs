//! An Automation as it is after checking: what cannot be wrong any more. Only the loader makes it.

mod challenge;
mod code;
mod paths;
mod step;
mod trigger;
mod verbs;
mod verify;

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

pub use challenge::{
    Challenge, ChallengeGuard, ChallengeKey, ChallengeResponse, ChallengeRule, RequestField,
};
pub use code::{CODE_EXTENSIONS, Code};
pub use step::{Block, BlockKind, NestedBlock, OnError, OnInterrupt, Step, Verb};
pub use trigger::{
    Cadence, Dedup, DedupBy, Delivery, EventTrigger, LocalTime, Misfire, Overlap, PollStart, PollTrigger,
    RateLimit, ScheduleTrigger, StaticResponse, Trigger, WebhookMode, WebhookTrigger, Weekday,
};

pub use verbs::{
    ActionStep, Approval, CallStep, ForEachStep, IfStep, OnTimeout, RepeatStep, RespondBody, RespondStep,
    SandboxPermission, SwitchStep, WaitForStep, WaitOn, WaitStep,
};

pub use verify::{
    Algorithm, Encoding, Format, SignatureRule, SignedPart, TimeUnit, TimestampRule, TimestampSource, Verify,
    VerifyKey,
};

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
    pub fn compute(id: &AutomationId, text: &str) -> Self {
        Self::compute_from_parts(id, std::iter::once(text))
    }

    /// As [`DefinitionHash::compute`], of a text and further ones that belong to it.
    pub(super) fn compute_from_parts<'a>(id: &AutomationId, texts: impl Iterator<Item = &'a str>) -> Self {
        use sha2::Digest as _;
        let mut digest = sha2::Sha256::new();
        digest.update(id.as_str().as_bytes());
        for text in texts {
            digest.update([0]);
            digest.update(text.as_bytes());
        }
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
pub struct SpannedName {
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
    /// The files of code that it names, as far as they are there; see [`Automation::with_code_files`].
    pub code_files: Vec<Arc<Source>>,
}

/// A value named once for the whole file.
#[derive(Clone, Debug)]
pub struct ConfigVar {
    /// The name: `configVars.<name>`.
    pub name: SpannedName,
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

/// How long finished executions are kept. What is left open is the daemon's to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// For so many days.
    pub days: Option<u32>,
    /// Those that did not succeed for so many.
    pub failed_days: Option<u32>,
    /// Whether those that did not succeed are kept for ever.
    pub keep_failed: Option<bool>,
    /// Of those that succeeded, and of those that did not, no more than so many, the ones accepted last.
    pub count: Option<u32>,
}

impl Retention {
    /// What this says, and what `other` says where this says nothing.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        // Either of the two speaks of those that did not succeed.
        let says_of_failed = self.failed_days.is_some() || self.keep_failed.is_some();
        let of_failed = if says_of_failed { self } else { other };
        Self {
            days: self.days.or(other.days),
            failed_days: of_failed.failed_days,
            keep_failed: of_failed.keep_failed,
            count: self.count.or(other.count),
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
