//! The mailbox that is selected in a session, which stays selected for the next step.
//!
//! While a mailbox is selected, its numbering and its numbers stay the same (RFC 3501, 2.3.1.1). The answers to `NOOP` tell of messages that
//! came or went, or the server ends the session. But a server may keep a deleted mailbox readable where it is selected (RFC 2180, 3.3), and
//! needs not tell of a new message at once. So a selection has an age, and what is missing in it is looked for again.

use std::time::Duration;

use async_imap::imap_proto::{MailboxDatum, Response, ResponseCode};
use model::{ActionError, ErrorKind};
use tokio::time::Instant;

use super::command::Command;
use super::header::Place;
use super::session::{Session, uid_of};

/// The time after which a mailbox is selected anew.
const MAX_AGE: Duration = Duration::from_secs(30);

/// The use of a mailbox that is selected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A mailbox that is selected.
pub(super) struct Selection {
    mailbox: String,
    access: Access,
    uid_validity: u32,
    since: Instant,
    /// True if an earlier call has selected it.
    pub(super) is_kept: bool,
}

impl Selection {
    /// True if a step can use it. A selection for changes serves reads too, which leave messages unread.
    fn serves(&self, place: Place<'_>, access: Access, now: Instant) -> bool {
        self.mailbox == place.mailbox
            && self.uid_validity == place.uid_validity
            && (self.access == access || self.access == Access::Write)
            && now.saturating_duration_since(self.since) < MAX_AGE
    }
}

/// The state of a mailbox that was selected.
pub(super) struct Selected {
    pub uid_validity: u32,
    /// The number that the next message gets; `None` if the server does not tell.
    pub uid_next: Option<u32>,
    /// The number of messages.
    pub exists: u32,
}

impl Session {
    /// Selects the mailbox of a step, unless it is selected.
    ///
    /// # Errors
    /// The mailbox cannot be selected, or has another numbering.
    pub(super) async fn enter(&mut self, place: Place<'_>, access: Access) -> Result<(), ActionError> {
        if self.selection.as_ref().is_some_and(|selection| selection.serves(place, access, Instant::now())) {
            return Ok(());
        }
        self.enter_anew(place, access).await
    }

    /// Selects the mailbox of a step, as it is now.
    pub(super) async fn enter_anew(&mut self, place: Place<'_>, access: Access) -> Result<(), ActionError> {
        self.select(place.mailbox, access, Some(place.uid_validity)).await.map(|_| ())
    }

    /// True if a message was not found, or the server has refused a command, and the mailbox was selected in an earlier call: it may have
    /// been deleted meanwhile, or the message is new.
    pub(super) fn doubts<T>(&self, found: &Result<Option<T>, ActionError>) -> bool {
        let is_missing = match found {
            Ok(found) => found.is_none(),
            Err(error) => error.code.is_some() && !self.is_broken,
        };
        match &self.selection {
            Some(selection) => is_missing && selection.is_kept,
            // The server has told another numbering.
            None => !self.is_broken,
        }
    }

    /// Selects a mailbox, and compares its `UIDVALIDITY` with that of the step.
    pub(super) async fn select(
        &mut self,
        mailbox: &str,
        access: Access,
        uid_validity: Option<u32>,
    ) -> Result<Selected, ActionError> {
        let name = if access == Access::Read { "EXAMINE" } else { "SELECT" };
        let (mut validity, mut uid_next, mut exists) = (None, None, 0);
        // The command leaves the other mailbox, also if the server refuses it.
        self.selection = None;
        let selecting = self.run(Command::new(name).mailbox(mailbox), |answer| {
            match answer {
                Response::MailboxData(MailboxDatum::Exists(count)) => exists = *count,
                Response::Data { outcome, .. } => match outcome.code {
                    Some(ResponseCode::UidValidity(number)) => validity = Some(number),
                    Some(ResponseCode::UidNext(number)) => uid_next = Some(number),
                    _ => {}
                },
                _ => {}
            }
            Ok(())
        });
        let is_read_only = selecting.await?.is_read_only;
        let response = |message| ActionError::new(ErrorKind::Response, message);
        let found = validity.ok_or_else(|| {
            response(format!("{} gives the messages of `{mailbox}` no lasting numbers", self.subject))
        })?;
        if let Some(expected) = uid_validity.filter(|expected| *expected != found) {
            let message = format!(
                "`{mailbox}` has the numbering {found} now, and not {expected}: its messages have other numbers, so search again"
            );
            return Err(response(message).with_code("UIDVALIDITY"));
        }
        if access == Access::Write && is_read_only {
            return Err(response(format!("`{mailbox}` can only be read")).with_code("READ-ONLY"));
        }
        let (mailbox, since) = (mailbox.to_owned(), Instant::now());
        self.selection = Some(Selection { mailbox, access, uid_validity: found, since, is_kept: false });
        Ok(Selected { uid_validity: found, uid_next, exists })
    }

    /// Returns `Some` if a message is in the mailbox that is selected.
    pub(super) async fn find(&mut self, uid: u32) -> Result<Option<()>, ActionError> {
        let mut found = None;
        let command = Command::new("UID FETCH").plain(format_args!("{uid}")).word("(UID)");
        let looking = self.run(command, |answer| {
            if matches!(answer, Response::Fetch(_, values) if uid_of(values) == Some(uid)) {
                found = Some(());
            }
            Ok(())
        });
        looking.await?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_serves_steps_in_its_mailbox_for_its_time() {
        let since = Instant::now();
        let serves = |has: Access, wants: Access, mailbox: &str, uid_validity: u32, seconds: u64| {
            let (mailbox_of, at) = ("INBOX".to_owned(), since + Duration::from_secs(seconds));
            let selection =
                Selection { mailbox: mailbox_of, access: has, uid_validity: 7, since, is_kept: true };
            selection.serves(Place { mailbox, uid_validity }, wants, at)
        };
        use Access::{Read, Write};
        assert!(serves(Read, Read, "INBOX", 7, 29));
        assert!(serves(Write, Write, "INBOX", 7, 0));
        assert!(serves(Write, Read, "INBOX", 7, 0), "reading leaves messages unread");
        assert!(!serves(Read, Write, "INBOX", 7, 0));
        assert!(!serves(Read, Read, "Archive", 7, 0));
        assert!(!serves(Read, Read, "INBOX", 8, 0));
        assert!(!serves(Read, Read, "INBOX", 7, 30));
    }
}
