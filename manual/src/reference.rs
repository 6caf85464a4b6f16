//! The pages of the reference, below `docs/src/reference`. They are made by the program; nobody edits them.

use std::path::Path;

use anyhow::Context as _;

use crate::connectors;

/// A file of the reference.
pub(crate) struct File {
    /// Its path below the folder of the reference.
    pub(crate) path: String,
    /// The content of the page.
    pub(crate) text: String,
}

/// All of them.
pub(crate) fn files() -> anyhow::Result<Vec<File>> {
    let language = language::reference_docs::pages().into_iter();
    let mut files: Vec<File> =
        language.map(|page| File { path: format!("{}.md", page.name), text: page.text }).collect();
    let nowhere = tempfile::tempdir().context("no temporary folder")?;
    let checked = authoring::check_project(nowhere.path(), &[])?;
    let registry = checked.catalog.registry();
    // A connector with events alone has a page of its own in the manual.
    for connector in registry.connectors().filter(|connector| !connector.actions.is_empty()) {
        let text = connectors::page(registry, connector)?;
        files.push(File { path: format!("actions/{}.md", connector.name), text });
    }
    files.push(File { path: "call-keys.md".to_owned(), text: connectors::call_keys(registry) });
    Ok(files)
}

/// Writes all of them below `folder`.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    for file in files()? {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
        std::fs::write(&path, &file.text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference")
    }

    #[test]
    fn the_reference_is_fresh() {
        for file in files().expect("the connectors load") {
            let kept = std::fs::read_to_string(folder().join(&file.path)).unwrap_or_default();
            assert!(kept == file.text, "docs/src/reference/{} is not fresh; run `make reference`", file.path);
        }
    }

    #[test]
    fn nothing_stands_in_the_folder_of_the_reference_that_is_not_made() {
        let made: BTreeSet<PathBuf> =
            files().expect("the connectors load").into_iter().map(|file| folder().join(file.path)).collect();
        let kept = [folder(), folder().join("actions")].into_iter().flat_map(|folder| {
            std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        });
        let strange: Vec<PathBuf> = kept.filter(|path| path.is_file() && !made.contains(path)).collect();
        assert_eq!(strange, Vec::<PathBuf>::new());
    }
}
