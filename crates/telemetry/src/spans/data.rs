//! A span while it is put together, and the attributes that several kinds of spans have.

use std::borrow::Cow;

use jiff::Timestamp;
use model::action::ActionError;
use model::execution::{CallRecord, DelayReason, Outcome};
use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::context::ExecutionTrace;

/// A span that is not exported yet.
#[derive(Debug)]
pub(super) struct Span<'a> {
    name: Cow<'a, str>,
    id: SpanId,
    start: Timestamp,
    end: Timestamp,
    pub(super) parent: Option<SpanId>,
    pub(super) is_parent_remote: bool,
    pub(super) kind: SpanKind,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) events: Vec<Event>,
    pub(super) links: Vec<Link>,
    pub(super) status: Status,
}

impl<'a> Span<'a> {
    /// A span without a parent. An end before the start, which a clock that was set back gives, becomes the start.
    pub(super) fn new(name: impl Into<Cow<'a, str>>, id: SpanId, start: Timestamp, end: Timestamp) -> Self {
        Self {
            name: name.into(),
            id,
            start,
            end: end.max(start),
            parent: None,
            is_parent_remote: false,
            kind: SpanKind::Internal,
            attributes: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
            status: Status::Unset,
        }
    }

    /// Marks the span as failed with this error.
    pub(super) fn fail(&mut self, error: &ActionError) {
        self.attributes.extend(error_attributes(error));
        self.status = Status::error(error.message.clone());
    }

    /// Adds the outcome of an execution.
    pub(super) fn add_outcome(&mut self, outcome: &Outcome) {
        self.attributes.push(KeyValue::new("cogwork.status", outcome.status().as_str()));
        match outcome {
            Outcome::Failed { error } | Outcome::Stuck { error } => self.fail(error),
            Outcome::Cancelled { reason } => self.status = Status::error(reason.clone()),
            Outcome::Succeeded { .. } => {}
        }
    }

    pub(super) fn into_data(self, trace: &ExecutionTrace, scope: &InstrumentationScope) -> SpanData {
        let (mut events, mut links) = (SpanEvents::default(), SpanLinks::default());
        events.events = self.events;
        links.links = self.links;
        SpanData {
            span_context: trace.span(self.id),
            parent_span_id: self.parent.unwrap_or(SpanId::INVALID),
            parent_span_is_remote: self.is_parent_remote,
            span_kind: self.kind,
            name: Cow::Owned(self.name.into_owned()),
            start_time: self.start.into(),
            end_time: self.end.into(),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events,
            links,
            status: self.status,
            instrumentation_scope: scope.clone(),
        }
    }
}

/// The kind and the HTTP status of an error. Its message is the status of the span.
pub(super) fn error_attributes(error: &ActionError) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::new("error.type", error.kind.to_string())];
    if let Some(status) = error.status {
        attributes.push(KeyValue::new("http.response.status_code", i64::from(status)));
    }
    attributes
}

/// The cause and the length of a delay.
pub(super) fn delay_attributes(reason: &DelayReason, ms: u64) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("cogwork.reason", reason.as_str()),
        KeyValue::new("cogwork.delay_ms", i64::try_from(ms).unwrap_or(i64::MAX)),
    ];
    if let DelayReason::Host { host } = reason {
        attributes.push(KeyValue::new("server.address", host.clone()));
    }
    attributes
}

/// The request of an attempt, as the semantic conventions for HTTP clients name its parts.
pub(super) fn call_attributes(call: &CallRecord) -> Vec<KeyValue> {
    match call {
        CallRecord::Request { method, url } => {
            let host = url.split_once("://").map_or("", |(_, rest)| rest);
            let host = host.split(['/', ':']).next().unwrap_or_default();
            vec![
                KeyValue::new("http.request.method", method.clone()),
                KeyValue::new("url.full", url.clone()),
                KeyValue::new("server.address", host.to_owned()),
            ]
        }
        CallRecord::Execution { id } => vec![KeyValue::new("cogwork.called_execution", id.to_string())],
    }
}

/// A span of another execution. If it is recorded is not known here.
pub(super) fn foreign_span(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::default(), true, TraceState::NONE)
}
