//! A connection to a server.

use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use connector::net::{Endpoint, tls_config_for};
use model::ActionError;
use tokio::sync::watch;

use super::SUBJECT;
use crate::connection::Inputs;
use crate::explain::{Protocol, explained};
use crate::stream::family::Target;
use crate::stream::links::{ANSWER_TIME, CONNECT_TIME, Shared, network, no_login, not_sent, tls_files};

/// The time between two questions for a sign of life. After two of them without an answer the connection is lost.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// A connection. Once it is lost it stays so: the next one is dialled, and checked, anew.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) client: Client,
    /// Has true once it is lost.
    lost: watch::Receiver<bool>,
}

const PROTOCOL: Protocol = Protocol { greets_as: Some("NATS"), tls_first: false, without_tls: "tls: none" };

impl Shared for Link {
    async fn open(target: Target<'_>) -> Result<Self, ActionError> {
        let Target { http, connection, log } = target;
        let inputs = Inputs(connection);
        let host = inputs.text("host").unwrap_or_default();
        let port = inputs.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(4222);
        let tls = inputs.text("tls") != Some("none");
        let options = options(inputs, host, tls)?;
        let to = Endpoint { host, port, subject: SUBJECT, connection: Some(&connection.name) };
        // The client opens the connection itself, to the address that was dialled and checked.
        let route = http.dialer().dial(&to, log).await?.route;
        if !tls {
            inputs.check_open(&route, (SUBJECT, "tls: none"), log)?;
        }
        let (loses, lost) = watch::channel(false);
        let options = options.event_callback(move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                loses.send_replace(true);
            }
            std::future::ready(())
        });
        let client = options.connect(format!("nats://{}", route.address())).await;
        match client {
            Ok(client) => Ok(Self { client, lost }),
            Err(error) => Err(explained(refused(inputs, &error), &route, host, (PROTOCOL, tls)).await),
        }
    }

    fn is_usable(&self) -> bool {
        !*self.lost.borrow()
    }
}

impl Link {
    /// Completes once the connection is lost. The client connects again by itself, and then waits for answers that went to the lost one.
    pub(super) async fn lost(&self) {
        // The sender lives as long as the client.
        drop(self.lost.clone().wait_for(|is_lost| *is_lost).await);
    }

    pub(super) fn jetstream(&self) -> Context {
        jetstream::ContextBuilder::new().timeout(ANSWER_TIME).build(self.client.clone())
    }

    /// The error of a connection that was cut; `Ok` as long as it stands.
    pub(super) fn check(&self) -> Result<(), ActionError> {
        match self.is_usable() {
            true => Ok(()),
            false => Err(network("the connection was lost")),
        }
    }
}

fn options(inputs: Inputs<'_>, host: &str, tls: bool) -> Result<ConnectOptions, ActionError> {
    // Nothing else may choose an address: neither the server, nor a reconnection.
    let mut options = ConnectOptions::new()
        .name("cogwork")
        .ignore_discovered_servers()
        .max_reconnects(1)
        .connection_timeout(CONNECT_TIME)
        .ping_interval(PING_INTERVAL)
        .request_timeout(Some(ANSWER_TIME));
    if tls {
        let config = tls_config_for(tls_files(inputs)?, host);
        let config = config.map_err(|error| inputs.refuse(error))?;
        options = options.require_tls(true).tls_client_config((*config).clone());
    }
    match (inputs.text("user"), inputs.text("password"), inputs.text("token"), inputs.text("credentials")) {
        (None, None, None, None) => Ok(options),
        (Some(user), password, None, None) => {
            Ok(options.user_and_password(user.to_owned(), password.unwrap_or_default().to_owned()))
        }
        (None, None, Some(token), None) => Ok(options.token(token.to_owned())),
        // The reason could repeat a line of the file.
        (None, None, None, Some(file)) => options
            .credentials(file)
            .map_err(|_| inputs.refuse("`credentials` is not the text of a file of credentials")),
        (None, Some(_), None, None) => Err(inputs.refuse("`password` needs `user`")),
        _ => Err(inputs.refuse("give one of `user` with `password`, `token` and `credentials`")),
    }
}

fn refused(inputs: Inputs<'_>, error: &async_nats::ConnectError) -> ActionError {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            inputs.refuse(format!("{SUBJECT} refuses the login"))
        }
        ConnectErrorKind::TimedOut => no_login(SUBJECT),
        // A certificate is refused while the connection is opened.
        _ => not_sent(network(&format!("the connection to {SUBJECT} failed: {error}"))),
    }
}
