//! Errors of the server and of its client.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::admin::Problem;

/// An error of the server or of its client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address of the listener.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of the data folder could not be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// The admin token is too short, or has characters that are not visible ASCII.
    #[error("the admin token has {found} characters; it needs at least {least} visible ones")]
    WeakToken {
        /// The number of its characters.
        found: usize,
        /// The least number of characters.
        least: usize,
    },
    /// The address of a daemon is not a plain `http://host:port`.
    #[error("`{0}` is not the address of a daemon; write it as `http://127.0.0.1:7071`")]
    InvalidAddress(String),
    /// No process answers at the address.
    #[error("no daemon answers at {address}: {source}")]
    Unreachable {
        /// The address of the daemon.
        address: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The daemon did not answer in time.
    #[error("the daemon at {address} did not answer within {seconds} s")]
    Timeout {
        /// The address of the daemon.
        address: String,
        /// The client's deadline, in seconds.
        seconds: u64,
    },
    /// The connection broke, or the response does not have the form of the API.
    #[error("the daemon at {address} gave no proper answer: {reason}")]
    InvalidResponse {
        /// The address of the daemon.
        address: String,
        /// The error of the connection or of the parser.
        reason: String,
    },
    /// The daemon answered with a problem.
    #[error("{0}")]
    Refused(Box<Problem>),
}
