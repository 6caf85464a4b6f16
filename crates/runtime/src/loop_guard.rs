//! Limits chains of executions that start one another over HTTP. Each call carries the depth of its chain in a header,
//! so that a loop ends.

use connector::{TRACE_HEADER, Trace};
use model::execution::{ExecutionId, Origin};
use model::payload::Payload;
use trigger::Rejection;
use trigger::webhook::Request;

/// Maximum number of executions in one chain.
pub(crate) const MAX_CHAIN_DEPTH: u32 = 10;

/// Rejects a request that would exceed the maximum chain length.
pub fn check_chain_depth(request: &Request) -> Result<(), Rejection> {
    let sent = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(TRACE_HEADER));
    let trace = sent.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse::<Trace>().ok());
    match trace {
        // The new execution would increase the depth by one.
        Some(trace) if trace.depth.saturating_add(1) >= MAX_CHAIN_DEPTH => {
            Err(Rejection::loop_detected(MAX_CHAIN_DEPTH))
        }
        _ => Ok(()),
    }
}

/// Returns the trace of an execution: the one of the request or call that started it, or a new one.
pub(crate) fn trace_for(id: ExecutionId, payload: &Payload, origin: &Origin) -> Trace {
    if let Origin::Call { trace: Some(trace), .. } = origin
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
