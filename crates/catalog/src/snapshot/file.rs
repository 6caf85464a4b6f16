//! One file of the project folder: its kind and the result of loading it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use language::load::{self, Loaded};
use model::Connection;
use model::automation::{Automation, AutomationId, Code, NameSetting, Trigger, Verb};
use model::described::DescribedStatements;
use model::engine_event::EngineEventName;
use model::project::{PROJECT_FILE, Project};
use text::diagnostic::{Diagnostic, Report, Source, Span};

use super::folder::Stamp;
use super::relations::RelationKind;
use crate::check::{NameKind, message_place, possible_event, sent_event};
use crate::connector_lock::{CONNECTOR_LOCK, ConnectorLock};
use crate::project_dir::{self, ProjectFileError};

/// Maximum bytes read from a YAML file; above the loader's own limit, so that the loader reports an oversized file.
const MAX_BYTES: u64 = 512 << 10;
/// The ending of a file with the statements of a connection.
pub(super) const STATEMENT_TYPES: &str = ".types.yaml";
/// The problem of a file that is not UTF-8 text.
const NOT_UTF8: &str = "the file is not UTF-8 text";

/// Kind of a project file, determined by its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// The description of a connector.
    Manifest,
    /// The sources of shared connectors: `connectors/connectors.lock`.
    ConnectorLock,
    /// A connection.
    Connection,
    /// The statements of a connection, with the types that its database states: `connections/NAME.types.yaml`.
    StatementTypes,
    /// An automation.
    Automation,
    /// JavaScript file that an automation names.
    Code,
    /// `project.yaml`, beside the folders.
    Project,
}

impl FileKind {
    /// One kind per folder.
    pub(super) const WITH_FOLDER: [Self; 3] = [Self::Manifest, Self::Connection, Self::Automation];
    /// Names of the folders that contain project files.
    pub const FOLDERS: [&'static str; 3] = ["connectors", "connections", "automations"];

    /// Returns the folder that contains files of this kind; `None` for a kind with a single file.
    pub(crate) fn folder(self) -> Option<&'static str> {
        match self {
            Self::Manifest | Self::ConnectorLock => Some(Self::FOLDERS[0]),
            Self::Connection | Self::StatementTypes => Some(Self::FOLDERS[1]),
            Self::Automation | Self::Code => Some(Self::FOLDERS[2]),
            Self::Project => None,
        }
    }

    /// Returns the kind of the file at a path relative to the project folder; `None` for other files.
    pub fn from_path(path: &Path) -> Option<Self> {
        if path == Path::new(PROJECT_FILE) {
            return Some(Self::Project);
        }
        if path == Path::new(CONNECTOR_LOCK) {
            return Some(Self::ConnectorLock);
        }
        let folder = path.components().next()?.as_os_str();
        let name = path.file_name()?.to_str()?;
        let kind = Self::WITH_FOLDER.into_iter().find(|kind| kind.folder().is_some_and(|of| folder == of))?;
        if name.starts_with('.') || path.to_str().is_some_and(model::test_suite::is_test_file) {
            return None;
        }
        let ends_in = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        match kind {
            Self::Connection if name.ends_with(STATEMENT_TYPES) => Some(Self::StatementTypes),
            // Tests of a shared connector are not connectors.
            Self::Manifest if path.iter().skip(2).any(|folder| folder == "tests") => None,
            _ if ends_in(&[".yaml", ".yml"]) => Some(kind),
            Self::Automation if ends_in(&model::automation::CODE_EXTENSIONS) => Some(Self::Code),
            _ => None,
        }
    }
}

/// File as last read.
#[derive(Clone)]
pub struct File {
    pub(super) stamp: Stamp,
    /// False if the file cannot be read and the source is empty.
    pub(super) is_read: bool,
    pub(crate) source: Arc<Source>,
    pub(crate) content: Content,
}

#[derive(Clone)]
pub(crate) enum Content {
    Automation {
        loaded: Arc<Loaded<Arc<Automation>>>,
        dependencies: Dependencies,
    },
    Connection(Arc<Loaded<Arc<Connection>>>),
    StatementTypes(Arc<Loaded<Arc<DescribedStatements>>>),
    Project(Arc<Loaded<Arc<Project>>>),
    /// `Some` with the reason if the file cannot be read.
    Manifest(Option<Arc<Report>>),
    /// `Err` with the reason if the file cannot be read.
    ConnectorLock(Result<Arc<ConnectorLock>, Arc<Report>>),
    /// `Some` with the reason if the file cannot be read.
    Code(Option<Arc<Report>>),
    /// Symbolic link that leads out of the project and has no file kind.
    Link(Arc<Report>),
}

/// Names that an automation refers to, each once and sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependencies {
    /// Ids of the automations it calls.
    pub(crate) automations: Arc<[Arc<str>]>,
    /// Connections used by its steps.
    pub(crate) connections: Arc<[Arc<str>]>,
    /// Paths of its JavaScript files.
    pub(crate) code: Arc<[Arc<str>]>,
    /// True if a step may take a default.
    pub(crate) takes_defaults: bool,
    /// Names of events and shared state keys, which other files may spell differently.
    pub(crate) names: Arc<[(NameKind, Arc<str>)]>,
    /// The own events that it sends or starts on, and the places at brokers from which it takes messages.
    pub(crate) events: Arc<[(RelationKind, Arc<str>)]>,
    /// Its labels.
    pub(crate) labels: Arc<[Arc<str>]>,
    /// Automations and labels of which its triggers on events of the engine hear.
    pub(crate) watched: Arc<[(RelationKind, Arc<str>)]>,
}

impl File {
    /// Reads and loads a file.
    pub(super) fn read(root: &Path, path: &str, kind: Option<FileKind>, stamp: Stamp) -> Self {
        let Some(kind) = kind else {
            let refused = project_dir::read_start(root, Path::new(path), 0).err();
            let refused = refused.unwrap_or(ProjectFileError::LeadsOut(path.into()));
            return Self::link(path, refused.to_string(), stamp);
        };
        let text = if kind == FileKind::Code { read_code(root, path) } else { read_text(root, path) };
        let (text, problem) = match text {
            Ok(text) => (text, None),
            Err(message) => (String::new(), Some(message)),
        };
        Self::load(Arc::new(Source::new(path, text)), stem(path), kind, stamp, problem)
    }

    /// Creates the entry for a link that leads out of the project and has no file kind.
    fn link(path: &str, message: String, stamp: Stamp) -> Self {
        let source = Arc::new(Source::new(path, String::new()));
        let content = Content::Link(Arc::new(unreadable_report(message, &source)));
        Self { stamp, is_read: false, content, source }
    }

    /// Loads a text as if it were stored at its path. `stem` is the default name.
    pub fn draft(source: Arc<Source>, stem: &str, kind: FileKind) -> Self {
        Self::load(source, stem, kind, Stamp::NONE, None)
    }

    /// Loads a file that a client read, or failed to read because of `problem`. Returns `None` if the path has no
    /// file kind and there is no problem.
    pub(crate) fn from_text(path: &str, text: String, problem: Option<String>) -> Option<Self> {
        match (FileKind::from_path(Path::new(path)), problem) {
            (Some(kind), problem) => {
                Some(Self::load(Arc::new(Source::new(path, text)), stem(path), kind, Stamp::NONE, problem))
            }
            (None, Some(problem)) => Some(Self::link(path, problem, Stamp::NONE)),
            (None, None) => None,
        }
    }

    /// Returns true if the text could be read.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Returns true if both files have the same text or both are unreadable.
    pub(crate) fn has_same_text(&self, other: &Self) -> bool {
        self.is_read == other.is_read && self.source.text() == other.source.text()
    }

    fn load(source: Arc<Source>, stem: &str, kind: FileKind, stamp: Stamp, problem: Option<String>) -> Self {
        let is_read = problem.is_none();
        let content = match kind {
            FileKind::Manifest => {
                Content::Manifest(problem.map(|message| Arc::new(unreadable_report(message, &source))))
            }
            FileKind::ConnectorLock => {
                let lock = problem.map_or_else(|| ConnectorLock::parse(source.text()), Err);
                let unreadable = |message| Arc::new(unreadable_report(message, &source));
                Content::ConnectorLock(lock.map(Arc::new).map_err(unreadable))
            }
            FileKind::Code => {
                Content::Code(problem.map(|message| Arc::new(unreadable_report(message, &source))))
            }
            FileKind::Connection => {
                let loaded = load::connection(source.clone(), stem);
                Content::Connection(Arc::new(into_shared(loaded, problem, &source)))
            }
            FileKind::StatementTypes => {
                let loaded = load::described_statements(source.clone());
                Content::StatementTypes(Arc::new(into_shared(loaded, problem, &source)))
            }
            FileKind::Project => {
                Content::Project(Arc::new(into_shared(load::project(source.clone()), problem, &source)))
            }
            FileKind::Automation => {
                let loaded = into_shared(load::automation(source.clone(), stem), problem, &source);
                let dependencies = loaded
                    .for_checking()
                    .map(|(automation, _)| Dependencies::collect(automation))
                    .unwrap_or_default();
                Content::Automation { loaded: Arc::new(loaded), dependencies }
            }
        };
        Self { stamp, is_read, source, content }
    }

    /// Returns the report of loading the file.
    pub(crate) fn report(&self) -> Report {
        match &self.content {
            Content::Automation { loaded, .. } => load::apply_allow_comments(loaded.report.clone()),
            Content::Connection(loaded) => load::apply_allow_comments(loaded.report.clone()),
            Content::Project(loaded) => load::apply_allow_comments(loaded.report.clone()),
            Content::StatementTypes(loaded) => loaded.report.clone(),
            Content::Manifest(Some(report))
            | Content::ConnectorLock(Err(report))
            | Content::Code(Some(report))
            | Content::Link(report) => Report::clone(report),
            Content::Manifest(None) | Content::ConnectorLock(Ok(_)) | Content::Code(None) => {
                Report::new(self.source.clone(), [])
            }
        }
    }

    /// Returns the loaded automation; `None` for other kinds.
    pub(crate) fn automation(&self) -> Option<&Arc<Loaded<Arc<Automation>>>> {
        match &self.content {
            Content::Automation { loaded, .. } => Some(loaded),
            _ => None,
        }
    }

    /// Returns the source of a readable code file; `None` otherwise.
    pub(crate) fn code(&self) -> Option<&Arc<Source>> {
        matches!(self.content, Content::Code(None)).then_some(&self.source)
    }

    /// Returns the names that an automation file refers to; `None` for other kinds.
    pub(crate) fn dependencies(&self) -> Option<&Dependencies> {
        match &self.content {
            Content::Automation { dependencies, .. } => Some(dependencies),
            _ => None,
        }
    }

    /// Returns the automation id declared by the file; if the file is unreadable, the id suggested by its name.
    pub(crate) fn claimed_id(&self) -> Option<AutomationId> {
        let loaded = self.automation()?;
        match loaded.for_checking() {
            Some((automation, _)) => Some(automation.id.clone()),
            None => AutomationId::suggest(stem(self.source.path())),
        }
    }
}

impl Dependencies {
    /// Collects the names that an automation refers to.
    pub(crate) fn collect(automation: &Automation) -> Self {
        let (mut automations, mut connections) = (BTreeSet::new(), BTreeSet::new());
        let mut takes_defaults = false;
        automation.walk(&mut |step| match &step.verb {
            Verb::Action(call) => {
                takes_defaults = true;
                connections.extend(names_of(call.connection.as_ref()));
            }
            Verb::Call(call) => {
                takes_defaults = true;
                automations.extend(names_of(Some(&call.automation)));
            }
            _ => {}
        });
        let declared =
            automation.declared_defaults.iter().filter_map(|defaults| defaults.connections.as_ref());
        connections.extend(declared.flat_map(|(names, _)| names).map(|name| name.name.as_str()));
        let calls = automation.triggers.iter().filter_map(|trigger| trigger.on.call());
        connections.extend(calls.flat_map(|call| names_of(call.connection.as_ref())));
        // Unreadable names are empty.
        let names = |names: BTreeSet<&str>| {
            names.into_iter().filter(|name| !name.is_empty()).map(Arc::from).collect()
        };
        let files = automation.code_modules().into_iter().filter_map(|(_, code)| match code {
            Code::File(file) => Some(file.name.as_str()),
            Code::Inline { .. } => None,
        });
        Self {
            automations: names(automations),
            connections: names(connections),
            code: names(files.collect()),
            takes_defaults,
            names: crate::check::names(automation).into(),
            events: event_uses(automation).into(),
            labels: names(automation.labels.iter().map(String::as_str).collect()),
            watched: watched(automation).into(),
        }
    }
}

/// Returns the own events that a file sends or starts on, and the places from which it takes messages, each once and sorted.
fn event_uses(automation: &Automation) -> Vec<(RelationKind, Arc<str>)> {
    let started = automation.triggers.iter().filter_map(|trigger| possible_event(&trigger.on));
    let mut uses: BTreeSet<(RelationKind, &str)> =
        started.map(|event| (RelationKind::StartsOn, event.name.as_str())).collect();
    automation.walk(&mut |step| {
        uses.extend(sent_event(&step.verb).map(|sent| match sent.is_whole {
            true => (RelationKind::Sends, sent.name),
            false => (RelationKind::SendsPrefix, sent.name),
        }));
    });
    let places = automation.triggers.iter().filter_map(|trigger| message_place(&trigger.on));
    let places: BTreeSet<(RelationKind, Arc<str>)> =
        places.map(|place| (RelationKind::TakesMessages, place.into())).collect();
    uses.into_iter().map(|(kind, name)| (kind, name.into())).chain(places).collect()
}

/// Returns the automations and labels that the triggers on events of the engine name.
fn watched(automation: &Automation) -> Vec<(RelationKind, Arc<str>)> {
    let mut found = Vec::new();
    let on_engine = |trigger: &&Trigger| EngineEventName::of(trigger).is_some();
    let triggers = automation.triggers.iter().map(|declared| &declared.on).filter(on_engine);
    for (input, template) in triggers.filter_map(Trigger::call).flat_map(|call| &call.with) {
        let kind = match input.name.as_str() {
            "automations" => RelationKind::WatchesAutomation,
            "labels" => RelationKind::WatchesLabel,
            _ => continue,
        };
        let Some(value) = template.literal() else { continue };
        let names = value.as_list().unwrap_or(std::slice::from_ref(value));
        found.extend(names.iter().filter_map(|name| Some((kind, name.as_str()?.into()))));
    }
    found
}

/// Returns each name that a setting can have.
fn names_of(setting: Option<&NameSetting>) -> impl Iterator<Item = &str> {
    setting.into_iter().flat_map(NameSetting::candidates).map(|name| name.name.as_str())
}

fn into_shared<T>(loaded: Loaded<T>, problem: Option<String>, source: &Arc<Source>) -> Loaded<Arc<T>> {
    match problem {
        None => loaded.map(Arc::new),
        Some(message) => Loaded::rejected(unreadable_report(message, source)),
    }
}

fn unreadable_report(message: String, source: &Arc<Source>) -> Report {
    Report::new(source.clone(), [Diagnostic::error("unreadable-file", message, Span::default())])
}

/// Returns the file name without folder and extension.
pub fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml")).unwrap_or(name)
}

/// Reads a JavaScript file. The beginning of a file that is too large would be another program.
fn read_code(root: &Path, path: &str) -> Result<String, String> {
    let most = script::MAX_SOURCE as u64;
    let bytes = project_dir::read_project_file(root, Path::new(path), most).map_err(unread)?;
    String::from_utf8(bytes).map_err(|_| NOT_UTF8.to_owned())
}

fn unread(error: ProjectFileError) -> String {
    format!("the file cannot be read: {error}")
}

fn read_text(root: &Path, path: &str) -> Result<String, String> {
    let bytes = project_dir::read_start(root, Path::new(path), MAX_BYTES).map_err(unread)?;
    let whole = bytes.len() as u64;
    String::from_utf8(bytes).or_else(|error| {
        // The limit cut a character in half. The loader reports that the file is too large.
        let (cut, at) = (
            whole == MAX_BYTES && error.utf8_error().error_len().is_none(),
            error.utf8_error().valid_up_to(),
        );
        let mut bytes = error.into_bytes();
        bytes.truncate(at);
        String::from_utf8(bytes).ok().filter(|_| cut).ok_or_else(|| NOT_UTF8.to_owned())
    })
}
