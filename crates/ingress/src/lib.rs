//! The ingress: starts executions. Webhooks, schedules, polls, and events of other systems come in here; an [`Ingress`]
//! checks each start and hands it to the runtime.

mod changes;
mod forward;
mod hooks;
mod ingress;
mod listen;
mod manual;
mod persist;
mod poll;
mod scheduler;
mod subscribe;

pub use forward::ForwardError;
pub use hooks::{AnsweredBy, Caller, CallerAnswer, Condition, RouteMatch, caller};
pub use ingress::Ingress;
pub use listen::{
    Capture, ListenError, ListenView, MAX_CAPTURES, MAX_LISTEN_TIME, NonTrigger, PayloadError,
    PayloadPreview, PayloadProblem, SavedPayload, Verdict, VersionedPayload,
};
pub use poll::{PollError, PollView};
pub use subscribe::SubscriptionError;
