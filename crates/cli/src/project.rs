//! Loads the files of a project without a daemon.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use authoring::ProjectCheck;
use catalog::{Catalog, Deployment, FileKind, InvalidFile};
use model::project::PROJECT_FILE;

use crate::exit::CommandError;
use crate::paths::{self, Named};
use crate::{output, settings};

/// The path for standard input.
pub(crate) const STDIN: &str = "-";
/// The error for paths without a project file.
pub(crate) const NO_FILE: &str = "these paths hold no automation, connection or connector of the project";

/// Paths named by a user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SortedPaths {
    /// Files and folders of the project, relative to it.
    pub(crate) inside: Vec<PathBuf>,
    /// Files that the daemon would not load, as given.
    pub(crate) outside: Vec<PathBuf>,
}

/// Sorts paths by whether they belong to the project `dir`.
///
/// # Errors
/// A path does not exist, or is a folder outside of the project.
pub(crate) fn sort_paths(dir: &Path, paths: &[PathBuf]) -> anyhow::Result<SortedPaths> {
    let mut sorted = SortedPaths::default();
    for path in paths {
        if path == Path::new(STDIN) {
            sorted.outside.push(path.clone());
            continue;
        }
        match paths::resolve(dir, path)? {
            // The project folder itself: everything in it.
            Named::Inside(below) if below.as_os_str().is_empty() => {
                sorted.inside.extend(
                    FileKind::FOLDERS.into_iter().chain([PROJECT_FILE, settings::FILE]).map(PathBuf::from),
                );
            }
            // A draft somewhere in the project.
            Named::Inside(below) if path.is_file() && !is_of_project(&below) => {
                sorted.outside.push(path.clone())
            }
            Named::Inside(below) => sorted.inside.push(below),
            Named::Outside(path) if path.is_file() => sorted.outside.push(path),
            Named::Outside(path) => return Err(outside(&path)),
        }
    }
    Ok(sorted)
}

/// The error about a path outside of the project.
pub(crate) fn outside(path: &Path) -> anyhow::Error {
    CommandError::usage(format!("`{}` is outside the project; name the project with --dir", path.display()))
}

/// True if the daemon would load this path below the project folder.
fn is_of_project(below: &Path) -> bool {
    [PROJECT_FILE, settings::FILE].iter().any(|file| below == Path::new(file))
        || FileKind::FOLDERS.iter().any(|folder| below.starts_with(folder))
}

/// Checks the project folder, or only the files at or below `paths`, which are relative to it.
///
/// # Errors
/// The folder is not a project, or the built-in connectors do not load.
pub(crate) fn check(dir: &Path, paths: &[PathBuf]) -> anyhow::Result<ProjectCheck> {
    require(dir)?;
    Ok(authoring::check_project(dir, paths)?)
}

/// Checks that the folder contains a project.
///
/// # Errors
/// It does not, or it cannot be read; the message suggests `init`.
pub(crate) fn require(dir: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        is_project(dir)?,
        "`{}` is no project: it has no folder `automations`; make one with `cogwork init`, or name another with --dir",
        dir.display()
    );
    Ok(())
}

/// Returns true if the folder contains a project.
///
/// # Errors
/// The folder, or a folder of the project in it, cannot be read.
pub(crate) fn is_project(dir: &Path) -> anyhow::Result<bool> {
    let mut is_project = settings::exists(dir);
    readable(dir)?;
    for folder in FileKind::FOLDERS {
        is_project |= readable(&dir.join(folder))?;
    }
    Ok(is_project)
}

/// Returns true if the folder exists and can be read, false if it does not exist.
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
    /// A file outside the project.
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
        // The path may be relative to the working directory or to the project folder.
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

/// The requested automation of the project. Prints the errors of a file that does not load.
///
/// # Errors
/// There is no such automation, or its file does not load.
pub(crate) fn find<'c>(
    catalog: &'c Catalog,
    wanted: &str,
    is_file: bool,
) -> anyhow::Result<&'c Arc<Deployment>> {
    let of_file =
        |path: &str| catalog.automations().find(|deployed| deployed.automation.source.path() == path);
    let found = if is_file { of_file(wanted) } else { catalog.find(wanted).ok() };
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

/// A file name without folder and extension: the default id.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_project_if_the_daemon_loads_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let project = dir.path().join("project");
        std::fs::create_dir_all(project.join("automations")).expect("folders");
        let draft = project.join("draft.yaml");
        for path in [&project.join("automations/a.yaml"), &draft] {
            std::fs::write(path, "").expect("written");
        }
        let sorted = |path: &Path| sort_paths(&project, &[path.to_owned()]).ok();
        let inside = |paths: &[&str]| SortedPaths {
            inside: paths.iter().map(PathBuf::from).collect(),
            outside: Vec::new(),
        };
        let outside = |path: &Path| SortedPaths { inside: Vec::new(), outside: vec![path.to_owned()] };
        assert_eq!(sorted(&project.join("automations/a.yaml")), Some(inside(&["automations/a.yaml"])));
        assert_eq!(
            sorted(&project),
            Some(inside(&["connectors", "connections", "automations", "project.yaml", "cogwork.yaml"]))
        );
        assert_eq!(sorted(&draft), Some(outside(&draft)));
        assert_eq!(sorted(Path::new(STDIN)), Some(outside(Path::new(STDIN))));
        assert_eq!(sorted(dir.path()), None, "a folder outside");
        assert_eq!(sorted(&project.join("missing.yaml")), None);
    }
}
