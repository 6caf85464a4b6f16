//! Credentials that a request shows, and the secrets that they are made of.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::scope::Scopes;
use super::session::SessionId;
use super::tokens::TokenId;
use crate::admin::Problem;

/// A SHA-256 hash of a secret.
pub(crate) type Hash = [u8; 32];

pub(crate) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// A new secret of 256 random bits, as text.
pub(crate) fn random() -> Result<String, Problem> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| Problem::internal(&error))?;
    Ok(URL_SAFE_NO_PAD.encode(bits))
}

pub(crate) fn encode(hash: &Hash) -> String {
    URL_SAFE_NO_PAD.encode(hash)
}

/// The credential that a request has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) owner: Owner,
    /// The session through which the owner acts, if the request came from a browser.
    pub(crate) session: Option<SessionId>,
    /// Its scopes.
    pub(crate) scopes: Scopes,
}

/// The owner of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub(crate) enum Owner {
    /// The admin token of the data folder or of the environment.
    Admin,
    /// A token that was created.
    Token {
        /// Its key in the store.
        id: TokenId,
        /// Its name.
        name: String,
    },
    /// A person who has logged in at the identity provider.
    Person {
        /// The identifier at the provider, which never changes.
        subject: String,
        /// The name for people, which the person may be able to choose.
        name: String,
        /// The hash of the rules by which the person was let in; other rules end the session.
        rules: String,
    },
}

impl Credential {
    /// The admin token.
    pub(crate) fn admin() -> Self {
        Self { owner: Owner::Admin, session: None, scopes: Scopes::ADMIN }
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let through = if self.session.is_some() { " in a browser" } else { "" };
        match &self.owner {
            Owner::Admin => write!(formatter, "admin token{through}"),
            Owner::Token { name, .. } => write!(formatter, "token {name}{through}"),
            Owner::Person { subject, name, .. } if subject == name => {
                write!(formatter, "person {name}{through}")
            }
            Owner::Person { subject, name, .. } => write!(formatter, "person {name} ({subject}){through}"),
        }
    }
}
