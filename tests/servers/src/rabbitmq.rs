//! A RabbitMQ server of Debian, and a small client that shares no code with the product.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{CHECK_INTERVAL, Connect, Running, connected, free_port, not_installed};

/// The account that everybody may use on loopback.
pub const USER: &str = "guest";
/// Its password.
pub const PASSWORD: &str = "guest";

/// The time limit of an answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The names of hosts begin with this: each server is a node of its own.
const NODE: &str = "test";

/// A RabbitMQ server.
pub type Server = crate::Server<Client>;

/// Writes a file of definitions, which the server reads at each start with `load_definitions`: its accounts with their passwords beside
/// the usual one.
///
/// # Errors
/// The file cannot be written.
pub fn write_users(path: &Path, users: &[(&str, &str)]) -> io::Result<()> {
    const SALT: [u8; 4] = *b"test";
    let all = users.iter().chain(&[(USER, PASSWORD)]);
    let account = |(name, password): &(&str, &str)| {
        let digest = Sha256::new().chain_update(SALT).chain_update(password).finalize();
        let hash = STANDARD.encode([&SALT[..], &digest].concat());
        json!({"name": name, "password_hash": hash, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ""})
    };
    let permission = |(name, _): &(&str, &str)| json!({"user": name, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"});
    let accounts: Vec<Value> = all.clone().map(account).collect();
    let permissions: Vec<Value> = all.map(permission).collect();
    let text = json!({"vhosts": [{"name": "/"}], "users": accounts, "permissions": permissions}).to_string();
    std::fs::write(path, text)
}

/// The program itself: Debian's command takes an account of its own.
fn program() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/rabbitmq/lib").ok();
    let found =
        versions.into_iter().flatten().flatten().map(|entry| entry.path().join("sbin/rabbitmq-server"));
    let found = found.filter(|path| path.is_file()).max();
    if found.is_none() {
        not_installed("rabbitmq-server", "scripts/need.sh rabbitmq-server");
    }
    found
}

/// A connection with one channel, for one thread.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

/// A message of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// Its properties as they came.
    pub properties: Vec<u8>,
    /// Its content.
    pub body: Vec<u8>,
}

/// The bit of the property `message-id`.
const MESSAGE_ID: u16 = 1 << 7;

impl Connect for Client {
    fn connect(port: u16) -> io::Result<Self> {
        let writer = connected(port, ANSWER_TIME)?;
        let mut client = Self { reader: BufReader::new(writer.try_clone()?), writer };
        client.writer.write_all(b"AMQP\0\0\x09\x01")?;
        client.expect(0, (10, 10))?;
        let login = format!("\0{USER}\0{PASSWORD}");
        client.method(
            0,
            (10, 11),
            &[long(b""), short("PLAIN"), long(login.as_bytes()), short("en_US")].concat(),
        )?;
        let tune = client.expect(0, (10, 30))?;
        // The same limits, and no heartbeats.
        let agreed = [tune.get(..6).unwrap_or_default(), &[0, 0]].concat();
        client.method(0, (10, 31), &agreed)?;
        client.ask(0, (10, 40), &[short("/"), vec![0, 0]].concat(), (10, 41))?;
        client.ask(1, (20, 10), &[0], (20, 11))?;
        client.ask(1, (85, 10), &[0], (85, 11))?;
        Ok(client)
    }

    fn start(configuration: &str) -> Option<Server> {
        let path = program()?;
        let sh = Path::new("/bin/sh");
        Some(Server::begin(sh, configuration, |server, lines| {
            let [names_port, nodes_port] = [free_port()?, free_port()?];
            let (port, home) = (server.port, server.path());
            let text = format!("listeners.tcp.1 = 127.0.0.1:{port}\nlog.console = false\n{lines}\n");
            server.write("server.conf", &text)?;
            server.write("plugins", "[].")?;
            let run = |pid: &str, variables: &[String], command: &[String]| -> Vec<String> {
                // The process id is that of the program, which takes the place of the shell.
                let script = format!("echo $$ > '{home}/{pid}'; exec env \"$@\"");
                let words = ["-c".to_owned(), script, "sh".to_owned()];
                words.into_iter().chain(variables.iter().cloned()).chain(command.iter().cloned()).collect()
            };
            let names = [format!("HOME={home}"), format!("ERL_EPMD_PORT={names_port}")];
            let command = ["epmd".to_owned(), "-port".to_owned(), names_port.to_string()];
            let arguments = run("names.pid", &names, &command);
            let pid = server.folder.path().join("names.pid");
            // The register of nodes, without which the server does not start.
            server.beside = Some(Running::start(sh, &arguments, pid, names_port)?);
            let variables = [
                format!("RABBITMQ_NODENAME={NODE}-{port}@localhost"),
                format!("RABBITMQ_MNESIA_BASE={home}/store"),
                format!("RABBITMQ_LOG_BASE={home}/log"),
                format!("RABBITMQ_CONFIG_FILE={home}/server.conf"),
                format!("RABBITMQ_ENABLED_PLUGINS_FILE={home}/plugins"),
                format!("RABBITMQ_DIST_PORT={nodes_port}"),
                "RUNNING_UNDER_SYSTEMD=true".to_owned(),
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
                    .to_owned(),
            ];
            let variables: Vec<String> = names.into_iter().chain(variables).collect();
            server.arguments = run("pid", &variables, &[path.display().to_string()]);
            Ok(())
        }))
    }
}

impl Client {
    fn frame(&mut self, kind: u8, channel: u16, content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len()).map_err(io::Error::other)?.to_be_bytes();
        let frame = [&[kind], &channel.to_be_bytes()[..], &size, content, &[0xce]].concat();
        self.writer.write_all(&frame)
    }

    fn method(&mut self, channel: u16, id: (u16, u16), arguments: &[u8]) -> io::Result<()> {
        self.frame(1, channel, &[&id.0.to_be_bytes()[..], &id.1.to_be_bytes(), arguments].concat())
    }

    fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 7];
        self.reader.read_exact(&mut head)?;
        let [kind, _, _, size @ ..] = head;
        let mut content = vec![0; usize::try_from(u32::from_be_bytes(size)).map_err(io::Error::other)? + 1];
        self.reader.read_exact(&mut content)?;
        content.pop();
        Ok((kind, content))
    }

    /// Waits for a method, and returns its arguments.
    fn expect(&mut self, _channel: u16, id: (u16, u16)) -> io::Result<Vec<u8>> {
        loop {
            let (kind, content) = self.read()?;
            if kind != 1 {
                continue;
            }
            let (found, arguments) = split(&content);
            if found == id {
                return Ok(arguments);
            }
            if found == (20, 40) || found == (10, 50) {
                return Err(io::Error::other(String::from_utf8_lossy(&arguments).into_owned()));
            }
        }
    }

    fn ask(
        &mut self,
        channel: u16,
        id: (u16, u16),
        arguments: &[u8],
        answer: (u16, u16),
    ) -> io::Result<Vec<u8>> {
        self.method(channel, id, arguments)?;
        self.expect(channel, answer)
    }

    fn declare(&mut self, queue: &str, flags: u8) -> io::Result<u64> {
        let arguments = [vec![0, 0], short(queue), vec![flags], long(b"")].concat();
        let answer = self.ask(1, (50, 10), &arguments, (50, 11))?;
        let counts = answer.get(1 + queue.len()..).and_then(|counts| counts.first_chunk());
        Ok(u32::from_be_bytes(*counts.ok_or(io::ErrorKind::UnexpectedEof)?).into())
    }

    /// Creates a durable queue.
    ///
    /// # Panics
    /// The server refuses.
    pub fn create_queue(&mut self, queue: &str) {
        self.declare(queue, 0b10).unwrap_or_else(|error| panic!("`{queue}` is not created: {error}"));
    }

    /// Deletes a queue.
    ///
    /// # Panics
    /// The server refuses.
    pub fn delete_queue(&mut self, queue: &str) {
        let arguments = [vec![0, 0], short(queue), vec![0]].concat();
        let deleted = self.ask(1, (50, 40), &arguments, (50, 41));
        deleted.unwrap_or_else(|error| panic!("`{queue}` is not deleted: {error}"));
    }

    /// Returns the number of messages that wait in a queue, without the ones that consumers have.
    ///
    /// # Panics
    /// There is no such queue.
    pub fn count(&mut self, queue: &str) -> u64 {
        self.declare(queue, 0b1).unwrap_or_else(|error| panic!("`{queue}` cannot be counted: {error}"))
    }

    /// Publishes a message to a queue, and waits until it has it.
    ///
    /// # Panics
    /// The server refuses.
    pub fn publish(&mut self, queue: &str, body: &[u8], message_id: Option<&str>) {
        let properties = match message_id {
            // Persistent, with the id.
            Some(id) => [&(MESSAGE_ID | 1 << 12).to_be_bytes()[..], &[2], &short(id)].concat(),
            None => [&(1_u16 << 12).to_be_bytes()[..], &[2]].concat(),
        };
        self.publish_raw(queue, body, &properties);
    }

    /// Publishes a message with these properties, as they are sent.
    ///
    /// # Panics
    /// The server refuses.
    pub fn publish_raw(&mut self, queue: &str, body: &[u8], properties: &[u8]) {
        let sent = || -> io::Result<()> {
            self.method(1, (60, 40), &[vec![0, 0], short(""), short(queue), vec![0]].concat())?;
            let size = u64::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes();
            self.frame(2, 1, &[&[0, 60, 0, 0], &size[..], properties].concat())?;
            for part in body.chunks(64 << 10) {
                self.frame(3, 1, part)?;
            }
            self.expect(1, (60, 80)).map(drop)
        };
        let mut sent = sent;
        sent().unwrap_or_else(|error| panic!("`{queue}` takes no message: {error}"));
    }

    /// Publishes as many messages without properties, and waits until the server has all of them.
    ///
    /// # Panics
    /// The server refuses.
    pub fn publish_all(&mut self, queue: &str, body: &[u8], count: usize) {
        let before = self.count(queue);
        let sent = || -> io::Result<()> {
            for _ in 0..count {
                self.method(1, (60, 40), &[vec![0, 0], short(""), short(queue), vec![0]].concat())?;
                let size = u64::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes();
                self.frame(2, 1, &[&[0, 60, 0, 0], &size[..], &[0, 0]].concat())?;
                self.frame(3, 1, body)?;
            }
            Ok(())
        };
        let mut sent = sent;
        sent().unwrap_or_else(|error| panic!("`{queue}` takes no messages: {error}"));
        while self.count(queue).saturating_sub(before) < u64::try_from(count).unwrap_or(u64::MAX) {
            std::thread::park_timeout(CHECK_INTERVAL);
        }
    }

    /// Takes as many messages as a consumer, and acknowledges each `batch` of them at once.
    ///
    /// # Panics
    /// The server refuses, or has less.
    pub fn take(&mut self, queue: &str, count: usize, batch: usize) {
        let taken = || -> io::Result<()> {
            let ahead = u16::try_from(2 * batch).map_err(io::Error::other)?.to_be_bytes();
            self.ask(1, (60, 10), &[&[0; 4], &ahead[..], &[0]].concat(), (60, 11))?;
            let consume = [vec![0, 0], short(queue), short("plain"), vec![0], long(b"")].concat();
            self.method(1, (60, 20), &consume)?;
            let (mut left, mut tag) = (count, [0; 8]);
            while left > 0 {
                let (kind, content) = self.read()?;
                match (kind, split(&content)) {
                    // The tag of the consumer is before that of the message.
                    (1, ((60, 60), arguments)) => {
                        let found = arguments.get(1 + "plain".len()..).and_then(|rest| rest.first_chunk());
                        tag = *found.ok_or(io::ErrorKind::UnexpectedEof)?;
                    }
                    (3, _) => {
                        left -= 1;
                        if left.is_multiple_of(batch) {
                            self.method(1, (60, 80), &[&tag[..], &[1]].concat())?;
                        }
                    }
                    _ => {}
                }
            }
            self.ask(1, (60, 30), &[short("plain"), vec![0]].concat(), (60, 31)).map(drop)
        };
        let mut taken = taken;
        taken().unwrap_or_else(|error| panic!("`{queue}` gives no messages: {error}"));
    }

    /// Takes the next message of a queue; `None` if there is none.
    ///
    /// # Panics
    /// There is no such queue.
    pub fn get(&mut self, queue: &str) -> Option<Got> {
        let got = || -> io::Result<Option<Got>> {
            self.method(1, (60, 70), &[vec![0, 0], short(queue), vec![1]].concat())?;
            let (mut properties, mut body, mut size) = (Vec::new(), Vec::new(), None);
            loop {
                match self.read()? {
                    (1, content) if split(&content).0 == (60, 72) => return Ok(None),
                    (1, content) if split(&content).0 == (60, 71) => {}
                    (2, content) => {
                        let bytes = content.get(4..12).and_then(|size| size.first_chunk());
                        size = bytes.map(|bytes| u64::from_be_bytes(*bytes));
                        properties = content.get(12..).unwrap_or_default().to_vec();
                    }
                    (3, content) => body.extend(content),
                    (_, content) => {
                        return Err(io::Error::other(String::from_utf8_lossy(&content).into_owned()));
                    }
                }
                if size.is_some_and(|size| u64::try_from(body.len()).is_ok_and(|here| here >= size)) {
                    return Ok(Some(Got { properties, body }));
                }
            }
        };
        let mut got = got;
        got().unwrap_or_else(|error| panic!("`{queue}` gives no message: {error}"))
    }
}

fn split(content: &[u8]) -> ((u16, u16), Vec<u8>) {
    match content {
        [a, b, c, d, rest @ ..] => {
            ((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])), rest.to_vec())
        }
        _ => ((0, 0), Vec::new()),
    }
}

fn short(text: &str) -> Vec<u8> {
    let size = u8::try_from(text.len()).unwrap_or(u8::MAX);
    [&[size], text.as_bytes()].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&size.to_be_bytes()[..], bytes].concat()
}
