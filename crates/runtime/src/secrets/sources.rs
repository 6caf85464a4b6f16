//! The settings of the sources of secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use connector::secret_provider::ProviderSettings;

/// The sources of secrets, and how long values of providers are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSources {
    /// The sources in the order in which they are read.
    pub order: Vec<SourceRule>,
    /// The time for which a value of a provider is used before it is read again.
    pub keep: Duration,
    /// The time for which a value is used while its provider fails.
    pub keep_on_error: Duration,
    /// The time limit of one read from a provider, its login included.
    pub timeout: Duration,
    /// The providers by kind and name, such as `vault:corp`.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The program of the source `command` with its arguments; `None` without one.
    pub command: Option<Vec<String>>,
}

/// A source, and the names for which it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRule {
    /// The source.
    pub source: SourceKind,
    /// Names, with `*` at the end for a prefix; `None` for all names.
    pub only: Option<Vec<String>>,
}

/// A source of secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// The store.
    Store,
    /// The folder of files.
    Files,
    /// The variables of the environment.
    Environment,
    /// A provider, or [`SecretSources::COMMAND`].
    Provider(String),
}

impl SecretSources {
    /// The name of the source that runs a program.
    pub const COMMAND: &str = "command";
    /// The time limit of a program.
    pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

    /// Returns true if a provider may have the secret, so that only asking it shows if the secret is set.
    #[must_use]
    pub fn may_be_provided(&self, name: &str) -> bool {
        let is_provider = |rule: &&SourceRule| matches!(rule.source, SourceKind::Provider(_));
        self.order.iter().filter(is_provider).any(|rule| rule.applies_to(name))
    }

    /// Returns true if one of the sources is a provider.
    #[must_use]
    pub fn has_providers(&self) -> bool {
        self.order.iter().any(|rule| matches!(rule.source, SourceKind::Provider(_)))
    }
}

impl Default for SecretSources {
    /// The store, files and the environment; no provider.
    fn default() -> Self {
        let all = |source| SourceRule { source, only: None };
        Self {
            order: vec![all(SourceKind::Store), all(SourceKind::Files), all(SourceKind::Environment)],
            keep: Duration::from_secs(5 * 60),
            keep_on_error: Duration::from_secs(3600),
            timeout: Duration::from_secs(10),
            providers: BTreeMap::new(),
            command: None,
        }
    }
}

impl SourceRule {
    /// Returns true if the source is read for this name.
    #[must_use]
    pub fn applies_to(&self, name: &str) -> bool {
        let is_named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => pattern == name,
        };
        self.only.as_ref().is_none_or(|only| only.iter().any(is_named))
    }
}
