//! Lists secrets with their sources, never with their values.

use std::collections::BTreeSet;

use catalog::secret_variable;

use super::Secrets;
use super::local::secret_files;
use super::sources::{SourceKind, SourceRule};
use crate::vault::{ListedSecret, SecretSource};

impl Secrets {
    /// Lists the secrets of the store, then of the folder, then the `required` ones that the environment or a provider has, each with the
    /// source that it is read from. Providers are not asked.
    #[must_use]
    pub fn list(&self, required: &BTreeSet<String>) -> Vec<ListedSecret> {
        let stored: Vec<ListedSecret> = self.local.vault.iter().flat_map(|vault| vault.secrets()).collect();
        let files = secret_files(&self.local.folder);
        let candidates = stored.iter().map(|known| &known.name).chain(&files).chain(required);
        let mut seen = BTreeSet::new();
        let names = candidates.filter(|name| seen.insert(name.as_str()));
        let found = |name: &String| {
            let sources = self.sources_of(name);
            sources.into_iter().find_map(|rule| self.entry(rule, name, &stored, &files))
        };
        names.filter_map(found).collect()
    }

    /// Returns the entry of a secret in one of its sources; `None` if that has none of this name.
    fn entry(
        &self,
        rule: &SourceRule,
        name: &String,
        stored: &[ListedSecret],
        files: &[String],
    ) -> Option<ListedSecret> {
        let outside = |source| Some(ListedSecret::outside(name.clone(), source));
        match &rule.source {
            SourceKind::Store => stored.iter().find(|known| known.name == *name).cloned(),
            SourceKind::Files => files.contains(name).then(|| outside(SecretSource::Folder))?,
            SourceKind::Environment => {
                std::env::var_os(secret_variable(name)).and_then(|_| outside(SecretSource::Environment))
            }
            SourceKind::Provider(provider) => {
                let report = self.providers.report(provider, name)?;
                if report.found.is_none() && report.error.is_none() {
                    return None;
                }
                let version = report.found.as_ref().and_then(|found| found.version.as_ref()?.parse().ok());
                Some(ListedSecret {
                    version,
                    read_at: report.read_at,
                    readable: report.found.is_some(),
                    error: report.error,
                    ..ListedSecret::outside(name.clone(), SecretSource::Provider(provider.clone()))
                })
            }
        }
    }
}
