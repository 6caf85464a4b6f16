//! The instants of schedules that have run, by what the sink has received.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The distance between the instants of a schedule.
const EVERY: SignedDuration = SignedDuration::from_secs(1);

/// The instants of each schedule, each with its execution.
#[derive(Debug, Default)]
pub struct Ticks {
    schedules: BTreeMap<String, BTreeMap<Timestamp, String>>,
    /// The delay of each after its instant.
    delays: Vec<Duration>,
}

impl Ticks {
    /// The sink received a tick of a schedule. Returns the violations.
    pub(super) fn received(&mut self, of: &str, at: Timestamp, execution: &str) -> Option<String> {
        match self.schedules.entry(of.to_owned()).or_default().entry(at) {
            Entry::Vacant(first) => {
                first.insert(execution.to_owned());
                self.delays.push(since(at));
                None
            }
            Entry::Occupied(known) => (known.get() != execution)
                .then(|| format!("the instant {at} ran twice: as {} and as {execution} {of}", known.get())),
        }
    }

    /// Returns the instants that never ran, between the first of a schedule that did and the last one up to `until`.
    pub(super) fn missing(&self, until: Option<Timestamp>) -> Vec<String> {
        let mut missing = Vec::new();
        for (of, instants) in &self.schedules {
            let instants: Vec<Timestamp> = instants.keys().copied().filter(|at| Some(*at) <= until).collect();
            for pair in instants.windows(2).filter(|pair| pair[1].duration_since(pair[0]) != EVERY) {
                missing.push(format!("no instant ran between {} and {} {of}", pair[0], pair[1]));
            }
        }
        missing
    }

    /// The number of received ticks of all schedules.
    pub fn len(&self) -> usize {
        self.delays.len()
    }

    /// True if none has run.
    pub fn is_empty(&self) -> bool {
        self.delays.is_empty()
    }

    /// The delays after their instants, the shortest first.
    pub fn delays(&self) -> Vec<Duration> {
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        delays
    }

    /// The latest instant that has run.
    pub fn last(&self) -> Option<Timestamp> {
        self.schedules.values().filter_map(|instants| instants.last_key_value()).map(|(at, _)| *at).max()
    }

    /// The number of schedules that have run this instant.
    pub fn schedules_at(&self, at: Option<Timestamp>) -> usize {
        self.schedules.values().filter(|instants| at.is_some_and(|at| instants.contains_key(&at))).count()
    }
}

/// The time since an instant.
#[expect(clippy::disallowed_methods, reason = "schedules follow the clock of the machine")]
fn since(at: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(at)).unwrap_or_default()
}
