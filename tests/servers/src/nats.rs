//! A NATS server with JetStream, and a small client that shares no code with the product.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Connect, connected, program};

/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A NATS server.
pub type Server = crate::Server<Client>;

/// A connection, for one thread.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

/// The subject of all answers.
const INBOX: &str = "_INBOX.tests";

impl Connect for Client {
    fn connect(port: u16) -> io::Result<Self> {
        let writer = connected(port, PATIENCE)?;
        let mut client = Self { reader: BufReader::new(writer.try_clone()?), writer };
        client.line()?;
        let hello = json!({"verbose": false, "pedantic": false, "headers": true, "no_responders": true});
        write!(client.writer, "CONNECT {hello}\r\nSUB {INBOX} 1\r\n")?;
        client.flush()?;
        Ok(client)
    }

    fn check_ready(_: u16) -> io::Result<()> {
        Ok(())
    }

    fn start(configuration: &str) -> Option<Server> {
        let program = program("nats-server")?;
        Some(Server::begin(&program, configuration, |server, lines| {
            let (port, path) = (server.port, server.path());
            let text = format!(
                "listen: 127.0.0.1:{port}\nserver_name: test\njetstream {{ store_dir: \"{path}/store\" }}\n\
                 pid_file: \"{path}/pid\"\n{lines}\n"
            );
            server.arguments = vec!["-c".to_owned(), server.write("server.conf", &text)?];
            Ok(())
        }))
    }
}

impl Client {
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Returns the next message; `None` for the answer to a ping.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let line = self.line()?;
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["PONG"] => return Ok(None),
                ["PING"] => self.writer.write_all(b"PONG\r\n")?,
                ["MSG", .., size] => return self.body(size, "0").map(Some),
                ["HMSG", .., headers, size] => return self.body(size, headers).map(Some),
                ["-ERR", ..] => return Err(io::Error::other(line)),
                _ => {}
            }
        }
    }

    fn body(&mut self, size: &str, headers: &str) -> io::Result<Vec<u8>> {
        let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
        let mut bytes = vec![0; number(size)? + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(bytes.len() - 2);
        Ok(bytes.split_off(number(headers)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.write_all(b"PING\r\n")?;
        while self.next()?.is_some() {}
        Ok(())
    }

    /// Sends a request and returns the answer as JSON.
    ///
    /// # Panics
    /// There is no answer, or it is an error.
    pub fn request(&mut self, subject: &str, body: &[u8]) -> Value {
        let sent = || -> io::Result<Value> {
            write!(self.writer, "PUB {subject} {INBOX} {}\r\n", body.len())?;
            self.writer.write_all(body)?;
            self.writer.write_all(b"\r\n")?;
            let answer = loop {
                if let Some(answer) = self.next()? {
                    break answer;
                }
            };
            serde_json::from_slice(&answer).map_err(io::Error::other)
        };
        let mut sent = sent;
        let answer = sent().unwrap_or_else(|error| panic!("`{subject}` has no answer: {error}"));
        assert!(answer["error"].is_null(), "{answer}");
        answer
    }

    /// Creates a stream that takes the subjects `NAME.>` in lower case.
    ///
    /// # Panics
    /// The server refuses.
    pub fn create_stream(&mut self, name: &str) {
        let config =
            json!({"name": name, "subjects": [format!("{}.>", name.to_lowercase())], "storage": "file"});
        self.request(&format!("$JS.API.STREAM.CREATE.{name}"), config.to_string().as_bytes());
    }

    /// Deletes a stream.
    ///
    /// # Panics
    /// The server refuses.
    pub fn delete_stream(&mut self, name: &str) {
        self.request(&format!("$JS.API.STREAM.DELETE.{name}"), b"");
    }

    /// Publishes a message to a stream, and waits until it has it.
    ///
    /// # Panics
    /// The server refuses.
    pub fn publish(&mut self, subject: &str, body: &[u8]) -> u64 {
        self.request(subject, body)["seq"].as_u64().unwrap_or_default()
    }

    /// Returns the messages of a stream that no consumer of this name has acknowledged: waiting ones, and the ones under way. The consumer
    /// takes all subjects of the stream.
    ///
    /// # Panics
    /// There is no such consumer.
    pub fn unsettled(&mut self, stream: &str, consumer: &str) -> u64 {
        let info = self.request(&format!("$JS.API.STREAM.INFO.{stream}"), b"");
        let last = info["state"]["last_seq"].as_u64().unwrap_or_default();
        let info = self.request(&format!("$JS.API.CONSUMER.INFO.{stream}.{consumer}"), b"");
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        // The server counts `num_pending` some time after it has confirmed a message.
        last.saturating_sub(number(&info["delivered"]["stream_seq"])) + number(&info["num_ack_pending"])
    }

    /// Returns the message with this number in a stream.
    ///
    /// # Panics
    /// There is no such message.
    pub fn message(&mut self, stream: &str, sequence: u64) -> Value {
        let body = json!({"seq": sequence}).to_string();
        self.request(&format!("$JS.API.STREAM.MSG.GET.{stream}"), body.as_bytes())["message"].clone()
    }

    /// Returns the number of messages of a stream.
    ///
    /// # Panics
    /// There is no such message.
    pub fn count(&mut self, stream: &str) -> u64 {
        let info = self.request(&format!("$JS.API.STREAM.INFO.{stream}"), b"");
        info["state"]["messages"].as_u64().unwrap_or_default()
    }
}
