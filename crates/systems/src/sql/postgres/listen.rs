//! Notifications, which only wake a poll.

use std::sync::Arc;
use std::time::Duration;

use connector::Call;
use model::{ActionError, ErrorKind};
use tokio::sync::Notify;

use super::PostgresServer;
use super::failure::failure;
use crate::sql::list::check_channel;
use crate::sql::statement::Dialect;

/// The time without a notification after which the connection is tried.
const SILENCE: Duration = Duration::from_secs(60);
/// The time for the answer of the server.
const PATIENCE: Duration = Duration::from_secs(10);

impl PostgresServer<'_> {
    /// Listens on a channel until the connection breaks, with a connection of its own. Returns the reason of the end.
    pub(in crate::sql) async fn listen(
        &self,
        call: &Call<'_>,
        channel: &str,
        wake: &(dyn Fn() + Send + Sync),
    ) -> ActionError {
        match self.try_listen(call, channel, wake).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn try_listen(
        &self,
        call: &Call<'_>,
        channel: &str,
        wake: &(dyn Fn() + Send + Sync),
    ) -> Result<std::convert::Infallible, ActionError> {
        check_channel(channel)?;
        let seen = Arc::<Notify>::default();
        let silent = || {
            let message =
                format!("{} did not answer within {}", self.subject, text::units::format_duration(PATIENCE));
            ActionError::new(ErrorKind::Timeout, message)
        };
        let opened = tokio::time::timeout(PATIENCE, self.connect(call, seen.clone())).await;
        let mut session = opened.map_err(|_| silent())??;
        let mut statement = format!("listen {}", Dialect::Postgres.quoted(channel));
        loop {
            let answer = tokio::time::timeout(PATIENCE, session.client.batch_execute(&statement)).await;
            let answer = answer.map_err(|_| silent())?;
            answer.map_err(|error| failure(&error, self.subject, &[]).error)?;
            if !statement.is_empty() {
                wake();
            }
            // From now on the statement only shows that the server is there.
            statement.clear();
            loop {
                tokio::select! {
                    () = seen.notified() => wake(),
                    // The statement fails then, with the reason.
                    _ = &mut session.task => break,
                    () = tokio::time::sleep(SILENCE) => break,
                }
            }
        }
    }
}
