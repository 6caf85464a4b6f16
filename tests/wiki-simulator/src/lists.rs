//! Lists: filters and orders per kind of content, pages with a cursor, and the links to the next page.
//!
//! A cursor names the last entry of a page, so that writes between two calls neither repeat nor skip other entries.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::{ApiError, Call, Query, Reply, check_word, parse_id};
use super::model::{Body, Content, Kind, State};

const MAX_LIMIT: usize = 250;
/// The page of a list without `limit`.
pub(super) const DEFAULT_LIMIT: usize = 25;

/// The values that a filter takes: at most this many ids or texts, one text, one text that no value of an entry may equal, or
/// words of a closed set.
enum Accepts {
    Ids(usize),
    Texts(usize),
    Text,
    Not,
    Words(&'static [&'static str]),
}
use Accepts::{Ids, Not, Text, Texts, Words};

/// A query parameter, which names a column; the values that it takes, and its values when it is absent.
type Filter = (&'static str, Accepts, &'static [&'static str]);

/// The list of a kind of content: its filters, the columns that it can be sorted by, and the default of `limit`.
type List = (&'static [Filter], &'static [&'static str], usize);

const SHOWN: &[&str] = &["current", "archived"];
const SPACE_TYPES: &[&str] =
    &["global", "collaboration", "knowledge_base", "personal", "system", "onboarding", "xflow_sample_space"];
static PAGES: List = (
    &[
        ("id", Ids(250), &[]),
        ("space-id", Ids(100), &[]),
        ("status", Words(&["current", "archived", "deleted", "trashed"]), SHOWN),
        ("title", Text, &[]),
        ("depth", Words(&["all", "root"]), &[]),
        ("subtype", Words(&["live", "page"]), &[]),
    ],
    &["id", "created-date", "modified-date", "title"],
    DEFAULT_LIMIT,
);
static ATTACHMENTS: List = (
    &[
        ("status", Words(&["current", "archived", "trashed"]), SHOWN),
        ("mediaType", Text, &[]),
        ("filename", Text, &[]),
    ],
    &["created-date", "modified-date"],
    50,
);
static SPACES: List = (
    &[
        ("ids", Ids(250), &[]),
        ("keys", Texts(250), &[]),
        ("type", Words(SPACE_TYPES), &[]),
        ("status", Words(SHOWN), &[]),
        ("labels", Texts(250), &[]),
        ("favorited-by", Text, &[]),
        ("not-favorited-by", Not, &[]),
    ],
    &["id", "key", "name"],
    DEFAULT_LIMIT,
);

/// The values of a column: filters compare all of them, orders the first.
fn column(content: &Content, name: &str) -> Vec<String> {
    let text = |text: &str| vec![text.to_owned()];
    let latest = content.latest().map(|revision| (&revision.version, &revision.body));
    match (name, latest) {
        ("id" | "ids", _) => text(&content.id.to_string()),
        ("space-id", _) => text(&content.space.to_string()),
        ("status", _) => text(content.status.name()),
        ("title" | "name" | "filename", _) => text(content.title()),
        ("key" | "keys", _) => text(&content.key),
        ("type", _) => text(&content.subtype),
        ("subtype", _) => text("page"),
        ("depth", _) if content.parent.is_none() => vec!["root".to_owned(), "all".to_owned()],
        ("depth", _) => text("all"),
        ("labels", _) => {
            content.labels.iter().map(|label| label["name"].as_str().unwrap_or_default().to_owned()).collect()
        }
        ("favorited-by" | "not-favorited-by", _) => content.favourites.clone(),
        ("created-date", _) => text(&content.created_at.to_string()),
        ("modified-date", Some((version, _))) => text(&version.created_at.to_string()),
        ("mediaType", Some((_, Body::File { media_type, .. }))) => text(media_type),
        _ => Vec::new(),
    }
}

/// The values that a filter asks for; none when it is absent and has no default.
fn wanted(query: &Query, (name, accepts, default): &Filter) -> Result<Vec<String>, ApiError> {
    let mut values = match accepts {
        Text | Not => query.get(name).into_iter().collect(),
        _ => query.array(name),
    };
    if values.is_empty() {
        values.extend(*default);
    }
    if let Ids(most) | Texts(most) = accepts
        && values.len() > *most
    {
        return Err(ApiError::bad_parameter(format!("The parameter '{name}' takes at most {most} values")));
    }
    let check = |value: &str| match accepts {
        Ids(_) => parse_id(Kind::Page, name, value).map(|id| id.to_string()),
        Words(words) => check_word(name, value, words).map(str::to_owned),
        _ => Ok(value.to_owned()),
    };
    values.into_iter().map(check).collect()
}

impl State {
    /// Lists the content of the kind in the last segment of the path, of the whole wiki or inside of what precedes it.
    pub(super) fn list(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (query, nested) = (&call.query, call.segments.len() > 1);
        let kind = Kind::of_path(call.segment(if nested { 2 } else { 0 })).unwrap_or_default();
        let (filters, columns, default_limit) = match kind {
            Kind::Space => &SPACES,
            Kind::Attachment => &ATTACHMENTS,
            _ => &PAGES,
        };
        let within = if nested { Some((call.kind()?, call.id()?)) } else { None };
        let order = Order::parse(query, columns)?;
        let (format, icon) = (self.format(query, kind, false)?, query.flag("include-icon", false)?);
        let wanted = filters.iter().map(|filter| Ok((filter, wanted(query, filter)?)));
        let mut wanted = wanted.collect::<Result<Vec<_>, ApiError>>()?;
        wanted.retain(|(_, values)| !values.is_empty());
        if let Some((kind, id)) = within {
            self.find(kind, id)?;
        }
        let passes = |content: &&Content| {
            let inside = match within {
                Some((Kind::Space, id)) => content.space == id,
                Some((_, id)) => content.parent == Some(id),
                // Attachments in the trash with their page are found through the page only.
                None => kind != Kind::Attachment || content.parent.is_none_or(|id| !self.is_trashed(id)),
            };
            let matches = |((name, accepts, _), values): &(&Filter, Vec<String>)| {
                column(content, name).iter().any(|value| values.contains(value)) != matches!(accepts, Not)
            };
            inside && wanted.iter().all(matches)
        };
        let key = |content: &Content| match order.column() {
            "id" => (String::new(), content.id),
            name => (column(content, name).into_iter().next().unwrap_or_default(), content.id),
        };
        let entries = self.of_kind(kind).filter(passes).map(|content| (key(content), content)).collect();
        let (entries, next) = page_of(entries, &order, query, *default_limit)?;
        let shapes = entries.into_iter().filter_map(|content| {
            Some(self.shape(content, content.status.name(), content.latest()?, format, icon))
        });
        Ok(self.list_reply(call, &shapes.collect::<Vec<_>>(), next.as_deref()))
    }

    /// Writes a page of a list with its links, in the body and in the `Link` header. They are relative to the site also
    /// on the gateway, and keep the other parameters of the query.
    pub(super) fn list_reply(&self, call: &Call, results: &[impl Serialize], next: Option<&str>) -> Reply {
        let old = self.switches.old_next_links;
        let path = if old { call.path.strip_prefix("/wiki").unwrap_or(&call.path) } else { &call.path };
        let next = next.map(|cursor| {
            let others: String = call.query.raw_without("cursor").map(|pair| format!("&{pair}")).collect();
            format!("{path}?cursor={cursor}{others}")
        });
        let base = format!("{}/wiki", self.base_url);
        let mut links = json!({"base": base});
        let mut header = format!("<{base}>; rel=\"base\"");
        if let Some(next) = next {
            header = format!("<{next}>; rel=\"next\", {header}");
            links["next"] = next.into();
        }
        #[derive(Serialize)]
        struct Page<'a, T> {
            results: &'a [T],
            _links: Value,
        }
        let mut reply = Reply::ok(&Page { results, _links: links });
        reply.set("link", &header);
        reply
    }
}

/// The order of a list: a column, with a leading `-` when it is descending.
pub(super) struct Order(String);

impl Order {
    pub(super) fn parse(query: &Query, columns: &[&str]) -> Result<Self, ApiError> {
        let order = Self(query.get("sort").unwrap_or("id").to_owned());
        if query.get("sort").is_some() {
            check_word("sort", order.column(), columns)?;
        }
        Ok(order)
    }

    pub(super) fn column(&self) -> &str {
        self.0.strip_prefix('-').unwrap_or(&self.0)
    }

    fn compare(&self, left: &Key, right: &Key) -> std::cmp::Ordering {
        if self.0.starts_with('-') { right.cmp(left) } else { left.cmp(right) }
    }
}

/// The place of an entry in a list: the value that the list is sorted by, and the id.
type Key = (String, u64);

/// A cursor: base64 of a JSON object, as observed on the real service.
fn cursor_after(order: &Order, (value, id): &Key) -> String {
    let cursor = json!({"id": id.to_string(), "contentOrder": order.0, "contentOrderValue": value});
    // The URL-safe alphabet: the real cursors leave only their padding unescaped.
    URL_SAFE.encode(cursor.to_string())
}

fn read_cursor(text: &str, order: &Order) -> Option<Key> {
    let cursor: Value = serde_json::from_slice(&URL_SAFE.decode(text).ok()?).ok()?;
    let value = cursor["contentOrderValue"].as_str().filter(|_| cursor["contentOrder"] == *order.0)?;
    Some((value.to_owned(), cursor["id"].as_str()?.parse().ok()?))
}

/// The page of a list that `limit` and `cursor` name, and the cursor of the next one.
pub(super) fn page_of<T>(
    mut entries: Vec<(Key, T)>,
    order: &Order,
    query: &Query,
    default_limit: usize,
) -> Result<(Vec<T>, Option<String>), ApiError> {
    let limit = query.number("limit")?.map_or(default_limit, |limit| usize::try_from(limit).unwrap_or(0));
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::bad_parameter(format!("'limit' must be from 1 to {MAX_LIMIT}")));
    }
    if let Some(text) = query.get("cursor") {
        let detail = Some("Start paging again without a cursor, then follow the next links");
        let bad = || ApiError { detail, ..ApiError::wrong_type("cursor", text, "cursor") };
        let after = read_cursor(text, order).ok_or_else(bad)?;
        entries.retain(|(key, _)| order.compare(key, &after).is_gt());
    }
    entries.sort_by(|(left, _), (right, _)| order.compare(left, right));
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| more).map(|(key, _)| cursor_after(order, key));
    Ok((entries.into_iter().map(|(_, entry)| entry).collect(), next))
}
