//! The evaluation of a trigger before acceptance: its condition, and the inputs that it gives the execution.

use std::time::Duration;

use expression::Template;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, DeclaredTrigger};
use value::{Map, Value};

use crate::context::Context;
use crate::error::Error;
use crate::inputs::convert_inputs;
use crate::run::expression_error;

/// The time limit for the evaluation of the inputs of a start.
const TIME_LIMIT: Duration = Duration::from_secs(1);

impl Context {
    /// Builds the variables that expressions of a trigger read: `trigger`, `configVars` and `automation`; of a trigger on an own event
    /// also `event`.
    ///
    /// # Errors
    /// Returns an error if a configuration variable has no value.
    pub async fn trigger_scope(
        &self,
        automation: &Automation,
        trigger: &DeclaredTrigger,
        results: Value,
    ) -> Result<Value, ActionError> {
        let config_vars = self.secrets.config_vars(automation).await?;
        let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
        let event = trigger.on.own_event().map(|_| event_of(&results));
        let started = Map::from_iter([("results", results), ("id", Value::from(trigger.id.as_str()))]);
        let mut scope = Map::from_iter([
            ("trigger", Value::from(started)),
            ("configVars", Value::from(config_vars)),
            ("automation", Value::from(about)),
        ]);
        event.into_iter().for_each(|event| drop(scope.insert("event", event)));
        Ok(Value::from(scope))
    }

    /// Evaluates the inputs of a trigger, overrides them by the inputs that the caller has `given`, and converts all to the declared
    /// types. Inputs are stored, so known secrets are masked in values that may have read a secret. `None` without any inputs.
    ///
    /// # Errors
    /// Returns an error of kind `input` if a value cannot be evaluated or does not fit.
    pub async fn trigger_inputs(
        &self,
        automation: &Automation,
        trigger: &DeclaredTrigger,
        results: &Value,
        given: Option<Map>,
    ) -> Result<Option<Map>, ActionError> {
        if trigger.inputs.is_none() && given.is_none() {
            return Ok(None);
        }
        let mut inputs = Map::new();
        let given = given.unwrap_or_default();
        let wanted = trigger.input_templates().filter(|(name, _)| !given.contains_key(&name.name));
        let wanted: Vec<_> = wanted.collect();
        if !wanted.is_empty() {
            let scope = self.trigger_scope(automation, trigger, results.clone()).await?;
            let may_read_secrets = automation.config_vars.iter().any(|variable| variable.secret);
            for (name, template) in wanted {
                let value = self.trigger_value(&name.name, template, &scope).await?;
                let mask = |value| self.settings.redactor.redact_value(value);
                inputs.insert(name.name.as_str(), if may_read_secrets { mask(value) } else { value });
            }
        }
        given.iter().for_each(|(name, value)| drop(inputs.insert(name.clone(), value.clone())));
        let inputs = convert_inputs(automation, &inputs).map_err(|error| match error {
            Error::Input(message) => ActionError::new(ErrorKind::Input, message),
            error => ActionError::new(ErrorKind::Input, error.to_string()),
        });
        inputs.map(Some)
    }

    async fn trigger_value(
        &self,
        name: &str,
        template: &Template,
        scope: &Value,
    ) -> Result<Value, ActionError> {
        let named = |mut error: ActionError| {
            error.kind = ErrorKind::Input;
            error
        };
        tokio::select! {
            biased;
            value = self.evaluator.template(template, false, scope) => {
                value.map_err(|error| named(expression_error(&error, &format!("input `{name}` of the trigger"))))
            }
            () = self.clock.sleep_for(TIME_LIMIT) => {
                let message = format!("input `{name}` of the trigger takes more than a second to compute");
                Err(ActionError::new(ErrorKind::Input, message))
            }
        }
    }
}

/// Returns the variable `event` of a trigger on an own event, with the members that it has in steps that wait for events.
fn event_of(results: &Value) -> Value {
    let member = |value: &Value, name: &str| value.as_map().and_then(|map| map.get(name)).cloned();
    let data = member(results, "body").and_then(|body| member(&body, "data")).unwrap_or_default();
    let mut event = match member(results, "event") {
        Some(Value::Map(event)) => Map::clone(&event),
        _ => Map::new(),
    };
    event.insert("data", data);
    Value::from(event)
}
