//! Trace contexts: the trace of an execution, the ids of its spans, and the header that carries both.

use jiff::Timestamp;
use model::execution::ExecutionId;
use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry_sdk::trace::{SamplingDecision, ShouldSample};
use sha2::{Digest as _, Sha256};

/// The trace that an execution belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExecutionTrace {
    /// That of the request that started it, or its own id.
    pub(crate) trace: TraceId,
    /// The span of that request in its sender; `None` if the execution begins the trace.
    pub(crate) parent: Option<SpanId>,
    /// True if the spans are recorded and exported.
    pub(crate) is_sampled: bool,
}

impl ExecutionTrace {
    /// The trace of an execution with the `traceparent` of the request that started it.
    ///
    /// A sender chooses the id of the trace, and may ask that it is not recorded. It cannot ask that it is: then a
    /// stranger could cause costs. The sampler decides as for a trace that begins here.
    pub(crate) fn new(sampler: &dyn ShouldSample, execution: ExecutionId, parent: Option<&str>) -> Self {
        let remote = parent.and_then(parse);
        let trace = remote.as_ref().map_or_else(|| own_trace(execution), SpanContext::trace_id);
        let span = remote.as_ref().map(SpanContext::span_id);
        let unwanted = remote
            .filter(|remote| !remote.is_sampled())
            .map(|remote| Context::new().with_remote_span_context(remote));
        let result =
            sampler.should_sample(unwanted.as_ref(), trace, "execution", &SpanKind::Internal, &[], &[]);
        Self { trace, parent: span, is_sampled: result.decision == SamplingDecision::RecordAndSample }
    }

    /// The context of a span of this trace.
    pub(crate) fn span(&self, span: SpanId) -> SpanContext {
        let flags = if self.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        SpanContext::new(self.trace, span, flags, false, TraceState::NONE)
    }

    /// The header that names a span of this trace.
    pub(crate) fn header(&self, span: SpanId) -> String {
        format!("00-{}-{span}-{:02x}", self.trace, u8::from(self.is_sampled))
    }
}

/// The trace of an execution that no request with a `traceparent` started.
pub(crate) fn own_trace(execution: ExecutionId) -> TraceId {
    TraceId::from_bytes(*execution.as_bytes())
}

/// The span of an execution.
pub(crate) fn execution_span(execution: ExecutionId) -> SpanId {
    span_id(execution, "execution", "", 0)
}

/// The span of one stay of an execution in memory, between two restarts, counted from 0.
pub(crate) fn run_span(execution: ExecutionId, run: u64) -> SpanId {
    span_id(execution, "run", "", run)
}

/// The span of a step. `repetition` counts from 0: the retry of a list or of the execution repeats steps.
pub(crate) fn step_span(execution: ExecutionId, step: &str, repetition: u64) -> SpanId {
    span_id(execution, "step", step, repetition)
}

/// The span of an attempt that a *stepStarted* event begins. Milliseconds, since a store may keep no more.
pub(crate) fn started_attempt_span(execution: ExecutionId, step: &str, number: u32, at: Timestamp) -> SpanId {
    let at = u64::try_from(at.as_millisecond()).unwrap_or_default();
    span_id(execution, &format!("attempt {number}"), step, at)
}

/// The span of an attempt that is not recorded before it ends.
pub(crate) fn attempt_span(execution: ExecutionId, step: &str, number: u32, repetition: u64) -> SpanId {
    span_id(execution, &format!("pure attempt {number}"), step, repetition)
}

fn span_id(execution: ExecutionId, kind: &str, step: &str, number: u64) -> SpanId {
    let mut hash = Sha256::new();
    hash.update(execution.as_bytes());
    for text in [kind, step] {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hash.update(number.to_be_bytes());
    let digest = hash.finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    // All zeros is the invalid id.
    SpanId::from_bytes(if bytes == [0; 8] { [1; 8] } else { bytes })
}

/// Reads a `traceparent` header; `None` if it is not valid. A later version may have more fields behind these.
///
/// The reader of the SDK also accepts fields of the wrong length.
fn parse(header: &str) -> Option<SpanContext> {
    let header = header.trim();
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut fields = header.splitn(5, '-');
    let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let is_well_formed = [(version, 2), (trace, 32), (span, 16), (flags, 2)]
        .iter()
        .all(|(field, length)| field.len() == *length && is_hex(field));
    if !is_well_formed || version == "ff" || (version == "00" && fields.next().is_some()) {
        return None;
    }
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    Some(SpanContext::new(trace, span, flags, true, TraceState::NONE)).filter(SpanContext::is_valid)
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::Sampler;
    use pretty_assertions::assert_eq;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn id() -> ExecutionId {
        ExecutionId::new(Timestamp::UNIX_EPOCH, [7; 10])
    }

    fn trace(sampler: Sampler, parent: &str) -> ExecutionTrace {
        ExecutionTrace::new(&sampler, id(), Some(parent))
    }

    #[test]
    fn a_valid_traceparent_sets_the_trace_and_the_parent() {
        let header = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let taken = trace(Sampler::AlwaysOn, &header);
        assert_eq!(taken.trace.to_string(), TRACE);
        assert_eq!(taken.header(SpanId::from_hex("00f067aa0ba902b7").expect("an id")), header);
        let later = trace(Sampler::AlwaysOn, &format!("01-{TRACE}-00f067aa0ba902b7-03-more"));
        assert_eq!(later, taken);
    }

    #[test]
    fn a_malformed_traceparent_is_ignored() {
        let zeros = "0".repeat(32);
        for header in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-1"),
            format!("0-0{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-01, 00-{TRACE}-00f067aa0ba902b7-01"),
            "00-ü-1-2".to_owned(),
        ] {
            let taken = trace(Sampler::AlwaysOn, &header);
            assert_eq!((taken.trace, taken.parent), (own_trace(id()), None), "{header}");
        }
    }

    #[test]
    fn a_sender_can_decline_sampling_but_not_demand_it() {
        let by_parent = |root| Sampler::ParentBased(Box::new(root));
        let header = |flags: &str| format!("00-{TRACE}-00f067aa0ba902b7-{flags}");
        assert!(trace(by_parent(Sampler::AlwaysOn), &header("01")).is_sampled);
        assert!(!trace(by_parent(Sampler::AlwaysOn), &header("00")).is_sampled);
        assert!(!trace(by_parent(Sampler::AlwaysOff), &header("01")).is_sampled);
        assert!(trace(Sampler::AlwaysOn, &header("00")).is_sampled);
        assert!(!trace(Sampler::AlwaysOff, &header("01")).header(execution_span(id())).ends_with("01"));
    }

    #[test]
    fn span_ids_differ_by_execution_step_attempt_and_time() {
        let at = Timestamp::UNIX_EPOCH;
        let later = Timestamp::from_millisecond(1).expect("a time");
        let spans = [
            execution_span(id()),
            run_span(id(), 0),
            run_span(id(), 1),
            step_span(id(), "a", 0),
            step_span(id(), "b", 0),
            step_span(id(), "a", 1),
            attempt_span(id(), "a", 1, 0),
            started_attempt_span(id(), "a", 1, at),
            started_attempt_span(id(), "a", 2, at),
            started_attempt_span(id(), "a", 1, later),
        ];
        let different: std::collections::HashSet<_> = spans.iter().collect();
        assert_eq!(different.len(), spans.len());
        assert_eq!(started_attempt_span(id(), "a", 1, at), spans[7], "the same whenever it is computed");
    }
}
