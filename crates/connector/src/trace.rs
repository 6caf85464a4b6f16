//! The chain of executions that caused a call, carried in a header to detect loops through other systems.

use std::fmt;
use std::str::FromStr;

/// The header that carries the chain of executions. A request that comes back in with a deep chain is a loop (threat
/// model 4.4).
pub const TRACE_HEADER: &str = "x-cogwork-trace";

/// The header of W3C Trace Context.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// The chain of executions that caused a call, and its depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The id shared by all executions of the chain.
    pub chain: String,
    /// The depth of this execution; the first has depth 0.
    pub depth: u32,
    /// The W3C `traceparent` of the attempt that calls; `None` if no traces are collected.
    pub parent: Option<String>,
}

impl Trace {
    /// A chain that begins with this execution.
    #[must_use]
    pub fn new(chain: impl Into<String>) -> Self {
        Self { chain: chain.into(), depth: 0, parent: None }
    }
}

impl fmt::Display for Trace {
    /// Writes the form of [`TRACE_HEADER`]: `<chain>;<depth>`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{};{}", self.chain, self.depth)
    }
}

/// A text that is not a valid [`Trace`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a trace; the form is `<chain>;<depth>`")]
pub struct ParseTraceError;

impl FromStr for Trace {
    type Err = ParseTraceError;

    /// Parses the form that [`fmt::Display`] writes: at most 64 letters, digits and dashes, then the depth.
    fn from_str(text: &str) -> Result<Self, ParseTraceError> {
        let (chain, depth) = text.split_once(';').ok_or(ParseTraceError)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if chain.is_empty() || chain.len() > 64 || !chain.bytes().all(plain) {
            return Err(ParseTraceError);
        }
        let depth = depth.parse().map_err(|_| ParseTraceError)?;
        Ok(Self { depth, ..Self::new(chain) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_round_trips_through_text() {
        let trace = Trace { depth: 3, ..Trace::new("0198-ab") };
        assert_eq!(trace.to_string(), "0198-ab;3");
        assert_eq!("0198-ab;3".parse(), Ok(trace));
    }

    #[test]
    fn a_malformed_trace_header_is_rejected() {
        for text in
            ["", "a", ";1", "a;", "a;-1", "a;1;2", "a b;1", "a;99999999999", &format!("{};1", "a".repeat(65))]
        {
            assert_eq!(text.parse::<Trace>(), Err(ParseTraceError), "{text}");
        }
    }
}
