//! The protocol that a server speaks, for the message about a login that failed.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::greetings::Greeting;
use super::{Route, TlsFiles, secure, tls_config};

/// The time for the greeting of a server that speaks first.
const GREETING_TIME: Duration = Duration::from_millis(500);
/// The time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(1);
/// The largest part of a greeting that is read, in bytes.
const MAX_GREETING: usize = 2048;
/// The bit of MySQL's capabilities for TLS (`CLIENT_SSL`).
const MYSQL_TLS: u8 = 0x08;

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
