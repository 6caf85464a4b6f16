//! The actions.

use async_nats::header::{HeaderMap, HeaderName, HeaderValue, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_trait::async_trait;
use bytes::Bytes;
use connector::{Call, MessageSource, SourceOptions};
use model::{ActionError, ErrorKind};
use std::str::FromStr as _;
use value::{Map, Value};

use super::client::Link;
use super::source::Source;
use super::{Kind, SUBJECT};
use crate::stream::body::bytes_of;
use crate::stream::family::{Family, Target};
use crate::stream::links::{Links, network};

/// The client.
#[derive(Default)]
pub(super) struct Nats(Links<Link>);

#[async_trait]
impl Family<Kind> for Nats {
    fn check(&self, kind: Kind, inputs: &Map) -> Result<(), ActionError> {
        if kind != Kind::Publish {
            return Ok(());
        }
        inputs.get("subject").map_or(Ok(()), |subject| check_subject(&subject.to_text()))?;
        headers(inputs.get("headers").and_then(Value::as_map), "").map(drop)
    }

    async fn call(&self, kind: Kind, call: &Call<'_>, target: Target<'_>) -> Result<Value, ActionError> {
        let step = async |link: &Link| match kind {
            Kind::Publish => publish(link, call).await,
            Kind::ServerInfo => {
                let info = link.client.server_info();
                Ok(Value::from(Map::from_iter([
                    ("name", Value::from(info.server_name)),
                    ("version", Value::from(info.version)),
                    ("jetStream", Value::from(info.jetstream)),
                ])))
            }
        };
        Box::pin(self.0.run(target, step)).await
    }

    async fn open(&self, options: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError> {
        Ok(Box::new(Source::open(options).await?))
    }
}

async fn publish(link: &Link, call: &Call<'_>) -> Result<Value, ActionError> {
    let text = |name: &str| call.inputs.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let subject = text("subject").unwrap_or_default();
    let body = bytes_of(call, "body").await?;
    let headers = headers(call.inputs.get("headers").and_then(Value::as_map), call.idempotency_key)?;
    // The process may have been frozen, and another one may have the execution now.
    call.http.dialer().pass_gate().await;
    let sent = send(link, &subject, body, headers).await?;
    Ok(Value::from(Map::from_iter([
        ("stream", Value::from(sent.stream)),
        ("sequence", Value::from(sent.sequence)),
        ("repeated", Value::from(sent.duplicate)),
    ])))
}

/// Refuses a subject with a wildcard, which the server stores as it is, and no subscriber expects.
fn check_subject(subject: &str) -> Result<(), ActionError> {
    let is_wrong = |part: &str| matches!(part, "" | "*" | ">") || part.contains(char::is_whitespace);
    if !subject.split('.').any(is_wrong) {
        return Ok(());
    }
    let message = format!(
        "`subject` is the name of one subject, without `*`, `>`, empty parts and spaces, found `{subject}`"
    );
    Err(ActionError::new(ErrorKind::Input, message))
}

/// Publishes a message and waits until a stream has it.
pub(super) async fn send(
    link: &Link,
    subject: &str,
    body: Bytes,
    headers: HeaderMap,
) -> Result<async_nats::jetstream::publish::PublishAck, ActionError> {
    let message = PublishMessage::build().payload(body).headers(headers);
    let sent = link.jetstream().send_publish(subject.to_owned(), message).await;
    let acked = match sent {
        Ok(sent) => sent.await,
        Err(error) => Err(error),
    };
    acked.map_err(|error| failure(subject, &error))
}

pub(super) fn headers(given: Option<&Map>, key: &str) -> Result<HeaderMap, ActionError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given.into_iter().flat_map(Map::iter) {
        let wrong = |words: &str| ActionError::new(ErrorKind::Input, format!("`headers.{name}` {words}"));
        let header = HeaderName::from_str(name).map_err(|_| wrong("is no name of a header"))?;
        if header == NATS_MESSAGE_ID {
            return Err(wrong("is set by the step: its key is what the server drops repetitions by"));
        }
        let value = HeaderValue::from_str(&value.to_text()).map_err(|_| wrong("has a line break"))?;
        headers.insert(header, value);
    }
    if !key.is_empty() {
        headers.insert(NATS_MESSAGE_ID, key);
    }
    Ok(headers)
}

fn failure(subject: &str, error: &PublishError) -> ActionError {
    match error.kind() {
        PublishErrorKind::StreamNotFound => ActionError::new(
            ErrorKind::Response,
            format!("no stream of {SUBJECT} takes the subject `{subject}`; create one that does"),
        )
        .with_code("no_stream"),
        PublishErrorKind::TimedOut => {
            ActionError::new(ErrorKind::Timeout, format!("{SUBJECT} did not confirm the message in time"))
                .with_outcome_unknown()
        }
        PublishErrorKind::BrokenPipe => network("the connection was lost").with_outcome_unknown(),
        PublishErrorKind::MaxPayloadExceeded => {
            ActionError::new(ErrorKind::Limit, format!("the message is too large for {SUBJECT}: {error}"))
        }
        _ => ActionError::new(ErrorKind::Response, format!("{SUBJECT} refuses the message: {error}")),
    }
}
