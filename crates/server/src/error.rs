//! Errors of the server and its client.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::admin::Problem;

/// An error of the server or of its client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener could not be opened.
    #[error(
        "cannot listen on {address}, the setting `{setting}`: {source}; {}",
        how_to_listen(setting, source)
    )]
    Bind {
        /// The setting with the address.
        setting: &'static str,
        /// The address of the listener.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of the data folder could not be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The operating system returned no random bytes.
    #[error("the operating system returns no random bytes: {0}")]
    Random(getrandom::Error),
    /// The admin token is too weak.
    #[error("the admin token has {found} characters; it needs at least {least} visible ones")]
    WeakToken {
        /// The number of its characters.
        found: usize,
        /// The required number of characters.
        least: usize,
    },
    /// The configured identity provider cannot be used.
    #[error("the identity provider cannot be used: {0}")]
    Provider(#[from] connector::Error),
    /// The address of a daemon is invalid.
    #[error("`{0}` is not the address of a daemon; write it as `http://127.0.0.1:7071`")]
    Address(String),
    /// No daemon responds at the address.
    #[error("no daemon answers at {address}: {source}")]
    Unreachable {
        /// The address.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The daemon did not respond in time.
    #[error("the daemon at {address} did not answer within {seconds} s")]
    Slow {
        /// The address.
        address: String,
        /// The timeout.
        seconds: u64,
    },
    /// The connection failed, or the response is not of the API.
    #[error("the daemon at {address} gave no proper answer: {reason}")]
    Answer {
        /// The address.
        address: String,
        /// The error.
        reason: String,
    },
    /// The daemon rejected the request.
    #[error("{0}")]
    Refused(Box<Problem>),
}

/// Returns how to correct an address that cannot be listened on, by the setting that has it.
#[must_use]
pub fn how_to_listen(setting: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "stop the program that listens there, perhaps another daemon, or set `{setting}` to another port"
        ),
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE; take a higher one behind a proxy"
                .to_owned()
        }
        std::io::ErrorKind::AddrNotAvailable => format!("no interface has this address; correct `{setting}`"),
        _ => format!("correct `{setting}`"),
    }
}
