//! Reads stored executions, on the definitions that they ran on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::Deployment;
use model::automation::{AutomationId, DefinitionHash};

use crate::context::Context;
use crate::definition::{self, StoredDefinitions, Version};
use crate::error::Error;

/// The maximum number of cached definitions that are no longer in force.
const OLD_DEFINITIONS: usize = 1024;

/// The definitions of executions, in force or not, and what readers derive from them.
pub struct Records {
    /// The services that all components use.
    pub context: Arc<Context>,
    /// The definitions in the store.
    pub(crate) stored: Arc<StoredDefinitions>,
    /// Compiled definitions that are no longer in force and on which executions still run.
    old: Mutex<HashMap<DefinitionHash, Arc<Deployment>>>,
}

impl Records {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, stored: Arc::default(), old: Mutex::default() }
    }

    /// Forgets which definitions are stored, since some may have been pruned.
    pub fn forget_stored_definitions(&self) {
        self.stored.forget();
    }

    /// The definition with this hash: in force, cached, or from the store.
    pub(crate) async fn deployment(
        &self,
        id: &AutomationId,
        hash: DefinitionHash,
    ) -> Result<Arc<Deployment>, Error> {
        let catalog = self.context.catalog.load_full();
        if let Some(found) = catalog.get(id).filter(|found| found.automation.definition == hash) {
            return Ok(found.clone());
        }
        if let Some(found) = self.old().get(&hash) {
            return Ok(found.clone());
        }
        let kept = self.context.store.definition(hash).await?;
        let kept = kept.ok_or_else(|| Error::Input(format!("its definition {hash} is not in the store")))?;
        let loaded = definition::unpack(kept);
        let automation = loaded.value.ok_or_else(|| {
            Error::Input(format!(
                "its definition does not load with this version of Cogwork:\n{}",
                loaded.report.render(false)
            ))
        })?;
        let deployment = Arc::new(Deployment::old(Arc::new(automation), loaded.report));
        let mut old = self.old();
        // Any one makes room: of a few more definitions than fit, only the few are loaded again.
        if old.len() >= OLD_DEFINITIONS
            && let Some(any) = old.keys().next().copied()
        {
            old.remove(&any);
        }
        old.insert(hash, deployment.clone());
        Ok(deployment)
    }

    /// Returns the version with this hash: the one in force, or from the store; `None` if it is unknown.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn version(&self, hash: DefinitionHash) -> Result<Option<Version>, Error> {
        let catalog = self.context.catalog.load_full();
        let found = catalog.automations().find(|deployment| deployment.automation.definition == hash);
        if let Some(deployment) = found {
            let automation = &deployment.automation;
            return Ok(Some(Version {
                automation: automation.id.clone(),
                source: automation.source.clone(),
                code_files: automation.code_files.clone(),
                checked: Some(automation.clone()),
                is_in_force: true,
            }));
        }
        let Some(kept) = self.context.store.definition(hash).await? else { return Ok(None) };
        let automation = kept.automation.clone();
        let (source, parts) = definition::parts(kept);
        let checked = definition::load(source.clone(), &parts, &automation).value.map(Arc::new);
        Ok(Some(Version { automation, source, code_files: parts.code, checked, is_in_force: false }))
    }

    fn old(&self) -> MutexGuard<'_, HashMap<DefinitionHash, Arc<Deployment>>> {
        self.old.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
