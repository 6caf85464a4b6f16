//! Loading the files of a project without a daemon.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use engine::{Catalog, Deployment, InvalidFile, ProjectCheck};

use crate::output;
use crate::paths::{self, Named};

/// The folders of a project whose files count.
const FOLDERS: [&str; 3] = ["automations", "connections", "connectors"];

/// Checks the project folder, or only the files at or below `paths`, which are relative to it.
///
/// # Errors
/// The folder is no project, or the connectors that come with Cogwork do not load.
pub(crate) fn check(dir: &Path, paths: &[PathBuf]) -> anyhow::Result<ProjectCheck> {
    require(dir)?;
    Ok(engine::check_project(dir, paths)?)
}

/// That the folder holds a project.
///
/// # Errors
/// It does not, or it cannot be read; the message says how to make one.
pub(crate) fn require(dir: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        is_project(dir)?,
        "`{}` is no project: it has no folder `automations`; make one with `cogwork init`, or name another with --dir",
        dir.display()
    );
    Ok(())
}

/// Returns true if the folder holds a project.
///
/// # Errors
/// The folder, or a folder of the project in it, cannot be read.
pub(crate) fn is_project(dir: &Path) -> anyhow::Result<bool> {
    let mut is_project = crate::settings::exists(dir);
    readable(dir)?;
    for folder in FOLDERS {
        is_project |= readable(&dir.join(folder))?;
    }
    Ok(is_project)
}

/// Returns true if the folder is there and can be read, false if it does not exist.
fn readable(folder: &Path) -> anyhow::Result<bool> {
    match folder.read_dir() {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(anyhow::anyhow!(
            "cannot read `{}`: {error}; correct the permissions, or run this as the user of the daemon",
            folder.display()
        )),
    }
}

/// The name of an automation on the command line: its id, or its file.
pub(crate) enum AutomationRef {
    /// The id of an automation in the project.
    Id(String),
    /// A file of the project, by its path relative to the project folder.
    File(String),
    /// A file somewhere else.
    ExternalFile(PathBuf),
}

impl AutomationRef {
    /// Parses `text` as a file or an id.
    ///
    /// # Errors
    /// It looks like a file that does not exist.
    pub(crate) fn parse(dir: &Path, text: &str) -> anyhow::Result<Self> {
        let path = Path::new(text);
        let looks_like_a_file =
            text.ends_with(".yaml") || text.ends_with(".yml") || text.contains(['/', '\\']);
        if !looks_like_a_file {
            return Ok(Self::Id(text.to_owned()));
        }
        // The path may be meant from here, or from the project folder.
        let below = dir.join(path);
        let path = if !path.exists() && below.exists() { below.as_path() } else { path };
        Ok(match paths::resolve(dir, path)? {
            Named::Inside(inside) if inside.starts_with("automations") => Self::File(slashed(&inside)?),
            Named::Inside(_) => Self::ExternalFile(path.to_owned()),
            Named::Outside(outside) => Self::ExternalFile(outside),
        })
    }
}

fn slashed(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("`{}` is not UTF-8", path.display()))?;
    Ok(text.replace(std::path::MAIN_SEPARATOR, "/"))
}

/// The automation of the project that is wanted. Where its file does not load, that is shown.
///
/// # Errors
/// There is none, or its file does not load.
pub(crate) fn find<'c>(catalog: &'c Catalog, wanted: &str, is_file: bool) -> anyhow::Result<&'c Deployment> {
    let of_file =
        |path: &str| catalog.automations().find(|deployed| deployed.automation.source.path() == path);
    let found = if is_file {
        of_file(wanted).map(AsRef::as_ref)
    } else {
        catalog.find(wanted).ok().map(AsRef::as_ref)
    };
    if let Some(found) = found {
        return Ok(found);
    }
    let is_it = |broken: &&InvalidFile| broken.path == wanted || (!is_file && stem(&broken.path) == wanted);
    if let Some(broken) = catalog.invalid_files().into_iter().find(is_it) {
        output::reports([&*broken.report]);
        anyhow::bail!("`{}` does not load", broken.path);
    }
    if is_file {
        anyhow::bail!("`{wanted}` is no automation of the project");
    }
    Err(catalog
        .find(wanted)
        .err()
        .map_or_else(|| anyhow::anyhow!("there is no automation `{wanted}`"), Into::into))
}

/// A file's name without folder and ending: the id where the file gives none.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml")).unwrap_or(name)
}
