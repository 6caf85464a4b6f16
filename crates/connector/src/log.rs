//! The sink for log lines and timings of a call.

use std::time::Duration;

use model::LogLevel;

/// Receives the log lines of an action, and reports of its requests.
pub trait LogSink: Send + Sync {
    /// Writes one line. It must not block.
    fn line(&self, level: LogLevel, message: &str);

    /// Reports a request before it is sent; redirects and repetitions are reported separately. `url` has no
    /// credentials, query or fragment. It must not block.
    fn record_request(&self, method: &str, url: &str) {
        let _ = (method, url);
    }

    /// Reports the time that a request waited for its host: for a free slot, or for a back-off that the host had
    /// requested. It must not block.
    fn record_host_wait(&self, host: &str, time: Duration) {
        let _ = (host, time);
    }
}

/// A sink that drops its lines.
pub(crate) struct NoLog;

impl LogSink for NoLog {
    fn line(&self, _: LogLevel, _: &str) {}
}
