//! Why a store could not do what it was asked.

use std::path::PathBuf;

use model::{DefinitionHash, ExecutionId};

/// Why a store could not do what it was asked. Unless [`Error::outcome_unknown`] says otherwise, nothing changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The location names no kind of store that this release supports.
    #[error(
        "the store location `{location}` is not supported yet; give the path of a file or a folder, or \
        `sqlite:PATH`"
    )]
    UnsupportedLocation {
        /// The location; of a URL, only the scheme.
        location: String,
    },
    /// Another daemon has the store open.
    #[error("another daemon{} holds `{}`; stop it, or give this one a data directory of its own",
        .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), .path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it, where it could be read.
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
    /// The file is on a file system whose locks and syncs cannot be relied on.
    #[error("`{}` is on a {kind} file system, where locks and syncs cannot be relied on; move it to a local disk", .path.display())]
    NetworkFileSystem {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        kind: &'static str,
    },
    /// A later release wrote the file.
    #[error("`{}` has tables of version {found}, this release knows up to {known}; use the release that wrote it, \
        or a later one", .path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        found: u32,
        /// The latest version known.
        known: u32,
    },
    /// An earlier release wrote the file, and it was opened only to be read.
    #[error("`{}` has tables of version {found}, this release reads version {known}; start the daemon once to \
        bring it up to date", .path.display())]
    OlderSchema {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        found: u32,
        /// The version needed.
        known: u32,
    },
    /// The file is something else.
    #[error("`{}` is not a store of Cogwork; name another file", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be opened or set up.
    #[error("cannot open the store `{}`: {reason}", .path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Somebody else appended to the execution first.
    #[error("execution {execution} has {found} events, not {expected}: something else wrote to it")]
    Conflict {
        /// Which execution.
        execution: ExecutionId,
        /// How many events the append came after.
        expected: u32,
        /// How many there are.
        found: u32,
    },
    /// A value has not the version that was expected.
    #[error("the state `{key}` of `{scope}` was changed by something else; read it and try again")]
    StateChanged {
        /// Whose it is.
        scope: String,
        /// Its key.
        key: String,
    },
    /// There is no such execution.
    #[error("there is no execution {0}; it may have been pruned")]
    NoSuchExecution(ExecutionId),
    /// An execution names a definition that is not kept.
    #[error("the definition {0} is not kept; put it first")]
    NoSuchDefinition(DefinitionHash),
    /// An execution has an id that another has.
    #[error("there is an execution {0} already")]
    Exists(ExecutionId),
    /// The write cannot be stored as it is.
    #[error("this cannot be stored: {reason}")]
    Invalid {
        /// Why.
        reason: String,
    },
    /// The write is larger than one may be.
    #[error("a write of {bytes} bytes is over the limit of {limit}; store less at once")]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The disk, or the size the store may have, is used up.
    #[error("the store is full; free disk space, raise its size limit or shorten the retention")]
    Full,
    /// Another program held the file's write lock for too long.
    #[error("another program keeps the store's file locked; end it and try again")]
    Busy,
    /// The database refused the write.
    #[error("cannot write to the store: {reason}")]
    Write {
        /// What it said.
        reason: String,
    },
    /// The commit failed: whether the write happened is known only after the store is opened anew.
    #[error("cannot tell whether the last writes are stored: {reason}; restart to find out")]
    Commit {
        /// What the system said.
        reason: String,
    },
    /// An earlier commit failed, or the file is damaged: this write did not happen, nor will any other until the store is opened anew.
    #[error("the store takes no more writes: {reason}; restart")]
    Poisoned {
        /// What the system said then.
        reason: String,
    },
    /// Something could not be read.
    #[error("cannot read the store: {reason}")]
    Read {
        /// What the system said.
        reason: String,
    },
    /// What was read cannot have been written by a store.
    #[error("the store is damaged: {what}; restore it from a backup")]
    Corrupt {
        /// What is wrong where.
        what: String,
    },
    /// The database file is damaged: nothing that is read from it, or written to it, can be relied on.
    #[error("the database file of the store is damaged: {what}; restore it from a backup")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// The file is missing or empty, and what lies beside it belongs to a store.
    #[error("`{}` {}, but {} beside it belong to a store, so no new one is made; restore the file from a backup, \
        or, to begin anew without what was stored, move them to another place",
        .path.display(), if *.is_missing { "is missing" } else { "is empty" }, .traces.join(", "))]
    Emptied {
        /// The file.
        path: PathBuf,
        /// Whether there is no file at all.
        is_missing: bool,
        /// What lies beside it.
        traces: Vec<String>,
    },
    /// A copy of the store could not be made.
    #[error("cannot write the backup `{}`: {reason}", .path.display())]
    Backup {
        /// The folder of the copy.
        path: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// The store was opened only to be read.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Whether what is stored can be told only by opening the store anew. Whoever gets such an error stops
    /// accepting and ends the process; a write refused for an earlier such error says so too.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Commit { .. } | Self::Poisoned { .. } | Self::Damaged { .. })
    }

    /// Whether the store, or a part of it, cannot be trusted: it has to be opened anew, or restored.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.outcome_unknown() || matches!(self, Self::Corrupt { .. } | Self::Emptied { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_lock_names_the_file_and_the_process() {
        let error = Error::Locked { path: "data/cogwork.db.lock".into(), pid: Some(41) };
        let text = error.to_string();
        assert!(text.starts_with("another daemon (process 41) holds `data/cogwork.db.lock`;"), "{text}");
    }

    #[test]
    fn only_failed_commits_and_damage_leave_the_outcome_unknown() {
        assert!(Error::Commit { reason: "disk I/O error".into() }.outcome_unknown());
        assert!(Error::Poisoned { reason: "disk I/O error".into() }.outcome_unknown());
        assert!(Error::Damaged { what: "page 7".into() }.outcome_unknown());
        assert!(!Error::Corrupt { what: "one execution".into() }.outcome_unknown());
        assert!(!Error::Full.outcome_unknown());
        assert!(!Error::StateChanged { scope: "orders".into(), key: "cursor".into() }.outcome_unknown());
        assert!(!Error::Closed.outcome_unknown());
    }
}
