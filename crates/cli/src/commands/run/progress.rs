//! The steps of an execution as they go: spinners for a person at a terminal, plain lines for a log.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Notice;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use model::execution::{Event, ExecutionId, Leave, LogLevel, LogLine, StepOutcome};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::output::{self, BAD, GOOD, QUIET, WARN, cut, paint, plain};
use crate::time;

/// How often a spinner turns.
const TURN: Duration = Duration::from_millis(100);
/// The most characters of a result that are shown.
const EXCERPT: usize = 100;

/// Shows one execution as it goes.
pub(super) struct Progress {
    notices: Receiver<Notice>,
    /// Present where a person looks on.
    bars: Option<MultiProgress>,
    /// The steps that run, by step; the spinner of each where there are some.
    running: BTreeMap<String, ProgressBar>,
}

impl Progress {
    pub(super) fn new(notices: Receiver<Notice>) -> Self {
        let bars = output::talks_to_a_person().then(MultiProgress::new);
        Self { notices, bars, running: BTreeMap::new() }
    }

    pub(super) fn begin(&self, name: &str, id: ExecutionId) {
        self.line(&format!("{} {}", plain(name), paint(QUIET, format_args!("execution {id}"))));
    }

    /// Shows the next thing that happens to this execution. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, id: ExecutionId) {
        match self.notices.recv().await {
            Ok(notice) => self.show(id, &notice),
            Err(RecvError::Lagged(missed)) => {
                self.line(&format!("({missed} notices came too fast to be shown)"))
            }
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// Shows what has happened and is not shown yet.
    pub(super) fn drain(&mut self, id: ExecutionId) {
        while let Ok(notice) = self.notices.try_recv() {
            self.show(id, &notice);
        }
    }

    /// Takes away what still moves.
    pub(super) fn end(self) {
        self.running.values().for_each(ProgressBar::finish_and_clear);
    }

    fn show(&mut self, wanted: ExecutionId, notice: &Notice) {
        let Notice::ExecutionEvents { id, events, logs, .. } = notice else { return };
        if *id != wanted {
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

    fn event(&mut self, event: &Event) {
        match event {
            Event::StepStarted { step, attempt, .. } => self.started(step, *attempt),
            Event::StepRetry { at, step, attempt, error, next_at } => {
                self.stopped(step);
                let wait = time::took(time::between(*at, *next_at));
                let text = format!("try {attempt} failed: {}; the next in {wait}", plain(&error.message));
                self.line(&format!("{} {step}  {text}", paint(WARN, "↻")));
            }
            Event::StepFailed { step, error, .. } => {
                self.stopped(step);
                let text = format!("failed: {}; its `onError` steps run", plain(&error.message));
                self.line(&format!("{} {step}  {text}", paint(WARN, "↷")));
            }
            Event::StepFinished { step, took_us, outcome, .. } => {
                self.stopped(step);
                self.line(&finished(step, Duration::from_micros(*took_us), outcome));
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
            Event::Started { .. }
            | Event::Resumed { .. }
            | Event::StepDated { .. }
            | Event::Waiting { .. }
            | Event::Signalled { .. }
            | Event::Failing { .. }
            | Event::Cancelling { .. }
            | Event::Finished { .. } => {}
        }
    }

    fn started(&mut self, step: &str, attempt: u32) {
        let which = if attempt > 1 { format!(" (try {attempt})") } else { String::new() };
        let Some(bars) = &self.bars else {
            // A step's start is told at once and again when it is committed.
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

    fn stopped(&mut self, step: &str) {
        if let Some(bar) = self.running.remove(step) {
            bar.finish_and_clear();
        }
    }

    fn log(&self, line: &LogLine) {
        let style = match line.level {
            LogLevel::Debug | LogLevel::Info => QUIET,
            LogLevel::Warn => WARN,
            LogLevel::Error => BAD,
        };
        self.line(&format!("  {} {}", paint(style, "│"), plain(&line.message)));
    }

    /// One line above whatever moves.
    fn line(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| output::say(text)),
            None => output::say(text),
        }
    }
}

fn finished(step: &str, took: Duration, outcome: &StepOutcome) -> String {
    let took = paint(QUIET, time::took(took));
    match outcome {
        StepOutcome::Succeeded { result } if result.is_null() => {
            format!("{} {step}  {took}", paint(GOOD, "✓"))
        }
        StepOutcome::Succeeded { result } => {
            let result = result.to_json();
            format!("{} {step}  {took}  {}", paint(GOOD, "✓"), paint(QUIET, plain(&cut(&result, EXCERPT))))
        }
        StepOutcome::Left { by, .. } => {
            let by = match by {
                Leave::Break => "break",
                Leave::Continue => "continue",
                Leave::Stop => "stop",
            };
            format!("{} {step}  {took}  {}", paint(GOOD, "✓"), paint(QUIET, by))
        }
        StepOutcome::Skipped => format!("{} {step}  {}", paint(QUIET, "–"), paint(QUIET, "skipped")),
        StepOutcome::Failed { error, handled } => {
            let after = if handled.is_some() { "; the execution goes on" } else { "" };
            format!("{} {step}  {took}  {}{after}", paint(BAD, "✗"), plain(&error.message))
        }
    }
}
