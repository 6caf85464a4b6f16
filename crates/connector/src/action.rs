//! One operation of a connector, and what a call of it is given.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use model::{ActionError, ActionSpec, Effect, ErrorKind, LogLevel, Map, Value};

use crate::connection::{BaseUrl, ResolvedConnection};
use crate::http::{Context, Detail, Http, Request, Response};

/// The header that carries the chain of executions a call belongs to, so that a loop over the outside is noticed
/// when it comes back in (threat model 4.4).
pub const TRACE_HEADER: &str = "x-cogwork-trace";

/// One operation of a connector. It describes itself and can be called any number of times at once.
#[async_trait]
pub trait Action: Send + Sync {
    /// What it declares of itself.
    fn spec(&self) -> &ActionSpec;

    /// What a call may do to the world, as far as that is known before it is made: no more than what is declared. `known`
    /// gives the value of an input, or its default; nothing if that shows only then.
    fn effect<'a>(&self, known: &dyn Fn(&str) -> Option<&'a Value>) -> Effect {
        let _ = known;
        self.spec().effect
    }

    /// Does it once.
    ///
    /// # Errors
    /// Whatever keeps it from giving a result, as a record for people and for `onError`. The caller owns retries.
    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError>;

    /// The request that a call with these checked inputs would send first, without sending it; `None` for an action
    /// that sends none.
    fn prepare(&self, inputs: &Map, base: Option<&BaseUrl>) -> Option<Result<Request, ActionError>> {
        let _ = (inputs, base);
        None
    }

    /// Whether Debug Request of this action logs credentials, where the settings let it.
    fn reveals_credentials(&self) -> bool {
        false
    }
}

/// Everything one call is given. It is used up by the call.
pub struct Call<'a> {
    /// The inputs, evaluated and checked by [`crate::check_inputs`].
    pub inputs: &'a Map,
    /// The credentials, if the step names a connection.
    pub connection: Option<&'a ResolvedConnection>,
    /// The same for every attempt at this step; sent as `Idempotency-Key` with whatever may change something.
    pub idempotency_key: &'a str,
    /// The way out.
    pub http: &'a Http,
    /// Debug Request: whether request and answer are logged, credentials masked.
    pub debug: bool,
    /// Where lines for people go.
    pub log: &'a dyn LogSink,
    /// The chain of executions that the call belongs to.
    pub trace: Option<&'a Trace>,
}

/// Where an action writes lines for people.
pub trait LogSink: Send + Sync {
    /// Takes one line. It must not block.
    fn line(&self, level: LogLevel, message: &str);
}

/// The chain of executions that caused a call, and how long it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What all executions of the chain share.
    pub chain: String,
    /// How many executions deep this one is; the first is 0.
    pub depth: u32,
}

impl fmt::Display for Trace {
    /// The form of [`TRACE_HEADER`]: `<chain>;<depth>`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{};{}", self.chain, self.depth)
    }
}

/// Why a text is no [`Trace`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a trace; the form is `<chain>;<depth>`")]
pub struct NotATrace;

impl FromStr for Trace {
    type Err = NotATrace;

    /// Reads what [`fmt::Display`] writes: at most 64 letters, digits and dashes, then the depth.
    fn from_str(text: &str) -> Result<Self, NotATrace> {
        let (chain, depth) = text.split_once(';').ok_or(NotATrace)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if chain.is_empty() || chain.len() > 64 || !chain.bytes().all(plain) {
            return Err(NotATrace);
        }
        let depth = depth.parse().map_err(|_| NotATrace)?;
        Ok(Self { chain: chain.to_owned(), depth })
    }
}

impl<'a> Call<'a> {
    /// The connection, after a check that it is of a type that the action accepts.
    pub(crate) fn connection_for(
        &self,
        spec: &ActionSpec,
    ) -> Result<Option<&'a ResolvedConnection>, ActionError> {
        let refuse = |message| Err(ActionError::new(ErrorKind::Connection, message));
        match self.connection {
            None if spec.connection_required => refuse(format!(
                "`{}` needs a connection; name one of type {} with `connection:`",
                spec.name,
                spec.connections.join(" or ")
            )),
            Some(connection) if !spec.connections.contains(&connection.kind) => refuse(format!(
                "the connection `{}` is of type `{}`, which `{}` does not accept; it takes {}",
                connection.name,
                connection.kind,
                spec.name,
                if spec.connections.is_empty() { "none".to_owned() } else { spec.connections.join(" or ") }
            )),
            other => Ok(other),
        }
    }

    /// Sends a request with the credentials of the connection. An answer of any status is an answer.
    pub(crate) async fn send(
        &self,
        request: &Request,
        subject: &str,
        reveal: bool,
    ) -> Result<Response, ActionError> {
        let detail = match (self.debug, reveal && self.http.may_reveal_credentials()) {
            (false, _) => Detail::Nothing,
            (true, false) => Detail::Masked,
            (true, true) => Detail::Everything,
        };
        let context = Context {
            subject,
            connection: self.connection,
            idempotency_key: self.idempotency_key,
            detail,
            log: self.log,
            trace: self.trace,
        };
        self.http.send(request, &context).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_reads_back_as_it_is_written() {
        let trace = Trace { chain: "0198-ab".to_owned(), depth: 3 };
        assert_eq!(trace.to_string(), "0198-ab;3");
        assert_eq!("0198-ab;3".parse(), Ok(trace));
    }

    #[test]
    fn a_header_from_outside_that_is_no_trace_is_refused() {
        for text in
            ["", "a", ";1", "a;", "a;-1", "a;1;2", "a b;1", "a;99999999999", &format!("{};1", "a".repeat(65))]
        {
            assert_eq!(text.parse::<Trace>(), Err(NotATrace), "{text}");
        }
    }
}
