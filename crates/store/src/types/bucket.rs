//! Token buckets of rate limits that all nodes share.

use std::time::Duration;

use model::automation::TriggerKey;

/// The kinds of requests that a rate limit applies to, each with its own bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BucketKind {
    /// Requests that start executions.
    #[default]
    Start,
    /// Challenges of senders.
    Challenge,
}

/// A request for tokens of the bucket of a rate limit.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRequest {
    /// The trigger that is limited.
    pub trigger: TriggerKey,
    /// True for its test address, which has a bucket of its own.
    pub test: bool,
    /// The requests that are limited.
    pub kind: BucketKind,
    /// The tokens added per second; more than 0.
    pub per_second: f64,
    /// The tokens of a full bucket, from 1.
    pub burst: u32,
    /// The maximum number of tokens to take, from 1. The node uses one of them at once.
    pub wanted: u32,
    /// The time for which it may use the others, from before the request on. The store lets some more pass until it counts them as
    /// lost.
    pub hold: Duration,
}

/// The tokens that a node got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenGrant {
    /// Their number; 0 if the bucket is empty.
    pub granted: u32,
    /// If it is empty, the time until it has a token again.
    pub retry_after: Duration,
}
