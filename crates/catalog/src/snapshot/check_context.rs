//! Gives the checker access to a snapshot: connections, callable automations and spellings of names.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use language::load::{Loaded, Unreadable, apply_allow_comments};
use model::ResultType;
use model::automation::{Automation, AutomationId, Code, DeclaredTrigger, Defaults, Trigger};
use model::project::Project;
use text::diagnostic::{Diagnostic, Report};

use super::Catalog;
use super::file::{Content, File, FileKind};
use super::relations::{RelationKind, name_relation};
use crate::check::{
    self, Callee, CheckContext, CheckedAutomation, ConnectionLookup, NameKind, Signature, Spelling, fold,
};

/// Result of checking an automation against a snapshot.
pub(super) struct CheckResult {
    pub(super) checked: CheckedAutomation,
    /// True if it names nonexistent automations; true if it names nonexistent connections.
    pub(super) missing: [(RelationKind, bool); 2],
}

impl Catalog {
    /// Checks an automation against the files of this snapshot, which are current although nothing has been put in
    /// force yet.
    pub(super) fn check_automation(
        &self,
        automation: &Automation,
        unreadable: &Unreadable,
        load_report: &Report,
        in_force: &dyn Fn(&str) -> bool,
    ) -> CheckResult {
        let (no_automation, no_connection) = (Cell::new(false), Cell::new(false));
        let connection = |name: &str| {
            let found = self.find_connection(name);
            no_connection.set(no_connection.get() || matches!(found, ConnectionLookup::Missing { .. }));
            found
        };
        let callee = |id: &str| {
            let callee = self.callee(id, in_force);
            no_automation.set(no_automation.get() || matches!(callee, Callee::Missing { .. }));
            callee
        };
        let own = automation.id.as_str();
        let context = CheckContext {
            source: &automation.source,
            registry: &self.registry,
            connection: &connection,
            automation: &callee,
            label: &|label| self.unknown_label(label),
            call_path: &|id| self.call_path_to(id, own),
            nearest_code: &|path| self.nearest_code(path),
            spellings: &|kind, folded| self.spellings(kind, folded),
            consumers: &|event| self.consumers(event),
            takers: &|place| self.takers(place),
            sender: &|event| self.sender(event),
            may_be_sent: &|event| self.may_be_sent(event),
            nearest_sent: &|event| self.nearest_sent(event),
            saved_body: &|trigger| self.saved_body(automation, trigger),
            described: &|connection| self.described_statements(connection),
        };
        let checked = check::automation(automation, unreadable, load_report, &context);
        let missing = [
            (RelationKind::MissingAutomation, no_automation.get()),
            (RelationKind::MissingConnection, no_connection.get()),
        ];
        CheckResult { checked, missing }
    }

    /// Checks a text as if it were the automation file at `path`.
    pub fn check_draft(&self, path: &str, file: File) -> Report {
        if let Content::Project(loaded) = &file.content {
            let draft = Self { project: loaded.value.clone(), ..self.clone() };
            return draft.check_project_file(loaded, draft.newly_taken_defaults().as_deref());
        }
        let Content::Automation { loaded, .. } = &file.content else { return file.report() };
        let loaded = loaded.clone();
        let Some((automation, unreadable)) = loaded.for_checking() else { return file.report() };
        let path: Arc<str> = path.into();
        let mut draft_catalog = self.clone();
        if let Some(old) = self.folder.get(&path) {
            draft_catalog.relations.remove_file(&path, old);
        }
        draft_catalog.relations.insert_file(&path, &file);
        draft_catalog.folder.put(path.clone(), file);
        let own: Arc<str> = automation.id.as_str().into();
        draft_catalog.relations.update_cycles(BTreeSet::from([own]), &draft_catalog.folder);
        let in_force = |id: &str| id == automation.id.as_str() || self.find(id).is_ok();
        let completed = draft_catalog.completed(automation);
        let automation = completed.as_ref().unwrap_or(automation);
        let report =
            draft_catalog.check_automation(automation, unreadable, &loaded.report, &in_force).checked.report;
        match self.get(&automation.id).map(|other| other.automation.source.path()) {
            Some(other) if other != &*path && self.folder.get(other).is_some() => {
                check::merge(&report, vec![duplicate_id(automation, other)])
            }
            _ => report,
        }
    }

    /// Checks `project.yaml`. `taken` are the defaults that the automations take; `None` if that is unknown.
    pub(super) fn check_project_file(
        &self,
        loaded: &Loaded<Arc<Project>>,
        taken: Option<&[Arc<Defaults>]>,
    ) -> Report {
        let connection = |name: &str| self.find_connection(name);
        match loaded.for_checking() {
            Some((project, _)) => check::defaults::project(project, &loaded.report, &connection, taken),
            None => apply_allow_comments(loaded.report.clone()),
        }
    }

    /// Returns the defaults that the automations in force take; `None` if there is no automation, or one whose file does not load.
    pub(super) fn taken_defaults(&self) -> Option<Vec<Arc<Defaults>>> {
        let automations = || self.automations().map(|deployment| &deployment.automation);
        let is_valid = self.automations().all(|deployment| deployment.stale.is_none());
        let is_known = is_valid && self.invalid_files.is_empty() && automations().next().is_some();
        is_known.then(|| automations().filter_map(|automation| automation.defaults.clone()).collect())
    }

    /// The same for a project file that is not in force.
    fn newly_taken_defaults(&self) -> Option<Vec<Arc<Defaults>>> {
        self.taken_defaults()?;
        let files = self.folder.files(FileKind::Automation).filter_map(|(_, file)| file.automation());
        let automations = files.filter_map(|loaded| loaded.value.as_ref());
        Some(automations.filter_map(|automation| self.completed(automation)?.defaults).collect())
    }

    /// Looks up a connection by name.
    pub(super) fn find_connection(&self, name: &str) -> ConnectionLookup {
        match self.connections.get(name) {
            Some(connection) => ConnectionLookup::Loaded(connection.clone()),
            None if self.invalid_connections.contains(name) => ConnectionLookup::Broken,
            None => {
                let names =
                    self.connections.keys().chain(self.invalid_connections.iter()).map(String::as_str);
                let nearest = text::diagnostic::nearest(name, names).map(str::to_owned);
                ConnectionLookup::Missing { nearest }
            }
        }
    }

    /// Returns a copy of the automation with its code files loaded; `None` if it names no code files.
    fn with_code(&self, automation: &Automation) -> Option<Automation> {
        let names_files = automation.code_modules().iter().any(|(_, code)| matches!(code, Code::File(_)));
        names_files.then(|| {
            automation.with_code_files(|path| self.folder.get(path).and_then(|file| file.code()).cloned())
        })
    }

    /// Returns a copy of the automation with its code files, the defaults that its steps take, and its own events told from the events of
    /// connectors; `None` if it is the same.
    #[must_use]
    pub fn completed(&self, automation: &Automation) -> Option<Automation> {
        let with_events = self.with_own_events(automation);
        let of = with_events.as_ref().unwrap_or(automation);
        let with_code = self.with_code(of).or_else(|| with_events.clone());
        let of = with_code.as_ref().unwrap_or(automation);
        let connection = |name: &str| self.connections.get(name).cloned();
        let defaults = check::defaults::resolve(of, self.project.as_deref(), &self.registry, &connection);
        if defaults.is_empty() { with_code } else { Some(of.with_defaults(&defaults)) }
    }

    /// Infers the type of a schemaless webhook body from the saved payloads of the trigger.
    fn saved_body(&self, automation: &Automation, trigger: &DeclaredTrigger) -> Option<ResultType> {
        let Trigger::Webhook(webhook) = &trigger.on else { return None };
        let dir = self.folder.dir().filter(|_| webhook.schema.is_none() && webhook.code.is_none())?;
        check::saved_body(dir, &Path::new("payloads").join(automation.trigger_key(&trigger.id).name()))
    }

    /// Returns how files spell a name, looked up by its folded form.
    fn spellings(&self, kind: NameKind, folded: &str) -> Vec<Spelling> {
        let of_file = |path: &Arc<str>| {
            let uses = self.folder.get(path).and_then(|file| file.dependencies())?;
            let of_kind = uses.names.iter().filter(|(other, name)| *other == kind && fold(name) == folded);
            Some(
                of_kind
                    .map(|(_, name)| Spelling { name: name.clone(), path: path.clone() })
                    .collect::<Vec<_>>(),
            )
        };
        self.relations.paths_with(name_relation(kind), folded).filter_map(of_file).flatten().collect()
    }

    /// Returns the most similar label, if there is one, for a label that no automation has; `None` if one has it.
    fn unknown_label(&self, label: &str) -> Option<Option<String>> {
        if self.relations.paths_with(RelationKind::HasLabel, label).next().is_some() {
            return None;
        }
        let labels = self.relations.names(RelationKind::HasLabel).map(AsRef::as_ref);
        Some(text::diagnostic::nearest(label, labels).map(str::to_owned))
    }

    /// Returns the nearest existing path of a code file.
    fn nearest_code(&self, path: &str) -> Option<String> {
        let paths = self.folder.files(FileKind::Code).map(|(path, _)| &**path);
        text::diagnostic::nearest(path, paths).map(str::to_owned)
    }

    fn callee(&self, id: &str, in_force: &dyn Fn(&str) -> bool) -> Callee {
        match self.signature(id) {
            Some((path, signature)) => Callee::Defined { path, signature, in_force: in_force(id) },
            None => {
                let ids = self.relations.ids().map(AsRef::as_ref);
                Callee::Missing { nearest: text::diagnostic::nearest(id, ids).map(str::to_owned) }
            }
        }
    }

    /// Returns the signature of an automation and the path of its file. Uses the version in force if the file is
    /// unreadable; `None` if no file defines the id.
    pub(super) fn signature(&self, id: &str) -> Option<(String, Signature)> {
        let files = || {
            self.relations
                .paths_with(RelationKind::Defines, id)
                .filter_map(|path| self.folder.get(path)?.automation())
        };
        let first = files().next()?;
        let readable = files().find_map(|loaded| loaded.for_checking());
        let in_force = || AutomationId::parse(id).and_then(|id| self.get(&id));
        let signature = match (readable, in_force()) {
            (Some((automation, unreadable)), _) => Signature::from_automation(automation, unreadable),
            (None, Some(deployment)) => Signature::from_automation(&deployment.automation, Unreadable::NONE),
            (None, None) => Signature::default(),
        };
        Some((first.report.source().path().to_owned(), signature))
    }

    /// Returns the call path from automation `id` to `own` if both are in one cycle. The path is empty if it is too
    /// long to find.
    fn call_path_to(&self, id: &str, own: &str) -> Option<Vec<Arc<str>>> {
        let cycle = self.relations.cycle(own);
        let within = |id: &str| cycle.binary_search_by(|member| (**member).cmp(id)).is_ok();
        within(id).then(|| self.relations.call_path(id, own, &self.folder, within).unwrap_or_default())
    }

    /// Returns true if there is a connection file called `name`.
    pub(super) fn has_connection(&self, name: &str) -> bool {
        self.connections.contains_key(name) || self.invalid_connections.contains(name)
    }

    /// Returns the id of the automation in force that comes from the file at `path`.
    pub(super) fn automation_from(&self, path: &str) -> Option<AutomationId> {
        let claimed = || self.folder.get(path)?.claimed_id();
        let id = self.stale.get(path).cloned().or_else(claimed)?;
        self.get(&id).filter(|deployment| deployment.automation.source.path() == path)?;
        Some(id)
    }
}

/// Reports that another file already defines the id.
pub(super) fn duplicate_id(automation: &Automation, other: &str) -> Diagnostic {
    let message = format!("the id `{}` is taken by `{other}`", automation.id);
    Diagnostic::error("duplicate-automation", message, automation.id_span)
        .help("give one of the two files another `id`")
}
