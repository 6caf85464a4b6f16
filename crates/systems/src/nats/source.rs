//! Messages for triggers: a durable pull consumer with explicit acknowledgements, each confirmed by the server.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, Info};
use async_nats::jetstream::{self, AckKind};
use async_trait::async_trait;
use bytes::Bytes;
use connector::{Fate, Message, MessageSource, SourceOptions, TakeLimits};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use model::ActionError;
use value::{Map, Value};

use super::SUBJECT;
use super::client::Link;
use super::publish::{headers, send};
use crate::stream::body::{REASON, one_line};
use crate::stream::links::{ANSWER_TIME, Shared as _, network, refused};

/// The time after which the server brings a message again that nothing has settled. A commit takes less.
const ACK_WAIT: Duration = Duration::from_secs(60);

/// An open consumer.
pub(super) struct Source {
    link: Link,
    stream: String,
    /// Tells the stream from one of this name before it was deleted, whose sequences were the same.
    created: String,
    consumer: Consumer<Config>,
    /// The message that [`MessageSource::wait`] has taken.
    first: Option<jetstream::Message>,
    /// The messages that are not settled, by token.
    open: HashMap<u64, jetstream::Message>,
    next_token: u64,
}

impl Source {
    pub(super) async fn open(options: SourceOptions<'_>) -> Result<Self, ActionError> {
        let text = |name: &str| options.inputs.get(name).and_then(|value| value.as_str().map(str::to_owned));
        let (name, durable) = (text("stream").unwrap_or_default(), text("consumer").unwrap_or_default());
        let link = Link::open(options.into()).await?;
        let stream = link.jetstream().get_stream(&name).await.map_err(|error| {
            refused(format!("the stream `{name}` cannot be read from {SUBJECT}: {error}"))
        })?;
        let created = stream.cached_info().created.unix_timestamp_nanos().to_string();
        let subject = text("subject").unwrap_or_default();
        let config = Config {
            durable_name: Some(durable.clone()),
            deliver_policy: if options.from_oldest { DeliverPolicy::All } else { DeliverPolicy::New },
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            filter_subject: subject.clone(),
            ..Config::default()
        };
        let consumer: Consumer<Config> =
            stream.get_or_create_consumer(&durable, config).await.map_err(|error| {
                refused(format!("the consumer `{durable}` of the stream `{name}` cannot be used: {error}"))
            })?;
        let found = &consumer.cached_info().config;
        if found.max_deliver > 0 {
            // A message that waits for room, or for the store, is also delivered again, and counts as a delivery.
            return Err(refused(format!(
                "the consumer `{durable}` gives a message up after {} deliveries (`max_deliver`), before `poison` has it; \
                 give `consumer` another name, or set its `max_deliver` to -1 at {SUBJECT}",
                found.max_deliver
            )));
        }
        if found.ack_policy != AckPolicy::Explicit {
            return Err(refused(format!(
                "the consumer `{durable}` does not acknowledge each message; give `consumer` another name, or delete it at {SUBJECT}"
            )));
        }
        if found.filter_subject != subject {
            return Err(refused(format!(
                "the consumer `{durable}` reads the subject `{}`, and not `{subject}`; give `consumer` another name, or change it at {SUBJECT}",
                found.filter_subject
            )));
        }
        Ok(Self { link, stream: name, created, consumer, first: None, open: HashMap::new(), next_token: 0 })
    }

    /// Asks for at most `count` messages. With `within` it waits for them, else it takes the ones that are there.
    async fn ask(
        &self,
        count: usize,
        bytes: Option<usize>,
        within: Option<Duration>,
    ) -> Result<Vec<jetstream::Message>, ActionError> {
        // 0 is no limit.
        let bytes = bytes.unwrap_or(0);
        let asked = match within {
            Some(within) => {
                self.consumer.batch().max_messages(count).max_bytes(bytes).expires(within).messages().await
            }
            None => self.consumer.fetch().max_messages(count).max_bytes(bytes).messages().await,
        };
        let mut asked = asked.map_err(|error| self.failed(&error.to_string()))?;
        let (longest, mut messages) = (within.unwrap_or_default().saturating_add(ANSWER_TIME), Vec::new());
        while let Some(message) = self.answer(&mut asked, longest).await {
            match message {
                Ok(message) => messages.push(message),
                // The messages that came are kept; the next request tells the error.
                Err(_) if !messages.is_empty() => break,
                Err(reason) => return Err(self.failed(&reason)),
            }
        }
        self.link.check()?;
        Ok(messages)
    }

    /// Waits for the next message of a request; `None` behind the last one. A request of which the server knows nothing any more, as after a
    /// change of the leader in its cluster, has no answer.
    async fn answer(
        &self,
        asked: &mut Batch,
        longest: Duration,
    ) -> Option<Result<jetstream::Message, String>> {
        tokio::select! {
            biased;
            next = asked.next() => next.map(|message| message.map_err(|error| error.to_string())),
            () = self.link.lost() => Some(Err("the connection was lost".to_owned())),
            () = tokio::time::sleep(longest) => Some(Err("it does not answer".to_owned())),
        }
    }

    fn failed(&self, reason: &str) -> ActionError {
        let about =
            format!("messages of the stream `{}` cannot be read from {SUBJECT}: {reason}", self.stream);
        if self.link.is_usable() { refused(about) } else { network(&about) }
    }

    fn message(&mut self, taken: jetstream::Message) -> Result<Message, ActionError> {
        let info = taken.info().map_err(|error| self.failed(&error.to_string()))?;
        let token = self.next_token;
        let message = Message {
            token,
            id: format!("{}@{}:{}", info.stream, self.created, info.stream_sequence),
            is_identified: true,
            source: info.stream.to_owned(),
            key: Some(taken.subject.to_string()),
            body: taken.payload.clone(),
            headers: taken.headers.as_ref().map(header_map).unwrap_or_default(),
            properties: Map::from_iter([
                ("sequence", Value::from(info.stream_sequence)),
                ("deliveries", Value::from(info.delivered)),
            ]),
            at: Timestamp::from_nanosecond(info.published.unix_timestamp_nanos()).ok(),
            redelivered: info.delivered > 1,
        };
        self.next_token += 1;
        self.open.insert(token, taken);
        Ok(message)
    }

    /// Sends an acknowledgement, and with `is_confirmed` waits until the server has taken it.
    async fn acknowledge(&self, reply: &str, kind: AckKind, is_confirmed: bool) -> Result<(), ActionError> {
        let (reply, payload) = (reply.to_owned(), Bytes::from(kind));
        let sent = if is_confirmed {
            tokio::select! {
                biased;
                sent = self.link.client.request(reply, payload) => sent.map(drop).map_err(|error| error.to_string()),
                () = self.link.lost() => Err("the connection was lost".to_owned()),
            }
        } else {
            self.link.client.publish(reply, payload).await.map_err(|error| error.to_string())
        };
        sent.map_err(|error| network(&format!("{SUBJECT} did not confirm an acknowledgement: {error}")))
    }
}

#[async_trait]
impl MessageSource for Source {
    async fn wait(&mut self, longest: Duration) -> Result<bool, ActionError> {
        if self.first.is_none() {
            self.link.check()?;
            self.first = self.ask(1, None, Some(longest)).await?.pop();
        }
        Ok(self.first.is_some())
    }

    async fn take(&mut self, limits: TakeLimits) -> Result<Vec<Message>, ActionError> {
        self.link.check()?;
        let mut taken = Vec::from_iter(self.first.take());
        let mut left = limits.bytes.saturating_sub(size(&taken));
        if taken.len() < limits.messages && left > 0 {
            let more = self.ask(limits.messages - taken.len(), Some(left), None).await;
            // A message that was taken starts an execution all the same.
            taken.extend(if taken.is_empty() { more? } else { more.unwrap_or_default() });
            left = limits.bytes.saturating_sub(size(&taken));
        }
        if taken.len() < limits.messages && left > 0 && !limits.fill.is_zero() {
            let count = limits.messages - taken.len();
            taken.extend(self.ask(count, Some(left), Some(limits.fill)).await.unwrap_or_default());
        }
        taken.into_iter().map(|message| self.message(message)).collect()
    }

    async fn settle(&mut self, fates: Vec<(u64, Fate)>) -> Result<(), ActionError> {
        let taken: Vec<_> =
            fates.into_iter().filter_map(|(token, fate)| Some((self.open.remove(&token)?, fate))).collect();
        let settled = taken.iter().filter_map(|(message, fate)| {
            let reply = message.reply.as_ref()?;
            Some(match fate {
                Fate::Done => self.acknowledge(reply, AckKind::Ack, true),
                Fate::Later(pause) => self.acknowledge(reply, AckKind::Nak(Some(*pause)), false),
            })
        });
        try_join_all(settled).await.map(drop)
    }

    async fn forward(
        &mut self,
        to: &str,
        message: &Message,
        key: &str,
        reason: &str,
    ) -> Result<(), ActionError> {
        let mut copy =
            self.open.get(&message.token).and_then(|taken| taken.headers.clone()).unwrap_or_default();
        for (name, values) in headers(None, key)?.iter() {
            values.iter().for_each(|value| copy.insert(name.clone(), value.clone()));
        }
        copy.insert(REASON, one_line(reason).as_str());
        send(&self.link, to, message.body.clone(), copy).await.map(drop)
    }

    async fn lag(&mut self) -> Result<Option<u64>, ActionError> {
        self.link.check()?;
        let open = u64::try_from(self.open.len()).unwrap_or(u64::MAX);
        let info = self.consumer.info().await.map_err(|error| error.to_string());
        // With the messages that a consumer that has ended took: they come again after `ACK_WAIT`.
        let waiting = |info: &Info| {
            let elsewhere = u64::try_from(info.num_ack_pending).unwrap_or_default().saturating_sub(open);
            info.num_pending.saturating_add(elsewhere)
        };
        info.map(|info| Some(waiting(info))).map_err(|reason| self.failed(&reason))
    }

    async fn release(&mut self) {
        let held: Vec<_> =
            self.first.take().into_iter().chain(self.open.drain().map(|(_, message)| message)).collect();
        if held.is_empty() || self.link.check().is_err() {
            return;
        }
        for reply in held.iter().filter_map(|message| message.reply.as_ref()) {
            // Else they come again after `ACK_WAIT`.
            drop(self.acknowledge(reply, AckKind::Nak(None), false).await);
        }
        drop(tokio::time::timeout(ANSWER_TIME, self.link.client.flush()).await);
    }
}

fn size(messages: &[jetstream::Message]) -> usize {
    messages.iter().map(|message| message.payload.len()).fold(0, usize::saturating_add)
}

fn header_map(headers: &HeaderMap) -> Map {
    let value = |values: &[async_nats::HeaderValue]| match values {
        [one] => Value::from(one.as_str()),
        several => Value::from(several.iter().map(|one| Value::from(one.as_str())).collect::<Vec<_>>()),
    };
    headers.iter().map(|(name, values)| (name.to_string(), value(values))).collect()
}
