//! Errors of setting up this crate, and of logins. A failed call is a [`model::ActionError`].

/// An error of setting up the HTTP client, or of the login of a person.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An entry of the outbound allow list has no known form.
    #[error(
        "`{entry}` cannot be allowed: write an address (`127.0.0.1`), a network (`10.0.0.0/8`) or a host name \
         (`wiki.internal`, `*.internal`)"
    )]
    AllowList {
        /// The entry.
        entry: String,
    },
    /// The HTTP client cannot be built, for example because the system has no certificates.
    #[error("the HTTP client cannot be built: {0}")]
    Client(#[from] reqwest::Error),
    /// An identity provider cannot be reached, does not answer as OpenID Connect says, or refuses this client.
    #[error("{0}")]
    IdentityProvider(String),
    /// A login at an identity provider is not valid.
    #[error("{0}")]
    Login(String),
    /// A secret provider cannot be reached, refuses, or answers with something unexpected.
    #[error("{0}")]
    SecretProvider(String),
}
