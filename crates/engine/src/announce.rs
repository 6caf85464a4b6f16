//! Tells triggers on events of the engine of a reload: files that no longer load, and changes of automations.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use catalog::{AnnounceReload, Catalog, Deployment, Successor};
use ingress::Ingress;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, AutomationId};
use model::engine_event::FailureKind;
use runtime::{Context, Occurrence, content_mark, shared_place};
use store::{Accept, Generation, OutboxRow};
use text::diagnostic::{DiagnosticEntry, Report, Severity};

use crate::generations::Generations;

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
            after: &next.after,
            generation: self.generations.being_taken(),
            now: self.context.clock.now().to_string(),
        };
        let rows = match next.before.generation() {
            0 => announcement.first(next),
            _ => announcement.later(next),
        };
        self.write(rows).await
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
    /// The snapshot whose triggers hear of it.
    after: &'a Catalog,
    /// The deployed generation; `None` if the files come from the project folder.
    generation: Option<Generation>,
    now: String,
}

impl Announcement<'_> {
    /// Returns the rows for the files that do not load when the engine starts. Their contents are part of the ids, so that further
    /// starts do not tell of them again.
    fn first(&self, next: &Successor) -> Vec<OutboxRow> {
        let wrong = next.after.reports().filter(|report| report.has_errors());
        let rows = wrong.flat_map(|report| self.broken(report, None, &content_mark(report.source().text())));
        rows.collect()
    }

    /// Returns the rows for the changes of a reload.
    fn later(&self, next: &Successor) -> Vec<OutboxRow> {
        let (before, after, reload) = (&next.before, &next.after, &next.reload);
        let mut rows = Vec::new();
        for id in &reload.rechecked {
            rows.extend(self.changes(id, before.get(id), after.get(id)));
        }
        for id in &reload.stale {
            let Some(deployment) = after.get(id) else { continue };
            if let Some(report) = &deployment.stale {
                rows.extend(self.broken(report, Some(&deployment.automation), &self.instance()));
            }
        }
        // Connections, connectors and `project.yaml` stay in force in their last good version, too.
        let others =
            reload.reports.iter().filter(|report| !report.source().path().starts_with("automations/"));
        for report in others.filter(|report| report.has_errors()) {
            if before.error_of(report.source().path()).is_none() {
                rows.extend(self.broken(report, None, &self.instance()));
            }
        }
        rows
    }

    /// Returns the rows for the changes of one automation.
    fn changes(
        &self,
        id: &AutomationId,
        old: Option<&Arc<Deployment>>,
        new: Option<&Arc<Deployment>>,
    ) -> Vec<OutboxRow> {
        let mut kinds = Vec::new();
        match (old, new) {
            (None, Some(_)) => kinds.push("added"),
            (Some(_), None) => kinds.push("removed"),
            (None, None) => {}
            (Some(old), Some(new)) => {
                let (from, to) = (&old.automation, &new.automation);
                match (from.enabled, to.enabled) {
                    (false, true) => kinds.push("enabled"),
                    (true, false) => kinds.push("disabled"),
                    _ if from.definition != to.definition => kinds.push("changed"),
                    _ => {}
                }
                match (old.stale.is_some(), new.stale.is_some()) {
                    (false, true) => kinds.push("stale"),
                    (true, false) => kinds.push("valid"),
                    _ => {}
                }
            }
        }
        let Some(deployment) = new.or(old) else { return Vec::new() };
        kinds.into_iter().flat_map(|kind| self.change(id, kind, deployment)).collect()
    }

    fn change(&self, id: &AutomationId, kind: &'static str, deployment: &Deployment) -> Vec<OutboxRow> {
        let automation = &deployment.automation;
        let occurrence = format!("changed:{kind}:{id}:{}", self.instance());
        let place = |name: &str| self.place(name, &occurrence);
        self.announcer.context.change_rows(self.after, automation, place, || Occurrence {
            id: occurrence.clone(),
            kind,
            title: title_of_change(&automation.name, kind),
            file: Some((automation.source.path().to_owned(), None)),
            page: format!("/automations/{id}"),
            ..Occurrence::default()
        })
    }

    /// Returns the rows for a file that does not load.
    fn broken(&self, report: &Report, automation: Option<&Automation>, instance: &str) -> Vec<OutboxRow> {
        let is_error = |entry: &DiagnosticEntry| entry.severity == Severity::Error;
        let Some(error) = report.entries().into_iter().find(is_error) else { return Vec::new() };
        let path = report.source().path();
        let occurrence = format!("file:{path}:{instance}");
        let place = |name: &str| self.place(name, &occurrence);
        let message = format!("{}:{}: {}", error.file, error.line, error.message);
        let context = &self.announcer.context;
        context.failure_rows(self.after, FailureKind::File, automation, place, || Occurrence {
            id: occurrence.clone(),
            kind: FailureKind::File.as_str(),
            title: format!("a file does not load: {message}"),
            error: Some(ActionError::new(ErrorKind::Input, error.message.as_str())),
            file: Some((path.to_owned(), Some(error.line as u64))),
            page: automation.map_or_else(|| "/status".to_owned(), |it| format!("/automations/{}", it.id)),
            ..Occurrence::default()
        })
    }

    /// Returns the text by which the same change at another time is a different one: all nodes that take a generation have the same.
    fn instance(&self) -> String {
        self.generation.as_ref().map_or_else(|| self.now.clone(), |generation| generation.number.to_string())
    }

    fn place(&self, name: &str, occurrence: &str) -> model::ExecutionId {
        match &self.generation {
            Some(generation) => shared_place(generation.at, name, occurrence),
            None => self.ingress.next_event_place(),
        }
    }
}

fn title_of_change(name: &str, kind: &str) -> String {
    match kind {
        "stale" => {
            format!("{name} is stale: its file no longer loads, and its last good version is in force")
        }
        "valid" => format!("{name} is valid again"),
        kind => format!("{name} was {kind}"),
    }
}
