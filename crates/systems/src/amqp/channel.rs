//! A channel: requests with their answers, and messages.

use std::collections::VecDeque;
use std::time::Duration;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use amq_protocol::protocol::{AMQPClass, basic, confirm};
use bytes::Bytes;
use model::{ActionError, ErrorKind};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::SUBJECT;
use super::frame::{AROUND, write};
use super::link::Link;
use super::properties::{Properties, short_text};
use super::reader::{Content, Incoming};
use crate::stream::links::{ANSWER_TIME, network, refused};

/// The class of messages.
const BASIC: u16 = 60;
/// The room of a channel for publishing: for one message that comes back, and its confirmation.
const ROOM: usize = 16;
/// The longest part of a server's words in an error.
const MAX_WORDS: usize = 300;

/// The number of a channel, and what comes for it.
pub(super) struct Port {
    pub id: u16,
    /// Tells its use from another one of the same number.
    pub serial: u64,
    pub incoming: mpsc::Receiver<Incoming>,
}

/// A channel. Dropping it closes it.
pub(super) struct Channel {
    link: Link,
    port: Option<Port>,
    /// The messages that came while an answer was awaited.
    waiting: VecDeque<Content>,
    /// True while a part of a message is to be sent: nothing else may come between.
    is_sending: bool,
}

/// A message to publish.
pub(super) struct Published<'a> {
    pub exchange: &'a str,
    pub key: &'a str,
    pub properties: &'a Properties,
    pub body: &'a Bytes,
}

impl Channel {
    pub(super) fn new(link: Link, port: Port) -> Self {
        Self { link, port: Some(port), waiting: VecDeque::new(), is_sending: false }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Opens a channel with publisher confirms, or takes an idle one.
    pub(super) async fn for_publishing(link: &Link) -> Result<Self, ActionError> {
        if let Some(channel) = link.idle() {
            return Ok(channel);
        }
        let mut channel = link.channel(ROOM).await?;
        let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
        let is_selected =
            |answer: &AMQPClass| matches!(answer, AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(_)));
        channel.ask(AMQPClass::Confirm(select), is_selected).await?;
        Ok(channel)
    }

    /// Gives the channel away without closing it.
    pub(super) fn into_port(mut self) -> Option<Port> {
        self.port.take()
    }

    fn id(&self) -> u16 {
        self.port.as_ref().map_or(0, |port| port.id)
    }

    /// Sends a method.
    pub(super) async fn send(&self, class: AMQPClass) -> Result<(), ActionError> {
        let bytes =
            write(Vec::new(), &AMQPFrame::Method(self.id(), class)).map_err(|error| unsent(&error))?;
        self.link.send(bytes).await
    }

    /// Sends methods at once.
    pub(super) async fn send_all(&self, methods: Vec<basic::AMQPMethod>) -> Result<(), ActionError> {
        let mut bytes = Vec::new();
        for method in methods {
            let frame = AMQPFrame::Method(self.id(), AMQPClass::Basic(method));
            bytes = write(bytes, &frame).map_err(|error| unsent(&error))?;
        }
        if bytes.is_empty() { Ok(()) } else { self.link.send(bytes).await }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(
        &mut self,
        request: AMQPClass,
        is_answer: impl Fn(&AMQPClass) -> bool,
    ) -> Result<AMQPClass, ActionError> {
        self.send(request).await?;
        let answered = async {
            loop {
                match self.receive().await? {
                    Incoming::Method(class) if is_answer(&class) => return Ok(class),
                    Incoming::Content(content) => self.waiting.push_back(content),
                    incoming => self.unasked(incoming)?,
                }
            }
        };
        timeout(ANSWER_TIME, answered).await.unwrap_or_else(|_| Err(silent()))
    }

    /// Waits for a message, at most `longest`.
    pub(super) async fn next(&mut self, longest: Duration) -> Result<Option<Content>, ActionError> {
        if let Some(content) = self.waiting.pop_front() {
            return Ok(Some(content));
        }
        let came = async {
            loop {
                match self.receive().await? {
                    Incoming::Content(content) => return Ok(content),
                    incoming => self.unasked(incoming)?,
                }
            }
        };
        match timeout(longest, came).await {
            Ok(came) => came.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Gives a message back that is to be the next one.
    pub(super) fn put_back(&mut self, content: Content) {
        self.waiting.push_front(content);
    }

    /// The number of messages that have come and were not taken.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.port.as_ref().map_or(0, |port| port.incoming.len())
    }

    async fn receive(&mut self) -> Result<Incoming, ActionError> {
        match &mut self.port {
            Some(port) => port.incoming.recv().await.ok_or_else(|| self.link.reason()),
            None => Err(self.link.reason()),
        }
    }

    /// A method that the server sends without a request.
    fn unasked(&self, incoming: Incoming) -> Result<(), ActionError> {
        match incoming {
            Incoming::Closed(reason) => Err(reason),
            Incoming::Method(AMQPClass::Basic(basic::AMQPMethod::Cancel(_))) => {
                Err(refused(format!("{SUBJECT} has ended the consumer: its queue was deleted, or moved")))
            }
            _ => Ok(()),
        }
    }

    /// Publishes a message, and waits until the server has it. Returns false if no queue takes it. The channel confirms messages, and one at a
    /// time is under way.
    pub(super) async fn publish(&mut self, message: &Published<'_>) -> Result<bool, ActionError> {
        let head = self.head(message).map_err(|error| ActionError::new(ErrorKind::Input, error))?;
        let (id, link, body) = (self.id(), self.link.clone(), message.body.clone());
        let sending = async move {
            link.send(head).await?;
            for part in body.chunks(link.max_frame().saturating_sub(AROUND).max(1)) {
                let bytes = write(Vec::new(), &AMQPFrame::Body(id, part.to_vec()));
                link.send(bytes.map_err(|error| unsent(&error))?).await?;
            }
            Ok(())
        };
        // A part of a message would end the connection of all other steps: it is sent whole, also if nobody waits any more.
        self.is_sending = true;
        let sent = tokio::spawn(sending).await;
        self.is_sending = false;
        sent.unwrap_or_else(|_| Err(silent()))?;
        let confirmed = timeout(ANSWER_TIME, self.confirmed()).await;
        confirmed.unwrap_or_else(|_| Err(silent().with_outcome_unknown()))
    }

    async fn confirmed(&mut self) -> Result<bool, ActionError> {
        let mut is_routed = true;
        loop {
            match self.receive().await.map_err(ActionError::with_outcome_unknown)? {
                Incoming::Content(_) => is_routed = false,
                Incoming::Method(AMQPClass::Basic(basic::AMQPMethod::Ack(_))) => return Ok(is_routed),
                Incoming::Method(AMQPClass::Basic(basic::AMQPMethod::Nack(_))) => {
                    return Err(
                        refused(format!("{SUBJECT} refuses the message: a queue is full")).with_code("nack")
                    );
                }
                // The server has refused the message, and closed the channel for it.
                Incoming::Closed(reason) => return Err(reason),
                Incoming::Method(_) => {}
            }
        }
    }

    /// The frames before the body.
    fn head(&self, message: &Published<'_>) -> Result<Vec<u8>, String> {
        let id = self.id();
        let publish = basic::Publish {
            exchange: short_text("exchange", message.exchange)?,
            routing_key: short_text("routingKey", message.key)?,
            mandatory: true,
            immediate: false,
        };
        let publish = AMQPClass::Basic(basic::AMQPMethod::Publish(publish));
        let body_size = u64::try_from(message.body.len()).unwrap_or(u64::MAX);
        let header =
            AMQPContentHeader { class_id: BASIC, body_size, properties: message.properties.to_wire()? };
        let failed = |error: std::io::Error| error.to_string();
        let first = write(Vec::new(), &AMQPFrame::Method(id, publish)).map_err(failed)?;
        let method = first.len();
        let first = write(first, &AMQPFrame::Header(id, header)).map_err(failed)?;
        let max_frame = self.link.max_frame();
        if first.len().saturating_sub(method) > max_frame {
            return Err(format!(
                "`headers` are larger than a frame of the server, which has {max_frame} bytes"
            ));
        }
        Ok(first)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // A message that is still being sent keeps its channel, until the connection ends.
        if let Some(port) = self.port.as_ref().filter(|_| !self.is_sending) {
            self.link.close_channel(port);
        }
    }
}

fn unsent(error: &std::io::Error) -> ActionError {
    network(&format!("a request to {SUBJECT} cannot be written: {error}"))
}

fn silent() -> ActionError {
    let limit = text::units::format_duration(ANSWER_TIME);
    ActionError::new(ErrorKind::Timeout, format!("{SUBJECT} did not answer within {limit}"))
}

/// The error of a reply code of the server.
pub(super) fn failure(code: u16, text: &str) -> ActionError {
    let message = format!("{SUBJECT} says: {}", quoted(text, None));
    let error = match code {
        // The operator has closed the connection, or the server has failed: it may be over soon.
        320 | 541 => network(&message),
        _ => refused(message),
    };
    error.with_code(code_of(code))
}

pub(super) fn code_of(code: u16) -> String {
    code.to_string()
}

/// A part of a server's words, without `secret`.
pub(super) fn quoted(text: &str, secret: Option<&str>) -> String {
    let text = secret.map_or_else(|| text.to_owned(), |secret| text.replace(secret, "***"));
    text.chars().take(MAX_WORDS).map(|char| if char.is_control() { ' ' } else { char }).collect()
}
