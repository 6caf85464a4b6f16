//! From the files of a folder to the next snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use connector::Registry;
use model::automation::Automation;
use model::diagnostic::{Diagnostic, Report, Source};
use model::load::Loaded;
use model::{AutomationId, Connection};
use store::Address;

use super::folder::{Content, FileKind, Folder};
use super::{Broken, Catalog, Deployed, Mounted, Reload};
use crate::check;

/// What the next snapshot is made of.
pub(crate) struct Parts<'a> {
    /// The snapshot in force.
    pub(crate) previous: &'a Catalog,
    /// The files as they are now.
    pub(crate) folder: &'a Folder,
    /// The paths that changed since `previous`.
    pub(crate) changed: &'a BTreeSet<String>,
    /// The connectors that come with Cogwork.
    pub(crate) builtin: &'a Arc<Registry>,
    /// Whether a manifest or a connection changed since `previous`, so that every file is checked again.
    pub(crate) surroundings_changed: bool,
    /// Gives the address of an Automation that is started by one.
    pub(crate) address: &'a mut dyn FnMut(&AutomationId, bool) -> Option<Address>,
}

/// Makes the next snapshot and says what it changes.
pub(crate) fn assemble(parts: Parts<'_>) -> (Catalog, Reload) {
    let mut next = Catalog::empty(parts.previous.registry.clone());
    next.generation = parts.previous.generation + 1;
    let mut reports: BTreeMap<String, Report> = BTreeMap::new();

    if parts.surroundings_changed || parts.previous.generation == 0 {
        let manifests = sources(parts.folder, FileKind::Manifest);
        let (registry, said) = Registry::clone(parts.builtin).with_manifests(manifests);
        next.registry = Arc::new(registry);
        keep_reports(&mut reports, said);
    } else {
        keep_reports(&mut reports, manifest_reports(parts.previous));
    }
    connections(&parts, &mut next, &mut reports);
    let mut reload = Reload { generation: next.generation, ..Reload::default() };
    automations(parts, &mut next, &mut reports, &mut reload);
    next.reports = reports.into_values().filter(|report| !report.is_empty()).collect();
    (next, reload)
}

fn sources(folder: &Folder, kind: FileKind) -> Vec<Arc<Source>> {
    folder.files().filter(|(_, file)| file.kind == kind).map(|(_, file)| file.source.clone()).collect()
}

fn manifest_reports(previous: &Catalog) -> Vec<Report> {
    let manifest = |report: &&Report| {
        FileKind::of(std::path::Path::new(report.source().path())) == Some(FileKind::Manifest)
    };
    previous.reports.iter().filter(manifest).cloned().collect()
}

fn keep_reports(reports: &mut BTreeMap<String, Report>, said: Vec<Report>) {
    reports.extend(said.into_iter().map(|report| (report.source().path().to_owned(), report)));
}

fn connections(parts: &Parts<'_>, next: &mut Catalog, reports: &mut BTreeMap<String, Report>) {
    for (path, file) in parts.folder.files() {
        let Content::Connection(loaded) = &file.content else { continue };
        let said = match loaded.to_check() {
            Some((connection, gaps)) => check::connection(connection, gaps, &loaded.report, &next.registry),
            None => loaded.report.clone(),
        };
        let value = loaded.value.clone().filter(|_| !said.has_errors());
        // A connection that no longer loads stays in force as it last did.
        let name = super::folder::stem(path);
        let kept: Option<Arc<Connection>> = value.or_else(|| parts.previous.connections.get(name).cloned());
        match kept {
            Some(connection) => {
                next.connections.insert(name.to_owned(), connection);
            }
            None => {
                next.broken_connections.insert(name.to_owned());
            }
        }
        reports.insert(path.to_owned(), said);
    }
}

fn automations(
    parts: Parts<'_>,
    next: &mut Catalog,
    reports: &mut BTreeMap<String, Report>,
    reload: &mut Reload,
) {
    let before: HashMap<&str, &Arc<Deployed>> = parts
        .previous
        .automations
        .values()
        .map(|deployed| (deployed.automation.source.path(), deployed))
        .collect();
    for (path, file) in parts.folder.files() {
        let Content::Automation { loaded, definition } = &file.content else { continue };
        let old = before.get(path).copied();
        let unchanged = old.filter(|old| {
            old.stale.is_none()
                && !parts.surroundings_changed
                && !parts.changed.contains(path)
                && *definition == Some(old.automation.definition)
        });
        if let Some(old) = unchanged.filter(|old| !next.automations.contains_key(&old.automation.id)) {
            if !old.warnings.is_empty() {
                reports.insert(path.to_owned(), old.warnings.clone());
            }
            put(next, old.clone());
            continue;
        }
        match deploy(loaded, next) {
            Ok(mut deployed) => {
                let webhook = matches!(deployed.automation.trigger, model::Trigger::Webhook(_));
                deployed.address = (parts.address)(&deployed.automation.id, webhook);
                if !deployed.warnings.is_empty() {
                    reports.insert(path.to_owned(), deployed.warnings.clone());
                }
                put(next, Arc::new(deployed));
            }
            Err(report) => {
                reports.insert(path.to_owned(), report.clone());
                match old.filter(|old| !next.automations.contains_key(&old.automation.id)) {
                    Some(old) => put(next, Arc::new(old.stale(report.clone()))),
                    None => next.broken.push(Broken { path: path.to_owned(), report: report.clone() }),
                }
            }
        }
    }
    describe(parts.previous, next, parts.changed, reports, reload);
}

/// Checks a file, also one that could not be read whole: its report then has everything there is to say at once.
fn deploy(loaded: &Loaded<Arc<Automation>>, next: &Catalog) -> Result<Deployed, Report> {
    let Some((automation, gaps)) = loaded.to_check() else { return Err(loaded.report.clone()) };
    let around =
        check::Surroundings { registry: &next.registry, connection: &|name| next.find_connection(name) };
    let checked = check::automation(automation, gaps, &loaded.report, &around);
    let mut report = checked.report;
    if let Some(other) = next.automations.get(&automation.id) {
        let message = format!("the id `{}` is taken by `{}`", automation.id, other.automation.source.path());
        let diagnostic = Diagnostic::error("duplicate-automation", message, automation.id_span)
            .help("give one of the two files another `id`");
        report = check::together(&report, vec![diagnostic]);
    }
    // Only what was read whole can be in force.
    let Some(automation) = loaded.value.as_ref().filter(|_| !report.has_errors()) else { return Err(report) };
    Ok(Deployed {
        automation: automation.clone(),
        plan: Arc::new(checked.plan),
        address: None,
        schedule: checked.schedule.map(Arc::new),
        stale: None,
        warnings: report,
    })
}

fn put(next: &mut Catalog, deployed: Arc<Deployed>) {
    if let Some(address) = &deployed.address {
        for (token, test) in [(&address.live, false), (&address.test, true)] {
            next.tokens.insert(token.as_str().into(), Mounted { deployed: deployed.clone(), test });
        }
    }
    next.definitions.insert(deployed.automation.definition, deployed.clone());
    next.automations.insert(deployed.automation.id.clone(), deployed);
}

fn describe(
    previous: &Catalog,
    next: &Catalog,
    changed: &BTreeSet<String>,
    reports: &BTreeMap<String, Report>,
    reload: &mut Reload,
) {
    for (id, deployed) in &next.automations {
        match previous.automations.get(id) {
            None => reload.added.push(id.clone()),
            Some(old) if old.automation.definition != deployed.automation.definition => {
                reload.changed.push(id.clone());
            }
            Some(_) => {}
        }
        if deployed.stale.is_some() && changed.contains(deployed.automation.source.path()) {
            reload.stale.push(id.clone());
        }
    }
    reload.removed =
        previous.automations.keys().filter(|id| !next.automations.contains_key(id)).cloned().collect();
    reload.reports = changed.iter().filter_map(|path| reports.get(path)).cloned().collect();
}

impl Deployed {
    /// The same version, marked as no longer what the file says.
    fn stale(&self, report: Report) -> Self {
        Self {
            automation: self.automation.clone(),
            plan: self.plan.clone(),
            address: self.address.clone(),
            schedule: self.schedule.clone(),
            stale: Some(report),
            warnings: self.warnings.clone(),
        }
    }
}
