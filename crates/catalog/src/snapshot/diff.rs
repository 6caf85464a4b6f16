//! Human-readable differences between two snapshots, for previews and for the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use connector::Registry;
use jiff::Timestamp;
use model::AutomationId;
use model::automation::{Automation, DefinitionHash, Trigger, TriggerId};
use serde::{Deserialize, Serialize};

use super::file::{Dependencies, FileKind};
use super::normalized::NormalizedFile;
use super::poll_source::PollSource;
use super::{Catalog, Deployment, Mount, ReloadSummary};

/// Number of future fire times shown.
const NEXT_FIRES: usize = 5;
/// Number of hash digits shown.
const SHORT_HASH: usize = 8;

/// Change of one automation, or of an invalid file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PlannedChange)]
pub struct Change {
    /// Automation id; for an unreadable file, the id suggested by its name.
    pub id: String,
    /// Path relative to the project folder.
    pub path: String,
    /// Kind of change.
    pub effect: ChangeKind,
    /// Hash prefix of the previous version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Hash prefix of the new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// Individual differences.
    pub details: Vec<Detail>,
    /// Next fire times of the new schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_fires: Vec<Timestamp>,
    /// Time zone of the new schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Unfinished executions that continue on an earlier version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<InFlightExecutions>,
    /// Removed triggers in whose place others are added: they may be the same with other ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<RenamedTrigger>,
}

/// A trigger that is removed, and one of the same kind that is added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenamedTrigger {
    /// Id of the removed trigger.
    pub from: String,
    /// Id of the added trigger.
    pub to: String,
}

/// Kind of change of an automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// The automation comes into force.
    Added,
    /// Another version comes into force.
    Changed,
    /// The automation is no longer in force.
    Removed,
    /// The file has errors; the last valid version stays in force.
    Stale,
    /// The file is valid again and its definition is the one in force.
    Restored,
    /// The file has errors and no version is in force.
    Broken,
}

/// Difference in one part of an automation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PlannedDetail)]
pub struct Detail {
    /// Part: `trigger`, `steps`, `connections`, `calls`, or another key of the file.
    pub part: String,
    /// Id of the trigger; absent for `main`, and for other parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// Kind of difference.
    pub how: DiffKind,
    /// Affected names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Old value, if short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// New value, if short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Kind of difference in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiffKind {
    /// The trigger starts executions from now on.
    Mounted,
    /// The trigger no longer starts executions.
    Unmounted,
    /// The trigger is unchanged: a webhook keeps its URL, a schedule its fire times.
    Kept,
    /// The poll loses its position and its first poll follows, or the subscription to an event is created again.
    Restarted,
    /// The part is new.
    Added,
    /// The part was removed.
    Removed,
    /// The part changed.
    Changed,
    /// The part moved elsewhere.
    Moved,
}

/// Change of a connection or connector file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PlannedFile)]
pub struct FileChange {
    /// Path relative to the project folder.
    pub path: String,
    /// `added`, `changed` or `removed`.
    pub how: DiffKind,
}

/// Unfinished executions on one version of an automation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InFlight)]
pub struct InFlightExecutions {
    /// Hash prefix of the version.
    pub definition: String,
    /// Number of executions.
    pub count: usize,
}

impl Catalog {
    /// Describes the changes that `reload` made from the snapshot `before` to this one, without executions.
    pub(crate) fn changes(&self, before: &Catalog, reload: &ReloadSummary, now: Timestamp) -> Vec<Change> {
        let lists = [
            (ChangeKind::Added, &reload.added),
            (ChangeKind::Changed, &reload.changed),
            (ChangeKind::Removed, &reload.removed),
            (ChangeKind::Stale, &reload.stale),
            (ChangeKind::Restored, &reload.restored),
        ];
        let of_ids = lists.into_iter().flat_map(|(effect, ids)| ids.iter().map(move |id| (effect, id)));
        let version = |catalog: &'_ Catalog, id: &AutomationId| {
            catalog.get(id).map(|deployment| (deployment.clone(), catalog.registry.clone()))
        };
        let mut changes: Vec<Change> = of_ids
            .filter_map(|(effect, id)| change(effect, version(before, id), version(self, id), now))
            .collect();
        for report in &reload.reports {
            let Some(broken) = self.invalid_files.get(report.source().path()) else { continue };
            let claimed = self.folder.get(&broken.path).and_then(|file| file.claimed_id());
            changes.push(Change {
                id: claimed.map_or_else(String::new, |id| id.to_string()),
                ..Change::new(ChangeKind::Broken, &broken.path)
            });
        }
        changes.sort_by(|one, other| (&one.id, &one.path).cmp(&(&other.id, &other.path)));
        changes
    }

    /// Returns the connection and connector files that `reload` changed from the snapshot `before` to this one.
    pub(crate) fn file_changes(&self, before: &Catalog, reload: &ReloadSummary) -> Vec<FileChange> {
        let others = reload
            .files
            .iter()
            .filter(|path| FileKind::from_path(Path::new(&***path)) != Some(FileKind::Automation));
        let change = |path: &Arc<str>| {
            let how = match (before.folder.get(path), self.folder.get(path)) {
                (None, _) => DiffKind::Added,
                (_, None) => DiffKind::Removed,
                _ => DiffKind::Changed,
            };
            FileChange { path: path.to_string(), how }
        };
        others.map(change).collect()
    }
}

impl Change {
    fn new(effect: ChangeKind, path: &str) -> Self {
        Self {
            id: String::new(),
            path: path.to_owned(),
            effect,
            before: None,
            definition: None,
            details: Vec::new(),
            next_fires: Vec::new(),
            timezone: None,
            executions: Vec::new(),
            renamed: Vec::new(),
        }
    }

    /// Returns true if executions may continue on a version other than the one in force.
    #[must_use]
    pub fn may_leave_executions(&self) -> bool {
        matches!(self.effect, ChangeKind::Added | ChangeKind::Changed | ChangeKind::Removed)
    }

    /// Describes the differences in one sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let details: Vec<String> = self.details.iter().map(ToString::to_string).collect();
        details.join("; ")
    }
}

/// An automation in force, with the connectors that its snapshot knows.
type Version = (Arc<Deployment>, Arc<Registry>);

fn change(
    effect: ChangeKind,
    old_version: Option<Version>,
    new_version: Option<Version>,
    now: Timestamp,
) -> Option<Change> {
    let old = old_version.as_ref().map(|(deployment, _)| deployment);
    let new = new_version.as_ref().map(|(deployment, _)| deployment);
    let one = new.or(old)?;
    let mut change = Change::new(effect, one.automation.source.path());
    change.id = one.automation.id.to_string();
    change.before = old.map(|old| short(old.automation.definition));
    change.definition = new.map(|new| short(new.automation.definition));
    if matches!(effect, ChangeKind::Stale | ChangeKind::Restored) {
        return Some(change);
    }
    change.details = details(old_version.as_ref(), new_version.as_ref());
    change.renamed = old.zip(new).map(|(old, new)| renamed(old, new)).unwrap_or_default();
    let schedules = new.into_iter().flat_map(|new| new.mounts());
    let mut fires = schedules.filter_map(|mount| {
        let (next, schedule) = (mount.next_fires(now, NEXT_FIRES), mount.schedule()?);
        (!next.is_empty()).then(|| (next, schedule.timezone().to_owned()))
    });
    if let Some((next, timezone)) = fires.next() {
        (change.next_fires, change.timezone) = (next, Some(timezone));
    }
    // Those of further schedules, in the zone of the first.
    change.next_fires.extend(fires.flat_map(|(next, _)| next));
    change.next_fires.sort_unstable();
    change.next_fires.truncate(NEXT_FIRES);
    Some(change)
}

/// Returns the first digits of a definition's hash.
pub(crate) fn short(definition: DefinitionHash) -> String {
    definition.to_string().chars().take(SHORT_HASH).collect()
}

/// Returns a text that identifies the progress of a schedule or a poll: while it is unchanged, they continue. Empty for other triggers.
fn position(mount: &Mount, registry: &Registry) -> String {
    match mount.schedule() {
        Some(schedule) => schedule.fingerprint(),
        None => {
            PollSource::of(mount.on(), registry).map_or_else(String::new, |source| source.text().to_owned())
        }
    }
}

fn details(old: Option<&Version>, new: Option<&Version>) -> Vec<Detail> {
    let mut details = Vec::new();
    let automation = |version: Option<&Version>| version.map(|(deployment, _)| deployment.automation.clone());
    let (Some(after), before) = (automation(new), automation(old)) else {
        triggers(old, new, None, &mut details);
        return details;
    };
    let normalized = before.as_deref().and_then(NormalizedFile::parse).zip(NormalizedFile::parse(&after));
    triggers(old, new, normalized.as_ref(), &mut details);
    if let Some(before) = before.as_deref().filter(|before| before.enabled != after.enabled) {
        let (was, is) = (Some(before.enabled.to_string()), Some(after.enabled.to_string()));
        details.push(Detail { before: was, after: is, ..Detail::new("enabled", DiffKind::Changed) });
    }
    if let Some(before) = &before {
        push_added_removed("steps", &step_ids(before), &step_ids(&after), &mut details);
    }
    if let Some((before, after)) = &normalized {
        let changed = after.changed_steps(before);
        if !changed.is_empty() {
            details.push(Detail { names: changed, ..Detail::new("steps", DiffKind::Changed) });
        }
        let moved = after.moved_steps(before);
        details.extend(moved.map(|names| Detail { names, ..Detail::new("steps", DiffKind::Moved) }));
    }
    let uses =
        (before.as_deref().map(Dependencies::collect).unwrap_or_default(), Dependencies::collect(&after));
    let names = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    push_added_removed("connections", &names(&uses.0.connections), &names(&uses.1.connections), &mut details);
    push_added_removed("calls", &names(&uses.0.automations), &names(&uses.1.automations), &mut details);
    let keys = normalized.map(|(before, after)| after.changed_keys(&before)).unwrap_or_default();
    details.extend(keys.into_iter().map(|(key, before, after)| {
        let how = if before.is_none() && after.is_some() { DiffKind::Added } else { DiffKind::Changed };
        Detail { before, after, ..Detail::new(&key, how) }
    }));
    details
}

fn step_ids(automation: &Automation) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    automation.walk(&mut |step| {
        ids.insert(step.id.to_string());
    });
    ids
}

/// Adds details for the names present only before or only after.
fn push_added_removed(
    part: &str,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
    details: &mut Vec<Detail>,
) {
    for (how, names) in [(DiffKind::Added, after - before), (DiffKind::Removed, before - after)] {
        if !names.is_empty() {
            details.push(Detail { names: names.into_iter().collect(), ..Detail::new(part, how) });
        }
    }
}

/// Returns the pairs of removed and added triggers, in the order of the files, for each kind with as many of the one as of the other.
fn renamed(old: &Arc<Deployment>, new: &Arc<Deployment>) -> Vec<RenamedTrigger> {
    let missing = |one: &Arc<Deployment>, other: &Arc<Deployment>| -> Vec<Mount> {
        let has = |mount: &Mount| other.mounts().any(|other| other.key() == mount.key());
        one.mounts().filter(|mount| !mount.is_manual() && !has(mount)).collect()
    };
    let (removed, added) = (missing(old, new), missing(new, old));
    let of_kind = |mounts: &[Mount], kind: &str| -> Vec<String> {
        let own = mounts.iter().filter(|mount| mount.on().keyword() == kind);
        own.map(|mount| mount.key().trigger.to_string()).collect()
    };
    let kinds: BTreeSet<&str> = removed.iter().map(|mount| mount.on().keyword()).collect();
    let pairs = kinds.into_iter().map(|kind| (of_kind(&removed, kind), of_kind(&added, kind)));
    let pairs = pairs.filter(|(removed, added)| removed.len() == added.len());
    pairs
        .flat_map(|(removed, added)| removed.into_iter().zip(added))
        .map(|(from, to)| RenamedTrigger { from, to })
        .collect()
}

/// Adds the differences of each trigger. One with another id is another one.
fn triggers(
    old: Option<&Version>,
    new: Option<&Version>,
    normalized: Option<&(NormalizedFile, NormalizedFile)>,
    details: &mut Vec<Detail>,
) {
    let versions = old.into_iter().chain(new);
    let triggers = versions.flat_map(|(deployment, _)| deployment.mounts());
    // Moved records belong to the trigger to which they moved.
    let all: BTreeSet<TriggerId> = triggers.map(|mount| mount.key().trigger).collect();
    for id in all {
        let mount = |version: Option<&Version>| {
            let (deployment, registry) = version?;
            let mount = deployment.mounts().find(|mount| mount.key().trigger == id)?;
            Some((mount, registry.clone()))
        };
        let (old, new) = (mount(old), mount(new));
        // A trigger whose records have moved has another id in the file, by which no key is compared.
        let has_id = |version: &Option<(Mount, _)>| {
            version.as_ref().is_none_or(|(mount, _)| mount.declared().id == id)
        };
        let keys = normalized.filter(|_| has_id(&old) && has_id(&new));
        let keys = keys.map(|(before, after)| after.changed_trigger_keys(before, &id)).unwrap_or_default();
        let first = details.len();
        trigger(old, new, &keys, details);
        let name = (!id.is_main()).then(|| id.to_string());
        details[first..].iter_mut().for_each(|detail| detail.trigger.clone_from(&name));
    }
}

fn trigger(
    old: Option<(Mount, Arc<Registry>)>,
    new: Option<(Mount, Arc<Registry>)>,
    changed_keys: &[String],
    details: &mut Vec<Detail>,
) {
    let position_kept = match (&old, &new) {
        (Some((old, before)), Some((new, after))) => position(old, before) == position(new, after),
        _ => false,
    };
    let (old, new) = (old.map(|(mount, _)| mount), new.map(|(mount, _)| mount));
    let mounted = |mount: Option<&Mount>| {
        let mount = mount.filter(|mount| mount.is_enabled())?;
        (!matches!(mount.on(), Trigger::Manual)).then(|| describe_trigger(mount))
    };
    let detail = |how, before, after| Detail { before, after, ..Detail::new("trigger", how) };
    match (mounted(old.as_ref()), mounted(new.as_ref())) {
        (None, None) => {}
        (None, after) => details.push(detail(DiffKind::Mounted, None, after)),
        (before, None) => details.push(detail(DiffKind::Unmounted, before, None)),
        (before, after) => {
            let kind = |mount: Option<&Mount>| mount.map(|mount| mount.on().keyword());
            if kind(old.as_ref()) != kind(new.as_ref()) {
                details.push(detail(DiffKind::Unmounted, before, None));
                details.push(detail(DiffKind::Mounted, None, after));
                return;
            }
            if before != after {
                details.push(detail(DiffKind::Changed, before, after.clone()));
            } else if !changed_keys.is_empty() {
                let names = changed_keys.to_vec();
                details.push(Detail { names, ..detail(DiffKind::Changed, None, after.clone()) });
            }
            let is_poll = |mount: &Mount| matches!(mount.on(), Trigger::Poll(_) | Trigger::Event(_));
            if position_kept {
                details.push(detail(DiffKind::Kept, None, after));
            } else if new.as_ref().is_some_and(is_poll) {
                details.push(detail(DiffKind::Restarted, None, after));
            }
        }
    }
}

/// Describes the trigger in words.
fn describe_trigger(mount: &Mount) -> String {
    match mount.schedule() {
        Some(schedule) => schedule.describe(),
        None => mount.on().keyword().to_owned(),
    }
}

impl Detail {
    fn new(part: &str, how: DiffKind) -> Self {
        Self { part: part.to_owned(), trigger: None, how, names: Vec::new(), before: None, after: None }
    }
}

impl fmt::Display for DiffKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Mounted => "mounted",
            Self::Unmounted => "unmounted",
            Self::Kept => "kept",
            Self::Restarted => "starts again",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Moved => "moved",
        })
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = self.how;
        let names = || self.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if let Some(trigger) = &self.trigger {
            write!(formatter, "trigger `{trigger}`: ")?;
        }
        match (self.part.as_str(), &self.before, &self.after) {
            ("trigger", None, Some(after)) if how == DiffKind::Changed => {
                write!(formatter, "{after}: {} changed", names())
            }
            ("trigger", None, Some(after)) if how == DiffKind::Kept && after == "webhook" => {
                write!(formatter, "{after}: address kept")
            }
            ("trigger", None, Some(one)) | ("trigger", Some(one), None) => write!(formatter, "{one}: {how}"),
            (part, Some(before), Some(after)) => write!(formatter, "{part}: {before} → {after}"),
            (part, None, Some(after)) => write!(formatter, "{part}: {after}"),
            (part, Some(_), None) => write!(formatter, "{part} removed"),
            (part, ..) if self.names.is_empty() => write!(formatter, "{part} {how}"),
            (part, ..) => write!(formatter, "{part} {how}: {}", names()),
        }
    }
}

/// Counts executions by definition.
pub(crate) fn count_by_definition(
    definitions: impl IntoIterator<Item = DefinitionHash>,
) -> Vec<InFlightExecutions> {
    let mut counts: BTreeMap<DefinitionHash, usize> = BTreeMap::new();
    for definition in definitions {
        *counts.entry(definition).or_default() += 1;
    }
    let all = counts.into_iter();
    all.map(|(definition, count)| InFlightExecutions { definition: short(definition), count }).collect()
}
