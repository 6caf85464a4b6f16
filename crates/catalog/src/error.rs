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
    /// The automation has no trigger of this id.
    #[error("`{automation}` has no trigger `{trigger}`; it has {triggers}{}", did_you_mean(.nearest.as_deref()))]
    NoSuchTrigger {
        /// The automation.
        automation: String,
        /// The id that was asked for.
        trigger: String,
        /// The names of its triggers, for people.
        triggers: String,
        /// The nearest id.
        nearest: Option<String>,
    },
    /// One of several triggers has to be chosen.
    #[error("`{automation}` has several triggers; choose one of {triggers}")]
    AmbiguousTrigger {
        /// The automation.
        automation: String,
        /// Their names, for people.
        triggers: String,
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
