//! Immutable snapshot of the project: the automations, connections and connectors in force.
//!
//! A reload scans the project folder, loads and checks changed files, computes the differences and swaps the
//! snapshot.

mod assemble;
mod awaited;
mod check_context;
mod diff;
mod engine_trigger;
mod event_uses;
mod file;
mod folder;
mod lock;
mod mount;
mod normalized;
mod own_events;
mod poll_source;
mod refused_level;
mod relations;
mod statements;
mod trigger_hook;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use connector::Registry;
use model::automation::{Automation, NameSetting, TriggerKey};
use model::project::Project;
use model::{AutomationId, Connection};
use rpds::{HashTrieMapSync, RedBlackTreeMapSync, RedBlackTreeSetSync};
use store::Address;
use text::diagnostic::{Report, Severity, Source};

use crate::check::MissingSecret;
use crate::plan::Plan;

pub use assemble::{AssembleInput, assemble};
pub use awaited::AwaitedEvents;
pub(crate) use diff::count_by_definition;
pub use diff::{Change, ChangeKind, Detail, DiffKind, FileChange, InFlightExecutions, RenamedTrigger};
pub use engine_trigger::{EngineFilter, EngineTrigger};
pub use event_uses::EventUses;
pub use file::{File, FileKind, stem};
pub(crate) use folder::MAX_FILES;
pub use folder::{Folder, MAX_FOLDERS, ScanScope};
pub use mount::{Mount, MountedTrigger};
pub use poll_source::PollSource;
pub use refused_level::RefusedLevel;
use relations::Relations;
pub use trigger_hook::trigger_hook;

/// Immutable snapshot of all active definitions. A reload replaces it with a new snapshot that shares all unchanged parts, so
/// a clone is cheap.
#[derive(Clone)]
pub struct Catalog {
    automations: RedBlackTreeMapSync<AutomationId, Arc<Deployment>>,
    connections: RedBlackTreeMapSync<String, Arc<Connection>>,
    /// Names of connection files that do not load and have no earlier valid version.
    invalid_connections: RedBlackTreeSetSync<String>,
    registry: Arc<Registry>,
    /// The last valid `project.yaml`.
    project: Option<Arc<Project>>,
    /// The level of the language that no file may need for now.
    refused_level: Option<Arc<RefusedLevel>>,
    /// Invalid files, by path.
    invalid_files: RedBlackTreeMapSync<Arc<str>, InvalidFile>,
    /// Non-empty reports, by path.
    reports: RedBlackTreeMapSync<Arc<str>, Arc<Report>>,
    tokens: HashTrieMapSync<Arc<str>, Route>,
    /// Files that no longer load but whose last valid version stays in force, with the id of that automation.
    stale: RedBlackTreeMapSync<Arc<str>, AutomationId>,
    /// Project files from which the snapshot was built.
    folder: Folder,
    relations: Relations,
    generation: u64,
    /// Events that automations wait for; computed on first use.
    awaited: OnceLock<Arc<AwaitedEvents>>,
}

/// Target of a webhook token.
#[derive(Clone)]
pub struct Route {
    /// The trigger.
    pub mount: Mount,
    /// True for the token of the test URL.
    pub is_test: bool,
}

/// Automation in force, with everything derived from its file.
#[derive(Clone)]
pub struct Deployment {
    /// Checked definition.
    pub automation: Arc<Automation>,
    /// Step graph.
    pub plan: Arc<Plan>,
    /// Addresses and schedules of its triggers, in their order.
    pub mounted: Vec<MountedTrigger>,
    /// `Some` if the file on disk no longer loads and this is its last valid version; holds the errors.
    pub stale: Option<Arc<Report>>,
    /// Warnings and hints about the file.
    pub warnings: Arc<Report>,
}

/// File that does not load and has no earlier valid version in force.
#[derive(Clone, Debug)]
pub struct InvalidFile {
    /// Path relative to the project folder.
    pub path: String,
    /// Errors of the file.
    pub report: Arc<Report>,
}

/// Changes made by a reload.
#[derive(Clone, Debug, Default)]
pub struct ReloadSummary {
    /// Generation of the snapshot now in force.
    pub generation: u64,
    /// Automations that came into force.
    pub added: Vec<AutomationId>,
    /// Automations whose definition changed.
    pub changed: Vec<AutomationId>,
    /// Automations no longer in force.
    pub removed: Vec<AutomationId>,
    /// Automations kept in their last valid version because their file does not load or no longer matches what it
    /// calls.
    pub stale: Vec<AutomationId>,
    /// Stale automations whose file is valid again with an unchanged definition.
    pub restored: Vec<AutomationId>,
    /// New or changed reports, one per file.
    pub reports: Vec<Report>,
    /// Paths of changed files.
    pub files: Vec<Arc<str>>,
    /// All rechecked automations, including unchanged ones.
    pub rechecked: Vec<AutomationId>,
}

impl ReloadSummary {
    /// Returns true if no automation changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let lists = [&self.added, &self.changed, &self.removed, &self.stale, &self.restored];
        lists.iter().all(|ids| ids.is_empty())
    }
}

impl Catalog {
    /// Returns a snapshot in which a trigger has this address in place of its previous one.
    #[must_use]
    pub(crate) fn with_address(&self, address: Arc<Address>) -> Self {
        let mut next = Self { generation: self.generation + 1, awaited: OnceLock::new(), ..self.clone() };
        next.change_mounted(&address.trigger.clone(), |mounted| mounted.address = Some(address));
        next
    }

    /// Returns a snapshot in which the records of the trigger `from` have moved to the key `to`, with this address if it has one.
    pub(crate) fn with_moved(
        &self,
        from: &TriggerKey,
        to: &TriggerKey,
        address: Option<Arc<Address>>,
    ) -> Self {
        let mut next = Self { generation: self.generation + 1, awaited: OnceLock::new(), ..self.clone() };
        let key = if self.trigger(from).is_some() { from } else { to };
        let declares = |id| self.get(&to.automation).is_some_and(|deployment| deployment.mount(id).is_some());
        // A trigger that gets its records back has them under its own id.
        let moved_to = (!declares(&to.trigger)).then(|| to.trigger.clone());
        next.change_mounted(key, |mounted| {
            mounted.moved_to = moved_to;
            mounted.address = address.or_else(|| mounted.address.take());
        });
        next
    }

    /// Changes what belongs to the trigger whose records have this key.
    fn change_mounted(&mut self, key: &TriggerKey, change: impl FnOnce(&mut MountedTrigger)) {
        let Some(before) = self.automations.get(&key.automation).cloned() else { return };
        let index = before.mounts().position(|mount| mount.key() == *key);
        let mut deployment = Deployment::clone(&before);
        let Some(mounted) = index.and_then(|index| deployment.mounted.get_mut(index)) else { return };
        change(mounted);
        self.remove_routes(&before);
        self.put(Arc::new(deployment));
    }

    /// Puts an automation in force, with the routes to its triggers.
    fn put(&mut self, deployment: Arc<Deployment>) {
        for mount in deployment.mounts() {
            let Some(address) = mount.address().cloned() else { continue };
            for (token, is_test) in [(&address.live, false), (&address.test, true)] {
                self.tokens.insert_mut(token.as_str().into(), Route { mount: mount.clone(), is_test });
            }
        }
        self.automations.insert_mut(deployment.automation.id.clone(), deployment);
    }

    /// Removes the routes to the triggers of an automation.
    fn remove_routes(&mut self, deployment: &Deployment) {
        for address in deployment.mounted.iter().filter_map(|mounted| mounted.address.as_ref()) {
            self.tokens.remove_mut(address.live.as_str());
            self.tokens.remove_mut(address.test.as_str());
        }
    }
}

impl Catalog {
    /// Returns the events that automations in force wait for.
    #[must_use]
    pub fn awaited_events(&self) -> &AwaitedEvents {
        self.awaited.get_or_init(|| Arc::new(AwaitedEvents::new(self)))
    }

    /// Creates a snapshot with nothing in force.
    #[must_use]
    pub fn empty(registry: Arc<Registry>) -> Self {
        Self {
            automations: RedBlackTreeMapSync::new_sync(),
            connections: RedBlackTreeMapSync::new_sync(),
            invalid_connections: RedBlackTreeSetSync::new_sync(),
            registry,
            project: None,
            refused_level: None,
            invalid_files: RedBlackTreeMapSync::new_sync(),
            reports: RedBlackTreeMapSync::new_sync(),
            tokens: HashTrieMapSync::new_sync(),
            stale: RedBlackTreeMapSync::new_sync(),
            folder: Folder::new(Path::new("")),
            relations: Relations::new(),
            generation: 0,
            awaited: OnceLock::new(),
        }
    }

    /// Iterates over the automations in force, by id.
    pub fn automations(&self) -> impl ExactSizeIterator<Item = &Arc<Deployment>> {
        self.automations.values()
    }

    /// Returns the automation with this id.
    #[must_use]
    pub fn get(&self, id: &AutomationId) -> Option<&Arc<Deployment>> {
        self.automations.get(id)
    }

    /// Returns the automation called `name`.
    ///
    /// # Errors
    /// Returns an error that suggests the nearest name if there is no such automation.
    pub fn find(&self, name: &str) -> Result<&Arc<Deployment>, crate::error::Error> {
        let found = AutomationId::parse(name).and_then(|id| self.automations.get(&id));
        found.ok_or_else(|| {
            let names = self.automations.keys().map(AutomationId::as_str);
            let nearest = text::diagnostic::nearest(name, names).map(str::to_owned);
            crate::error::Error::NoSuchAutomation { id: name.to_owned(), nearest }
        })
    }

    /// Iterates over the connections, by name.
    pub fn connections(&self) -> impl ExactSizeIterator<Item = &Arc<Connection>> {
        self.connections.values()
    }

    /// Returns the sorted ids of the automations with a step that uses this connection.
    #[must_use]
    pub fn users_of(&self, connection: &str) -> Vec<String> {
        let is_named = |setting: Option<&NameSetting>| {
            let mut candidates = setting.into_iter().flat_map(NameSetting::candidates);
            candidates.any(|candidate| candidate.name == connection)
        };
        let names = |step: &model::Step| match &step.verb {
            model::automation::Verb::Action(call) => is_named(call.connection.as_ref()),
            _ => false,
        };
        let mut users = Vec::new();
        for deployment in self.automations() {
            let calls = deployment.automation.triggers.iter().filter_map(|trigger| trigger.on.call());
            let mut uses = calls.into_iter().any(|call| is_named(call.connection.as_ref()));
            deployment.automation.walk(&mut |step| uses |= names(step));
            if uses {
                users.push(deployment.automation.id.to_string());
            }
        }
        users.sort_unstable();
        users
    }

    /// Returns the connection called `name`.
    #[must_use]
    pub fn connection(&self, name: &str) -> Option<&Arc<Connection>> {
        self.connections.get(name)
    }

    /// Iterates over the sources of all readable connection and connector files.
    pub fn shared_sources(&self) -> impl Iterator<Item = &Arc<Source>> {
        [FileKind::Connection, FileKind::StatementTypes, FileKind::Manifest]
            .into_iter()
            .flat_map(|kind| self.folder.files(kind))
            .filter(|(_, file)| file.is_read)
            .map(|(_, file)| &file.source)
    }

    /// Returns the connectors.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the files that do not load and have no earlier valid version, by path.
    #[must_use]
    pub fn invalid_files(&self) -> Vec<&InvalidFile> {
        self.invalid_files.values().collect()
    }

    /// Iterates over the non-empty reports, by path.
    pub fn reports(&self) -> impl ExactSizeIterator<Item = &Arc<Report>> {
        self.reports.values()
    }

    /// Reports secrets that files name but that are not set, one report per file. Separate from [`Catalog::reports`]
    /// because secrets change independently of files.
    #[must_use]
    pub fn missing_secrets(&self, is_set: &dyn Fn(&str) -> bool) -> Vec<Report> {
        crate::check::missing_secrets(self, is_set)
    }

    /// Returns the sorted names of the unset secrets that a connection reads.
    #[must_use]
    pub fn missing_secrets_of(&self, connection: &Connection, is_set: &dyn Fn(&str) -> bool) -> Vec<String> {
        crate::check::secrets_of(connection).into_iter().filter(|name| !is_set(name)).collect()
    }

    /// Returns the unset secrets that an automation and its connections require, its trigger's first.
    #[must_use]
    pub fn missing_secrets_of_automation(
        &self,
        automation: &Automation,
        is_set: &dyn Fn(&str) -> bool,
    ) -> Vec<MissingSecret> {
        crate::check::missing_secrets_of(self, automation, is_set)
    }

    /// Returns the sorted names of the secrets that files of the project require.
    #[must_use]
    pub fn required_secrets(&self) -> BTreeSet<String> {
        crate::check::required_secrets(self)
    }

    /// Returns the fields that files of the project read of secrets, by the name of the secret.
    #[must_use]
    pub fn secret_fields(&self) -> BTreeMap<String, BTreeSet<String>> {
        crate::check::secret_fields(self)
    }

    /// Formats the first error in the current file at this path as `path:line: message`.
    pub fn error_of(&self, path: &str) -> Option<String> {
        let report = self.reports.get(path).filter(|report| report.has_errors())?;
        let error = report.entries().into_iter().find(|entry| entry.severity == Severity::Error)?;
        Some(format!("{}:{}: {}", error.file, error.line, error.message))
    }

    /// Returns the snapshot's number; the first one is 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the project files from which the snapshot was built.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The target of a webhook token.
    #[must_use]
    pub fn route(&self, token: &str) -> Option<&Route> {
        self.tokens.get(token)
    }
}

/// The state of an automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AutomationState)]
pub enum DeploymentState {
    /// In force.
    Active,
    /// Switched off by its file.
    Disabled,
    /// Its file does not load, and its last good version is in force.
    Stale,
}

impl DeploymentState {
    /// Returns the name used in JSON and tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Stale => "stale",
        }
    }
}

impl Deployment {
    /// Creates a deployment of a superseded definition, for executions that still run on it.
    pub fn old(automation: Arc<Automation>, warnings: Report) -> Self {
        let (plan, _) = Plan::build(&automation);
        let (plan, warnings) = (Arc::new(plan), Arc::new(warnings));
        Self { automation, plan, mounted: Vec::new(), stale: None, warnings }
    }

    /// Returns the state of the automation.
    #[must_use]
    pub fn state(&self) -> DeploymentState {
        match (&self.stale, self.automation.enabled) {
            (Some(_), _) => DeploymentState::Stale,
            (None, true) => DeploymentState::Active,
            (None, false) => DeploymentState::Disabled,
        }
    }
}
