//! The answers to approvals while `cogwork run` waits for the end of its execution: from `--answer`, from prompts at
//! the terminal, or through the resume address, which it serves meanwhile.

use std::collections::{HashSet, VecDeque};

use engine::Engine;
use model::execution::{Event, ExecutionId, WaitReason};
use runtime::{Answer, EngineEvent, Pending, SignalError};
use server::ResumeServer;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use value::{JsonLimits, Map, Value};

use super::prompt::{Lines, Next, Prompt};
use crate::exit::CommandError;
use crate::output::{self, plain};
use crate::progress::Progress;
use crate::settings::Config;
use crate::waiting;

/// The sender of the answers, for the history.
const SENDER: &str = "the command line";

/// An answer from the command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PresetAnswer {
    step: String,
    value: String,
}

impl PresetAnswer {
    /// Parses `STEP=VALUE`.
    ///
    /// # Errors
    /// The text does not have this form.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        match text.split_once('=') {
            Some((step, value)) if !step.is_empty() && !value.is_empty() => {
                Ok(Self { step: step.to_owned(), value: value.to_owned() })
            }
            _ => Err(CommandError::usage(format!("`--answer {text}`: write it as step=answer"))),
        }
    }
}

/// The source of the answers.
pub(super) struct Answers<'r> {
    engine: &'r Engine,
    config: &'r Config,
    notices: Receiver<EngineEvent>,
    given: &'r [PresetAnswer],
    used: HashSet<String>,
    /// The waits that have been handled, by execution, step and start.
    seen: HashSet<(ExecutionId, String, jiff::Timestamp)>,
    /// Questions for the terminal, the current one first.
    prompts: VecDeque<Prompt>,
    lines: Option<Lines>,
    /// True if a person can answer at the terminal.
    can_ask: bool,
    listener: Option<ResumeServer>,
    tried_to_listen: bool,
}

impl<'r> Answers<'r> {
    pub(super) fn new(engine: &'r Engine, config: &'r Config, given: &'r [PresetAnswer]) -> Self {
        Self {
            engine,
            config,
            notices: engine.subscribe(),
            given,
            used: HashSet::new(),
            seen: HashSet::new(),
            prompts: VecDeque::new(),
            lines: None,
            can_ask: output::can_ask(),
            listener: None,
            tried_to_listen: false,
        }
    }

    /// Handles the next event or input. Cancel safe if it is called again.
    ///
    /// # Errors
    /// A preset answer does not match.
    pub(super) async fn next(&mut self, progress: &mut Progress) -> anyhow::Result<()> {
        let line = async {
            match self.lines.as_mut().filter(|_| !self.prompts.is_empty()) {
                Some(lines) => lines.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            notice = self.notices.recv() => match notice {
                Ok(notice) => {
                    progress.show(&notice);
                    self.handle_event(&notice, progress).await
                }
                Err(RecvError::Lagged(missed)) => {
                    progress.missed(missed);
                    Ok(())
                }
                Err(RecvError::Closed) => std::future::pending().await,
            },
            line = line => self.answered(line, progress).await,
        }
    }

    /// Shows the events that have not been shown yet.
    pub(super) fn drain(&mut self, progress: &mut Progress) {
        while let Ok(notice) = self.notices.try_recv() {
            progress.show(&notice);
        }
    }

    /// Reports preset answers that were never requested, and releases the terminal.
    pub(super) async fn end(self) {
        for given in self.given.iter().filter(|given| !self.used.contains(&given.step)) {
            output::warn(format_args!("`--answer {}=…`: no such step asked for one", plain(&given.step)));
        }
        if let Some(listener) = self.listener {
            listener.shutdown().await;
        }
    }

    /// Every event in this process belongs to the started execution or to executions that it calls.
    async fn handle_event(&mut self, notice: &EngineEvent, progress: &mut Progress) -> anyhow::Result<()> {
        let EngineEvent::ExecutionEvents { id, events, .. } = notice else { return Ok(()) };
        let asks = |event: &Event| match event {
            Event::Waiting { on, .. } => matches!(on, WaitReason::Approval { .. } | WaitReason::Event { .. }),
            _ => false,
        };
        if events.iter().any(asks) {
            self.check_execution(*id, progress).await?;
        }
        for event in events.iter() {
            let over = |prompt: &Prompt, step: &str| prompt.execution == *id && prompt.step() == step;
            match event {
                Event::StepFinished { step, .. } | Event::StepRetry { step, .. } => {
                    self.withdraw(progress, |prompt| over(prompt, step)).await;
                }
                Event::Finished { .. } => self.withdraw(progress, |prompt| prompt.execution == *id).await,
                _ => {}
            }
        }
        Ok(())
    }

    async fn check_execution(&mut self, id: ExecutionId, progress: &mut Progress) -> anyhow::Result<()> {
        for pending in self.engine.admission().queue_status(id).await?.pauses {
            let asks = matches!(pending.on, WaitReason::Approval { .. } | WaitReason::Event { .. });
            if !asks || !self.seen.insert((id, pending.step.clone(), pending.since)) {
                continue;
            }
            if let Some(given) = self.take_preset(&pending.step) {
                self.send_answer(&pending, &given).await?;
                continue;
            }
            if self.can_ask && matches!(pending.on, WaitReason::Approval { .. }) {
                self.prompts.push_back(Prompt::new(id, pending));
                if self.prompts.len() == 1 {
                    self.show_prompt(progress).await;
                }
            } else {
                self.announce(&pending, progress).await;
            }
        }
        Ok(())
    }

    /// The preset answer of a step: for this iteration, or for all.
    fn take_preset(&mut self, step: &str) -> Option<PresetAnswer> {
        let id = step.split('[').next().unwrap_or_default();
        let named = |name: &str| self.given.iter().find(|given| given.step == name);
        let given = named(step).or_else(|| named(id))?.clone();
        self.used.insert(given.step.clone());
        Some(given)
    }

    async fn send_answer(&self, pending: &Pending, given: &PresetAnswer) -> anyhow::Result<()> {
        let step = Some(pending.step.as_str());
        let wrong = |message: String| CommandError::usage(format!("--answer {}: {message}", given.step));
        let result = match pending.on {
            WaitReason::Approval { .. } => {
                let answer = answer(&given.value).map_err(wrong)?;
                self.engine.admission().answer(pending.execution, step, answer).await
            }
            _ => {
                let data = Value::from_json(given.value.as_bytes(), JsonLimits::default());
                let data = data.map_err(|error| wrong(format!("the data of an event is JSON: {error}")))?;
                self.engine.admission().signal(pending.execution, step, data, Some(SENDER.to_owned())).await
            }
        };
        match result {
            // Its timeout has expired, or another answer came first.
            Ok(()) | Err(SignalError::NotWaiting) => Ok(()),
            Err(SignalError::Answer(message)) => Err(wrong(message)),
            Err(error) => Err(error.into()),
        }
    }

    /// Prints a waiting step that the terminal cannot answer.
    async fn announce(&mut self, pending: &Pending, progress: &mut Progress) {
        let url = self.resume_url(pending.execution).await;
        let workspace = url.map_or_else(String::new, |url| format!("at {url}, or "));
        let (step, what) = (plain(&pending.step), waiting::what(&pending.on));
        let asked =
            waiting::question(&pending.on).map_or_else(String::new, |question| format!(": {question}"));
        let value = if pending.on.as_str() == "event" { "JSON" } else { "ANSWER" };
        let text = format!(
            "`{step}` waits for {what}{asked}\n  answer {workspace}beforehand with --answer {step}={value}"
        );
        let Some(prompt) = self.prompts.front() else { return progress.line(&text) };
        // The text being typed is on the line above.
        output::say(format_args!("\n{text}"));
        prompt.ask();
    }

    /// Returns the resume URL of an execution; starts its server on first use. `None` if a daemon already uses the
    /// port.
    async fn resume_url(&mut self, id: ExecutionId) -> Option<String> {
        if !std::mem::replace(&mut self.tried_to_listen, true) && self.config.hooks.port() != 0 {
            let started = ResumeServer::start(self.engine.clone(), &self.config.server()).await;
            self.listener = started.inspect_err(|error| tracing::debug!(%error, "no resume address")).ok();
        }
        self.listener.is_some().then(|| self.engine.context().resume_url(id))
    }

    /// Shows the first question at the terminal.
    async fn show_prompt(&mut self, progress: &mut Progress) {
        let Some(id) = self.prompts.front().map(|prompt| prompt.execution) else {
            return progress.hold_lines(false);
        };
        let url = self.resume_url(id).await;
        progress.hold_lines(true);
        self.lines.get_or_insert_with(Lines::read);
        if let Some(prompt) = self.prompts.front() {
            prompt.show_prompt(url.as_deref());
        }
    }

    /// Removes questions that no longer need an answer.
    async fn withdraw(&mut self, progress: &mut Progress, is_over: impl Fn(&Prompt) -> bool) {
        let was_put = self.prompts.front().is_some_and(&is_over);
        self.prompts.retain(|prompt| !is_over(prompt));
        if was_put {
            output::say("\n(no longer asked)");
            self.show_prompt(progress).await;
        }
    }

    async fn answered(&mut self, line: Option<String>, progress: &mut Progress) -> anyhow::Result<()> {
        let (Some(line), Some(prompt)) = (line, self.prompts.front_mut()) else {
            // The input has ended, so no prompt can be answered.
            self.can_ask = false;
            self.prompts.clear();
            progress.hold_lines(false);
            return Ok(());
        };
        let answer = match prompt.take(&line) {
            Next::Ask => {
                prompt.ask();
                return Ok(());
            }
            Next::Give { option, form } => Answer { option, form, by: Some(SENDER.to_owned()) },
        };
        let (id, step) = (prompt.execution, prompt.step().to_owned());
        match self.engine.admission().answer(id, Some(&step), answer).await {
            Ok(()) | Err(SignalError::NotWaiting) => {
                self.prompts.pop_front();
            }
            Err(SignalError::Answer(message)) => {
                output::say(format_args!("  {}", plain(&message)));
                prompt.again();
            }
            Err(error) => return Err(error.into()),
        }
        self.show_prompt(progress).await;
        Ok(())
    }
}

/// A preset answer: an option, or `{option, form}` as JSON.
fn answer(text: &str) -> Result<Answer, String> {
    let by = Some(SENDER.to_owned());
    if !text.trim_start().starts_with('{') {
        return Ok(Answer { option: text.to_owned(), form: Map::new(), by });
    }
    let value =
        Value::from_json(text.as_bytes(), JsonLimits::default()).map_err(|error| error.to_string())?;
    let option = value.path("option").as_ref().and_then(Value::as_str).map(str::to_owned);
    let option = option.ok_or("JSON is written as {\"option\": \"approve\", \"form\": {}}")?;
    let form = value.path("form").as_ref().and_then(Value::as_map).cloned().unwrap_or_default();
    Ok(Answer { option, form, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_option_or_json_with_a_form() {
        assert_eq!(answer("approve").map(|answer| answer.option), Ok("approve".to_owned()));
        let whole = answer(r#"{"option": "approve", "form": {"a": 1}}"#).expect("an answer");
        assert_eq!((whole.option.as_str(), whole.form.len()), ("approve", 1));
        assert!(answer("{").is_err() && answer("{}").is_err());
    }

    #[test]
    fn a_preset_answer_needs_a_step_and_a_value() {
        let given = PresetAnswer::parse("ask[2]=a=b").expect("an answer");
        assert_eq!((given.step.as_str(), given.value.as_str()), ("ask[2]", "a=b"));
        for wrong in ["ask", "=approve", "ask="] {
            assert!(PresetAnswer::parse(wrong).is_err(), "{wrong}");
        }
    }
}
