//! The folder and store of an execution by `cogwork run`: the project's, or temporary copies.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use engine::stores::Location;
use runtime::Vault;
use store::Store;
use tempfile::TempDir;

use crate::history;
use crate::output;
use crate::project::{self, AutomationRef};
use crate::scaffold;
use crate::settings::Config;

/// The maximum size of a file outside the project: above the loader's limit, so that the loader reports it.
const MAX_BYTES: u64 = 512 << 10;

/// The folder and the store to run in.
pub(in crate::commands) struct Workspace {
    pub(super) dir: PathBuf,
    pub(in crate::commands) store: Arc<dyn Store>,
    /// The automation's id, or its file relative to `dir`.
    pub(super) wanted: String,
    pub(super) is_file: bool,
    /// Deleted when the command ends.
    temporary: Vec<TempDir>,
}

impl Workspace {
    /// Prepares to run the automation that `text` names.
    ///
    /// # Errors
    /// The file does not exist, it has errors (which are printed), or no store can be opened.
    pub(super) fn prepare(config: &Config, text: &str) -> anyhow::Result<Self> {
        match AutomationRef::parse(&config.dir, text)? {
            AutomationRef::Id(id) => Self::in_project(config, id, false),
            AutomationRef::File(path) => Self::in_project(config, path, true),
            AutomationRef::ExternalFile(path) => Self::beside_project(config, &path),
        }
    }

    fn in_project(config: &Config, wanted: String, is_file: bool) -> anyhow::Result<Self> {
        let workspace = Self { wanted, is_file, ..Self::of_project(config)? };
        if !workspace.temporary.is_empty() {
            // A missing automation is the only relevant problem.
            let checked = authoring::check_project(&workspace.dir, &[])?;
            project::find(&checked.catalog, &workspace.wanted, is_file)?;
            output::say(beside(config, (!is_file).then_some(workspace.wanted.as_str())));
        }
        Ok(workspace)
    }

    /// The project, with a temporary store if another process holds that of the project.
    ///
    /// # Errors
    /// There is no project, or no store can be opened.
    pub(in crate::commands) fn of_project(config: &Config) -> anyhow::Result<Self> {
        project::require(&config.dir)?;
        let (store, temporary) = match engine::stores::open(&config.store_location(), config.store()) {
            Ok(store) => (store, Vec::new()),
            Err(store::Error::Locked { .. }) => {
                let (store, temporary) = temporary_store()?;
                (store, vec![temporary])
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { dir: config.dir.clone(), store, wanted: String::new(), is_file: false, temporary })
    }

    /// The encrypted secrets of the project, also if the execution uses another store.
    ///
    /// # Errors
    /// They cannot be read.
    pub(in crate::commands) async fn vault(&self, config: &Config) -> anyhow::Result<Vault> {
        let elsewhere = if self.temporary.is_empty() { None } else { history::open(config)? };
        match elsewhere {
            Some(store) => Ok(Vault::open(store, config.keys()).await?.for_reading()),
            None => Ok(Vault::open(self.store.clone(), config.keys()).await?),
        }
    }

    /// A folder with only this automation, and the connections and connectors of the project.
    fn beside_project(config: &Config, path: &Path) -> anyhow::Result<Self> {
        let text = read(path)?;
        // Checked under its own path first, since diagnostics of the copy would name the copy.
        let catalog = authoring::check_project(&config.dir, &[])?.catalog;
        let report = authoring::check_text(&catalog, &path.display().to_string(), &text);
        if report.has_errors() {
            output::reports([&report]);
            anyhow::bail!("`{}` does not load", path.display());
        }
        let name = path.file_name().context("a file has a name")?;
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let automations = folder.path().join("automations");
        fs::create_dir(&automations)?;
        fs::write(automations.join(name), text)?;
        // Written from memory: a symlink would lead out of the temporary folder.
        for shared in catalog.shared_sources() {
            let copy = folder.path().join(shared.path());
            scaffold::make_parent(&copy)?;
            fs::write(copy, shared.text())?;
        }
        let (store, temporary) = temporary_store()?;
        let wanted = format!("automations/{}", name.to_string_lossy());
        Ok(Self {
            dir: folder.path().to_owned(),
            store,
            wanted,
            is_file: true,
            temporary: vec![folder, temporary],
        })
    }
}

/// The message that the execution runs in this process, since another process holds the store, with the command to
/// start it there.
fn beside(config: &Config, id: Option<&str>) -> String {
    let here = "this execution runs here, with a temporary store";
    match (config.data_dir.join("daemon.json").is_file(), id) {
        (false, _) => format!("another command holds the store: {here}"),
        (true, None) => format!("a daemon holds the store: {here}, and not in the daemon"),
        (true, Some(id)) => {
            format!(
                "a daemon holds the store: {here}, and not in the daemon; `cogwork start {id}` starts one there"
            )
        }
    }
}

fn temporary_store() -> anyhow::Result<(Arc<dyn Store>, TempDir)> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    // It is deleted at the end, so it need not survive a power failure.
    let options = store::Options { durability: store::Durability::Relaxed, ..store::Options::default() };
    Ok((engine::stores::open(&Location::from(folder.path()), options)?, folder))
}

fn read(path: &Path) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    read.with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(text)
}
