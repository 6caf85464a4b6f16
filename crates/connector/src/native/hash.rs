//! `hash.digest` and `hash.hmac`: digests without and with a key.

use std::sync::Arc;

use model::{InputSpec, InputType, ResultType};
use serde_json::json;

use super::pure::{PureActionSpec, function};
use super::{choice, defaulted, required};
use crate::action::Action;

/// Returns the actions of the connector.
pub(crate) fn actions() -> Vec<Arc<dyn Action>> {
    let digest = PureActionSpec {
        name: "hash.digest",
        title: "Compute the hash of text or a file",
        about: Some("`sha1` and `md5` are for systems that require them; they are not secure."),
        inputs: vec![data(), algorithm(), encoding()],
        gives: ("the digest", ResultType::Text),
        example: json!({"data": "order 17", "algorithm": "sha256"}),
        run: |inputs| function("hash", inputs),
    };
    let hmac = PureActionSpec {
        name: "hash.hmac",
        title: "Compute the HMAC of text or a file",
        about: Some(
            "It proves to everyone who has the key that the data is yours. Keep the key in a secret, and read it by `configVars` with `secret: true`.",
        ),
        inputs: vec![
            data(),
            required("key", InputType::Any, "The key: text, or a file."),
            algorithm(),
            encoding(),
        ],
        gives: ("the digest", ResultType::Text),
        example: json!({"data": "order 17", "key": "the shared key"}),
        run: |inputs| function("hmac", inputs),
    };
    vec![digest.action(), hmac.action()]
}

fn data() -> InputSpec {
    required("data", InputType::Any, "The text or file.")
}

fn algorithm() -> InputSpec {
    defaulted("algorithm", choice(&["sha256", "sha512", "sha1", "md5"]), "sha256", "The algorithm.")
}

fn encoding() -> InputSpec {
    defaulted("encoding", choice(&["hex", "base64"]), "hex", "The encoding of the digest.")
}
