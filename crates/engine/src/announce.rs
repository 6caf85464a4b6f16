//! Tells triggers on events of the engine of a reload: files that no longer load, and changes of automations.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use catalog::{AnnounceReload, Successor};
use ingress::Ingress;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, AutomationId};
use model::engine_event::FailureKind;
use runtime::{Context, Occurrence, Subject, content_mark, shared_place};
use store::{Accept, Generation, OutboxRow};
use text::diagnostic::{DiagnosticEntry, Report, Severity};
use value::Value;

use crate::generations::Generations;
use crate::told::{self, Difference, Record, ToldAutomation};

/// The number of times that a reload is compared with the record of what was told, while other nodes change it.
const TRIES: u32 = 20;

/// Writes the rows of a reload before it comes into force, so that a crash in between loses none.
pub(crate) struct Announcer {
    context: Arc<Context>,
    /// Weak, since the ingress has the loader, and the loader this.
    ingress: Weak<Ingress>,
    generations: Arc<Generations>,
}

impl Announcer {
    pub(crate) fn new(
        context: &Arc<Context>,
        ingress: &Arc<Ingress>,
        generations: &Arc<Generations>,
    ) -> Self {
        Self { context: context.clone(), ingress: Arc::downgrade(ingress), generations: generations.clone() }
    }
}

#[async_trait]
impl AnnounceReload for Announcer {
    async fn announce(&self, next: &Successor) -> Result<(), store::Error> {
        if !self.context.settings.background {
            return Ok(());
        }
        // The engine has stopped.
        let Some(ingress) = self.ingress.upgrade() else { return Ok(()) };
        let announcement = Announcement {
            announcer: self,
            ingress: &ingress,
            next,
            taken: self.generations.being_taken().map(|generation| generation.number),
            running: self.generations.running().map(|generation| generation.number),
            now: self.context.clock.now().to_string(),
        };
        let mut tries = 1;
        loop {
            match announcement.tell().await {
                // Another node was faster: what it has told is not told again.
                Err(store::Error::StateChanged { .. }) if tries < TRIES => tries += 1,
                told => return told,
            }
        }
    }
}

impl Announcer {
    /// Tells that a generation does not load on this node, and the previous one stays in force.
    pub(crate) async fn generation_refused(&self, generation: &Generation, reason: &str) {
        let id = format!("file:generation:{}", generation.number);
        let place = |name: &str| shared_place(generation.at, name, &id);
        let catalog = self.context.catalog();
        let rows = self.context.failure_rows(&catalog, FailureKind::File, None, place, || Occurrence {
            id: id.clone(),
            kind: FailureKind::File.as_str(),
            title: format!("generation {} does not load: {reason}", generation.number),
            error: Some(ActionError::new(ErrorKind::Input, reason)),
            page: "/status".to_owned(),
            ..Occurrence::default()
        });
        if let Err(error) = self.write(rows).await {
            self.context.lost(&error);
        }
    }

    async fn write(&self, emits: Vec<OutboxRow>) -> Result<(), store::Error> {
        for emits in emits.chunks(OutboxRow::MAX_AT_ONCE) {
            let accept = Accept { emits: emits.to_vec(), ..Accept::default() };
            self.context.store.accept(&accept).await?;
            self.context.outbox.committed(emits.iter().map(|row| row.name.as_str()));
        }
        Ok(())
    }
}

/// The rows of one reload.
struct Announcement<'a> {
    announcer: &'a Announcer,
    ingress: &'a Ingress,
    /// The triggers of its later snapshot hear of it.
    next: &'a Successor,
    /// The number of the deployed generation that comes into force; `None` if files of a folder changed.
    taken: Option<u64>,
    /// The number of the generation in force; `None` if the files come from the project folder.
    running: Option<u64>,
    now: String,
}

impl Announcement<'_> {
    /// Compares the snapshot with the record of the last reload, and stores the differences as events.
    async fn tell(&self) -> Result<(), store::Error> {
        let context = &self.announcer.context;
        let Successor { before, after, .. } = self.next;
        if !told::has_listeners(after) {
            if self.is_first() || told::has_listeners(before) {
                let record = Record::read(context, None).await?;
                if !record.is_later_than(self.generation()) {
                    return record.delete(context).await;
                }
            }
            return Ok(());
        }
        let mut record = Record::read(context, self.keys()).await?;
        // This node has older files than the node that told last.
        if record.is_later_than(self.generation()) {
            return Ok(());
        }
        if record.is_complete() && self.keys().is_some() && !record.is_of(self.running) {
            record = Record::read(context, None).await?;
        }
        let automations = self.automations(&record).into_iter().map(|id| self.automation(&record, &id));
        let mut differences: Vec<Difference> = automations.collect();
        differences.extend(self.files(&record));
        record.write(context, differences, self.generation()).await
    }

    /// The number of the generation whose files the later snapshot has; `None` if they come from the project folder.
    fn generation(&self) -> Option<u64> {
        self.taken.or(self.running)
    }

    /// True for the snapshot with which the engine starts.
    fn is_first(&self) -> bool {
        self.next.before.generation() == 0
    }

    /// Returns the keys of the values of the record that the reload may change; `None` for all.
    fn keys(&self) -> Option<Vec<String>> {
        let Successor { before, after, reload } = self.next;
        if self.is_first() || !told::has_listeners(before) {
            return None;
        }
        let automations = reload.rechecked.iter().map(told::key_of_automation);
        let (former, wrong) = (told::wrong_paths(before), told::wrong_paths(after));
        let files = former.union(&wrong).map(|path| told::key_of_file(path));
        Some(automations.chain(files).collect())
    }

    /// Returns the automations that may differ from the record: the ones checked again, or all. Another node may have told of a
    /// generation that this one skipped.
    fn automations(&self, record: &Record) -> BTreeSet<AutomationId> {
        if !self.is_first() && record.is_complete() && record.is_of(self.running) {
            return self.next.reload.rechecked.iter().cloned().collect();
        }
        let in_force = self.next.after.automations().map(|deployment| deployment.automation.id.clone());
        in_force.chain(record.automations()).collect()
    }

    /// Compares an automation with the record.
    fn automation(&self, record: &Record, id: &AutomationId) -> Difference {
        let Successor { before, after, .. } = self.next;
        let recorded = record.automation(id);
        let new = ToldAutomation::of(after, id, recorded.as_ref());
        // Without a record it is the snapshot in force that was told last, and at a start nothing is to be told.
        let old = match (record.is_complete(), self.is_first()) {
            (true, _) => recorded,
            (false, false) => ToldAutomation::of(before, id, None),
            (false, true) => new.clone(),
        };
        let kinds = changes(old.as_ref(), new.as_ref());
        let rows = new
            .as_ref()
            .or(old.as_ref())
            .map(|automation| kinds.into_iter().flat_map(|kind| self.change(id, kind, automation)).collect());
        Difference {
            key: told::key_of_automation(id),
            value: new.as_ref().and_then(told::value_of),
            rows: rows.unwrap_or_default(),
        }
    }

    fn change(&self, id: &AutomationId, kind: &'static str, automation: &ToldAutomation) -> Vec<OutboxRow> {
        let occurrence = format!("changed:{kind}:{id}:{}", self.instance());
        let ToldAutomation { name, labels, path, .. } = automation;
        let is_in_force = self.next.after.get(id).is_some();
        let subject = Subject { id, name, labels };
        let place = |_: &str| self.ingress.next_event_place();
        self.announcer.context.change_rows(&self.next.after, subject, place, || Occurrence {
            id: occurrence,
            kind,
            title: title_of_change(name, kind, is_in_force),
            file: Some((path.clone(), None)),
            page: format!("/automations/{id}"),
            ..Occurrence::default()
        })
    }

    /// Compares the files that do not load with the record.
    fn files(&self, record: &Record) -> Vec<Difference> {
        let mut differences: BTreeMap<String, Difference> = BTreeMap::new();
        for (report, automation) in self.wrong_files() {
            let path = report.source().path();
            let key = told::key_of_file(path);
            let recorded = record.file(&key);
            // An author may write a new file bit by bit: only a start tells of it.
            let is_draft = automation.is_none() && path.starts_with("automations/") && !self.is_first();
            // A start tells of a file again of which no version is in force any more.
            let was_valid = !self.is_first() && self.next.before.error_of(path).is_none();
            let in_force = match recorded.as_deref().and_then(|mark| mark.split_once(' ')) {
                _ if automation.is_some() || was_valid => "last",
                Some((_, in_force)) if !self.is_first() => in_force,
                _ => "none",
            };
            let mark = format!("{} {in_force}", content_mark(report.source().text()));
            let is_told = match record.is_complete() || self.is_first() {
                true => recorded.as_ref() == Some(&mark),
                false => self.next.before.error_of(path).is_some(),
            };
            let (value, rows) = match (is_draft, is_told) {
                (true, _) => (recorded, Vec::new()),
                (false, true) => (Some(mark), Vec::new()),
                (false, false) => {
                    // A start without a record may tell of the same content again.
                    let is_known = self.is_first() && !record.is_complete();
                    let instance = if is_known { String::new() } else { self.instance() };
                    let rows = self.broken(report, automation, &mark, &instance);
                    (Some(mark), rows)
                }
            };
            differences.insert(key.clone(), Difference { key, value: value.map(Value::from), rows });
        }
        for key in record.files() {
            let valid = || Difference { key: key.clone(), value: None, rows: Vec::new() };
            differences.entry(key.clone()).or_insert_with(valid);
        }
        differences.into_values().collect()
    }

    /// Returns the reports of the files that do not load, each with the automation of which the last good version is in force.
    fn wrong_files(&self) -> Vec<(&Report, Option<&Automation>)> {
        let after = &self.next.after;
        let stale = after.automations().filter_map(|deployment| {
            let report = deployment.stale.as_deref()?;
            Some((report, Some(&*deployment.automation)))
        });
        let mut wrong: Vec<(&Report, Option<&Automation>)> = stale.collect();
        let paths: HashSet<&str> = wrong.iter().map(|(report, _)| report.source().path()).collect();
        let others = after.reports().filter(|report| report.has_errors());
        let others = others.filter(|report| !paths.contains(report.source().path()));
        wrong.extend(others.map(|report| (&**report, None)).collect::<Vec<_>>());
        wrong
    }

    /// Returns the rows for a file that does not load.
    fn broken(
        &self,
        report: &Report,
        automation: Option<&Automation>,
        mark: &str,
        instance: &str,
    ) -> Vec<OutboxRow> {
        let is_error = |entry: &DiagnosticEntry| entry.severity == Severity::Error;
        let Some(error) = report.entries().into_iter().find(is_error) else { return Vec::new() };
        let path = report.source().path();
        let message = format!("{}:{}: {}", error.file, error.line, error.message);
        let (context, place) = (&self.announcer.context, |_: &str| self.ingress.next_event_place());
        context.failure_rows(&self.next.after, FailureKind::File, automation, place, || Occurrence {
            id: format!("file:{path}:{mark}:{instance}"),
            kind: FailureKind::File.as_str(),
            title: format!("a file does not load: {message}"),
            error: Some(ActionError::new(ErrorKind::Input, error.message.as_str())),
            file: Some((path.to_owned(), Some(error.line as u64))),
            page: automation.map_or_else(|| "/status".to_owned(), |it| format!("/automations/{}", it.id)),
            ..Occurrence::default()
        })
    }

    /// Returns the text by which the same change at another time is a different one.
    fn instance(&self) -> String {
        self.taken.map_or_else(|| self.now.clone(), |number| number.to_string())
    }
}

/// Returns the kinds of changes of an automation.
fn changes(old: Option<&ToldAutomation>, new: Option<&ToldAutomation>) -> Vec<&'static str> {
    let (old, new) = match (old, new) {
        (None, None) => return Vec::new(),
        (None, Some(_)) => return vec!["added"],
        (Some(_), None) => return vec!["removed"],
        (Some(old), Some(new)) => (old, new),
    };
    let mut kinds = Vec::new();
    match (old.enabled, new.enabled) {
        (false, true) => kinds.push("enabled"),
        (true, false) => kinds.push("disabled"),
        _ if old.definition != new.definition => kinds.push("changed"),
        _ => {}
    }
    match (old.stale, new.stale) {
        (false, true) => kinds.push("stale"),
        (true, false) => kinds.push("valid"),
        _ => {}
    }
    kinds
}

fn title_of_change(name: &str, kind: &str, is_in_force: bool) -> String {
    match kind {
        "stale" if is_in_force => {
            format!("{name} is stale: its file no longer loads, and its last good version is in force")
        }
        "stale" => format!("{name} is stale: its file does not load, and no version of it is in force"),
        "valid" => format!("{name} is valid again"),
        kind => format!("{name} was {kind}"),
    }
}
