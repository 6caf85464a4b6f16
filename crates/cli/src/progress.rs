//! The progress of an execution's steps: spinners on a terminal, plain lines in a log.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use jiff::Timestamp;
use model::automation::{Automation, Verb};
use model::execution::{Event, ExecutionId, Jump, Signal, StepOutcome, WaitReason};
use model::{LogLevel, LogLine};
use runtime::EngineEvent;

use crate::output::{self, BAD, GOOD, QUIET, WARN, cut, paint, plain, plain_lines};
use crate::{time, waiting};

/// The interval of a spinner.
const TURN: Duration = Duration::from_millis(100);
/// The maximum number of held lines; older ones are dropped.
const HELD: usize = 1000;
/// The maximum length of a shown result, in characters.
const EXCERPT: usize = 100;

/// Shows the progress of one execution.
pub(crate) struct Progress {
    id: ExecutionId,
    /// True if progress is shown.
    is_shown: bool,
    /// The steps with `debug: true`, whose HTTP requests are always shown.
    debugged: HashSet<String>,
    /// The spinners; `None` without a terminal.
    bars: Option<MultiProgress>,
    /// Lines held while a user types, so that the input is not overwritten.
    held: Option<RefCell<VecDeque<String>>>,
    /// The running steps, with their spinners.
    running: BTreeMap<String, ProgressBar>,
    /// The start of each waiting step's pause.
    paused: BTreeMap<String, Timestamp>,
    /// The last call of each running step.
    calls: BTreeMap<String, String>,
}

impl Progress {
    /// Creates the progress of this execution.
    pub(crate) fn new(id: ExecutionId, is_shown: bool, automation: Option<&Automation>) -> Self {
        let mut debugged = HashSet::new();
        if let Some(automation) = automation {
            automation.walk(&mut |step| {
                if matches!(&step.verb, Verb::Action(call) if call.debug) {
                    debugged.insert(step.id.to_string());
                }
            });
        }
        let bars = (is_shown && output::stderr_is_terminal()).then(MultiProgress::new);
        Self {
            id,
            is_shown,
            debugged,
            bars,
            held: None,
            running: BTreeMap::new(),
            paused: BTreeMap::new(),
            calls: BTreeMap::new(),
        }
    }

    pub(crate) fn begin(&self, name: &str) {
        if self.is_shown {
            self.line(&format!("{} {}", plain(name), paint(QUIET, format_args!("execution {}", self.id))));
        }
    }

    /// Reports that some events could not be shown.
    pub(crate) fn missed(&self, count: u64) {
        if self.is_shown {
            self.line(&format!("({count} notices came too fast to be shown)"));
        }
    }

    /// Removes the spinners.
    pub(crate) fn end(&mut self) {
        self.hold_lines(false);
        std::mem::take(&mut self.running).values().for_each(ProgressBar::finish_and_clear);
    }

    /// Holds lines while a user types; prints the held lines afterwards.
    pub(crate) fn hold_lines(&mut self, hold: bool) {
        let held = self.held.take().map(RefCell::into_inner).unwrap_or_default();
        held.iter().for_each(output::say);
        self.held = hold.then(RefCell::default);
        if let Some(bars) = &self.bars {
            let _ = bars.clear();
            bars.set_draw_target(if hold {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            });
        }
    }

    /// Shows an engine event.
    pub(crate) fn show(&mut self, notice: &EngineEvent) {
        let EngineEvent::ExecutionEvents { id, events, logs, .. } = notice else { return };
        if *id != self.id {
            return;
        }
        if !self.is_shown {
            logs.iter().filter(|line| self.is_debugged(line)).for_each(|line| self.log(line));
            return;
        }
        // Both are sorted; the log lines of a step precede its end.
        let mut logs = logs.iter().peekable();
        for event in events.iter() {
            while let Some(line) = logs.next_if(|line| line.at <= event.at()) {
                self.log(line);
            }
            self.event(event);
        }
        logs.for_each(|line| self.log(line));
    }

    fn is_debugged(&self, line: &LogLine) -> bool {
        let id = line.step.as_deref().map(|step| step.split('[').next().unwrap_or_default());
        id.is_some_and(|id| self.debugged.contains(id))
    }

    /// Shows one event of the log.
    pub(crate) fn event(&mut self, event: &Event) {
        if !self.is_shown {
            return;
        }
        match event {
            Event::StepStarted { step, attempt, .. } => self.started(step, *attempt),
            Event::StepRetry { at, step, attempt, error, next_at, .. } => {
                self.stopped(step);
                self.paused.remove(step);
                let wait = time::took(time::between(*at, *next_at));
                let text = format!("try {attempt} failed: {}; the next in {wait}", plain(&error.message));
                self.line(&format!("{} {step}  {text}", paint(WARN, "↻")));
            }
            Event::StepFailed { step, error, .. } => {
                self.stopped(step);
                let text = format!("failed: {}; its `onError` steps run", plain(&error.message));
                self.line(&format!("{} {step}  {text}", paint(WARN, "↷")));
            }
            Event::StepClosing { step, .. } if !step.contains('#') => {
                self.stopped(step);
                self.line(&format!(
                    "{} {step}  {}",
                    paint(QUIET, "↷"),
                    paint(QUIET, "its `finally` steps run")
                ));
            }
            Event::StepFinished { at, step, took_us, outcome } => {
                self.ended(step, *at, Duration::from_micros(*took_us), outcome);
            }
            Event::Responded { response, .. } => {
                self.line(&format!("{} answered {}", paint(GOOD, "←"), response.status));
            }
            Event::Retried { attempt, next_at, at, .. } => {
                let wait = time::took(time::between(*at, *next_at));
                self.line(&format!(
                    "{} try {attempt} of the execution failed; the next in {wait}",
                    paint(WARN, "↻")
                ));
            }
            Event::StepCalled { step, call, .. } => {
                self.calls.insert(step.clone(), waiting::call(call));
            }
            // State that a loop keeps for one iteration is not a step.
            Event::Waiting { step, .. } if step.contains('#') => {}
            Event::Waiting { at, step, until, on, .. } => {
                self.paused.entry(step.clone()).or_insert(*at);
                self.waits(step, *until, on);
            }
            Event::Signalled { step, signal, .. } => self.signalled(step, signal),
            Event::Waited { step, reason, ms, .. } => {
                let step = step.as_deref().map_or_else(String::new, |step| format!("{step}  "));
                let text = waiting::delay(reason, Duration::from_millis(*ms));
                self.line(&format!("{} {step}{}", paint(QUIET, "◷"), paint(QUIET, text)));
            }
            Event::Failing { error, .. } => {
                let text = format!("failed: {}; what closes it runs", plain(&error.message));
                self.line(&format!("{} {text}", paint(BAD, "↷")));
            }
            Event::Started { .. }
            | Event::Resumed { .. }
            | Event::StepContextRecorded { .. }
            | Event::StepClosing { .. }
            | Event::WaitEnded { .. }
            | Event::Cancelling { .. }
            | Event::ClockChanged { .. }
            | Event::Answered { .. }
            | Event::Finished { .. } => {}
        }
    }

    fn ended(&mut self, step: &str, at: Timestamp, worked: Duration, outcome: &StepOutcome) {
        self.stopped(step);
        let paused = self.paused.remove(step).map(|since| time::between(since, at));
        let call = self.calls.remove(step);
        self.line(&finished(step, paused.unwrap_or(worked), outcome, call.as_deref()));
    }

    fn signalled(&mut self, step: &str, signal: &Signal) {
        let what = if signal.name.is_empty() { "an answer" } else { "an event" };
        let by = signal.by.as_deref().map_or_else(String::new, |by| format!(" by {}", plain(by)));
        self.line(&format!("{} {step}  {}", paint(GOOD, "←"), paint(QUIET, format_args!("{what}{by}"))));
    }

    fn started(&mut self, step: &str, attempt: u32) {
        let which = if attempt > 1 { format!(" (try {attempt})") } else { String::new() };
        let Some(bars) = &self.bars else {
            // A step's start is published at once, and again when it is committed.
            if self.running.insert(step.to_owned(), ProgressBar::hidden()).is_none() {
                self.line(&format!("{} {step}{which}", paint(QUIET, "▸")));
            }
            return;
        };
        if !self.running.contains_key(step) {
            let bar = bars.add(ProgressBar::new_spinner().with_message(format!("{step}{which}")));
            // An invalid template leaves the default spinner.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TURN);
            self.running.insert(step.to_owned(), bar);
        }
    }

    /// Shows a waiting step with its remaining time.
    fn waits(&mut self, step: &str, until: Option<Timestamp>, on: &WaitReason) {
        let what = format!("{step}  {}", waiting::waits(on, until));
        let Some(bars) = &self.bars else {
            self.running.insert(step.to_owned(), ProgressBar::hidden());
            return self.line(&format!("{} {what}", paint(WARN, "◷")));
        };
        let bar = match self.running.entry(step.to_owned()) {
            Entry::Occupied(running) => running.into_mut(),
            Entry::Vacant(place) => place.insert(bars.add(ProgressBar::new_spinner())),
        };
        bar.set_message(what);
        let left = move |_: &ProgressState, out: &mut dyn Write| {
            if let Some(until) = until {
                let _ = write!(out, "({} left)", time::took(time::between(time::now(), until)));
            }
        };
        if let Ok(style) = ProgressStyle::with_template("◷ {msg} {left:.dim}") {
            bar.set_style(style.with_key("left", left));
        }
        bar.enable_steady_tick(TURN);
    }

    fn stopped(&mut self, step: &str) {
        if let Some(bar) = self.running.remove(step) {
            bar.finish_and_clear();
        }
    }

    /// Shows one log line.
    pub(crate) fn log(&self, line: &LogLine) {
        if !self.is_shown && !self.is_debugged(line) {
            return;
        }
        let style = match line.level {
            LogLevel::Debug | LogLevel::Info => QUIET,
            LogLevel::Warn => WARN,
            LogLevel::Error => BAD,
        };
        let margin = format!("  {} ", paint(style, "│"));
        self.line(&format!("{margin}{}", plain_lines(&line.message, &margin)));
    }

    /// Prints one line above the spinners.
    pub(crate) fn line(&self, text: &str) {
        if let Some(held) = &self.held {
            let mut held = held.borrow_mut();
            if held.len() >= HELD {
                held.pop_front();
            }
            held.push_back(text.to_owned());
            return;
        }
        match &self.bars {
            Some(bars) => bars.suspend(|| output::say(text)),
            None => output::say(text),
        }
    }
}

fn finished(step: &str, took: Duration, outcome: &StepOutcome, call: Option<&str>) -> String {
    let call = call.map_or_else(String::new, |call| format!("  {}", plain(call)));
    let took = format!("{}{call}", paint(QUIET, time::took(took)));
    match outcome {
        StepOutcome::Succeeded { result } if result.is_null() => {
            format!("{} {step}  {took}", paint(GOOD, "✓"))
        }
        StepOutcome::Succeeded { result } => {
            let result = result.to_json();
            format!("{} {step}  {took}  {}", paint(GOOD, "✓"), paint(QUIET, plain(&cut(&result, EXCERPT))))
        }
        StepOutcome::Jumped { by, .. } => {
            let by = match by {
                Jump::Break => "break",
                Jump::Continue => "continue",
                Jump::Stop => "stop",
                Jump::Timeout | Jump::Cut => {
                    return format!("{} {step}  {took}  {}", paint(QUIET, "–"), paint(QUIET, "cut off"));
                }
            };
            format!("{} {step}  {took}  {}", paint(GOOD, "✓"), paint(QUIET, by))
        }
        StepOutcome::Skipped => format!("{} {step}  {}", paint(QUIET, "–"), paint(QUIET, "skipped")),
        StepOutcome::Failed { error, handled } => {
            let after = if handled.is_some() { "; the execution continues" } else { "" };
            format!("{} {step}  {took}  {}{after}", paint(BAD, "✗"), plain(&error.message_with_location()))
        }
    }
}
