//! Messages for triggers: a consumer of a queue that settles each message, and takes no more than it has room for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use amq_protocol::protocol::{AMQPClass, basic, queue};
use amq_protocol::types::{FieldTable, ShortString};
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use connector::{Fate, Message, MessageSource, SourceOptions, TakeLimits};
use model::{ActionError, ErrorKind};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use value::{Map, Value};

use super::channel::{Channel, Published};
use super::link::Link;
use super::properties::{Properties, short_text};
use super::publish::unrouted;
use super::reader::{Content, MAX_HELD};
use crate::stream::body::{REASON, one_line};
use crate::stream::links::Shared as _;

/// The largest number of messages that the server sends before the first of them is settled.
const MAX_PREFETCH: u16 = 500;
/// The room of the channel: for the messages of two consumers, since one follows the other, and for answers.
const ROOM: usize = 2 * MAX_PREFETCH as usize + 64;
/// The largest number of messages that come again later. The server counts them as open.
const MAX_LATER: usize = 1000;

/// The memory of headers as values, in times of their size as they come.
const EXPANSION: usize = 16;

/// An open consumer.
pub(super) struct Source {
    channel: Channel,
    queue: ShortString,
    /// The number of messages that are open at one time if all are small.
    wanted: u16,
    /// The number of messages that the server was asked for.
    prefetch: u16,
    /// The number of the consumer, one of which follows the other.
    consumer: u64,
    /// The messages that are taken and not settled, by the number of the server.
    open: HashMap<u64, Open>,
    /// The messages that come again, and when; and how many of them the consumer has brought.
    later: VecDeque<(Instant, u64)>,
    occupied: usize,
    /// The messages for which there was no room, and the size of the largest.
    overflow: (Vec<u64>, u64),
    /// The average size of the last messages.
    size: u64,
    /// The messages that waited when the server was last asked.
    ready: u64,
}

/// A message that is taken.
struct Open {
    properties: Properties,
    /// The size of its whole body.
    size: u64,
}

impl Source {
    pub(super) async fn open(options: SourceOptions<'_>) -> Result<Self, ActionError> {
        let link = Link::open(options.into()).await?;
        let name = options.inputs.get("queue").map(Value::to_text).unwrap_or_default();
        let queue = short_text("queue", &name);
        let queue = queue.map_err(|error| ActionError::new(ErrorKind::Input, error))?;
        let channel = link.channel(ROOM).await?;
        let wanted = u16::try_from(options.prefetch).unwrap_or(MAX_PREFETCH).clamp(1, MAX_PREFETCH);
        let mut source = Self {
            channel,
            queue,
            wanted,
            prefetch: wanted,
            consumer: 0,
            open: HashMap::new(),
            later: VecDeque::new(),
            occupied: 0,
            overflow: (Vec::new(), 0),
            size: 0,
            ready: 0,
        };
        source.look().await.map_err(|mut error| {
            error.message.insert_str(0, &format!("the queue `{name}` cannot be read: "));
            error
        })?;
        source.consume().await?;
        Ok(source)
    }

    /// Asks for the number of waiting messages. The answer comes behind all that was sent before: the server has taken it.
    async fn look(&mut self) -> Result<(), ActionError> {
        let declare = queue::Declare {
            queue: self.queue.clone(),
            passive: true,
            durable: false,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments: FieldTable::default(),
        };
        let declare = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
        let is_answer =
            |answer: &AMQPClass| matches!(answer, AMQPClass::Queue(queue::AMQPMethod::DeclareOk(_)));
        if let AMQPClass::Queue(queue::AMQPMethod::DeclareOk(ok)) =
            self.channel.ask(declare, is_answer).await?
        {
            self.ready = ok.message_count.into();
        }
        Ok(())
    }

    /// Asks for messages.
    async fn consume(&mut self) -> Result<(), ActionError> {
        use basic::AMQPMethod::{Consume, ConsumeOk, Qos, QosOk};
        let qos = Qos(basic::Qos { prefetch_count: self.prefetch, global: false });
        let is_set = |answer: &AMQPClass| matches!(answer, AMQPClass::Basic(QosOk(_)));
        self.channel.ask(AMQPClass::Basic(qos), is_set).await?;
        self.consumer = self.consumer.saturating_add(1);
        let consume = Consume(basic::Consume {
            queue: self.queue.clone(),
            consumer_tag: self.tag(),
            no_local: false,
            no_ack: false,
            exclusive: false,
            nowait: false,
            arguments: FieldTable::default(),
        });
        let is_consuming = |answer: &AMQPClass| matches!(answer, AMQPClass::Basic(ConsumeOk(_)));
        self.channel.ask(AMQPClass::Basic(consume), is_consuming).await?;
        Ok(())
    }

    fn tag(&self) -> ShortString {
        ShortString::from(format!("cogwork-{}", self.consumer))
    }

    /// Ends the consumer. What it has brought stays open.
    async fn cancel(&mut self) -> Result<(), ActionError> {
        use basic::AMQPMethod::{Cancel, CancelOk};
        let cancel = Cancel(basic::Cancel { consumer_tag: self.tag(), nowait: false });
        let is_cancelled = |answer: &AMQPClass| matches!(answer, AMQPClass::Basic(CancelOk(_)));
        self.channel.ask(AMQPClass::Basic(cancel), is_cancelled).await.map(drop)
    }

    /// Gives messages back whose time has come, and asks for as many as there is room for.
    async fn tend(&mut self) -> Result<(), ActionError> {
        let now = Instant::now();
        let mut due: Vec<u64> = Vec::new();
        self.later.retain(|(at, tag)| {
            let is_due = *at <= now;
            if is_due {
                due.push(*tag);
            }
            !is_due
        });
        self.occupied = self.occupied.saturating_sub(due.len());
        let fits = self.fitting();
        let (overflow, _) = std::mem::take(&mut self.overflow);
        let is_narrow = self.occupied > usize::from(self.prefetch / 2) && self.later.len() < MAX_LATER;
        let may_grow = fits >= self.prefetch.saturating_mul(2);
        if may_grow || is_narrow || !overflow.is_empty() {
            // A consumer has its own limit: what the last one has brought and is open does not count for the next.
            self.cancel().await?;
            self.prefetch = if overflow.is_empty() { fits } else { fits.min(self.prefetch / 2).max(1) };
            due.extend(overflow);
            self.give_back(due).await?;
            self.occupied = 0;
            return self.consume().await;
        }
        self.give_back(due).await
    }

    /// The number of messages that fit into the memory for them, by the size of the last ones.
    fn fitting(&self) -> u16 {
        let size = self.size.max(self.overflow.1).max(1);
        let fitting = u64::try_from(MAX_HELD).unwrap_or(u64::MAX) / size;
        u16::try_from(fitting).unwrap_or(u16::MAX).clamp(1, self.wanted)
    }

    async fn give_back(&self, tags: Vec<u64>) -> Result<(), ActionError> {
        let back = |delivery_tag| {
            basic::AMQPMethod::Nack(basic::Nack { delivery_tag, multiple: false, requeue: true })
        };
        self.channel.send_all(tags.into_iter().map(back).collect()).await
    }

    /// Returns the next message that has come, or comes within `longest`.
    async fn next(&mut self, longest: Duration) -> Result<Option<Content>, ActionError> {
        let until = Instant::now() + longest;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(content) = self.channel.next(left).await? else { return Ok(None) };
            if content.held.is_some() {
                return Ok(Some(content));
            }
            if let basic::AMQPMethod::Deliver(deliver) = &content.method {
                self.overflow.0.push(deliver.delivery_tag);
                self.overflow.1 = self.overflow.1.max(content.size);
            }
        }
    }

    fn message(&mut self, content: Content) -> Option<Message> {
        let basic::AMQPMethod::Deliver(deliver) = content.method else { return None };
        let (mut properties, problem) = match Properties::read(&content.properties) {
            Ok(properties) => (properties, None),
            Err(problem) => (Properties::default(), Some(problem)),
        };
        if let Some(problem) = problem {
            properties.values.insert("problem", problem);
        }
        let exchange = deliver.exchange.as_str();
        let given = properties.text("messageId").map(str::to_owned);
        let id = given.as_deref().map_or_else(
            || {
                digest([
                    exchange.as_bytes(),
                    deliver.routing_key.as_str().as_bytes(),
                    &content.properties,
                    &content.body,
                ])
            },
            str::to_owned,
        );
        let mut values = Map::from_iter([("exchange", Value::from(exchange))]);
        for (name, value) in properties.values.iter() {
            values.insert(name.clone(), value.clone());
        }
        let at = properties.text("timestamp").and_then(|at| at.parse().ok());
        let message = Message {
            token: deliver.delivery_tag,
            id: format!("{}:{id}", self.queue),
            is_identified: given.is_some(),
            source: self.queue.to_string(),
            key: Some(deliver.routing_key.to_string()),
            body: content.body,
            headers: properties.headers.clone(),
            properties: values,
            at,
            redelivered: deliver.redelivered,
        };
        self.open.insert(deliver.delivery_tag, Open { properties, size: content.size });
        Some(message)
    }
}

fn digest(parts: [&[u8]; 4]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    format!("sha256-{}", BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()))
}

#[async_trait]
impl MessageSource for Source {
    async fn wait(&mut self, longest: Duration) -> Result<bool, ActionError> {
        self.tend().await?;
        let due = self.later.iter().map(|(at, _)| at.saturating_duration_since(Instant::now())).min();
        let longest = due.map_or(longest, |due| due.min(longest));
        let Some(content) = self.next(longest).await? else { return Ok(false) };
        self.channel.put_back(content);
        Ok(true)
    }

    async fn take(&mut self, limits: TakeLimits) -> Result<Vec<Message>, ActionError> {
        let until = Instant::now() + limits.fill;
        let (mut taken, mut size) = (Vec::new(), 0_usize);
        while taken.len() < limits.messages {
            let left = until.saturating_duration_since(Instant::now());
            let next = self.next(left).await;
            // A message that was taken starts an execution all the same.
            let next = if taken.is_empty() { next? } else { next.unwrap_or_default() };
            let Some(content) = next else { break };
            let cost = content.body.len().saturating_add(content.properties.len().saturating_mul(EXPANSION));
            if !taken.is_empty() && size.saturating_add(cost) > limits.bytes {
                self.channel.put_back(content);
                break;
            }
            size = size.saturating_add(cost);
            taken.extend(self.message(content));
        }
        self.size = u64::try_from(size / taken.len().max(1)).unwrap_or(u64::MAX);
        Ok(taken)
    }

    async fn settle(&mut self, fates: Vec<(u64, Fate)>) -> Result<(), ActionError> {
        let (mut methods, now) = (Vec::new(), Instant::now());
        let mut is_done = false;
        for (delivery_tag, fate) in fates {
            if self.open.remove(&delivery_tag).is_none() {
                continue;
            }
            match fate {
                Fate::Done => {
                    is_done = true;
                    methods.push(basic::AMQPMethod::Ack(basic::Ack { delivery_tag, multiple: false }));
                }
                Fate::Later(pause) => {
                    self.later.push_back((now + pause, delivery_tag));
                    self.occupied = self.occupied.saturating_add(1);
                }
            }
        }
        self.channel.send_all(methods).await?;
        // The server does not confirm acknowledgements, but answers what comes after them.
        if is_done { self.look().await } else { Ok(()) }
    }

    async fn forward(
        &mut self,
        to: &str,
        message: &Message,
        key: &str,
        reason: &str,
    ) -> Result<(), ActionError> {
        let open = self.open.get(&message.token);
        let mut properties = open.map(|open| open.properties.clone()).unwrap_or_default();
        let size = open.map_or(0, |open| open.size);
        if u64::try_from(message.body.len()).is_ok_and(|kept| kept < size) {
            let message = format!("it has {size} bytes, of which only the first are kept");
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        properties.headers.insert(REASON, one_line(reason));
        if properties.text("messageId").is_none() {
            properties.values.insert("messageId", key);
        }
        let mut channel = Channel::for_publishing(self.channel.link()).await?;
        let copy = Published { exchange: "", key: to, properties: &properties, body: &message.body };
        if !channel.publish(&copy).await? {
            return Err(unrouted("", to));
        }
        self.channel.link().rest(channel);
        Ok(())
    }

    async fn lag(&mut self) -> Result<Option<u64>, ActionError> {
        self.look().await?;
        let waiting = u64::try_from(self.channel.waiting()).unwrap_or(u64::MAX);
        Ok(Some(self.ready.saturating_add(waiting)))
    }
}
