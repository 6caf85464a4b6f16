//! A connection to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{ActionError, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value, cmd};

use super::SUBJECT;
use super::reply::Limited;
use crate::connection::{Inputs, connection_error};
use crate::stream::family::Target;
use crate::stream::links::{
    ANSWER_TIME, CONNECT_TIME, Duplex, Shared, dial, explained_login, network, no_login, not_sent, refused,
};

/// The usual port, without and with TLS.
const PORTS: (u16, u16) = (6379, 6379);
/// The longest part of a server's words in an error.
const MAX_WORDS: usize = 300;
/// The codes of errors that are over soon.
const TEMPORARY: [&str; 8] =
    ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN"];
/// The codes by which a server says that another one has taken its place, which a new connection may reach.
const REPLACED: [&str; 2] = ["MASTERDOWN", "READONLY"];
/// The codes of refused logins.
const NO_LOGIN: [&str; 2] = ["NOAUTH", "WRONGPASS"];

/// A connection. Once it is lost it stays so: the next one is dialled, and checked, anew.
#[derive(Clone)]
pub(super) struct Link {
    client: MultiplexedConnection,
    /// True once it is lost, or a reply was not awaited to its end.
    lost: Arc<AtomicBool>,
}

impl Shared for Link {
    async fn open(target: Target<'_>) -> Result<Self, ActionError> {
        let inputs = Inputs(target.connection);
        if inputs.text("user").is_some() && inputs.text("password").is_none() {
            return Err(inputs.refuse("`user` needs `password`"));
        }
        let (stream, route) = dial(target, (SUBJECT, PORTS)).await?;
        let (reader, writer) = tokio::io::split(stream);
        let stream = tokio::io::join(Limited::new(reader), writer);
        let opened = tokio::time::timeout(CONNECT_TIME, async {
            let link = Self::over(stream).await?;
            link.log_in(inputs).await?;
            Ok(link)
        });
        match opened.await.unwrap_or_else(|_| Err(no_login(SUBJECT))) {
            Ok(link) => Ok(link),
            Err(error) => Err(explained_login(error, target, route.as_ref()).await),
        }
    }

    fn is_usable(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }
}

impl Link {
    async fn over(stream: impl Duplex + 'static) -> Result<Self, ActionError> {
        // The login is ours, and so are the time limits.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (client, driver) = made.map_err(|error| not_sent(failure(&error)))?;
        let lost = Arc::<AtomicBool>::default();
        let ends = lost.clone();
        tokio::spawn(async move {
            driver.await;
            ends.store(true, Ordering::Relaxed);
        });
        Ok(Self { client, lost })
    }

    async fn log_in(&self, inputs: Inputs<'_>) -> Result<(), ActionError> {
        let refused = |error: ActionError| match error.kind {
            // Its words may repeat the password.
            ErrorKind::Response | ErrorKind::Connection => {
                let code = error.code.clone().unwrap_or_default();
                inputs.refuse(format!("{SUBJECT} refuses the login")).with_code(code)
            }
            _ => not_sent(error),
        };
        if let Some(password) = inputs.text("password") {
            let mut login = cmd("AUTH");
            login.arg(inputs.text("user")).arg(password);
            self.ask(&login).await.map_err(refused)?;
        }
        let database = inputs.number("database").unwrap_or_default();
        if database != 0 {
            let mut select = cmd("SELECT");
            select.arg(database);
            let selected = self.ask(&select).await;
            selected.map_err(|error| match error.kind {
                ErrorKind::Response => inputs.refuse(format!("its database {database}: {}", error.message)),
                _ => not_sent(error),
            })?;
        }
        Ok(())
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, ActionError> {
        self.ask_within(command, Duration::ZERO).await
    }

    /// Sends a command that the server answers after at most `longest`, and waits for its reply.
    pub(super) async fn ask_within(&self, command: &Cmd, longest: Duration) -> Result<Value, ActionError> {
        let mut client = self.client.clone();
        let asked = client.send_packed_command(command);
        let replied = tokio::time::timeout(longest.saturating_add(ANSWER_TIME), asked).await;
        let error = match replied {
            Ok(Ok(Value::ServerError(error))) => {
                let error = failure(&error.into());
                let is_replaced = error.code.as_deref().is_some_and(|code| REPLACED.contains(&code));
                self.lost.fetch_or(is_replaced, Ordering::Relaxed);
                return Err(error);
            }
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => failure(&error),
            Err(_) => {
                let limit = text::units::format_duration(ANSWER_TIME);
                ActionError::new(ErrorKind::Timeout, format!("{SUBJECT} did not answer within {limit}"))
            }
        };
        self.lost.store(true, Ordering::Relaxed);
        Err(error)
    }

    /// Sends a command that changes something: without a reply nobody knows the outcome.
    pub(super) async fn change(&self, command: &Cmd) -> Result<Value, ActionError> {
        self.ask(command).await.map_err(|error| match error.code {
            None => error.with_outcome_unknown(),
            Some(_) => error,
        })
    }
}

/// The error of a reply, or of a connection without one. Only an error of the server has a code.
fn failure(error: &RedisError) -> ActionError {
    let Some(code) = error.code() else {
        return network(&format!("the connection to {SUBJECT} failed: {}", words(&error.to_string())));
    };
    let message =
        format!("{SUBJECT} says: {}", words(&format!("{code} {}", error.detail().unwrap_or_default())));
    let error = match code {
        _ if NO_LOGIN.contains(&code) => connection_error(message),
        _ if TEMPORARY.contains(&code) => network(&message),
        _ => refused(message),
    };
    error.with_code(code)
}

/// A part of a server's words, on one line.
fn words(text: &str) -> String {
    text.chars().take(MAX_WORDS).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// The error of a reply that a command does not have.
pub(super) fn unexpected() -> ActionError {
    network(&format!("{SUBJECT} sends something else than the command asks for"))
}

/// A text of a reply.
pub(super) fn text_of(value: Value) -> Result<String, ActionError> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| unexpected()),
        Value::SimpleString(text) => Ok(text),
        _ => Err(unexpected()),
    }
}

/// An integer of a reply.
pub(super) fn integer_of(value: &Value) -> Result<i64, ActionError> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(unexpected()),
    }
}

/// The values of a list; none of a missing one.
pub(super) fn list_of(value: Value) -> Result<Vec<Value>, ActionError> {
    match value {
        Value::Array(values) => Ok(values),
        Value::Nil => Ok(Vec::new()),
        _ => Err(unexpected()),
    }
}
