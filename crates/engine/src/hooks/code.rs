//! The code of a trigger: it decides the payload, the answer and whether anything runs, before an execution is accepted
//! (specification 6.4, guarantee G16). It has no effect, so nothing is lost where it fails.

use std::time::Duration;

use model::action::ActionError;
use model::automation::{Trigger, WebhookMode, WebhookTrigger};
use model::execution::{ExecutionId, LogLevel};
use model::payload::{Decided, DecidedLine, HttpResponse, WebhookPayload};
use model::redact::Limit;
use model::value::Value;
use script::{Call, Context, Kind, LogLine};
use trigger::Rejection;

use crate::Error;
use crate::catalog::Deployed;
use crate::code::Workers;
use crate::engine::Engine;
use crate::run::{level, to_action_error};
use crate::services::Services;

/// How long the code of a trigger may take (semantics 3.4).
const LONGEST: Duration = Duration::from_secs(5);
/// How long it waits for a worker at the most: the caller waits too.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Services {
    /// What the code of its trigger makes of a request that is to start the execution `id`; `None` where it has none. The
    /// caller of a synchronous webhook gets the answer of the code only where that declines.
    ///
    /// # Errors
    /// The code failed: a sentence for the author.
    pub(crate) async fn decide(
        &self,
        deployed: &Deployed,
        id: ExecutionId,
        results: &Value,
    ) -> Result<Option<Decided>, String> {
        let (automation, redactor) = (&deployed.automation, &self.settings.redactor);
        let Trigger::Webhook(webhook) = &automation.trigger else { return Ok(None) };
        let Some(code) = &webhook.code else { return Ok(None) };
        let module = deployed.plan.code().trigger().ok_or("the file of the trigger's code is not there")?;
        let config_vars =
            Value::from(self.secrets.config_vars(automation).map_err(ActionError::into_message)?);
        let (execution_id, started_at) = (id.to_string(), self.clock.now().to_string());
        let call = Call {
            module,
            kind: Kind::Trigger,
            context: Context {
                config_vars: &config_vars,
                execution_id: &execution_id,
                step_id: None,
                started_at: &started_at,
                state: &[],
            },
            argument: results,
            deadline: LONGEST,
        };
        let _busy = self.doubles.as_ref().map(|doubles| doubles.elsewhere());
        let run = tokio::time::timeout(LONGEST + LONGEST_WAIT, Workers::shared().pool().run(call)).await;
        let outcome = match run {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                let message = to_action_error(&error, code, automation, redactor).in_full();
                return Err(redactor.message(&message).into_owned());
            }
            Err(_) => return Err("no code worker became free in time".to_owned()),
        };
        // What is stored and answered has no secrets that the code was given.
        let logs = outcome.logs.into_iter();
        let logs = logs.map(|line| {
            let message = redactor.excerpt(&line.message, Limit::Chars(script::MAX_TEXT));
            LogLine { message: redactor.message(&message).into_owned(), ..line }
        });
        let mut decided = decided(&redactor.value(outcome.value), logs.collect(), &id)?;
        if webhook.mode == WebhookMode::Sync && !decided.declined && decided.response.take().is_some() {
            let message = "the `response` of the trigger's code is not sent: the caller of a synchronous webhook gets the result of the steps";
            decided.logs.push(DecidedLine { level: LogLevel::Warn, message: message.to_owned() });
        }
        Ok(Some(decided))
    }
}

impl Engine {
    /// Lets the code of the trigger decide about a request.
    pub(super) async fn decide(
        &self,
        deployed: &Deployed,
        id: ExecutionId,
        payload: &mut WebhookPayload,
        results: &mut Value,
    ) -> Result<(), Rejection> {
        let decided = self.services().decide(deployed, id, results).await.map_err(|error| {
            // What is wrong with the code is for its author, not for whoever sent the request.
            tracing::error!(automation = %deployed.automation.id, error, "the trigger's code failed; nothing is started");
            Rejection::new(500, "trigger_code_failed", "the trigger's code failed; see the daemon's log")
        })?;
        if let Some(given) = decided.as_ref().and_then(|decided| decided.results.clone()) {
            *results = given;
        }
        payload.decided = decided.map(Box::new);
        Ok(())
    }

    /// The answer that the code of the trigger decided when the execution was accepted; `None` where there is none.
    pub(super) async fn decided_answer(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
    ) -> Result<Option<HttpResponse>, Error> {
        if webhook.code.is_none() {
            return Ok(None);
        }
        let events = self.services().store.events(id).await?.unwrap_or_default();
        Ok(events.into_iter().find_map(|event| match event {
            model::Event::Started { payload, .. } => answer_of_code(webhook, payload.decided()?, &id),
            _ => None,
        }))
    }
}

/// The answer to a request about which the code of the trigger decided; `None` where the caller gets that of any other.
pub(super) fn answer_of_code(
    webhook: &WebhookTrigger,
    decided: &Decided,
    id: &ExecutionId,
) -> Option<HttpResponse> {
    let is_declined = decided.declined && webhook.mode == WebhookMode::Sync;
    decided.response.clone().or_else(|| is_declined.then(|| trigger::response::asynchronous(webhook, id)))
}

/// What was returned: `{payload, response, run}`, each of which may be missing.
fn decided(returned: &Value, logs: Vec<LogLine>, id: &ExecutionId) -> Result<Decided, String> {
    let part = |name: &str| returned.get(name).filter(|value| !value.is_null());
    let response = part("response")
        .map(|response| match &response {
            Value::Map(_) => {
                trigger::response::from_code(&response, id).map_err(|error| format!("response: {error}"))
            }
            other => Err(format!("`response` is {}, not an object with `statusCode`", other.kind())),
        })
        .transpose()?;
    let logs = logs.into_iter().map(|line| DecidedLine { level: level(line.level), message: line.message });
    Ok(Decided {
        results: part("payload"),
        response,
        declined: part("run").is_some_and(|run| !run.is_truthy()),
        logs: logs.collect(),
    })
}
