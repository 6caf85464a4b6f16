//! The preview of a payload: what a start with it would give the steps, and everything that is wrong with it.

use model::automation::{Trigger, TriggerKey};
use model::payload::Payload;
use serde::{Serialize, Serializer};
use text::units;
use utoipa::ToSchema;
use value::Value;
use value::budget::Budget;

use crate::ingress::Ingress;
use catalog::Mount;
use runtime::{Error, convert_inputs};

/// The result of a preview. Nothing was started.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayloadPreview {
    /// `trigger.results` as steps would read them; absent if the payload or its body cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "outside")]
    #[schema(value_type = Option<value::Json>)]
    pub results: Option<Value>,
    /// The value of the trigger's `if`; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<bool>,
    /// True if the trigger's code decided that no step runs.
    pub declined: bool,
    /// All that is wrong with the payload.
    pub problems: Vec<PayloadProblem>,
}

fn outside<S: Serializer>(results: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    results.as_ref().map(Value::to_serde).serialize(serializer)
}

/// A problem of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PreviewProblem)]
pub struct PayloadProblem {
    /// The code that a sender would get, or `bad_payload`.
    pub code: &'static str,
    /// The problem in words.
    pub message: String,
}

impl Ingress {
    /// Computes what a start with this payload would give the steps. The trigger's code runs; it has no side effects.
    ///
    /// # Errors
    /// Returns an error if no trigger has this key.
    pub async fn preview_payload(
        &self,
        trigger: &TriggerKey,
        payload: &Payload,
    ) -> Result<PayloadPreview, Error> {
        let catalog = self.context.catalog();
        let mount = catalog.find_mount(trigger)?;
        let (checked, mut masked, mut payload) = (mount.clone(), payload.clone(), payload.clone());
        // Parsing a large body and checking its schema takes some tenths of a second.
        let work = tokio::task::spawn_blocking(move || check(&checked, &mut payload));
        let mut preview = work.await.map_err(|error| Error::Input(error.to_string()))?;
        if let Some(results) = preview.results.take() {
            preview.results = Some(self.evaluate_trigger(&mount, results, &mut preview).await);
        }
        let redactor = &self.context.settings.redactor;
        // As a start with this payload masks them.
        let verifies = matches!(mount.on(), Trigger::Webhook(webhook) if webhook.verify.is_some());
        runtime::mask_credentials(&mut masked, preview.results.as_mut(), verifies, redactor);
        preview.results = preview.results.map(|results| redactor.redact_value(results));
        for problem in &mut preview.problems {
            problem.message = redactor.redact_text(&problem.message).into_owned();
        }
        Ok(preview)
    }

    /// Runs the trigger's code and evaluates its condition. Returns the results that steps would read.
    async fn evaluate_trigger(&self, mount: &Mount, results: Value, preview: &mut PayloadPreview) -> Value {
        let (automation, trigger) = (&mount.deployment.automation, mount.declared());
        if let Some(condition) = &trigger.condition {
            let holds = match self.context.trigger_scope(automation, trigger, results.clone()).await {
                Ok(scope) => {
                    self.trigger_condition(condition, &scope).await.map_err(|error| error.to_string())
                }
                Err(error) => Err(error.into_message()),
            };
            match holds {
                Ok(holds) => preview.condition = Some(holds),
                Err(error) => preview.add("condition_failed", format!("`trigger.if`: {error}")),
            }
        }
        let id = self.admission.ids.next(self.context.clock.now());
        match self.run_trigger_code(mount, id, &results).await {
            Ok(None) => results,
            Ok(Some(decided)) => {
                preview.declined = decided.declined;
                decided.results.unwrap_or(results)
            }
            Err(error) => {
                preview.add("trigger_code_failed", error.to_string());
                results
            }
        }
    }
}

impl PayloadPreview {
    fn add(&mut self, code: &'static str, message: impl Into<String>) {
        self.problems.push(PayloadProblem { code, message: message.into() });
    }
}

/// Checks a payload as its trigger checks requests, apart from the sender's signature. Its inputs are converted.
fn check(mount: &Mount, payload: &mut Payload) -> PayloadPreview {
    let mut preview = PayloadPreview::default();
    let webhook = match mount.on() {
        Trigger::Webhook(webhook) => Some(webhook),
        _ => None,
    };
    if let (Some(webhook), Payload::Webhook(request)) = (webhook, &*payload)
        && request.body.data.len() > webhook.max_body
    {
        let most = units::format_size(u64::try_from(webhook.max_body).unwrap_or(u64::MAX));
        preview.add("payload_too_large", format!("the body is larger than {most}"));
    }
    if let Payload::Manual { inputs } = payload {
        match convert_inputs(&mount.deployment.automation, inputs) {
            Ok(converted) => *inputs = converted,
            Err(error) => preview.add("bad_inputs", error.to_string()),
        }
    }
    match trigger::results(payload) {
        Err(rejection) => preview.add(rejection.code, rejection.message),
        Ok(results) => {
            if let Some(webhook) = webhook
                && let Err(rejection) = trigger::webhook::check_body(webhook, &results, &Budget::default())
            {
                preview.add(rejection.code, rejection.message);
            }
            preview.results = Some(results);
        }
    }
    preview
}
