//! A project folder of its own for each test, gone when the test ends.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::canary;

/// A project folder: `automations/`, `connections/`, `secrets/`, and the files that a daemon makes beside them.
#[derive(Debug)]
pub struct Project {
    dir: TempDir,
}

impl Project {
    /// An empty project.
    ///
    /// # Errors
    /// The system gives no temporary folder.
    pub fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// An empty project in a folder of its own within this one.
    ///
    /// # Errors
    /// The system refuses.
    pub fn within(parent: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("cogwork-").tempdir_in(parent)?;
        for folder in ["automations", "connections", "secrets"] {
            fs::create_dir(dir.path().join(folder))?;
        }
        Ok(Self { dir })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The data directory of a daemon of this project.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join(".cogwork")
    }

    /// Writes `automations/<name>.yaml` in place.
    ///
    /// # Errors
    /// The system refuses.
    pub fn automation(&self, name: &str, yaml: &str) -> io::Result<()> {
        self.write(&format!("automations/{name}.yaml"), yaml)
    }

    /// Writes `connections/<name>.yaml` in place.
    ///
    /// # Errors
    /// The system refuses.
    pub fn connection(&self, name: &str, yaml: &str) -> io::Result<()> {
        self.write(&format!("connections/{name}.yaml"), yaml)
    }

    /// Writes the secret called `name`. Its value must be recognisable in any leak.
    ///
    /// # Errors
    /// It carries no mark of [`canary`], or the system refuses.
    pub fn secret(&self, name: &str, value: &str) -> io::Result<()> {
        if !canary::is_marked(value) {
            return Err(io::Error::other(format!("`{name}` is no canary: take `canary::secret`")));
        }
        self.write(&format!("secrets/{name}"), value)
    }

    /// Writes a file in place, as `echo > file` does: a reader at the wrong moment sees half of it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        fs::write(self.dir.path().join(path), text)
    }

    /// Puts a new file in the place of one, as editors save: written beside it, synced, renamed.
    ///
    /// # Errors
    /// The system refuses.
    pub fn replace(&self, path: &str, text: &str) -> io::Result<()> {
        let place = self.dir.path().join(path);
        let draft = place.with_extension("yaml.swp");
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(draft, place)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// The system refuses.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.path().join(from), self.dir.path().join(to))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.dir.path().join(path))
    }
}

/// The root of the repository that this crate is part of.
pub fn repository() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().unwrap_or(crate_dir).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_deleted_when_it_is_dropped() {
        let project = Project::new().unwrap();
        project.automation("a", "trigger: {manual: {}}").unwrap();
        project.replace("automations/a.yaml", "steps: []").unwrap();
        let file = project.path().join("automations/a.yaml");
        assert_eq!(fs::read_to_string(&file).unwrap(), "steps: []");
        assert_eq!(fs::read_dir(project.path().join("automations")).unwrap().count(), 1);
        drop(project);
        assert!(!file.exists());
    }

    #[test]
    fn the_repository_contains_this_crate() {
        assert!(repository().join("tests/src/project.rs").is_file());
    }
}
