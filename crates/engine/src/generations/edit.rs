//! Changes of single files by people while deployed definitions are in force: each is a generation of its own, so that it holds on all
//! nodes.

use authoring::{ExpectedVersion, FileError, ProjectText, check_path, version_of};
use catalog::ReloadSummary;
use store::{DeployedFile, GenerationSource};

use super::deploy::{Deploy, DeployError, project_file};
use crate::EditError;
use crate::Engine;

/// The attempts to change a file while others deploy too.
const ATTEMPTS: usize = 5;

impl Engine {
    /// Returns true if a change of a file has to be deployed.
    pub(crate) fn deploys_edits(&self) -> bool {
        !self.settings().auto_deploy && self.generations.running().is_some()
    }

    /// Replaces a file of the newest generation, or deletes it if `text` is `None`, and deploys the result. Returns the new version,
    /// `None` after a deletion.
    ///
    /// # Errors
    /// The file is not in the expected version, the project would have errors, or the definitions come from the folder of a daemon.
    pub(crate) async fn deploy_edit(
        &self,
        path: &str,
        text: Option<&str>,
        expected: &ExpectedVersion,
        author: &str,
    ) -> Result<(Option<String>, ReloadSummary), EditError> {
        check_path(path)?;
        for _ in 0..ATTEMPTS {
            let newest = self.store().generations(1).await.map_err(DeployError::from)?.into_iter().next();
            let Some(newest) = newest else { break };
            if newest.source == GenerationSource::Folder {
                return Err(EditError::OfFolder(newest.author));
            }
            let files = self.store().deployed_files(newest.number).await.map_err(DeployError::from)?;
            let mut files = files.unwrap_or_default();
            let found = files.iter().find(|file| file.path == path);
            check_version(found, expected)?;
            let note = match (found, text) {
                (_, None) => format!("{path} deleted"),
                (None, Some(_)) => format!("{path} added"),
                (Some(_), Some(_)) => format!("{path} changed"),
            };
            files.retain(|file| file.path != path);
            files.extend(text.map(|text| DeployedFile { path: path.to_owned(), text: text.to_owned() }));
            let deploy = Deploy {
                files: files.into_iter().map(project_file).collect(),
                author: author.to_owned(),
                note: note.chars().take(200).collect(),
                follows: Some(newest.number),
                source: GenerationSource::Edit,
            };
            match self.deploy(deploy).await {
                Err(DeployError::Overtaken { .. }) => {}
                deployed => return Ok((text.map(version_of), deployed?.reload)),
            }
        }
        Err(EditError::Overtaken)
    }
}

fn check_version(found: Option<&DeployedFile>, expected: &ExpectedVersion) -> Result<(), FileError> {
    let is_expected = match (found, expected) {
        (Some(found), ExpectedVersion::Is(version)) => version_of(&found.text) == *version,
        (None, ExpectedVersion::Missing) => true,
        _ => false,
    };
    if is_expected {
        return Ok(());
    }
    Err(FileError::Changed(
        found.map(|file| ProjectText { text: file.text.clone(), version: version_of(&file.text) }),
    ))
}
