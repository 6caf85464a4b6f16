//! Limits chains of executions that start one another over HTTP or by events. Each call and each event carries the depth of its
//! chain, so that a loop ends.

use connector::{TRACE_HEADER, Trace};
use model::execution::{ExecutionId, Origin};
use model::payload::Payload;
use trigger::Rejection;
use trigger::webhook::Request;

/// Rejects a request that would exceed the maximum chain length.
pub fn check_chain_depth(request: &Request, most: u32) -> Result<(), Rejection> {
    let sent = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(TRACE_HEADER));
    let trace = sent.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse::<Trace>().ok());
    match trace {
        // The new execution would increase the depth by one.
        Some(trace) if trace.depth.saturating_add(1) >= most => Err(Rejection::loop_detected(most)),
        _ => Ok(()),
    }
}

/// Returns the trace of an execution: from the request, call or event that started it, or a new one.
pub(crate) fn trace_for(id: ExecutionId, payload: &Payload, origin: &Origin) -> Trace {
    if let Origin::Call { trace: Some(trace), .. } | Origin::Emitted { trace: Some(trace), .. } = origin
        && let Ok(trace) = trace.parse()
    {
        return trace;
    }
    if let Payload::Webhook(request) = payload
        && let Some(Ok(Trace { chain, depth, .. })) =
            request.headers.get(TRACE_HEADER).map(|text| text.parse())
    {
        return Trace { depth: depth.saturating_add(1), ..Trace::new(chain) };
    }
    Trace::new(id.to_string())
}
