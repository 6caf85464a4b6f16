//! A login at a server, and its commands.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_imap::Client;
use async_imap::imap_proto::rfc4315::UidSetMember;
use async_imap::imap_proto::{AttributeValue, Capability, RequestId, Response, ResponseCode, Status};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use connector::net::{Endpoint, TlsFiles, secure, tls_config};
use connector::{Call, ResolvedConnection};
use futures_util::FutureExt as _;
use model::{ActionError, ErrorKind};
use tokio::io::AsyncWriteExt as _;
use value::Value;

use super::command::Command;
use super::failure::{Refusal, broken, closed, refused};
use super::limited::{Excess, Limited, Scan, Wire};
use super::mailbox::Selection;
use crate::connection::Inputs;
use crate::explain::{Protocol, explained};
use crate::pool::{self, Pooled};

/// The time for an answer of the server, and for sending a piece of data to it.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The most answers of the server to a command.
const MAX_ANSWERS: usize = 100_000;

/// The encryption of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Security {
    Tls,
    Starttls,
    None,
}

/// A session. Dropping it ends the connection.
pub(in crate::mail) struct Session {
    pub subject: Arc<str>,
    client: Client<Limited>,
    /// The number of commands that were sent, and of answers that were read.
    sent: u64,
    read: u64,
    /// True once a command was sent whose answer is lost or not read.
    pub(super) is_broken: bool,
    /// True in a session of an earlier call, until the server has answered in this one.
    is_unchecked: bool,
    /// True in a session of an earlier call, until a command is sent in this one that changes something.
    may_repeat: bool,
    /// The mailbox that is selected.
    pub(super) selection: Option<Selection>,
    capabilities: Option<Vec<String>>,
}

impl Pooled for Session {
    const MAX_IDLE: Duration = pool::OF_SERVERS_IDLE;
    type Shared = ();

    fn is_usable(&self) -> bool {
        !self.is_broken
    }
}

/// The good end of a command.
pub(super) struct Done {
    /// The numbering and the number of a message that the command has written, if the server tells it.
    pub written: Option<(u32, u32)>,
    /// True if a mailbox is selected that can only be read.
    pub is_read_only: bool,
}

impl Session {
    /// Connects and logs in.
    pub(super) async fn open(
        call: &Call<'_>,
        connection: &ResolvedConnection,
        subject: &str,
    ) -> Result<Self, ActionError> {
        let opened = Self::connect(call, connection, subject).await;
        // Nothing was changed before the login.
        let mut session = opened.map_err(not_sent)?;
        session.log_in(connection).await.map_err(not_sent)?;
        Ok(session)
    }

    async fn connect(
        call: &Call<'_>,
        connection: &ResolvedConnection,
        subject: &str,
    ) -> Result<Self, ActionError> {
        let inputs = Inputs(connection);
        let (security, usual) = match inputs.text("security") {
            Some("starttls") => (Security::Starttls, 143),
            Some("none") => (Security::None, 143),
            _ => (Security::Tls, 993),
        };
        let host = inputs.text("host").unwrap_or_default();
        let port = inputs.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(usual);
        let to = Endpoint { host, port, subject, connection: Some(&connection.name) };
        let dialed = call.http.dialer().dial(&to, call.log).await?;
        if security == Security::None {
            inputs.check_open(&dialed.route, (subject, "security: none"), call.log)?;
        }
        let wire: Box<dyn Wire> = Box::new(dialed.stream);
        let tls = security == Security::Tls;
        let greeted = async {
            let wire = if tls { encrypted(inputs, host, subject, wire).await? } else { wire };
            let mut session = Self::new(subject, wire);
            let is_plain = session.greeting().await?;
            Ok((session, is_plain))
        };
        let (mut session, is_plain) = match greeted.await {
            Ok(greeted) => greeted,
            Err(error) => return Err(explained(error, &dialed.route, host, (protocol(security), tls)).await),
        };
        if security != Security::Starttls {
            return Ok(session);
        }
        if !is_plain {
            return Err(inputs.refuse(format!("{subject} begins with a login, before it could be encrypted")));
        }
        session.run(Command::new("STARTTLS"), |_| Ok(())).await?;
        // Bytes behind the answer were not encrypted: they are dropped with the client that read them.
        let wire = session.client.into_inner().stream;
        Ok(Self::new(subject, encrypted(inputs, host, subject, wire).await?))
    }

    pub(super) fn new(subject: &str, wire: Box<dyn Wire>) -> Self {
        let client = Client::new(Limited { stream: wire, watch: Scan::default() });
        Self {
            subject: subject.into(),
            client,
            sent: 0,
            read: 0,
            is_broken: false,
            is_unchecked: false,
            may_repeat: false,
            selection: None,
            capabilities: None,
        }
    }

    /// Begins another call in the session, whose connection may have been lost meanwhile.
    pub(super) fn begin(&mut self) {
        (self.is_unchecked, self.may_repeat) = (true, true);
        if let Some(selection) = &mut self.selection {
            selection.is_kept = true;
        }
    }

    /// True if a call has failed because the connection of an earlier one was lost. Nothing was changed, so it may run again in another.
    pub(super) fn is_lost(&self, result: &Result<Value, ActionError>) -> bool {
        let broke = matches!(result, Err(error) if error.kind == ErrorKind::Network);
        self.is_broken && self.may_repeat && (broke || self.is_unchecked)
    }

    /// Reads the greeting. Returns false if the server takes the client for logged in.
    async fn greeting(&mut self) -> Result<bool, ActionError> {
        let subject = self.subject.clone();
        self.answer(|answer| match answer {
            Response::Data { status: Status::Ok, .. } => Ok(true),
            Response::Data { status: Status::PreAuth, .. } => Ok(false),
            Response::Data { outcome, .. } => Err(closed(&subject, Some(outcome))),
            _ => Err(ActionError::new(ErrorKind::Response, format!("{subject} does not speak IMAP"))),
        })
        .await?
    }

    async fn log_in(&mut self, connection: &ResolvedConnection) -> Result<(), ActionError> {
        let inputs = Inputs(connection);
        let user = inputs.text("username").unwrap_or_default();
        let refusal = match connection.tokens() {
            None => {
                let password = inputs.text("password").unwrap_or_default();
                self.try_login(Command::new("LOGIN").text(user).text(password), &[]).await?
            }
            Some(tokens) => {
                let token = tokens.token().await?;
                match self.try_token(user, token.expose()).await? {
                    // The token may have been withdrawn before its time.
                    Some(_) if let Some(other) = tokens.replacement(&token).await? => {
                        self.try_token(user, other.expose()).await?
                    }
                    refusal => refusal,
                }
            }
        };
        let Some(refusal) = refusal else { return Ok(()) };
        let kind = if refusal.is_temporary() { ErrorKind::Network } else { ErrorKind::Connection };
        let code = refusal.code.unwrap_or_else(|| "NO".to_owned());
        let message = format!("{} refuses the login of `{user}`: {code}", self.subject);
        Err(ActionError::new(kind, message).with_code(code))
    }

    /// Logs in with a token. Returns the refusal of the server.
    async fn try_token(&mut self, user: &str, token: &str) -> Result<Option<Refusal>, ActionError> {
        let line = STANDARD.encode(format!("user={user}\x01auth=Bearer {token}\x01\x01"));
        // The server tells the reason in a question, which wants an empty answer.
        self.try_login(Command::new("AUTHENTICATE XOAUTH2"), &[&line, ""]).await
    }

    /// Sends a login, with the lines that the server asks for. Returns its refusal.
    async fn try_login(&mut self, command: Command, lines: &[&str]) -> Result<Option<Refusal>, ActionError> {
        let (tag, subject) = (self.send(&command).await?, self.subject.clone());
        let mut lines = lines.iter();
        for _ in 0..MAX_ANSWERS {
            let step = self.answer(|answer| match answer {
                Response::Done { tag: of, status, outcome } if *of == tag => {
                    Ok(ControlFlow::Break(if *status == Status::Ok {
                        None
                    } else {
                        Some(Refusal::of(outcome))
                    }))
                }
                Response::Data { status: Status::Bye, outcome } => Err(closed(&subject, Some(outcome))),
                other => Ok(ControlFlow::Continue(matches!(other, Response::Continue(_)))),
            });
            match step.await?? {
                ControlFlow::Break(refusal) => return Ok(refusal),
                ControlFlow::Continue(false) => {}
                ControlFlow::Continue(true) => {
                    let Some(line) = lines.next() else { break };
                    self.send_line(line).await?;
                }
            }
        }
        Err(ActionError::new(ErrorKind::Response, format!("{subject} does not end the login")))
    }

    /// Runs a command, and passes each answer to `take`.
    pub(super) async fn run(
        &mut self,
        command: Command,
        take: impl FnMut(&Response<'_>) -> Result<(), ActionError>,
    ) -> Result<Done, ActionError> {
        let tag = self.send(&command).await?;
        self.end_of(&command, &tag, take).await
    }

    /// Reads the answers to a command until its end.
    pub(super) async fn end_of(
        &mut self,
        command: &Command,
        tag: &RequestId,
        mut take: impl FnMut(&Response<'_>) -> Result<(), ActionError>,
    ) -> Result<Done, ActionError> {
        let (mut written, mut is_other, subject) = (None, false, self.subject.clone());
        for _ in 0..MAX_ANSWERS {
            let step = self.answer(|answer| match answer {
                Response::Done { tag: of, status: Status::Ok, outcome } if of == tag => {
                    let is_read_only = matches!(outcome.code, Some(ResponseCode::ReadOnly));
                    Ok(Some(Done { written: written_of(outcome.code.as_ref()).or(written), is_read_only }))
                }
                Response::Done { tag: of, status, outcome } if of == tag => {
                    Err((refused(&subject, command.name(), status, outcome), false))
                }
                Response::Data { status: Status::Bye, outcome } => {
                    Err((closed(&subject, Some(outcome)), true))
                }
                other => {
                    if let Response::Data { outcome, .. } = other {
                        written = written_of(outcome.code.as_ref()).or(written);
                        is_other |= is_other_mailbox(outcome.code.as_ref());
                    }
                    take(other).map(|()| None).map_err(|error| (error, true))
                }
            });
            match step.await? {
                Ok(None) => {}
                Ok(Some(done)) => {
                    if is_other {
                        self.selection = None;
                    }
                    return Ok(done);
                }
                Err((error, breaks)) => {
                    self.is_broken |= breaks;
                    return Err(error);
                }
            }
        }
        Err(self.endless())
    }

    fn endless(&mut self) -> ActionError {
        self.is_broken = true;
        ActionError::new(ErrorKind::Limit, format!("{} does not end its answers", self.subject))
    }

    /// Sends a command, each piece when the server asks for it. Returns its tag. In a session of an earlier call a `NOOP` goes first.
    pub(super) async fn send(&mut self, command: &Command) -> Result<RequestId, ActionError> {
        // A server may carry out other commands before it has looked what has changed in the mailbox, so they wait for that.
        let mut line = String::new();
        if self.is_unchecked && command.selects() {
            line = format!("{} NOOP\r\n", self.tag().0);
        } else if self.is_unchecked {
            self.check().await?;
        }
        self.may_repeat &= command.only_reads();
        let tag = self.tag();
        let mut pieces = command.pieces().iter();
        let first = pieces.next().map(String::as_str).unwrap_or_default();
        line.push_str(&format!("{} {first}\r\n", tag.0));
        self.send_bytes(line.as_bytes()).await?;
        for piece in pieces {
            self.question(command, &tag).await?;
            self.send_line(piece).await?;
        }
        Ok(tag)
    }

    /// Finds out whether the server still answers, and whether the selected mailbox has its numbering.
    async fn check(&mut self) -> Result<(), ActionError> {
        let (noop, tag, was_selected) = (Command::new("NOOP"), self.tag(), self.selection.is_some());
        self.send_line(&format!("{} NOOP", tag.0)).await?;
        self.end_of(&noop, &tag, |_| Ok(())).await?;
        if was_selected && self.selection.is_none() {
            let message = format!("{} has numbered the messages anew", self.subject);
            return Err(ActionError::new(ErrorKind::Response, message).with_code("UIDVALIDITY"));
        }
        Ok(())
    }

    fn tag(&mut self) -> RequestId {
        self.sent += 1;
        RequestId(format!("C{}", self.sent))
    }

    /// Waits until the server asks for the next piece of a command.
    pub(super) async fn question(&mut self, command: &Command, tag: &RequestId) -> Result<(), ActionError> {
        let subject = self.subject.clone();
        for _ in 0..MAX_ANSWERS {
            let step = self.answer(|answer| match answer {
                Response::Continue(_) => Ok(true),
                Response::Done { tag: of, status, outcome } if of == tag => {
                    Err(refused(&subject, command.name(), status, outcome))
                }
                Response::Data { status: Status::Bye, outcome } => Err(closed(&subject, Some(outcome))),
                _ => Ok(false),
            });
            if step.await?? {
                return Ok(());
            }
        }
        Err(self.endless())
    }

    /// Sends a line.
    pub(super) async fn send_line(&mut self, line: &str) -> Result<(), ActionError> {
        self.send_bytes(format!("{line}\r\n").as_bytes()).await
    }

    /// Sends bytes.
    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ActionError> {
        let wire = self.client.get_mut();
        let sending = async {
            wire.write_all(bytes).await?;
            wire.flush().await
        };
        let failed = match tokio::time::timeout(ANSWER_TIME, sending).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => broken(&self.subject, &error),
            Err(_) => silent(&self.subject, ANSWER_TIME),
        };
        self.is_broken = true;
        Err(failed)
    }

    /// Reads the next answer, for which the server has its time.
    async fn answer<T>(&mut self, read: impl FnOnce(&Response<'_>) -> T) -> Result<T, ActionError> {
        let limit = if self.is_unchecked { pool::PROBE_TIME } else { ANSWER_TIME };
        match tokio::time::timeout(limit, self.next(read)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.is_broken = true;
                Err(silent(&self.subject, limit))
            }
        }
    }

    /// Reads the next answer, whenever it comes.
    pub(super) async fn next<T>(&mut self, read: impl FnOnce(&Response<'_>) -> T) -> Result<T, ActionError> {
        // The parser panics at some answers that break the rules, such as `INTERNALDATE NIL`.
        let answer = AssertUnwindSafe(self.client.read_response()).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_| Err(std::io::Error::other(Excess::Form)));
        self.read += 1;
        let failed = match answer {
            // The parser and the scan in front of it agree on the end of each answer.
            Ok(Some(answer)) if self.read <= self.client.get_ref().watch.complete => {
                self.is_unchecked &= !matches!(answer.parsed(), Response::Done { .. });
                return Ok(read(answer.parsed()));
            }
            Ok(Some(_)) => broken(&self.subject, &std::io::Error::other(Excess::Form)),
            Ok(None) => closed(&self.subject, None),
            Err(error) => broken(&self.subject, &error),
        };
        self.is_broken = true;
        Err(failed)
    }

    /// True if the server can do what has this name.
    pub(super) async fn can(&mut self, name: &str) -> Result<bool, ActionError> {
        if self.capabilities.is_none() {
            let mut known = Vec::new();
            let asking = self.run(Command::new("CAPABILITY"), |answer| {
                if let Response::Capabilities(list) = answer {
                    known.extend(list.iter().filter_map(|one| match one {
                        Capability::Atom(name) => Some(name.to_ascii_uppercase()),
                        _ => None,
                    }));
                }
                Ok(())
            });
            asking.await?;
            self.capabilities = Some(known);
        }
        Ok(self.capabilities.iter().flatten().any(|known| known == name))
    }

    /// Ends the connection.
    pub(super) async fn close(mut self) {
        if !self.is_broken {
            let _ = self.send(&Command::new("LOGOUT")).await;
        }
    }
}

/// The number of the message that the values are of.
pub(super) fn uid_of(values: &[AttributeValue<'_>]) -> Option<u32> {
    values.iter().find_map(|value| match value {
        AttributeValue::Uid(uid) => Some(*uid),
        _ => None,
    })
}

/// True for what a server tells when a mailbox is selected: the selection is no longer the one that is known.
fn is_other_mailbox(code: Option<&ResponseCode<'_>>) -> bool {
    matches!(code, Some(ResponseCode::UidValidity(_) | ResponseCode::ReadOnly))
}

fn written_of(code: Option<&ResponseCode<'_>>) -> Option<(u32, u32)> {
    let (ResponseCode::AppendUid(validity, uids) | ResponseCode::CopyUid(validity, _, uids)) = code? else {
        return None;
    };
    match uids.first()? {
        UidSetMember::Uid(uid) => Some((*validity, *uid)),
        UidSetMember::UidRange(range) => Some((*validity, *range.start())),
    }
}

/// The protocol, for the cause of a failure.
fn protocol(security: Security) -> Protocol {
    let without_tls = if security == Security::None { "security: none" } else { "security: starttls" };
    Protocol { greets_as: Some("IMAP"), tls_first: true, without_tls }
}

async fn encrypted(
    inputs: Inputs<'_>,
    host: &str,
    subject: &str,
    wire: Box<dyn Wire>,
) -> Result<Box<dyn Wire>, ActionError> {
    let config = tls_config(TlsFiles { authorities: inputs.text("ca"), client: None });
    let config = config.map_err(|error| inputs.refuse(error))?;
    match tokio::time::timeout(ANSWER_TIME, secure(wire, config, host)).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => {
            let message = format!("the connection to {subject} cannot be encrypted: {error}");
            Err(ActionError::new(ErrorKind::Network, message))
        }
        Err(_) => Err(silent(subject, ANSWER_TIME)),
    }
}

fn silent(subject: &str, limit: Duration) -> ActionError {
    let limit = text::units::format_duration(limit);
    ActionError::new(ErrorKind::Timeout, format!("{subject} did not answer within {limit}"))
}

fn not_sent(mut error: ActionError) -> ActionError {
    error.not_sent = matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout);
    error
}
