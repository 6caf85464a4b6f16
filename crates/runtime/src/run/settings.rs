//! Settings of a step that expressions compute, evaluated once when the step begins: with the variables that it reads then, which the
//! log gives again after a restart. So all its attempts have the same values, and nothing is stored.

use std::time::Duration;

use expression::Expression;
use model::action::{ActionError, ErrorKind};
use model::automation::setting::{self, CountRule, DurationRule};
use model::automation::{ForEachStep, NameSetting, RepeatStep, Setting, SpannedName, Step, StepRetry, Verb};

use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};

/// The computed settings of one step; `None` for each that is literal or absent.
#[derive(Debug, Default)]
pub(crate) struct StepSettings {
    timeout: Option<Duration>,
    retry: Option<StepRetry>,
    /// The largest number of iterations, or of concurrent ones.
    count: Option<u32>,
    /// The delay between iterations.
    delay: Option<Duration>,
    /// The connection or the called automation.
    name: Option<SpannedName>,
}

impl Run {
    /// Evaluates the computed settings of a step, in the order of [`Step::computed_settings`]; `None` if all are literal.
    pub(super) async fn settings(
        &self,
        step: &Step,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Option<StepSettings>, Exit> {
        if step.computed_settings().is_empty() {
            return Ok(None);
        }
        let mut settings = StepSettings::default();
        let site = Site { run: self, scope, frame };
        if let Some(timeout) = step.timeout.as_ref().and_then(Setting::expression) {
            settings.timeout = Some(site.duration(timeout, &setting::TIMEOUT).await?);
        }
        if let Some(retry) = step.retry.as_deref().filter(|retry| retry.is_computed()) {
            settings.retry = Some(site.retry(retry).await?);
        }
        match &step.verb {
            Verb::Action(call) => {
                settings.name = site.name(call.connection.as_ref(), "connection").await?;
            }
            Verb::Call(call) => settings.name = site.name(Some(&call.automation), "call").await?,
            Verb::ForEach(each) => {
                let concurrency = each.concurrency.expression();
                settings.count = site.optional_count(concurrency, &setting::FOR_EACH_CONCURRENCY).await?;
            }
            Verb::Repeat(repeat) => {
                settings.count = site.optional_count(repeat.max.expression(), &setting::REPEAT_MAX).await?;
                let delay = repeat.delay.expression();
                settings.delay = site.optional_duration(delay, &setting::REPEAT_DELAY).await?;
            }
            _ => {}
        }
        Ok(Some(settings))
    }
}

/// The place where the settings of one step are evaluated.
struct Site<'a> {
    run: &'a Run,
    scope: &'a Scope,
    frame: &'a Frame,
}

impl Site<'_> {
    async fn duration(&self, expression: &Expression, rule: &DurationRule) -> Result<Duration, Exit> {
        let value = self.run.evaluate_expression(expression, self.scope, rule.name, self.frame).await?;
        rule.read(&value).map_err(input_error)
    }

    async fn optional_duration(
        &self,
        expression: Option<&Expression>,
        rule: &DurationRule,
    ) -> Result<Option<Duration>, Exit> {
        match expression {
            Some(expression) => self.duration(expression, rule).await.map(Some),
            None => Ok(None),
        }
    }

    async fn optional_count(
        &self,
        expression: Option<&Expression>,
        rule: &CountRule,
    ) -> Result<Option<u32>, Exit> {
        let Some(expression) = expression else { return Ok(None) };
        let value = self.run.evaluate_expression(expression, self.scope, rule.name, self.frame).await?;
        rule.read(&value).map(Some).map_err(input_error)
    }

    /// Returns the retry with the values of all its policies.
    async fn retry(&self, retry: &StepRetry) -> Result<StepRetry, Exit> {
        let mut known = retry.clone();
        for rule in &mut known.rules {
            let Some(computed) = rule.policy.computed.as_deref() else { continue };
            let max = self.optional_count(computed.max.as_ref(), &setting::RETRY_MAX).await?;
            let delay = self.optional_duration(computed.delay.as_ref(), &setting::RETRY_DELAY).await?;
            rule.policy = rule.policy.with_values(max, delay).map_err(input_error)?;
        }
        match known.excess() {
            Some(tries) => Err(input_error(StepRetry::excess_message(tries))),
            None => Ok(known),
        }
    }

    /// Returns the name that the expression selects. Any other value is an error: data never name credentials or code by themselves.
    async fn name(&self, setting: Option<&NameSetting>, what: &str) -> Result<Option<SpannedName>, Exit> {
        let Some(selection) = setting.and_then(NameSetting::selection) else { return Ok(None) };
        let value = self.run.evaluate_expression(&selection.name, self.scope, what, self.frame).await?;
        selection.select(what, &value).cloned().map(Some).map_err(input_error)
    }
}

/// The error of a computed setting without a usable value.
pub(super) fn unusable(message: String) -> ActionError {
    ActionError::new(ErrorKind::Input, message)
}

fn input_error(message: String) -> Exit {
    failed(unusable(message))
}

/// The settings in force for a step. `self` must be the frame of the step, which has its computed settings.
impl Frame {
    /// Returns the time limit of one attempt.
    pub(super) fn timeout(&self, step: &Step) -> Option<Duration> {
        match step.timeout.as_ref()? {
            Setting::Literal(timeout) => Some(*timeout),
            Setting::Computed(_) => self.settings().and_then(|settings| settings.timeout),
        }
    }

    /// Returns the retry policies.
    pub(super) fn retry<'a>(&'a self, step: &'a Step) -> Option<&'a StepRetry> {
        let retry = step.retry.as_deref()?;
        if retry.is_computed() { self.settings()?.retry.as_ref() } else { Some(retry) }
    }

    /// Returns the maximum number of iterations of a `repeat`.
    pub(super) fn max_turns(&self, repeat: &RepeatStep) -> u32 {
        repeat.max.literal().or_else(|| self.settings()?.count).unwrap_or_default()
    }

    /// Returns the delay between the iterations of a `repeat`.
    pub(super) fn turn_delay(&self, repeat: &RepeatStep) -> Duration {
        repeat.delay.literal().or_else(|| self.settings()?.delay).unwrap_or_default()
    }

    /// Returns the maximum number of parallel iterations of a `forEach`, at least 1.
    pub(super) fn concurrency(&self, each: &ForEachStep) -> u32 {
        each.concurrency.literal().or_else(|| self.settings()?.count).unwrap_or(1)
    }

    /// Returns the name of the connection or of the called automation; `None` only if the settings were not evaluated.
    pub(super) fn name<'a>(&'a self, setting: &'a NameSetting) -> Option<&'a SpannedName> {
        match setting {
            NameSetting::Literal(name) => Some(name),
            NameSetting::Selected(_) => self.settings()?.name.as_ref(),
        }
    }
}
