//! Changes of project files by people, and the reload or the deployment that follows.

use std::io;
use std::sync::Arc;

use authoring::{ExpectedVersion, FileError, MAX_FILE_BYTES, ProjectText, check_path};
use catalog::ReloadSummary;
use language::edit::{Operation, edit_file};
use model::automation::DeclaredTrigger;
use serde_json::Value;
use text::diagnostic::Source;
use text::yaml::edit::Segment;

use crate::{DeployError, Engine};

/// Error of changing a project file in force.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file cannot be read or changed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change cannot be made in place.
    #[error(transparent)]
    InPlace(#[from] text::yaml::edit::EditError),
    /// There is no such automation.
    #[error(transparent)]
    Unknown(#[from] catalog::Error),
    /// The change cannot be deployed.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// The deployed definitions come from the project folder of a daemon.
    #[error(
        "the definitions in force are deployed from {0}; change the file there, or deploy others with `cogwork push`"
    )]
    OfFolder(String),
    /// Others deployed again and again meanwhile.
    #[error("other definitions were deployed meanwhile; try again")]
    Overtaken,
}

impl Engine {
    /// Reads a project file.
    ///
    /// # Errors
    /// The path is not that of a project file, or the file cannot be read.
    pub async fn read_file(&self, path: String) -> Result<ProjectText, EditError> {
        let root = self.project_dir();
        let read = tokio::task::spawn_blocking(move || {
            check_path(&path)?;
            let file = authoring::read_file(&root, &path)?;
            Ok(file.ok_or(FileError::Missing(path))?)
        });
        read.await.unwrap_or_else(|error| Err(ended_early(error).into()))
    }

    /// Replaces a project file with `text`, or deletes it if that is `None`; then reloads the project. While deployed definitions are in
    /// force, the change by `author` is deployed for all nodes. Returns the new version, `None` after a deletion.
    ///
    /// # Errors
    /// The path is not that of a project file, the file is not in the expected version, or it cannot be written. Nothing changed then.
    pub async fn write_file(
        &self,
        path: String,
        text: Option<String>,
        expected: ExpectedVersion,
        author: &str,
    ) -> Result<(Option<String>, ReloadSummary), EditError> {
        if let Some(bytes) = text.as_deref().map(str::len).filter(|bytes| *bytes > MAX_FILE_BYTES) {
            return Err(FileError::TooLarge(bytes).into());
        }
        if self.deploys_edits() {
            let _one_at_a_time = self.edits.lock().await;
            return self.deploy_edit(&path, text.as_deref(), &expected, author).await;
        }
        let root = self.settings().dir.clone();
        let written = {
            let _one_at_a_time = self.edits.lock().await;
            let work = tokio::task::spawn_blocking(move || {
                check_path(&path)?;
                authoring::write_file(&root, &path, text.as_deref(), &expected)
            });
            work.await.unwrap_or_else(|error| Err(ended_early(error)))?
        };
        Ok((written, self.reload().await))
    }

    /// Sets the key `enabled` in the file of an automation, or of one of its triggers (`orders/paid`), and reloads. Returns the
    /// file's new version. Without a change nothing is written.
    ///
    /// # Errors
    /// There is no such automation or trigger, the file is not in the expected version, the key cannot be changed in place, or the file
    /// cannot be written.
    pub async fn set_enabled(
        &self,
        name: &str,
        enabled: bool,
        expected: Option<String>,
        author: &str,
    ) -> Result<(String, ReloadSummary), EditError> {
        let catalog = self.catalog();
        let trigger = match name.contains('/') {
            true => Some(catalog.find_trigger(name, |_| true)?.declared().id.clone()),
            false => None,
        };
        let id = name.split_once('/').map_or(name, |(automation, _)| automation);
        let path = catalog.find(id)?.automation.source.path().to_owned();
        let found = self.read_file(path.clone()).await?;
        if expected.is_some_and(|expected| expected != found.version) {
            return Err(FileError::Changed(Some(found)).into());
        }
        let source = Arc::new(Source::new(path.as_str(), found.text.as_str()));
        let loaded = language::load::automation(source, catalog::stem(&path));
        let written = loaded.for_checking().map(|(automation, _)| automation);
        let (mut at, now) = match (trigger, written) {
            (None, written) => (Vec::new(), written.map(|automation| automation.enabled)),
            (Some(trigger), written) => {
                let mut written =
                    written.into_iter().flat_map(|automation| automation.triggers.iter().enumerate());
                let found = written.find(|(_, declared)| declared.id == trigger);
                let now = found.map(|(_, declared)| declared.enabled.unwrap_or(true));
                (found.map_or_else(Vec::new, |(index, declared)| trigger_path(index, declared)), now)
            }
        };
        if now == Some(enabled) {
            let generation = catalog.generation();
            return Ok((found.version, ReloadSummary { generation, ..ReloadSummary::default() }));
        }
        at.push(Segment::Key("enabled".to_owned()));
        let operation = Operation::Set { at, value: Value::Bool(enabled) };
        let edited = edit_file(&path, &found.text, &[operation])?;
        let expected = ExpectedVersion::Is(found.version);
        let (version, reload) = self.write_file(path, Some(edited.text), expected, author).await?;
        Ok((version.unwrap_or_default(), reload))
    }
}

/// Returns the path of a trigger in its file: `trigger`, or its item of `triggers`.
fn trigger_path(index: usize, declared: &DeclaredTrigger) -> Vec<Segment> {
    // The id of the key `trigger` has no place of its own.
    if declared.id_span == declared.span {
        return vec![Segment::Key("trigger".to_owned())];
    }
    vec![Segment::Key("triggers".to_owned()), Segment::Index(index)]
}

fn ended_early(error: tokio::task::JoinError) -> FileError {
    FileError::Io { path: String::new(), error: io::Error::other(error) }
}
