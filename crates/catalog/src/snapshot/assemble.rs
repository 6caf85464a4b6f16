//! Builds the next snapshot: checks changed files and the files they affect, and shares everything else with the
//! previous snapshot unexamined.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use connector::Registry;
use language::load::{self, Loaded};
use model::automation::{Automation, AutomationId, Trigger, TriggerKey};
use model::project::PROJECT_FILE;
use store::Address;
use text::diagnostic::{Report, Source};
use trigger::schedule::Schedule;

use super::check_context::{CheckResult, duplicate_id};
use super::file::{Content, File, FileKind, stem};
use super::folder::Folder;
use super::relations::{RelationKind, name_relation};
use super::{Catalog, Deployment, InvalidFile, MountedTrigger, RefusedLevel, ReloadSummary};
use crate::{check, parallel};

/// Maximum number of check rounds. Each call between a file that fails and a file it affects needs one more round;
/// calls nest no deeper than this.
const MAX_ROUNDS: usize = 100;

/// Inputs for building a snapshot.
pub struct AssembleInput<'a> {
    /// Snapshot in force.
    pub previous: &'a Catalog,
    /// Current files.
    pub folder: Folder,
    /// Paths that changed since `previous`, including deleted files.
    pub changed: BTreeSet<Arc<str>>,
    /// The level of the language that no file may need for now.
    pub refused_level: Option<Arc<RefusedLevel>>,
    /// Connectors that come with Cogwork.
    pub builtin: &'a Arc<Registry>,
    /// Returns the address of a trigger. Creates a missing address if the flag is true: a request starts the
    /// trigger.
    pub address: &'a mut dyn FnMut(&TriggerKey, bool) -> Option<Arc<Address>>,
}

type Paths = BTreeSet<Arc<str>>;

/// Builds the next snapshot and summarizes its changes.
pub fn assemble(parts: AssembleInput<'_>) -> (Catalog, ReloadSummary) {
    let AssembleInput { previous, folder, changed, refused_level, builtin, address } = parts;
    let mut next = Catalog {
        folder,
        refused_level,
        generation: previous.generation + 1,
        awaited: OnceLock::new(),
        ..previous.clone()
    };
    let mut assembler =
        Assembler { previous, next: &mut next, address, checked: Paths::new(), in_force: BTreeMap::new() };
    let of_kind = |kind| -> Paths {
        changed
            .iter()
            .filter(|path| FileKind::from_path(Path::new(&***path)) == Some(kind))
            .cloned()
            .collect()
    };
    let mut manifests = of_kind(FileKind::Manifest);
    manifests.extend(of_kind(FileKind::ConnectorLock));
    let everything = assembler.manifests(&manifests, builtin);
    let connections = of_kind(FileKind::Connection);
    let mut stale = assembler.connections(&connections, everything);
    stale.extend(assembler.statement_types(&of_kind(FileKind::StatementTypes)));
    stale.extend(assembler.project(&of_kind(FileKind::Project), &connections, everything));
    stale.extend(assembler.update_relations(&of_kind(FileKind::Automation)));
    stale.extend(assembler.users_of_code(&of_kind(FileKind::Code)));
    assembler.unreadable(&changed);
    if everything {
        stale.extend(assembler.next.folder.files(FileKind::Automation).map(|(path, _)| path.clone()));
    }
    // One round suffices unless a called file fails; then its callers are checked again.
    for _ in 0..MAX_ROUNDS {
        if stale.is_empty() {
            break;
        }
        stale = assembler.check_round(stale);
    }
    assembler.unused_defaults();
    let checked = assembler.checked;
    let reload = summarize(previous, &next, &checked, &changed);
    (next, reload)
}

struct Assembler<'a> {
    previous: &'a Catalog,
    next: &'a mut Catalog,
    address: &'a mut dyn FnMut(&TriggerKey, bool) -> Option<Arc<Address>>,
    /// Automation files checked so far, including deleted ones.
    checked: Paths,
    /// Results of earlier rounds: true if the automation is in force.
    in_force: BTreeMap<AutomationId, bool>,
}

impl Assembler<'_> {
    /// Loads the manifests if one of them or their lock changed, or on the first load. Returns true if it did, since all files must
    /// be checked again then.
    fn manifests(&mut self, changed: &Paths, builtin: &Arc<Registry>) -> bool {
        if changed.is_empty() && self.previous.generation > 0 {
            return false;
        }
        let listed: Vec<Arc<str>> =
            self.next.folder.files(FileKind::Manifest).map(|(path, _)| path.clone()).collect();
        // A change of the lock changes the reports of the manifests, too.
        for path in changed.iter().chain(&listed) {
            self.next.reports.remove_mut(path);
        }
        let mut sources: Vec<Arc<Source>> = Vec::new();
        let mut paths: Vec<String> = Vec::new();
        let mut unreadable: Vec<Arc<Report>> = Vec::new();
        for (path, file) in self.next.folder.files(FileKind::Manifest) {
            paths.push(path.to_string());
            match &file.content {
                Content::Manifest(Some(report)) => unreadable.push(report.clone()),
                _ => sources.push(file.source.clone()),
            }
        }
        let (mut registry, reports) = Registry::clone(builtin).with_manifests(sources);
        // A connector whose file no longer loads keeps its last valid version.
        for path in paths {
            registry.retain_previous(&self.previous.registry, &path);
        }
        self.next.registry = Arc::new(registry);
        let reports = self.next.with_lock_warnings(reports);
        for report in
            reports.into_iter().map(|report| Arc::new(load::apply_allow_comments(report))).chain(unreadable)
        {
            let path = report.source().path().into();
            self.add_report(&path, report);
        }
        true
    }

    /// Updates the changed connections, or all of them. Returns the files that use them.
    fn connections(&mut self, changed: &Paths, everything: bool) -> Paths {
        let mut paths = changed.clone();
        if everything {
            paths.extend(self.next.folder.files(FileKind::Connection).map(|(path, _)| path.clone()));
        }
        let mut affected = Paths::new();
        for path in &paths {
            let name = stem(path);
            let was_there = self.next.has_connection(name);
            self.connection(path, name);
            affected.extend(self.next.relations.paths_with(RelationKind::UsesConnection, name).cloned());
            // Suggestions in files that name missing connections may change.
            if was_there != self.next.has_connection(name) {
                affected.extend(self.next.relations.paths_missing(RelationKind::MissingConnection).cloned());
            }
        }
        affected
    }

    fn connection(&mut self, path: &Arc<str>, name: &str) {
        let next = &mut *self.next;
        next.reports.remove_mut(path);
        next.connections.remove_mut(name);
        next.invalid_connections.remove_mut(name);
        let Some(Content::Connection(loaded)) = next.folder.get(path).map(|file| &file.content) else {
            return;
        };
        let report = match loaded.for_checking() {
            Some((connection, unreadable)) => {
                check::connection(connection, unreadable, &loaded.report, &next.registry)
            }
            None => load::apply_allow_comments(loaded.report.clone()),
        };
        let value = loaded.value.clone().filter(|_| !report.has_errors());
        // A connection that no longer loads keeps its last valid version.
        match value.or_else(|| self.previous.connections.get(name).cloned()) {
            Some(connection) => next.connections.insert_mut(name.to_owned(), connection),
            None => next.invalid_connections.insert_mut(name.to_owned()),
        }
        self.add_report(path, Arc::new(report));
    }

    /// Updates the reports of changed descriptions of statements. Returns the files that use their connections.
    fn statement_types(&mut self, changed: &Paths) -> Paths {
        let mut affected = Paths::new();
        for path in changed {
            self.next.reports.remove_mut(path);
            if let Some(file) = self.next.folder.get(path) {
                let report = Arc::new(file.report());
                self.add_report(path, report);
            }
            let name = stem(path).trim_end_matches(".types");
            affected.extend(self.next.relations.paths_with(RelationKind::UsesConnection, name).cloned());
        }
        affected
    }

    /// Updates `project.yaml` if it changed, or the connections that it may name. Returns the files that may take its defaults.
    fn project(&mut self, changed: &Paths, connections: &Paths, everything: bool) -> Paths {
        let path: Arc<str> = PROJECT_FILE.into();
        let next = &mut *self.next;
        let Some(Content::Project(loaded)) = next.folder.get(&path).map(|file| file.content.clone()) else {
            next.project = None;
            next.reports.remove_mut(&path);
            return if changed.is_empty() { Paths::new() } else { self.takers_of_defaults() };
        };
        let names_one = loaded.for_checking().is_some_and(|(project, _)| {
            let names = project.defaults.connections.iter().flat_map(|(names, _)| names);
            names.into_iter().any(|name| connections.iter().any(|path| stem(path) == name.name))
        });
        if changed.is_empty() && !names_one && !everything {
            return Paths::new();
        }
        next.reports.remove_mut(&path);
        let report = next.check_project_file(&loaded, None);
        // A file that no longer loads keeps its last valid version.
        if let Some(project) = loaded.value.clone().filter(|_| !report.has_errors()) {
            next.project = Some(project);
        }
        self.add_report(&path, Arc::new(report));
        self.takers_of_defaults()
    }

    /// Adds the hints at defaults of `project.yaml` that no step takes to its report.
    fn unused_defaults(&mut self) {
        let path: Arc<str> = PROJECT_FILE.into();
        let Some(Content::Project(loaded)) = self.next.folder.get(&path).map(|file| file.content.clone())
        else {
            return;
        };
        let taken = self.next.taken_defaults();
        let report = self.next.check_project_file(&loaded, taken.as_deref());
        self.next.reports.remove_mut(&path);
        self.add_report(&path, Arc::new(report));
    }

    /// Returns the files with steps that may take a default.
    fn takers_of_defaults(&self) -> Paths {
        self.next.relations.paths_with(RelationKind::TakesDefaults, "").cloned().collect()
    }

    /// Updates the relations of changed files. Returns the files to check: the changed ones and those they affect.
    fn update_relations(&mut self, changed: &Paths) -> Paths {
        let (before, now) = (&self.previous.folder, &self.next.folder);
        let relations = &mut self.next.relations;
        let mut ids: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut spelled_names: BTreeSet<(RelationKind, String)> = BTreeSet::new();
        let mut labels: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut prefixes: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut places: BTreeSet<Arc<str>> = BTreeSet::new();
        for path in changed {
            prefixes.extend(changed_prefixes(
                before.get(path).map(AsRef::as_ref),
                now.get(path).map(AsRef::as_ref),
            ));
            for (file, is_there) in [(before.get(path), false), (now.get(path), true)] {
                let Some(file) = file else { continue };
                ids.extend(file.claimed_id().map(|id| Arc::from(id.as_str())));
                labels.extend(file.dependencies().iter().flat_map(|uses| uses.labels.iter().cloned()));
                places.extend(names_of(file, RelationKind::TakesMessages));
                let names = file.dependencies().map(|uses| uses.names.clone()).unwrap_or_default();
                spelled_names
                    .extend(names.iter().map(|(kind, name)| (name_relation(*kind), check::fold(name))));
                if is_there { relations.insert_file(path, file) } else { relations.remove_file(path, file) }
            }
        }
        let mut affected = changed.clone();
        // Files that use the same name may now have a spelling warning.
        for (kind, name) in spelled_names {
            affected.extend(relations.paths_with(kind, &name).cloned());
        }
        for label in labels {
            affected.extend(relations.paths_with(RelationKind::WatchesLabel, &label).cloned());
        }
        // Automations that start on an event may now have a sender, or none.
        for prefix in prefixes {
            affected.extend(relations.paths_with_prefix(RelationKind::StartsOn, &prefix).cloned());
        }
        // Triggers that take messages from the same place warn of each other.
        for place in places {
            affected.extend(relations.paths_with(RelationKind::TakesMessages, &place).cloned());
        }
        for id in relations.update_cycles(ids.clone(), now) {
            affected.extend(relations.paths_with(RelationKind::Defines, &id).cloned());
        }
        for id in ids {
            let (old, new) = (self.previous.signature(&id), self.next.signature(&id));
            if old.is_some() != new.is_some() {
                // Suggestions in files that name missing automations may change.
                affected.extend(self.next.relations.paths_missing(RelationKind::MissingAutomation).cloned());
                affected
                    .extend(self.next.relations.paths_with(RelationKind::WatchesAutomation, &id).cloned());
            }
            let was_in_force = AutomationId::parse(&id).is_some_and(|id| self.previous.get(&id).is_some());
            let same_to_callers = was_in_force == self.pending_view(&affected).in_force(&id)
                && old.map(|(_, signature)| signature) == new.map(|(_, signature)| signature);
            if !same_to_callers {
                affected.extend(self.next.relations.paths_with(RelationKind::Calls, &id).cloned());
            }
        }
        affected
    }

    /// Reports unreadable code files and links without a file kind that lead out of the project.
    fn unreadable(&mut self, changed: &Paths) {
        let is_meant = |path: &&Arc<str>| {
            matches!(FileKind::from_path(Path::new(&***path)), Some(FileKind::Code) | None)
        };
        for path in changed.iter().filter(is_meant) {
            self.next.reports.remove_mut(path);
            let file = self.next.folder.get(path).cloned();
            if let Some(Content::Code(Some(report)) | Content::Link(report)) =
                file.as_ref().map(|file| &file.content)
            {
                self.add_report(path, report.clone());
            }
        }
    }

    /// Returns the automation files that run these code files.
    fn users_of_code(&self, changed: &Paths) -> Paths {
        changed
            .iter()
            .flat_map(|path| self.next.relations.paths_with(RelationKind::RunsCode, path).cloned())
            .collect()
    }

    /// Checks these files and puts valid ones in force. Returns the callers that were checked under an assumption
    /// that proved wrong.
    fn check_round(&mut self, stale: Paths) -> Paths {
        let stale = self.with_rivals(stale);
        let loaded =
            |path: &Arc<str>| Some((path.clone(), self.next.folder.get(path)?.automation()?.clone()));
        let files: Vec<_> = stale.iter().filter_map(loaded).collect();
        let pending_view = self.pending_view(&stale);
        let decisions = parallel::map(&files, |(_, loaded)| {
            pending_view.next.decide(loaded, &|id| pending_view.in_force(id))
        });
        let mut assumed: BTreeMap<AutomationId, [bool; 2]> = BTreeMap::new();
        for path in &stale {
            let claimed = self.next.folder.get(path).and_then(|file| file.claimed_id());
            for id in claimed.into_iter().chain(self.previous.automation_from(path)) {
                let to_others = self.next.get(&id).is_some();
                assumed.insert(id.clone(), [pending_view.in_force(id.as_str()), to_others]);
            }
        }
        stale.iter().for_each(|path| self.remove_automation(path));
        for ((path, _), decision) in files.into_iter().zip(decisions) {
            self.apply_decision(path, decision);
        }
        let mut misinformed = Paths::new();
        for (id, [to_these, to_others]) in assumed {
            let in_force = self.next.get(&id).is_some();
            let wrong =
                |path: &&Arc<str>| in_force != if stale.contains(*path) { to_these } else { to_others };
            misinformed.extend(
                self.next.relations.paths_with(RelationKind::Calls, id.as_str()).filter(wrong).cloned(),
            );
            self.in_force.insert(id, in_force);
        }
        self.checked.extend(stale);
        misinformed
    }

    /// Adds all files that claim the same automation ids as these.
    fn with_rivals(&self, stale: Paths) -> Paths {
        let mut queue: Vec<Arc<str>> = stale.iter().cloned().collect();
        let mut all = stale;
        while let Some(path) = queue.pop() {
            let claimed = self.next.folder.get(&path).and_then(|file| file.claimed_id());
            for id in claimed.into_iter().chain(self.previous.automation_from(&path)) {
                let rivals = self.next.relations.paths_with(RelationKind::Defines, id.as_str()).cloned();
                let holder = self.next.get(&id).map(|deployment| deployment.automation.source.path().into());
                for rival in rivals.chain(holder) {
                    if all.insert(rival.clone()) {
                        queue.push(rival);
                    }
                }
            }
        }
        all
    }

    fn pending_view<'w>(&'w self, stale: &'w Paths) -> PendingView<'w> {
        PendingView { next: self.next, in_force: &self.in_force, stale }
    }

    /// Removes a file's automation and reports until its check result is applied.
    fn remove_automation(&mut self, path: &Arc<str>) {
        let next = &mut *self.next;
        let owned: Vec<_> =
            next.automation_from(path).into_iter().chain(self.previous.automation_from(path)).collect();
        for id in owned {
            let Some(deployment) = next.automations.get(&id) else { continue };
            if deployment.automation.source.path() != &**path {
                continue;
            }
            let deployment = deployment.clone();
            next.remove_routes(&deployment);
            next.automations.remove_mut(&id);
        }
        next.stale.remove_mut(path);
        next.invalid_files.remove_mut(path);
        next.reports.remove_mut(path);
    }

    /// Puts a file's version in force, or keeps its last valid version.
    fn apply_decision(&mut self, path: Arc<str>, decision: Decision) {
        let Decision { deployment, mut report, missing } = decision;
        for (kind, missing) in missing {
            self.next.relations.set_missing(kind, &path, missing);
        }
        if let Some(mut deployment) = deployment {
            let automation = &deployment.automation;
            match self.next.get(&automation.id).map(|other| other.automation.source.path()) {
                Some(other) => {
                    report = Arc::new(check::merge(&report, vec![duplicate_id(automation, other)]))
                }
                None => {
                    let before = self.previous.get(&automation.id);
                    for (trigger, mounted) in automation.triggers.iter().zip(&mut deployment.mounted) {
                        let by_request = matches!(trigger.on, Trigger::Webhook(_))
                            || super::trigger_hook(&trigger.on, self.next).is_some();
                        let moved_to = before.and_then(|before| before.moved_to(&trigger.id));
                        // Once the file has the other trigger, the records are that one's.
                        mounted.moved_to = moved_to.filter(|to| automation.trigger(to).is_none()).cloned();
                        let id = mounted.moved_to.as_ref().unwrap_or(&trigger.id);
                        mounted.address = (self.address)(&automation.trigger_key(id), by_request);
                    }
                    self.add_report(&path, report);
                    return self.next.put(Arc::new(deployment));
                }
            }
        }
        self.add_report(&path, report.clone());
        let last_good = self.previous.automation_from(&path).filter(|id| self.next.get(id).is_none());
        match last_good.as_ref().and_then(|id| self.previous.get(id)) {
            Some(old) => {
                self.next.stale.insert_mut(path, old.automation.id.clone());
                self.next.put(Arc::new(Deployment { stale: Some(report), ..Deployment::clone(old) }));
            }
            None => {
                let broken = InvalidFile { path: path.to_string(), report };
                self.next.invalid_files.insert_mut(path, broken);
            }
        }
    }

    fn add_report(&mut self, path: &Arc<str>, report: Arc<Report>) {
        if !report.is_empty() {
            self.next.reports.insert_mut(path.clone(), report);
        }
    }
}

/// View of the next snapshot while some files are still unchecked.
struct PendingView<'a> {
    next: &'a Catalog,
    in_force: &'a BTreeMap<AutomationId, bool>,
    /// Files that are still to be checked.
    stale: &'a Paths,
}

impl PendingView<'_> {
    /// Returns true if a version of the automation is in force. Assumes true for a fully parsed file that is not yet
    /// checked.
    fn in_force(&self, id: &str) -> bool {
        let Some(id) = AutomationId::parse(id) else { return false };
        if let Some(in_force) = self.in_force.get(&id) {
            return *in_force;
        }
        let is_whole = |path: &Arc<str>| {
            let loaded = self.next.folder.get(path).and_then(|file| file.automation());
            self.stale.contains(path) && loaded.is_some_and(|loaded| loaded.value.is_some())
        };
        self.next.get(&id).is_some()
            || self.next.relations.paths_with(RelationKind::Defines, id.as_str()).any(is_whole)
    }
}

/// Check result of a file.
struct Decision {
    /// Deployable version; `None` if the file has errors.
    deployment: Option<Deployment>,
    report: Arc<Report>,
    /// True if it names nonexistent automations; true if it names nonexistent connections.
    missing: [(RelationKind, bool); 2],
}

impl Catalog {
    /// Checks a file, including a partially parsed one, so that one report has all problems.
    fn decide(&self, loaded: &Loaded<Arc<Automation>>, in_force: &dyn Fn(&str) -> bool) -> Decision {
        let Some((automation, unreadable)) = loaded.for_checking() else {
            let missing =
                [(RelationKind::MissingAutomation, false), (RelationKind::MissingConnection, false)];
            return Decision {
                deployment: None,
                report: Arc::new(load::apply_allow_comments(loaded.report.clone())),
                missing,
            };
        };
        let completed = self.completed(automation);
        let automation = completed.as_ref().unwrap_or(automation);
        let CheckResult { checked: checked_automation, missing } =
            self.check_automation(automation, unreadable, &loaded.report, in_force);
        let refused = self.refused_level.as_ref().and_then(|refused| refused.diagnostic(automation));
        let report = match refused {
            Some(refused) => check::merge(&checked_automation.report, vec![refused]),
            None => checked_automation.report,
        };
        let report = Arc::new(report);
        // Only a fully parsed file can be in force.
        let whole = loaded.value.as_ref().filter(|_| !report.has_errors());
        let whole = whole.map(|whole| completed.map_or_else(|| whole.clone(), Arc::new));
        let deployment = whole.map(|automation| Deployment {
            automation,
            plan: Arc::new(checked_automation.plan),
            mounted: checked_automation.schedules.into_iter().map(mounted).collect(),
            stale: None,
            warnings: report.clone(),
        });
        Decision { deployment, report, missing }
    }
}

/// Returns the beginnings of computed names of events that a file sends only before or only after its change.
fn changed_prefixes(before: Option<&File>, now: Option<&File>) -> BTreeSet<Arc<str>> {
    let prefixes = |file: Option<&File>| -> BTreeSet<Arc<str>> {
        file.into_iter().flat_map(|file| names_of(file, RelationKind::SendsPrefix)).collect()
    };
    &prefixes(before) ^ &prefixes(now)
}

/// Returns the names of events, or places at brokers, with this relation to a file.
fn names_of(file: &File, kind: RelationKind) -> impl Iterator<Item = Arc<str>> {
    let uses = file.dependencies().into_iter().flat_map(|uses| uses.events.iter());
    uses.filter(move |(found, _)| *found == kind).map(|(_, name)| name.clone())
}

fn mounted(schedule: Option<Schedule>) -> MountedTrigger {
    MountedTrigger { address: None, moved_to: None, schedule: schedule.map(Arc::new) }
}

/// Summarizes a reload from the files it checked.
fn summarize(previous: &Catalog, next: &Catalog, checked: &Paths, changed: &Paths) -> ReloadSummary {
    let mut reload = ReloadSummary { generation: next.generation, ..ReloadSummary::default() };
    let owned = checked.iter().flat_map(|path| [previous.automation_from(path), next.automation_from(path)]);
    let rechecked: BTreeSet<AutomationId> = owned.flatten().collect();
    for id in rechecked.iter() {
        let (old, new) = (previous.get(id), next.get(id));
        let is_stale = |deployment: Option<&Arc<Deployment>>| {
            deployment.is_some_and(|deployment| deployment.stale.is_some())
        };
        match (old, new) {
            (None, Some(_)) => reload.added.push(id.clone()),
            (Some(_), None) => reload.removed.push(id.clone()),
            (Some(old), Some(new)) if old.automation.definition != new.automation.definition => {
                reload.changed.push(id.clone());
            }
            (Some(_), Some(_)) if is_stale(old) && !is_stale(new) => reload.restored.push(id.clone()),
            _ => {}
        }
        let already_reported = new.is_some_and(|new| !changed.contains(new.automation.source.path()));
        if is_stale(new) && !(already_reported && is_stale(old)) {
            reload.stale.push(id.clone());
        }
    }
    let news = |path: &&Arc<str>| {
        let (old, new) = (previous.reports.get(*path), next.reports.get(*path));
        changed.contains(*path) || old.map(|old| old.diagnostics()) != new.map(|new| new.diagnostics())
    };
    let reports = checked.union(changed).filter(news).filter_map(|path| next.reports.get(path));
    reload.reports = reports.map(|report| Report::clone(report)).collect();
    reload.rechecked = rechecked.into_iter().collect();
    reload.files = changed.iter().cloned().collect();
    reload
}
