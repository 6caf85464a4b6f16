//! A connection to a server: the login, and the channels.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amq_protocol::frame::{AMQPFrame, ProtocolVersion};
use amq_protocol::protocol::{AMQPClass, channel, connection};
use amq_protocol::types::{AMQPValue, FieldTable};
use model::ActionError;
use tokio::io::{AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};

use super::SUBJECT;
use super::channel::{Channel, Port, code_of, quoted};
use super::frame::{Frame, Frames, MAX_FRAME, write};
use super::properties::short_text;
use super::reader::{Driver, Ending, Routes, known};
use crate::connection::Inputs;
use crate::stream::family::Target;
use crate::stream::links::{
    CONNECT_TIME, Duplex, Shared, dial, explained_login, network, no_login, not_sent,
};

/// The usual ports, without and with TLS.
const PORTS: (u16, u16) = (5672, 5671);
/// The interval of heartbeats that is asked for. The server may want a shorter one.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// The largest number of channels of a connection.
const MAX_CHANNELS: u16 = 1000;
/// The smallest frame that the protocol allows to agree on, in bytes.
const MIN_FRAME: usize = 4096;
/// The number of frames that wait to be written.
const OUTGOING: usize = 64;
/// The number of channels for publishing that wait for their next use.
const MAX_IDLE_PORTS: usize = 64;

/// A connection. It ends with its last user.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    outgoing: mpsc::Sender<Vec<u8>>,
    routes: Arc<Routes>,
    ended: watch::Receiver<Option<ActionError>>,
    agreed: Agreed,
    info: Info,
    /// The idle channels with publisher confirms.
    idle: Mutex<Vec<Port>>,
}

/// The parameters on which client and server have agreed.
#[derive(Clone, Copy)]
struct Agreed {
    frame: usize,
    channels: u16,
    heartbeat: Duration,
}

/// The properties of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Info {
    pub product: String,
    pub version: String,
}

impl Shared for Link {
    async fn open(target: Target<'_>) -> Result<Self, ActionError> {
        let (stream, route) = dial(target, (SUBJECT, PORTS)).await?;
        let (reader, writer) = tokio::io::split(stream);
        let mut greeting = Greeting { frames: Frames::new(reader), writer };
        let inputs = Inputs(target.connection);
        let logged_in = tokio::time::timeout(CONNECT_TIME, greeting.log_in(inputs)).await;
        let (agreed, info) = match logged_in.unwrap_or_else(|_| Err(no_login(SUBJECT))) {
            Ok(logged_in) => logged_in,
            Err(error) => {
                return Err(explained_login(error, target, route.as_ref()).await);
            }
        };
        let Greeting { frames, writer } = greeting;
        let (outgoing, to_write) = mpsc::channel(OUTGOING);
        let (ends, ended) = watch::channel(None);
        let routes = Arc::<Routes>::default();
        let driver = Driver {
            frames,
            writer,
            outgoing: to_write,
            answers: outgoing.downgrade(),
            routes: routes.clone(),
            heartbeat: agreed.heartbeat,
        };
        tokio::spawn(driver.run(ends));
        Ok(Self(Arc::new(Inner { outgoing, routes, ended, agreed, info, idle: Mutex::default() })))
    }

    fn is_usable(&self) -> bool {
        self.0.ended.borrow().is_none()
    }
}

impl Link {
    pub(super) fn info(&self) -> &Info {
        &self.0.info
    }

    /// The largest frame, in bytes.
    pub(super) fn max_frame(&self) -> usize {
        self.0.agreed.frame
    }

    /// The reason for which the connection has ended.
    pub(super) fn reason(&self) -> ActionError {
        let reason = self.0.ended.borrow().clone();
        reason.unwrap_or_else(|| network(&format!("the connection to {SUBJECT} was lost")))
    }

    /// Sends a frame. It waits while many others wait.
    pub(super) async fn send(&self, frame: Vec<u8>) -> Result<(), ActionError> {
        self.0.outgoing.send(frame).await.map_err(|_| self.reason())
    }

    /// Opens a channel that holds up to `room` methods and messages.
    pub(super) async fn channel(&self, room: usize) -> Result<Channel, ActionError> {
        let (to, incoming) = mpsc::channel(room);
        let id = self.0.routes.add(self.0.agreed.channels, to);
        let (id, serial) = id.ok_or_else(|| network(&format!("all channels to {SUBJECT} are in use")))?;
        let mut channel = Channel::new(self.clone(), Port { id, serial, incoming });
        let open = AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}));
        let is_open =
            |answer: &AMQPClass| matches!(answer, AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)));
        channel.ask(open, is_open).await?;
        Ok(channel)
    }

    /// Tells the server that a channel is not used any more.
    pub(super) fn close_channel(&self, port: &Port) {
        let id = port.id;
        self.0.routes.close(id, port.serial, |ending| {
            let close =
                channel::Close { reply_code: 200, reply_text: "done".into(), class_id: 0, method_id: 0 };
            let frame = match ending {
                Ending::Close => AMQPFrame::Method(id, AMQPClass::Channel(channel::AMQPMethod::Close(close))),
                Ending::Confirm => known(id),
            };
            write(Vec::new(), &frame).is_ok_and(|bytes| self.0.outgoing.try_send(bytes).is_ok())
        });
    }

    /// Takes an idle channel with publisher confirms.
    pub(super) fn idle(&self) -> Option<Channel> {
        let port = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Channel::new(self.clone(), port))
    }

    /// Gives such a channel back.
    pub(super) fn rest(&self, channel: Channel) {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_PORTS
            && let Some(port) = channel.into_port()
        {
            idle.push(port);
        }
    }
}

/// A connection before the login.
struct Greeting {
    frames: Frames<ReadHalf<Box<dyn Duplex>>>,
    writer: WriteHalf<Box<dyn Duplex>>,
}

impl Greeting {
    async fn log_in(&mut self, inputs: Inputs<'_>) -> Result<(Agreed, Info), ActionError> {
        use connection::AMQPMethod::{Open, OpenOk, Start, StartOk, Tune, TuneOk};
        self.send(AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1())).await?;
        let Start(start) = self.next(inputs).await? else { return Err(unexpected()) };
        let mechanisms = start.mechanisms.to_string();
        if !mechanisms.split(' ').any(|mechanism| mechanism == "PLAIN") {
            return Err(inputs.refuse(format!("{SUBJECT} takes no login with user and password (PLAIN)")));
        }
        let (user, password) =
            (inputs.text("user").unwrap_or_default(), inputs.text("password").unwrap_or_default());
        let vhost = short_text("vhost", inputs.text("vhost").unwrap_or("/"));
        let virtual_host = vhost.map_err(|error| inputs.refuse(error))?;
        let login = connection::StartOk {
            client_properties: own_properties(),
            mechanism: "PLAIN".into(),
            response: format!("\0{user}\0{password}").into(),
            locale: "en_US".into(),
        };
        self.method(StartOk(login)).await?;
        let Tune(tune) = self.next(inputs).await? else { return Err(unexpected()) };
        let agreed = agreed(&tune);
        let tuned = connection::TuneOk {
            channel_max: agreed.channels,
            frame_max: u32::try_from(agreed.frame).unwrap_or(u32::MAX),
            heartbeat: u16::try_from(agreed.heartbeat.as_secs()).unwrap_or(u16::MAX),
        };
        self.method(TuneOk(tuned)).await?;
        self.method(Open(connection::Open { virtual_host })).await?;
        let OpenOk(_) = self.next(inputs).await? else { return Err(unexpected()) };
        Ok((agreed, info(&start.server_properties)))
    }

    async fn send(&mut self, frame: AMQPFrame) -> Result<(), ActionError> {
        let sent = async {
            self.writer.write_all(&write(Vec::new(), &frame)?).await?;
            self.writer.flush().await
        };
        sent.await.map_err(|error| failed(&error))
    }

    async fn method(&mut self, method: connection::AMQPMethod) -> Result<(), ActionError> {
        self.send(AMQPFrame::Method(0, AMQPClass::Connection(method))).await
    }

    async fn next(&mut self, inputs: Inputs<'_>) -> Result<connection::AMQPMethod, ActionError> {
        loop {
            match self.frames.next().await.map_err(|error| failed(&error))? {
                Frame::Heartbeat => {}
                Frame::Method(0, AMQPClass::Connection(connection::AMQPMethod::Close(close))) => {
                    return Err(refused(inputs, &close));
                }
                Frame::Method(0, AMQPClass::Connection(method)) => return Ok(method),
                _ => return Err(unexpected()),
            }
        }
    }
}

/// The error of a server that refuses the login. Its own words are shown only where it has not read the password for them.
fn refused(inputs: Inputs<'_>, close: &connection::Close) -> ActionError {
    const ACCESS_REFUSED: u16 = 403;
    match close.reply_code {
        ACCESS_REFUSED => inputs.refuse(format!("{SUBJECT} refuses the login")).with_code("403"),
        code => {
            let words = quoted(close.reply_text.as_str(), inputs.text("password"));
            inputs.refuse(format!("{SUBJECT} says: {words}")).with_code(code_of(code))
        }
    }
}

fn failed(error: &std::io::Error) -> ActionError {
    not_sent(network(&format!("the connection to {SUBJECT} failed: {error}")))
}

fn unexpected() -> ActionError {
    not_sent(network(&format!("{SUBJECT} sends something else than the protocol asks for")))
}

/// The smaller of both sides; 0 is no limit.
fn agreed(tune: &connection::Tune) -> Agreed {
    let frame = usize::try_from(tune.frame_max).unwrap_or(usize::MAX);
    let frame = if frame == 0 { MAX_FRAME } else { frame.clamp(MIN_FRAME, MAX_FRAME) };
    let channels = if tune.channel_max == 0 { MAX_CHANNELS } else { tune.channel_max.min(MAX_CHANNELS) };
    let wanted = Duration::from_secs(tune.heartbeat.into());
    // A server may want none: ours tells a dead connection from a silent one all the same.
    let heartbeat = if wanted.is_zero() { HEARTBEAT } else { wanted.min(HEARTBEAT) };
    Agreed { frame, channels, heartbeat: heartbeat.max(Duration::from_secs(2)) }
}

/// The properties of this client. Its capabilities let the server say why it refuses a login, and that a queue is gone.
fn own_properties() -> FieldTable {
    let mut able = FieldTable::default();
    for name in ["publisher_confirms", "consumer_cancel_notify", "basic.nack", "authentication_failure_close"]
    {
        able.insert(name.into(), AMQPValue::Boolean(true));
    }
    let mut own = FieldTable::default();
    own.insert("product".into(), AMQPValue::LongString("cogwork".into()));
    own.insert("version".into(), AMQPValue::LongString(env!("CARGO_PKG_VERSION").into()));
    own.insert("connection_name".into(), AMQPValue::LongString("cogwork".into()));
    own.insert("capabilities".into(), AMQPValue::FieldTable(able));
    own
}

fn info(properties: &FieldTable) -> Info {
    let text = |name: &str| match properties.inner().get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string().chars().take(100).collect(),
        _ => String::new(),
    };
    Info { product: text("product"), version: text("version") }
}
