//! Finds executions by what no index of the store knows: a scan, newest first, for a limited time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{DefinitionHash, TriggerId};
use model::execution::{Event, ExecutionId, Outcome};
use model::{Automation, Status};
use runtime::{Admission, Clock, Error, Pauses, ReadMemory};
use store::{CutEvents, ExecutionFilter, ExecutionRow, HistoryRow, Page, SMALL_VALUE, Store};
use value::redact::Mask as _;

/// The number of rows read at once.
const PAGE: u32 = 200;
/// The log lines of an execution that are searched.
const LOG_LINES: u32 = 1000;

/// Conditions that are checked on each execution. An execution must match all that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The trigger that started it. Lists have it beside the origin, without an index: most automations have one trigger, and an index
    /// would cost each start a write.
    pub trigger: Option<TriggerId>,
    /// The kind of its origin, such as `webhook`.
    pub origin: Option<String>,
    /// The step that sent the event which started it, with its iteration indices.
    pub sender_step: Option<String>,
    /// The id of the own event that started it.
    pub event_id: Option<String>,
    /// The beginning of the hash of its definition.
    pub definition: Option<String>,
    /// The step that made it fail, in any loop iteration.
    pub failed_step: Option<String>,
    /// A kind of wait of its steps: `time`, `event`, `approval`, `call` or `retry`.
    pub waiting_for: Option<String>,
    /// The least duration from its acceptance to its end, or until now.
    pub min_took: Option<Duration>,
    /// A text in its id, automation, error, payload, results or log lines, in any case.
    pub text: Option<String>,
    /// The displayed statuses, if the stored status does not determine them; empty for any.
    pub shown: Vec<Status>,
    /// The queued executions, as reported by a daemon in another process.
    pub queued: HashSet<ExecutionId>,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct SearchResult {
    /// The executions found, newest first.
    pub rows: Vec<ExecutionRow>,
    /// The last execution that was looked at, if there may be further ones after it.
    pub next: Option<(ExecutionId, Timestamp)>,
    /// True if the time was over before enough was found.
    pub is_timed_out: bool,
}

impl Search {
    /// True if no condition is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Searches for displayed statuses if `filter` has exactly one of queued and running, since the row of a queued execution
    /// may say running. The filter then has both.
    #[must_use]
    pub fn with_shown_statuses(mut self, filter: &mut ExecutionFilter) -> Self {
        let has = |status| filter.status.contains(&status);
        let other = match (has(Status::Queued), has(Status::Running)) {
            (true, false) => Status::Running,
            (false, true) => Status::Queued,
            _ => return self,
        };
        self.shown.clone_from(&filter.status);
        filter.status.push(other);
        self
    }

    /// The filter with the statuses that can match.
    fn narrow(&self, mut filter: ExecutionFilter) -> ExecutionFilter {
        if filter.status.is_empty() && self.waiting_for.is_some() {
            filter.status = vec![Status::Waiting];
        } else if filter.status.is_empty() && self.failed_step.is_some() {
            filter.status = vec![Status::Failed, Status::Stuck];
        }
        filter
    }

    /// The status of an execution that people are shown, by what another process has told.
    #[must_use]
    pub fn shown_status(&self, row: &ExecutionRow) -> Status {
        match row.status {
            Status::Running if self.queued.contains(&row.id) => Status::Queued,
            status => status,
        }
    }

    /// Reads executions after `page.before` until `page.limit` of them match or `time` is over. With a `daemon`, memory is reserved
    /// for large values, queued executions are known, and resume URLs do not match a text, which would reveal them letter by letter.
    ///
    /// # Errors
    /// The store cannot be read, or other readers have the memory for too long.
    pub async fn run(
        self,
        store: &dyn Store,
        clock: &dyn Clock,
        filter: ExecutionFilter,
        page: Page,
        time: Duration,
        daemon: Option<&Admission>,
    ) -> Result<SearchResult, Error> {
        let (filter, deadline) = (self.narrow(filter), clock.monotonic_now().after(time));
        let (now, definitions) = (clock.now(), HashMap::new());
        let mut scan = Scan { search: Arc::new(self), store, now, definitions, daemon };
        let (mut found, mut before) = (SearchResult::default(), page.before);
        loop {
            let rows = store.executions(&filter, Page { before, limit: PAGE }).await?;
            let is_last_page = rows.len() < PAGE as usize;
            let count = rows.len();
            for (index, mut row) in rows.into_iter().enumerate() {
                let here = (row.id, row.started_at);
                before = Some(row.id);
                row.status = scan.shown_status(&row);
                if scan.matches(&row).await? {
                    found.rows.push(row);
                }
                let is_end = is_last_page && index + 1 == count;
                let is_full = found.rows.len() >= page.limit as usize;
                let is_over = clock.monotonic_now() >= deadline;
                if !is_end && (is_full || is_over) {
                    (found.next, found.is_timed_out) = (Some(here), !is_full);
                    return Ok(found);
                }
            }
            if is_last_page {
                return Ok(found);
            }
        }
    }
}

struct Scan<'a> {
    search: Arc<Search>,
    store: &'a dyn Store,
    now: Timestamp,
    /// The definitions of waiting executions.
    definitions: HashMap<DefinitionHash, Option<Automation>>,
    daemon: Option<&'a Admission>,
}

impl Scan<'_> {
    fn shown_status(&self, row: &ExecutionRow) -> Status {
        match self.daemon {
            Some(daemon) => daemon.shown_status(row),
            None => self.search.shown_status(row),
        }
    }

    async fn matches(&mut self, row: &ExecutionRow) -> Result<bool, Error> {
        let search = Arc::clone(&self.search);
        let took = row.started_at.duration_until(row.finished_at.unwrap_or(self.now));
        let fits = (search.shown.is_empty() || search.shown.contains(&row.status))
            && search.trigger.as_ref().is_none_or(|trigger| *trigger == row.trigger)
            && search.origin.as_deref().is_none_or(|origin| origin == row.origin.as_str())
            && search.sender_step.as_deref().is_none_or(|step| row.origin.sender_step() == Some(step))
            && search.event_id.as_deref().is_none_or(|id| row.origin.event_id() == Some(id))
            && search.definition.as_deref().is_none_or(|hash| row.definition.to_string().starts_with(hash))
            && search.min_took.is_none_or(|least| Duration::try_from(took).unwrap_or_default() >= least);
        if !fits {
            return Ok(false);
        }
        if let Some(kind) = &search.waiting_for
            && !self.waits_for(row, kind).await?
        {
            return Ok(false);
        }
        if let Some(step) = &search.failed_step
            && !self.failed_at(row, step).await?
        {
            return Ok(false);
        }
        match &search.text {
            Some(text) => self.contains(row, text).await,
            None => Ok(true),
        }
    }

    async fn waits_for(&mut self, row: &ExecutionRow, kind: &str) -> Result<bool, Error> {
        if row.status != Status::Waiting {
            return Ok(false);
        }
        if !self.definitions.contains_key(&row.definition) {
            let text = self.store.definition(row.definition).await?;
            self.definitions.insert(row.definition, text.and_then(runtime::read_definition));
        }
        let automation = self.definitions.get(&row.definition).and_then(Option::as_ref);
        let pauses = Pauses::new(automation, self.store.waits(row.id).await?);
        Ok(pauses.first.iter().any(|pause| pause.kind.as_str() == kind))
    }

    async fn failed_at(&self, row: &ExecutionRow, step: &str) -> Result<bool, Error> {
        if !matches!(row.status, Status::Failed | Status::Stuck) {
            return Ok(false);
        }
        let _memory = self.reserve(row).await?;
        let events = self.store.events_cut(row.id, SMALL_VALUE).await?.unwrap_or_default().events;
        let failed = match events.last() {
            Some(Event::Finished {
                outcome: Outcome::Failed { error } | Outcome::Stuck { error }, ..
            }) => error.step.as_deref().unwrap_or_default(),
            _ => return Ok(false),
        };
        Ok(failed.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with('[')))
    }

    async fn contains(&self, row: &ExecutionRow, text: &str) -> Result<bool, Error> {
        let text = text.to_lowercase();
        let hidden = self.daemon.map(|daemon| daemon.context.resume_tokens());
        let has = Arc::new(move |place: &str| {
            let masked = hidden.as_ref().and_then(|hidden| hidden.masked_text(place));
            masked.as_deref().unwrap_or(place).to_lowercase().contains(&text)
        });
        let plain = [row.id.to_string(), row.automation.to_string(), row.error.clone().unwrap_or_default()];
        if plain.iter().any(|place| has(place)) {
            return Ok(true);
        }
        let logs = self.store.logs(row.id, 0, LOG_LINES).await?;
        if logs.iter().any(|line| has(&line.message)) {
            return Ok(true);
        }
        let _memory = self.reserve(row).await?;
        let cut = self.store.events_cut(row.id, SMALL_VALUE).await?;
        let Some(CutEvents { events, values }) = cut else { return Ok(false) };
        let in_json =
            |json: serde_json::Result<String>, has: &dyn Fn(&str) -> bool| json.is_ok_and(|json| has(&json));
        if events.iter().any(|event| in_json(serde_json::to_string(event), &*has)) {
            return Ok(true);
        }
        let mut last: Option<HistoryRow> = None;
        for value in values {
            let row = match last.take().filter(|row| row.has(&value)) {
                Some(row) => row,
                None => match self.store.history_row(row.id, value.row).await? {
                    Some(row) => row,
                    None => return Ok(false),
                },
            };
            let has = has.clone();
            // A large value takes longer than a thread of the runtime may be held.
            let looking = tokio::task::spawn_blocking(move || {
                let found = row.read(&value).map(|value| in_json(serde_json::to_string(&value), &*has));
                (row, found)
            });
            let Ok((row, found)) = looking.await else { return Ok(false) };
            if found? {
                return Ok(true);
            }
            last = Some(row);
        }
        Ok(false)
    }

    /// Reserves memory for the events of an execution and one large value at a time.
    async fn reserve(&self, row: &ExecutionRow) -> Result<Option<ReadMemory>, Error> {
        match self.daemon {
            Some(daemon) => daemon.context.reserve_for_cut_events(row).await.map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_for_queued_or_running_reads_the_rows_of_both() {
        use Status::{Failed, Queued, Running};
        let check = |status: &[Status], expected: &[Status], shown: &[Status]| {
            let mut filter = ExecutionFilter { status: status.to_vec(), ..ExecutionFilter::default() };
            let search = Search::default().with_shown_statuses(&mut filter);
            assert_eq!((&filter.status[..], &search.shown[..]), (expected, shown), "{status:?}");
            assert_eq!(search.is_empty(), shown.is_empty());
        };
        check(&[], &[], &[]);
        check(&[Failed], &[Failed], &[]);
        check(&[Queued, Running], &[Queued, Running], &[]);
        check(&[Queued], &[Queued, Running], &[Queued]);
        check(&[Failed, Running], &[Failed, Running, Queued], &[Failed, Running]);
    }
}
