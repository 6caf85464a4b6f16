//! Pagination: locates the cursor of the next page in a response (RFC 8288 for the `Link` header).
//!
//! Only the cursor is taken from a link, and the next request goes to the action's own path at the connection's own
//! address; a link to another origin is an error. A `bodyLink` is requested itself: it must be below that address.

use std::sync::Arc;

use model::action::{ObjectType, ResultField, ResultType};
use model::{ActionError, ErrorKind};
use value::{Map, Value};

use super::{CursorPages, Head, Next, NextSource, NumberedPages, Paging, PagingStyle, Unit};
use crate::connection::BaseUrl;
use crate::http::{Response, decode, value_at_path};

/// The default path to the items of a response.
const ITEMS: &str = "results";
/// The default path to the items of a GraphQL connection.
const NODES: &str = "nodes";

/// Returns the cursor of the next page; `null` on the last page.
pub(crate) fn next_cursor(
    paging: &Paging,
    head: &Head,
    base: &BaseUrl,
    inputs: &Map,
    response: &Response,
    body: &Value,
) -> Result<Value, ActionError> {
    let places = match &paging.style {
        PagingStyle::Cursor(pages) if pages.has_more(body) => &pages.next,
        PagingStyle::Cursor(_) => return Ok(Value::Null),
        PagingStyle::GraphQl => return Ok(end_cursor(paging, body).unwrap_or_default()),
        PagingStyle::NumberedPages(counted) => {
            let next = counted.next(paging, inputs, body);
            return Ok(next.map_or(Value::Null, |next| Value::from(next.to_string())));
        }
    };
    for next in places {
        let Some(found) = find_cursor(next, paging, response, body) else { continue };
        if matches!(next.source, NextSource::BodyLink(_)) {
            let link = response.url.join(&found).ok().filter(|link| base.contains(link));
            let link = link.ok_or_else(|| leads_away(head, response))?;
            return Ok(Value::from(String::from(link)));
        }
        let Some(parameter) = &next.parameter else { return Ok(Value::from(found)) };
        let link = response.url.join(&found).ok().filter(|link| base.same_origin(link));
        let link = link.ok_or_else(|| leads_away(head, response))?;
        if let Some(cursor) = parameter_of(link.query().unwrap_or_default(), parameter) {
            return Ok(Value::from(cursor));
        }
    }
    Ok(Value::Null)
}

fn leads_away(head: &Head, response: &Response) -> ActionError {
    let message = format!("{} links the next page of the list at another address than its own", head.subject);
    head.errors.response_error(ErrorKind::Response, message, response)
}

/// Returns the `endCursor` of the GraphQL connection with the items; `None` if there is no further page.
fn end_cursor(paging: &Paging, body: &Value) -> Option<Value> {
    let items = paging.items.as_deref().unwrap_or(NODES);
    let info = match items.rsplit_once('.') {
        Some((connection, _)) => format!("{connection}.pageInfo"),
        None => "pageInfo".to_owned(),
    };
    let has_next = value_at_path(body, &format!("{info}.hasNextPage"))?.as_bool()?;
    let cursor = value_at_path(body, &format!("{info}.endCursor"))?;
    (has_next && !cursor.is_null()).then_some(cursor)
}

impl CursorPages {
    /// False if the body says that there is no further page.
    fn has_more(&self, body: &Value) -> bool {
        let more = self.more.as_ref();
        more.is_none_or(|path| value_at_path(body, path).and_then(|more| more.as_bool()) == Some(true))
    }
}

impl NumberedPages {
    /// Returns the next page number or offset; `None` on the last page. Without `more` and `total`, the list ends at
    /// an empty page: a page that is not full proves nothing, since services cap the page size.
    fn next(&self, paging: &Paging, inputs: &Map, body: &Value) -> Option<i64> {
        let count = items_of(paging, body).map_or(0, |items| items.len());
        if count == 0 {
            return None;
        }
        if let Some(path) = &self.more
            && value_at_path(body, path).and_then(|more| more.as_bool()) != Some(true)
        {
            return None;
        }
        let total = self.total.as_ref().and_then(|path| number(&value_at_path(body, path)?));
        let at = inputs.get(&paging.input).and_then(number);
        let (next, end) = match self.unit {
            Unit::Page { first } => {
                (at.unwrap_or(first).checked_add(1)?, total.map(|total| total.saturating_add(first)))
            }
            Unit::Offset => (at.unwrap_or(0).checked_add(i64::try_from(count).ok()?)?, total),
        };
        end.is_none_or(|end| next < end).then_some(next)
    }
}

/// Returns a number, also from the text form of a cursor.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// True if the pages of a list have numbers or offsets, so that only their content shows if there are more.
pub(crate) fn is_counted(paging: &Paging) -> bool {
    matches!(paging.style, PagingStyle::NumberedPages(_))
}

/// Returns the items of a page; `None` if the response has no list there.
pub(crate) fn items_of(paging: &Paging, body: &Value) -> Option<Vec<Value>> {
    let found = match (body, &paging.items) {
        (Value::List(_), _) => body.clone(),
        (_, path) => value_at_path(body, path.as_deref().unwrap_or_else(|| default_items(paging)))?,
    };
    found.as_list().map(<[Value]>::to_vec)
}

fn default_items(paging: &Paging) -> &'static str {
    if matches!(paging.style, PagingStyle::GraphQl) { NODES } else { ITEMS }
}

/// Replaces the items of a response.
pub(super) fn with_items(paging: &Paging, body: Value, items: Vec<Value>) -> Value {
    fn put(body: Value, path: &str, items: Value) -> Value {
        let Value::Map(map) = body else { return body };
        let mut map = Arc::unwrap_or_clone(map);
        match path.split_once('.') {
            Some((key, rest)) => {
                let inner = map.get(key).cloned().unwrap_or_default();
                map.insert(key, put(inner, rest, items));
            }
            None => {
                map.insert(path, items);
            }
        }
        Value::from(map)
    }
    match body {
        Value::List(_) => Value::from(items),
        body => {
            put(body, paging.items.as_deref().unwrap_or_else(|| default_items(paging)), Value::from(items))
        }
    }
}

/// Adds the cursor to the result of a list. A bare list becomes `results` in a map.
pub(super) fn put_cursor(body: Value, cursor: Value) -> Value {
    match body {
        Value::Map(map) => {
            let mut map = Arc::unwrap_or_clone(map);
            map.insert("nextCursor", cursor);
            Value::from(map)
        }
        list @ Value::List(_) => {
            Value::from([("results", list), ("nextCursor", cursor)].into_iter().collect::<Map>())
        }
        other => other,
    }
}

/// Returns the type of the result of [`put_cursor`].
pub(super) fn with_cursor(kind: ResultType) -> ResultType {
    let cursor = ResultField::new("nextCursor", ResultType::Text.or_null())
        .with_description("Where to go on: the cursor of the next call, or null after the last.");
    match kind {
        ResultType::Object(object) => {
            let mut object = Arc::unwrap_or_clone(object);
            object.fields.retain(|field| field.name != cursor.name);
            object.fields.push(cursor);
            ResultType::Object(Arc::new(object))
        }
        list @ ResultType::List { .. } => {
            let results = ResultField::new("results", list);
            ResultType::Object(Arc::new(ObjectType {
                fields: vec![results, cursor],
                ..ObjectType::default()
            }))
        }
        other => other,
    }
}

fn find_cursor(next: &Next, paging: &Paging, response: &Response, body: &Value) -> Option<String> {
    let text = match &next.source {
        NextSource::Body(path) | NextSource::BodyLink(path) => plain_text(&value_at_path(body, path)?)?,
        NextSource::LastItem(path) => plain_text(&value_at_path(items_of(paging, body)?.last()?, path)?)?,
        NextSource::Link(relation) => {
            let headers = response.headers.get_all("link").iter();
            headers.filter_map(|value| value.to_str().ok()).find_map(|text| link(text, relation))?
        }
        NextSource::Header(name) => response.header(name)?.trim().to_owned(),
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the text of a text or a number.
fn plain_text(value: &Value) -> Option<String> {
    matches!(value, Value::String(_) | Value::Number(_)).then(|| value.to_text().to_string())
}

/// Returns the value of a query parameter, split at its first `=` only, because cursors may end in unescaped `=`.
fn parameter_of(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(key, _)| decode(key) == name)
        .map(|(_, value)| decode(value))
        .filter(|value| !value.is_empty())
}

/// Returns the target of the `Link` header entry with this relation.
fn link(text: &str, relation: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let (address, after) = after.split_once('>')?;
        let end = entry_end(after);
        let relations = after[..end].split(';').filter_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("rel").then(|| value.trim().trim_matches('"'))
        });
        let is_it =
            |value: &str| value.split_ascii_whitespace().any(|one| one.eq_ignore_ascii_case(relation));
        if relations.into_iter().any(is_it) {
            return Some(address.trim().to_owned());
        }
        rest = &after[end..];
    }
    None
}

/// Returns the end of an entry: the first comma outside quotes.
fn entry_end(text: &str) -> usize {
    let mut quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_link_header_yields_the_url_of_the_relation() {
        let text =
            r#"</wiki/api/v2/pages?cursor=A,B==&limit=25>; rel="next", <https://x.example/wiki>; rel="base""#;
        assert_eq!(link(text, "next").as_deref(), Some("/wiki/api/v2/pages?cursor=A,B==&limit=25"));
        assert_eq!(link(text, "base").as_deref(), Some("https://x.example/wiki"));
        assert_eq!(link(text, "prev"), None);
        assert_eq!(link(r#"<a>; title="x, <b>; rel=next"; REL=next"#, "next").as_deref(), Some("a"));
        assert_eq!(link(r#"<a>; rel="prev next""#, "next").as_deref(), Some("a"));
        assert_eq!(link("<a; rel=next", "next"), None);
    }

    #[test]
    fn a_cursor_is_read_whole_at_any_position_of_the_query() {
        assert_eq!(parameter_of("cursor=ey+A/==&limit=1", "cursor").as_deref(), Some("ey+A/=="));
        assert_eq!(parameter_of("limit=1&cursor=a%3D%26b", "cursor").as_deref(), Some("a=&b"));
        assert_eq!(parameter_of("limit=1&xcursor=a", "cursor"), None);
        assert_eq!(parameter_of("cursor=", "cursor"), None);
    }

    proptest! {
        #[test]
        fn no_link_header_makes_the_parser_panic(text in "[<>;,\"= a-z]{0,40}") {
            let _ = link(&text, "next");
        }
    }
}
