//! Servers that break the rules.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::ActionError;
use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use crate::account::{Client, PASSWORD, map};

/// The answers to a command, for its tag and the rest of its line.
pub(crate) type Answers = fn(&str, &str) -> Vec<u8>;

/// A server that says what a test wants, and the lines that it got.
pub(crate) struct Hostile {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Hostile {
    pub(crate) async fn start(greeting: &'static [u8], answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (port, lines) =
            (listener.local_addr().expect("an address").port(), Arc::<Mutex<Vec<String>>>::default());
        let seen = lines.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = seen.clone();
                tokio::spawn(async move {
                    let (reader, mut writer) = stream.into_split();
                    let mut lines = BufReader::new(reader).lines();
                    let _ = writer.write_all(greeting).await;
                    while let Ok(Some(line)) = lines.next_line().await {
                        let (tag, rest) = line.split_once(' ').unwrap_or((&line, ""));
                        let answer = answers(tag, rest);
                        seen.lock().expect("not poisoned").push(line);
                        if writer.write_all(&answer).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { port, lines }
    }

    /// The inputs of a connection to it.
    pub(crate) fn login(&self, security: &str) -> Json {
        json!({"host": "127.0.0.1", "port": self.port, "security": security, "username": "ada", "password": PASSWORD})
    }

    /// Checks the begins of the lines that it got since the last look, without their tags. A `LOGOUT` may still be on its way.
    pub(crate) fn expect(&self, expected: &[&str]) {
        let lines = std::mem::take(&mut *self.lines.lock().expect("not poisoned"));
        let lines = lines.iter().filter_map(|line| Some(line.split_once(' ')?.1));
        let lines: Vec<&str> = lines.filter(|line| *line != "LOGOUT").collect();
        let is_same = lines.len() == expected.len()
            && lines.iter().zip(expected).all(|(line, begin)| line.starts_with(begin));
        assert!(is_same, "{lines:?}, and not {expected:?}");
    }

    async fn call(&self, action: &str, inputs: Json, security: &str) -> Result<value::Value, ActionError> {
        Client::new(self.login(security))
            .try_with(action, &map(inputs), ("key", Some(Duration::from_secs(20))))
            .await
    }

    async fn fails(&self, action: &str, inputs: Json) -> ActionError {
        let error = self.call(action, inputs, "none").await.expect_err("it is hostile");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        error
    }
}

pub(crate) const GREETING: &[u8] = b"* OK hi\r\n";

/// Answers as a good server with a message does, but for what `other` answers.
pub(crate) fn good(tag: &str, rest: &str, other: impl FnOnce(&str) -> Option<Vec<u8>>) -> Vec<u8> {
    if let Some(answer) = other(rest) {
        return answer;
    }
    let word = rest.split(' ').next().unwrap_or_default();
    let data = match word {
        "EXAMINE" | "SELECT" => "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 2] x\r\n".to_owned(),
        "UID" if rest.contains("SEARCH") => "* SEARCH 1\r\n".to_owned(),
        "UID" if rest.contains("BODY.PEEK[TEXT]") => {
            "* 1 FETCH (UID 1 BODY[TEXT]<0> {2}\r\nhi)\r\n".to_owned()
        }
        "UID" if rest.contains("FETCH") => fetched("(\"text\" \"plain\" NIL NIL NIL \"7bit\" 2 1)"),
        _ => String::new(),
    };
    format!("{data}{tag} OK done\r\n").into_bytes()
}

fn fetched(structure: &str) -> String {
    format!(
        "* 1 FETCH (UID 1 FLAGS () INTERNALDATE \" 1-Feb-2026 08:00:00 +0000\" RFC822.SIZE 9 BODYSTRUCTURE {structure} BODY[HEADER]<0> {{14}}\r\nSubject: x\r\n\r\n)\r\n"
    )
}

#[tokio::test]
async fn a_server_that_is_good_in_the_other_tests_is_read() {
    let server = Hostile::start(GREETING, |tag, rest| good(tag, rest, |_| None)).await;
    let result = server.call("search", json!({}), "none").await.expect("it is good");
    assert!(result.to_json().contains(r#""subject":"x""#), "{}", result.to_json());
    let result = server.call("get", json!({"uid": 1, "uidValidity": 7}), "none").await.expect("it is good");
    assert!(result.to_json().contains(r#""text":"hi""#), "{}", result.to_json());
}

#[tokio::test]
async fn a_greeting_of_another_protocol_ends_the_call() {
    for (greeting, kind) in [
        (b"220 smtp.example.com ESMTP\r\n".as_slice(), "response"),
        (b"SSH-2.0-OpenSSH\r\n", "response"),
        (b"* BYE too many\r\n", "network"),
        (b"* CAPABILITY IMAP4rev1\r\n", "response"),
        (b"\0\0\0\0", "response"),
    ] {
        let server = Hostile::start(greeting, |_, _| Vec::new()).await;
        let with = json!({"host": "127.0.0.1", "port": server.port, "security": "none", "username": "a", "password": PASSWORD});
        let limit = ("", Some(Duration::from_millis(500)));
        let error = Client::new(with).try_with("search", &map(json!({})), limit).await.expect_err("hostile");
        assert_eq!(error.kind.to_string(), kind, "{error:?}");
        assert!(server.lines.lock().expect("not poisoned").is_empty(), "nothing is sent before the greeting");
    }
}

#[tokio::test]
async fn answers_without_a_limit_end_the_call() {
    let cases: [(Answers, &str); 6] = [
        // A literal of 500 MB.
        (
            |tag, rest| {
                good(tag, rest, |rest| {
                    rest.starts_with("UID FETCH").then(|| b"* 1 FETCH (BODY[] {500000000}\r\n".to_vec())
                })
            },
            "limit",
        ),
        // A line without an end.
        (
            |tag, rest| good(tag, rest, |rest| rest.starts_with("UID SEARCH").then(|| vec![b'1'; 1 << 20])),
            "limit",
        ),
        // Lists in lists, which a parser follows.
        (
            |tag, rest| {
                good(tag, rest, |rest| {
                    rest.starts_with("UID FETCH")
                        .then(|| [b"* 1 FETCH (BODYSTRUCTURE ".as_slice(), &[b'('; 100_000]].concat())
                })
            },
            "limit",
        ),
        // Answers without an end.
        (
            |tag, rest| {
                good(tag, rest, |rest| {
                    rest.starts_with("UID SEARCH").then(|| b"* 1 EXISTS\r\n".repeat(110_000))
                })
            },
            "limit",
        ),
        // More messages than there are.
        (
            |tag, rest| {
                good(tag, rest, |rest| {
                    rest.starts_with("UID SEARCH").then(|| {
                        let numbers: Vec<String> = (1..25_000).map(|number| number.to_string()).collect();
                        format!("* SEARCH {}\r\n", numbers.join(" ")).into_bytes()
                    })
                })
            },
            "limit",
        ),
        // A text of a status that would hide the rest from the limits.
        (
            |tag, rest| {
                good(tag, rest, |rest| {
                    rest.starts_with("UID SEARCH")
                        .then(|| b"* OK {400000}\r\n* 1 FETCH (BODYSTRUCTURE ((((".to_vec())
                })
            },
            "response",
        ),
    ];
    for (index, (answers, kind)) in cases.into_iter().enumerate() {
        let server = Hostile::start(GREETING, answers).await;
        let error = server.fails("search", json!({})).await;
        assert_eq!(error.kind.to_string(), kind, "{index}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_at_which_the_parser_panics_is_an_error() {
    let cases: [Answers; 2] = [
        |tag, rest| {
            good(tag, rest, |rest| {
                rest.starts_with("UID FETCH").then(|| b"* 1 FETCH (UID 1 INTERNALDATE NIL)\r\n".to_vec())
            })
        },
        |tag, rest| {
            good(tag, rest, |rest| {
                let metadata = b"* METADATA \"INBOX\" (/private/comPREt \"x\")\r\n";
                rest.starts_with("UID SEARCH").then(|| metadata.to_vec())
            })
        },
    ];
    for (index, answers) in cases.into_iter().enumerate() {
        let server = Hostile::start(GREETING, answers).await;
        let error = server.fails("search", json!({})).await;
        assert_eq!(error.kind.to_string(), "response", "{index}: {error:?}");
    }
}

#[tokio::test]
async fn a_part_has_no_more_bytes_than_were_asked_for() {
    let answers: Answers = |tag, rest| {
        good(tag, rest, |rest| {
            let piece =
                || format!("* 1 FETCH (UID 1 BODY[TEXT]<0> {{300000}}\r\n{})\r\n", "x".repeat(300_000));
            rest.contains("BODY.PEEK[TEXT]").then(|| format!("{}{tag} OK x\r\n", piece()).into_bytes())
        })
    };
    let server = Hostile::start(GREETING, answers).await;
    let error = server.fails("get", json!({"uid": 1, "uidValidity": 7})).await;
    assert_eq!(
        (error.kind.to_string().as_str(), error.message.contains("more than")),
        ("response", true),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_message_above_the_limits_is_an_error() {
    let cases: [Answers; 3] = [
        |tag, rest| {
            good(tag, rest, |rest| {
                let deep = (0..9)
                    .fold("(\"text\" \"plain\" NIL NIL NIL \"7bit\" 2 1)".to_owned(), |inner, _| {
                        format!("({inner} \"mixed\")")
                    });
                rest.contains("BODYSTRUCTURE")
                    .then(|| format!("{}{tag} OK x\r\n", fetched(&deep)).into_bytes())
            })
        },
        |tag, rest| {
            good(tag, rest, |rest| {
                let many =
                    format!("({} \"mixed\")", "(\"text\" \"plain\" NIL NIL NIL \"7bit\" 2 1)".repeat(200));
                rest.contains("BODYSTRUCTURE")
                    .then(|| format!("{}{tag} OK x\r\n", fetched(&many)).into_bytes())
            })
        },
        |tag, rest| {
            good(tag, rest, |rest| {
                let large = "(\"image\" \"png\" NIL NIL NIL \"base64\" 52428801)";
                rest.contains("BODYSTRUCTURE")
                    .then(|| format!("{}{tag} OK x\r\n", fetched(large)).into_bytes())
            })
        },
    ];
    for (answers, words) in cases.into_iter().zip(["8 deep", "200 parts", "50MiB"]) {
        let server = Hostile::start(GREETING, answers).await;
        let error = server.fails("get", json!({"uid": 1, "uidValidity": 7})).await;
        assert_eq!(error.kind.to_string(), "limit", "{error:?}");
        assert!(error.message.contains(words), "{error:?}");
    }
}

#[tokio::test]
async fn a_password_is_not_sent_where_encryption_is_refused_or_feigned() {
    let cases: [(&[u8], Answers, &str); 3] = [
        (GREETING, |tag, _| format!("{tag} NO not here\r\n").into_bytes(), "response"),
        (b"* PREAUTH hi\r\n", |tag, _| format!("{tag} OK x\r\n").into_bytes(), "connection"),
        // Answers that come before the encryption are not taken for encrypted ones.
        (GREETING, |tag, _| format!("{tag} OK x\r\n* OK hi\r\nC1 OK x\r\n").into_bytes(), "network"),
    ];
    for (greeting, answers, kind) in cases {
        let server = Hostile::start(greeting, answers).await;
        let limit = ("", Some(Duration::from_secs(2)));
        let with = json!({"host": "127.0.0.1", "port": server.port, "security": "starttls", "username": "ada", "password": PASSWORD});
        let error = Client::new(with).try_with("search", &map(json!({})), limit).await.expect_err("hostile");
        assert!([kind, "timeout"].contains(&error.kind.to_string().as_str()), "{error:?}");
        let lines = server.lines.lock().expect("not poisoned").join("\n");
        assert!(!lines.contains("canary") && !lines.contains("LOGIN"), "{lines}");
    }
}

#[tokio::test]
async fn texts_of_a_server_are_cut_and_never_cut_a_character() {
    let answers: Answers = |tag, rest| {
        good(tag, rest, |rest| {
            let words = "ü".repeat(1_000);
            rest.starts_with("EXAMINE")
                .then(|| format!("* OK [ALERT]ü\r\n{tag} NO [INUSE]{words}\r\n").into_bytes())
        })
    };
    let server = Hostile::start("* OK [ALERT]ü hi ü\r\n".as_bytes(), answers).await;
    let error = server.fails("search", json!({})).await;
    assert_eq!(
        (error.kind.to_string().as_str(), error.code.as_deref()),
        ("network", Some("INUSE")),
        "{error:?}"
    );
    assert!(error.message.chars().count() < 400, "{error:?}");
}
