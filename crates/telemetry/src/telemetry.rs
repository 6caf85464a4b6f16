//! The telemetry of a daemon: made from the variables, started with the store, stopped with a last flush.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::LogLine;
use model::execution::ExecutionId;
use opentelemetry_sdk::logs::SdkLogRecord;
use opentelemetry_sdk::trace::ShouldSample;
use runtime::{Attempt, EndedExecution, Observer, ObserverCounts};
use store::Store;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Subscriber;
use tracing_subscriber::layer::Layer;
use value::redact::Redactor;

use crate::batch;
use crate::config::{Config, SignalConfig};
use crate::context::{self, ExecutionTrace};
use crate::error::Error;
use crate::export::{self, LogSink, SpanSink};
use crate::logs::{LogLayer, LogQueue};
use crate::queue::{Counts, offer};

/// The exporters, before they are started.
#[derive(Debug)]
pub struct Telemetry {
    exporter: Arc<Exporter>,
    traces: Option<(SignalConfig, mpsc::Receiver<EndedExecution>)>,
    logs: Option<(SignalConfig, mpsc::Receiver<Box<SdkLogRecord>>)>,
}

/// Takes what the runtime reports. Each signal is `None` if it is not exported.
#[derive(Debug)]
struct Exporter {
    sampler: Arc<dyn ShouldSample>,
    traces: Option<mpsc::Sender<EndedExecution>>,
    logs: Option<Arc<LogQueue>>,
    span_counts: Arc<Counts>,
    log_counts: Arc<Counts>,
}

/// The values of the header fields that the variables of this process give the exporter; they are credentials for the collector.
fn header_values() -> Vec<String> {
    let fields = std::env::vars().filter(|(name, _)| name.starts_with("OTEL_") && name.ends_with("HEADERS"));
    let texts: Vec<String> = fields.map(|(_, fields)| fields).collect();
    let values = texts.iter().flat_map(|fields| fields.split(',')).filter_map(|field| field.split_once('='));
    values
        .map(|(_, value)| decode(value.trim()))
        .flat_map(|value| {
            // The scheme, such as `Bearer`, is not secret.
            let credential = value.rsplit(' ').next().unwrap_or_default().to_owned();
            [value, credential]
        })
        .collect()
}

fn decode(value: &str) -> String {
    percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned()
}

impl Telemetry {
    /// Reads the variables of this process; `None` if nothing is to be exported. `redactor` has the secrets that were read.
    ///
    /// # Errors
    /// A variable has a value that is not supported.
    pub fn from_env(redactor: &Redactor) -> Result<Option<Self>, Error> {
        let Some(config) = Config::from_env()? else { return Ok(None) };
        header_values().iter().for_each(|value| redactor.add_secret(value));
        let (span_counts, log_counts) = (Arc::<Counts>::default(), Arc::<Counts>::default());
        let (mut traces, mut logs, mut exporter) = (None, None, Exporter::new(config.sampler.into()));
        if let Some(config) = config.traces {
            let (sender, receiver) = mpsc::channel(config.queue);
            (exporter.traces, traces) = (Some(sender), Some((config, receiver)));
        }
        if let Some(config) = config.logs {
            let (sender, receiver) = mpsc::channel(config.queue);
            let queue = LogQueue::new(sender, log_counts.clone(), redactor.clone());
            (exporter.logs, logs) = (Some(Arc::new(queue)), Some((config, receiver)));
        }
        (exporter.span_counts, exporter.log_counts) = (span_counts, log_counts);
        Ok(Some(Self { exporter: Arc::new(exporter), traces, logs }))
    }

    /// The layer that exports the log of this process; `None` if logs are not exported.
    #[must_use]
    pub fn log_layer<S: Subscriber>(&self) -> Option<impl Layer<S> + use<S>> {
        self.exporter.logs.clone().map(LogLayer)
    }

    /// The observer for the settings of the engine.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.exporter.clone()
    }

    /// Starts to send. Logs of executions are read from `store`.
    ///
    /// # Errors
    /// An exporter cannot be made of the variables.
    pub fn start(self, store: Arc<dyn Store>) -> Result<Running, Error> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        if let Some((config, queue)) = self.traces {
            let sink = SpanSink {
                exporter: export::span_exporter(config.protocol)?,
                store,
                sampler: self.exporter.sampler.clone(),
                scope: export::scope(),
                counts: self.exporter.span_counts.clone(),
                remembered: HashMap::new(),
            };
            tasks.spawn(batch::run(sink, queue, config, self.exporter.span_counts.clone(), stop.clone()));
        }
        if let Some((config, queue)) = self.logs {
            let sink = LogSink { exporter: export::log_exporter(config.protocol)?, scope: export::scope() };
            tasks.spawn(batch::run(sink, queue, config, self.exporter.log_counts.clone(), stop.clone()));
        }
        tasks.close();
        Ok(Running { stop, tasks })
    }
}

/// The tasks that send.
#[derive(Debug)]
pub struct Running {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Running {
    /// Sends what is left in the queues, for at most `grace`.
    pub async fn shutdown(self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                "traces and logs that the OpenTelemetry collector did not accept in time are lost"
            );
        }
    }
}

impl Exporter {
    fn new(sampler: Arc<dyn ShouldSample>) -> Self {
        Self { sampler, traces: None, logs: None, span_counts: Arc::default(), log_counts: Arc::default() }
    }

    fn trace(&self, execution: ExecutionId, parent: Option<&str>) -> ExecutionTrace {
        ExecutionTrace::new(&*self.sampler, execution, parent)
    }
}

impl Observer for Exporter {
    fn traceparent(&self, attempt: &Attempt<'_>) -> Option<String> {
        self.traces.as_ref()?;
        let Attempt { execution, step, number, started_at, .. } = *attempt;
        let span = context::started_attempt_span(execution, step, number, started_at);
        Some(self.trace(execution, attempt.parent).header(span))
    }

    fn entered(&self, execution: ExecutionId, parent: Option<&str>) {
        if let (Some(logs), Some(_)) = (&self.logs, parent) {
            logs.remember(execution, self.trace(execution, parent));
        }
    }

    fn logged(&self, execution: ExecutionId, parent: Option<&str>, lines: &[LogLine]) {
        let Some(logs) = &self.logs else { return };
        let trace = self.trace(execution, parent);
        lines.iter().for_each(|line| logs.line(execution, &trace, line));
    }

    fn ended(&self, ended: EndedExecution) {
        let Some(traces) = &self.traces else { return };
        if self.trace(ended.id, ended.parent.as_deref()).is_sampled {
            offer(traces, &self.span_counts, ended);
        }
    }

    fn counts(&self) -> ObserverCounts {
        let (spans, logs) = (&self.span_counts, &self.log_counts);
        ObserverCounts {
            spans_sent: spans.sent.get(),
            spans_dropped: spans.dropped.get(),
            executions_dropped: spans.refused.get(),
            logs_sent: logs.sent.get(),
            logs_dropped: export::sum(&logs.dropped, &logs.refused),
        }
    }
}
