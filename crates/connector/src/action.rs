//! One operation of a connector, and what a call of it is given.

use async_trait::async_trait;
use model::{ActionError, ActionSpec, Effect, ErrorKind, Map, Value};

use crate::connection::{BaseUrl, ResolvedConnection};
use crate::http::{Admission, Context, Detail, Http, Request, Response};
use crate::log::LogSink;
use crate::trace::Trace;
use crate::written::{InputProblem, Written};

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

    /// What keeps a call with these inputs from ever succeeding, beyond the types of its inputs, as far as it shows in the
    /// file. What is computed is checked by the call itself.
    fn check_written(&self, written: &Written<'_>) -> Vec<InputProblem> {
        let _ = written;
        Vec::new()
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

/// How an action sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Like any other.
    Plain,
    /// Debug Request may show credentials.
    Revealing,
    /// The action retries by itself, as its inputs say.
    Retrying,
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
        sending: Sending,
    ) -> Result<Response, ActionError> {
        let reveal = sending == Sending::Revealing && self.http.may_reveal_credentials();
        let detail = match (self.debug, reveal) {
            (false, _) => Detail::Nothing,
            (true, false) => Detail::Masked,
            (true, true) => Detail::Everything,
        };
        let context = Context {
            subject,
            connection: self.connection,
            idempotency_key: self.idempotency_key,
            detail,
            admission: match sending {
                Sending::Retrying => Admission::OwnRetries,
                Sending::Plain | Sending::Revealing => Admission::Ordinary,
            },
            log: self.log,
            trace: self.trace,
        };
        self.http.send(request, &context).await
    }
}
