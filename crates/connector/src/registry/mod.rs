//! The registry of actions, events and connection types. It is built in one place and passed down.

mod shipped;

use std::sync::Arc;

use indexmap::IndexMap;
use model::ActionSpec;
use serde::Serialize;
use text::diagnostic::{Diagnostic, Report, Source};

use crate::action::Action;
use crate::connection::ConnectionType;
use crate::event::EventSpec;
use crate::manifest::{self, BuildNative, Head, Idempotency, Manifest, NativeSettings, Natives, Proof};
use crate::native;
use shipped::{Loaded, SHIPPED, Shipped};

/// The native actions that a manifest may enable.
pub(crate) const NATIVES: &Natives<'static> = &[
    ("rawRequest", &native::raw_request::build),
    ("rawGraphqlRequest", &native::graphql::build),
    ("request", &native::http_request::build),
    ("get", &native::http_request::build),
    ("post", &native::http_request::build),
    ("put", &native::http_request::build),
    ("patch", &native::http_request::build),
    ("delete", &native::http_request::build),
    ("send", &native::mail::build),
];

/// Builds an action of another crate from its specification and the called system as messages name it.
pub type BuildSystemAction<'a> = &'a (dyn Fn(ActionSpec, &str) -> Arc<dyn Action> + Sync);

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
const RESERVED: [&str; 20] = [
    "log", "text", "data", "hash", "http", "mail", "files", "state", "events", "cogwork", "sql", "s3",
    "sftp", "nats", "amqp", "redis", "sheet", "html", "zip", "gzip",
];

/// Returns the names of the built-in connectors.
pub(crate) fn builtin_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|shipped| shipped.name).chain(RESERVED)
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
    /// The evidence that its manifest fits the service; `None` if the manifest states none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
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
    /// The address of its calls, unless a connection has another one.
    #[serde(skip)]
    pub address: Option<String>,
    /// The placement of the key of a call in HTTP requests; `None` for a connector without a manifest.
    #[serde(skip)]
    pub idempotency: Option<Idempotency>,
}

/// An immutable set of connectors, actions, events and connection types. A reload builds a new one.
#[derive(Clone)]
pub struct Registry {
    /// The shipped connectors that no user's file replaces.
    shipped: Vec<&'static Shipped>,
    /// The other connectors, by name.
    loaded: IndexMap<String, Arc<Loaded>>,
    /// Connectors whose manifests have errors, by name, with the paths of the files.
    invalid: IndexMap<String, String>,
    /// Connection types and actions of families that are not built, with their features.
    not_built: IndexMap<String, &'static str>,
}

impl Registry {
    /// Creates a registry of the built-in connectors. Their manifests are read when they are needed.
    ///
    /// # Errors
    /// Returns the reports of built-in manifests that have another name than their file; a test of this crate rules this out, and also
    /// manifests with errors.
    pub fn builtin() -> Result<Self, Vec<Report>> {
        let misnamed: Vec<Report> =
            SHIPPED.iter().filter(|shipped| !shipped.is_named()).map(|shipped| shipped.read().1).collect();
        if !misnamed.is_empty() {
            return Err(misnamed);
        }
        let mut registry = Self {
            shipped: SHIPPED.iter().collect(),
            loaded: IndexMap::new(),
            invalid: IndexMap::new(),
            not_built: IndexMap::new(),
        };
        for (name, title, actions) in native_connectors() {
            registry = registry.with_native(name, title, actions);
        }
        Ok(registry)
    }

    /// Adds a connector whose manifest and native actions another crate has. Each action is built from the specification that the
    /// manifest gives it: its name, its connections and its example. The parts of a manifest whose connector is there already are added
    /// to it; an action accepts the connections of its own manifest.
    ///
    /// # Errors
    /// Returns the report of a manifest with errors; a test of that crate rules this out.
    pub fn with_system(
        mut self,
        path: &str,
        manifest: &str,
        natives: &[(&'static str, BuildSystemAction<'_>)],
    ) -> Result<Self, Box<Report>> {
        let builders = natives.iter().map(|(name, build)| {
            let build = move |head: &Arc<Head>, settings: &NativeSettings| {
                let spec = native::spec_for(head, name, "");
                Ok(build(ActionSpec { example: settings.example.clone(), ..spec }, &head.subject))
            };
            (*name, build)
        });
        let builders: Vec<_> = builders.collect();
        let natives: Vec<(&'static str, BuildNative<'_>)> =
            builders.iter().map(|(name, build)| (*name, build as BuildNative<'_>)).collect();
        let (manifest, report) = manifest::read::read(Arc::new(Source::new(path, manifest)), &natives);
        let Some(manifest) = manifest else { return Err(Box::new(report)) };
        let loaded = match self.of(&manifest.head.name) {
            Some(before) => before.with_more(manifest),
            None => Loaded::new(manifest, None),
        };
        self.insert(Arc::new(loaded));
        Ok(self)
    }

    /// Adds an event to a connector that [`Registry::with_system`] has added. It accepts the connections of this connector.
    #[must_use]
    pub fn with_system_event(mut self, connector: &str, event: EventSpec) -> Self {
        // Nothing shares a connector that was just added.
        if let Some(loaded) = self.loaded.get_mut(connector).and_then(Arc::get_mut) {
            loaded.add_event(event);
        }
        self
    }

    /// Notes that the connection types and actions of this name are not part of this program, which was built without `feature`.
    #[must_use]
    pub fn without_feature(mut self, name: &str, feature: &'static str) -> Self {
        self.not_built.insert(name.to_owned(), feature);
        self
    }

    /// Returns the feature without which the connection type or the action of this name was not built; `None` if it was.
    #[must_use]
    pub fn missing_feature(&self, name: &str) -> Option<&'static str> {
        self.not_built.get(name).copied()
    }

    /// Adds a connector without a manifest.
    #[must_use]
    pub fn with_native(self, name: &str, title: &str, actions: Vec<Arc<dyn Action>>) -> Self {
        self.with_native_events(name, title, actions, Vec::new())
    }

    /// Adds a connector without a manifest that has events.
    #[must_use]
    pub fn with_native_events(
        mut self,
        name: &str,
        title: &str,
        actions: Vec<Arc<dyn Action>>,
        events: Vec<EventSpec>,
    ) -> Self {
        let mut loaded = Loaded::empty(name);
        loaded.connector.title = title.to_owned();
        self.insert(Arc::new(loaded.with_parts(actions, Vec::new(), events)));
        self
    }

    /// Adds actions of another crate to a connector without a manifest.
    #[must_use]
    pub fn with_more_actions(self, name: &str, more: Vec<Arc<dyn Action>>) -> Self {
        let Some(loaded) = self.loaded.get(name).cloned() else { return self };
        let actions = loaded.actions.values().cloned().chain(more).collect();
        self.with_native(name, &loaded.connector.title, actions)
    }

    /// Adds a user's manifests, and returns reports of all files with errors or warnings.
    ///
    /// A manifest with errors is left out. A manifest with the name of a shipped connector replaces it. Of two user
    /// manifests with one name, the first wins.
    #[must_use]
    pub fn with_manifests(mut self, files: Vec<Arc<Source>>) -> (Self, Vec<Report>) {
        let mut reports = Vec::new();
        for source in files {
            let (manifest, report) = manifest::read::read(source.clone(), NATIVES);
            if !report.is_empty() {
                reports.push(report);
            }
            let Some(manifest) = manifest else {
                self.invalid.extend(connector_name_in(&source).map(|name| (name, source.path().to_owned())));
                continue;
            };
            match self.duplicate(&manifest) {
                Some(diagnostic) => reports.push(Report::new(source, [diagnostic])),
                None => {
                    self.insert(Arc::new(Loaded::new(manifest, Some(source.path().to_owned()))));
                }
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
        let is_there = |loaded: &&Arc<Loaded>| loaded.connector.file.as_deref() == Some(path);
        if self.loaded.values().any(|loaded| is_there(&loaded)) {
            return;
        }
        let Some(kept) = before.loaded.values().find(is_there) else { return };
        if self.loaded.get(&kept.connector.name).is_some_and(|taken| taken.connector.file.is_some()) {
            return;
        }
        self.insert(kept.clone());
    }

    fn duplicate(&self, manifest: &Manifest) -> Option<Diagnostic> {
        let name = manifest.head.name.as_str();
        let taken = self.loaded.get(name).and_then(|loaded| loaded.connector.file.as_deref());
        let message = match taken {
            _ if RESERVED.contains(&name) => {
                format!("the name `{name}` belongs to a connector that is built in")
            }
            Some(file) => format!("the connector `{name}` is already in `{file}`"),
            None => return None,
        };
        let diagnostic = Diagnostic::error("duplicate-connector", message, manifest.name_span);
        Some(diagnostic.help("give it another name"))
    }

    /// Adds a connector in place of one with its name.
    fn insert(&mut self, loaded: Arc<Loaded>) {
        let name = loaded.connector.name.clone();
        self.shipped.retain(|shipped| shipped.name != name);
        self.loaded.insert(name, loaded);
    }

    /// Returns all connectors with their parts, and reads all manifests for it.
    fn all(&self) -> impl Iterator<Item = &Loaded> {
        self.shipped
            .iter()
            .map(|shipped| shipped.loaded())
            .chain(self.loaded.values().map(|loaded| &**loaded))
    }

    /// Returns the connector whose name is the part of `name` before its dot.
    fn of(&self, name: &str) -> Option<&Loaded> {
        let name = name.split('.').next().unwrap_or_default();
        match self.loaded.get(name) {
            Some(loaded) => Some(loaded),
            None => self.shipped.iter().find(|shipped| shipped.name == name).map(|shipped| shipped.loaded()),
        }
    }

    /// Returns the action with this full name, such as `wiki.createPage`.
    #[must_use]
    pub fn action(&self, name: &str) -> Option<&Arc<dyn Action>> {
        self.of(name)?.actions.get(name)
    }

    /// Returns all actions, grouped by connector, in declaration order.
    pub fn actions(&self) -> impl Iterator<Item = &Arc<dyn Action>> {
        self.all().flat_map(|loaded| loaded.actions.values())
    }

    /// Returns the event with this full name, such as `wiki.pageChanged`.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<&Arc<EventSpec>> {
        self.of(name)?.events.get(name)
    }

    /// Returns all events, grouped by connector, in declaration order.
    pub fn events(&self) -> impl Iterator<Item = &Arc<EventSpec>> {
        self.all().flat_map(|loaded| loaded.events.values())
    }

    /// Returns all connectors.
    pub fn connectors(&self) -> impl Iterator<Item = &Connector> {
        self.all().map(|loaded| &loaded.connector)
    }

    /// Returns the connector with this name.
    #[must_use]
    pub fn connector(&self, name: &str) -> Option<&Connector> {
        self.of(name).map(|loaded| &loaded.connector).filter(|connector| connector.name == name)
    }

    /// Returns the connection type with this full name, such as `wiki.basic`.
    #[must_use]
    pub fn connection_type(&self, name: &str) -> Option<&ConnectionType> {
        self.of(name)?.connection_types.get(name)
    }

    /// Returns a name for a connection of this type in examples and new files: `mainWiki`. The connector's other types, which some of
    /// its actions need, have a name of their own: `mainMailImap`.
    #[must_use]
    pub fn usual_connection_name(&self, kind: &str) -> String {
        let (connector, own) = kind.split_once('.').unwrap_or((kind, ""));
        let is_first = self
            .connector(connector)
            .is_none_or(|connector| connector.connections.first().is_none_or(|first| first == kind));
        let words = if is_first { [connector, ""] } else { [connector, own] };
        let capitals = words.into_iter().map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| first.to_ascii_uppercase())
                .into_iter()
                .chain(letters)
                .collect::<String>()
        });
        std::iter::once("main".to_owned()).chain(capitals).collect()
    }

    /// Returns all connection types.
    pub fn connection_types(&self) -> impl Iterator<Item = &ConnectionType> {
        self.all().flat_map(|loaded| loaded.connection_types.values())
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shipped = self.shipped.iter().map(|shipped| shipped.name);
        let names: Vec<&str> = shipped.chain(self.loaded.keys().map(String::as_str)).collect();
        formatter.debug_struct("Registry").field("connectors", &names).finish_non_exhaustive()
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
