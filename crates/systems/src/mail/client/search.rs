//! `mail.search` and `mail.listReceived`.

use std::collections::{BTreeMap, BTreeSet};

use async_imap::imap_proto::{MailboxDatum, Response};
use connector::Call;
use jiff::civil::Date;
use model::{ActionError, ErrorKind};
use value::{Map, Value};

use super::command::Command;
use super::header::{Place, SUMMARY, Summary};
use super::mailbox::{Access, Selected};
use super::session::Session;
use super::{flag_of, text_of};
use crate::mail::{day, input_error, keywords};

/// The numbers that one command searches, so that an answer has its limit also if all of them fit.
const WINDOW: u32 = 20_000;
/// The messages whose headers one command reads.
const SUMMARIES: usize = 100;
/// The messages that one poll passes on.
const MAX_RECEIVED: usize = 200;
/// The windows of numbers that one poll searches.
const MAX_WINDOWS: u32 = 50;

/// `mail.search`.
pub(super) async fn search(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let inputs = call.inputs;
    let limit = inputs.get("limit").and_then(Value::as_i64).and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(SUMMARIES);
    let mailbox = text_of(inputs, "mailbox");
    let selected = session.select(mailbox, Access::Read, None).await?;
    let mut last = last_uid(session, &selected).await?;
    let window = if selected.exists <= WINDOW { last } else { WINDOW };
    let mut found = Vec::new();
    while last > 0 && found.len() <= limit {
        let first = last.saturating_sub(window - 1).max(1);
        found.extend(uids(session, &format!("{first}:{last}"), inputs).await?.into_iter().rev());
        last = first - 1;
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let place = Place { mailbox, uid_validity: selected.uid_validity };
    let mut results = Vec::with_capacity(found.len());
    for uids in found.chunks(SUMMARIES) {
        let mut summaries = summaries(session, place, uids).await?;
        results.extend(uids.iter().filter_map(|uid| Some(Value::from(summaries.remove(uid)?.value))));
    }
    Ok(Value::from(Map::from_iter([("results", Value::from(results)), ("more", Value::from(more))])))
}

/// Searches the messages with the numbers of a set. Returns their numbers.
async fn uids(session: &mut Session, set: &str, inputs: &Map) -> Result<BTreeSet<u32>, ActionError> {
    let texts = [("from", "FROM"), ("to", "TO"), ("subject", "SUBJECT"), ("text", "TEXT")];
    let is_ascii = texts.iter().all(|(input, _)| text_of(inputs, input).is_ascii());
    let command = Command::new("UID SEARCH");
    let command = if is_ascii { command } else { command.word("CHARSET UTF-8") };
    let mut command = command.word("UID").plain(format_args!("{set}"));
    for (input, word) in texts {
        let text = text_of(inputs, input);
        if !text.is_empty() {
            command = command.word(word).text(text);
        }
    }
    for (input, word) in [("since", "SINCE"), ("before", "BEFORE")] {
        if let Some(day) = day(inputs, input)? {
            command = command.word(word).plain(format_args!("{}", date(day)));
        }
    }
    for (input, yes, no) in [("unseen", "UNSEEN", "SEEN"), ("flagged", "FLAGGED", "UNFLAGGED")] {
        if let Some(is) = inputs.get(input).and_then(Value::as_bool) {
            command = command.word(if is { yes } else { no });
        }
    }
    for keyword in keywords(inputs, "keywords")? {
        command = command.word("KEYWORD").plain(format_args!("{keyword}"));
    }
    let mut found = BTreeSet::new();
    let searching = session.run(command, |answer| {
        if let Response::MailboxData(MailboxDatum::Search(uids)) = answer {
            found.extend(uids);
            if found.len() > WINDOW as usize {
                return Err(ActionError::new(
                    ErrorKind::Limit,
                    "the server finds more messages than it was to search",
                ));
            }
        }
        Ok(())
    });
    searching.await?;
    Ok(found)
}

/// A day as the protocol writes it: `31-Jan-2026`.
fn date(day: Date) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = usize::try_from(day.month() - 1).ok().and_then(|month| MONTHS.get(month));
    format!("{}-{}-{:04}", day.day(), month.unwrap_or(&"Jan"), day.year())
}

/// Reads the fields that a list shows of messages, by their numbers. A deleted message is left out.
async fn summaries(
    session: &mut Session,
    place: Place<'_>,
    uids: &[u32],
) -> Result<BTreeMap<u32, Summary>, ActionError> {
    let mut found = BTreeMap::new();
    if uids.is_empty() {
        return Ok(found);
    }
    let set: Vec<String> = uids.iter().map(u32::to_string).collect();
    let command = Command::new("UID FETCH").plain(format_args!("{}", set.join(","))).word(SUMMARY);
    let reading = session.run(command, |answer| {
        if let Response::Fetch(_, values) = answer
            && let Some(summary) = Summary::of(place, values).filter(|summary| uids.contains(&summary.uid))
        {
            found.insert(summary.uid, summary);
        }
        Ok(())
    });
    reading.await?;
    Ok(found)
}

/// A position in a mailbox: the numbering, and the last number that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    uid_validity: u32,
    uid: u32,
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        let (uid_validity, uid) = text.split_once('/')?;
        Some(Self { uid_validity: uid_validity.parse().ok()?, uid: uid.parse().ok()? })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.uid_validity, self.uid)
    }
}

/// `mail.listReceived`.
pub(super) async fn received(session: &mut Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let (inputs, mailbox) = (call.inputs, text_of(call.inputs, "mailbox"));
    let selected = session.select(mailbox, Access::Read, None).await?;
    let last = last_uid(session, &selected).await?;
    let newest = Position { uid_validity: selected.uid_validity, uid: last };
    let from = match text_of(inputs, "after") {
        _ if flag_of(inputs, "newest") => newest,
        "" => Position { uid: 0, ..newest },
        text => Position::parse(text).ok_or_else(|| {
            input_error("`after` is no position of this action, which gives it as `position`")
        })?,
    };
    if from.uid_validity != newest.uid_validity {
        let problem = format!(
            "the server has numbered the messages of `{mailbox}` anew: from now on its new messages arrive; look yourself for those that came between"
        );
        return Ok(result(Vec::new(), newest, false, Some(problem)));
    }
    let place = Place { mailbox, uid_validity: newest.uid_validity };
    let (mut results, mut known) = (Vec::new(), from.uid.min(last));
    for _ in 0..MAX_WINDOWS {
        if known >= last {
            break;
        }
        let (first, end) = (known.saturating_add(1), known.saturating_add(WINDOW).min(last));
        let mut found = uids(session, &format!("{first}:{end}"), inputs).await?;
        // A server takes a set without messages for the last one.
        found.retain(|uid| (first..=end).contains(uid));
        let found: Vec<u32> = found.into_iter().collect();
        known = end;
        for uids in found.chunks(SUMMARIES) {
            let summaries = summaries(session, place, uids).await?;
            let wanted = |summary: &Summary| !flag_of(inputs, "attachments") || summary.has_attachments;
            results.extend(summaries.into_values().filter(wanted).map(|summary| record(place, summary)));
            if results.len() >= MAX_RECEIVED {
                known = uids.last().copied().unwrap_or(end);
                break;
            }
        }
        if results.len() >= MAX_RECEIVED {
            break;
        }
    }
    Ok(result(results, Position { uid: known, ..newest }, known < last, None))
}

/// The number of the last message that the mailbox has had.
async fn last_uid(session: &mut Session, selected: &Selected) -> Result<u32, ActionError> {
    if let Some(next) = selected.uid_next {
        return Ok(next.saturating_sub(1));
    }
    if selected.exists == 0 {
        return Ok(0);
    }
    let last = uids(session, "*", &Map::new()).await?;
    Ok(last.last().copied().unwrap_or_default())
}

fn record(place: Place<'_>, summary: Summary) -> Value {
    let Summary { uid, message_id, received, value, .. } = summary;
    let id = message_id.unwrap_or_else(|| format!("{}/{uid}", place.uid_validity));
    let at = received.unwrap_or_default().to_string();
    let entries = [("id", Value::from(id)), ("at", Value::from(at)), ("mail", Value::from(value))];
    Value::from(Map::from_iter(entries))
}

fn result(results: Vec<Value>, position: Position, more: bool, problem: Option<String>) -> Value {
    let entries = [
        ("results", Value::from(results)),
        ("position", Value::from(position.to_string())),
        ("more", Value::from(more)),
        ("problem", Value::from(problem)),
    ];
    Value::from(Map::from_iter(entries))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let position = Position { uid_validity: u32::MAX, uid: 17 };
        assert_eq!(Position::parse(&position.to_string()), Some(position));
        for text in ["", "1", "1/x", "1/2/3", "-1/2", "2026-01-01T00:00:00Z"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }

    #[test]
    fn days_are_written_as_the_protocol_wants_them() {
        let at = |day: &str| date(day.parse().expect("a date"));
        assert_eq!([at("2026-01-31"), at("2026-12-01")], ["31-Jan-2026", "1-Dec-2026"]);
    }
}
