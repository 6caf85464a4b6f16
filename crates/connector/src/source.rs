//! Messages of brokers: the way in which a connector brings them, and gives them back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use model::{ActionError, InputSpec};
use serde::{Serialize, Serializer};
use value::Map;

use crate::connection::ResolvedConnection;
use crate::http::Http;
use crate::log::LogSink;
use crate::static_inputs::{InputProblem, StaticInputs};

/// An event whose messages a broker keeps until they are settled.
#[derive(Clone)]
pub struct StreamedEvent {
    /// The names of the properties of a message.
    pub properties: &'static [&'static str],
    /// The broker.
    pub broker: Arc<dyn Broker>,
    /// True if a new consumer begins at a position, which `start` chooses.
    pub starts: bool,
}

impl std::fmt::Debug for StreamedEvent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StreamedEvent")
    }
}

impl Serialize for StreamedEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map::<&str, &str, _>([])
    }
}

/// The arguments with which a source is opened.
#[derive(Clone, Copy)]
pub struct SourceOptions<'a> {
    /// The client whose dialer reaches the broker.
    pub http: &'a Http,
    /// The credentials.
    pub connection: &'a ResolvedConnection,
    /// The inputs of the event, checked by [`crate::check_inputs`].
    pub inputs: &'a Map,
    /// True if a position that the broker does not have yet begins with the oldest message; else with the next new one.
    pub from_oldest: bool,
    /// The name of the consumer: the same whenever it opens its source, and that of no other consumer.
    pub consumer: &'a str,
    /// The largest number of messages that a broker which sends them unasked may send ahead.
    pub prefetch: usize,
    /// Receives log lines for people.
    pub log: &'a dyn LogSink,
}

/// A kind of broker.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Connects, and takes the position that the broker keeps for the consumer.
    ///
    /// # Errors
    /// Returns the reason why there is no source, as a record for people. Nothing was taken.
    async fn open(&self, options: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError>;

    /// Checks the inputs of the event, which `specs` describe, before it is opened.
    fn check_static(&self, specs: &[InputSpec], inputs: &StaticInputs<'_>) -> Vec<InputProblem>;
}

/// An open source. After an error it is dropped and opened anew: the broker brings all that was not settled again.
#[async_trait]
pub trait MessageSource: Send {
    /// Waits until a message is there, at most `longest`. Returns false if none came. At most one message is taken from the broker
    /// for it. Nothing is lost if the future is dropped.
    async fn wait(&mut self, longest: Duration) -> Result<bool, ActionError>;

    /// Takes at most `limits.messages` messages: the ones that are there, and with `fill` also the ones that come within this time after the first.
    async fn take(&mut self, limits: TakeLimits) -> Result<Vec<Message>, ActionError>;

    /// Tells the broker the fate of messages, and waits until it has confirmed the accepted ones.
    async fn settle(&mut self, fates: Vec<(u64, Fate)>) -> Result<(), ActionError>;

    /// Publishes a copy of a message, with the reason why it started nothing, and waits until the broker has it. Repetitions with the
    /// same `key` are dropped by brokers that can.
    async fn forward(
        &mut self,
        to: &str,
        message: &Message,
        key: &str,
        reason: &str,
    ) -> Result<(), ActionError>;

    /// The number of messages that wait at the broker; `None` if it does not tell.
    async fn lag(&mut self) -> Result<Option<u64>, ActionError>;

    /// Gives the messages back that were taken and not settled, before the source is dropped, so that the broker brings them again at once.
    /// Without it a broker that does not see the end of a source brings them after its own time limit.
    async fn release(&mut self) {}
}

/// The limits of one request for messages.
#[derive(Clone, Copy, Debug)]
pub struct TakeLimits {
    /// The number of messages.
    pub messages: usize,
    /// The size of their bodies in bytes. One message may be larger.
    pub bytes: usize,
    /// The time for which the source waits for more of them after the first.
    pub fill: Duration,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done: the broker forgets it.
    Done,
    /// It comes again after this time.
    Later(Duration),
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The number by which it is settled, unique in its open source.
    pub token: u64,
    /// The identity: the same whenever the broker brings the message again, and that of no other message if `is_identified`.
    pub id: String,
    /// False if neither the broker nor the sender has given the message an identity: then `id` is that of its content, which another message
    /// may have too. Such a message starts an execution each time it comes.
    pub is_identified: bool,
    /// The stream or queue.
    pub source: String,
    /// The subject, routing key or key; `None` if the broker has none.
    pub key: Option<String>,
    /// The bytes.
    pub body: Bytes,
    /// The headers; several values of one name form a list.
    pub headers: Map,
    /// The properties that only this kind of broker has.
    pub properties: Map,
    /// The time at which the broker got it, if it tells.
    pub at: Option<Timestamp>,
    /// True if the broker has brought it before.
    pub redelivered: bool,
}
