//! Credentials, sessions and scopes, and the audit log.

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod credential;
pub(crate) mod guard;
pub(crate) mod login;
mod parameters;
pub(crate) mod scope;
pub(crate) mod session;
pub(crate) mod tokens;
