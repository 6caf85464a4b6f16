//! One question, asked: the inputs are worked out, the action is called, its answer is read.

use std::time::Duration;

use connector::{Action, Call, EventSource, LogSink, PolledEvent, Record};
use jiff::Timestamp;
use model::Budget;
use model::action::ActionError;
use model::automation::{ActionStep, Automation, PollStart, PollTrigger};
use model::execution::LogLevel;
use model::value::{Map, Value};
use store::{PollState, PollWrite};

use super::Question;
use super::sift::{Answer, Item, digest};
use crate::catalog::Catalog;
use crate::evaluator::{Inline, inline};
use crate::inputs::is_address;
use crate::services::Services;

/// The most pages of a list that one poll reads.
const MOST_PAGES: usize = 50;

/// Asks once. The error is in words.
pub(super) async fn ask(
    services: &Services,
    catalog: &Catalog,
    automation: &Automation,
    question: &Question<'_>,
    standing: &PollState,
) -> Result<Answer, String> {
    let config_vars = services.secrets.config_vars(automation).map_err(ActionError::into_message)?;
    let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
    let names = Map::from_iter([
        ("configVars", Value::from(config_vars)),
        ("automation", Value::from(about)),
        ("cursor", standing.cursor.clone()),
    ]);
    match question {
        Question::Any(poll) => {
            let inputs = inputs(services, catalog, &poll.asks, &names).await?;
            let result =
                Asking { services, catalog, asks: &poll.asks }.call(&poll.asks.action.name, &inputs).await?;
            let short = |budget: &Budget| read(poll, result.clone(), names.clone(), budget);
            match inline(None, short) {
                Inline::Done(read, _) => read,
                Inline::TooShort => {
                    let poll = (*poll).clone();
                    services.evaluator.long(move |budget| read(&poll, result, names, budget)).await
                }
            }
        }
        Question::Event(event, spec) => {
            let EventSource::Poll(polled) = &spec.source else {
                return Err(format!("`{}` is not polled for", spec.name));
            };
            let asking = Asking { services, catalog, asks: &event.asks };
            let mut with = polled.with.clone();
            for (name, value) in inputs(services, catalog, &event.asks, &names).await?.iter() {
                with.insert(name.clone(), value.clone());
            }
            asking.pages(polled, with, standing, question.start()).await
        }
    }
}

/// The inputs of what is asked.
async fn inputs(
    services: &Services,
    catalog: &Catalog,
    asks: &ActionStep,
    names: &Map,
) -> Result<Map, String> {
    let scope = Value::from(names.clone());
    let mut inputs = Map::with_capacity(asks.with.len());
    // Where there is no such action any more, the call says so.
    let action = catalog.registry().action(&asks.action.name);
    for (name, template) in &asks.with {
        let is_address = action.is_some_and(|action| is_address(action.spec(), &name.name, template));
        let value = services.evaluator.template(template, is_address, &scope).await;
        let value = value.map_err(|error| format!("input `{}`: {error}", name.name))?;
        inputs.insert(name.name.as_str(), value);
    }
    Ok(inputs)
}

/// What is in the result of an action, as the trigger says.
fn read(poll: &PollTrigger, result: Value, mut names: Map, budget: &Budget) -> Result<Answer, String> {
    names.insert("result", result.clone());
    let scope = Value::from(names.clone());
    let list = match &poll.items {
        Some(items) => items.evaluate(&scope, budget).map_err(|error| format!("`items`: {error}"))?,
        None if result.as_list().is_some() => result,
        None => result.get("results").unwrap_or(Value::Null),
    };
    let Some(list) = list.as_list() else {
        let help = if poll.items.is_some() { "" } else { "; say with `items` where in `result` it is" };
        return Err(format!(
            "`{}` gave no list of items, but a {}{help}",
            poll.asks.action.name,
            list.kind()
        ));
    };
    if list.len() > PollWrite::MAX_KEYS {
        return Err(format!(
            "there are {} items, and a poll looks at {} at most; ask for less",
            list.len(),
            PollWrite::MAX_KEYS
        ));
    }
    let mut items = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        let id = match &poll.id {
            Some(id) => {
                names.insert("item", item.clone());
                let id = id.evaluate(&Value::from(names.clone()), budget);
                id.map_err(|error| format!("`id` of item {index}: {error}"))?
            }
            None => item.get("id").filter(|id| !id.is_null()).unwrap_or_else(|| item.clone()),
        };
        if id.is_null() {
            return Err(format!("`id` of item {index} is null; it must tell each item from all others"));
        }
        items.push(Item { key: key(&id), value: item.clone(), cursor: None });
    }
    let cursor = poll.cursor.as_ref().map(|cursor| cursor.evaluate(&scope, budget)).transpose();
    Ok(Answer { items, cursor: cursor.map_err(|error| format!("`cursor`: {error}"))?.unwrap_or(Value::Null) })
}

/// A key of bounded length.
fn key(id: &Value) -> String {
    let text = match id {
        Value::Map(_) | Value::List(_) => id.to_json(),
        other => other.to_text(),
    };
    if text.len() <= PollWrite::MAX_KEY_BYTES {
        return text;
    }
    digest(&text)
}

struct Asking<'a> {
    services: &'a Services,
    catalog: &'a Catalog,
    asks: &'a ActionStep,
}

impl Asking<'_> {
    async fn call(&self, name: &str, inputs: &Map) -> Result<Value, String> {
        let action = self.catalog.registry().action(name).cloned();
        let action = action.ok_or_else(|| format!("there is no action `{name}` any more"))?;
        let inputs = connector::check_inputs(action.spec(), inputs).map_err(ActionError::into_message)?;
        let connection = match &self.asks.connection {
            Some(name) => {
                let resolved = self.services.connect(self.catalog, &name.name).await;
                Some(resolved.map_err(ActionError::into_message)?)
            }
            None => None,
        };
        let call = Call {
            inputs: &inputs,
            connection: connection.as_ref(),
            idempotency_key: "",
            http: &self.services.http,
            debug: false,
            log: &Log(&self.asks.action.name),
            trace: None,
        };
        Action::call(&*action, call).await.map_err(ActionError::into_message)
    }

    /// Reads a list with the newest first until something older than what is known.
    async fn pages(
        &self,
        polled: &PolledEvent,
        mut with: Map,
        standing: &PollState,
        start: PollStart,
    ) -> Result<Answer, String> {
        let newest: Option<Timestamp> = standing.cursor.as_str().and_then(|at| at.parse().ok());
        let mut oldest = newest.map(|at| before(at, polled.overlap));
        let mut records: Vec<Record> = Vec::new();
        let mut complete = false;
        for _ in 0..MOST_PAGES {
            let result = self.call(&polled.action, &with).await?;
            let page = polled.records(&result)?;
            let first = page.first().map(|record| record.at);
            if standing.polled_at.is_none() && start == PollStart::New {
                // Nothing before is asked for; what comes to light late must be known all the same.
                oldest = oldest.or_else(|| first.map(|at| before(at, polled.overlap)));
            }
            let is_older = |record: &Record| oldest.is_some_and(|oldest| record.at < oldest);
            let ended = page.iter().any(is_older);
            records.extend(page.into_iter().filter(|record| !is_older(record)));
            let next = result.get("nextCursor").filter(|next| !next.is_null());
            match (&polled.cursor, next) {
                (Some(input), Some(next)) if !ended => with.insert(input.as_str(), next),
                _ => {
                    complete = true;
                    break;
                }
            };
        }
        if !complete {
            tracing::warn!(
                event = self.asks.action.name,
                pages = MOST_PAGES,
                "more has changed than one poll reads; what is older is passed over"
            );
        }
        Ok(answer(records, newest))
    }
}

/// The records, oldest first, each with the instant up to which all is known with it.
fn answer(mut records: Vec<Record>, newest: Option<Timestamp>) -> Answer {
    records.sort_by_key(|record| record.at);
    let reached = |at: Timestamp| Value::from(newest.map_or(at, |newest| newest.max(at)).to_string());
    let last = records.last().map(|record| record.at).or(newest);
    let items = records.into_iter().map(|record| Item {
        key: key(&Value::from(record.key)),
        cursor: Some(reached(record.at)),
        value: record.value,
    });
    Answer { items: items.collect(), cursor: last.map_or(Value::Null, reached) }
}

fn before(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}

/// Takes the lines of an action that no execution called.
struct Log<'a>(&'a str);

impl LogSink for Log<'_> {
    fn line(&self, level: LogLevel, message: &str) {
        tracing::debug!(asked = self.0, ?level, message, "a poll");
    }
}
