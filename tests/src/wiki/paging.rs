//! Lists in pages: limit, order, cursor, and the two places that say where the next page is.
//!
//! A cursor names the last entry seen, not an offset, so that what is inserted or deleted between two calls neither
//! repeats nor skips anything else.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::query::{Query, wrong_type};
use super::reply::Reply;

/// The largest page of a list, documented by the vendor.
pub(super) const LARGEST_PAGE: usize = 250;
/// The page of a list when no limit is given.
pub(super) const DEFAULT_PAGE: usize = 25;
/// The same for both attachment lists.
pub(super) const DEFAULT_ATTACHMENT_PAGE: usize = 50;

/// The value that a list is ordered by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum OrderValue {
    /// A time, a position, or 0 in a list ordered by id alone.
    Number(i64),
    /// A title, a key or a name.
    Text(String),
}

/// The field and the direction of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) field: &'static str,
    pub(super) descending: bool,
}

impl Order {
    /// Reads `sort`; a leading `-` turns the order round. Without it the order is by id.
    pub(super) fn parse(query: &Query, fields: &[&'static str]) -> Result<Self, ApiError> {
        let Some(text) = query.get("sort") else { return Ok(Self { field: "id", descending: false }) };
        let (name, descending) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        match fields.iter().find(|field| **field == name) {
            Some(field) => Ok(Self { field, descending }),
            None => {
                let known = fields.iter().flat_map(|field| [(*field).to_owned(), format!("-{field}")]);
                let known = known.collect::<Vec<_>>().join(", ");
                let title = format!("The value '{text}' is not valid for 'sort'. Valid values: {known}");
                Err(ApiError::bad_parameter(title, None))
            }
        }
    }

    fn name(&self) -> String {
        format!("{}{}", if self.descending { "-" } else { "" }, self.field)
    }

    fn compare(&self, left: &(OrderValue, u64), right: &(OrderValue, u64)) -> Ordering {
        if self.descending { right.cmp(left) } else { left.cmp(right) }
    }
}

/// The content of a cursor: base64 of this as JSON, as observed on the real service.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Cursor {
    id: String,
    content_order: String,
    content_order_value: OrderValue,
}

impl Cursor {
    fn encode(&self) -> String {
        // The URL-safe alphabet: the real cursors leave only their padding unescaped, and a `+` would not survive.
        URL_SAFE.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str, order: &Order) -> Result<(OrderValue, u64), ApiError> {
        let bad = || {
            let mut error = wrong_type("cursor", text, "cursor");
            if let super::error::ErrorBody::V2 { detail, .. } = &mut error.body {
                *detail = Some("Start paging again without a cursor, then follow the next links".to_owned());
            }
            error
        };
        let bytes = URL_SAFE.decode(text).or_else(|_| STANDARD.decode(text)).map_err(|_| bad())?;
        let cursor: Self = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        if cursor.content_order != order.name() {
            return Err(bad());
        }
        let id = cursor.id.parse().map_err(|_| bad())?;
        Ok((cursor.content_order_value, id))
    }
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct Slice<T> {
    pub(super) items: Vec<T>,
    /// The cursor of the next page; nothing on the last one.
    pub(super) next: Option<String>,
}

impl<T> Slice<T> {
    /// The same page with every entry rewritten.
    pub(super) fn map<U>(self, into: impl FnMut(T) -> U) -> Slice<U> {
        Slice { items: self.items.into_iter().map(into).collect(), next: self.next }
    }
}

/// Sorts `items` and cuts out the page that `limit` and `cursor` of the query name.
///
/// # Errors
/// 400 for a limit outside 1 to 250 and for a cursor that is not one of this list.
pub(super) fn page_of<T>(
    items: impl IntoIterator<Item = T>,
    order: &Order,
    key: impl Fn(&T) -> (OrderValue, u64),
    query: &Query,
    default_limit: usize,
) -> Result<Slice<T>, ApiError> {
    let limit = parse_limit(query, default_limit)?;
    let after = query.get("cursor").map(|text| Cursor::decode(text, order)).transpose()?;
    let mut keyed: Vec<((OrderValue, u64), T)> = items.into_iter().map(|item| (key(&item), item)).collect();
    if let Some(after) = &after {
        keyed.retain(|(key, _)| order.compare(key, after) == Ordering::Greater);
    }
    keyed.sort_by(|(left, _), (right, _)| order.compare(left, right));
    let more = keyed.len() > limit;
    keyed.truncate(limit);
    let next = keyed.last().filter(|_| more).map(|((value, id), _)| cursor_after(order, value, *id));
    Ok(Slice { items: keyed.into_iter().map(|(_, item)| item).collect(), next })
}

fn cursor_after(order: &Order, value: &OrderValue, id: u64) -> String {
    Cursor { id: id.to_string(), content_order: order.name(), content_order_value: value.clone() }.encode()
}

/// The first `limit` entries of a list that is in its order already, as the included lists of a single get show it;
/// its cursor continues at the list's own path.
pub(super) fn first_entries<T>(items: Vec<T>, limit: usize) -> Slice<T> {
    let more = items.len() > limit;
    let items: Vec<T> = items.into_iter().take(limit).collect();
    let order = Order { field: "id", descending: false };
    let next = more.then(|| cursor_after(&order, &OrderValue::Number(0), items.len() as u64));
    Slice { items, next }
}

/// Pages through a list that is in its order already.
pub(super) fn page_of_ordered<T>(items: Vec<T>, query: &Query) -> Result<Slice<T>, ApiError> {
    let order = Order { field: "id", descending: false };
    let numbered = (1_u64..).zip(items);
    let slice = page_of(numbered, &order, |(place, _)| (OrderValue::Number(0), *place), query, DEFAULT_PAGE)?;
    Ok(slice.map(|(_, item)| item))
}

fn parse_limit(query: &Query, default: usize) -> Result<usize, ApiError> {
    let Some(text) = query.get("limit") else { return Ok(default) };
    match text.parse::<usize>() {
        Ok(limit) if (1..=LARGEST_PAGE).contains(&limit) => Ok(limit),
        Ok(_) => Err(ApiError::bad_parameter(
            format!("The value '{text}' is not valid for 'limit'. It must be from 1 to {LARGEST_PAGE}"),
            None,
        )),
        Err(_) => Err(wrong_type("limit", text, "int")),
    }
}

#[derive(Serialize)]
struct MultiEntity<'a, T> {
    results: &'a [T],
    #[serde(rename = "_links")]
    links: ListLinks<'a>,
}

#[derive(Serialize)]
struct ListLinks<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
    base: &'a str,
}

/// Writes a page of a list with its links, in the body and in the `Link` header.
///
/// `path` is the path under the site root (`/wiki/api/v2/...`) whatever host was called: links never name the gateway.
/// `old_links` leaves the leading `/wiki` out, as older examples of the vendor show.
pub(super) fn list_reply<T: Serialize>(
    slice: &Slice<T>,
    path: &str,
    query: &Query,
    base_url: &str,
    old_links: bool,
) -> Reply {
    let base = format!("{base_url}/wiki");
    let path = if old_links { path.strip_prefix("/wiki").unwrap_or(path) } else { path };
    let next = slice.next.as_ref().map(|cursor| {
        let mut parameters = vec![format!("cursor={cursor}")];
        parameters.extend(query.raw_without("cursor").map(str::to_owned));
        format!("{path}?{}", parameters.join("&"))
    });
    let links = ListLinks { next: next.as_deref(), base: &base };
    let mut reply = Reply::ok(&MultiEntity { results: &slice.items, links });
    let mut entries: Vec<String> = next.iter().map(|next| format!("<{next}>; rel=\"next\"")).collect();
    entries.push(format!("<{base}>; rel=\"base\""));
    reply.set("link", &entries.join(", "));
    reply
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_id() -> Order {
        Order { field: "id", descending: false }
    }

    fn page(ids: &[u64], query: &str) -> Slice<u64> {
        page_of(ids.to_vec(), &by_id(), |id| (OrderValue::Number(0), *id), &Query::parse(query), 25).unwrap()
    }

    #[test]
    fn a_cursor_names_the_last_entry_seen_so_later_writes_do_not_shift_the_list() {
        let first = page(&[10, 20, 30, 40], "limit=2");
        assert_eq!(first.items, [10, 20]);
        let query = format!("limit=2&cursor={}", first.next.unwrap());
        let second = page(&[5, 20, 25, 30, 40], &query);
        assert_eq!(second.items, [25, 30]);
    }

    #[test]
    fn the_last_page_has_no_cursor_even_when_it_is_full() {
        assert_eq!(page(&[1, 2], "limit=2").next, None);
        assert!(page(&[1, 2, 3], "limit=2").next.is_some());
    }

    #[test]
    fn a_foreign_cursor_is_refused_with_the_advice_to_start_again() {
        let descending = Order { field: "id", descending: true };
        let foreign = cursor_after(&descending, &OrderValue::Number(0), 7);
        for text in ["", "%%%", "bm90IGpzb24=", "/wiki/api/v2/pages?cursor=abc", &foreign] {
            let error = Cursor::decode(text, &by_id()).unwrap_err();
            assert_eq!(error.status(), 400);
            let body = String::from_utf8_lossy(&error.reply().body).into_owned();
            assert!(body.contains("INVALID_REQUEST_PARAMETER") && body.contains("'cursor'"), "{body}");
            assert!(body.contains("Start paging again"), "{body}");
        }
    }

    #[test]
    fn next_links_start_with_the_cursor_and_keep_the_other_parameters() {
        let slice = Slice { items: vec![1], next: Some("abc==".to_owned()) };
        let query = Query::parse("title=a%20b&cursor=old&limit=1");
        let reply = list_reply(&slice, "/wiki/api/v2/pages", &query, "http://site", false);
        let next = "/wiki/api/v2/pages?cursor=abc==&title=a%20b&limit=1";
        let link = format!("<{next}>; rel=\"next\", <http://site/wiki>; rel=\"base\"");
        assert_eq!(reply.headers["link"], link);
        let old = list_reply(&slice, "/wiki/api/v2/pages", &query, "http://site", true);
        assert!(String::from_utf8_lossy(&old.body).contains("\"next\":\"/api/v2/pages?cursor=abc=="));
    }

    proptest! {
        #[test]
        fn paging_returns_every_entry_once_whatever_the_limit(count in 0_usize..120, limit in 1_usize..40) {
            let ids: Vec<u64> = (0..count as u64).map(|n| n * 3 + 1).collect();
            let mut seen = Vec::new();
            let mut query = format!("limit={limit}");
            loop {
                let slice = page(&ids, &query);
                seen.extend(slice.items);
                match slice.next {
                    Some(cursor) => query = format!("limit={limit}&cursor={cursor}"),
                    None => break,
                }
            }
            prop_assert_eq!(seen, ids);
        }

        #[test]
        fn no_text_makes_the_cursor_reader_panic(text in ".*") {
            let _ = Cursor::decode(&text, &by_id());
        }

        #[test]
        fn cursors_keep_titles_of_any_script(title in ".*", id in any::<u64>()) {
            let order = Order { field: "title", descending: true };
            let text = cursor_after(&order, &OrderValue::Text(title.clone()), id);
            prop_assert_eq!(Cursor::decode(&text, &order).unwrap(), (OrderValue::Text(title), id));
        }
    }
}
