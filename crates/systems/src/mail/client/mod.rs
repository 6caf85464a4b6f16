//! The actions, by the protocol.
//!
//! * `limited`: a stream whose responses are bounded
//! * `command`: commands, in which texts stay texts
//! * `failure`: errors of the protocol
//! * `session`: a login, and its commands
//! * `mailbox`: the mailbox that is selected
//! * `header`: headers as values
//! * `structure`: the parts of a message
//! * `decode`: the encodings of parts
//! * `search`: lists of messages
//! * `get`: a message
//! * `change`: `mark`, `move` and `delete`
//! * `append`: a message that is stored
//! * `idle`: listening for new messages
//! * `fuzzing`: the responses of a server, for the fuzzer

mod append;
mod change;
mod command;
mod decode;
mod failure;
mod fuzzing;
mod get;
mod header;
mod idle;
mod limited;
mod mailbox;
mod search;
mod session;
mod structure;

use connector::{Call, ResolvedConnection};
pub use fuzzing::read_responses;
use model::{ActionError, ErrorKind};
pub(in crate::mail) use session::Session;
use value::{Map, Value};

use super::{Kind, Mail, check, input_error};
use crate::connection::within;
use crate::pool;

impl Mail {
    pub(super) async fn run(&self, call: &Call<'_>) -> Result<Value, ActionError> {
        check(call.inputs)?;
        let connection =
            call.connection_for(&self.spec)?.ok_or_else(|| missing_connection(&self.spec.name))?;
        let work = self.work(call, connection);
        Box::pin(within(call, (&self.subject, writes(self.kind)), work)).await
    }

    async fn work(&self, call: &Call<'_>, connection: &ResolvedConnection) -> Result<Value, ActionError> {
        let mut lease = self.pools.lease(connection, pool::OF_SERVERS).await?;
        let mut session = match lease.session.take() {
            Some(mut session) => {
                session.begin();
                session
            }
            None => Session::open(call, connection, &self.subject).await?,
        };
        let mut result = self.step(&mut session, call).await;
        if session.is_lost(&result) {
            // The others have most probably ended with it.
            lease.pool.close_all();
            session = Session::open(call, connection, &self.subject).await?;
            result = self.step(&mut session, call).await;
        }
        // After an error, unread answers may be left in the session.
        match &result {
            Ok(_) => lease.keep(session),
            Err(_) => session.close().await,
        }
        result
    }

    async fn step(&self, session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
        match self.kind {
            Kind::Search => search::search(session, call).await,
            Kind::ListReceived => search::received(session, call).await,
            Kind::Get => get::get(session, call).await,
            Kind::Mark => change::mark(session, call).await,
            Kind::Move => change::transfer(session, call).await,
            Kind::Append => append::append(session, call).await,
            Kind::Delete => change::delete(session, call).await,
        }
    }
}

/// True if an action changes something.
fn writes(kind: Kind) -> bool {
    matches!(kind, Kind::Mark | Kind::Move | Kind::Append | Kind::Delete)
}

/// The text of an input; empty if it is not set.
fn text_of<'a>(inputs: &'a Map, name: &str) -> &'a str {
    inputs.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag_of(inputs: &Map, name: &str) -> bool {
    inputs.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The number of a message, and that of the numbering.
fn numbers(inputs: &Map) -> Result<(u32, u32), ActionError> {
    let number = |name: &str| {
        let number = inputs.get(name).and_then(Value::as_i64).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number > 0).ok_or_else(|| {
            input_error(format!(
                "`{name}` is a number that `mail.search` or the event gives, of at most 32 bits"
            ))
        })
    };
    Ok((number("uid")?, number("uidValidity")?))
}

fn missing_connection(action: &str) -> ActionError {
    ActionError::new(ErrorKind::Connection, format!("`{action}` needs a connection"))
}

/// The error of a message that is not there.
fn missing(mailbox: &str, uid: u32) -> ActionError {
    let message = format!("there is no message {uid} in `{mailbox}`, or no more");
    ActionError::new(ErrorKind::Response, message).with_code("NOT_FOUND")
}

/// The error of a change that was sent: without an answer, which has a code, nobody knows its outcome.
fn unknown_outcome(error: ActionError) -> ActionError {
    if error.code.is_some() { error } else { error.with_outcome_unknown() }
}
