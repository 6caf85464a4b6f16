//! The folders of generations in the data folder. Each start recreates them, so nothing in them has to survive a crash.

use std::io;
use std::path::{Path, PathBuf};

use authoring::check_path;
use catalog::{Folder, ScanScope};
use store::{DeployedFile, GenerationSource};
use tempfile::TempDir;

use super::deploy::{Deploy, DeployError, deployable_files, same_files};
use crate::Engine;

/// The number of generations whose folders are kept: a test may still read an inactive generation.
const KEPT: u64 = 3;
/// The attempts to deploy the project folder while others deploy too.
const ATTEMPTS: usize = 3;

/// The folders of generations.
pub(super) struct DeployedFolders {
    root: PathBuf,
}

impl DeployedFolders {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Deletes what an earlier run left.
    pub(super) async fn clear(&self) {
        let root = self.root.clone();
        let cleared = tokio::task::spawn_blocking(move || match std::fs::remove_dir_all(&root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        if let Ok(Err(error)) = cleared.await {
            tracing::warn!(folder = %self.root.display(), %error, "the folder of earlier deployments cannot be deleted");
        }
    }

    /// Writes the files of a generation into a folder of its own, and returns that. It has all of them or does not exist.
    pub(super) async fn unpack(&self, number: u64, files: Vec<DeployedFile>) -> io::Result<PathBuf> {
        let draft = self.draft(files).await?;
        let target = self.root.join(number.to_string());
        let renamed = target.clone();
        let work = tokio::task::spawn_blocking(move || {
            // A file that an earlier attempt has left.
            let _ = std::fs::remove_dir_all(&renamed);
            std::fs::rename(draft.path(), &renamed)
        });
        work.await.map_err(io::Error::other)??;
        Ok(target)
    }

    /// Writes files into a folder that is deleted with the result.
    pub(super) async fn draft(&self, files: Vec<DeployedFile>) -> io::Result<TempDir> {
        let root = self.root.clone();
        let work = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(&root)?;
            let draft = tempfile::Builder::new().prefix(".draft-").tempdir_in(&root)?;
            for file in &files {
                check_path(&file.path).map_err(|error| io::Error::other(error.to_string()))?;
                let path = draft.path().join(&file.path);
                path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                std::fs::write(path, &file.text)?;
            }
            Ok(draft)
        });
        work.await.map_err(io::Error::other)?
    }

    /// Deletes the folders of all generations but the latest up to `number`.
    pub(super) async fn keep_latest(&self, number: u64) {
        let root = self.root.clone();
        let work = tokio::task::spawn_blocking(move || {
            for entry in std::fs::read_dir(root)?.flatten() {
                let name = entry.file_name();
                let of: Option<u64> = name.to_str().and_then(|name| name.parse().ok());
                if of.is_some_and(|of| of + KEPT <= number || of > number) {
                    std::fs::remove_dir_all(entry.path())?;
                }
            }
            Ok::<(), io::Error>(())
        });
        if let Ok(Err(error)) = work.await {
            tracing::warn!(folder = %self.root.display(), %error, "an earlier deployment cannot be deleted");
        }
    }
}

/// The project folder as it was deployed last, for a daemon that deploys each change of it.
pub(crate) struct FolderDeployment {
    folder: Folder,
    /// True while older daemons prevent a deployment, which is tried again with each scan.
    is_refused: bool,
}

impl FolderDeployment {
    /// The folder as it is now.
    pub(crate) async fn new(dir: &Path) -> Self {
        let mut deployment = Self { folder: Folder::new(dir), is_refused: false };
        deployment.scan(ScanScope::Full).await;
        deployment
    }

    /// Deploys the folder if files may have changed within this scope.
    pub(crate) async fn follow(&mut self, engine: &Engine, scope: ScanScope) {
        // Test files are deployed too, but a scan does not list them.
        let has_tests = match &scope {
            ScanScope::Paths(paths) => paths.iter().any(|path| is_test(path)),
            ScanScope::Full => false,
        };
        if self.scan(scope).await || has_tests || self.is_refused {
            self.is_refused = engine.deploy_folder(self.is_refused).await;
        }
    }

    /// Reads changed files again. Returns true if there are any.
    async fn scan(&mut self, scope: ScanScope) -> bool {
        let mut folder = self.folder.clone();
        let work = tokio::task::spawn_blocking(move || {
            let changed = folder.scan(&scope);
            (folder, !changed.is_empty())
        });
        let Ok((folder, has_changed)) = work.await else { return true };
        self.folder = folder;
        has_changed
    }
}

fn is_test(path: &Path) -> bool {
    path.to_str().is_some_and(model::test_suite::is_test_file)
}

impl Engine {
    /// Deploys and activates the project folder if its files differ from the newest generation. Errors are logged, and the newest
    /// generation stays active. `is_repeated` is true if older daemons have prevented it before, which is logged once. Returns true if they
    /// prevent it.
    pub(crate) async fn deploy_folder(&self, is_repeated: bool) -> bool {
        let dir = self.settings().dir.clone();
        let read = tokio::task::spawn_blocking(move || deployable_files(&dir));
        let Ok(files) = read.await else { return false };
        for _ in 0..ATTEMPTS {
            match self.deploy_folder_files(files.clone()).await {
                Err(DeployError::Overtaken { .. }) => {}
                Err(DeployError::OlderDaemons(_)) if is_repeated => return true,
                Err(error) => {
                    if let DeployError::Invalid(reports) | DeployError::OlderDaemons(reports) = &error {
                        for report in reports {
                            tracing::error!(file = report.source().path(), "\n{}", report.render(false));
                        }
                    }
                    tracing::error!(%error, "the project folder was not deployed");
                    return matches!(error, DeployError::OlderDaemons(_));
                }
                Ok(()) => return false,
            }
        }
        false
    }

    async fn deploy_folder_files(&self, files: Vec<catalog::ProjectFile>) -> Result<(), DeployError> {
        let store = self.store();
        let newest = store.generations(1).await?.into_iter().next();
        if let Some(newest) = &newest {
            let stored = store.deployed_files(newest.number).await?.unwrap_or_default();
            if same_files(&stored, &files) {
                return Ok(());
            }
            if newest.source != GenerationSource::Folder {
                let (generation, author) = (newest.number, &newest.author);
                tracing::warn!(generation, author, "the project folder replaces what was deployed otherwise");
            }
        }
        let own = store.node();
        let nodes = store.nodes().await?;
        let host =
            nodes.into_iter().find(|node| Some(node.id) == own).map_or_else(String::new, |node| node.host);
        let deploy = Deploy {
            files,
            author: format!("the project folder of {host}"),
            note: String::new(),
            follows: Some(newest.map_or(0, |newest| newest.number)),
            source: GenerationSource::Folder,
        };
        self.deploy(deploy).await.map(drop)
    }
}
