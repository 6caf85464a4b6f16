//! Where what a call has to tell people goes.

use model::LogLevel;

/// Where an action writes lines for people.
pub trait LogSink: Send + Sync {
    /// Takes one line. It must not block.
    fn line(&self, level: LogLevel, message: &str);
}
