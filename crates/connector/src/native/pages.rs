//! Pagination of `http.request`, for lists of any service.

use ::http::Method;
use model::{ActionError, ErrorKind, InputSpec, InputType, LogLevel};
use url::Url;
use value::{Map, Value};

use super::{choice, defaulted, input_error, optional, text_of};
use crate::connection::BaseUrl;
use crate::http::{Request, Response};
use crate::log::LogSink;
use crate::manifest::fetch_all::{self, Cursors, SeenPages};
use crate::manifest::page;
use crate::manifest::{CursorPages, Head, Next, NextSource, NumberedPages, Paging, PagingStyle, Unit};

/// The default of `maxItems`.
const DEFAULT_ITEMS: i64 = 10_000;
/// The largest value of `maxItems`.
const MOST_ITEMS: i64 = 100_000;
/// The largest number of pages, which ends a list of empty pages.
const MOST_PAGES: usize = 10_000;
/// The largest total size of all pages in bytes, equal to the limit of a step's result.
const MOST_BYTES: usize = 16 << 20;

/// Name of the input.
pub(super) const INPUT: &str = "paging";

/// Returns the spec of the input.
pub(super) fn input() -> InputSpec {
    let fields = vec![
        defaulted(
            "style",
            choice(&["link", "cursor", "page", "offset"]),
            "link",
            "By the `Link` header, a cursor in the answer, page numbers, or the number of earlier items.",
        ),
        optional("items", InputType::Text, "A path in the body to the items; the body itself if not given."),
        optional(
            "next",
            InputType::Text,
            "Of `cursor`: a path in the body to the cursor, or to the address of the next page.",
        ),
        optional(
            "parameter",
            InputType::Text,
            "The parameter of the query that takes the cursor, page or offset; `page` or `offset` if not given.",
        ),
        defaulted(
            "maxItems",
            InputType::Integer { min: Some(1), max: Some(MOST_ITEMS) },
            DEFAULT_ITEMS,
            "The number of items after which no further page is requested.",
        ),
    ];
    optional(
        INPUT,
        InputType::Object { fields },
        "How to request further pages of a list; `body` is then the items of all pages.",
    )
}

/// The items of the pages read so far, and the state of the pagination.
pub(super) struct Pages {
    paging: Paging,
    /// True if the located text is the address of the next page rather than a cursor.
    by_address: bool,
    most: usize,
    items: Vec<Value>,
    bytes: usize,
    count: usize,
    /// The number of consecutive pages without items.
    empty: usize,
    /// The addresses requested so far.
    asked: Cursors,
    /// The pages of numbers or offsets so far.
    seen: SeenPages,
}

impl Pages {
    /// Reads the input `paging`; `None` if it is not set.
    pub(super) fn from_inputs(inputs: &Map, request: &Request) -> Result<Option<Self>, ActionError> {
        let Some(wanted) = inputs.get("paging").and_then(Value::as_map) else { return Ok(None) };
        if request.method != Method::GET {
            return Err(input_error("`paging` follows the pages of a GET only"));
        }
        let some = |name| Some(text_of(wanted, name).to_owned()).filter(|text| !text.is_empty());
        let (parameter, next) = (some("parameter"), some("next"));
        let counted = |unit| PagingStyle::NumberedPages(NumberedPages { unit, more: None, total: None });
        let by_cursor = |source| {
            let next = vec![Next { source, parameter: None }];
            PagingStyle::Cursor(CursorPages { next, more: None })
        };
        let (style, usual) = match (text_of(wanted, "style"), next) {
            ("page", _) => (counted(Unit::Page { first: 1 }), "page"),
            ("offset", _) => (counted(Unit::Offset), "offset"),
            ("cursor", Some(next)) => (by_cursor(NextSource::Body(next)), ""),
            ("cursor", None) => return Err(input_error("`paging.next` must say where the cursor is")),
            _ => (by_cursor(NextSource::Link("next".to_owned())), ""),
        };
        let by_address = matches!(style, PagingStyle::Cursor(_)) && parameter.is_none();
        let input = parameter.unwrap_or_else(|| usual.to_owned());
        let most = wanted.get("maxItems").and_then(Value::as_i64).unwrap_or(DEFAULT_ITEMS);
        let paging = Paging { input, style, items: some("items"), limit: None };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut asked = Cursors::default();
        asked.is_new(request.url.as_str());
        let seen = SeenPages::default();
        Ok(Some(Self {
            paging,
            by_address,
            most,
            items: Vec::new(),
            bytes: 0,
            count: 0,
            empty: 0,
            asked,
            seen,
        }))
    }

    /// Adds the items of a page and changes the request to the next page. Returns false after the last page.
    pub(super) fn take(
        &mut self,
        head: &Head,
        subject: &str,
        response: &Response,
        body: &Value,
        request: &mut Request,
        log: &dyn LogSink,
    ) -> Result<bool, ActionError> {
        let wrong = |kind, message: String| Err(head.errors.response_error(kind, message, response));
        let list = match &self.paging.items {
            Some(_) => page::items_of(&self.paging, body),
            None => body.as_list().map(<[Value]>::to_vec),
        };
        let Some(list) = list else {
            let at = self
                .paging
                .items
                .as_deref()
                .map_or_else(|| "as its body".to_owned(), |path| format!("at `{path}`"));
            return wrong(ErrorKind::Response, format!("{subject} answered without a list {at}"));
        };
        if page::is_counted(&self.paging) && !self.seen.is_new(&list) {
            return wrong(ErrorKind::Response, fetch_all::repeats_items(subject, &self.paging.input));
        }
        let is_empty = list.is_empty();
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        self.items.extend(list);
        self.bytes = self.bytes.saturating_add(response.body.len());
        self.count += 1;
        let too_large = || {
            let size = text::units::format_size(MOST_BYTES as u64);
            let words = format!(
                "the list of {subject} is larger than {size} or {MOST_PAGES} pages; set `paging.maxItems`"
            );
            Err(ActionError::new(ErrorKind::Limit, words))
        };
        if self.bytes > MOST_BYTES {
            return too_large();
        }
        let is_full = self.items.len() >= self.most;
        if is_empty && page::is_counted(&self.paging) {
            return Ok(false);
        }
        let Ok(base) = BaseUrl::parse(&request.url.origin().ascii_serialization(), None) else {
            return Ok(false);
        };
        let next = page::next_cursor(&self.paging, head, &base, &parameters(&request.url), response, body)?;
        let Some(next) = next.as_str() else { return Ok(false) };
        if is_full {
            log.line(LogLevel::Warn, &fetch_all::truncated(subject, self.items.len(), "paging.maxItems"));
            return Ok(false);
        }
        if self.count == MOST_PAGES {
            return too_large();
        }
        if self.by_address {
            request.url = self.address(subject, &base, response, next)?;
        } else {
            request.merge_query(&Map::from_iter([(self.paging.input.as_str(), next)]));
        }
        if !self.asked.is_new(request.url.as_str()) {
            return wrong(ErrorKind::Response, fetch_all::repeats_pages(subject));
        }
        if self.empty == fetch_all::MOST_EMPTY {
            return wrong(ErrorKind::Response, fetch_all::never_ends(subject));
        }
        Ok(true)
    }

    /// Returns the address of the next page. Another origin is an error, since it would receive foreign credentials.
    fn address(
        &self,
        subject: &str,
        base: &BaseUrl,
        response: &Response,
        next: &str,
    ) -> Result<Url, ActionError> {
        let url = response.url.join(next).ok().filter(|url| base.same_origin(url));
        let mut url = url.ok_or_else(|| {
            let message =
                format!("{subject} links the next page of the list at another address than its own");
            ActionError::new(ErrorKind::Response, message)
        })?;
        url.set_fragment(None);
        Ok(url)
    }

    /// Returns the items of all pages.
    pub(super) fn into_items(self) -> Value {
        Value::from(self.items)
    }
}

/// Returns the query parameters of an address, which hold the current page number or offset.
fn parameters(url: &Url) -> Map {
    url.query_pairs().map(|(name, value)| (name.into_owned(), Value::from(value.into_owned()))).collect()
}
