//! Log records: lines of executions and events of the daemon's own log.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use model::execution::{ExecutionId, LogLevel, LogLine};
use model::redact::Redactor;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger, SdkLoggerProvider};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::context::{self, ExecutionTrace};
use crate::queue::{Counts, offer};

/// The most executions whose trace is not their own and is known to the log of the daemon.
const MAX_KNOWN: usize = 4096;

/// The part of the log that reports on the export itself. Sending it could go on for ever.
const OF_EXPORT: [&str; 7] = ["telemetry", "opentelemetry", "hyper", "h2", "tonic", "reqwest", "tower"];

/// Puts log records into the queue.
#[derive(Debug)]
pub(crate) struct LogQueue {
    queue: mpsc::Sender<Box<SdkLogRecord>>,
    counts: Arc<Counts>,
    redactor: Redactor,
    /// Makes empty records; it processes none.
    logger: SdkLogger,
    known: Mutex<KnownTraces>,
}

/// The traces of executions that a request with a `traceparent` started, the oldest first.
#[derive(Debug, Default)]
struct KnownTraces {
    traces: HashMap<ExecutionId, ExecutionTrace>,
    order: VecDeque<ExecutionId>,
}

impl LogQueue {
    pub(crate) fn new(
        queue: mpsc::Sender<Box<SdkLogRecord>>,
        counts: Arc<Counts>,
        redactor: Redactor,
    ) -> Self {
        let logger = SdkLoggerProvider::builder().build().logger("cogwork");
        Self { queue, counts, redactor, logger, known: Mutex::default() }
    }

    /// Remembers the trace of an execution that is not its own.
    pub(crate) fn remember(&self, execution: ExecutionId, trace: ExecutionTrace) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.traces.insert(execution, trace).is_none() {
            known.order.push_back(execution);
        }
        if known.order.len() > MAX_KNOWN
            && let Some(oldest) = known.order.pop_front()
        {
            known.traces.remove(&oldest);
        }
    }

    /// Exports a line of an execution, below the span of its step.
    pub(crate) fn line(&self, execution: ExecutionId, trace: &ExecutionTrace, line: &LogLine) {
        let (severity, text) = match line.level {
            LogLevel::Debug => (Severity::Debug, "DEBUG"),
            LogLevel::Info => (Severity::Info, "INFO"),
            LogLevel::Warn => (Severity::Warn, "WARN"),
            LogLevel::Error => (Severity::Error, "ERROR"),
        };
        let span = match &line.step {
            Some(step) => context::step_span(execution, step, 0),
            None => context::execution_span(execution),
        };
        let mut record = Box::new(self.logger.create_log_record());
        record.set_timestamp(line.at.into());
        record.set_observed_timestamp(line.at.into());
        record.set_severity_number(severity);
        record.set_severity_text(text);
        record.set_body(self.text(&line.message));
        record.add_attribute("cogwork.execution", execution.to_string());
        if let Some(step) = &line.step {
            record.add_attribute("cogwork.step", step.clone());
        }
        let span = trace.span(span);
        record.set_trace_context(span.trace_id(), span.span_id(), Some(span.trace_flags()));
        offer(&self.queue, &self.counts, record);
    }

    /// A text without secrets. A line that shows credentials to its author shows none outside of the history.
    fn text(&self, text: &str) -> AnyValue {
        AnyValue::from(self.redactor.redact_message(text).into_owned())
    }
}

/// Exports the log of the daemon.
#[derive(Debug)]
pub(crate) struct LogLayer(pub(crate) Arc<LogQueue>);

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let part = metadata.target().split("::").next().unwrap_or_default();
        if OF_EXPORT.contains(&part) || part.starts_with("opentelemetry") {
            return;
        }
        let queue = &self.0;
        let mut record = Box::new(queue.logger.create_log_record());
        let (severity, text) = match *metadata.level() {
            Level::TRACE => (Severity::Trace, "TRACE"),
            Level::DEBUG => (Severity::Debug, "DEBUG"),
            Level::INFO => (Severity::Info, "INFO"),
            Level::WARN => (Severity::Warn, "WARN"),
            Level::ERROR => (Severity::Error, "ERROR"),
        };
        #[expect(clippy::disallowed_methods, reason = "the log has the time of the machine, as on stderr")]
        let now = SystemTime::now();
        record.set_timestamp(now);
        record.set_observed_timestamp(now);
        record.set_severity_number(severity);
        record.set_severity_text(text);
        record.add_attribute("code.namespace", metadata.target());
        let mut fields = Fields { record: &mut record, queue, execution: None };
        event.record(&mut fields);
        if let Some(execution) = fields.execution {
            let known = queue.known.lock().unwrap_or_else(PoisonError::into_inner);
            let trace = known.traces.get(&execution).map(|known| known.trace);
            drop(known);
            let trace = trace.unwrap_or_else(|| context::own_trace(execution));
            record.set_trace_context(trace, context::execution_span(execution), None);
        }
        offer(&queue.queue, &queue.counts, record);
    }
}

/// Writes the fields of an event into a record.
struct Fields<'a> {
    record: &'a mut SdkLogRecord,
    queue: &'a LogQueue,
    /// The execution that the event names.
    execution: Option<ExecutionId>,
}

impl Fields<'_> {
    fn add(&mut self, field: &Field, text: &str) {
        let value = self.queue.text(text);
        match field.name() {
            "message" => self.record.set_body(value),
            "execution" => {
                self.execution = text.parse().ok();
                self.record.add_attribute("cogwork.execution", value);
            }
            name => self.record.add_attribute(name, value),
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record.add_attribute(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record.add_attribute(field.name(), i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record.add_attribute(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record.add_attribute(field.name(), value);
    }
}
