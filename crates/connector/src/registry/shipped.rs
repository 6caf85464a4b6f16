//! The connectors that ship with the program as manifests. A manifest is read when a file names its connector, or when a list asks for
//! all: a connector that nobody uses takes no memory but its text.

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use text::diagnostic::{Report, Source};

use super::{Connector, NATIVES, connector_name_in};
use crate::action::Action;
use crate::connection::ConnectionType;
use crate::event::EventSpec;
use crate::manifest::{self, Manifest};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(Shipped {
            name: $name,
            path: concat!("connectors/", $name, ".yaml"),
            text: include_str!(concat!("../../manifests/", $name, ".yaml")),
            loaded: OnceLock::new(),
        }),*]
    };
}

/// The shipped connectors, in the order of lists.
pub(super) static SHIPPED: [Shipped; 18] = shipped![
    "wiki",
    "http",
    "github",
    "mail",
    "slack",
    "stripe",
    "notion",
    "telegram",
    "discord",
    "hubspot",
    "jira",
    "openai",
    "anthropic",
    "googleSheets",
    "googleDrive",
    "googleCalendar",
    "gmail",
    "gitlab"
];

/// A manifest that ships with the program.
pub(super) struct Shipped {
    pub(super) name: &'static str,
    /// The path in messages.
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    loaded: OnceLock<Loaded>,
}

/// The parts of a connector, by their full names.
pub(super) struct Loaded {
    pub(super) connector: Connector,
    pub(super) actions: IndexMap<String, Arc<dyn Action>>,
    pub(super) connection_types: IndexMap<String, ConnectionType>,
    pub(super) events: IndexMap<String, Arc<EventSpec>>,
}

impl Shipped {
    /// Reads the manifest.
    pub(super) fn read(&self) -> (Option<Manifest>, Report) {
        manifest::read::read(Arc::new(self.source()), NATIVES)
    }

    fn source(&self) -> Source {
        Source::new(self.path, self.text)
    }

    /// True if the manifest has the name of its file, by which it is found.
    pub(super) fn is_named(&self) -> bool {
        connector_name_in(&self.source()).as_deref() == Some(self.name)
    }

    /// Returns the connector, which is read at the first call. A manifest with errors, which a test rules out, has no parts.
    pub(super) fn loaded(&self) -> &Loaded {
        self.loaded.get_or_init(|| match self.read().0 {
            Some(manifest) => Loaded::new(manifest, None),
            None => Loaded::empty(self.name),
        })
    }
}

impl Loaded {
    /// Takes the parts of a manifest; `file` is the path of a user's manifest.
    pub(super) fn new(manifest: Manifest, file: Option<String>) -> Self {
        let head = &manifest.head;
        let mut loaded = Self::empty(&head.name);
        loaded.connector.title.clone_from(&head.title);
        loaded.connector.version.clone_from(&head.version);
        loaded.connector.description.clone_from(&head.description);
        loaded.connector.proof.clone_from(&head.proof);
        loaded.connector.address = head.base.as_ref().map(ToString::to_string);
        loaded.connector.idempotency = Some(head.idempotency.clone());
        loaded.connector.file = file;
        loaded.with_parts(manifest.actions, manifest.connections, manifest.events)
    }

    pub(super) fn empty(name: &str) -> Self {
        let connector = Connector {
            name: name.to_owned(),
            title: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: None,
            proof: None,
            connections: Vec::new(),
            actions: Vec::new(),
            events: Vec::new(),
            file: None,
            address: None,
            idempotency: None,
        };
        let (actions, connection_types, events) = Default::default();
        Self { connector, actions, connection_types, events }
    }

    /// Adds an event, which accepts the connections of the connector.
    pub(super) fn add_event(&mut self, mut event: EventSpec) {
        event.connections = self.connection_types.keys().cloned().collect();
        self.connector.events.push(event.name.clone());
        self.events.insert(event.name.clone(), Arc::new(event));
    }

    /// The connector with the parts of another manifest behind its own.
    pub(super) fn with_more(&self, more: Manifest) -> Self {
        let actions = self.actions.values().cloned().chain(more.actions).collect();
        let connections = self.connection_types.values().cloned().chain(more.connections).collect();
        let events = self.events.values().map(|event| (**event).clone()).chain(more.events).collect();
        let mut loaded = Self::empty(&self.connector.name);
        loaded.connector = self.connector.clone();
        loaded.with_parts(actions, connections, events)
    }

    pub(super) fn with_parts(
        mut self,
        actions: Vec<Arc<dyn Action>>,
        connections: Vec<ConnectionType>,
        events: Vec<EventSpec>,
    ) -> Self {
        self.actions = actions.into_iter().map(|action| (action.spec().name.clone(), action)).collect();
        self.connection_types =
            connections.into_iter().map(|connection| (connection.name.clone(), connection)).collect();
        self.events = events.into_iter().map(|event| (event.name.clone(), Arc::new(event))).collect();
        self.connector.actions = self.actions.keys().cloned().collect();
        self.connector.connections = self.connection_types.keys().cloned().collect();
        self.connector.events = self.events.keys().cloned().collect();
        self
    }
}
