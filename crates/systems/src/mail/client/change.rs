//! `mail.mark`, `mail.move` and `mail.delete`.

use async_imap::imap_proto::{AttributeValue, Response};
use connector::Call;
use model::{ActionError, ErrorKind};
use value::{Map, Value};

use super::command::Command;
use super::header::Place;
use super::mailbox::Access;
use super::session::{Session, uid_of};
use super::{input_error, missing, numbers, text_of, unknown_outcome};
use crate::mail::keywords;

/// `mail.mark`.
pub(super) async fn mark(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let (uid, uid_validity) = numbers(call.inputs)?;
    let mailbox = text_of(call.inputs, "mailbox");
    let (mut add, mut remove) = (Vec::new(), Vec::new());
    for (name, flag) in [("seen", "\\Seen"), ("flagged", "\\Flagged")] {
        match call.inputs.get(name).and_then(Value::as_bool) {
            Some(true) => add.push(flag),
            Some(false) => remove.push(flag),
            None => {}
        }
    }
    add.extend(keywords(call.inputs, "keywords")?);
    remove.extend(keywords(call.inputs, "removeKeywords")?);
    if add.is_empty() && remove.is_empty() {
        let message = "nothing is to be marked: give `seen`, `flagged`, `keywords` or `removeKeywords`";
        return Err(input_error(message));
    }
    let stores = [("+FLAGS.SILENT", add), ("-FLAGS.SILENT", remove)];
    let place = Place { mailbox, uid_validity };
    session.enter(place, Access::Write).await?;
    let mut marked = store(session, call, uid, &stores).await;
    if session.doubts(&marked) {
        session.enter_anew(place, Access::Write).await?;
        marked = store(session, call, uid, &stores).await;
    }
    // The server takes a number without a message for a good one.
    let flags = marked?.ok_or_else(|| missing(mailbox, uid))?;
    let entries = [("uid", Value::from(uid)), ("uidValidity", Value::from(uid_validity)), ("flags", flags)];
    Ok(Value::from(Map::from_iter(entries)))
}

/// Changes the flags of a message. Returns all that it has then; `None` if it is not there.
async fn store(
    session: &mut Session,
    call: &Call<'_>,
    uid: u32,
    stores: &[(&'static str, Vec<&str>)],
) -> Result<Option<Value>, ActionError> {
    for (word, flags) in stores {
        if flags.is_empty() {
            continue;
        }
        call.http.dialer().pass_gate().await;
        let command = Command::new("UID STORE").plain(format_args!("{uid}")).word(word);
        let command = command.flags(flags.iter().copied());
        session.run(command, |_| Ok(())).await.map_err(unknown_outcome)?;
    }
    let mut flags = None;
    let reading = Command::new("UID FETCH").plain(format_args!("{uid}")).word("(UID FLAGS)");
    let reading = session.run(reading, |answer| {
        if let Response::Fetch(_, values) = answer
            && uid_of(values) == Some(uid)
        {
            flags = values.iter().find_map(|value| match value {
                AttributeValue::Flags(flags) => Some(flags.iter().map(|flag| Value::from(&**flag)).collect()),
                _ => None,
            });
        }
        Ok(())
    });
    reading.await?;
    Ok(flags)
}

/// `mail.move`.
pub(super) async fn transfer(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let (uid, uid_validity) = numbers(call.inputs)?;
    let (mailbox, to) = (text_of(call.inputs, "mailbox"), text_of(call.inputs, "to"));
    if to.is_empty() {
        return Err(input_error("`to` is empty"));
    }
    let is_there = is_there(session, Place { mailbox, uid_validity }, uid).await?;
    let mut written = None;
    if is_there {
        let moves = session.can("MOVE").await?;
        if !moves {
            expunges(session).await?;
        }
        call.http.dialer().pass_gate().await;
        let command = Command::new(if moves { "UID MOVE" } else { "UID COPY" });
        let command = command.plain(format_args!("{uid}")).mailbox(to);
        written = session.run(command, |_| Ok(())).await.map_err(unknown_outcome)?.written;
        if !moves {
            expunge(session, uid).await?;
        }
    }
    let number = |number: Option<u32>| Value::from(number);
    let entries = [
        ("moved", Value::from(is_there)),
        ("mailbox", Value::from(to)),
        ("uid", number(written.map(|(_, uid)| uid))),
        ("uidValidity", number(written.map(|(uid_validity, _)| uid_validity))),
    ];
    Ok(Value::from(Map::from_iter(entries)))
}

/// `mail.delete`.
pub(super) async fn delete(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let (uid, uid_validity) = numbers(call.inputs)?;
    let place = Place { mailbox: text_of(call.inputs, "mailbox"), uid_validity };
    let is_there = is_there(session, place, uid).await?;
    if is_there {
        expunges(session).await?;
        call.http.dialer().pass_gate().await;
        expunge(session, uid).await?;
    }
    Ok(Value::from(Map::from_iter([("deleted", is_there)])))
}

/// True if a message is in a mailbox, which is then selected for changes.
async fn is_there(session: &mut Session, place: Place<'_>, uid: u32) -> Result<bool, ActionError> {
    session.enter(place, Access::Write).await?;
    let mut found = session.find(uid).await;
    if session.doubts(&found) {
        session.enter_anew(place, Access::Write).await?;
        found = session.find(uid).await;
    }
    found.map(|found| found.is_some())
}

/// Checks that the server can delete one message alone, and not all that are marked for it.
async fn expunges(session: &mut Session) -> Result<(), ActionError> {
    if session.can("UIDPLUS").await? {
        return Ok(());
    }
    let message = format!(
        "{} has no command that deletes one message (UIDPLUS); the other messages that are marked as deleted would go too",
        session.subject
    );
    Err(ActionError::new(ErrorKind::Response, message).with_code("UIDPLUS"))
}

async fn expunge(session: &mut Session, uid: u32) -> Result<(), ActionError> {
    let mark = Command::new("UID STORE").plain(format_args!("{uid}")).word("+FLAGS.SILENT (\\Deleted)");
    session.run(mark, |_| Ok(())).await.map_err(unknown_outcome)?;
    let delete = Command::new("UID EXPUNGE").plain(format_args!("{uid}"));
    session.run(delete, |_| Ok(())).await.map(|_| ()).map_err(unknown_outcome)
}
