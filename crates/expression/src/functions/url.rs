//! The parts of a URL.

use percent_encoding::percent_decode_str;
use url::Url;
use value::{Map, Value};

use super::arguments::{Arguments, shorten};

/// The longest URL, in bytes.
const MAX_LENGTH: usize = 64 << 10;

/// `parseUrl(url)`: `segments` are decoded; `query` has a list of texts for a name that occurs more than once.
pub(super) fn parse_url(arguments: &Arguments<'_>) -> Result<Value, String> {
    let text = arguments.text("url")?.unwrap_or_default().trim();
    if text.len() > MAX_LENGTH {
        return Err(format!("the URL is longer than {} KiB", MAX_LENGTH >> 10));
    }
    let url = Url::parse(text).map_err(|error| {
        let hint = if text.contains("://") { "" } else { "; a URL begins with a scheme, such as `https://`" };
        format!("`{}` is not a URL: {error}{hint}", shorten(text))
    })?;
    let decode = |part: &str| Value::from(&*percent_decode_str(part).decode_utf8_lossy());
    let segments = url.path_segments().into_iter().flatten().filter(|segment| !segment.is_empty());
    let mut query = Map::new();
    for (name, value) in url.query_pairs() {
        let value = Value::from(&*value);
        match query.get_mut(&name) {
            None => _ = query.insert(&*name, value),
            Some(Value::List(list)) => std::sync::Arc::make_mut(list).0.push(value),
            Some(first) => *first = Value::from(vec![first.clone(), value]),
        }
    }
    let entries: [(&str, Value); 7] = [
        ("scheme", url.scheme().into()),
        ("host", url.host_str().map_or(Value::Null, Value::from)),
        ("port", url.port_or_known_default().map_or(Value::Null, |port| Value::from(i64::from(port)))),
        ("path", url.path().into()),
        ("segments", segments.map(decode).collect()),
        ("query", query.into()),
        ("fragment", url.fragment().map_or(Value::Null, decode)),
    ];
    Ok(Value::from(Map::from_iter(entries)))
}
