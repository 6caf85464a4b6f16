//! `code`: executes an author's JavaScript.

use std::sync::Arc;

use model::LogLevel;
use model::action::{ActionError, CodeLocation, ErrorKind};
use model::automation::{Automation, Code, Step};
use script::{Level, LogLine, Module, Shape};
use value::Value;
use value::redact::{LengthLimit, Redactor};

use super::code_pipeline::CodeResult;
use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::native::CodeState;
use catalog::CodePlan;
use catalog::{AnalysisResult, Workers};

impl Run {
    pub(super) async fn code(
        &self,
        step: &Step,
        code: &Code,
        key: &str,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let (plan, module) = self.code_plan(step)?;
        // The test clock stands still while code runs.
        let _busy = self.context.doubles.as_ref().map(|doubles| doubles.track_offloaded_work());
        let (ran, state) = match self.next_from_pipeline(step, scope, frame).await? {
            Some(ran) => (ran, CodeState::default()),
            None => {
                let verdict = self.facts(module).await?;
                let facts = verdict.as_ref().as_ref().map_err(|errors| {
                    let message = errors.first().map_or_else(String::new, ToString::to_string);
                    failed(ActionError::new(ErrorKind::Input, message))
                })?;
                let state = self.code_state(facts).await?;
                (self.run_code(step, (plan, module), facts, &state, scope, frame).await?, state)
            }
        };
        self.ended(plan, code, key, ran, state, scope)
    }

    fn code_plan(&self, step: &Step) -> Result<(&CodePlan, &Module), Exit> {
        let plan = self.deployment.plan.code().step(&step.id);
        plan.and_then(|plan| Some((plan, plan.module.as_ref()?)))
            .ok_or_else(|| failed(ActionError::new(ErrorKind::Input, "the file of the code is not there")))
    }

    /// Like [`Run::code`], with a result that has been computed ahead. Does not wait.
    pub(super) fn code_from_pipeline(
        &self,
        step: &Step,
        code: &Code,
        key: &str,
        scope: &mut Scope,
    ) -> Option<Result<Value, Exit>> {
        let ran = self.take_if_arrived(step, scope)?;
        let ended = |(plan, _)| self.ended(plan, code, key, ran, CodeState::default(), scope);
        Some(self.code_plan(step).and_then(ended))
    }

    /// Returns the analysis of a module.
    async fn facts(&self, module: &Module) -> Result<Arc<AnalysisResult>, Exit> {
        let known = Workers::shared().analyze(module).await;
        known.map_err(|error| failed(ActionError::new(ErrorKind::Internal, error.to_string())))
    }

    /// Applies the result of code: its value, state writes, log lines and the response to the caller.
    fn ended(
        &self,
        plan: &CodePlan,
        code: &Code,
        key: &str,
        ran: CodeResult,
        state: CodeState,
        scope: &mut Scope,
    ) -> Result<Value, Exit> {
        let outcome = match ran {
            Ok(outcome) => outcome,
            Err(error) => {
                self.code_log(key, error.logs());
                let redactor = &self.context.settings.redactor;
                return Err(failed(to_action_error(&error, code, &self.deployment.automation, redactor)));
            }
        };
        self.code_log(key, &outcome.logs);
        if outcome.shape == Shape::Nothing {
            self.journal.log(LogLevel::Warn, Some(key), "the code returned nothing, so its result is null");
        }
        let value = self.within_limit(outcome.value)?;
        self.write_code_state(state, &outcome.state)?;
        let is_answer =
            plan.may_respond && outcome.shape == Shape::Response && self.journal.response().is_none();
        if !is_answer {
            return Ok(value);
        }
        let response = trigger::response::from_code(&value, &self.journal.id()).map_err(|error| {
            let message = format!("the code's answer: {error}");
            failed(ActionError::new(ErrorKind::Input, message))
        })?;
        self.set_response(self.journal.redact_response(response), scope);
        Ok(value)
    }

    fn code_log(&self, key: &str, lines: &[LogLine]) {
        for line in lines {
            self.journal.log(level(line.level), Some(key), &line.message);
        }
    }
}

/// The log level of a line of code.
#[must_use]
pub fn level(level: Level) -> LogLevel {
    match level {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

/// Converts a code error to a step error, with its position in the author's file and the source line. Secrets are
/// masked before the message is cut, so the worker sends more text than is stored.
pub fn to_action_error(
    error: &script::Error,
    code: &Code,
    automation: &Automation,
    redactor: &Redactor,
) -> ActionError {
    let kind = match error {
        script::Error::Thrown(_) => ErrorKind::Failed,
        script::Error::Overrun { .. } | script::Error::Waited { .. } => ErrorKind::Timeout,
        script::Error::OutOfMemory { .. } | script::Error::TooLarge { .. } | script::Error::Busy { .. } => {
            ErrorKind::Limit
        }
        script::Error::Worker { .. } | script::Error::Start(_) => ErrorKind::Internal,
    };
    let message = error.to_string();
    let message = redactor.redact_excerpt(&message, LengthLimit::Chars(script::MAX_TEXT));
    let mut told = ActionError::new(kind, message);
    let Some(at) = error.at() else { return told };
    let (line, column) = (at.line as usize, at.column as usize);
    let (source, span) = code.locate(automation, line, column);
    let place = source.position(span.start as usize);
    let text = code.text(automation).and_then(|text| text.lines().nth(line.saturating_sub(1)));
    told.code_location = Some(Box::new(CodeLocation {
        file: source.path().to_owned(),
        line: place.line,
        column: place.column,
        text: shorten(text.unwrap_or_default().trim()),
    }));
    told
}

fn shorten(line: &str) -> String {
    const MAX_CHARS: usize = 120;
    text::truncate(line, MAX_CHARS).into_owned()
}
