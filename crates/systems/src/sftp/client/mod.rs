//! The actions, by the protocol.
//!
//! * `host_key`: the key of the server that a connection names
//! * `session`: a login, and the requests of the protocol
//! * `failure`: errors of both
//! * `transfer`: the bytes of files
//! * `folder`: lists of files
//! * `change`: `move`, `delete` and `makeFolder`
//! * `arrived`: files that have stopped growing, for events

mod arrived;
mod change;
mod failure;
mod folder;
mod host_key;
mod session;
mod transfer;

use connector::{Call, ResolvedConnection};
use model::{ActionError, ErrorKind};
use value::{Map, Value};

pub(in crate::sftp) use arrived::Arrivals;
pub(in crate::sftp) use change::Moves;
pub(in crate::sftp) use session::Session;

use super::{Kind, Sftp, input_error, path_of, settle};
use crate::connection::within;
use crate::pool;

impl Sftp {
    pub(super) async fn run(&self, call: &Call<'_>) -> Result<Value, ActionError> {
        let missing = || {
            let message = format!("`{}` needs a connection", self.spec.name);
            ActionError::new(ErrorKind::Connection, message)
        };
        let connection = call.connection_for(&self.spec)?.ok_or_else(missing)?;
        let work = self.work(call, connection);
        Box::pin(within(call, (&self.subject, writes(self.kind)), work)).await
    }

    async fn work(&self, call: &Call<'_>, connection: &ResolvedConnection) -> Result<Value, ActionError> {
        let mut lease = self.pools.lease(connection, pool::OF_SERVERS).await?;
        let session = lease.session(Box::pin(Session::open(call, connection, &self.subject))).await?;
        let result = match self.kind {
            Kind::List => folder::list(&session, call.inputs).await,
            Kind::ListArrived => self.arrivals.list(&session, call, connection).await,
            Kind::Stat => folder::stat(&session, call.inputs).await,
            Kind::Get => transfer::get(&session, call).await,
            Kind::Put => transfer::put(&session, call).await,
            Kind::Move => change::rename(&session, call, &self.moves).await,
            Kind::Delete => change::delete(&session, call).await,
            Kind::MakeFolder => change::make_folder(&session, call).await,
        };
        // After an error, open handles may be left at the server.
        match &result {
            Ok(_) => lease.keep(session),
            Err(_) => session.close().await,
        }
        result
    }
}

/// True if an action changes something.
fn writes(kind: Kind) -> bool {
    matches!(kind, Kind::Put | Kind::Move | Kind::Delete | Kind::MakeFolder)
}

/// The text of an input; empty if it is not set.
fn text_of<'a>(inputs: &'a Map, name: &str) -> &'a str {
    inputs.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag_of(inputs: &Map, name: &str) -> bool {
    inputs.get(name).and_then(Value::as_bool).unwrap_or(false)
}
