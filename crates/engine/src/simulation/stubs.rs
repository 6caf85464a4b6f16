//! Simulated actions.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use model::action::{ActionError, ErrorKind};
use value::Value;

use super::program::Program;
use super::world::{Answer, Effect, Outside};
use runtime::{Clock as _, ManualClock};
use runtime::{Doubles, StubRequest};

/// Duration of a call that gets no response: longer than most time limits around it. Actions have limits of their own.
const CALL_TIMEOUT: Duration = Duration::from_secs(1800);

/// Simulates `http.request`; all other actions run for real.
pub(super) struct SimulatedActions {
    pub(super) outside: Outside,
    pub(super) clock: ManualClock,
    pub(super) program: Arc<Program>,
}

/// Reports a call as interrupted when it is dropped.
struct RunningCall {
    outside: Outside,
    id: model::ExecutionId,
    key: String,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.outside.interrupt_call(self.id, &self.key);
    }
}

impl Doubles for SimulatedActions {
    fn first_id_bits(&self) -> Option<u64> {
        Some(u64::from(self.outside.life) << 32)
    }

    fn answer(&self, asked: &StubRequest<'_>) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        if asked.called.name() != "http.request" {
            return None;
        }
        let url = asked.inputs.get("url").and_then(Value::as_str)?.to_owned();
        if url.ends_with("/poison") {
            let outside = self.outside.clone();
            let dying = async move {
                outside.dies();
                std::future::pending().await
            };
            return Some(dying.boxed());
        }
        let id: model::ExecutionId = url.split('/').nth(3)?.parse().ok()?;
        let effect = Effect {
            automation: asked.automation.as_str().to_owned(),
            id,
            key: asked.key.to_owned(),
            idempotency_key: asked.idempotency_key.to_owned(),
            reads: asked.inputs.get("method").and_then(Value::as_str) == Some("GET"),
            saw: asked.inputs.get("body").cloned().unwrap_or_default(),
            once: url.ends_with("/once"),
            limit: self.program.limits.get(asked.automation.as_str()).copied(),
        };
        let (outside, clock, key) = (self.outside.clone(), self.clock.clone(), effect.key.clone());
        let call = async move {
            let Some(answer) = outside.begins(&effect) else {
                return std::future::pending().await;
            };
            let _under_way = RunningCall { outside: outside.clone(), id, key: key.clone() };
            let result = match answer {
                Answer::Result(value) => Ok(value),
                Answer::Takes(seconds, value) => {
                    clock.sleep_for(Duration::from_secs(seconds)).await;
                    Ok(value)
                }
                Answer::Fails => {
                    tokio::task::yield_now().await;
                    Err(ActionError::new(ErrorKind::Failed, "the simulation lets it fail"))
                }
                Answer::GivesUp => {
                    clock.sleep_for(CALL_TIMEOUT).await;
                    Err(ActionError::new(ErrorKind::Timeout, "the simulation has it give up"))
                }
            };
            match outside.ends(id, &key, result.is_ok()) {
                Some(()) => result,
                None => std::future::pending().await,
            }
        };
        Some(call.boxed())
    }
}
