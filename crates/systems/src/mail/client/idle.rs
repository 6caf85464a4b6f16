//! Listening for new messages, which only wakes a poll.

use std::convert::Infallible;
use std::time::Duration;

use async_imap::imap_proto::{MailboxDatum, Response, Status};
use connector::Call;
use model::{ActionError, ErrorKind};

use super::command::Command;
use super::failure::closed;
use super::mailbox::Access;
use super::session::Session;
use super::{flag_of, missing_connection, text_of};
use crate::mail::{Mail, input_error};

/// The time after which the command is given anew. Servers and what lies between end connections that are silent for long.
const RENEWAL: Duration = Duration::from_secs(4 * 60);

/// An answer to the command.
enum Heard {
    /// There are messages that were not there before, or the server begins to listen.
    News,
    Other,
}

impl Mail {
    /// Listens until the connection breaks. Returns the reason of the end.
    pub(in crate::mail) async fn idle(
        &self,
        call: &Call<'_>,
        wake: &(dyn Fn() + Send + Sync),
    ) -> ActionError {
        match self.try_idle(call, wake).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn try_idle(
        &self,
        call: &Call<'_>,
        wake: &(dyn Fn() + Send + Sync),
    ) -> Result<Infallible, ActionError> {
        if !flag_of(call.inputs, "idle") {
            return Err(input_error("`idle` is not true"));
        }
        crate::mail::check(call.inputs)?;
        let connection =
            call.connection_for(&self.spec)?.ok_or_else(|| missing_connection(&self.spec.name))?;
        let mut session = Session::open(call, connection, &self.subject).await?;
        session.select(text_of(call.inputs, "mailbox"), Access::Read, None).await?;
        if !session.can("IDLE").await? {
            let message = format!("{} cannot tell of new messages (IDLE)", self.subject);
            return Err(ActionError::new(ErrorKind::Response, message).with_code("IDLE"));
        }
        loop {
            let command = Command::new("IDLE");
            let tag = session.send(&command).await?;
            session.question(&command, &tag).await?;
            wake();
            let ends = tokio::time::Instant::now() + RENEWAL;
            while let Ok(heard) = tokio::time::timeout_at(ends, hear(&mut session)).await {
                if matches!(heard?, Heard::News) {
                    wake();
                }
            }
            session.send_line("DONE").await?;
            session.end_of(&command, &tag, |_| Ok(())).await?;
        }
    }
}

/// Waits for the next answer, whenever it comes.
async fn hear(session: &mut Session) -> Result<Heard, ActionError> {
    let subject = session.subject.clone();
    let heard = session.next(|answer| match answer {
        Response::MailboxData(MailboxDatum::Exists(_)) => Ok(Heard::News),
        Response::Data { status: Status::Bye, outcome } => Err(closed(&subject, Some(outcome))),
        // The server has ended the command by itself.
        Response::Done { outcome, .. } => Err(closed(&subject, Some(outcome))),
        _ => Ok(Heard::Other),
    });
    heard.await?
}
