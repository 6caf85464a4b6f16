//! The likely cause of a connection that failed before the login: TLS on one side only, or the port of another protocol.

use connector::net::{Greeting, Route};
use model::{ActionError, ErrorKind};

/// The protocol of a client.
#[derive(Clone, Copy)]
pub(crate) struct Protocol {
    /// Its name, if its servers greet before the client sends anything.
    pub greets_as: Option<&'static str>,
    /// True if TLS begins with the first byte, and not after a greeting.
    pub tls_first: bool,
    /// The setting without TLS, as a connection has it: `tls: none`.
    pub without_tls: &'static str,
}

/// Adds the likely cause to the error of a connection that could not be opened. `tls` is true if the client uses TLS.
pub(crate) async fn explained(
    mut error: ActionError,
    route: &Route,
    host: &str,
    (protocol, tls): (Protocol, bool),
) -> ActionError {
    let shown = &error.message;
    let cause = if shown.contains("does not support TLS") {
        Some(format!("set `{}` if that is right", protocol.without_tls))
    } else if shown.contains("no encryption") || shown.contains("insecure transport") {
        Some(format!("it wants TLS: remove `{}`", protocol.without_tls))
    } else if may_be_port(&error) {
        Box::pin(route.greeting(host)).await.and_then(|greeting| cause(protocol, tls, greeting))
    } else {
        None
    };
    if let Some(cause) = cause {
        error.message.push_str("; ");
        error.message.push_str(&cause);
    }
    error
}

/// True if the error is neither about a certificate, nor an answer of the server, which has a code.
fn may_be_port(error: &ActionError) -> bool {
    if error.code.is_some() {
        return false;
    }
    let is_open = match error.kind {
        ErrorKind::Network | ErrorKind::Timeout | ErrorKind::Response => true,
        ErrorKind::Connection => error.message.contains("TLS") || error.message.contains("SSL"),
        _ => false,
    };
    is_open && !error.message.contains("certificate")
}

fn cause(protocol: Protocol, uses_tls: bool, greeting: Greeting) -> Option<String> {
    let Protocol { greets_as, tls_first, without_tls } = protocol;
    let no_tls = |words: &str| {
        format!("it {words} no TLS at this port: give `port` the one with TLS, or set `{without_tls}`")
    };
    match greeting {
        Greeting::Protocol { name, .. } if Some(name) != greets_as => {
            Some(format!("a server of {name} answers at this port: correct `port`"))
        }
        Greeting::Protocol { tls: None, .. } => (uses_tls && tls_first).then(|| no_tls("takes")),
        Greeting::Protocol { tls: Some(false), .. } => uses_tls.then(|| no_tls("takes")),
        Greeting::Protocol { tls: Some(true), .. } => {
            (!uses_tls).then(|| format!("it may want TLS: remove `{without_tls}`"))
        }
        Greeting::Tls if !tls_first => {
            Some("another protocol with TLS answers at this port: correct `port`".to_owned())
        }
        Greeting::Tls => (!uses_tls)
            .then(|| format!("it takes TLS at this port: remove `{without_tls}`, or correct `port`")),
        Greeting::NoTls => (uses_tls && tls_first).then(|| no_tls("seems to take")),
        Greeting::NoAnswer => (uses_tls && tls_first)
            .then(|| "it does not answer at this port: it stands still, or `port` is another one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAP: Protocol =
        Protocol { greets_as: Some("IMAP"), tls_first: true, without_tls: "security: none" };
    const NATS: Protocol = Protocol { greets_as: Some("NATS"), tls_first: false, without_tls: "tls: none" };

    #[test]
    fn a_cause_is_told_only_if_client_and_server_do_not_fit() {
        let spoken = |name, tls| Greeting::Protocol { name, tls };
        for (protocol, uses_tls, greeting, expected) in [
            (IMAP, true, spoken("IMAP", None), Some("it takes no TLS at this port: give `port`")),
            (IMAP, false, spoken("IMAP", None), None),
            (IMAP, true, spoken("SSH", None), Some("a server of SSH answers at this port: correct `port`")),
            (IMAP, false, Greeting::Tls, Some("it takes TLS at this port: remove `security: none`")),
            (IMAP, true, Greeting::Tls, None),
            (IMAP, true, Greeting::NoTls, Some("it seems to take no TLS at this port")),
            (IMAP, false, Greeting::NoTls, None),
            (IMAP, true, Greeting::NoAnswer, Some("it does not answer at this port")),
            (NATS, true, spoken("NATS", Some(false)), Some("it takes no TLS at this port")),
            (NATS, true, spoken("NATS", Some(true)), None),
            (NATS, false, spoken("NATS", Some(true)), Some("it may want TLS: remove `tls: none`")),
            (NATS, false, spoken("NATS", Some(false)), None),
            (NATS, false, Greeting::Tls, Some("another protocol with TLS answers at this port")),
            (NATS, true, Greeting::NoTls, None),
        ] {
            let found = cause(protocol, uses_tls, greeting);
            assert_eq!(found.is_some(), expected.is_some(), "{greeting:?} {uses_tls} {found:?}");
            assert!(
                found.unwrap_or_default().starts_with(expected.unwrap_or_default()),
                "{greeting:?} {uses_tls}"
            );
        }
    }
}
