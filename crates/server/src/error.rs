//! Errors of serving, and of calling a daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::admin::Problem;

/// An error of the server or of its client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the data folder could not be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// The admin token is too weak to keep anybody out.
    #[error("the admin token has {found} characters; it needs at least {least} visible ones")]
    WeakToken {
        /// How many it has.
        found: usize,
        /// How many it needs.
        least: usize,
    },
    /// The identity provider of the settings cannot be used.
    #[error("the identity provider cannot be used: {0}")]
    Provider(#[from] connector::Error),
    /// The address of a daemon is not one.
    #[error("`{0}` is not the address of a daemon; write it as `http://127.0.0.1:7071`")]
    Address(String),
    /// Nothing answers there.
    #[error("no daemon answers at {address}: {source}")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The daemon did not answer in time.
    #[error("the daemon at {address} did not answer within {seconds} s")]
    Slow {
        /// Where.
        address: String,
        /// The time it had.
        seconds: u64,
    },
    /// The connection broke, or what came is not what the API answers.
    #[error("the daemon at {address} gave no proper answer: {reason}")]
    Answer {
        /// Where.
        address: String,
        /// The error.
        reason: String,
    },
    /// The daemon refused.
    #[error("{0}")]
    Refused(Box<Problem>),
}
