//! The chain of executions that start one another over HTTP: each of its calls says how long it is, so that a circle ends.

use connector::{TRACE_HEADER, Trace};
use model::execution::{ExecutionId, Origin};
use model::payload::Payload;
use trigger::Rejection;
use trigger::webhook::Request;

/// How many executions may start one another in a row.
pub(crate) const LONGEST: u32 = 10;

/// Refuses a request that would make its chain too long.
pub fn check(request: &Request) -> Result<(), Rejection> {
    let sent = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(TRACE_HEADER));
    let trace = sent.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse::<Trace>().ok());
    match trace {
        // The execution that it would start is one more.
        Some(trace) if trace.depth.saturating_add(1) >= LONGEST => Err(Rejection::loop_detected(LONGEST)),
        _ => Ok(()),
    }
}

/// The chain that an execution belongs to: that of the request or the call that started it, else one that begins with it.
pub(crate) fn of(id: ExecutionId, payload: &Payload, origin: &Origin) -> Trace {
    if let Origin::Call { trace: Some(trace), .. } = origin
        && let Ok(trace) = trace.parse()
    {
        return trace;
    }
    if let Payload::Webhook(request) = payload
        && let Some(Ok(Trace { chain, depth })) = request.headers.get(TRACE_HEADER).map(|text| text.parse())
    {
        return Trace { chain, depth: depth.saturating_add(1) };
    }
    Trace { chain: id.to_string(), depth: 0 }
}
