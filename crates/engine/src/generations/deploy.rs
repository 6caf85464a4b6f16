//! Deploys a generation: checks its files as `cogwork validate` does, and stores them.

use std::collections::BTreeMap;
use std::path::Path;

use authoring::{FileError, check_path, check_project};
use catalog::{Catalog, ProjectFile, RefusedLevel, ReloadSummary};
use model::automation::Level;
use store::{DeployOutcome, DeployedFile, Generation, GenerationSource, NewGeneration, News};
use text::diagnostic::Report;

use crate::Engine;

/// Maximum number of files of a generation.
const MAX_FILES: usize = 24_000;
/// Maximum number of bytes of its texts together.
const MAX_BYTES: usize = 32 << 20;
/// Maximum number of bytes of a note.
const MAX_NOTE: usize = 1000;
/// The attempts of a deployment that may follow any other.
const ATTEMPTS: usize = 5;

/// A generation to deploy.
#[derive(Clone, Debug)]
pub struct Deploy {
    /// All files of the project.
    pub files: Vec<ProjectFile>,
    /// The name of the person or program that deploys it.
    pub author: String,
    /// Its description.
    pub note: String,
    /// The number of the generation that it follows, 0 for none; `None` if it follows whichever is the newest.
    pub follows: Option<u64>,
    /// The way in which it came about.
    pub source: GenerationSource,
}

/// The result of a deployment.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// The newest generation.
    pub generation: Generation,
    /// False if it had these files before: then none was made.
    pub is_new: bool,
    /// The changes that it made on this node.
    pub reload: ReloadSummary,
}

/// The error of a deployment. Nothing was deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The store failed, or is not shared.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The files have errors.
    #[error("the files have errors")]
    Invalid(Vec<Report>),
    /// Daemons run on the store that do not know the level of the language that files need.
    #[error("daemons of an earlier release run on the store")]
    OlderDaemons(Vec<Report>),
    /// Another generation than the expected one is the newest.
    #[error(
        "generation {newest} is the newest, not {expected}; look at what was deployed meanwhile, and deploy again"
    )]
    Overtaken {
        /// The number of the newest generation.
        newest: u64,
        /// The expected number.
        expected: u64,
    },
    /// There is no such generation any more, or there never was.
    #[error("there is no generation {0}; the last 50 are kept")]
    Unknown(u64),
    /// There is nothing to deploy.
    #[error("the project has no files")]
    Empty,
    /// There is too much to deploy.
    #[error("a deployment has at most 24,000 files with 32 MiB, and a note of 1,000 bytes")]
    TooLarge,
    /// A path is not that of a project file.
    #[error(transparent)]
    Path(#[from] FileError),
    /// Two files have one path, or a file has the path of the folder of another.
    #[error("`{0}` and another file have one path, or one is in the place of the folder of the other")]
    Twice(String),
    /// A file could not be read where it comes from.
    #[error("`{path}` could not be read: {reason}")]
    Unreadable {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The files cannot be checked here.
    #[error("the files cannot be checked: {0}")]
    Checking(String),
}

/// Reads the files of a project folder that are deployed: automations, their code and tests, connections and connectors.
#[must_use]
pub fn deployable_files(dir: &Path) -> Vec<ProjectFile> {
    let mut files = catalog::project_files(dir);
    files.extend(authoring::read_test_files(dir));
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Returns true if a generation has these files and no others.
pub(super) fn same_files(stored: &[DeployedFile], files: &[ProjectFile]) -> bool {
    let files: BTreeMap<&str, &str> = files.iter().map(|file| (&*file.path, &*file.text)).collect();
    let is_same = |file: &DeployedFile| files.get(&*file.path) == Some(&&*file.text);
    stored.len() == files.len() && stored.iter().all(is_same)
}

impl Engine {
    /// Deploys a generation for all nodes, and puts it in force on this one.
    ///
    /// # Errors
    /// The files have errors, another generation is the newest, or the store is not shared or failed.
    pub async fn deploy(&self, deploy: Deploy) -> Result<Deployed, DeployError> {
        let files = checked(&deploy)?;
        let catalog = self.check_generation(&files).await?;
        let id = store::random()?;
        for _ in 0..ATTEMPTS {
            let newest = self.store().generations(1).await?.into_iter().next();
            let number = newest.as_ref().map_or(0, |newest| newest.number);
            let follows = deploy.follows.unwrap_or(number);
            if follows != number {
                return Err(DeployError::Overtaken { newest: number, expected: follows });
            }
            if let Some(newest) = newest
                && let Some(stored) = self.store().deployed_files(number).await?
                && same_files(&stored, &deploy.files)
            {
                return Ok(self.deployed(newest, false).await);
            }
            let new = NewGeneration {
                id,
                follows,
                author: deploy.author.clone(),
                note: deploy.note.clone(),
                source: deploy.source,
                files: files.clone(),
            };
            // Before any daemon can see the generation.
            self.raise_level(&catalog).await?;
            if let DeployOutcome::Deployed(generation) = self.store().deploy(new).await? {
                self.store().tell(None, News::Deployed);
                return Ok(self.deployed(generation, true).await);
            }
        }
        let newest = self.store().generations(1).await?.first().map_or(0, |newest| newest.number);
        Err(DeployError::Overtaken { newest, expected: deploy.follows.unwrap_or_default() })
    }

    /// Deploys the files of an earlier generation again, as the newest one.
    ///
    /// # Errors
    /// The errors of [`Engine::deploy`], and an unknown generation.
    pub async fn restore_generation(
        &self,
        number: u64,
        author: String,
        follows: Option<u64>,
    ) -> Result<Deployed, DeployError> {
        let files = self.store().deployed_files(number).await?.ok_or(DeployError::Unknown(number))?;
        let note = format!("generation {number} again");
        let files = files.into_iter().map(project_file).collect();
        self.deploy(Deploy { files, author, note, follows, source: GenerationSource::Restore }).await
    }

    async fn deployed(&self, generation: Generation, is_new: bool) -> Deployed {
        let reload = self.take_newest().await.unwrap_or_default();
        Deployed { generation, is_new, reload }
    }

    /// Gives the store the level of the language that the files need.
    async fn raise_level(&self, catalog: &Catalog) -> Result<(), DeployError> {
        let level = catalog.level();
        if level <= Level::FIRST {
            return Ok(());
        }
        match self.store().raise_level(level).await {
            Err(error @ store::Error::OlderDaemons { .. }) => {
                let refused = RefusedLevel { level, reason: error.to_string() };
                Err(DeployError::OlderDaemons(catalog.refused_by(&refused)))
            }
            raised => Ok(raised?),
        }
    }

    /// Checks files as `cogwork validate` does.
    async fn check_generation(&self, files: &[DeployedFile]) -> Result<Catalog, DeployError> {
        let failed = |reason: String| DeployError::Checking(reason);
        let draft = self.generations.folders.draft(files.to_vec()).await;
        let draft = draft.map_err(|error| failed(error.to_string()))?;
        let checked = tokio::task::spawn_blocking(move || check_project(draft.path(), &[]));
        let checked = checked.await.map_err(|error| failed(error.to_string()))?;
        let checked = checked.map_err(|error| failed(error.to_string()))?;
        if checked.errors() == 0 {
            return Ok(checked.catalog);
        }
        let wrong = checked.reports.into_iter().filter(Report::has_errors).collect();
        Err(DeployError::Invalid(wrong))
    }
}

/// Returns the file as a client would have read it.
pub(super) fn project_file(file: DeployedFile) -> ProjectFile {
    ProjectFile { path: file.path, text: file.text, problem: None }
}

/// Checks the bounds and paths of a deployment. Returns its files.
fn checked(deploy: &Deploy) -> Result<Vec<DeployedFile>, DeployError> {
    let bytes: usize = deploy.files.iter().map(|file| file.text.len()).sum();
    if deploy.files.len() > MAX_FILES || bytes > MAX_BYTES || deploy.note.len() > MAX_NOTE {
        return Err(DeployError::TooLarge);
    }
    if deploy.files.is_empty() {
        return Err(DeployError::Empty);
    }
    let mut files = BTreeMap::new();
    for file in &deploy.files {
        if let Some(reason) = &file.problem {
            return Err(DeployError::Unreadable { path: file.path.clone(), reason: reason.clone() });
        }
        check_path(&file.path)?;
        if files.insert(file.path.clone(), file.text.clone()).is_some() {
            return Err(DeployError::Twice(file.path.clone()));
        }
    }
    let is_folder = |folder: &Path| folder.to_str().is_some_and(|folder| files.contains_key(folder));
    if let Some(path) = files.keys().find(|path| Path::new(path).ancestors().skip(1).any(is_folder)) {
        return Err(DeployError::Twice(path.clone()));
    }
    Ok(files.into_iter().map(|(path, text)| DeployedFile { path, text }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deploy(texts: Vec<String>, note: usize) -> Deploy {
        let file = |(number, text): (usize, String)| ProjectFile {
            path: format!("automations/f{number}.yaml"),
            text,
            problem: None,
        };
        Deploy {
            files: texts.into_iter().enumerate().map(file).collect(),
            author: "ada".to_owned(),
            note: "n".repeat(note),
            follows: None,
            source: GenerationSource::Push,
        }
    }

    #[test]
    fn a_deployment_limits_its_files_its_bytes_and_its_note() {
        let fits = |texts: Vec<String>, note: usize| checked(&deploy(texts, note)).is_ok();
        let is_too_large = |texts: Vec<String>, note: usize| {
            matches!(checked(&deploy(texts, note)), Err(DeployError::TooLarge))
        };
        let text = |bytes: usize| vec!["x".repeat(bytes)];
        assert!(
            fits(vec![String::new(); MAX_FILES], 0) && is_too_large(vec![String::new(); MAX_FILES + 1], 0)
        );
        assert!(fits(text(MAX_BYTES), 0) && is_too_large(text(MAX_BYTES + 1), 0));
        assert!(fits(text(1), MAX_NOTE) && is_too_large(text(1), MAX_NOTE + 1));
    }
}
