//! The ingress: starts executions. Webhooks, schedules, polls, and events of other systems come in here; an [`Ingress`]
//! checks each start and hands it to the runtime.
//!
//! Modules, in reading order:
//!
//! * `ingress`: the state of everything that starts executions
//! * `tasks`: the tasks that start executions without a request
//! * `hooks`: a webhook request from its route to its response, with rates
//! * `scheduler`: starts executions at the instants of schedules
//! * `poll`: asks other systems for news
//! * `source`: takes messages of brokers
//! * `subscribe`: registers webhooks at other applications
//! * `outbox`: starts triggers by events that executions and the API send
//! * `listen`: captures requests of test addresses, and saves payloads
//! * `manual`: starts by people
//! * `missing`: starts triggers if nothing succeeded for some time
//! * `failures`: what triggers on `cogwork.failure` hear of failures of triggers
//! * `changes`: what a reload changed for each of them
//! * `moves`: moves the records of a trigger to another id
//! * `forward`: operations on triggers that another node has
//! * `refusals`: the latest requests that started nothing
//! * `persist`: repeats reads and writes of the store

mod changes;
mod failures;
mod forward;
mod hooks;
mod ingress;
mod listen;
mod manual;
mod missing;
mod moves;
mod outbox;
mod persist;
mod poll;
mod refusals;
mod scheduler;
mod source;
mod subscribe;
mod tasks;

pub use changes::MoveRecords;
pub use forward::ForwardError;
pub use hooks::{AnsweredBy, Caller, CallerAnswer, Condition, Reply, RouteMatch, caller};
pub use ingress::Ingress;
pub use listen::{
    Capture, ListenError, ListenView, MAX_CAPTURES, MAX_LISTEN_TIME, NonTrigger, PayloadError,
    PayloadPreview, PayloadProblem, SavedPayload, Verdict, VersionedPayload,
};
pub use moves::MoveError;
pub use poll::{PollError, PollView};
pub use refusals::{MAX_REFUSALS, Refusal, RefusedRequest};
pub use source::{MessageError, PoisonedMessage, SourceState, SourceView};
pub use subscribe::SubscriptionError;
