//! The behaviour of a service that its manifest declares, and the evidence for the manifest.

use ::http::HeaderName;
use serde::Serialize;

use crate::http::{RateHeaders, RequestRules};

/// The placement of the key of a call, which is the same for each attempt at a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Idempotency {
    /// The header `Idempotency-Key`, whether or not the service honours it.
    #[default]
    Undeclared,
    /// A header that the service honours.
    Header(HeaderName),
    /// A path in the body.
    Body(Vec<String>),
    /// The service takes no key, so a repeated write may change more.
    None,
    /// The service needs no key: a repeated call changes nothing more.
    Safe,
}

impl Idempotency {
    /// The placement for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Undeclared => {
                "the header `Idempotency-Key`, whether or not the service honours it".to_owned()
            }
            Self::Header(name) => format!("the header `{}`, which the service honours", canonical_name(name)),
            Self::Body(path) => format!("`{}` in the body, which the service honours", path.join(".")),
            Self::None => "none: the service takes no key".to_owned(),
            Self::Safe => "none: a repeated call changes nothing more".to_owned(),
        }
    }

    /// Returns the rules of requests with this placement.
    pub(crate) fn rules(&self, rate: Option<RateHeaders>, redirects: Option<Vec<String>>) -> RequestRules {
        let key_header = match self {
            Self::Undeclared => RequestRules::default().key_header,
            Self::Header(name) => Some(name.clone()),
            Self::Body(_) | Self::None | Self::Safe => None,
        };
        RequestRules { key_header, rate, redirects }
    }
}

/// The name of a header with capital letters, as people write it.
fn canonical_name(name: &HeaderName) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    name.as_str().split('-').map(part).collect::<Vec<_>>().join("-")
}

/// The evidence that a manifest fits its service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The kind of evidence.
    pub by: ProofKind,
    /// The day of the evidence, as `2026-11-30`.
    pub date: String,
}

/// The kind of evidence for a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProofKind {
    /// The service's own machine-readable description.
    OpenApi,
    /// The examples of the service's reference.
    Examples,
    /// Calls of the service.
    Live,
}
