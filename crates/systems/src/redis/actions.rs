//! The actions.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use connector::{Call, MessageSource, SourceOptions};
use model::{ActionError, ErrorKind};
use redis::{Cmd, Value as Reply, cmd};
use value::{Data, File, JsonLimits, Map, Value};

use super::entry::BODY;
use super::group::Groups;
use super::link::{Link, integer_of, text_of, unexpected};
use super::reply::MAX_VALUE;
use super::source::Source;
use super::{Kind, SUBJECT};
use crate::convert::input_error;
use crate::spec::period_of;
use crate::stream::body::bytes_of;
use crate::stream::family::{Family, Target};
use crate::stream::links::{Links, refused};

/// The client.
#[derive(Default)]
pub(super) struct Redis {
    links: Links<Link>,
    groups: Arc<Groups>,
}

#[async_trait]
impl Family<Kind> for Redis {
    fn check(&self, kind: Kind, inputs: &Map) -> Result<(), ActionError> {
        let is_given = |name: &str| inputs.get(name).is_some_and(|value| !value.is_null());
        let has_body = |fields: &Value| fields.as_map().is_some_and(|fields| fields.contains_key(BODY));
        match kind {
            Kind::Set => lifetime(inputs).map(drop),
            Kind::Add if is_given("body") && inputs.get("fields").is_some_and(has_body) => {
                Err(input_error("`fields.body` and `body` are the same field: give one of them"))
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, kind: Kind, call: &Call<'_>, target: Target<'_>) -> Result<Value, ActionError> {
        let step = async |link: &Link| match kind {
            Kind::Add => add(link, call).await,
            Kind::Get => get(link, call).await,
            Kind::Set => set(link, call).await,
            Kind::Delete => {
                let deleted = change(link, call, command("DEL", &[key(call)])).await?;
                Ok(result([("deleted", Value::from(integer_of(&deleted)? > 0))]))
            }
            Kind::Increment => {
                let mut add = command("INCRBY", &[key(call)]);
                add.arg(call.inputs.get("by").and_then(|by| by.as_i64()).unwrap_or(1));
                let value = change(link, call, add).await?;
                Ok(result([("value", Value::from(integer_of(&value)?))]))
            }
            Kind::ServerInfo => server_info(link).await,
        };
        self.links.run(target, step).await
    }

    async fn open(&self, options: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError> {
        Ok(Box::new(Source::open(options, self.groups.clone()).await?))
    }
}

fn result<const N: usize>(fields: [(&'static str, Value); N]) -> Value {
    Value::from(Map::from_iter(fields))
}

fn input<'c>(call: &'c Call<'_>, name: &str) -> Option<&'c str> {
    call.inputs.get(name).and_then(|value| value.as_str())
}

fn key<'c>(call: &'c Call<'_>) -> &'c str {
    input(call, "key").unwrap_or_default()
}

pub(super) fn command(name: &str, arguments: &[&str]) -> Cmd {
    let mut command = cmd(name);
    for argument in arguments {
        command.arg(*argument);
    }
    command
}

/// Sends a command that changes something.
async fn change(link: &Link, call: &Call<'_>, command: Cmd) -> Result<Reply, ActionError> {
    // The process may have been frozen, and another one may have the execution now.
    call.http.dialer().pass_gate().await;
    link.change(&command).await
}

/// The bytes of an input, which is a value or the body of an entry.
async fn value_of(call: &Call<'_>, name: &str) -> Result<Bytes, ActionError> {
    let bytes = bytes_of(call, name).await?;
    if bytes.len() > MAX_VALUE {
        return Err(too_large(&format!("`{name}`"), bytes.len()));
    }
    Ok(bytes)
}

fn too_large(subject: &str, size: impl std::fmt::Display) -> ActionError {
    let message = format!("{subject} has {size} bytes, and at most {MAX_VALUE} are read and written");
    ActionError::new(ErrorKind::Limit, message)
}

async fn add(link: &Link, call: &Call<'_>) -> Result<Value, ActionError> {
    let body = call.inputs.get("body").filter(|body| !body.is_null());
    let fields = call.inputs.get("fields").and_then(Value::as_map);
    if body.is_none() && fields.is_none_or(Map::is_empty) {
        return Err(input_error("an entry needs `body` or `fields`"));
    }
    let mut add = command("XADD", &[input(call, "stream").unwrap_or_default()]);
    if let Some(most) = call.inputs.get("maxLength").and_then(|most| most.as_i64()) {
        add.arg("MAXLEN").arg("~").arg(most);
    }
    add.arg("*");
    let mut size = 0_usize;
    for (name, value) in fields.into_iter().flat_map(Map::iter) {
        let text = value.to_text();
        size = size.saturating_add(name.len()).saturating_add(text.len());
        add.arg(name.as_str()).arg(text);
    }
    if body.is_some() {
        let body = value_of(call, "body").await?;
        size = size.saturating_add(body.len());
        add.arg(BODY).arg(&*body);
    }
    if size > MAX_VALUE {
        return Err(too_large("the entry", size));
    }
    Ok(result([("id", Value::from(text_of(change(link, call, add).await?)?))]))
}

async fn get(link: &Link, call: &Call<'_>) -> Result<Value, ActionError> {
    let key = key(call);
    let size = integer_of(&link.ask(&command("STRLEN", &[key])).await?)?;
    let size = usize::try_from(size).map_err(|_| unexpected())?;
    if size > MAX_VALUE {
        return Err(too_large(&format!("the value of `{key}`"), size));
    }
    call.answers.arriving(size).await;
    let value = match link.ask(&command("GET", &[key])).await? {
        Reply::Nil => return Ok(result([("found", Value::from(false)), ("value", Value::Null)])),
        Reply::BulkString(value) => value,
        // It has grown since.
        Reply::Array(_) => return Err(too_large(&format!("the value of `{key}`"), "too many")),
        _ => return Err(unexpected()),
    };
    let wrong = |form: &str, error: &dyn std::fmt::Display| {
        refused(format!("the value of `{key}` is not the {form} that `parse: {form}` asks for: {error}"))
    };
    let value = match input(call, "parse") {
        Some("file") => Value::from(File {
            content_type: "application/octet-stream".into(),
            filename: None,
            data: Data::from(Bytes::from(value)),
        }),
        Some("json") => {
            call.answers.arrived(value.len().saturating_mul(4)).await;
            Value::from_json(&value, JsonLimits::default()).map_err(|error| wrong("json", &error))?
        }
        _ => Value::from(String::from_utf8(value).map_err(|error| wrong("text", &error))?),
    };
    Ok(result([("found", Value::from(true)), ("value", value)]))
}

async fn set(link: &Link, call: &Call<'_>) -> Result<Value, ActionError> {
    let value = value_of(call, "value").await?;
    let mut set = command("SET", &[key(call)]);
    set.arg(&*value);
    if let Some(time) = lifetime(call.inputs)? {
        set.arg("PX").arg(time);
    }
    match input(call, "onlyIf") {
        Some("missing") => drop(set.arg("NX")),
        Some("exists") => drop(set.arg("XX")),
        _ => {}
    }
    let stored = change(link, call, set).await?;
    Ok(result([("stored", Value::from(stored != Reply::Nil))]))
}

/// The `ttl`, in milliseconds.
fn lifetime(inputs: &Map) -> Result<Option<u64>, ActionError> {
    let Some(time) = period_of(inputs, "ttl")? else { return Ok(None) };
    let milliseconds = u64::try_from(time.as_millis()).ok().filter(|time| *time > 0);
    milliseconds.map(Some).ok_or_else(|| input_error("`ttl` must be at least 1ms"))
}

async fn server_info(link: &Link) -> Result<Value, ActionError> {
    let info = text_of(link.ask(&command("INFO", &["server"])).await?)?;
    let line = |name: &str| {
        let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.map(|value| value.chars().take(100).collect::<String>())
    };
    // Valkey tells the version of Redis that it is compatible with beside its own.
    let (product, version) = match line("valkey_version") {
        Some(version) => ("valkey", Some(version)),
        None => ("redis", line("redis_version")),
    };
    let version = version.ok_or_else(|| refused(format!("{SUBJECT} tells no version")))?;
    Ok(result([("product", Value::from(product)), ("version", Value::from(version))]))
}
