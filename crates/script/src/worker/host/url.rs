//! URLs, parsed as in browsers.

use rquickjs::{Ctx, Function, Object, Result};
use url::{Url, form_urlencoded, quirks};

pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    native.set("parseUrl", Function::new(ctx.clone(), parse)?)?;
    native.set("changeUrl", Function::new(ctx.clone(), change)?)?;
    let parse_query = |text: String| -> Vec<Vec<String>> {
        form_urlencoded::parse(text.as_bytes())
            .map(|(key, value)| vec![key.into_owned(), value.into_owned()])
            .collect()
    };
    native.set("parseQuery", Function::new(ctx.clone(), parse_query)?)?;
    let write_query = |pairs: Vec<Vec<String>>| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for pair in &pairs {
            if let [key, value] = &pair[..] {
                query.append_pair(key, value);
            }
        }
        query.finish()
    };
    native.set("writeQuery", Function::new(ctx.clone(), write_query)?)
}

/// The components of a URL, in the order that `js/url.js` reads; `None` if it is invalid.
fn parse(text: String, base: Option<String>) -> Option<Vec<String>> {
    let base = match base {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    Url::options().base_url(base.as_ref()).parse(&text).ok().map(|url| parts(&url))
}

/// The components of a URL after one was set; an invalid value changes nothing, as in browsers.
fn change(href: String, part: String, value: String) -> Option<Vec<String>> {
    let mut url = Url::parse(&href).ok()?;
    match part.as_str() {
        "protocol" => drop(quirks::set_protocol(&mut url, &value)),
        "username" => drop(quirks::set_username(&mut url, &value)),
        "password" => drop(quirks::set_password(&mut url, &value)),
        "host" => drop(quirks::set_host(&mut url, &value)),
        "hostname" => drop(quirks::set_hostname(&mut url, &value)),
        "port" => drop(quirks::set_port(&mut url, &value)),
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" => quirks::set_search(&mut url, &value),
        "hash" => quirks::set_hash(&mut url, &value),
        _ => {}
    }
    Some(parts(&url))
}

fn parts(url: &Url) -> Vec<String> {
    let parts = [
        quirks::href(url),
        &quirks::origin(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ];
    parts.map(str::to_owned).to_vec()
}
