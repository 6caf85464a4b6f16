//! `code`: one run of an author's JavaScript.

use std::sync::Arc;

use model::action::{ActionError, CodePlace, ErrorKind};
use model::automation::{Automation, Code, Step};
use model::execution::LogLevel;
use model::payload::HttpResponse;
use model::redact::{Limit, Redactor};
use model::value::Value;
use script::{Level, LogLine, Module, Shape};

use super::ahead::Ran;
use super::scope::Scope;
use super::step::Context;
use super::verbs::failed;
use super::{Exit, Run};
use crate::code::{Verdict, Workers};
use crate::native::CodeState;
use crate::plan::CodePlan;

impl Run {
    pub(super) async fn code(
        &self,
        step: &Step,
        code: &Code,
        key: &str,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let (plan, module) = self.code_plan(step)?;
        // In a test the clock stands still meanwhile.
        let _busy = self.services.doubles.as_ref().map(|doubles| doubles.elsewhere());
        let (ran, state) = match self.ran_ahead(step, scope, context).await? {
            Some(ran) => (ran, CodeState::default()),
            None => {
                let verdict = self.facts(module).await?;
                let facts = verdict.as_ref().as_ref().map_err(|errors| {
                    let message = errors.first().map_or_else(String::new, ToString::to_string);
                    failed(ActionError::new(ErrorKind::Input, message))
                })?;
                let state = self.code_state(facts).await?;
                (self.run_code(step, (plan, module), facts, &state, scope, context).await?, state)
            }
        };
        let (value, response) = self.ended(plan, code, key, ran, state)?;
        if let Some(response) = response {
            self.answer_of_code(response).await?;
        }
        Ok(value)
    }

    fn code_plan(&self, step: &Step) -> Result<(&CodePlan, &Module), Exit> {
        let plan = self.deployed.plan.code().step(&step.id);
        plan.and_then(|plan| Some((plan, plan.module.as_ref()?)))
            .ok_or_else(|| failed(ActionError::new(ErrorKind::Input, "the file of the code is not there")))
    }

    /// As [`Run::code`], where the code of the step has run ahead and nothing has to be waited for.
    pub(super) fn code_ahead(
        &self,
        step: &Step,
        code: &Code,
        key: &str,
        scope: &mut Scope,
    ) -> Option<Result<(Value, Option<HttpResponse>), Exit>> {
        let ran = self.has_arrived(step, scope)?;
        let ended = |(plan, _)| self.ended(plan, code, key, ran, CodeState::default());
        Some(self.code_plan(step).and_then(ended))
    }

    /// What a module is made of.
    async fn facts(&self, module: &Module) -> Result<Arc<Verdict>, Exit> {
        let known = Workers::shared().facts(module).await;
        known.map_err(|error| failed(ActionError::new(ErrorKind::Internal, error.to_string())))
    }

    /// Takes over what the code gave: its result, what it wrote to the state, its log, the answer to the caller that is still
    /// to be given.
    fn ended(
        &self,
        plan: &CodePlan,
        code: &Code,
        key: &str,
        ran: Ran,
        state: CodeState,
    ) -> Result<(Value, Option<HttpResponse>), Exit> {
        let outcome = match ran {
            Ok(outcome) => outcome,
            Err(error) => {
                self.code_log(key, error.logs());
                let redactor = &self.services.settings.redactor;
                return Err(failed(to_action_error(&error, code, &self.deployed.automation, redactor)));
            }
        };
        self.code_log(key, &outcome.logs);
        if outcome.shape == Shape::Nothing {
            self.journal.log(LogLevel::Warn, Some(key), "the code returned nothing, so its result is null");
        }
        let value = self.within_limit(outcome.value)?;
        self.write_code_state(state, &outcome.state)?;
        let is_answer = plan.answers && outcome.shape == Shape::Response && self.journal.response().is_none();
        if !is_answer {
            return Ok((value, None));
        }
        let response = trigger::response::from_code(&value, &self.journal.id()).map_err(|error| {
            let message = format!("the code's answer: {error}");
            failed(ActionError::new(ErrorKind::Input, message))
        })?;
        Ok((value, Some(self.journal.hidden_response(response))))
    }

    /// Gives the caller the answer that code decided.
    pub(super) async fn answer_of_code(&self, response: HttpResponse) -> Result<(), Exit> {
        self.journal.respond(response.clone());
        self.journal.commit().await?;
        self.progressed(|progress| progress.response = Some(response));
        Ok(())
    }

    fn code_log(&self, key: &str, lines: &[LogLine]) {
        for line in lines {
            self.journal.log(level(line.level), Some(key), &line.message);
        }
    }
}

pub(crate) fn level(level: Level) -> LogLevel {
    match level {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

/// What failed, with its place in the author's file and the line that stands there. Of a longer message the worker sends more
/// than is kept, so that it is cut here, after secrets were hidden in it.
pub(crate) fn to_action_error(
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
    let message = redactor.excerpt(&message, Limit::Chars(script::MAX_TEXT));
    let mut told = ActionError::new(kind, message);
    let Some(at) = error.at() else { return told };
    let (line, column) = (at.line as usize, at.column as usize);
    let (source, span) = code.place(automation, line, column);
    let place = source.place(span.start as usize);
    let text = code.text(automation).and_then(|text| text.lines().nth(line.saturating_sub(1)));
    told.place = Some(Box::new(CodePlace {
        file: source.path().to_owned(),
        line: place.line,
        column: place.column,
        text: shorten(text.unwrap_or_default().trim()),
    }));
    told
}

fn shorten(line: &str) -> String {
    const MOST: usize = 120;
    model::redact::cut(line, MOST).into_owned()
}
