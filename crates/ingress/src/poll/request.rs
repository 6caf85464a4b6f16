//! Sends one poll request: evaluates the inputs, calls the action and extracts the items from its result.

use std::sync::OnceLock;
use std::time::Duration;

use connector::{Action, Call, EventSource, LogSink, PolledEvent, Record, Since};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use model::LogLevel;
use model::action::ActionError;
use model::automation::{ActionStep, Automation, NameSetting, PollStart, PollTrigger, TriggerKey};
use store::{PollState, PollWrite};
use value::instant::Instant;
use value::{Budget, Map, Reserved, Value};

use super::PollRequest;
use super::dedup::{Item, PollResult, digest};
use super::wake::woken;
use crate::ingress::Ingress;
use catalog::Catalog;
use runtime::is_address;
use runtime::{Answers, Inline, Share, inline};

/// The status of an answer to a conditional request if nothing has changed.
const NOT_MODIFIED: i64 = 304;
/// Maximum number of pages that one poll reads.
const MAX_PAGES: usize = 50;
/// The number of records after which a poll leaves the rest of a list to the next one. With another page of them, the store can still tell
/// all of them from new ones.
const MAX_TOLD: usize = PollWrite::MAX_KEYS / 2;

/// Calls the action once and extracts the items. The error is a message for people.
pub(super) async fn request_items(
    ingress: &Ingress,
    catalog: &Catalog,
    (automation, trigger): (&Automation, &TriggerKey),
    request: &PollRequest<'_>,
    poll_state: &PollState,
) -> Result<PollResult, String> {
    let config_vars =
        ingress.context.secrets.config_vars(automation).await.map_err(ActionError::into_message)?;
    let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
    let names = Map::from_iter([
        ("configVars", Value::from(config_vars)),
        ("automation", Value::from(about)),
        ("cursor", poll_state.cursor.clone()),
    ]);
    let share = Share::default();
    let answers = ingress.context.answer_memory(&share);
    match request {
        PollRequest::Action(poll) => {
            let inputs = inputs(ingress, catalog, &poll.call, &names).await?;
            let result = Requester { ingress, catalog, call: &poll.call, answers }
                .call(&poll.call.action.name, &inputs)
                .await?;
            let short = |budget: &Budget| read(poll, result.clone(), names.clone(), budget);
            match inline(None, short) {
                Inline::Done(read, _) => read,
                Inline::TooShort => {
                    let poll = (*poll).clone();
                    ingress.context.evaluator.long(move |budget| read(&poll, result, names, budget)).await
                }
            }
        }
        PollRequest::Event(event, spec) => {
            let EventSource::Poll(polled) = &spec.source else {
                return Err(format!("`{}` is not polled for", spec.name));
            };
            let requester = Requester { ingress, catalog, call: &event.call, answers };
            let mut with = polled.with.clone();
            for (name, value) in inputs(ingress, catalog, &event.call, &names).await?.iter() {
                with.insert(name.clone(), value.clone());
            }
            if let Some(input) = polled.since.as_ref().and_then(|since| since.trigger.as_ref()) {
                with.insert(&**input, trigger.to_string());
            }
            requester.pages(polled, with, poll_state, request.start()).await
        }
    }
}

/// Listens for what wakes the poll of a trigger. Returns the reason for which it does not any more.
pub(super) async fn listen(
    ingress: &Ingress,
    key: &TriggerKey,
    wake: &(dyn Fn() + Send + Sync),
) -> Result<Value, String> {
    let catalog = ingress.context.catalog.load_full();
    let mount = catalog.trigger(key).ok_or("the trigger is gone")?;
    let (event, polled) = woken(mount.on(), &catalog).ok_or("nothing is to wake the poll any more")?;
    let config_vars = ingress.context.secrets.config_vars(&mount.deployment.automation).await;
    let config_vars = Value::from(config_vars.map_err(ActionError::into_message)?);
    let names = Map::from_iter([("configVars", config_vars)]);
    let mut with = polled.with.clone();
    for (name, value) in inputs(ingress, &catalog, &event.call, &names).await?.iter() {
        with.insert(name.clone(), value.clone());
    }
    let share = Share::default();
    let answers = ingress.context.answer_memory(&share);
    let requester = Requester { ingress, catalog: &catalog, call: &event.call, answers };
    requester.call_or_listen(&polled.action, &with, Some(wake)).await
}

/// Evaluates the inputs of the polled action.
async fn inputs(ingress: &Ingress, catalog: &Catalog, call: &ActionStep, names: &Map) -> Result<Map, String> {
    let scope = Value::from(names.clone());
    let mut inputs = Map::with_capacity(call.with.len());
    // A missing action is reported by the call itself.
    let action = catalog.registry().action(&call.action.name);
    for (name, template) in &call.with {
        let is_address = action.is_some_and(|action| is_address(action.spec(), &name.name, template));
        let value = ingress.context.evaluator.template(template, is_address, &scope).await;
        let value = value.map_err(|error| format!("input `{}`: {error}", name.name))?;
        inputs.insert(name.name.as_str(), value);
    }
    Ok(inputs)
}

/// Extracts the items and the cursor from an action's result with the trigger's expressions.
fn read(poll: &PollTrigger, result: Value, mut names: Map, budget: &Budget) -> Result<PollResult, String> {
    if result.get("statusCode").and_then(|status| status.as_i64()) == Some(NOT_MODIFIED) {
        // Nothing has changed since the cursor that the request has in its condition.
        return Ok(PollResult {
            cursor: names.get("cursor").cloned().unwrap_or_default(),
            ..PollResult::default()
        });
    }
    names.insert("result", result.clone());
    let scope = Value::from(names.clone());
    let list = match &poll.items {
        Some(items) => items.evaluate(&scope, budget).map_err(|error| format!("`items`: {error}"))?,
        None if result.as_list().is_some() => result,
        None => result.get("results").unwrap_or(Value::Null),
    };
    let Some(list) = list.as_list() else {
        let help = if poll.items.is_some() { "" } else { "; set `items` to its path in `result`" };
        return Err(format!(
            "`{}` returned no list of items, but a {}{help}",
            poll.call.action.name,
            list.kind()
        ));
    };
    if list.len() > PollWrite::MAX_KEYS {
        return Err(format!(
            "the result has {} items, but a poll reads at most {}; request fewer",
            list.len(),
            PollWrite::MAX_KEYS
        ));
    }
    let mut items = Vec::with_capacity(list.len());
    let mut without_id: Vec<String> = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let id = match id_of(poll, (index, item), &mut names, budget) {
            Err(problem) if budget.exceeded().is_some() => return Err(problem),
            Err(problem) => {
                without_id.push(problem);
                item.clone()
            }
            Ok(id) => id,
        };
        items.push(Item { key: key(&id), value: item.clone(), cursor: None });
    }
    if let Some(first) = without_id.first() {
        // If no item has an id, the expression is wrong; a single record without one must not keep the others away.
        if without_id.len() == items.len() {
            return Err(first.clone());
        }
        tracing::warn!(
            asked = poll.call.action.name,
            items = items.len(),
            without_id = without_id.len(),
            problem = first,
            "a poll found records without an id; each is recognised by its complete content"
        );
    }
    let cursor = poll.cursor.as_ref().map(|cursor| cursor.evaluate(&scope, budget)).transpose();
    Ok(PollResult {
        items,
        cursor: cursor.map_err(|error| format!("`cursor`: {error}"))?.unwrap_or(Value::Null),
        ..PollResult::default()
    })
}

/// Evaluates the id of an item with this index.
fn id_of(
    poll: &PollTrigger,
    (index, item): (usize, &Value),
    names: &mut Map,
    budget: &Budget,
) -> Result<Value, String> {
    let Some(id) = &poll.id else {
        return Ok(item.get("id").filter(|id| !id.is_null()).unwrap_or_else(|| item.clone()));
    };
    names.insert("item", item.clone());
    match id.evaluate(&Value::from(names.clone()), budget) {
        Ok(id) if id.is_null() => {
            Err(format!("`id` of item {index} is null; it must be unique for each item"))
        }
        id => id.map_err(|error| format!("`id` of item {index}: {error}")),
    }
}

/// Converts an id to a deduplication key; long ids are hashed.
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

struct Requester<'a> {
    ingress: &'a Ingress,
    catalog: &'a Catalog,
    call: &'a ActionStep,
    answers: Answers<'a>,
}

impl Requester<'_> {
    async fn call(&self, name: &str, inputs: &Map) -> Result<Value, String> {
        self.call_or_listen(name, inputs, None).await
    }

    /// Calls an action, or listens with it until that ends with an error.
    async fn call_or_listen(
        &self,
        name: &str,
        inputs: &Map,
        wake: Option<&(dyn Fn() + Send + Sync)>,
    ) -> Result<Value, String> {
        let action = self.catalog.registry().action(name).cloned();
        let action = action.ok_or_else(|| format!("the action `{name}` no longer exists"))?;
        let inputs = connector::check_inputs(action.spec(), inputs, &Reserved::nothing())
            .map_err(ActionError::into_message)?;
        // A trigger names its connection literally.
        let connection = match self.call.connection.as_ref().and_then(NameSetting::literal) {
            Some(name) => {
                let resolved = self.ingress.connections.connect(self.catalog, &name.name).await;
                Some(resolved.map_err(ActionError::into_message)?)
            }
            None => None,
        };
        // The inputs contain no files.
        let memory = Reserved::nothing();
        let call = Call {
            inputs: &inputs,
            connection: connection.as_ref(),
            idempotency_key: "",
            may_repeat: false,
            memory: &memory,
            answers: &self.answers,
            http: &self.ingress.context.http,
            debug: false,
            log: &Log(&self.call.action.name),
            trace: None,
            files: self.ingress.context.file_access(),
            time_left: None,
        };
        let (action, renewed) = (&*action, OnceLock::new());
        let make = |call| match wake {
            None => Action::call(action, call),
            Some(wake) => async move { Err(action.listen(call, wake).await) }.boxed(),
        };
        let called = self.ingress.connections.call_renewing(self.catalog, (call, &renewed), make);
        called.await.map_err(ActionError::into_message)
    }

    /// Reads a list sorted newest first, page by page, until it reaches a record older than the last known one minus
    /// the overlap.
    async fn pages(
        &self,
        polled: &PolledEvent,
        mut with: Map,
        poll_state: &PollState,
        start: PollStart,
    ) -> Result<PollResult, String> {
        let now = self.ingress.context.clock.now();
        let position = Position::of(&poll_state.cursor, now);
        let is_first = poll_state.polled_at.is_none() && start == PollStart::New;
        if let Some(since) = &polled.since {
            return self.since(polled, since, with, (poll_state, position, is_first)).await;
        }
        let mut oldest = position.newest.map(|at| before(at, polled.overlap));
        let mut records: Vec<Record> = Vec::new();
        let mut complete = false;
        for _ in 0..MAX_PAGES {
            let result = self.call(&polled.action, &with).await?;
            let page = page(polled, &self.call.action.name, &result)?;
            let first = page.first().map(|record| record.at);
            if is_first {
                // The first poll needs no older records. Records inside the overlap must still be known, because some
                // become visible late.
                oldest = oldest.or_else(|| first.map(|at| before(at.min(now), polled.overlap)));
            }
            let is_older = |record: &Record| oldest.is_some_and(|oldest| record.at < oldest);
            let ended = page.iter().any(is_older);
            records.extend(page.into_iter().filter(|record| !is_older(record)));
            let next = result.get("nextCursor").filter(|next| !next.is_null());
            let (Some(input), Some(next), false) = (&polled.cursor, next, ended) else {
                complete = records.len() <= PollWrite::MAX_KEYS;
                break;
            };
            if records.len() >= PollWrite::MAX_KEYS {
                break;
            }
            with.insert(input.as_str(), next);
        }
        if !complete {
            records.truncate(PollWrite::MAX_KEYS);
            tracing::warn!(
                event = self.call.action.name,
                records = records.len(),
                "the list has more changes than one poll reads; older ones are skipped"
            );
        }
        Ok(answer(records, position, None))
    }

    /// Reads a list that begins at an instant, oldest first, page by page. What one poll does not read, the next one does: it begins
    /// behind the last page then, and not with the overlap, which has more records than can be told from new ones.
    async fn since(
        &self,
        polled: &PolledEvent,
        since: &Since,
        mut with: Map,
        (poll_state, mut position, is_first): (&PollState, Position, bool),
    ) -> Result<PollResult, String> {
        let event = &self.call.action.name;
        if let Some(path) = &since.position {
            return self.positioned(polled, (since, path), with, (poll_state, is_first)).await;
        }
        let own = since.overlap.as_ref().and_then(|name| with.remove(name));
        let own = own.map(|text| text::units::parse_fixed_period(&text.to_text()));
        let overlap =
            own.transpose().map_err(|error| format!("`overlap`: {error}"))?.unwrap_or(polled.overlap);
        let mut from = position.newest.map(|at| before(at, overlap));
        if is_first {
            // The first poll needs no older records. Records inside the overlap must still be known.
            let Some(last) = self.newest(polled, since, &mut with, (position.now, overlap)).await? else {
                return Ok(answer(Vec::new(), position, None));
            };
            from = Some(before(last, overlap));
        }
        if let Some(from) = from {
            with.insert(&*since.input, from.to_string());
        }
        position.behind = position.behind.filter(|behind| from.is_none_or(|from| behind.at >= from));
        if let (Some(input), Some(behind)) = (&polled.cursor, &position.behind) {
            with.insert(&**input, behind.cursor.clone());
        }
        let (mut records, mut last): (Vec<Record>, _) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let result = self.call(&polled.action, &with).await?;
            let found = page(polled, event, &result)?;
            last = found.last().map(|record| record.at).or(last);
            records.extend(found.into_iter().filter(|record| from.is_none_or(|from| record.at >= from)));
            let next = result.get("nextCursor").filter(|next| !next.is_null());
            let (Some(input), Some(next)) = (&polled.cursor, next) else {
                let (now, is_open) = (position.now, since.newest.is_none());
                let result = answer(records, position, None);
                return Ok(if is_open { advanced(result, now, overlap) } else { result });
            };
            with.insert(&**input, next.clone());
            if records.len() < MAX_TOLD {
                continue;
            }
            // Records of the future come last. Behind them no poll begins, since others are still to come before them.
            let behind = last.filter(|last| *last <= position.now).map(|at| Behind { at, cursor: next });
            if !is_first || behind.is_none() {
                return Ok(answer(records, position, behind));
            }
            // All of them were there before the trigger.
            records.clear();
            position.behind = behind;
        }
        if is_first {
            let overlap = text::units::format_duration(overlap);
            return Err(format!(
                "more records are within the overlap of {overlap} than the {MAX_PAGES} pages that a poll reads; shorten it"
            ));
        }
        let next = polled.cursor.as_ref().and_then(|input| with.get(input).cloned());
        let at = last.filter(|last| *last <= position.now);
        let behind = at.zip(next).map(|(at, cursor)| Behind { at, cursor });
        Ok(answer(records, position, behind))
    }
}

impl Requester<'_> {
    /// Returns the instant of the newest record of a list; `None` if the list is empty. Of a list that cannot be limited to that, the
    /// instant from which the first poll counts as the last one.
    async fn newest(
        &self,
        polled: &PolledEvent,
        since: &Since,
        with: &mut Map,
        (now, overlap): (Timestamp, Duration),
    ) -> Result<Option<Timestamp>, String> {
        let Some(newest) = &since.newest else { return Ok(Some(before(now, overlap))) };
        with.insert(&**newest, true);
        let last = page(polled, &self.call.action.name, &self.call(&polled.action, with).await?)?;
        with.remove(newest);
        Ok(last.first().map(|last| last.at.min(now)))
    }

    /// Reads a list whose action has positions of its own. All records up to the position of a result are known once they are processed.
    async fn positioned(
        &self,
        polled: &PolledEvent,
        (since, path): (&Since, &str),
        mut with: Map,
        (poll_state, is_first): (&PollState, bool),
    ) -> Result<PollResult, String> {
        if is_first {
            if let Some(newest) = &since.newest {
                with.insert(&**newest, true);
            }
        } else if !poll_state.cursor.is_null() {
            with.insert(&*since.input, poll_state.cursor.clone());
        }
        let result = self.call(&polled.action, &with).await?;
        let position = result.path(path).filter(|position| !position.is_null());
        let cursor = position.ok_or_else(|| format!("`{}` gave no position at `{path}`", polled.action))?;
        let items = page(polled, &self.call.action.name, &result)?.into_iter().map(|record| Item {
            key: key(&Value::from(record.key)),
            cursor: None,
            value: record.value,
        });
        let goes_on = result.get("more").and_then(|more| more.as_bool()).unwrap_or(false);
        let problem = result.get("problem").and_then(|problem| problem.as_str().map(str::to_owned));
        Ok(PollResult { items: items.collect(), cursor, goes_on, problem })
    }
}

/// The position of a poll in a list with instants.
struct Position {
    /// The instant of the newest record that is known. A record of the future does not count: all that is written before it would be
    /// taken for known.
    newest: Option<Timestamp>,
    /// The place at which the next poll begins; `None` if it reads all of the overlap again.
    behind: Option<Behind>,
    now: Timestamp,
}

/// A place behind records that are known, and that one poll could not read again with all that follow them.
#[derive(Clone)]
struct Behind {
    /// The instant of the last of them.
    at: Timestamp,
    /// The cursor of the action.
    cursor: Value,
}

impl Position {
    /// Reads a stored position.
    fn of(cursor: &Value, now: Timestamp) -> Self {
        let instant = |value: &Value| value.as_str().and_then(Instant::parse).map(Instant::to_timestamp);
        let newest = instant(cursor).or_else(|| instant(&cursor.get("at")?));
        let behind = cursor.path("behind.at").as_ref().and_then(instant).zip(cursor.path("behind.cursor"));
        let behind = behind.map(|(at, cursor)| Behind { at, cursor });
        Self { newest: newest.map(|newest| newest.min(now)), behind, now }
    }

    /// The position to store when the records up to `at` are known.
    fn reached(&self, at: Timestamp, behind: Option<&Behind>) -> Value {
        let at = Value::from(self.newest.map_or(at, |newest| newest.max(at)).to_string());
        match behind {
            None => at,
            Some(Behind { at: last, cursor }) => {
                let behind = Map::from_iter([("at", last.to_string().into()), ("cursor", cursor.clone())]);
                Map::from_iter([("at", at), ("behind", behind.into())]).into()
            }
        }
    }
}

/// The part of a result that becomes records, with a line in the log if some cannot, or if the action says that it has left some out.
fn page(polled: &PolledEvent, event: &str, result: &Value) -> Result<Vec<Record>, String> {
    let (page, problems) = polled.records(result)?;
    if let Some(problem) = result.get("leftOut").as_ref().and_then(Value::as_str) {
        tracing::warn!(event, problem, "a poll left records out");
    }
    if let Some(problem) = problems.first() {
        tracing::warn!(event, records = problems.len(), problem, "a poll left records out");
    }
    Ok(page)
}

/// Moves the position behind the last record of a list that was read to its end to an overlap ago. So it does not get too old for the
/// application while nothing happens.
fn advanced(mut result: PollResult, now: Timestamp, overlap: Duration) -> PollResult {
    let (floor, reached) = (before(now, overlap), Position::of(&result.cursor, now));
    let is_older = reached.newest.is_none_or(|at| at < floor);
    if is_older && reached.behind.is_none_or(|behind| behind.at < before(floor, overlap)) {
        result.cursor = Value::from(floor.to_string());
    }
    result
}

/// Sorts the records oldest first, each with the cursor that is valid once it has been processed. `next` is the place behind them if the
/// list goes on.
fn answer(mut records: Vec<Record>, position: Position, next: Option<Behind>) -> PollResult {
    records.sort_by_key(|record| record.at);
    let past = records.iter().rev().map(|record| record.at).find(|at| *at <= position.now);
    let last = past.or(position.newest).or((!records.is_empty()).then_some(position.now));
    let behind = next.as_ref().or(position.behind.as_ref());
    let cursor = last.map_or(Value::Null, |last| position.reached(last, behind));
    let items = records.into_iter().map(|record| Item {
        key: key(&Value::from(record.key)),
        cursor: last.map(|last| position.reached(record.at.min(last), position.behind.as_ref())),
        value: record.value,
    });
    PollResult { items: items.collect(), cursor, goes_on: next.is_some(), problem: None }
}

fn before(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}

/// Writes the log lines of a polled action to the daemon's log, since no execution owns them.
struct Log<'a>(&'a str);

impl LogSink for Log<'_> {
    fn line(&self, level: LogLevel, message: &str) {
        tracing::debug!(asked = self.0, ?level, message, "a poll");
    }
}
