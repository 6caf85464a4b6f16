//! The steps of an execution as they go: spinners for a person at a terminal, plain lines for a log.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use jiff::Timestamp;
use model::automation::{Automation, Verb};
use model::execution::{Event, ExecutionId, Jump, StepOutcome, WaitReason};
use model::{LogLevel, LogLine};
use runtime::EngineEvent;

use crate::output::{self, BAD, GOOD, QUIET, WARN, cut, paint, plain, plain_lines};
use crate::{time, waiting};

/// How often a spinner turns.
const TURN: Duration = Duration::from_millis(100);
/// The most lines that are held back; of more, the last ones.
const HELD: usize = 1000;
/// The most characters of a result that are shown.
const EXCERPT: usize = 100;

/// Shows one execution as it goes.
pub(crate) struct Progress {
    id: ExecutionId,
    /// True if progress is shown.
    is_shown: bool,
    /// The steps whose author requested a trace of their HTTP requests, shown in any case.
    debugged: HashSet<String>,
    /// Present where a person looks on.
    bars: Option<MultiProgress>,
    /// Lines held back while a person types, so that nothing is written over that.
    held: Option<RefCell<VecDeque<String>>>,
    /// The steps that run, by step; the spinner of each where there are some.
    running: BTreeMap<String, ProgressBar>,
    /// Since when steps pause.
    paused: BTreeMap<String, Timestamp>,
    /// The last call of each step that runs.
    calls: BTreeMap<String, String>,
}

impl Progress {
    /// Of this execution, if anybody wants to see it.
    pub(crate) fn new(id: ExecutionId, is_shown: bool, automation: Option<&Automation>) -> Self {
        let mut debugged = HashSet::new();
        if let Some(automation) = automation {
            automation.walk(&mut |step| {
                if matches!(&step.verb, Verb::Action(call) if call.debug) {
                    debugged.insert(step.id.to_string());
                }
            });
        }
        let bars = (is_shown && output::talks_to_a_person()).then(MultiProgress::new);
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

    /// Says that some of what happened cannot be shown.
    pub(crate) fn missed(&self, count: u64) {
        if self.is_shown {
            self.line(&format!("({count} notices came too fast to be shown)"));
        }
    }

    /// Takes away what still moves.
    pub(crate) fn end(&mut self) {
        self.hush(false);
        std::mem::take(&mut self.running).values().for_each(ProgressBar::finish_and_clear);
    }

    /// Says nothing more while a person types; says what was held back so far.
    pub(crate) fn hush(&mut self, is_hushed: bool) {
        let held = self.held.take().map(RefCell::into_inner).unwrap_or_default();
        held.iter().for_each(output::say);
        self.held = is_hushed.then(RefCell::default);
        if let Some(bars) = &self.bars {
            let _ = bars.clear();
            bars.set_draw_target(if is_hushed {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            });
        }
    }

    /// Shows something that happened.
    pub(crate) fn show(&mut self, notice: &EngineEvent) {
        let EngineEvent::ExecutionEvents { id, events, logs, .. } = notice else { return };
        if *id != self.id {
            return;
        }
        if !self.is_shown {
            logs.iter().filter(|line| self.is_debugged(line)).for_each(|line| self.log(line));
            return;
        }
        // Both are in order; what a step logged stands before its end.
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

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &Event) {
        if !self.is_shown {
            return;
        }
        match event {
            Event::StepStarted { step, attempt, .. } => self.started(step, *attempt),
            Event::StepRetry { at, step, attempt, error, next_at } => {
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
            Event::StepFinished { at, step, took_us, outcome } => {
                self.stopped(step);
                let paused = self.paused.remove(step).map(|since| time::between(since, *at));
                let took = paused.unwrap_or(Duration::from_micros(*took_us));
                let call = self.calls.remove(step);
                self.line(&finished(step, took, outcome, call.as_deref()));
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
            Event::Signalled { step, signal, .. } => {
                let what = if signal.name.is_empty() { "an answer" } else { "an event" };
                let by = signal.by.as_deref().map_or_else(String::new, |by| format!(" by {}", plain(by)));
                self.line(&format!(
                    "{} {step}  {}",
                    paint(GOOD, "←"),
                    paint(QUIET, format_args!("{what}{by}"))
                ));
            }
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
            | Event::WaitEnded { .. }
            | Event::Cancelling { .. }
            | Event::ClockChanged { .. }
            | Event::Answered { .. }
            | Event::Finished { .. } => {}
        }
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
            // A template that cannot be read leaves the plain spinner, which does as well.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TURN);
            self.running.insert(step.to_owned(), bar);
        }
    }

    /// A step that pauses, with the time that is left for it.
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

    /// One line above whatever moves.
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
            };
            format!("{} {step}  {took}  {}", paint(GOOD, "✓"), paint(QUIET, by))
        }
        StepOutcome::Skipped => format!("{} {step}  {}", paint(QUIET, "–"), paint(QUIET, "skipped")),
        StepOutcome::Failed { error, handled } => {
            let after = if handled.is_some() { "; the execution goes on" } else { "" };
            format!("{} {step}  {took}  {}{after}", paint(BAD, "✗"), plain(&error.message_with_location()))
        }
    }
}
