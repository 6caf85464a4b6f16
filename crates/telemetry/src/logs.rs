//! Log records: lines of executions and events of the daemon's own log.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use model::execution::ExecutionId;
use model::{LogLevel, LogLine};
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger, SdkLoggerProvider};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use value::redact::Redactor;

use crate::context::{self, ExecutionTrace};
use crate::queue::{Counts, offer};

/// Maximum number of executions whose trace is not their own and is known to the log of the daemon.
const MAX_KNOWN: usize = 4096;

/// The part of the log that reports on the export itself. Exporting it could never end.
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use opentelemetry_sdk::trace::Sampler;
    use pretty_assertions::assert_eq;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    const SECRET: &str = "a-secret-of-some-length";
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn queue() -> (Arc<LogQueue>, mpsc::Receiver<Box<SdkLogRecord>>) {
        let (sender, receiver) = mpsc::channel(2);
        let redactor = Redactor::default();
        redactor.add_secret(SECRET);
        (Arc::new(LogQueue::new(sender, Arc::default(), redactor)), receiver)
    }

    fn id() -> ExecutionId {
        ExecutionId::new(Timestamp::UNIX_EPOCH, [7; 10])
    }

    #[test]
    fn a_daemon_log_event_has_no_secret_and_the_trace_of_its_execution() {
        let (queue, mut receiver) = queue();
        let trace = ExecutionTrace::new(&Sampler::AlwaysOn, id(), Some(PARENT));
        queue.remember(id(), trace.clone());
        let subscriber = tracing_subscriber::registry().with(LogLayer(queue));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "engine", execution = %id(), note = SECRET, "about {SECRET}");
        });
        let record = receiver.try_recv().expect("a record");
        assert_eq!(record.body(), Some(&AnyValue::from("about ***")));
        assert!(!format!("{record:?}").contains(SECRET), "{record:?}");
        let context = record.trace_context().expect("a trace");
        assert_eq!((context.trace_id, context.span_id), (trace.trace, context::execution_span(id())));
    }

    #[test]
    fn an_exported_log_line_shows_no_credential() {
        let (queue, mut receiver) = queue();
        let line = LogLine::new(Timestamp::UNIX_EPOCH, LogLevel::Info, None, &format!("token {SECRET}"));
        queue.line(id(), &ExecutionTrace::new(&Sampler::AlwaysOn, id(), None), &line);
        assert_eq!(receiver.try_recv().expect("a record").body(), Some(&AnyValue::from("token ***")));
    }

    #[test]
    fn records_over_the_queue_limit_are_counted_and_logs_of_the_exporter_ignored() {
        let (queue, mut receiver) = queue();
        let counts = queue.counts.clone();
        let subscriber = tracing_subscriber::registry().with(LogLayer(queue));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "telemetry::batch", "of the export");
            tracing::info!(target: "h2::client", "of the export");
            (0..3).for_each(|number| tracing::info!(target: "engine", number, "of the daemon"));
        });
        assert_eq!(counts.refused.get(), 1);
        let bodies = std::iter::from_fn(|| receiver.try_recv().ok()).map(|record| record.body().cloned());
        assert_eq!(bodies.collect::<Vec<_>>(), vec![Some(AnyValue::from("of the daemon")); 2]);
    }
}
