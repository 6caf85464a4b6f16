//! Paths as people give them, and as a project knows its files.

use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

/// A file or folder that a person named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Below the project folder: its path relative to it.
    Inside(PathBuf),
    /// Elsewhere: the path as given.
    Outside(PathBuf),
}

/// Where `path`, which is relative to the working directory, stands to the project folder `dir`.
///
/// # Errors
/// There is no such file or folder.
pub(crate) fn resolve(dir: &Path, path: &Path) -> anyhow::Result<Named> {
    let found = path.canonicalize().with_context(|| format!("cannot find `{}`", path.display()))?;
    let root =
        dir.canonicalize().with_context(|| format!("cannot find the project folder `{}`", dir.display()))?;
    if let Ok(below) = found.strip_prefix(&root) {
        return Ok(Named::Inside(below.to_owned()));
    }
    // A link inside the project may lead out of it; the project knows the file by its name inside.
    let written = lexical(&std::path::absolute(path)?);
    Ok(match written.strip_prefix(lexical(&std::path::absolute(dir)?)) {
        Ok(below) => Named::Inside(below.to_owned()),
        Err(_) => Named::Outside(path.to_owned()),
    })
}

/// A path as people are shown it: without a `./` before it.
pub(crate) fn shown(path: &Path) -> std::path::Display<'_> {
    path.strip_prefix(".").unwrap_or(path).display()
}

/// The path without `.` and `..`, as it is written.
fn lexical(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut clean, component| {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
        clean
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_file_is_named_by_its_path_in_the_project() {
        let dir = tempfile::tempdir().expect("a folder");
        let project = dir.path().join("project");
        std::fs::create_dir_all(project.join("automations")).expect("folders");
        std::fs::write(project.join("automations/a.yaml"), "").expect("a file");
        std::fs::write(dir.path().join("b.yaml"), "").expect("a file");
        let inside = Named::Inside("automations/a.yaml".into());
        assert_eq!(resolve(&project, &project.join("./automations/a.yaml")).expect("found"), inside);
        assert_eq!(resolve(&project, &project.join("../project/automations/a.yaml")).expect("found"), inside);
        let outside = project.join("../b.yaml");
        assert_eq!(resolve(&project, &outside).expect("found"), Named::Outside(outside));
        assert!(resolve(&project, &project.join("c.yaml")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_symlink_in_the_project_is_a_project_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let project = dir.path().join("project");
        std::fs::create_dir(&project).expect("a folder");
        std::fs::write(dir.path().join("b.yaml"), "").expect("a file");
        std::os::unix::fs::symlink(dir.path().join("b.yaml"), project.join("link.yaml")).expect("a link");
        assert_eq!(
            resolve(&project, &project.join("link.yaml")).expect("found"),
            Named::Inside("link.yaml".into())
        );
    }
}
