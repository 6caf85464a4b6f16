//! The errors of the catalog.

/// An error of the catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] store::Error),
    /// No automation of this id is in force.
    #[error("there is no automation `{id}`{}", did_you_mean(.nearest.as_deref()))]
    NoSuchAutomation {
        /// The id that was asked for.
        id: String,
        /// The nearest id in force.
        nearest: Option<String>,
    },
    /// The files that were given do not make a project.
    #[error("{0}")]
    Input(String),
    /// The connectors that come with Cogwork do not load.
    #[error("the connectors cannot be set up: {0}")]
    Connectors(String),
    /// The files could not be checked because of a fault of Cogwork itself.
    #[error("the files could not be checked: {0}")]
    Checking(String),
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
