//! `fetchAll`: reads a list to its end, page by page, within limits.
//!
//! Each page is the same request with another cursor, so the filters of the first apply to all. Only the items of a
//! page are kept. If the list is too long, the result has the cursor at which it continues.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::time::Duration;

use model::{ActionError, Effect, ErrorKind, InputSpec, InputType, LogLevel};
use value::{Map, Value};

use super::{Paging, RestAction, page};
use crate::action::Call;
use crate::connection::BaseUrl;

/// The input that requests all pages.
const FETCH_ALL: &str = "fetchAll";
/// The input with the number of items after which no further page is read.
const MAX_ITEMS: &str = "maxItems";
/// The default of [`MAX_ITEMS`].
const DEFAULT_ITEMS: usize = 10_000;
/// The largest value of [`MAX_ITEMS`].
const MOST_ITEMS: i64 = 100_000;
/// The largest number of pages, which ends a list of empty pages.
const MOST_PAGES: usize = 10_000;
/// The largest number of consecutive empty pages. Services that filter after paging return some.
pub(crate) const MOST_EMPTY: usize = 100;
/// The largest total size of all pages in bytes, equal to the limit of a step's result.
const MOST_BYTES: usize = 16 << 20;
/// The number of attempts per page before the call fails.
const TRIES: u32 = 4;
/// The longest wait between two attempts for a page; the step's own `retry` handles longer ones.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Returns the inputs that each list has in addition to those of its manifest.
pub(super) fn inputs() -> Vec<InputSpec> {
    let all = InputSpec {
        name: FETCH_ALL.to_owned(),
        kind: InputType::Boolean,
        required: false,
        default: None,
        description: Some(
            "Whether to follow the list to its end, with the same filters, and give all items at once."
                .into(),
        ),
    };
    let most = InputSpec {
        name: MAX_ITEMS.to_owned(),
        kind: InputType::Integer { min: Some(1), max: Some(MOST_ITEMS) },
        required: false,
        default: None,
        description: Some(
            "With `fetchAll`: no further page once there are as many; `nextCursor` then says where it goes on. \
             10000 if not given."
                .into(),
        ),
    };
    vec![all, most]
}

/// True if the inputs request all pages.
pub(super) fn is_wanted(inputs: &Map) -> bool {
    inputs.get(FETCH_ALL).and_then(Value::as_bool).unwrap_or(false)
}

/// Reads all pages and returns the last response with the items of all.
pub(super) async fn fetch(
    rest: &RestAction,
    paging: &Paging,
    call: &Call<'_>,
    base: &BaseUrl,
) -> Result<Value, ActionError> {
    let subject = &rest.head.subject;
    let most = call.inputs.get(MAX_ITEMS).and_then(Value::as_i64);
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(DEFAULT_ITEMS);
    let mut inputs = first_inputs(rest, paging, call.inputs);
    let (mut items, mut bytes, mut empty) = (Vec::new(), 0_usize, 0_usize);
    let (mut cursors, mut seen) = (Cursors::default(), SeenPages::default());
    cursors.is_new(&inputs.get(&paging.input).map(Value::to_text).unwrap_or_default());
    for _ in 0..MOST_PAGES {
        let response = patiently(rest, call, base, &inputs).await?;
        bytes = bytes.saturating_add(response.body.len());
        if bytes > MOST_BYTES {
            let size = text::units::format_size(MOST_BYTES as u64);
            let message =
                format!("the list of {subject} is larger than {size}; filter it, or set `{MAX_ITEMS}`");
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        let (body, cursor) = rest.definition.read(&rest.head, base, &inputs, &response)?;
        let Some(found) = page::items_of(paging, &body) else {
            let at = paging.items.as_deref().unwrap_or("results");
            let message = format!("{subject} answered without a list at `{at}`");
            return Err(rest.head.errors.response_error(ErrorKind::Response, message, &response));
        };
        if page::is_counted(paging) && !seen.is_new(&found) {
            let message = repeats_items(subject, &paging.input);
            return Err(rest.head.errors.response_error(ErrorKind::Response, message, &response));
        }
        empty = if found.is_empty() { empty + 1 } else { 0 };
        items.extend(found);
        let cursor = cursor.unwrap_or_default();
        if !cursor.is_null() && items.len() >= most {
            call.log.line(LogLevel::Warn, &truncated(subject, items.len(), MAX_ITEMS));
        }
        if cursor.is_null() || items.len() >= most {
            return Ok(page::put_cursor(page::with_items(paging, body, items), cursor));
        }
        if !cursors.is_new(&cursor.to_text()) {
            return Err(rest.head.errors.response_error(
                ErrorKind::Response,
                repeats_pages(subject),
                &response,
            ));
        }
        if empty == MOST_EMPTY {
            return Err(rest.head.errors.response_error(ErrorKind::Response, never_ends(subject), &response));
        }
        inputs.insert(paging.input.as_str(), cursor);
    }
    let message = format!("the list of {subject} does not end within {MOST_PAGES} pages");
    Err(ActionError::new(ErrorKind::Limit, message))
}

/// Hashes of the cursors of a list, 8 bytes each; at most [`MOST_PAGES`].
#[derive(Default)]
pub(crate) struct Cursors {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl Cursors {
    /// Adds a cursor; false if it is already present.
    pub(crate) fn is_new(&mut self, cursor: &str) -> bool {
        self.seen.insert(self.hasher.hash_one(cursor))
    }
}

/// Hashes of the pages of a list that is read by number or offset: a service that ignores the parameter sends the same page again.
#[derive(Default)]
pub(crate) struct SeenPages {
    pages: Cursors,
    last: Option<u64>,
}

impl SeenPages {
    /// Adds a page; false if it repeats an earlier one. Pages of plain values, which often are equal by chance, are compared with the
    /// page before only. An empty page is always new.
    pub(crate) fn is_new(&mut self, items: &[Value]) -> bool {
        if items.is_empty() {
            return true;
        }
        let mut hasher = self.pages.hasher.build_hasher();
        for item in items {
            item.to_json().hash(&mut hasher);
        }
        let hash = hasher.finish();
        let has_records = items.iter().any(|item| matches!(item, Value::Map(_) | Value::List(_)));
        let repeats_last = self.last.replace(hash) == Some(hash);
        !repeats_last && (self.pages.seen.insert(hash) || !has_records)
    }
}

/// Returns the error message for a list whose pages repeat.
pub(crate) fn repeats_items(subject: &str, parameter: &str) -> String {
    format!(
        "{}: two pages have the same items; check that it supports the parameter `{parameter}`",
        repeats_pages(subject)
    )
}

/// Returns the warning for a list that was cut at its limit.
pub(crate) fn truncated(subject: &str, count: usize, name: &str) -> String {
    format!("the list of {subject} is truncated after {count} items; for more set `{name}`")
}

/// Returns the error message for a list whose cursors repeat.
pub(crate) fn repeats_pages(subject: &str) -> String {
    format!("{subject} returns pages of the list again")
}

/// Returns the error message for a list of cursors without items.
pub(crate) fn never_ends(subject: &str) -> String {
    format!("the list of {subject} does not end: {MOST_EMPTY} consecutive pages had no items; filter it")
}

/// Returns the inputs of the first page, with the largest page size unless the author set one.
fn first_inputs(rest: &RestAction, paging: &Paging, given: &Map) -> Map {
    let mut inputs = given.clone();
    let spec = paging.limit.as_ref().and_then(|limit| rest.definition.spec.input(limit));
    if let Some(spec) = spec
        && let InputType::Integer { max: Some(max), .. } = spec.kind
        && given.get(&spec.name) == spec.default.as_ref()
    {
        inputs.insert(spec.name.as_str(), max);
    }
    inputs
}

/// Requests one page, and retries while the service is busy, so that the previous pages need not be read again.
async fn patiently(
    rest: &RestAction,
    call: &Call<'_>,
    base: &BaseUrl,
    inputs: &Map,
) -> Result<crate::http::Response, ActionError> {
    let mut tries = 1;
    loop {
        let error = match rest.send(call, base, inputs).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let grown = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(tries - 1));
        let wait = error.retry_after().unwrap_or(grown);
        if tries == TRIES || wait > LONGEST_WAIT || !is_passing(&error, rest.definition.spec.effect) {
            return Err(error);
        }
        let shown = text::units::format_duration(wait);
        call.log.line(LogLevel::Warn, &format!("a page failed: {error}; it is asked for again in {shown}"));
        call.http.timer().pause(wait).await;
        tries += 1;
    }
}

/// True if a retry may succeed (wiki-api facts, 4). A 429 was not executed; other failures may have been, so that
/// only reads are retried after them.
fn is_passing(error: &ActionError, effect: Effect) -> bool {
    let repeats = effect == Effect::Read;
    match (&error.kind, error.status) {
        (ErrorKind::Status, Some(429)) => true,
        (ErrorKind::Status, Some(502..=504)) | (ErrorKind::Network | ErrorKind::Timeout, _) => repeats,
        _ => false,
    }
}
