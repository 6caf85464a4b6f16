//! The stored form of definitions: the text of the automation's file, with the code files that it names and the defaults that its steps take.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use language::load::Loaded;
use model::automation::{Automation, AutomationId, Defaults, DefinitionHash};
use serde::{Deserialize, Serialize};
use store::{Accept, AcceptOutcome, Definition, DefinitionStore, Store};
use text::diagnostic::Source;

/// The first character of a packed definition, with which no YAML file begins.
const MARK: char = '\0';

/// An automation's file with its code files and defaults.
#[derive(Serialize, Deserialize)]
struct Packed {
    text: String,
    code: Vec<CodeFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    defaults: Option<Arc<Defaults>>,
}

/// The parts of a stored definition beside the automation's file.
#[derive(Default)]
pub(crate) struct Parts {
    /// The code files that it names.
    pub(crate) code: Vec<Arc<Source>>,
    /// The defaults that its steps take.
    pub(crate) defaults: Option<Arc<Defaults>>,
}

#[derive(Serialize, Deserialize)]
struct CodeFile {
    path: String,
    text: String,
}

/// Packs an automation for the store.
pub(crate) fn pack(automation: &Automation) -> Definition {
    let own = automation.source.text();
    let text = if automation.code_files.is_empty() && automation.defaults.is_none() {
        own.to_owned()
    } else {
        let file = |source: &Arc<Source>| CodeFile {
            path: source.path().to_owned(),
            text: source.text().to_owned(),
        };
        let code = automation.code_files.iter().map(file).collect();
        let packed = Packed { text: own.to_owned(), code, defaults: automation.defaults.clone() };
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
    let (source, parts) = parts(kept);
    load(source, &parts, &id)
}

/// Returns the automation's file of a stored definition, and what belongs to it.
pub(crate) fn parts(kept: Definition) -> (Arc<Source>, Parts) {
    let packed = kept.text.strip_prefix(MARK).and_then(|packed| serde_json::from_str(packed).ok());
    let packed = packed.unwrap_or(Packed { text: kept.text, code: Vec::new(), defaults: None });
    let Packed { text, code, defaults } = packed;
    let files = code.into_iter().map(|file| Arc::new(Source::new(file.path, file.text)));
    (Arc::new(Source::new(kept.path, text)), Parts { code: files.collect(), defaults })
}

pub(crate) fn load(source: Arc<Source>, parts: &Parts, id: &AutomationId) -> Loaded<Automation> {
    let mut loaded = language::load::automation(source, id.as_str());
    if !parts.code.is_empty() {
        let find = |path: &str| parts.code.iter().find(|file| file.path() == path).cloned();
        loaded = loaded.map(|automation| automation.with_code_files(find));
    }
    match &parts.defaults {
        Some(defaults) => loaded.map(|automation| automation.with_defaults(defaults)),
        None => loaded,
    }
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
