//! Frames, read with a limit, and only the ones that a client expects.

use std::io;

use amq_protocol::frame::{AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::AMQPClass;
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::properties::{Properties, check_table};

/// The largest frame that is agreed on, in bytes.
pub(super) const MAX_FRAME: usize = 128 << 10;
/// The bytes of a frame before its content: its type, its channel and the size of the content.
const HEAD: usize = 7;
/// The bytes of a frame around its content.
pub(super) const AROUND: usize = HEAD + 1;
/// The last byte of each frame.
const END: u8 = 0xce;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// `connection.start`, whose properties are a table.
const START: (u16, u16) = (10, 10);
/// The methods that a server sends, by class and number. The parser takes any other one too, and calls itself for each level of their tables.
const EXPECTED: [(u16, u16); 19] = [
    START,
    (10, 20),  // connection.secure
    (10, 30),  // connection.tune
    (10, 41),  // connection.open-ok
    (10, 50),  // connection.close
    (10, 51),  // connection.close-ok
    (20, 11),  // channel.open-ok
    (20, 40),  // channel.close
    (20, 41),  // channel.close-ok
    (50, 11),  // queue.declare-ok
    (60, 11),  // basic.qos-ok
    (60, 21),  // basic.consume-ok
    (60, 30),  // basic.cancel
    (60, 31),  // basic.cancel-ok
    (60, 50),  // basic.return
    (60, 60),  // basic.deliver
    (60, 80),  // basic.ack
    (60, 120), // basic.nack
    (85, 11),  // confirm.select-ok
];

/// A frame with the number of its channel.
pub(super) enum Frame {
    Method(u16, AMQPClass),
    /// The size of the body, and the properties as they came.
    Header(u16, u64, Bytes),
    Body(u16, Bytes),
    Heartbeat,
}

/// Reads frames.
pub(super) struct Frames<S> {
    stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + Unpin> Frames<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// Returns the next frame. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The connection has ended, or the server breaks the protocol.
    pub(super) async fn next(&mut self) -> io::Result<Frame> {
        loop {
            let needed = match wanted(&self.buffer)? {
                Some(size) if self.buffer.len() >= size => {
                    let frame = self.buffer.split_to(size).freeze();
                    return read(&frame);
                }
                size => size.unwrap_or(HEAD),
            };
            self.buffer.reserve(needed.saturating_sub(self.buffer.len()).max(4 << 10));
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The size of the frame at the start, once it is known.
fn wanted(buffer: &[u8]) -> io::Result<Option<usize>> {
    match buffer.first() {
        None | Some(&(METHOD | HEADER | BODY | HEARTBEAT)) => {}
        Some(_) => return Err(broken("it does not speak AMQP 0-9-1")),
    }
    let Some(mut size) = buffer.get(3..HEAD) else { return Ok(None) };
    let size = usize::try_from(size.get_u32()).unwrap_or(usize::MAX);
    match size.checked_add(AROUND) {
        Some(size) if size <= MAX_FRAME => Ok(Some(size)),
        _ => Err(broken("a frame is larger than was agreed on")),
    }
}

/// Reads a complete frame.
fn read(frame: &Bytes) -> io::Result<Frame> {
    let incomplete = || broken("a frame is incomplete");
    let [kind, high, low, ..] = **frame else { return Err(incomplete()) };
    let channel = u16::from_be_bytes([high, low]);
    let end = frame.len().saturating_sub(1);
    if frame.get(end) != Some(&END) || end < HEAD {
        return Err(incomplete());
    }
    let content = frame.slice(HEAD..end);
    match kind {
        METHOD => Ok(Frame::Method(channel, method(frame, &content)?)),
        HEADER => {
            // The class, a weight, the size of the body.
            let mut size = content.get(4..12).ok_or_else(incomplete)?;
            Ok(Frame::Header(channel, size.get_u64(), content.slice(12..)))
        }
        BODY => Ok(Frame::Body(channel, content)),
        _ => Ok(Frame::Heartbeat),
    }
}

fn method(frame: &[u8], content: &[u8]) -> io::Result<AMQPClass> {
    let unexpected = || broken("it sends what no server sends");
    let mut ids = content.get(..4).ok_or_else(unexpected)?;
    let ids = (ids.get_u16(), ids.get_u16());
    if !EXPECTED.contains(&ids) {
        return Err(unexpected());
    }
    if ids == START {
        // After the numbers of the version.
        check_table(content.get(6..).unwrap_or_default()).map_err(|error| broken(&error))?;
    }
    match parse_frame(frame) {
        Ok((_, AMQPFrame::Method(_, class))) => Ok(class),
        _ => Err(broken("a method cannot be read")),
    }
}

/// Reads bytes as the frames of a server until one breaks a rule, with the properties of messages, for the fuzzer.
pub fn read_frames(bytes: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    runtime.block_on(async {
        let mut frames = Frames::new(bytes);
        while let Ok(frame) = frames.next().await {
            if let Frame::Header(_, _, properties) = frame
                && let Ok(properties) = Properties::read(&properties)
            {
                let _ = properties.to_wire();
            }
        }
    });
}

fn broken(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

/// Appends a frame. Its texts must fit: short ones have up to 255 bytes.
pub(super) fn write(bytes: Vec<u8>, frame: &AMQPFrame) -> io::Result<Vec<u8>> {
    let written = gen_frame(frame)(WriteContext::from(bytes));
    written.map(|written| written.into_inner().0).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use amq_protocol::protocol::{connection, queue};
    use amq_protocol::types::{AMQPValue, FieldTable};

    use super::*;

    async fn first(bytes: &[u8]) -> Result<Frame, String> {
        Frames::new(bytes).next().await.map_err(|error| error.to_string())
    }

    fn framed(kind: u8, content: &[u8]) -> Vec<u8> {
        let size = u32::try_from(content.len()).expect("a size").to_be_bytes();
        [&[kind, 0, 1], &size[..], content, &[END]].concat()
    }

    #[tokio::test]
    async fn frames_come_whole_and_in_order() {
        let mut header = vec![0, 60, 0, 0];
        header.extend(7_u64.to_be_bytes());
        header.extend([0, 0]);
        let bytes = [framed(HEADER, &header), framed(BODY, b"content"), framed(HEARTBEAT, b"")].concat();
        let mut frames = Frames::new(&*bytes);
        let Ok(Frame::Header(1, 7, properties)) = frames.next().await else { panic!("a header") };
        assert_eq!(&*properties, [0, 0]);
        let Ok(Frame::Body(1, body)) = frames.next().await else { panic!("a body") };
        assert_eq!(&*body, b"content");
        assert!(matches!(frames.next().await, Ok(Frame::Heartbeat)));
        assert!(frames.next().await.is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof));
    }

    #[tokio::test]
    async fn a_frame_above_the_limit_is_refused_before_it_has_come() {
        let size = u32::try_from(MAX_FRAME - AROUND + 1).expect("a size").to_be_bytes();
        let error = first(&[&[BODY, 0, 1][..], &size].concat()).await.err();
        assert_eq!(error.as_deref(), Some("a frame is larger than was agreed on"));
        assert!(first(&framed(BODY, &vec![0; MAX_FRAME - AROUND])).await.is_ok());
    }

    #[tokio::test]
    async fn a_server_of_another_protocol_is_named_as_such() {
        let error = first(b"AMQP\x00\x01\x00\x00").await.err();
        assert_eq!(error.as_deref(), Some("it does not speak AMQP 0-9-1"));
    }

    #[tokio::test]
    async fn deep_tables_never_reach_the_parser() {
        let mut table = FieldTable::default();
        for _ in 0..100 {
            let mut outer = FieldTable::default();
            outer.insert("a".into(), AMQPValue::FieldTable(table));
            table = outer;
        }
        let start = connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: table.clone(),
            mechanisms: "PLAIN".into(),
            locales: "en_US".into(),
        };
        let start = AMQPClass::Connection(connection::AMQPMethod::Start(start));
        let bytes = write(Vec::new(), &AMQPFrame::Method(0, start)).expect("it is written");
        let error = first(&bytes).await.err();
        assert_eq!(error.as_deref(), Some("a table has more than 16 levels"));
        // A client sends this one.
        let declare = queue::Declare {
            queue: "orders".into(),
            passive: false,
            durable: false,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments: table,
        };
        let declare = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
        let bytes = write(Vec::new(), &AMQPFrame::Method(1, declare)).expect("it is written");
        assert_eq!(first(&bytes).await.err().as_deref(), Some("it sends what no server sends"));
    }
}
