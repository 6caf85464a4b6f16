//! Errors of setting up this crate. A failed call is a [`model::ActionError`].

/// An error that prevents setting up the HTTP client.
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
}
