//! Errors of the configuration.

/// A variable of OpenTelemetry that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value is not supported by Cogwork.
    #[error("`{variable}` is `{value}`; use {allowed}")]
    Value {
        /// The name of the variable.
        variable: String,
        /// Its value.
        value: String,
        /// The values that are supported.
        allowed: &'static str,
    },
    /// The exporter refuses its configuration.
    #[error("the variables `OTEL_*` for {signal} cannot be used: {message}")]
    Exporter {
        /// The signal: `traces` or `logs`.
        signal: &'static str,
        /// The reason.
        message: String,
    },
}
