//! Tests of `mail.send` against a local SMTP server.

use std::sync::{Arc, Mutex};

use model::{ActionError, ErrorKind};
use pretty_assertions::assert_eq;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use value::{File, JsonLimits, Map, Value};

use crate::http::testing::{self, Lines};
use crate::http::{AllowList, HttpOptions};
use crate::input::check_inputs;
use crate::registry::Registry;

/// An SMTP server that accepts messages, or rejects one command.
struct Double {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Double {
    async fn start(refusal: Option<(&'static str, &'static str)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let lines = heard.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = converse(stream, refusal, &lines).await;
            }
        });
        Self { port, heard, task }
    }

    /// Returns all lines that the server received.
    fn heard(&self) -> String {
        self.heard.lock().expect("not poisoned").concat()
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(
    stream: TcpStream,
    refusal: Option<(&'static str, &'static str)>,
    heard: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 double\r\n").await?;
    let mut is_data = false;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        heard.lock().expect("not poisoned").push(line.clone());
        let answer = match line.trim_end() {
            "." if is_data => {
                is_data = false;
                "250 taken"
            }
            _ if is_data => continue,
            command => match refusal.filter(|(word, _)| command.starts_with(word)) {
                Some((_, answer)) => answer,
                None if command.starts_with("EHLO") => "250-double\r\n250 AUTH PLAIN",
                None if command == "DATA" => {
                    is_data = true;
                    "354 go on"
                }
                None if command.starts_with("AUTH") => "235 welcome",
                None => "250 fine",
            },
        };
        stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
    }
}

async fn send_with(allow: &str, connection: serde_json::Value, inputs: Map) -> Result<Value, ActionError> {
    let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    let connection = Value::from_serde(connection);
    let kind = registry.connection_type("mail.smtp").expect("a type");
    let connection = kind.resolve("office", connection.as_map().expect("a map"))?;
    let action = registry.action("mail.send").expect("an action");
    let inputs = check_inputs(action.spec(), &inputs, &value::Reserved::nothing())?;
    let allow = AllowList::parse([allow]).expect("an entry");
    let http = testing::http(HttpOptions { allow, ..HttpOptions::default() });
    action.call(testing::call(&http, &inputs, Some(&connection), &Lines::default())).await
}

fn inputs(json: &str) -> Map {
    let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
    value.as_map().expect("a map").clone()
}

fn plain(port: u16) -> serde_json::Value {
    serde_json::json!({"host": "127.0.0.1", "port": port, "security": "none"})
}

const MAIL: &str = r#"{"from": "Orders <orders@example.com>", "to": ["ops@example.com", "Ürs <u@example.com>"], "bcc": "b@example.com",
    "subject": "Order 17: ü", "text": "2 pieces", "html": "<p>2 pieces</p>"}"#;

#[tokio::test]
async fn a_mail_is_delivered_with_headers_bodies_and_attachments() {
    let double = Double::start(None).await;
    let mut mail = inputs(MAIL);
    let file = File { content_type: "text/csv".into(), filename: Some("a.csv".into()), data: "x,y".into() };
    mail.insert("attachments", vec![Value::from(file)]);
    let connection = serde_json::json!({"host": "127.0.0.1", "port": double.port, "security": "none",
        "username": "ops", "password": "hunter2-secret"});
    let result = send_with("127.0.0.1", connection, mail).await.expect("it is sent");
    assert_eq!(
        result.to_json(),
        r#"{"messageId":"<execution.step@example.com>","recipients":["ops@example.com","u@example.com","b@example.com"]}"#
    );
    let heard = double.heard();
    for expected in [
        "MAIL FROM:<orders@example.com>",
        "RCPT TO:<b@example.com>",
        "Message-ID: <execution.step@example.com>",
        "Date: Thu, 01 Jan 1970",
        "multipart/alternative",
        "<p>2 pieces</p>",
        "filename=\"a.csv\"",
    ] {
        let found = heard.contains(expected) || expected.starts_with("Date") && heard.contains("Date: ");
        assert!(found, "{expected}\n{heard}");
    }
    assert!(!heard.contains("Bcc:"), "{heard}");
    assert!(heard.contains("AUTH PLAIN"), "{heard}");
}

#[tokio::test]
async fn no_input_can_inject_a_mail_header() {
    let double = Double::start(None).await;
    for (name, value) in [
        ("subject", "x\r\nBcc: evil@example.com"),
        ("from", "a@example.com\r\nBcc: evil@example.com"),
        ("to", "a@example.com>\nRCPT TO:<evil@example.com"),
    ] {
        let mut mail = inputs(MAIL);
        mail.insert(name, value);
        let error = send_with("127.0.0.1", plain(double.port), mail).await.expect_err(name);
        assert_eq!(error.kind, ErrorKind::Input, "{name}: {}", error.message);
    }
    assert_eq!(double.heard(), "");
}

#[tokio::test]
async fn temporary_and_permanent_smtp_errors_are_distinguished() {
    let later = Double::start(Some(("RCPT", "450 busy"))).await;
    let error = send_with("127.0.0.1", plain(later.port), inputs(MAIL)).await.expect_err("refused");
    assert_eq!(
        (error.kind.clone(), error.code.as_deref()),
        (ErrorKind::Network, Some("450")),
        "{}",
        error.message
    );
    let never = Double::start(Some(("RCPT", "550 nobody"))).await;
    let error = send_with("127.0.0.1", plain(never.port), inputs(MAIL)).await.expect_err("refused");
    assert_eq!(
        (error.kind.clone(), error.code.as_deref()),
        (ErrorKind::Response, Some("550")),
        "{}",
        error.message
    );
    // The server offers no STARTTLS, so nothing is sent.
    let open = serde_json::json!({"host": "127.0.0.1", "port": later.port});
    let error = send_with("127.0.0.1", open, inputs(MAIL)).await.expect_err("not private");
    assert_eq!(error.kind, ErrorKind::Connection, "{}", error.message);
}

#[tokio::test]
async fn the_address_guard_applies_to_mail_servers() {
    let double = Double::start(None).await;
    let error = send_with("10.0.0.1", plain(double.port), inputs(MAIL)).await.expect_err("private");
    assert_eq!(error.kind, ErrorKind::Blocked, "{}", error.message);
    assert_eq!(double.heard(), "");
}

#[tokio::test]
async fn a_password_is_never_sent_without_tls() {
    let connection =
        serde_json::json!({"host": "smtp.example.com", "security": "none", "username": "a", "password": "b"});
    let error = send_with("127.0.0.1", connection, inputs(MAIL)).await.expect_err("refused");
    assert!(error.message.contains("security: none"), "{}", error.message);
}

#[tokio::test]
async fn a_mail_is_bounded_in_recipients_and_attached_bytes() {
    let double = Double::start(None).await;
    let to = |count: usize| {
        let mut mail = inputs(MAIL);
        mail.remove("bcc");
        let address = |number| Value::from(format!("u{number}@example.com"));
        mail.insert("to", (0..count).map(address).collect::<Vec<_>>());
        mail
    };
    let result = send_with("127.0.0.1", plain(double.port), to(100)).await.expect("it is sent");
    assert_eq!(result.get("recipients").and_then(|all| all.as_list().map(<[Value]>::len)), Some(100));
    let error = send_with("127.0.0.1", plain(double.port), to(101)).await.expect_err("too many");
    assert!(error.message.contains("takes at most 100"), "{}", error.message);
    let mut mail = to(1);
    let file = |bytes: usize| {
        Value::from(File { content_type: "a/b".into(), filename: None, data: vec![0_u8; bytes].into() })
    };
    mail.insert("attachments", vec![file(12 << 20), file((13 << 20) + 1)]);
    let error = send_with("127.0.0.1", plain(double.port), mail).await.expect_err("too large");
    assert!(error.message.contains("more than 25MiB together"), "{}", error.message);
}
