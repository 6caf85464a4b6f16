//! A Redis server of Debian, and a small client that shares no code with the product.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Connect, connected, not_installed};

const PROGRAM: &str = "/usr/bin/redis-server";
/// The time limit of an answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// A Redis server, which writes each change to disk before it answers.
pub type Server = crate::Server<Client>;

/// A connection, for one thread.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Connect for Client {
    fn connect(port: u16) -> io::Result<Self> {
        let writer = connected(port, ANSWER_TIME)?;
        let mut client = Self { reader: BufReader::new(writer.try_clone()?), writer };
        client.send(&[b"PING"])?;
        match client.reply()? {
            Err(error) if error.starts_with("LOADING") => Err(io::Error::other(error)),
            _ => Ok(client),
        }
    }

    fn start(configuration: &str) -> Option<Server> {
        if !Path::new(PROGRAM).is_file() {
            not_installed("redis-server", "scripts/need.sh redis-server");
            return None;
        }
        Some(Server::begin(Path::new(PROGRAM), configuration, |server, lines| {
            let (port, path) = (server.port, server.path());
            let text = format!(
                "bind 127.0.0.1\nport {port}\ndir \"{path}\"\npidfile \"{path}/pid\"\nsave \"\"\nappendonly yes\n\
                 appendfsync always\nlogfile \"{path}/log\"\n{lines}\n"
            );
            server.arguments = vec![server.write("server.conf", &text)?];
            Ok(())
        }))
    }
}

impl Client {
    fn send(&mut self, command: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        self.writer.write_all(&bytes)
    }

    fn reply(&mut self) -> io::Result<Result<Value, String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or(io::ErrorKind::InvalidData)?;
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        Ok(match kind {
            "-" => Err(rest.to_owned()),
            ":" => Ok(json!(number()?)),
            "$" => match usize::try_from(number()?) {
                Err(_) => Ok(Value::Null),
                Ok(size) => {
                    let mut bytes = vec![0; size + 2];
                    self.reader.read_exact(&mut bytes)?;
                    bytes.truncate(size);
                    Ok(json!(String::from_utf8_lossy(&bytes)))
                }
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => Ok(Value::Null),
                Ok(count) => {
                    let mut values = Vec::new();
                    for _ in 0..count {
                        match self.reply()? {
                            Ok(value) => values.push(value),
                            Err(error) => return Ok(Err(error)),
                        }
                    }
                    Ok(Value::Array(values))
                }
            },
            _ => Ok(json!(rest)),
        })
    }

    /// Sends a command.
    ///
    /// # Errors
    /// The server's error.
    ///
    /// # Panics
    /// There is no answer.
    pub fn ask(&mut self, command: &[&str]) -> Result<Value, String> {
        let command: Vec<&[u8]> = command.iter().map(|part| part.as_bytes()).collect();
        self.send(&command)
            .and_then(|()| self.reply())
            .unwrap_or_else(|error| panic!("there is no answer: {error}"))
    }

    /// Sends a command that the server does not refuse.
    ///
    /// # Panics
    /// It refuses it, or does not answer.
    pub fn get(&mut self, command: &[&str]) -> Value {
        self.ask(command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Returns the number of connections that the server has accepted so far.
    ///
    /// # Panics
    /// It does not answer.
    pub fn connections(&mut self) -> u64 {
        let stats = self.get(&["INFO", "stats"]);
        let lines = stats.as_str().into_iter().flat_map(str::lines);
        let mut counts = lines.filter_map(|line| line.strip_prefix("total_connections_received:"));
        counts.next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("it tells no count"))
    }

    /// Adds an entry with the field `body` to a stream, and returns its id.
    ///
    /// # Panics
    /// The server refuses.
    pub fn add(&mut self, stream: &str, body: &[u8]) -> String {
        let command = [b"XADD".as_slice(), stream.as_bytes(), b"*", b"body", body];
        let sent = self.send(&command).and_then(|()| self.reply());
        let id = sent.unwrap_or_else(|error| panic!("there is no answer: {error}"));
        id.ok()
            .as_ref()
            .and_then(Value::as_str)
            .map(str::to_owned)
            .unwrap_or_else(|| panic!("`{stream}` takes none"))
    }

    /// Takes this many entries as a consumer of a group, page by page, and acknowledges them.
    ///
    /// # Panics
    /// The server refuses.
    pub fn take(&mut self, stream: &str, group: &str, (count, batch): (usize, usize)) {
        let (mut taken, batch) = (0, batch.to_string());
        while taken < count {
            let read = [
                "XREADGROUP",
                "GROUP",
                group,
                "plain",
                "COUNT",
                &batch,
                "BLOCK",
                "1000",
                "STREAMS",
                stream,
                ">",
            ];
            let entries = self.get(&read)[0][1].take();
            let ids = entries.as_array().into_iter().flatten().filter_map(|entry| entry[0].as_str());
            let acknowledge: Vec<&str> = ["XACK", stream, group].into_iter().chain(ids).collect();
            if acknowledge.len() > 3 {
                taken += acknowledge.len() - 3;
                self.get(&acknowledge);
            }
        }
    }

    /// Returns the number of entries that a group has not acknowledged: waiting ones, and pending ones.
    ///
    /// # Panics
    /// There is no such group.
    pub fn unsettled(&mut self, stream: &str, group: &str) -> u64 {
        let groups = self.get(&["XINFO", "GROUPS", stream]);
        for row in groups.as_array().into_iter().flatten() {
            let field = |name: &str| {
                let at = row.as_array()?.iter().position(|value| value == name)?;
                row.get(at + 1).cloned()
            };
            if field("name") == Some(json!(group)) {
                // Both of one answer: an entry that is delivered between two answers would be in neither.
                let pending = field("pending").and_then(|count| count.as_u64()).unwrap_or_default();
                let last = field("last-delivered-id").and_then(|id| id.as_str().map(str::to_owned));
                let from = format!("({}", last.unwrap_or_default());
                let new = self.get(&["XRANGE", stream, &from, "+"]);
                return pending + new.as_array().map_or(0, Vec::len) as u64;
            }
        }
        panic!("`{stream}` has no group `{group}`")
    }
}
