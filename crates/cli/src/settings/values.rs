//! Parses the values of settings from text, as in variables and flags.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use text::diagnostic::{Diagnostics, nearest};
use text::yaml::Node;

/// The value of a setting.
pub(super) struct Values<'a> {
    /// The single value, or the values of a list.
    pub(super) items: &'a [String],
    /// The folder that paths are relative to.
    pub(super) base: &'a Path,
    /// The value in the file, for a setting with a structure.
    pub(super) node: Option<(&'a Node, &'a Diagnostics)>,
}

impl Values<'_> {
    pub(super) fn one(&self) -> Result<&str, String> {
        match self.items {
            [value] if !value.trim().is_empty() => Ok(value.trim()),
            [] | [_] => Err("it has no value".to_owned()),
            _ => Err("it takes one value".to_owned()),
        }
    }
}

/// Any text.
pub(super) fn text(values: &Values<'_>) -> Result<String, String> {
    values.one().map(str::to_owned)
}

/// `host:port` with an IP address or `localhost`, or only a port on the loopback address.
pub(super) fn address(values: &Values<'_>) -> Result<SocketAddr, String> {
    let text = values.one()?;
    let own = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    port.parse().map(own).map_err(|_| {
        format!("`{text}` is no address to listen on; write `127.0.0.1:7070`, `[::1]:7070`, `localhost:7070` or `7070`")
    })
}

/// An address at which a wildcard listener is reachable from this machine.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}

/// A URL that begins with `http://` or `https://`, without query or fragment; a trailing slash is removed.
pub(super) fn url(values: &Values<'_>) -> Result<String, String> {
    let text = values.one()?;
    let host = authority(text);
    let strange = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '@' | '\\');
    if host.is_none_or(str::is_empty) || text.contains(strange) {
        return Err(format!("`{text}` is no base of addresses; write `https://hooks.example.com`"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// The host of a URL with its port.
fn authority(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    rest.split('/').next()
}

/// The host of a URL, without its port.
pub(super) fn host(url: &str) -> Option<&str> {
    let authority = authority(url)?;
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    authority.get(..end)
}

/// A path.
pub(super) fn path(values: &Values<'_>) -> Result<PathBuf, String> {
    Ok(values.base.join(values.one()?))
}

/// The location of a store: a path, or `sqlite:PATH`.
pub(super) fn store(values: &Values<'_>) -> Result<engine::stores::Location, String> {
    engine::stores::Location::parse(values.one()?, values.base).map_err(|error| error.to_string())
}

/// One of these keywords.
pub(super) fn word<T: Copy>(values: &Values<'_>, words: &[(&str, T)]) -> Result<T, String> {
    let text = values.one()?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let near = nearest(text, words.iter().map(|(word, _)| *word));
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let all: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        format!("`{text}` is none of {}{near}", all.join(", "))
    })
}

/// The log levels.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Log levels: one, or a list of `part=level`. An unknown level would be taken for a part and switch the rest
/// off.
pub(super) fn log_level(values: &Values<'_>) -> Result<String, String> {
    let text = values.one()?;
    for directive in text.split(',').map(str::trim) {
        let (part, level) = directive.rsplit_once('=').unwrap_or(("part", directive));
        if part.is_empty() || !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            let near =
                nearest(level, LEVELS).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return Err(format!(
                "`{directive}` is no log level; write error, warn, info, debug or trace, also by part (`info,engine=debug`){near}"
            ));
        }
    }
    Ok(text.to_owned())
}

/// `true` or `false`.
pub(super) fn truth(values: &Values<'_>) -> Result<bool, String> {
    word(values, &[("true", true), ("false", false)])
}

/// A whole number of at least `least`.
pub(super) fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    values: &Values<'_>,
    least: T,
) -> Result<T, String> {
    let text = values.one()?;
    let found: Option<T> = text.parse().ok();
    found
        .filter(|number| *number >= least)
        .ok_or_else(|| format!("`{text}` is no whole number from {least} on"))
}

/// A whole number in a range.
pub(super) fn number_within(
    values: &Values<'_>,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, String> {
    let number = number(values, *range.start())?;
    let most = range.end();
    if number > *most { Err(format!("`{number}` is more than {most}")) } else { Ok(number) }
}

/// A size: `16MiB`.
pub(super) fn size<T: TryFrom<u64>>(values: &Values<'_>) -> Result<T, String> {
    let text = values.one()?;
    let bytes = text::units::parse_size(text).map_err(|error| error.to_string())?;
    T::try_from(bytes).ok().filter(|_| bytes > 0).ok_or_else(|| format!("`{text}` is out of range"))
}

/// Names of hosts, or their addresses, without a port.
pub(super) fn names(values: &Values<'_>) -> Result<Vec<String>, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '[' | ']' | ':');
    let wrong = values.items.iter().find(|name| name.is_empty() || !name.chars().all(plain));
    match wrong {
        Some(name) => Err(format!("`{name}` is no name of a host; write `cogwork.internal`")),
        None => Ok(values.items.to_vec()),
    }
}

/// Names of environment variables, or prefixes with `*` at the end.
pub(super) fn variables(values: &Values<'_>) -> Result<Vec<String>, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_wrong = |name: &&String| {
        let name = name.strip_suffix('*').unwrap_or(name);
        name.is_empty() || !name.chars().all(plain)
    };
    if let Some(name) = values.items.iter().find(is_wrong) {
        return Err(format!(
            "`{name}` is no name of a variable; write `SERVICE_URL`, or `SHOP_*` for a prefix"
        ));
    }
    match values.items.iter().find(|name| catalog::is_own_variable(name)) {
        Some(name) => Err(format!("`{name}` belongs to Cogwork itself, and files never read it")),
        None => Ok(values.items.to_vec()),
    }
}

/// Addresses, networks and names of hosts.
pub(super) fn allow_list(values: &Values<'_>) -> Result<Vec<String>, String> {
    connector::AllowList::parse(values.items.iter().map(String::as_str))
        .map_err(|error| error.to_string())?;
    Ok(values.items.to_vec())
}
