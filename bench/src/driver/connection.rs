//! One kept connection: a request out, its answer in.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::answer::{Layout, parse};
use crate::Error;

/// Room for answers; longer ones make it grow up to their limits.
const BUFFER: usize = 4 << 10;

/// A connection to a server.
pub(crate) struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    buffer: Vec<u8>,
    /// The number of bytes at the beginning of the buffer that belong to the last answer.
    used: usize,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer<'connection> {
    /// Its status.
    pub(crate) status: u16,
    /// Its head as it came.
    pub(crate) head: &'connection [u8],
    /// Its body.
    pub(crate) body: &'connection [u8],
}

/// The bytes of a request with a JSON body, or without any where it is empty.
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Arc<[u8]> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: cogwork-bench\r\n");
    if !body.is_empty() {
        // Writing to a text cannot fail.
        let _ = write!(head, "content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat().into()
}

/// The bytes of a GET with the token of an API.
pub(crate) fn authorized(path: &str, token: &str) -> Arc<[u8]> {
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    head.into_bytes().into()
}

/// The bytes of a POST of JSON with the token of an API.
pub(crate) fn authorized_post(path: &str, token: &str, body: &[u8]) -> Arc<[u8]> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat().into()
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect(address).await.map_err(Error::io(address))?;
        stream.set_nodelay(true).map_err(Error::io(address))?;
        Ok(Self { stream, address, buffer: Vec::with_capacity(BUFFER), used: 0 })
    }

    /// Sends the bytes of a request whose answer is not read.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.stream.write_all(request).await.map_err(Error::io(self.address))
    }

    /// Sends the bytes of one request and waits for its answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>, Error> {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.stream.write_all(request).await.map_err(Error::io(self.address))?;
        let bodiless = request.starts_with(b"HEAD ");
        let Layout { status, head, end } = loop {
            let layout = parse(&self.buffer, bodiless);
            let layout = layout.map_err(|reason| Error::Server(format!("{}: {reason}", self.address)))?;
            match layout {
                Some(layout) => break layout,
                None => self.receive().await?,
            }
        };
        self.used = end;
        Ok(Answer { status, head: &self.buffer[..head], body: &self.buffer[head..end] })
    }

    async fn receive(&mut self) -> Result<(), Error> {
        match self.stream.read_buf(&mut self.buffer).await.map_err(Error::io(self.address))? {
            0 => Err(Error::Server(format!("{} closed the connection before it answered", self.address))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_request_has_a_content_length() {
        let text = String::from_utf8(request("POST", "/x", b"{}").to_vec()).expect("text");
        assert!(
            text.starts_with("POST /x HTTP/1.1\r\n") && text.ends_with("content-length: 2\r\n\r\n{}"),
            "{text}"
        );
        let text = String::from_utf8(request("GET", "/", b"").to_vec()).expect("text");
        assert!(!text.contains("content-length") && text.ends_with("\r\n\r\n"), "{text}");
    }

    #[tokio::test]
    async fn responses_are_separated_however_they_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.read_exact(&mut [0; 14]).await.expect("a request");
            // The beginning of the second answer comes with the end of the first.
            for piece in [
                "HTTP/1.1 200 OK\r\ncontent-le",
                "ngth: 3\r\n\r\noneHTTP/1.1 404 Not Found\r\n",
                "content-length: 3\r\n\r\ntwo",
            ] {
                stream.write_all(piece.as_bytes()).await.expect("written");
            }
            stream
        };
        let ask = async {
            let mut connection = Connection::open(address).await.expect("a connection");
            let answer = connection.ask(b"GET / HTTP/1.1").await.expect("an answer");
            assert_eq!((answer.status, answer.body), (200, &b"one"[..]));
            let answer = connection.ask(b"").await.expect("an answer");
            assert_eq!((answer.status, answer.body), (404, &b"two"[..]));
            assert!(answer.head.starts_with(b"HTTP/1.1 404"));
        };
        tokio::join!(serve, ask);
    }

    #[tokio::test]
    async fn a_closed_connection_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let serve = async { drop(listener.accept().await.expect("a connection")) };
        let ask = async {
            let mut connection = Connection::open(address).await.expect("a connection");
            connection.ask(&request("GET", "/", b"")).await.map(drop)
        };
        let ((), answer) = tokio::join!(serve, ask);
        assert!(answer.is_err());
    }
}
