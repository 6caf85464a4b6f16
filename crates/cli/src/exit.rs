//! The exit code of the process, and the errors that decide it.

use std::fmt;
use std::process::ExitCode;

/// Exit codes. They are part of the command line's contract, and `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done,
    /// The command failed.
    Failed,
    /// The command line or a setting is invalid.
    Usage,
    /// The store cannot be trusted: reopen or restore it.
    StoreLost,
    /// A signal interrupted the command.
    Interrupted,
}

impl Exit {
    /// The numeric exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::StoreLost => 3,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error that decides the exit code.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The command line or a setting is invalid.
    Usage(String),
    /// The error has been reported already.
    Reported(Exit),
}

impl CommandError {
    /// Wrong usage; the message includes a suggestion.
    pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
        Self::Usage(message.into()).into()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => formatter.write_str(message),
            Self::Reported(exit) => write!(formatter, "exit {}", exit.code()),
        }
    }
}

impl std::error::Error for CommandError {}

/// The exit code for this error.
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if let Some(fault) = cause.downcast_ref::<CommandError>() {
            return match fault {
                CommandError::Usage(_) => Exit::Usage,
                CommandError::Reported(exit) => *exit,
            };
        }
        if let Some(runtime::Error::Input(_)) = cause.downcast_ref() {
            return Exit::Usage;
        }
        if let Some(error) = cause.downcast_ref::<store::Error>() {
            return if error.is_untrusted() { Exit::StoreLost } else { Exit::Failed };
        }
    }
    Exit::Failed
}

/// True if the reader of the pipe is gone, as with `head`: not an error, and no message is useful.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}

/// The message with its causes, except repeated ones.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Splits a message into the problem and the suggestion, which follows the last semicolon if there is one.
pub(crate) fn split_way_out(message: &str) -> (&str, Option<&str>) {
    match message.rsplit_once("; ") {
        Some((problem, way_out)) => (problem, Some(way_out)),
        None => (message, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_store_has_its_own_exit_code() {
        let lost = store::Error::Commit { reason: "disk I/O error".into() };
        assert_eq!(exit_of(&runtime::Error::Store(lost).into()), Exit::StoreLost);
        for error in [
            store::Error::DatabaseDamaged { detail: "page 7".into() },
            store::Error::DatabaseLost { path: "x.db".into(), is_missing: true, traces: Vec::new() },
        ] {
            assert_eq!(
                exit_of(&anyhow::Error::from(error).context("cannot open the store")),
                Exit::StoreLost
            );
        }
        let locked = store::Error::Locked { path: "x.lock".into(), pid: None };
        assert_eq!(exit_of(&locked.into()), Exit::Failed);
        assert_eq!(exit_of(&CommandError::usage("no").context("in vain")), Exit::Usage);
    }

    #[test]
    fn a_cause_already_in_the_message_is_not_repeated() {
        let error = runtime::Error::Store(store::Error::Full);
        let text = message(&anyhow::Error::from(error));
        assert_eq!(text.matches("the store is full").count(), 1, "{text}");
        let error = anyhow::Error::new(store::Error::Closed).context("cannot list executions");
        assert_eq!(message(&error), "cannot list executions: the store is closed");
    }
}
