//! The registry of actions, events and connection types. It is built in one place and passed down.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;
use text::diagnostic::{Diagnostic, Report, Source};

use crate::action::Action;
use crate::connection::ConnectionType;
use crate::event::EventSpec;
use crate::manifest::{self, Manifest, Natives};
use crate::native;

/// The manifests that ship with the program, each with its display path.
const MANIFESTS: [(&str, &str); 4] = [
    ("connectors/wiki.yaml", include_str!("../../manifests/wiki.yaml")),
    ("connectors/http.yaml", include_str!("../../manifests/http.yaml")),
    ("connectors/github.yaml", include_str!("../../manifests/github.yaml")),
    ("connectors/mail.yaml", include_str!("../../manifests/mail.yaml")),
];

/// The native actions that a manifest may enable.
pub(crate) const NATIVES: &Natives = &[
    ("rawRequest", native::raw_request::build),
    ("rawGraphqlRequest", native::graphql::build),
    ("request", native::http_request::build),
    ("get", native::http_request::build),
    ("post", native::http_request::build),
    ("put", native::http_request::build),
    ("patch", native::http_request::build),
    ("delete", native::http_request::build),
    ("send", native::mail::build),
];

/// The name, the title and the actions of a connector without a manifest.
type NativeConnector = (&'static str, &'static str, Vec<Arc<dyn Action>>);

/// Returns the connectors without a manifest.
fn native_connectors() -> [NativeConnector; 4] {
    [
        ("log", "Log", native::log::actions()),
        ("text", "Text", native::text::actions()),
        ("data", "Data", native::data::actions()),
        ("hash", "Hash", native::hash::actions()),
    ]
}

/// Names of the engine, which a user's connector may not take.
const RESERVED: [&str; 9] = ["log", "text", "data", "hash", "http", "mail", "files", "state", "events"];

/// Returns the names of the built-in connectors.
pub(crate) fn builtin_names() -> impl Iterator<Item = &'static str> {
    let shipped =
        MANIFESTS.iter().filter_map(|(path, _)| path.strip_prefix("connectors/")?.strip_suffix(".yaml"));
    shipped.chain(RESERVED)
}

/// True if no user file may replace the connector of this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Returns the JSON Schema (draft 2020-12) of connector manifests, for editors.
#[must_use]
pub fn manifest_schema() -> serde_json::Value {
    manifest::schema(NATIVES)
}

/// A set of actions and connection types under one name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connector {
    /// The name before the dot in `wiki.createPage`.
    pub name: String,
    /// The display name.
    pub title: String,
    /// The version of its manifest, or of this program.
    pub version: String,
    /// Further notes for authors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The full names of its connection types.
    pub connections: Vec<String>,
    /// The full names of its actions.
    pub actions: Vec<String>,
    /// The full names of its events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The path of a user's manifest; `None` for built-in connectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// An immutable set of connectors, actions, events and connection types. A reload builds a new one.
#[derive(Clone)]
pub struct Registry {
    connectors: IndexMap<String, Connector>,
    actions: IndexMap<String, Arc<dyn Action>>,
    connection_types: IndexMap<String, ConnectionType>,
    events: IndexMap<String, Arc<EventSpec>>,
    /// Connectors whose manifests have errors, by name, with the paths of the files.
    invalid: IndexMap<String, String>,
}

impl Registry {
    /// Creates a registry of the built-in connectors.
    ///
    /// # Errors
    /// Returns the reports of built-in manifests with errors; a test of this crate rules this out.
    pub fn builtin() -> Result<Self, Vec<Report>> {
        let mut registry = Self {
            connectors: IndexMap::new(),
            actions: IndexMap::new(),
            connection_types: IndexMap::new(),
            events: IndexMap::new(),
            invalid: IndexMap::new(),
        };
        let mut reports = Vec::new();
        for (path, text) in MANIFESTS {
            let (manifest, report) = manifest::read(Arc::new(Source::new(path, text)), NATIVES);
            match manifest {
                Some(manifest) => registry.add_manifest(manifest, None),
                None => reports.push(report),
            }
        }
        for (name, title, actions) in native_connectors() {
            registry = registry.with_native(name, title, actions);
        }
        if reports.is_empty() { Ok(registry) } else { Err(reports) }
    }

    /// Adds a connector without a manifest.
    #[must_use]
    pub fn with_native(mut self, name: &str, title: &str, actions: Vec<Arc<dyn Action>>) -> Self {
        let connector = Connector {
            name: name.to_owned(),
            title: title.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: None,
            connections: Vec::new(),
            actions: Vec::new(),
            events: Vec::new(),
            file: None,
        };
        self.insert_connector(connector, actions, Vec::new(), Vec::new());
        self
    }

    /// Adds a user's manifests, and returns reports of all files with errors or warnings.
    ///
    /// A manifest with errors is left out. A manifest with the name of a shipped connector replaces it. Of two user
    /// manifests with one name, the first wins.
    #[must_use]
    pub fn with_manifests(mut self, files: Vec<Arc<Source>>) -> (Self, Vec<Report>) {
        let mut reports = Vec::new();
        for source in files {
            let (manifest, report) = manifest::read(source.clone(), NATIVES);
            if !report.is_empty() {
                reports.push(report);
            }
            let Some(manifest) = manifest else {
                self.invalid.extend(connector_name_in(&source).map(|name| (name, source.path().to_owned())));
                continue;
            };
            match self.duplicate(&manifest) {
                Some(diagnostic) => reports.push(Report::new(source, [diagnostic])),
                None => self.add_manifest(manifest, Some(source.path().to_owned())),
            }
        }
        (self, reports)
    }

    /// Returns the path of the manifest if the connector `name` is unavailable because that file has errors.
    #[must_use]
    pub fn invalid_file(&self, name: &str) -> Option<&str> {
        self.invalid.get(name).filter(|_| self.connector(name).is_none()).map(String::as_str)
    }

    /// Keeps the connector that `before` had loaded from the file at `path`, if that file is now missing or invalid.
    /// It takes the place of a shipped connector, but not of another user's file.
    pub fn retain_previous(&mut self, before: &Self, path: &str) {
        let is_there = |connector: &&Connector| connector.file.as_deref() == Some(path);
        if self.connectors().any(|connector| is_there(&connector)) {
            return;
        }
        let Some(connector) = before.connectors().find(is_there) else { return };
        if self.connector(&connector.name).is_some_and(|taken| taken.file.is_some()) {
            return;
        }
        let actions = connector.actions.iter().filter_map(|name| before.action(name).cloned());
        let connections =
            connector.connections.iter().filter_map(|name| before.connection_type(name).cloned());
        let events = connector.events.iter().filter_map(|name| before.event(name));
        let events = events.map(|event| EventSpec::clone(event)).collect();
        self.insert_connector(connector.clone(), actions.collect(), connections.collect(), events);
    }

    fn duplicate(&self, manifest: &Manifest) -> Option<Diagnostic> {
        let name = manifest.head.name.as_str();
        let message = match self.connectors.get(name).and_then(|connector| connector.file.as_deref()) {
            _ if RESERVED.contains(&name) => {
                format!("the name `{name}` belongs to a connector that is built in")
            }
            Some(file) => format!("the connector `{name}` is already in `{file}`"),
            None => return None,
        };
        let diagnostic = Diagnostic::error("duplicate-connector", message, manifest.name_span);
        Some(diagnostic.help("give it another name"))
    }

    fn add_manifest(&mut self, manifest: Manifest, file: Option<String>) {
        let head = &manifest.head;
        let connector = Connector {
            name: head.name.clone(),
            title: head.title.clone(),
            version: head.version.clone(),
            description: head.description.clone(),
            connections: Vec::new(),
            actions: Vec::new(),
            events: Vec::new(),
            file,
        };
        self.insert_connector(connector, manifest.actions, manifest.connections, manifest.events);
    }

    fn insert_connector(
        &mut self,
        mut connector: Connector,
        actions: Vec<Arc<dyn Action>>,
        connections: Vec<ConnectionType>,
        events: Vec<EventSpec>,
    ) {
        let prefix = format!("{}.", connector.name);
        self.actions.retain(|name, _| !name.starts_with(&prefix));
        self.connection_types.retain(|name, _| !name.starts_with(&prefix));
        self.events.retain(|name, _| !name.starts_with(&prefix));
        connector.events = events.iter().map(|event| event.name.clone()).collect();
        self.events.extend(events.into_iter().map(|event| (event.name.clone(), Arc::new(event))));
        connector.actions = actions.iter().map(|action| action.spec().name.clone()).collect();
        connector.connections = connections.iter().map(|connection| connection.name.clone()).collect();
        self.actions.extend(actions.into_iter().map(|action| (action.spec().name.clone(), action)));
        self.connection_types
            .extend(connections.into_iter().map(|connection| (connection.name.clone(), connection)));
        self.connectors.insert(connector.name.clone(), connector);
    }

    /// Returns the action with this full name, such as `wiki.createPage`.
    #[must_use]
    pub fn action(&self, name: &str) -> Option<&Arc<dyn Action>> {
        self.actions.get(name)
    }

    /// Returns all actions, grouped by connector, in declaration order.
    pub fn actions(&self) -> impl Iterator<Item = &Arc<dyn Action>> {
        self.actions.values()
    }

    /// Returns the event with this full name, such as `wiki.pageChanged`.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<&Arc<EventSpec>> {
        self.events.get(name)
    }

    /// Returns all events, grouped by connector, in declaration order.
    pub fn events(&self) -> impl Iterator<Item = &Arc<EventSpec>> {
        self.events.values()
    }

    /// Returns all connectors.
    pub fn connectors(&self) -> impl Iterator<Item = &Connector> {
        self.connectors.values()
    }

    /// Returns the connector with this name.
    #[must_use]
    pub fn connector(&self, name: &str) -> Option<&Connector> {
        self.connectors.get(name)
    }

    /// Returns the connection type with this full name, such as `wiki.basic`.
    #[must_use]
    pub fn connection_type(&self, name: &str) -> Option<&ConnectionType> {
        self.connection_types.get(name)
    }

    /// Returns all connection types.
    pub fn connection_types(&self) -> impl Iterator<Item = &ConnectionType> {
        self.connection_types.values()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").field("connectors", &self.connectors).finish_non_exhaustive()
    }
}

/// Returns the name of the connector in a manifest that fails to parse.
fn connector_name_in(source: &Source) -> Option<String> {
    let value = source.text().lines().find_map(|line| line.strip_prefix("connector:"))?;
    let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests;
