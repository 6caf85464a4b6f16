//! The inputs that the messages of all brokers have. The ingress reads them.

/// The values of `parse`.
pub(crate) const PARSES: &[&str] = &["json", "text", "file"];
pub(crate) const ABOUT_PARSE: &str =
    "The form of `body`: the value of a JSON text (json), a text (text), or a file with the bytes (file).";
pub(crate) const ABOUT_MAX_BODY: &str =
    "The largest body, at most 8MiB: a larger message starts nothing. Default: 1MiB.";
