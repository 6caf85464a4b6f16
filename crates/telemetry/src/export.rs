//! The exporters: what is sent of an ended execution and of a log record, and by which protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::execution::{Event, ExecutionId};
use model::metric::Counter;
use opentelemetry::InstrumentationScope;
use opentelemetry::trace::TraceId;
use opentelemetry_http::HttpClient;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, SpanExporter, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLogRecord};
use opentelemetry_sdk::trace::{ShouldSample, SpanData, SpanExporter as _};
use runtime::{EndedExecution, traceparent_of};
use store::{SMALL_VALUE, Store};

use crate::batch::Sink;
use crate::config::Protocol;
use crate::context::ExecutionTrace;
use crate::error::Error;
use crate::queue::Counts;
use crate::spans::{self, ForeignTraces};

/// The timeout of a request where the variables give none, as OpenTelemetry has it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of traces of other executions that are remembered for links.
const MAX_REMEMBERED: usize = 1024;

/// The name of the service, unless the variables give another, and the version.
pub(crate) fn resource() -> Resource {
    let mut resource = Resource::builder();
    let is_named = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"].iter().any(|name| {
        std::env::var(name).is_ok_and(|value| {
            (*name == "OTEL_SERVICE_NAME" && !value.is_empty()) || value.contains("service.name=")
        })
    });
    if !is_named {
        resource = resource.with_service_name("cogwork");
    }
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    resource.with_attribute(version).build()
}

/// The instrumentation scope of all spans and records.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("cogwork").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// Certificates are checked as for all other calls: by the certificates that the system trusts.
fn tls() -> ClientTlsConfig {
    ClientTlsConfig::new().with_enabled_roots()
}

pub(crate) fn span_exporter(protocol: Protocol) -> Result<SpanExporter, Error> {
    let builder = SpanExporter::builder();
    let built = match protocol {
        Protocol::Http => builder.with_http().with_http_client(client("TRACES")?).build(),
        Protocol::Grpc => builder.with_tonic().with_tls_config(tls()).build(),
    };
    let mut exporter = built.map_err(|error| refused("traces", &error))?;
    exporter.set_resource(&resource());
    Ok(exporter)
}

pub(crate) fn log_exporter(protocol: Protocol) -> Result<LogExporter, Error> {
    let builder = LogExporter::builder();
    let built = match protocol {
        Protocol::Http => builder.with_http().with_http_client(client("LOGS")?).build(),
        Protocol::Grpc => builder.with_tonic().with_tls_config(tls()).build(),
    };
    let mut exporter = built.map_err(|error| refused("logs", &error))?;
    exporter.set_resource(&resource());
    Ok(exporter)
}

/// The client of a signal by HTTP, with the timeout of the variables of OpenTelemetry.
fn client(signal: &'static str) -> Result<impl HttpClient + 'static, Error> {
    let names = [format!("OTEL_EXPORTER_OTLP_{signal}_TIMEOUT"), "OTEL_EXPORTER_OTLP_TIMEOUT".to_owned()];
    let millis = names.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok());
    let timeout = millis.map_or(TIMEOUT, Duration::from_millis);
    connector::http::collector_client(timeout).map_err(|error| Error::Exporter {
        signal: if signal == "LOGS" { "logs" } else { "traces" },
        message: error.to_string(),
    })
}

fn refused(signal: &'static str, error: &ExporterBuildError) -> Error {
    Error::Exporter { signal, message: error.to_string() }
}

/// Sends the spans of ended executions.
pub(crate) struct SpanSink {
    pub(crate) exporter: SpanExporter,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sampler: Arc<dyn ShouldSample>,
    pub(crate) scope: InstrumentationScope,
    pub(crate) counts: Arc<Counts>,
    /// The traces of executions that others were linked to.
    pub(crate) remembered: HashMap<ExecutionId, TraceId>,
}

impl Sink for SpanSink {
    type Entry = EndedExecution;
    type Item = SpanData;

    async fn items(&mut self, ended: EndedExecution) -> Vec<SpanData> {
        let trace = ExecutionTrace::new(&*self.sampler, ended.id, ended.parent.as_deref());
        let events = match self.store.events_cut(ended.id, SMALL_VALUE).await {
            Ok(Some(cut)) => cut.events,
            // Deleted meanwhile.
            Ok(None) => Vec::new(),
            Err(error) => {
                self.counts.refused.increment();
                tracing::debug!(execution = %ended.id, %error, "the log of an execution cannot be read for its spans");
                return Vec::new();
            }
        };
        let mut foreign = ForeignTraces::new();
        for id in spans::linked(&events) {
            foreign.insert(id, self.trace_of(id).await);
        }
        let made = spans::derive(&ended, &trace, &events, &foreign, &self.scope);
        self.counts.dropped.add(made.omitted);
        made.spans
    }

    async fn send(&mut self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.exporter.export(batch).await
    }
}

impl SpanSink {
    /// The trace of another execution, from its stored start.
    async fn trace_of(&mut self, id: ExecutionId) -> TraceId {
        if let Some(trace) = self.remembered.get(&id) {
            return *trace;
        }
        let events = self.store.events_cut(id, SMALL_VALUE).await.ok().flatten().unwrap_or_default().events;
        let parent = match events.first() {
            Some(Event::Started { payload, origin, .. }) => traceparent_of(payload, origin),
            _ => None,
        };
        let trace = ExecutionTrace::new(&*self.sampler, id, parent).trace;
        if self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.clear();
        }
        self.remembered.insert(id, trace);
        trace
    }
}

/// Sends log records.
#[derive(Debug)]
pub(crate) struct LogSink {
    pub(crate) exporter: LogExporter,
    pub(crate) scope: InstrumentationScope,
}

impl Sink for LogSink {
    type Entry = Box<SdkLogRecord>;
    type Item = Box<SdkLogRecord>;

    async fn items(&mut self, record: Box<SdkLogRecord>) -> Vec<Box<SdkLogRecord>> {
        vec![record]
    }

    async fn send(&mut self, batch: Vec<Box<SdkLogRecord>>) -> OTelSdkResult {
        let records: Vec<_> = batch.iter().map(|record| (&**record, &self.scope)).collect();
        self.exporter.export(LogBatch::new(&records)).await
    }
}

/// The sum of two counters.
pub(crate) fn sum(one: &Counter, other: &Counter) -> u64 {
    one.get().saturating_add(other.get())
}
