//! Generated Automations and their loaded form.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use connector::{Http, HttpOptions, Registry, Transport};
use model::automation::{TriggerId, TriggerKey};
use serde_json::{Value, json};
use store::Address;

use super::generator;
use super::random::Random;
use catalog::{Assembled, Loader};
use catalog::{Catalog, Folder, ReloadSummary, ScanScope};

/// Number of seeds that share a program.
const RUNS: u64 = 25;
/// Tokens of the addresses that start `main`, if its triggers are webhooks, with their triggers.
pub(super) const TOKENS: [(&str, &str); 4] = [
    ("live", "main"),
    ("live second", generator::SECOND),
    ("live renamed", generator::RENAMED),
    ("live added", generator::ADDED),
];

/// Trigger of the Automation `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Manual,
    Async,
    Sync,
}

/// Two versions of a few Automations.
pub(super) struct Program {
    pub(super) versions: [Version; 2],
    pub(super) start: Start,
    pub(super) has_schedule: bool,
    /// True if events start executions.
    pub(super) has_consumers: bool,
    /// True if failed executions start a handler.
    pub(super) has_handler: bool,
    /// True if changes and silences start handlers.
    pub(super) has_watch: bool,
    /// True if the schedule has a second trigger, which the other version has under another id.
    pub(super) renames_schedule: bool,
    /// Concurrency limits by Automation.
    pub(super) limits: HashMap<String, Limit>,
    /// Ids of the steps that increment the counter in the state.
    pub(super) increments: Vec<String>,
    pub(super) closing: Closing,
    pub(super) text: String,
}

/// The closing lists of steps.
#[derive(Default)]
pub(super) struct Closing {
    /// The steps with an `undo`, by id.
    pub(super) undos: HashMap<String, Undo>,
    /// The steps with a `finally`.
    pub(super) finally: Vec<String>,
}

/// The `undo` of a step, which has one step.
pub(super) struct Undo {
    pub(super) step: String,
    pub(super) when_begun: bool,
    pub(super) on_cancel: bool,
}

/// A concurrency limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) count: usize,
    /// True if the limit applies to each value of a concurrency key.
    pub(super) keyed: bool,
}

/// The loaded files of one version.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) catalog: Arc<Catalog>,
    pub(super) reload: ReloadSummary,
}

/// The bundled connectors, shared because parsing them takes long.
pub(super) static BUILTIN: LazyLock<Arc<Registry>> =
    LazyLock::new(|| Arc::new(catalog::builtin().expect("the connectors load")));

/// An HTTP client without network access.
pub(super) fn nowhere() -> Http {
    let options = HttpOptions { transport: Transport::Disabled, ..HttpOptions::default() };
    Http::new(options).expect("HTTP is set up")
}

/// Generates the program of a seed.
pub(super) fn generate(seed: u64) -> Arc<Program> {
    static LAST: Mutex<Option<(u64, Arc<Program>)>> = Mutex::new(None);
    let number = seed / RUNS;
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((known, program)) if *known == number => program.clone(),
        _ => {
            let program = Arc::new(Program::new(number));
            *last = Some((number, program.clone()));
            program
        }
    }
}

/// Returns the files of a program.
fn files(number: u64, start: Start, random: &mut Random) -> BTreeMap<&'static str, Value> {
    let mut files = BTreeMap::from([
        ("main", generator::main(start, random)),
        ("child", generator::child(random)),
        ("poison", generator::poison()),
    ]);
    if random.one_in(3) {
        files.insert("clock", generator::clock(random));
    }
    // Apart from the rest, so that other programs stay as they are.
    if number % 4 == 1 {
        let mut random = Random::new(number ^ 0x0070_1d00);
        files.values_mut().for_each(|file| generator::tell_consumers(file, &mut random));
        // Each execution of the first one starts two more, up to the longest chain.
        let chain = random.one_in(4);
        for (number, name) in (0..).zip(generator::CONSUMERS) {
            files.insert(name, generator::consumer(number, chain && number == 0, &mut random));
        }
    }
    if number % 5 == 2 {
        let mut random = Random::new(number ^ 0x00de_fa00);
        for name in ["main", "child"] {
            files.entry(name).and_modify(|file| file["defaults"] = generator::defaults(&mut random));
        }
    }
    if number % 4 == 3 {
        files.insert(generator::HANDLER, generator::handler());
    }
    if number % 7 == 5 {
        files.insert(generator::CHANGES, generator::changes());
        files.extend(generator::SILENCES.map(|name| (name, generator::silence(name))));
    }
    files
}

impl Program {
    fn new(number: u64) -> Self {
        let mut random = Random::new(number ^ 0x005e_edf0_0d00);
        let folder = tempfile::tempdir().expect("a folder");
        let automations = folder.path().join("automations");
        std::fs::create_dir(&automations).expect("a folder");
        let start = random.pick(&[Start::Manual, Start::Async, Start::Sync]);
        let mut files = files(number, start, &mut random);
        let has = |name: &str| files.contains_key(name);
        let (has_schedule, has_consumers, has_handler) =
            (has("clock"), has(generator::CONSUMERS[0]), has(generator::HANDLER));
        let has_watch = has(generator::CHANGES);
        let limits = files.iter().filter_map(|(name, file)| Some(((*name).to_owned(), limit(file)?)));
        let limits = limits.collect();
        let mut increments = Vec::new();
        files.values().for_each(|file| note_increments(file, &mut increments));
        let mut closing = Closing::default();
        files.values().for_each(|file| closing.note_file(file));
        let texts: Vec<String> = files.iter().map(|(name, file)| format!("{name}: {file:#}")).collect();
        let loader = Loader::new(folder.path(), BUILTIN.clone(), addresses());
        let mut renames_schedule = false;
        let mut read = Folder::new(folder.path());
        let mut previous = Arc::new(Catalog::empty(BUILTIN.clone()));
        let versions = [0, 1].map(|version| {
            for (name, file) in &mut files {
                if version > 0 {
                    let steps = file["steps"].as_array_mut().expect("steps");
                    steps.insert(0, json!({"id": "newer", "set": {"newer": 1}}));
                    renames_schedule |= generator::change_triggers(file) && *name == "clock";
                }
                std::fs::write(automations.join(format!("{name}.yaml")), file.to_string())
                    .expect("it is written");
            }
            let assembled = loader.assemble(&previous, &mut read, &ScanScope::Full).unwrap();
            let Assembled { catalog, reload, .. } = assembled.expect("something changed");
            let broken: Vec<String> =
                catalog.invalid_files().iter().map(|broken| broken.report.render(false)).collect();
            assert!(broken.is_empty(), "a program that does not load: {texts:?}\n{}", broken.join("\n"));
            previous = Arc::new(catalog);
            Version { catalog: previous.clone(), reload }
        });
        let text = texts.join("\n");
        Self {
            versions,
            start,
            has_schedule,
            has_consumers,
            has_handler,
            has_watch,
            renames_schedule,
            limits,
            increments,
            closing,
            text,
        }
    }

    /// True if rows of the outbox start executions.
    pub(super) fn has_outbox(&self) -> bool {
        self.has_consumers || self.has_handler || self.has_watch
    }
}

/// Returns the addresses that start `main`.
fn addresses() -> Vec<Address> {
    let automation = model::AutomationId::parse("main").expect("an id");
    let address = |(live, id): (&str, &str)| {
        let trigger = TriggerKey::new(automation.clone(), TriggerId::parse(id).expect("an id"));
        Address { trigger, live: live.to_owned(), test: format!("test of {id}") }
    };
    TOKENS.map(address).into()
}

/// Returns the concurrency limit of a file.
fn limit(file: &Value) -> Option<Limit> {
    let concurrency = file.get("concurrency")?;
    // A computed limit is `${{ 2 }}`.
    let limit = concurrency["limit"].to_string();
    let count = limit.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some(Limit { count, keyed: concurrency.get("key").is_some() })
}

impl Closing {
    fn note_file(&mut self, file: &Value) {
        self.note(&file["steps"], true);
        ["onError", "finally"].iter().for_each(|list| self.note(&file[list], false));
    }

    /// Collects the steps with closing lists. Steps in a closing list are never undone.
    fn note(&mut self, file: &Value, is_undone: bool) {
        match file {
            Value::Object(entries) => {
                let id = || entries.get("id").and_then(Value::as_str).map(str::to_owned);
                for (key, inner) in entries {
                    match key.as_str() {
                        "undo" if is_undone => {
                            let steps = inner.get("steps").unwrap_or(inner);
                            let undo = Undo {
                                step: steps[0]["id"].as_str().expect("an id").to_owned(),
                                when_begun: inner["when"] == "begun",
                                on_cancel: inner["onCancel"] == true,
                            };
                            self.undos.extend(id().map(|id| (id, undo)));
                        }
                        "finally" => {
                            self.finally.extend(id());
                            self.note(inner, false);
                        }
                        "undo" => {}
                        _ => self.note(inner, is_undone),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|inner| self.note(inner, is_undone)),
            _ => {}
        }
    }
}

/// Collects the steps that increment the counter.
fn note_increments(file: &Value, found: &mut Vec<String>) {
    match file {
        Value::Object(entries) => {
            if entries.get("action").is_some_and(|action| action == "state.increment") {
                found.extend(entries["id"].as_str().map(str::to_owned));
            }
            entries.values().for_each(|inner| note_increments(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| note_increments(inner, found)),
        _ => {}
    }
}
