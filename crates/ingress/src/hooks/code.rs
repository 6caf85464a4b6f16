//! Runs the code of a trigger, which decides the payload, the response and if an execution starts (specification 6.4,
//! guarantee G16). It runs before acceptance and has no side effects, so a failure loses nothing.

use std::time::Duration;

use model::LogLevel;
use model::automation::{Trigger, WebhookMode, WebhookTrigger};
use model::execution::ExecutionId;
use model::payload::{HttpResponse, TriggerCodeLog, TriggerCodeResult, WebhookPayload};
use script::{Call, Context, Kind, LogLine};
use trigger::Rejection;
use value::Value;
use value::redact::LengthLimit;

use super::{not_now, rejection_for};
use crate::ingress::Ingress;
use catalog::Mount;
use catalog::Workers;
use runtime::Error;
use runtime::{level, to_action_error};

/// Time limit for the code of a trigger (semantics 3.4).
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time to wait for a free worker, since the caller waits too.
const WORKER_WAIT_LIMIT: Duration = Duration::from_secs(10);

impl Ingress {
    /// Runs the trigger's code for a request that is to start the execution `id`; `None` if the trigger has no code.
    /// The caller of a synchronous webhook gets the response of the code only if the code declines the run.
    ///
    /// # Errors
    /// Returns an error of the input, with a message for the author, if the code fails; another one if a provider of secrets fails.
    pub async fn run_trigger_code(
        &self,
        mount: &Mount,
        id: ExecutionId,
        results: &Value,
    ) -> Result<Option<TriggerCodeResult>, Error> {
        let deployment = &mount.deployment;
        let (automation, redactor) = (&deployment.automation, &self.context.settings.redactor);
        let Trigger::Webhook(webhook) = mount.on() else { return Ok(None) };
        let Some(code) = &webhook.code else { return Ok(None) };
        let module = deployment
            .plan
            .code()
            .trigger(&mount.declared().id)
            .ok_or_else(|| Error::Input("the file of the trigger's code is not there".to_owned()))?;
        let config_vars = match self.context.secrets.config_vars(automation).await {
            Ok(config_vars) => Value::from(config_vars),
            Err(error) => return Err(Error::Input(not_now(error)?.into_message())),
        };
        let (execution_id, started_at) = (id.to_string(), self.context.clock.now().to_string());
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
            deadline: TIME_LIMIT,
        };
        let _busy = self.context.doubles.as_ref().map(|doubles| doubles.track_offloaded_work());
        let run =
            tokio::time::timeout(TIME_LIMIT + WORKER_WAIT_LIMIT, Workers::shared().pool().run(call)).await;
        let outcome = match run {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                let message = to_action_error(&error, code, automation, redactor).message_with_location();
                return Err(Error::Input(redactor.redact_message(&message).into_owned()));
            }
            Err(_) => return Err(Error::Input("no code worker became free in time".to_owned())),
        };
        // Secrets that the code received are removed from everything that is stored or sent.
        let logs = outcome.logs.into_iter();
        let logs = logs.map(|line| {
            let message = redactor.redact_excerpt(&line.message, LengthLimit::Chars(script::MAX_TEXT));
            LogLine { message: redactor.redact_message(&message).into_owned(), ..line }
        });
        let mut decided = parse_decision(&redactor.redact_value(outcome.value), logs.collect(), &id)
            .map_err(Error::Input)?;
        if webhook.mode == WebhookMode::Sync && !decided.declined && decided.response.take().is_some() {
            let message = "the `response` of the trigger's code is not sent: the caller of a synchronous webhook gets the result of the steps";
            decided.logs.push(TriggerCodeLog { level: LogLevel::Warn, message: message.to_owned() });
        }
        Ok(Some(decided))
    }
}

impl Ingress {
    /// Applies the decision of the trigger run_trigger_code about a request.
    pub(super) async fn decide_on_request(
        &self,
        mount: &Mount,
        id: ExecutionId,
        payload: &mut WebhookPayload,
        results: &mut Value,
    ) -> Result<(), Rejection> {
        let decided = self.run_trigger_code(mount, id, results).await.map_err(|error| {
            let Error::Input(error) = error else { return rejection_for(&error, false) };
            // Log lines of the code are for its author, not for the sender of the request.
            tracing::error!(trigger = %mount.key(), error, "the trigger's code failed; nothing is started");
            let message = "the trigger's code failed; see the daemon's log";
            Rejection::new(500, "trigger_code_failed", message).with_detail(error)
        })?;
        if let Some(given) = decided.as_ref().and_then(|decided| decided.results.clone()) {
            *results = given;
        }
        payload.code_result = decided.map(Box::new);
        Ok(())
    }

    /// Returns the response that the trigger's code decided when the execution was accepted; `None` if the code decided
    /// none.
    pub(super) async fn stored_code_response(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
    ) -> Result<Option<HttpResponse>, Error> {
        if webhook.code.is_none() {
            return Ok(None);
        }
        let Some((events, _memory)) = self.context.load_events(id).await? else { return Ok(None) };
        Ok(events.into_iter().find_map(|event| match event {
            model::Event::Started { payload, .. } => response_from_code(webhook, payload.code_result()?, &id),
            _ => None,
        }))
    }
}

/// Returns the response that the trigger's code decided; `None` if the caller gets the standard one.
pub(super) fn response_from_code(
    webhook: &WebhookTrigger,
    decided: &TriggerCodeResult,
    id: &ExecutionId,
) -> Option<HttpResponse> {
    let is_declined = decided.declined && webhook.mode == WebhookMode::Sync;
    decided.response.clone().or_else(|| is_declined.then(|| trigger::response::asynchronous(webhook, id)))
}

/// Parses the return value of the code: `{payload, response, run}`, each optional.
fn parse_decision(
    returned: &Value,
    logs: Vec<LogLine>,
    id: &ExecutionId,
) -> Result<TriggerCodeResult, String> {
    let part = |name: &str| returned.get(name).filter(|value| !value.is_null());
    let response = part("response")
        .map(|response| match &response {
            Value::Map(_) => {
                trigger::response::from_code(&response, id).map_err(|error| format!("response: {error}"))
            }
            other => Err(format!("`response` is {}, not an object with `statusCode`", other.kind())),
        })
        .transpose()?;
    let logs =
        logs.into_iter().map(|line| TriggerCodeLog { level: level(line.level), message: line.message });
    Ok(TriggerCodeResult {
        results: part("payload"),
        response,
        declined: part("run").is_some_and(|run| !run.is_truthy()),
        logs: logs.collect(),
    })
}
