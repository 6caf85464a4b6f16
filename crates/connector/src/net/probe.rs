//! The protocol that a server speaks, for the message about a login that failed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::AsyncReadExt as _;
use tokio::sync::OnceCell;

use super::{Route, TlsFiles, secure, tls_config};

/// The time for the greeting of a server that speaks first.
const GREETING_TIME: Duration = Duration::from_millis(500);
/// The time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(1);
/// The time for which a greeting is remembered: a server that fails each step is asked once in this time.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The largest number of servers whose greetings are remembered.
const MAX_SERVERS: usize = 256;
/// The largest part of a greeting that is read, in bytes.
const MAX_GREETING: usize = 2048;
/// The bit of MySQL's capabilities for TLS (`CLIENT_SSL`).
const MYSQL_TLS: u8 = 0x08;

/// The behaviour of a server at a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It greets in this protocol. `tls` is true if it then wants TLS, or takes it; `None` if its greeting does not tell.
    Protocol {
        /// The name of the protocol.
        name: &'static str,
        /// True if it then wants TLS, or takes it.
        tls: Option<bool>,
    },
    /// It waits for the client, and takes TLS.
    Tls,
    /// It waits for the client, and takes no TLS.
    NoTls,
    /// It sends nothing.
    NoAnswer,
}

/// The greetings of servers at which a login failed.
#[derive(Default)]
pub(crate) struct Greetings(Mutex<HashMap<(SocketAddr, String), Remembered>>);

struct Remembered {
    since: Timestamp,
    /// Is empty while the first call that needs it asks the server, for which the others wait.
    greeting: Arc<OnceCell<Option<Greeting>>>,
}

impl Remembered {
    fn is_good(&self, now: Timestamp) -> bool {
        Duration::try_from(now.duration_since(self.since)).is_ok_and(|age| age < MAX_AGE)
    }
}

impl Greetings {
    /// Returns the greeting of a server that is remembered at this time, else the result of `ask`.
    async fn get(
        &self,
        server: (SocketAddr, &str),
        now: Timestamp,
        ask: impl Future<Output = Option<Greeting>>,
    ) -> Option<Greeting> {
        let greeting = self.remembered((server.0, server.1.to_owned()), now)?;
        *greeting.get_or_init(|| ask).await
    }

    /// `None` if too many servers are remembered.
    fn remembered(
        &self,
        server: (SocketAddr, String),
        now: Timestamp,
    ) -> Option<Arc<OnceCell<Option<Greeting>>>> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = servers.get(&server).filter(|known| known.is_good(now)) {
            return Some(known.greeting.clone());
        }
        servers.retain(|_, known| known.is_good(now));
        if servers.len() >= MAX_SERVERS {
            return None;
        }
        let greeting = Arc::<OnceCell<_>>::default();
        servers.insert(server, Remembered { since: now, greeting: greeting.clone() });
        Some(greeting)
    }
}

impl Route {
    /// Connects once more and looks at the greeting, if nobody has done so within a minute. Sends nothing but the start of TLS to a server
    /// that does not greet. Returns `None` if it cannot be reached.
    pub async fn greeting(&self, host: &str) -> Option<Greeting> {
        let now = self.timer.now();
        self.greetings.get((self.address, host), now, self.ask(host)).await
    }

    async fn ask(&self, host: &str) -> Option<Greeting> {
        let mut stream = self.again().await.ok()?;
        let mut bytes = [0; MAX_GREETING];
        let read = tokio::time::timeout(GREETING_TIME, stream.read(&mut bytes)).await;
        let count = read.ok().and_then(Result::ok).unwrap_or_default();
        if let Some(found) = bytes.get(..count).and_then(protocol) {
            return Some(found);
        }
        drop(stream);
        let (stream, config) = (self.again().await.ok()?, tls_config(TlsFiles::default()).ok()?);
        Some(match tokio::time::timeout(HANDSHAKE_TIME, secure(stream, config, host)).await {
            Ok(Ok(_)) => Greeting::Tls,
            // A server without TLS sends neither a certificate nor an alert.
            Ok(Err(reason)) if reason.contains("certificate") || reason.contains("alert") => Greeting::Tls,
            Ok(Err(_)) => Greeting::NoTls,
            Err(_) => Greeting::NoAnswer,
        })
    }
}

/// The protocol of a greeting; `None` if it is unknown.
fn protocol(bytes: &[u8]) -> Option<Greeting> {
    const STARTS: [(&[u8], &str); 9] = [
        (b"SSH-", "SSH"),
        (b"* OK", "IMAP"),
        (b"* PREAUTH", "IMAP"),
        (b"* BYE", "IMAP"),
        (b"+OK", "POP3"),
        (b"220", "SMTP or FTP"),
        (b"HTTP/", "HTTP"),
        (b"AMQP", "AMQP"),
        (b"-ERR", "Redis"),
    ];
    if let Some((_, name)) = STARTS.into_iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some(Greeting::Protocol { name, tls: None });
    }
    if bytes.starts_with(b"INFO {") {
        let text = String::from_utf8_lossy(bytes);
        let tls =
            ["required", "available"].into_iter().any(|word| text.contains(&format!("\"tls_{word}\":true")));
        return Some(Greeting::Protocol { name: "NATS", tls: Some(tls) });
    }
    mysql(bytes)
}

/// Reads the first packet of MySQL: a header of four bytes, the version 10 of the protocol, the text of a version that ends with a zero,
/// 13 bytes of a challenge, and the capabilities.
fn mysql(bytes: &[u8]) -> Option<Greeting> {
    let (10, rest) = bytes.get(4..)?.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    let end = rest.iter().take(100).position(|byte| *byte == 0)?;
    let tls = rest.get(end + 15).map(|high| high & MYSQL_TLS != 0);
    Some(Greeting::Protocol { name: "MySQL", tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_is_asked_once_in_a_minute_by_all_calls_together() {
        let (greetings, asked) = (Greetings::default(), std::cell::Cell::new(0));
        let begin: Timestamp = "2026-01-31T08:00:00Z".parse().expect("an instant");
        let get = async |port: u16, host: &'static str, seconds: i64, found: Option<Greeting>| {
            let ask = async {
                asked.set(asked.get() + 1);
                tokio::task::yield_now().await;
                found
            };
            let now = begin + jiff::SignedDuration::from_secs(seconds);
            greetings.get((([127, 0, 0, 1], port).into(), host), now, ask).await
        };
        let (one, other) = (Some(Greeting::NoTls), Some(Greeting::Tls));
        let both = tokio::join!(get(1, "a", 0, one), get(1, "a", 0, other));
        assert_eq!((both, asked.get()), ((one, one), 1), "at the same time");
        assert_eq!((get(1, "a", 59, other).await, asked.get()), (one, 1), "later");
        assert_eq!((get(1, "a", 60, None).await, asked.get()), (None, 2), "after a minute");
        assert_eq!((get(1, "a", 61, other).await, asked.get()), (None, 2), "also if it is not reached");
        assert_eq!((get(2, "a", 61, other).await, asked.get()), (other, 3), "another port");
        assert_eq!((get(1, "b", 61, other).await, asked.get()), (other, 4), "another name");
        // A call that is cut off leaves the question to the next one.
        let cut = tokio::time::timeout(Duration::ZERO, get(3, "a", 61, one)).await;
        assert_eq!((cut.is_err(), get(3, "a", 61, other).await, asked.get()), (true, other, 6));
        for port in 4..1000 {
            get(port, "a", 61, one).await;
        }
        assert_eq!(greetings.0.lock().expect("not poisoned").len(), MAX_SERVERS);
        get(1, "a", 200, one).await;
        assert_eq!(greetings.0.lock().expect("not poisoned").len(), 1);
    }

    #[test]
    fn protocols_are_told_by_their_greetings() {
        let mysql = |high: u8| [b"J\0\0\0\x0a8.0.36\0" as &[u8], &[1; 13], &[0xff, high, 33]].concat();
        for (bytes, expected) in [
            (b"SSH-2.0-OpenSSH_9.2\r\n" as &[u8], Some(("SSH", None))),
            (b"* OK [CAPABILITY IMAP4rev1] ready", Some(("IMAP", None))),
            (b"220 mx.example.com ESMTP", Some(("SMTP or FTP", None))),
            (b"INFO {\"server_id\":\"x\",\"tls_required\":true}", Some(("NATS", Some(true)))),
            (b"INFO {\"server_id\":\"x\"}", Some(("NATS", Some(false)))),
            (&mysql(0xff), Some(("MySQL", Some(true)))),
            (&mysql(0xf7), Some(("MySQL", Some(false)))),
            (b"", None),
            (b"\x15\x03\x01\0\x02\x02\x0a", None),
            (b"J\0\0\0\x0a", None),
        ] {
            let expected = expected.map(|(name, tls)| Greeting::Protocol { name, tls });
            assert_eq!(protocol(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
