//! The lock of shared connectors, and the warnings of manifests that differ from it.

use std::sync::Arc;

use text::diagnostic::{Report, Source};

use super::Catalog;
use super::file::Content;
use crate::connector_lock::{CONNECTOR_LOCK, ConnectorLock, changed_manifests};

impl Catalog {
    /// Returns the lock of shared connectors.
    ///
    /// # Errors
    /// Returns the report of a lock that cannot be read. A project without one has no shared connectors.
    fn connector_lock(&self) -> Result<Arc<ConnectorLock>, Arc<Report>> {
        match self.folder.get(CONNECTOR_LOCK).map(|file| &file.content) {
            Some(Content::ConnectorLock(lock)) => lock.clone(),
            _ => Ok(Arc::default()),
        }
    }

    /// Adds the warnings of manifests that differ from the lock to the reports of manifests, and a report of the lock.
    pub(super) fn with_lock_warnings(&self, mut reports: Vec<Report>) -> Vec<Report> {
        let lock = match self.connector_lock() {
            Ok(lock) => lock,
            Err(unreadable) => {
                reports.push(Report::clone(&unreadable));
                return reports;
            }
        };
        let source = |path: &str| -> Option<Arc<Source>> { Some(self.folder.get(path)?.source.clone()) };
        for (path, warnings) in changed_manifests(&lock, &source) {
            let known = reports.iter_mut().find(|report| report.source().path() == path);
            match (known, source(&path)) {
                (Some(report), _) => *report = report.with(warnings),
                (None, Some(source)) => reports.push(Report::new(source, warnings)),
                (None, None) => {}
            }
        }
        reports
    }
}
