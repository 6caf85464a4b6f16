//! The behaviour of a service that its manifest declares, and the evidence for the manifest.

use ::http::HeaderName;
use serde::Serialize;

use crate::http::{RateHeaders, RequestRules};

/// The placement of the key of a call, which is the same for each attempt at a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Idempotency {
    /// `Idempotency-Key`, whether or not the service honours it.
    #[default]
    Undeclared,
    /// A header that the service honours.
    Header(HeaderName),
    /// A path in the body.
    Body(Vec<String>),
    /// The service takes no key.
    None,
}

impl Idempotency {
    /// Returns the rules of requests with this placement.
    pub(crate) fn rules(&self, rate: Option<RateHeaders>, redirects: Option<Vec<String>>) -> RequestRules {
        let key_header = match self {
            Self::Undeclared => RequestRules::default().key_header,
            Self::Header(name) => Some(name.clone()),
            Self::Body(_) | Self::None => None,
        };
        RequestRules { key_header, rate, redirects }
    }
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
