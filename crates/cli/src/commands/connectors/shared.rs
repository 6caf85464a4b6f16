//! `cogwork connectors add`, `update`, `remove` and `verify`: connectors of other projects, copied and locked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use catalog::{
    CONNECTOR_LOCK, ConnectorLock, LockedConnector, ProjectTarget, SHARED_MANIFEST, check_project_target,
    file_digest, read_project_file,
};
use clap::Args;
use connector::{Connector, Registry};
use serde_json::json;
use text::diagnostic::Source;

use super::source::{Address, Fetched, SharedFiles, read_folder};
use crate::commands::fix;
use crate::exit::{CommandError, Exit};
use crate::output::{self, STRONG, Table, paint, plain};

/// The permissions of new files.
const MODE: u32 = 0o644;
/// Maximum size of the lock, in bytes.
const MAX_LOCK: u64 = 512 << 10;

const EXAMPLES: &str = "\
Examples:
  cogwork connectors add https://git.example.com/acme/shop.git@v1.2.0
  cogwork connectors add git@git.example.com:acme/connectors@main --folder shop --as acmeShop
  cogwork connectors add ../connectors/shop";

/// Copy a connector of another project into `connectors/NAME/`, and lock its files
///
/// Shows the hosts, credentials and actions of the connector, then asks. The source is a git repository, which the installed `git` reads,
/// or a folder. Nothing of it is run: a connector is data.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Add {
    /// `ADDRESS@REF` of a git repository, where REF is a tag, a branch or a commit; or a folder
    #[arg(value_name = "SOURCE@REF")]
    source: String,
    /// The name in this project; default: its own
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// The folder of the connector in the source
    #[arg(long, value_name = "FOLDER")]
    folder: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Replace shared connectors by what their sources have now
///
/// Shows the difference, then asks. A branch gives its newest commit; for another tag write `NAME@REF`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork connectors update\n  cogwork connectors update shop\n  cogwork connectors update shop@v1.3.0"
)]
pub(super) struct Update {
    /// A connector, or `NAME@REF` for another version; default: all shared ones
    #[arg(value_name = "NAME[@REF]")]
    name: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Show the difference, and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

/// Delete the files of a shared connector, and its entry in the lock
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork connectors remove shop")]
pub(super) struct Remove {
    /// The connector
    name: String,
}

/// Compare the files of shared connectors with the lock
///
/// Exits with 1 if a file was changed, is missing, or was not added with its connector.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork connectors verify\n  cogwork connectors verify --json")]
pub(super) struct Verify {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A project with its lock.
struct Project<'a> {
    dir: &'a Path,
    registry: &'a Registry,
    lock: ConnectorLock,
}

/// A version of a connector that is about to be written.
struct Version {
    name: String,
    address: Address,
    commit: Option<String>,
    files: SharedFiles,
}

impl Add {
    pub(super) fn run(self, dir: &Path, registry: &Registry) -> anyhow::Result<Exit> {
        let mut project = Project::open(dir, registry)?;
        let mut address = Address::parse(&self.source, self.folder)?;
        let working = std::env::current_dir().context("cannot tell the working folder")?;
        let fetched = address.fetch(&working)?;
        // The lock names folders from the project.
        if working != dir && working.join(&address.source).is_dir() {
            address.source = working.join(&address.source).canonicalize()?.display().to_string();
        }
        let version = Version::new(address, fetched, self.name.as_deref())?;
        let name = version.name.clone();
        if project.lock.connectors.contains_key(&name) {
            let message = format!(
                "the connector `{name}` was added before; `cogwork connectors update {name}` replaces it"
            );
            return Err(CommandError::usage(message));
        }
        project.check_free(&version)?;
        version.describe()?;
        if !confirmed(self.yes, "add it?")? {
            return Ok(Exit::Failed);
        }
        project.write(version)?;
        output::say(format_args!("added `{name}` in connectors/{name}/"));
        output::say(format_args!("\nNext:\n  {}", paint(STRONG, format!("cogwork connectors show {name}"))));
        Ok(Exit::Done)
    }
}

impl Update {
    pub(super) fn run(self, dir: &Path, registry: &Registry) -> anyhow::Result<Exit> {
        let mut project = Project::open(dir, registry)?;
        let (name, reference) =
            match self.name.as_deref().map(|name| name.split_once('@').unwrap_or((name, ""))) {
                Some((name, reference)) => {
                    (Some(name), Some(reference).filter(|reference| !reference.is_empty()))
                }
                None => (None, None),
            };
        if let Some(name) = name {
            project.locked(name)?;
        }
        let names: Vec<String> = project.lock.connectors.keys().cloned().collect();
        let mut exit = Exit::Done;
        for each in names.iter().filter(|each| name.is_none_or(|name| name == *each)) {
            if !self.update(&mut project, each, reference)? {
                exit = Exit::Failed;
            }
        }
        Ok(exit)
    }

    /// Updates one connector. Returns false if the person declines.
    fn update(&self, project: &mut Project<'_>, name: &str, reference: Option<&str>) -> anyhow::Result<bool> {
        let locked = project.locked(name)?.clone();
        let reference = reference.map(str::to_owned).or(locked.reference);
        let address = Address { source: locked.source, reference, folder: locked.folder };
        let fetched = address.fetch(project.dir)?;
        let version = Version::new(address, fetched, Some(name))?;
        let now = project.files(name)?;
        if now == version.files {
            output::say(format_args!("`{name}` is as {} has it", version.address.shown()));
            if !self.dry_run {
                project.record(&version)?;
            }
            return Ok(true);
        }
        show_difference(name, &now, &version.files)?;
        if self.dry_run {
            return Ok(true);
        }
        if !confirmed(self.yes, &format!("replace `{name}`?"))? {
            return Ok(false);
        }
        let at = version.commit.clone().unwrap_or_else(|| version.address.shown());
        project.write(version)?;
        output::say(format_args!("`{name}` is at {at}"));
        Ok(true)
    }
}

impl Remove {
    pub(super) fn run(self, dir: &Path, registry: &Registry) -> anyhow::Result<Exit> {
        let mut project = Project::open(dir, registry)?;
        let files: Vec<String> = project.locked(&self.name)?.files.keys().cloned().collect();
        for file in &files {
            project.target(&self.name, file)?.remove()?;
        }
        // Folders that have something else in them stay.
        for folder in files.iter().filter_map(|file| Path::new(file).parent()).rev() {
            let _ = std::fs::remove_dir(dir.join("connectors").join(&self.name).join(folder));
        }
        project.lock.connectors.remove(&self.name);
        project.save()?;
        output::say(format_args!("removed `{}`", self.name));
        Ok(Exit::Done)
    }
}

impl Verify {
    pub(super) fn run(self, dir: &Path, registry: &Registry) -> anyhow::Result<Exit> {
        let project = Project::open(dir, registry)?;
        let mut rows: Vec<(String, &str)> = Vec::new();
        for (name, locked) in &project.lock.connectors {
            let now = project.files(name)?;
            let paths: BTreeSet<&String> = locked.files.keys().chain(now.keys()).collect();
            for path in paths {
                let problem = match (locked.files.get(path), now.get(path)) {
                    (Some(digest), Some(content)) if file_digest(content) == *digest => continue,
                    (Some(_), Some(_)) => "changed",
                    (Some(_), None) => "missing",
                    (None, _) => "not of the source",
                };
                rows.push((format!("connectors/{name}/{path}"), problem));
            }
        }
        if self.json {
            let row = |(file, problem): &(String, &str)| json!({"file": file, "problem": problem});
            output::json(&rows.iter().map(row).collect::<Vec<_>>())?;
        } else if !rows.is_empty() {
            let mut table = Table::new(&["FILE", "IS"]);
            rows.iter().for_each(|(file, problem)| table.row([file.as_str(), problem]));
            table.print()?;
        }
        let count = output::count(project.lock.connectors.len(), "shared connector");
        output::say(format_args!("{count}, {}", output::count(rows.len(), "difference")));
        Ok(if rows.is_empty() { Exit::Done } else { Exit::Failed })
    }
}

impl<'a> Project<'a> {
    fn open(dir: &'a Path, registry: &'a Registry) -> anyhow::Result<Self> {
        let path = Path::new(CONNECTOR_LOCK);
        let lock = if dir.join(path).exists() {
            let text = read_project_file(dir, path, MAX_LOCK)
                .with_context(|| format!("cannot read `{CONNECTOR_LOCK}`"))?;
            let text = String::from_utf8(text).with_context(|| format!("cannot read `{CONNECTOR_LOCK}`"))?;
            ConnectorLock::parse(&text).map_err(|words| anyhow::anyhow!("`{CONNECTOR_LOCK}`: {words}"))?
        } else {
            ConnectorLock::default()
        };
        Ok(Self { dir, registry, lock })
    }

    fn locked(&self, name: &str) -> anyhow::Result<&LockedConnector> {
        self.lock.connectors.get(name).with_context(|| {
            let near = text::diagnostic::nearest(name, self.lock.connectors.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            format!("there is no shared connector `{name}`{near}")
        })
    }

    /// The files of a shared connector as they are now.
    fn files(&self, name: &str) -> anyhow::Result<SharedFiles> {
        let folder = folder(name);
        check_project_target(self.dir, &folder.join(SHARED_MANIFEST))?;
        let folder = self.dir.join(folder);
        if folder.is_dir() { read_folder(&folder) } else { Ok(SharedFiles::new()) }
    }

    fn target(&self, name: &str, file: &str) -> anyhow::Result<ProjectTarget> {
        let path = folder(name).join(file);
        ProjectTarget::open(self.dir, &path, true)
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Refuses the name of a connector that the project has in another file.
    fn check_free(&self, version: &Version) -> anyhow::Result<()> {
        let name = &version.name;
        let taken = self.registry.connectors().find(|connector| connector.name == *name);
        if let Some(file) = taken.and_then(|taken| taken.file.as_deref()) {
            let message =
                format!("the connector `{name}` is already in `{file}`; give the other a name with --as");
            return Err(CommandError::usage(message));
        }
        let folder = self.dir.join(folder(name));
        anyhow::ensure!(
            !folder.exists(),
            "`{}` exists; give the connector another name with --as",
            folder.display()
        );
        Ok(())
    }

    /// Writes a version, removes the files that it has no more, then writes the lock. After a crash in between, the files differ from the
    /// lock, which is reported.
    fn write(&mut self, version: Version) -> anyhow::Result<()> {
        for file in self.files(&version.name)?.keys().filter(|file| !version.files.contains_key(*file)) {
            self.target(&version.name, file)?.remove()?;
        }
        for (file, content) in &version.files {
            let target = self.target(&version.name, file)?;
            target.replace(content, MODE).with_context(|| format!("cannot write `{file}`"))?;
        }
        self.record(&version)
    }

    /// Notes a version in the lock.
    fn record(&mut self, version: &Version) -> anyhow::Result<()> {
        let files =
            version.files.iter().map(|(path, content)| (path.clone(), file_digest(content))).collect();
        let Address { source, reference, folder } = version.address.clone();
        let locked = LockedConnector { source, reference, folder, commit: version.commit.clone(), files };
        if self.lock.connectors.get(&version.name) == Some(&locked) {
            return Ok(());
        }
        self.lock.connectors.insert(version.name.clone(), locked);
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        let target = ProjectTarget::open(self.dir, Path::new(CONNECTOR_LOCK), true)?;
        target
            .replace(self.lock.to_text()?.as_bytes(), MODE)
            .with_context(|| format!("cannot write `{CONNECTOR_LOCK}`"))
    }
}

impl Version {
    /// Checks the files of a source as a connector, under another name if one is given.
    fn new(address: Address, fetched: Fetched, rename: Option<&str>) -> anyhow::Result<Self> {
        let Fetched { mut files, commit } = fetched;
        let manifest = files.get(SHARED_MANIFEST).cloned().unwrap_or_default();
        let mut text =
            String::from_utf8(manifest).with_context(|| format!("`{SHARED_MANIFEST}` is no text"))?;
        if let Some(name) = rename {
            text = renamed(&text, name)?;
            files.insert(SHARED_MANIFEST.to_owned(), text.clone().into_bytes());
        }
        let connector = load(&text)?.1;
        Ok(Self { name: connector.name, address, commit, files })
    }

    /// Prints the hosts, credentials and actions of the connector.
    fn describe(&self) -> anyhow::Result<()> {
        let manifest = self.files.get(SHARED_MANIFEST).map(Vec::as_slice).unwrap_or_default();
        let (registry, connector) = load(&String::from_utf8_lossy(manifest))?;
        let commit = self.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
        output::data(format_args!(
            "{}  {}\nfrom {}{commit}",
            paint(STRONG, &connector.name),
            plain(&connector.title),
            plain(&self.address.shown())
        ))?;
        let mut table = Table::new(&["CONNECTION TYPE", "CALLS", "WITH"]);
        for kind in connector.connections.iter().filter_map(|name| registry.connection_type(name)) {
            table.row([&kind.name, &kind.address_in_words(), &kind.credentials_in_words()]);
        }
        if let Some(address) = connector.address.as_ref().filter(|_| connector.connections.is_empty()) {
            table.row(["none", address, "no credentials"]);
        }
        output::data("")?;
        table.print()?;
        let mut table = Table::new(&["ACTION", "", "DOES"]);
        for spec in
            connector.actions.iter().filter_map(|name| registry.action(name)).map(|action| action.spec())
        {
            table.row([&spec.name, super::effect(spec.effect), &spec.title]);
        }
        output::data("")?;
        Ok(table.print()?)
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new("connectors").join(name)
}

/// Loads a manifest beside the built-in connectors.
fn load(text: &str) -> anyhow::Result<(Registry, Connector)> {
    let source = Arc::new(Source::new(SHARED_MANIFEST, text));
    let (registry, reports) = catalog::builtin()?.with_manifests(vec![source]);
    output::reports(reports.iter().filter(|report| report.has_errors()));
    let found = registry.connectors().find(|connector| connector.file.as_deref() == Some(SHARED_MANIFEST));
    let found = found.cloned().context("the source has no connector that this version can load")?;
    Ok((registry, found))
}

/// Gives the connector of a manifest another name.
fn renamed(text: &str, name: &str) -> anyhow::Result<String> {
    let node = text::yaml::parse_text(SHARED_MANIFEST, text).map_err(|report| {
        output::reports([&report]);
        anyhow::anyhow!("`{SHARED_MANIFEST}` is no YAML that can be read")
    })?;
    let value = node.get("connector").context("the manifest has no key `connector`")?;
    if value.as_str() == Some(name) {
        return Ok(text.to_owned());
    }
    let span = value.span;
    let (start, end) = (span.range().start, span.range().end);
    let (before, after) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    Ok(format!("{before}{name}{after}"))
}

/// Prints the files that differ, with their changed lines.
fn show_difference(name: &str, now: &SharedFiles, next: &SharedFiles) -> anyhow::Result<()> {
    let paths: BTreeSet<&String> = now.keys().chain(next.keys()).collect();
    for path in paths {
        let (old, new) = (now.get(path), next.get(path));
        if old != new {
            let text = |content: Option<&Vec<u8>>| {
                String::from_utf8_lossy(content.map_or(&[], Vec::as_slice)).into_owned()
            };
            fix::show(&format!("connectors/{name}/{path}"), &text(old), &text(new))?;
        }
    }
    Ok(())
}

/// Asks, unless the person has agreed beforehand.
fn confirmed(agreed: bool, question: &str) -> anyhow::Result<bool> {
    if agreed {
        return Ok(true);
    }
    if !output::can_ask() {
        return Err(CommandError::usage("add --yes to agree without a terminal"));
    }
    let answer = output::ask(&format!("{question} [y/N]"))?;
    Ok(answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")))
}
