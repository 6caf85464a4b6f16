//! Checks that the files folder does not expose anything that automations must not access.

use std::path::{Path, PathBuf};

use super::Config;

/// Checks that `filesDir` does not equal, contain or lie within the data folder, the secrets folder or
/// `automations/`: `files.read` would expose the admin token, and `files.write` could write automations.
///
/// # Errors
/// It does; the message suggests another folder.
pub(super) fn check(config: &Config) -> Result<(), String> {
    let Some(files) = &config.files_dir else { return Ok(()) };
    let resolved = resolve(files);
    let store = config
        .store
        .as_ref()
        .and_then(engine::stores::Location::path)
        .map(|store| if store.is_dir() { store } else { parent(store) });
    let kept = [
        Some((config.data_dir.as_path(), "the data folder")),
        store.map(|store| (store, "the folder of the store")),
        Some((config.secrets_dir.as_path(), "the folder of secrets")),
        Some((&*config.dir.join("automations"), "the folder of automations")),
    ]
    .into_iter()
    .flatten()
    .find_map(|(folder, words)| {
        let folder = resolve(folder);
        let relation = match () {
            () if resolved == folder => "is",
            () if folder.starts_with(&resolved) => "holds",
            () if resolved.starts_with(&folder) => "is inside",
            () => return None,
        };
        Some(format!("{relation} {words}"))
    });
    match kept {
        None => Ok(()),
        Some(kept) => Err(format!(
            "filesDir: `{}` {kept}, which automations may not read or write; name a folder of its own, such as `files`",
            files.display()
        )),
    }
}

/// Checks that neither the data folder nor the secrets folder is in a folder of project files, where a symlink or a file name
/// would expose their content.
///
/// # Errors
/// One of them is; the message suggests another folder.
pub(super) fn check_private(config: &Config) -> Result<(), String> {
    let key = config.key_file.as_deref();
    let private = [
        ("dataDir", Some(config.data_dir.as_path())),
        ("secrets.dir", Some(config.secrets_dir.as_path())),
        ("secrets.keyFile", key),
    ];
    for (setting, path) in private.into_iter().filter_map(|(setting, path)| Some((setting, path?))) {
        for folder in catalog::PROJECT_FOLDERS {
            if resolve(path).starts_with(resolve(&config.dir.join(folder))) {
                return Err(format!(
                    "{setting}: `{}` is inside `{folder}/`, whose files are shown to readers of the project; name a place beside it",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path with the symlinks of its existing part resolved. The rest will be created without symlinks.
fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for there in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (there.canonicalize(), path.strip_prefix(there)) {
            return if rest.as_os_str().is_empty() { found } else { found.join(rest) };
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn said(dir: &Path, files: &str) -> Result<(), String> {
        let mut config = Config::new(dir);
        config.files_dir = Some(dir.join(files));
        check(&config)
    }

    #[test]
    fn a_files_folder_that_reaches_data_secrets_or_automations_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("project");
        for name in [".cogwork", "secrets", "automations", "files"] {
            fs::create_dir_all(dir.join(name)).expect("folders");
        }
        std::os::unix::fs::symlink(&dir, folder.path().join("link")).expect("a link");
        for (files, why) in [
            (".", "holds the data folder"),
            ("..", "holds the data folder"),
            ("/", "holds the data folder"),
            ("../link", "holds the data folder"),
            ("files/..", "holds the data folder"),
            (".cogwork", "is the data folder"),
            (".cogwork/files", "is inside the data folder"),
            ("secrets", "is the folder of secrets"),
            ("secrets/new/deep", "is inside the folder of secrets"),
            ("automations", "is the folder of automations"),
            ("../link/automations", "is the folder of automations"),
        ] {
            let message = said(&dir, files).expect_err(files);
            assert!(message.contains(why), "{files}: {message}");
            assert!(message.contains("such as `files`"), "{files}: {message}");
        }
        for files in ["files", "new", "../beside", "files/deep", "automations2", "/srv/files"] {
            assert_eq!(said(&dir, files), Ok(()), "{files}");
        }
    }

    #[test]
    fn data_and_secrets_inside_a_project_folder_are_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let set: [fn(&mut Config, PathBuf); 3] = [
            |config, path| config.data_dir = path,
            |config, path| config.secrets_dir = path,
            |config, path| config.key_file = Some(path),
        ];
        for set in set {
            for (place, expected) in [
                ("automations/x", false),
                ("payloads", false),
                ("other/../connections/x", false),
                ("automations2", true),
                (".cogwork", true),
            ] {
                let mut config = Config::new(folder.path());
                fs::create_dir_all(folder.path().join("other")).expect("a folder");
                fs::create_dir_all(folder.path().join("connections")).expect("a folder");
                set(&mut config, folder.path().join(place));
                assert_eq!(check_private(&config).is_ok(), expected, "{place}");
            }
        }
    }

    #[test]
    fn a_files_folder_that_contains_the_store_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::new(&folder.path().join("project"));
        config.store = Some(folder.path().join("store/own.db").into());
        config.files_dir = Some(folder.path().join("store"));
        assert!(check(&config).expect_err("refused").contains("is the folder of the store"));
    }
}
