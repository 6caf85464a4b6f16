//! `mail.send`: sends a message through an SMTP server.

mod message;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use model::action::{ObjectType, ResultField};
use model::{ActionError, ActionSpec, ErrorKind, InputSpec, InputType, LogLevel, ResultType};
use value::{Map, Value};

use super::{input_error, optional, required, spec_for};
use crate::action::{Action, Call};
use crate::connection::{ConnectionValue, ResolvedConnection};
use crate::manifest::{Head, NativeSettings};

struct Send {
    head: Arc<Head>,
    spec: ActionSpec,
}

/// Builds the action for a connector.
pub(crate) fn build(head: &Arc<Head>, settings: &NativeSettings) -> Result<Arc<dyn Action>, String> {
    if settings.path.is_some() {
        return Err("`send` calls no path, so it takes no `path`".to_owned());
    }
    let fields = [
        ResultField::new("messageId", ResultType::Text)
            .with_description("The id of the mail; the same when the step is tried again."),
        ResultField::new("recipients", ResultType::list(ResultType::Text))
            .with_description("The addresses that the server accepted."),
    ];
    let spec = ActionSpec {
        description: Some(
            "Sends one mail to the server of the connection. A retried mail has the same id, by which most mailboxes keep one copy."
                .to_owned(),
        ),
        inputs: inputs(),
        result: Some("`{messageId, recipients}`".to_owned()),
        results: ResultType::Object(Arc::new(ObjectType { fields: fields.into(), ..ObjectType::default() })),
        example: settings.example.clone(),
        ..spec_for(head, "send", "Send a mail")
    };
    Ok(Arc::new(Send { head: head.clone(), spec }))
}

fn inputs() -> Vec<InputSpec> {
    let addresses = || InputType::List { items: Box::new(InputType::Text) };
    vec![
        required("from", InputType::Text, "The sender: `ops@example.com` or `Ops <ops@example.com>`."),
        required("to", addresses(), "The recipients."),
        optional("cc", addresses(), "The recipients of a copy."),
        optional("bcc", addresses(), "The recipients of a copy that the others do not see."),
        optional("replyTo", InputType::Text, "The address for answers, if not `from`."),
        required("subject", InputType::Text, "The subject."),
        optional("text", InputType::Text, "The content as plain text."),
        optional(
            "html",
            InputType::Text,
            "The content as HTML; with `text` too, the recipient's program chooses.",
        ),
        optional("attachments", InputType::List { items: Box::new(InputType::File) }, "Attached files."),
    ]
}

#[async_trait]
impl Action for Send {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn memory_for_files(&self, inputs: &Map) -> usize {
        // The bytes, their base64 in the message, and the message as it is sent.
        message::external_bytes(inputs).saturating_mul(4)
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        let Some(connection) = call.connection_for(&self.spec)? else {
            return Err(ActionError::new(ErrorKind::Connection, "`mail.send` needs a connection"));
        };
        let now = call.http.timer().now();
        let (inputs, key, memory) =
            (call.inputs.clone(), call.idempotency_key.to_owned(), call.memory.clone());
        let build = move || message::build(&inputs, &key, now, &memory);
        let mail = if message::external_bytes(call.inputs) > 0 {
            tokio::task::spawn_blocking(build).await.unwrap_or_else(|error| Err(error.to_string()))
        } else {
            build()
        };
        let mail = mail.map_err(input_error)?;
        let server = Server::from_connection(connection)?;
        let limit = call.http.options().timeout;
        let mode = self.hand_over(&call, &server, &mail, limit);
        match tokio::time::timeout(limit, mode).await {
            Ok(sent) => sent?,
            Err(_) => {
                let limit = text::units::format_duration(limit);
                let message = format!("{} did not take the mail within {limit}", self.head.subject);
                return Err(ActionError::new(ErrorKind::Timeout, message));
            }
        }
        let recipients: Vec<Value> =
            mail.content.envelope().to().iter().map(|address| Value::from(address.to_string())).collect();
        if call.debug {
            let count = recipients.len();
            call.log.line(
                LogLevel::Info,
                &format!("{} took {} for {count} recipients", self.head.subject, mail.id),
            );
        }
        let entries = [("messageId", Value::from(mail.id)), ("recipients", Value::from(recipients))];
        Ok(Value::from(Map::from_iter(entries)))
    }
}

impl Send {
    async fn hand_over(
        &self,
        call: &Call<'_>,
        server: &Server,
        mail: &message::Mail,
        limit: Duration,
    ) -> Result<(), ActionError> {
        let subject = &self.head.subject;
        // Connects to the address that the guard has checked; the host name is kept for the certificate.
        let address = call.http.resolve_checked(&server.host, server.port, subject).await?;
        call.http.pass_gate().await;
        let failed = |error| failure(subject, server, &error);
        let parameters = || TlsParameters::new(server.host.clone()).map_err(failed);
        let tls = match server.security {
            Security::Starttls => Tls::Required(parameters()?),
            Security::Tls => Tls::Wrapper(parameters()?),
            Security::None => Tls::None,
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string())
            .port(server.port)
            .tls(tls)
            .timeout(Some(limit));
        if let Some((name, password)) = &server.account {
            builder = builder.credentials(Credentials::new(name.clone(), password.clone()));
        }
        builder.build::<Tokio1Executor>().send(mail.content.clone()).await.map(|_| ()).map_err(failed)
    }
}

enum Security {
    Starttls,
    Tls,
    None,
}

/// The SMTP server of a connection.
struct Server {
    host: String,
    port: u16,
    security: Security,
    account: Option<(String, String)>,
}

impl Server {
    fn from_connection(connection: &ResolvedConnection) -> Result<Self, ActionError> {
        let refuse = |words: &str| {
            let message = format!("the connection `{}` cannot be used: {words}", connection.name);
            ActionError::new(ErrorKind::Connection, message)
        };
        let plain = |name: &str| match connection.values.get(name) {
            Some(ConnectionValue::Plain(value)) => Some(value.clone()),
            _ => None,
        };
        let text = |name: &str| plain(name).map(|value| value.to_text()).unwrap_or_default();
        let host = text("host");
        let bare = url::Host::parse(&host)
            .map_err(|_| refuse("`host` is not the name of a server, such as `smtp.example.com`"))?;
        let (security, usual) = match text("security").as_str() {
            "tls" => (Security::Tls, 465),
            "none" => (Security::None, 25),
            _ => (Security::Starttls, 587),
        };
        let port = plain("port").and_then(|port| port.as_i64()).and_then(|port| u16::try_from(port).ok());
        let name = text("username");
        let account = match connection.values.get("password") {
            Some(ConnectionValue::Secret(password)) if !name.is_empty() => {
                Some((name, password.expose().to_owned()))
            }
            None if name.is_empty() => None,
            _ => return Err(refuse("`username` and `password` are given together or not at all")),
        };
        if account.is_some() && matches!(security, Security::None) && !is_this_machine(&bare) {
            return Err(refuse("with `security: none` the password would travel for everybody to read"));
        }
        Ok(Self { host: bare.to_string(), port: port.unwrap_or(usual), security, account })
    }
}

fn is_this_machine(host: &url::Host) -> bool {
    match host {
        url::Host::Ipv4(address) => address.is_loopback(),
        url::Host::Ipv6(address) => address.is_loopback(),
        url::Host::Domain(name) => name == "localhost",
    }
}

/// Converts an SMTP error, such that a step's `retry` can distinguish transient from permanent failures.
fn failure(subject: &str, server: &Server, error: &lettre::transport::smtp::Error) -> ActionError {
    let (host, port) = (&server.host, server.port);
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.is_timeout() {
        return ActionError::new(
            ErrorKind::Timeout,
            format!("{subject} at `{host}:{port}` did not answer in time"),
        )
        .with_outcome_unknown();
    }
    if let Some(code) = error.status() {
        // Transient and permanent replies (RFC 5321, 4.2.1).
        let kind = if error.is_transient() { ErrorKind::Network } else { ErrorKind::Response };
        return ActionError::new(kind, format!("{subject} answered {code}: {cause}"))
            .with_code(code.to_string());
    }
    if error.is_tls() || error.is_client() {
        return ActionError::new(
            ErrorKind::Connection,
            format!("{subject} at `{host}:{port}` cannot be used: {cause}"),
        );
    }
    ActionError::new(ErrorKind::Network, format!("{subject} at `{host}:{port}` cannot be reached: {cause}"))
}
