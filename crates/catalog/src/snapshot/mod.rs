//! The immutable snapshot of everything in force, and how one follows another: scan, load and check, diff, swap.

mod around;
mod assemble;
mod awaited;
mod diff;
mod file;
mod folder;
mod hooked;
mod relations;
mod written;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use connector::Registry;
use jiff::Timestamp;
use model::automation::{Automation, Trigger};
use model::diagnostic::{Report, Severity, Source};
use model::{AutomationId, Connection};
use rpds::{HashTrieMapSync, RedBlackTreeMapSync, RedBlackTreeSetSync};
use store::Address;
use trigger::schedule::Schedule;

use crate::plan::Plan;

pub use assemble::{Parts, assemble};
pub use awaited::AwaitedEvents;
pub(crate) use diff::in_flight;
pub use diff::{Change, Detail, Effect, FileChange, How, InFlight};
pub use file::{File, FileKind, stem};
pub use folder::{Folder, Look, MAX_FILES};
pub use hooked::hooked;
use relations::Relations;

/// Everything in force at one moment. Never changes: a reload puts another in its place, which shares with it whatever
/// stays the same. A copy is cheap.
#[derive(Clone)]
pub struct Catalog {
    automations: RedBlackTreeMapSync<AutomationId, Arc<Deployed>>,
    connections: RedBlackTreeMapSync<String, Arc<Connection>>,
    /// The names of connection files that do not load and have no last good version in force.
    broken_connections: RedBlackTreeSetSync<String>,
    registry: Arc<Registry>,
    /// By path.
    broken: RedBlackTreeMapSync<Arc<str>, Broken>,
    /// By path, where there is something to say.
    reports: RedBlackTreeMapSync<Arc<str>, Arc<Report>>,
    tokens: HashTrieMapSync<Arc<str>, Mounted>,
    /// The files whose last good version is in force though they no longer load, and which Automation that is.
    stale: RedBlackTreeMapSync<Arc<str>, AutomationId>,
    /// The files that it was made from.
    folder: Folder,
    relations: Relations,
    generation: u64,
    /// The events that automations wait for; read from them when first asked for.
    awaited: OnceLock<Arc<AwaitedEvents>>,
}

/// An address that is answered.
#[derive(Clone)]
pub struct Mounted {
    pub deployed: Arc<Deployed>,
    /// Whether it is the test address.
    pub test: bool,
}

/// An Automation in force.
#[derive(Clone)]
pub struct Deployed {
    /// Its checked form.
    pub automation: Arc<Automation>,
    /// Its step graph.
    pub plan: Arc<Plan>,
    /// The tokens of its addresses, once it has some.
    pub address: Option<Arc<Address>>,
    /// Its schedule, if it has one.
    pub schedule: Option<Arc<Schedule>>,
    /// Set when the file on disk no longer loads: this is its last good version, and why.
    pub stale: Option<Arc<Report>>,
    /// What there is to say of it that is no error.
    pub warnings: Arc<Report>,
}

/// A file that does not load and has no last good version in force.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The file, relative to the project folder.
    pub path: String,
    /// Why.
    pub report: Arc<Report>,
}

/// What a reload changed.
#[derive(Clone, Debug, Default)]
pub struct Reload {
    /// The snapshot now in force.
    pub generation: u64,
    /// Newly in force.
    pub added: Vec<AutomationId>,
    /// In force in another definition than before.
    pub changed: Vec<AutomationId>,
    /// No longer in force.
    pub removed: Vec<AutomationId>,
    /// Kept in their last good version since their file does not load, or no longer fits what it calls.
    pub stale: Vec<AutomationId>,
    /// In force in the same definition as before, which is again what the file says.
    pub restored: Vec<AutomationId>,
    /// What there is to say that was not said before, one report a file.
    pub reports: Vec<Report>,
    /// The files that were seen to have changed.
    pub files: Vec<Arc<str>>,
    /// Everything that was decided upon, whether or not it is as before.
    pub decided: Vec<AutomationId>,
}

impl Reload {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let lists = [&self.added, &self.changed, &self.removed, &self.stale, &self.restored];
        lists.iter().all(|ids| ids.is_empty())
    }
}

impl Catalog {
    /// The events that automations in force wait for.
    #[must_use]
    pub fn awaited_events(&self) -> &AwaitedEvents {
        self.awaited.get_or_init(|| Arc::new(AwaitedEvents::new(self)))
    }

    /// A snapshot in which nothing is in force.
    #[must_use]
    pub fn empty(registry: Arc<Registry>) -> Self {
        Self {
            automations: RedBlackTreeMapSync::new_sync(),
            connections: RedBlackTreeMapSync::new_sync(),
            broken_connections: RedBlackTreeSetSync::new_sync(),
            registry,
            broken: RedBlackTreeMapSync::new_sync(),
            reports: RedBlackTreeMapSync::new_sync(),
            tokens: HashTrieMapSync::new_sync(),
            stale: RedBlackTreeMapSync::new_sync(),
            folder: Folder::new(Path::new("")),
            relations: Relations::none(),
            generation: 0,
            awaited: OnceLock::new(),
        }
    }

    /// The Automations in force, by id.
    pub fn automations(&self) -> impl ExactSizeIterator<Item = &Arc<Deployed>> {
        self.automations.values()
    }

    /// The Automation with this id.
    #[must_use]
    pub fn get(&self, id: &AutomationId) -> Option<&Arc<Deployed>> {
        self.automations.get(id)
    }

    /// The Automation called `name`, or an error that names the nearest.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<&Arc<Deployed>, crate::Error> {
        let found = AutomationId::parse(name).and_then(|id| self.automations.get(&id));
        found.ok_or_else(|| {
            let names = self.automations.keys().map(AutomationId::as_str);
            let nearest = model::diagnostic::nearest(name, names).map(str::to_owned);
            crate::Error::NoSuchAutomation { id: name.to_owned(), nearest }
        })
    }

    /// The connections, by name.
    pub fn connections(&self) -> impl ExactSizeIterator<Item = &Arc<Connection>> {
        self.connections.values()
    }

    /// The ids of the Automations of which a step names this connection, in order.
    #[must_use]
    pub fn users_of(&self, connection: &str) -> Vec<String> {
        let names = |step: &model::Step| match &step.verb {
            model::automation::Verb::Action(call) => {
                call.connection.as_ref().is_some_and(|named| named.name == connection)
            }
            _ => false,
        };
        let mut users = Vec::new();
        for deployed in self.automations() {
            let mut uses = false;
            deployed.automation.walk(&mut |step| uses |= names(step));
            if uses {
                users.push(deployed.automation.id.to_string());
            }
        }
        users.sort_unstable();
        users
    }

    /// The connection called `name`.
    #[must_use]
    pub fn connection(&self, name: &str) -> Option<&Arc<Connection>> {
        self.connections.get(name)
    }

    /// The files of connections and connectors as they were read, without those that cannot be.
    pub fn shared_sources(&self) -> impl Iterator<Item = &Arc<Source>> {
        [FileKind::Connection, FileKind::Manifest]
            .into_iter()
            .flat_map(|kind| self.folder.files(kind))
            .filter(|(_, file)| file.is_read)
            .map(|(_, file)| &file.source)
    }

    /// The connectors.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Files that do not load and have no last good version in force, in the order of their paths.
    #[must_use]
    pub fn broken(&self) -> Vec<&Broken> {
        self.broken.values().collect()
    }

    /// What there is to say of every file that has something to say, in the order of their paths.
    pub fn reports(&self) -> impl ExactSizeIterator<Item = &Arc<Report>> {
        self.reports.values()
    }

    /// What there is to say of files that name a secret which is not set, one report a file. It is no part of
    /// [`Catalog::reports`]: secrets come and go without a change of a file.
    #[must_use]
    pub fn missing_secrets(&self, is_set: &dyn Fn(&str) -> bool) -> Vec<Report> {
        crate::check::missing_secrets(self, is_set)
    }

    /// The secrets that a connection reads and that are not set, in order.
    #[must_use]
    pub fn missing_secrets_of(&self, connection: &Connection, is_set: &dyn Fn(&str) -> bool) -> Vec<String> {
        crate::check::secrets_of(connection).into_iter().filter(|name| !is_set(name)).collect()
    }

    /// The first error in the file at this path as it is now, with its line.
    pub fn error_of(&self, path: &str) -> Option<String> {
        let report = self.reports.get(path).filter(|report| report.has_errors())?;
        let error = report.entries().into_iter().find(|entry| entry.severity == Severity::Error)?;
        Some(format!("{}:{}: {}", error.file, error.line, error.message))
    }

    /// Which snapshot this is, counted from 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The files that it was made from.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub fn mounted(&self, token: &str) -> Option<&Mounted> {
        self.tokens.get(token)
    }
}

impl Deployed {
    /// A definition that is no longer in force, for the executions that still run on it.
    pub fn old(automation: Arc<Automation>, warnings: Report) -> Self {
        let (plan, _) = Plan::build(&automation);
        let (plan, warnings) = (Arc::new(plan), Arc::new(warnings));
        Self { automation, plan, address: None, schedule: None, stale: None, warnings }
    }

    /// `active`, `disabled`, or `stale` where the file on disk no longer loads.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (&self.stale, self.automation.enabled) {
            (Some(_), _) => "stale",
            (None, true) => "active",
            (None, false) => "disabled",
        }
    }

    /// The next instants at which its schedule fires; none where it has no schedule or is disabled.
    #[must_use]
    pub fn next_fires(&self, now: Timestamp, count: usize) -> Vec<Timestamp> {
        match &self.schedule {
            Some(schedule) if self.automation.enabled => schedule.fires(now).take(count).collect(),
            _ => Vec::new(),
        }
    }

    /// Its live address below `base`, if it is started by one.
    #[must_use]
    pub fn live_url(&self, base: &str) -> Option<String> {
        self.url(base, |address| &address.live)
    }

    /// Its test address below `base`, if it is started by one.
    #[must_use]
    pub fn test_url(&self, base: &str) -> Option<String> {
        self.url(base, |address| &address.test)
    }

    fn url(&self, base: &str, token: impl Fn(&Address) -> &String) -> Option<String> {
        let webhook = matches!(self.automation.trigger, Trigger::Webhook(_));
        let address = self.address.as_ref().filter(|_| webhook)?;
        Some(format!("{}/trigger/{}", base.trim_end_matches('/'), token(address)))
    }
}
