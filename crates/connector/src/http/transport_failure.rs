//! Errors of requests without a response: transport failures and blocked addresses, as records for people and programs.

use std::io;
use std::time::Duration;

use model::{ActionError, ErrorKind};
use url::Url;

use super::guard::BlockedAddress;

/// Creates the error for a request that exceeded its timeout.
pub(super) fn timeout_error(subject: &str, limit: Duration) -> ActionError {
    let limit = text::units::format_duration(limit);
    ActionError::new(ErrorKind::Timeout, format!("{subject} did not answer within {limit}"))
}

/// Creates the error for a request while the network is disabled.
pub(crate) fn network_disabled(subject: &str) -> ActionError {
    ActionError::new(
        ErrorKind::Blocked,
        format!("{subject} is not called: outgoing requests are disabled here"),
    )
}

/// Creates the error for an address that the guard blocks.
pub(super) fn blocked(reason: &BlockedAddress) -> ActionError {
    let kind = match reason {
        BlockedAddress::Scheme(_) | BlockedAddress::NoHost | BlockedAddress::UserInfo => ErrorKind::Input,
        BlockedAddress::Private { .. } | BlockedAddress::Own { .. } => ErrorKind::Blocked,
    };
    ActionError::new(kind, reason.to_string())
}

/// Names the called system and its address, or only the address if they are the same.
pub(crate) fn describe_target(subject: &str, host: &str, address: &str) -> String {
    if *subject == format!("`{host}`") { format!("`{address}`") } else { format!("{subject} at `{address}`") }
}

/// Creates the error for a host name that does not resolve, or whose address the guard blocks.
pub(super) fn lookup_error(subject: &str, host: &str, error: &io::Error) -> ActionError {
    match error.get_ref().and_then(|reason| reason.downcast_ref::<BlockedAddress>()) {
        Some(reason) => blocked(reason),
        None => {
            let target = describe_target(subject, host, host);
            ActionError::new(ErrorKind::Network, format!("{target} cannot be reached: {error}"))
        }
    }
}

/// Creates the error for a failure of the HTTP client.
pub(super) fn client_error(subject: &str, url: &Url, error: reqwest::Error) -> ActionError {
    // The query of the address may contain secrets; host and port are enough to find the cause.
    let error = error.without_url();
    let mut cause: &(dyn std::error::Error + 'static) = &error;
    while let Some(source) = cause.source() {
        if let Some(reason) = source.downcast_ref::<BlockedAddress>() {
            return not_sent(blocked(reason));
        }
        cause = source;
    }
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let target = describe_target(subject, host, &format!("{host}{port}"));
    if error.is_timeout() {
        let timed_out = ActionError::new(ErrorKind::Timeout, format!("{target} did not answer in time"));
        return if error.is_connect() { not_sent(timed_out) } else { timed_out };
    }
    if error.is_builder() {
        let message = format!("the request cannot be sent: {cause}");
        return not_sent(ActionError::new(ErrorKind::Input, message));
    }
    if error.is_connect() {
        let message = format!("{target} cannot be reached: {cause}");
        return not_sent(ActionError::new(ErrorKind::Network, message));
    }
    ActionError::new(ErrorKind::Network, format!("the connection to {target} broke: {cause}"))
}

/// Marks the error of a request that never left the process.
pub(crate) fn not_sent(mut error: ActionError) -> ActionError {
    error.not_sent = true;
    error
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_target_named_by_its_address_is_named_once() {
        let unknown = io::Error::other("no such name");
        let message = |subject| lookup_error(subject, "x.example", &unknown).message.clone();
        assert_eq!(message("`x.example`"), "`x.example` cannot be reached: no such name");
        assert_eq!(message("the wiki"), "the wiki at `x.example` cannot be reached: no such name");
        assert_eq!(describe_target("`x.example`", "x.example", "x.example:81"), "`x.example:81`");
    }
}
