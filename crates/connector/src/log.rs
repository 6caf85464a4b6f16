//! Where what a call has to tell people goes.

use std::time::Duration;

use model::LogLevel;

/// Where an action writes lines for people.
pub trait LogSink: Send + Sync {
    /// Takes one line. It must not block.
    fn line(&self, level: LogLevel, message: &str);

    /// Takes note of a request that is about to be sent, each redirect and repetition by itself. `url` has neither
    /// credentials nor query nor fragment. It must not block.
    fn request(&self, method: &str, url: &str) {
        let _ = (method, url);
    }

    /// Takes note that a request waited so long for its host: for the end of other requests to it, or of a break that it
    /// had asked for. It must not block.
    fn waited(&self, host: &str, time: Duration) {
        let _ = (host, time);
    }
}
