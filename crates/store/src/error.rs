//! Errors of the store.

use std::path::PathBuf;

use model::automation::TriggerKey;
use model::{DefinitionHash, ExecutionId};

/// An error of the store. Nothing changed, unless [`Error::outcome_unknown`] is true.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The location names no kind of store that this release supports.
    #[error(
        "the store location `{location}` is not supported; give the path of a file or a folder, `sqlite:PATH` or \
        `postgres://USER@HOST/DATABASE`"
    )]
    UnsupportedLocation {
        /// The location; of a URL, only the scheme.
        location: String,
    },
    /// The address of a database is not a valid URL.
    #[error(
        "the address of the database is not valid: {reason}; write `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, \
        with special characters in percent-encoding"
    )]
    InvalidAddress {
        /// The problem; it has no part of the address.
        reason: String,
    },
    /// The database server cannot be used.
    #[error("cannot use the database `{location}`: {reason}")]
    Connect {
        /// The address without user and password.
        location: String,
        /// The problem and the way out.
        reason: String,
    },
    /// The database has not been reachable for some seconds. Nothing was written.
    #[error("the database does not answer: {reason}; try again")]
    Unreachable {
        /// The message of the system or the server.
        reason: String,
    },
    /// Another process has the store open.
    #[error("another daemon{} holds `{}`; stop it, or give this one a data directory of its own",
        .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), .path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it, if the lock file names it.
        pid: Option<u32>,
    },
    /// The database library is older than the durability guarantees need.
    #[error("{library} is too old: it can damage its write-ahead log; build with {needed} or later")]
    TooOld {
        /// The name and version of the linked library.
        library: String,
        /// The oldest sufficient version.
        needed: &'static str,
    },
    /// The file system has unreliable locks and syncs.
    #[error("`{}` is on a {kind} file system, where locks and syncs are not reliable; move it to a local disk",
        .path.display())]
    NetworkFileSystem {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        kind: &'static str,
    },
    /// A later release wrote the tables.
    #[error("`{}` has tables of version {found}, this release knows up to {known}; use the release that wrote it, \
        or a later one", .path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version of the tables.
        found: u32,
        /// The latest version that this release supports.
        known: u32,
    },
    /// An earlier release wrote the tables, and a read-only store cannot migrate them.
    #[error("`{}` has tables of version {found}, this release reads version {known}; start the daemon once to \
        migrate them", .path.display())]
    OlderSchema {
        /// The file.
        path: PathBuf,
        /// The version of the tables.
        found: u32,
        /// The version that this release needs.
        known: u32,
    },
    /// The file is not a store.
    #[error("`{}` is not a store of Cogwork; name another file", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The store could not be opened or created.
    #[error("cannot open the store `{}`: {reason}", .path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// The message of the system.
        reason: String,
    },
    /// Daemons of earlier releases run on the store that do not know this level of the language.
    #[error(
        "{} {} not know level {level} of the language; update {}, or stop {}",
        .daemons.join(", "),
        if .daemons.len() == 1 { "does" } else { "do" },
        if .daemons.len() == 1 { "it" } else { "them" },
        if .daemons.len() == 1 { "it" } else { "them" }
    )]
    OlderDaemons {
        /// The level.
        level: u32,
        /// Each with its machine and release.
        daemons: Vec<String>,
    },
    /// The trigger to which rows were to be moved has rows.
    #[error("`{}` has {what} already, which would be lost; choose an id that no trigger of `{}` has had", .trigger.name(), .trigger.automation)]
    TriggerHasRows {
        /// The trigger.
        trigger: TriggerKey,
        /// The kinds of its rows.
        what: String,
    },
    /// Another writer appended to the execution first.
    #[error("execution {execution} has {found} events, not {expected}: something else wrote to it")]
    Conflict {
        /// The execution.
        execution: ExecutionId,
        /// The number of events that the append expected.
        expected: u32,
        /// The number of stored events.
        found: u32,
    },
    /// A value of the state does not have its expected version.
    #[error("the state `{key}` of `{scope}` was changed by something else; read it and try again")]
    StateChanged {
        /// The scope.
        scope: String,
        /// The key within the scope.
        key: String,
    },
    /// There is no such execution.
    #[error("there is no execution {0}; it may have been pruned")]
    NoSuchExecution(ExecutionId),
    /// A new execution names a definition that is not stored.
    #[error("the definition {0} is not stored; store it first")]
    NoSuchDefinition(DefinitionHash),
    /// The id of a new execution is taken.
    #[error("there is an execution {0} already")]
    AlreadyExists(ExecutionId),
    /// The write has invalid content.
    #[error("this cannot be stored: {reason}")]
    Invalid {
        /// The reason.
        reason: String,
    },
    /// The write is over the size limit of a write.
    #[error("a write of {bytes} bytes is over the limit of {limit}; store less at once")]
    TooLarge {
        /// The size of the write.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The disk is full, or the size limit of the store is reached.
    #[error("the store is full; free disk space, raise its size limit or shorten the retention")]
    Full,
    /// Another program held the write lock for too long.
    #[error("another program keeps the store's file locked; end it and try again")]
    Busy,
    /// The database refused the write.
    #[error("cannot write to the store: {reason}")]
    Write {
        /// The message of the database or the system.
        reason: String,
    },
    /// The commit failed: only reopening the store shows whether the write is stored.
    #[error("cannot tell whether the last writes are stored: {reason}; restart to find out")]
    Commit {
        /// The message of the system.
        reason: String,
    },
    /// An earlier commit failed, or the database is damaged: this write did not happen, and no other will until the store
    /// is reopened.
    #[error("the store accepts no more writes: {reason}; restart")]
    Poisoned {
        /// The message of the first failure.
        reason: String,
    },
    /// The store could not be read.
    #[error("cannot read the store: {reason}")]
    Read {
        /// The message of the database or the system.
        reason: String,
    },
    /// A record or a blob has content that no store writes. Other records are not affected.
    #[error("the store is damaged: {detail}; restore it from a backup")]
    RecordDamaged {
        /// The damaged record and the problem.
        detail: String,
    },
    /// The database file is damaged: no read and no write of it is reliable.
    #[error("the database file of the store is damaged: {detail}; restore it from a backup")]
    DatabaseDamaged {
        /// The problem.
        detail: String,
    },
    /// The database file is missing or empty, but files beside it belong to a store.
    #[error("`{}` {}, but {} beside it belong to a store, so no new one is made; restore the file from a backup, \
        or, to begin anew without what was stored, move them to another place",
        .path.display(), if *.is_missing { "is missing" } else { "is empty" }, .traces.join(", "))]
    DatabaseLost {
        /// The database file.
        path: PathBuf,
        /// True if the file is missing, false if it is empty.
        is_missing: bool,
        /// The names of the files beside it.
        traces: Vec<String>,
    },
    /// The backup could not be written.
    #[error("cannot write the backup `{}`: {reason}", .path.display())]
    Backup {
        /// The folder of the copy.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The place to which a backup is to be restored holds a store, which was not to be replaced.
    #[error("there is a store in `{}` already; nothing was changed", .path.display())]
    Occupied {
        /// The folder of the store.
        path: PathBuf,
    },
    /// The backup could not be restored. The store that was there is unchanged.
    #[error("cannot restore to `{place}`: {reason}")]
    Restore {
        /// The place of the store.
        place: String,
        /// The reason.
        reason: String,
    },
    /// The store was moved to another place.
    #[error(
        "the store `{location}` was moved to `{to}` on {at}; start on that one (`--store`), or, if this is to be the store again, \
        run `cogwork migrate --undo`"
    )]
    Moved {
        /// The store, without a password.
        location: String,
        /// The new place, without a password.
        to: String,
        /// The time of the move.
        at: jiff::Timestamp,
    },
    /// The store has only a part of another store, whose migration was interrupted.
    #[error(
        "`{location}` has only a part of the store `{from}`, whose migration was interrupted; run `cogwork migrate` again to \
        finish it, or delete what is there"
    )]
    HalfMoved {
        /// The store, without a password.
        location: String,
        /// The source, without a password.
        from: String,
    },
    /// The store cannot be moved.
    #[error("the store cannot be moved: {reason}")]
    Migrate {
        /// The reason.
        reason: String,
    },
    /// The definitions of this store are in the project folder.
    #[error(
        "this store belongs to one daemon, which reads its project folder; definitions are deployed into a store on PostgreSQL"
    )]
    NotShared,
    /// Only nodes that share a store keep this state in it.
    #[error("this state is not stored: it is in the memory of the daemon that holds the store")]
    Alone,
    /// The operating system provides no random bytes for an id or a secret. Nothing was written.
    #[error("the system provides no random bytes: {reason}")]
    NoRandomBytes {
        /// The message of the system.
        reason: String,
    },
    /// The store is open only for reading.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// The failures of a store that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The database does not answer. Nothing was written.
    Unreachable,
    /// There is no room. Nothing was written.
    Full,
    /// The write was refused. Nothing was written. The log has one line for the outage.
    Refused,
    /// The store takes no more writes, and the process ends.
    Closing,
    /// Anything else, which the log has to explain.
    Other,
}

impl Error {
    /// Refuses to move rows to a trigger that has rows. `kinds` has the words for each kind of row, and true if the trigger has some.
    ///
    /// # Errors
    /// [`Error::TriggerHasRows`], with the words.
    pub fn check_free(
        trigger: &TriggerKey,
        kinds: impl IntoIterator<Item = (&'static str, bool)>,
    ) -> Result<(), Self> {
        let taken: Vec<&str> = kinds.into_iter().filter_map(|(words, has)| has.then_some(words)).collect();
        if taken.is_empty() {
            return Ok(());
        }
        Err(Self::TriggerHasRows { trigger: trigger.clone(), what: taken.join(", ") })
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Unreachable { .. } => FailureKind::Unreachable,
            Self::Full => FailureKind::Full,
            Self::Write { .. } | Self::Busy => FailureKind::Refused,
            Self::Poisoned { .. } | Self::Closed => FailureKind::Closing,
            _ => FailureKind::Other,
        }
    }

    /// True if only reopening the store shows what is stored. The caller must stop accepting and end the process.
    /// Also true for a write that is refused because of an earlier such error.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Commit { .. } | Self::Poisoned { .. } | Self::DatabaseDamaged { .. })
    }

    /// True if the error is not caused by the read or the write itself, which can succeed when it is retried.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Full | Self::Busy | Self::Unreachable { .. } | Self::Write { .. } | Self::Read { .. }
        )
    }

    /// True if the store, or a part of it, is not reliable: it must be reopened or restored.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.outcome_unknown() || matches!(self, Self::RecordDamaged { .. } | Self::DatabaseLost { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_error_names_the_file_and_the_process() {
        let error = Error::Locked { path: "data/cogwork.db.lock".into(), pid: Some(41) };
        let text = error.to_string();
        assert!(text.starts_with("another daemon (process 41) holds `data/cogwork.db.lock`;"), "{text}");
    }

    #[test]
    fn database_errors_are_transient_and_write_errors_are_not() {
        let reason = || "permission denied".to_owned();
        for error in [
            Error::Full,
            Error::Busy,
            Error::Unreachable { reason: reason() },
            Error::Write { reason: reason() },
        ] {
            assert!(error.may_pass(), "{error}");
        }
        for error in [
            Error::Invalid { reason: reason() },
            Error::TooLarge { bytes: 2, limit: 1 },
            Error::RecordDamaged { detail: reason() },
            Error::Commit { reason: reason() },
            Error::Closed,
        ] {
            assert!(!error.may_pass(), "{error}");
        }
    }

    #[test]
    fn outage_and_shutdown_errors_are_distinguished_from_unexpected_ones() {
        let reason = || "x".to_owned();
        assert_eq!(Error::Unreachable { reason: reason() }.kind(), FailureKind::Unreachable);
        assert_eq!(Error::Full.kind(), FailureKind::Full);
        for error in [Error::Write { reason: reason() }, Error::Busy] {
            assert_eq!(error.kind(), FailureKind::Refused, "{error}");
        }
        for error in [Error::Poisoned { reason: reason() }, Error::Closed] {
            assert_eq!(error.kind(), FailureKind::Closing, "{error}");
        }
        for error in [Error::Commit { reason: reason() }, Error::Read { reason: reason() }, Error::NotShared]
        {
            assert_eq!(error.kind(), FailureKind::Other, "{error}");
        }
    }

    #[test]
    fn only_failed_commits_and_damage_leave_the_outcome_unknown() {
        assert!(Error::Commit { reason: "disk I/O error".into() }.outcome_unknown());
        assert!(Error::Poisoned { reason: "disk I/O error".into() }.outcome_unknown());
        assert!(Error::DatabaseDamaged { detail: "page 7".into() }.outcome_unknown());
        assert!(!Error::RecordDamaged { detail: "one execution".into() }.outcome_unknown());
        assert!(!Error::Full.outcome_unknown());
        assert!(!Error::StateChanged { scope: "orders".into(), key: "cursor".into() }.outcome_unknown());
        assert!(!Error::Closed.outcome_unknown());
    }
}
