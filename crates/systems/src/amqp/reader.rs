//! The task that reads and writes a connection: it sorts what comes by channel, keeps within the limits, and sends heartbeats.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, channel, connection};
use bytes::{Bytes, BytesMut};
use model::ActionError;
use tokio::io::{AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::SUBJECT;
use super::channel::failure;
use super::frame::{Frame, Frames, write};
use crate::stream::links::{ANSWER_TIME, Duplex, network};

/// The largest body that is kept, in bytes: above the largest `maxBody`. The rest of a larger one is not read into memory.
pub(super) const MAX_BODY: usize = (8 << 20) + 1;
/// The size of the messages of a channel that wait to be taken, in bytes. A single one may be larger.
pub(super) const MAX_HELD: usize = 8 << 20;

/// A message that a channel receives.
pub(super) struct Content {
    /// The method that brings it: `basic.deliver` or `basic.return`.
    pub method: basic::AMQPMethod,
    /// The properties as they came.
    pub properties: Bytes,
    /// The body, of which at most [`MAX_BODY`] bytes are kept.
    pub body: Bytes,
    /// The size of the whole body.
    pub size: u64,
    /// Its room; `None` if there was none. Then neither its body nor its properties are kept.
    pub held: Option<Held>,
}

/// The room of a message among the ones that wait.
pub(super) struct Held {
    all: Arc<AtomicUsize>,
    size: usize,
}

impl Held {
    /// Takes the room; `None` if others have it.
    fn take(all: &Arc<AtomicUsize>, size: usize) -> Option<Self> {
        let before = all.fetch_add(size, Ordering::Relaxed);
        let held = Self { all: all.clone(), size };
        (before == 0 || before.saturating_add(size) <= MAX_HELD).then_some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// The frames and methods that a channel receives.
pub(super) enum Incoming {
    Method(AMQPClass),
    Content(Content),
    /// The server has closed it, for this reason.
    Closed(ActionError),
}

/// The user of a channel; `None` while it is being closed.
struct Route {
    /// Tells it from another user of the same number.
    serial: u64,
    to: Option<mpsc::Sender<Incoming>>,
    /// True if the server has closed it. The user confirms that, behind all that it has sent.
    is_closed: bool,
}

/// The end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The server is to be told, and confirms it.
    Close,
    /// The server has closed it, and is told that this is known.
    Confirm,
}

/// The channels of a connection, by number.
#[derive(Default)]
pub(super) struct Routes {
    routes: Mutex<HashMap<u16, Route>>,
    next: AtomicU64,
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a channel with a free number up to `max`. Returns the number and the serial number of this use; `None` if no number is free.
    pub(super) fn add(&self, max: u16, to: mpsc::Sender<Incoming>) -> Option<(u16, u64)> {
        let mut routes = self.lock();
        let id = (1..=max).find(|id| !routes.contains_key(id))?;
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        routes.insert(id, Route { serial, to: Some(to), is_closed: false });
        Some((id, serial))
    }

    /// Ends a channel whose user sends nothing any more. `tell` tells the server, and returns false if there is no room for that: then the
    /// number stays in use.
    pub(super) fn close(&self, id: u16, serial: u64, tell: impl FnOnce(Ending) -> bool) {
        let mut routes = self.lock();
        let Some(route) = routes.get_mut(&id).filter(|route| route.serial == serial) else { return };
        route.to = None;
        if !route.is_closed {
            tell(Ending::Close);
        } else if tell(Ending::Confirm) {
            routes.remove(&id);
        }
    }

    /// Notes that the server has closed a channel. Returns false if its user is gone.
    fn closed(&self, id: u16) -> bool {
        self.lock().get_mut(&id).is_some_and(|route| {
            route.is_closed = route.to.is_some();
            route.is_closed
        })
    }

    /// Passes something on. What comes for a channel that is being closed is dropped.
    ///
    /// # Errors
    /// The channel has more than it was to get.
    fn pass(&self, id: u16, incoming: Incoming) -> Result<(), ActionError> {
        let to = self.lock().get(&id).and_then(|route| route.to.clone());
        let Some(to) = to else { return Ok(()) };
        match to.try_send(incoming) {
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(network(&format!("{SUBJECT} sends more messages than it was asked for")))
            }
            _ => Ok(()),
        }
    }
}

/// A message of which parts are to come.
struct Part {
    content: Content,
    body: BytesMut,
    left: u64,
}

/// The messages that are coming, by channel: the method, and what has come after it.
type Parts = HashMap<u16, (basic::AMQPMethod, Option<Part>)>;

/// One end of the connection, and all that the task needs.
pub(super) struct Driver {
    pub frames: Frames<ReadHalf<Box<dyn Duplex>>>,
    pub writer: WriteHalf<Box<dyn Duplex>>,
    pub outgoing: mpsc::Receiver<Vec<u8>>,
    /// Only for answers: the connection ends with its last user.
    pub answers: mpsc::WeakSender<Vec<u8>>,
    pub routes: Arc<Routes>,
    pub heartbeat: Duration,
}

impl Driver {
    /// Reads and writes until the connection ends, and then tells the reason.
    pub(super) async fn run(self, ended: watch::Sender<Option<ActionError>>) {
        let Self { frames, writer, outgoing, answers, routes, heartbeat } = self;
        let mut reader =
            Reader { frames, answers, routes: routes.clone(), parts: Parts::new(), held: HashMap::new() };
        let reason = tokio::select! {
            reason = reader.run(heartbeat * 2) => reason,
            reason = send(writer, outgoing, heartbeat / 2) => reason,
        };
        ended.send_replace(Some(reason));
        routes.lock().clear();
    }
}

/// Writes frames, and heartbeats between them, until nobody has the connection any more.
async fn send(
    mut writer: WriteHalf<Box<dyn Duplex>>,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    interval: Duration,
) -> ActionError {
    loop {
        let (bytes, is_last) = match timeout(interval, outgoing.recv()).await {
            Ok(Some(bytes)) => (Ok(bytes), false),
            Ok(None) => (write(Vec::new(), &goodbye()), true),
            Err(_) => (write(Vec::new(), &AMQPFrame::Heartbeat), false),
        };
        let Ok(bytes) = bytes else { return network("a frame cannot be written") };
        let written = timeout(ANSWER_TIME, async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        });
        match written.await {
            Ok(Ok(())) if is_last => return network("the connection is closed"),
            Ok(Ok(())) => {}
            Ok(Err(error)) => return lost(&error),
            Err(_) => return network(&format!("{SUBJECT} takes nothing any more")),
        }
    }
}

fn lost(error: &std::io::Error) -> ActionError {
    network(&format!("the connection to {SUBJECT} was lost: {error}"))
}

fn goodbye() -> AMQPFrame {
    let close = connection::Close { reply_code: 200, reply_text: "done".into(), class_id: 0, method_id: 0 };
    AMQPFrame::Method(0, AMQPClass::Connection(connection::AMQPMethod::Close(close)))
}

struct Reader {
    frames: Frames<ReadHalf<Box<dyn Duplex>>>,
    answers: mpsc::WeakSender<Vec<u8>>,
    routes: Arc<Routes>,
    parts: Parts,
    /// The size of what waits in each channel.
    held: HashMap<u16, Arc<AtomicUsize>>,
}

impl Reader {
    async fn run(&mut self, silence: Duration) -> ActionError {
        loop {
            let frame = match timeout(silence, self.frames.next()).await {
                Ok(Ok(frame)) => frame,
                Ok(Err(error)) => return lost(&error),
                Err(_) => return network(&format!("{SUBJECT} is silent, and sends no heartbeat")),
            };
            if let Frame::Method(id, AMQPClass::Channel(channel::AMQPMethod::Close(_))) = &frame
                && !self.routes.closed(*id)
            {
                // Both sides have closed the channel: the server waits for the answer to its own end, too.
                confirm(&self.answers, *id).await;
            } else if let Err(reason) = self.handle(frame) {
                return reason;
            }
        }
    }

    fn handle(&mut self, frame: Frame) -> Result<(), ActionError> {
        match frame {
            Frame::Heartbeat => Ok(()),
            Frame::Method(0, AMQPClass::Connection(connection::AMQPMethod::Close(close))) => {
                Err(failure(close.reply_code, close.reply_text.as_str()))
            }
            Frame::Method(0, _) => Ok(()),
            Frame::Method(id, AMQPClass::Channel(channel::AMQPMethod::Close(close))) => {
                self.parts.remove(&id);
                let reason = failure(close.reply_code, close.reply_text.as_str());
                self.routes.pass(id, Incoming::Closed(reason))
            }
            Frame::Method(id, AMQPClass::Channel(channel::AMQPMethod::CloseOk(_))) => {
                self.routes.lock().remove(&id);
                self.parts.remove(&id);
                Ok(())
            }
            Frame::Method(id, AMQPClass::Basic(method)) if brings_content(&method) => {
                self.parts.insert(id, (method, None));
                Ok(())
            }
            Frame::Method(id, class) => self.routes.pass(id, Incoming::Method(class)),
            Frame::Header(id, size, properties) => self.header(id, size, properties),
            Frame::Body(id, body) => self.body(id, &body),
        }
    }

    fn header(&mut self, id: u16, size: u64, properties: Bytes) -> Result<(), ActionError> {
        let Some((method, None)) = self.parts.remove(&id) else { return Err(disordered()) };
        let kept = usize::try_from(size).unwrap_or(usize::MAX).min(MAX_BODY);
        let all = self.held.entry(id).or_default();
        let held = Held::take(all, kept.saturating_add(properties.len()));
        // A copy, which does not keep the buffer of the connection in memory.
        let properties = if held.is_some() { Bytes::copy_from_slice(&properties) } else { Bytes::new() };
        let content = Content { method: method.clone(), properties, body: Bytes::new(), size, held };
        self.parts.insert(id, (method, Some(Part { content, body: BytesMut::new(), left: size })));
        self.complete(id)
    }

    fn body(&mut self, id: u16, bytes: &Bytes) -> Result<(), ActionError> {
        let Some((_, Some(part))) = self.parts.get_mut(&id) else { return Err(disordered()) };
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        part.left = part.left.checked_sub(size).ok_or_else(disordered)?;
        if part.content.held.is_some() {
            let room = MAX_BODY.saturating_sub(part.body.len());
            part.body.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        self.complete(id)
    }

    /// Passes a message on if all of it is there.
    fn complete(&mut self, id: u16) -> Result<(), ActionError> {
        match self.parts.remove(&id) {
            Some((_, Some(Part { mut content, body, left: 0 }))) => {
                content.body = body.freeze();
                self.routes.pass(id, Incoming::Content(content))
            }
            Some(part) => {
                self.parts.insert(id, part);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Confirms the end of a channel, behind all that was sent on it.
async fn confirm(answers: &mpsc::WeakSender<Vec<u8>>, id: u16) {
    if let (Some(answers), Ok(bytes)) = (answers.upgrade(), write(Vec::new(), &known(id))) {
        drop(answers.send(bytes).await);
    }
}

/// The confirmation of the end of a channel.
pub(super) fn known(id: u16) -> AMQPFrame {
    AMQPFrame::Method(id, AMQPClass::Channel(channel::AMQPMethod::CloseOk(channel::CloseOk {})))
}

fn brings_content(method: &basic::AMQPMethod) -> bool {
    matches!(method, basic::AMQPMethod::Deliver(_) | basic::AMQPMethod::Return(_))
}

fn disordered() -> ActionError {
    network(&format!("{SUBJECT} sends parts of messages in a wrong order"))
}
