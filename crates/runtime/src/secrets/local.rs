//! The sources on this machine: the store, files and the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::secret_variable;
use connector::secret_provider::{Credential, Credentials};
use value::{Secret, mime};
use zeroize::Zeroizing;

use super::sources::SourceKind;
use crate::error::Error;
use crate::vault::{self, RowKind, Vault};

/// Maximum size of a secret's file, in bytes.
const MAX_SECRET: u64 = 64 << 10;
/// Maximum number of listed files.
const MAX_LISTED: usize = 1000;

/// The sources on this machine. They are read at each use, so that a changed secret applies at once.
pub(super) struct LocalSources {
    pub(super) vault: Option<Arc<Vault>>,
    pub(super) folder: PathBuf,
}

impl LocalSources {
    /// Reads a secret from one of the sources; `None` if it has none of this name.
    ///
    /// # Errors
    /// Returns an error if the store has the secret and it cannot be decrypted.
    pub(super) fn read(&self, source: &SourceKind, name: &str) -> Result<Option<Zeroizing<String>>, Error> {
        match source {
            SourceKind::Store => match &self.vault {
                Some(vault) => vault.read(RowKind::Secret, name),
                None => Ok(None),
            },
            SourceKind::Files => Ok(read_file(&self.folder.join(name))),
            SourceKind::Environment => Ok(std::env::var(secret_variable(name)).ok().map(Zeroizing::new)),
            SourceKind::Provider(_) => Ok(None),
        }
    }
}

impl Credentials for LocalSources {
    fn read(&self, credential: &Credential) -> Result<Secret, String> {
        match credential {
            Credential::Secret(name) => {
                for source in [SourceKind::Store, SourceKind::Files, SourceKind::Environment] {
                    let found = Self::read(self, &source, name).map_err(|error| error.to_string())?;
                    if let Some(found) = found {
                        return Ok(Secret::new(&*found));
                    }
                }
                let how_to_set = catalog::how_to_set_secret(name);
                Err(format!("the secret `{name}` of its login is not set; {how_to_set}"))
            }
            Credential::File(path) => {
                let found = read_file(path).filter(|text| !text.is_empty());
                let found = found.map(|text| Secret::new(&*text));
                found.ok_or_else(|| format!("the file `{}` of its login cannot be read", path.display()))
            }
            Credential::Variable(name) => {
                let found = std::env::var(name).ok().filter(|text| !text.is_empty()).map(Zeroizing::new);
                let found = found.map(|text| Secret::new(&*text));
                found.ok_or_else(|| {
                    format!("the variable `{name}` is not set; set it, or name a secret in its settings")
                })
            }
        }
    }

    fn is_set(&self, variable: &str) -> bool {
        std::env::var_os(variable).is_some_and(|value| !value.is_empty())
    }
}

/// Reads a small text file, without the line break at its end; `None` without the file.
fn read_file(path: &Path) -> Option<Zeroizing<String>> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_SECRET {
        return None;
    }
    let bytes = std::fs::read(path).map(Zeroizing::new).ok()?;
    let text = Zeroizing::new(mime::decode_exact(&bytes, None)?.into_owned());
    Some(Zeroizing::new(Secret::in_file(&text).to_owned()))
}

/// Lists the names of secrets in a folder of files, sorted; empty if the folder does not exist.
#[must_use]
pub fn secret_files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().take(MAX_LISTED).flatten();
    let names =
        files.filter(|file| file.path().is_file()).filter_map(|file| file.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| vault::is_name(name)).collect();
    names.sort_unstable();
    names
}

/// Lists the secret files in a folder that group or others can read or write, sorted.
#[must_use]
pub fn exposed_secret_files(folder: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_exposed =
        |file: &PathBuf| std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o066 != 0);
    secret_files(folder).into_iter().map(|name| folder.join(name)).filter(is_exposed).collect()
}

/// Returns true if a source has a secret: the folder of files, or the environment. The store and providers are not looked into.
#[must_use]
pub fn is_secret_set(source: &SourceKind, folder: &Path, name: &str) -> bool {
    let file = folder.join(name);
    vault::is_name(name)
        && match source {
            SourceKind::Files => {
                std::fs::metadata(&file).is_ok_and(|found| found.is_file() && found.len() <= MAX_SECRET)
            }
            SourceKind::Environment => std::env::var_os(secret_variable(name)).is_some(),
            SourceKind::Store | SourceKind::Provider(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn secret_files_readable_by_others_are_listed() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        for (name, mode) in [("own", 0o600), ("group", 0o640), ("all", 0o666), ("no-name!", 0o666)] {
            let path = folder.path().join(name);
            std::fs::write(&path, "s3cret").expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is set");
        }
        let names = exposed_secret_files(folder.path())
            .into_iter()
            .map(|path| path.file_name().map(ToOwned::to_owned));
        assert_eq!(names.flatten().collect::<Vec<_>>(), ["all", "group"]);
        assert!(exposed_secret_files(&folder.path().join("none")).is_empty());
    }
}
