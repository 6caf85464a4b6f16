//! The stored form of definitions: the text of the automation's file, with the code files that it names.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use language::load::Loaded;
use model::automation::{Automation, AutomationId, DefinitionHash};
use serde::{Deserialize, Serialize};
use store::{Accept, AcceptOutcome, Definition, DefinitionStore, Store};
use text::diagnostic::Source;

/// The first character of a packed definition, with which no YAML file begins.
const MARK: char = '\0';

/// An automation's file with its code files.
#[derive(Serialize, Deserialize)]
struct Packed {
    text: String,
    code: Vec<CodeFile>,
}

#[derive(Serialize, Deserialize)]
struct CodeFile {
    path: String,
    text: String,
}

/// Packs an automation for the store.
pub(crate) fn pack(automation: &Automation) -> Definition {
    let own = automation.source.text();
    let text = if automation.code_files.is_empty() {
        own.to_owned()
    } else {
        let file = |source: &Arc<Source>| CodeFile {
            path: source.path().to_owned(),
            text: source.text().to_owned(),
        };
        let packed = Packed { text: own.to_owned(), code: automation.code_files.iter().map(file).collect() };
        format!("{MARK}{}", serde_json::to_string(&packed).unwrap_or_default())
    };
    Definition {
        hash: automation.definition,
        automation: automation.id.clone(),
        path: automation.source.path().to_owned(),
        text,
    }
}

/// Loads the automation of a stored definition.
pub(crate) fn unpack(kept: Definition) -> Loaded<Automation> {
    let id = kept.automation.clone();
    let (source, files) = sources(kept);
    load(source, &files, &id)
}

/// Returns the texts of a stored definition: the automation's file, and the code files that it names.
pub(crate) fn sources(kept: Definition) -> (Arc<Source>, Vec<Arc<Source>>) {
    let packed = kept.text.strip_prefix(MARK).and_then(|packed| serde_json::from_str(packed).ok());
    let Packed { text, code } = packed.unwrap_or(Packed { text: kept.text, code: Vec::new() });
    let files = code.into_iter().map(|file| Arc::new(Source::new(file.path, file.text)));
    (Arc::new(Source::new(kept.path, text)), files.collect())
}

pub(crate) fn load(source: Arc<Source>, files: &[Arc<Source>], id: &AutomationId) -> Loaded<Automation> {
    let loaded = language::load::automation(source, id.as_str());
    if files.is_empty() {
        return loaded;
    }
    loaded.map(|automation| {
        automation.with_code_files(|path| files.iter().find(|file| file.path() == path).cloned())
    })
}

/// A version of an automation: the active one, or an earlier one that executions use or used.
#[derive(Clone, Debug)]
pub struct Version {
    /// The id of the automation.
    pub automation: AutomationId,
    /// The text of the automation's file, with its path.
    pub source: Arc<Source>,
    /// The code files that it names.
    pub code_files: Vec<Arc<Source>>,
    /// The checked definition; `None` if this version of Cogwork cannot load it.
    pub checked: Option<Arc<Automation>>,
    /// True if it is the version in force.
    pub is_in_force: bool,
}

/// The definitions that the store is known to have, so that each is written once before its first execution.
#[derive(Debug, Default)]
pub(crate) struct StoredDefinitions(Mutex<HashSet<DefinitionHash>>);

impl StoredDefinitions {
    /// Writes executions of an automation. The definition goes first, unless the store is known to have it.
    pub(crate) async fn accept(
        &self,
        store: &dyn Store,
        automation: &Automation,
        accept: &Accept,
    ) -> Result<Vec<AcceptOutcome>, store::Error> {
        self.put(store, automation).await?;
        let accepted = store.accept(accept).await;
        if !matches!(accepted, Err(store::Error::NoSuchDefinition(_))) {
            return accepted;
        }
        // It has been pruned since it was written.
        self.forget();
        self.put(store, automation).await?;
        store.accept(accept).await
    }

    async fn put(&self, store: &dyn DefinitionStore, automation: &Automation) -> Result<(), store::Error> {
        let hash = automation.definition;
        if self.known().contains(&hash) {
            return Ok(());
        }
        store.put_definition(pack(automation)).await?;
        self.known().insert(hash);
        Ok(())
    }

    /// Forgets which definitions are stored, since some may have been pruned.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, HashSet<DefinitionHash>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads the automation of a stored definition; `None` if this version of Cogwork cannot load it.
#[must_use]
pub fn read_definition(kept: Definition) -> Option<Automation> {
    unpack(kept).value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_definition_contains_its_code_files() {
        let text = "trigger: {manual: {}}\nsteps:\n  - code: {file: ./a.js}\n";
        let loaded = language::load::automation(Arc::new(Source::new("automations/x.yaml", text)), "x");
        let plain = loaded.value.expect("it loads");
        let code = Arc::new(Source::new("automations/a.js", "export default () => 1;"));
        let whole = plain.with_code_files(|path| (path == code.path()).then(|| code.clone()));
        assert_ne!(whole.definition, plain.definition);
        let again = unpack(pack(&whole)).value.expect("it loads");
        assert_eq!(again.definition, whole.definition);
        assert_eq!(again.code_file("automations/a.js").map(|file| file.text()), Some(code.text()));
        assert_eq!(unpack(pack(&plain)).value.map(|plain| plain.definition), Some(plain.definition));
    }
}
