//! The sizes that are doubled.

use super::projects;
use crate::project;

/// The highest exponent that counts as growing with the work.
pub(super) const MAX_EXPONENT: f64 = 1.1;
/// The highest exponent of what does not depend on the size at all.
const FLAT: f64 = 0.2;

/// One size that is doubled.
#[derive(Clone, Copy)]
pub(super) struct Dimension {
    /// The name of the size.
    pub(super) name: &'static str,
    /// The smallest size.
    pub(super) first: usize,
    /// The load at each size.
    pub(super) load: Load,
    /// The highest exponent of processor time.
    pub(super) most: f64,
}

/// A load, and what its size means.
#[derive(Clone, Copy)]
pub(super) enum Load {
    /// The daemon restarts over this many automations.
    Automations,
    /// So many requests for a synchronous webhook whose steps a function writes for the size.
    Requests(usize, fn(usize) -> String),
    /// So many requests with a body of the size, in KiB.
    Bodies(usize),
    /// As many asynchronous executions as the size, each with its number in the body. The text is that of
    /// the automation behind its trigger.
    Executions(&'static str),
    /// As many automations with different code as the size, each called this often.
    CodeTexts(usize),
    /// So many events, each for one of as many waiting executions as the size.
    WaitingExecutions(usize),
    /// So many executions that wait for a permit of `concurrency`, behind as many as the size.
    WaitingForPermit(usize),
    /// One execution of this many iterations, each of which waits for an event.
    PausingTurns,
    /// So many events, each for the one execution of its automation that waits, with as many automations as the size.
    WaitingDefinitions(usize),
    /// This many events, for which no execution waits.
    Events,
    /// This many events, each of which starts an execution.
    StartingEvents,
    /// This many failures, which a trigger hears of.
    Failures,
    /// A reload that changes this many automations, of each of which a trigger hears.
    Changes,
    /// As many automations as the size do not succeed in time, which a trigger hears of.
    Silences,
    /// So many polls of a list with as many known items as the size.
    KnownItems(usize),
    /// A request over each of this many connections, all of which stay open.
    OpenConnections,
    /// A call over each of as many connections of the project as the size, each with a secret of its own.
    ProjectConnections,
    /// The same with a token that each connection fetches.
    Tokens,
    /// As many automations as the size subscribe to an event at a service.
    Subscriptions,
    /// As many automations as the size listen at their test addresses for one request each.
    Listeners,
    /// So many executions while as many clients as the size follow all of them.
    Followers(usize),
    /// The daemon starts over as many finished executions as the size, and keeps ten of them.
    Retention,
}

pub(super) const DIMENSIONS: [Dimension; 32] = [
    Dimension { name: "automations", first: 500, load: Load::Automations, most: MAX_EXPONENT },
    Dimension {
        name: "steps of an automation",
        first: 50,
        load: Load::Requests(40, project::synchronous),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "steps that take defaults",
        first: 50,
        load: Load::Requests(40, projects::with_defaults),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "steps with computed settings",
        first: 50,
        load: Load::Requests(40, projects::computed),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "steps that are undone",
        first: 25,
        load: Load::Requests(20, projects::undone),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "turns of a loop",
        first: 250,
        load: Load::Requests(20, projects::turns),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "turns of nested loops",
        first: 256,
        load: Load::Requests(20, projects::nested_turns),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "branches",
        first: 10,
        load: Load::Requests(20, projects::branches),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "log lines",
        first: 100,
        load: Load::Requests(20, projects::log_lines),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "triggers of an automation, a start",
        first: 2,
        load: Load::Requests(2000, projects::triggers),
        most: FLAT,
    },
    Dimension { name: "payload", first: 32, load: Load::Bodies(20), most: MAX_EXPONENT },
    Dimension {
        name: "keys of state",
        first: 500,
        load: Load::Executions(
            "steps:\n  - action: state.set\n    with: {key: \"k${{ trigger.results.body.data.n }}\", value: 1}\n",
        ),
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "executions",
        first: 1000,
        load: Load::Executions("steps:\n  - set: {a: 1}\n"),
        most: MAX_EXPONENT,
    },
    Dimension { name: "code texts", first: 50, load: Load::CodeTexts(5), most: MAX_EXPONENT },
    Dimension {
        name: "waiting executions, an event",
        first: 500,
        load: Load::WaitingExecutions(50),
        most: FLAT,
    },
    Dimension {
        name: "executions that wait for a permit, a start",
        first: 5000,
        load: Load::WaitingForPermit(500),
        most: FLAT,
    },
    Dimension { name: "turns that pause", first: 200, load: Load::PausingTurns, most: MAX_EXPONENT },
    Dimension {
        name: "definitions in flight, an event",
        first: 250,
        load: Load::WaitingDefinitions(50),
        most: FLAT,
    },
    Dimension { name: "events", first: 500, load: Load::Events, most: MAX_EXPONENT },
    Dimension {
        name: "events that start executions",
        first: 500,
        load: Load::StartingEvents,
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "failures that a trigger hears of",
        first: 500,
        load: Load::Failures,
        most: MAX_EXPONENT,
    },
    // At most 600 executions a minute stand for events of the engine.
    Dimension { name: "changes that a trigger hears of", first: 60, load: Load::Changes, most: MAX_EXPONENT },
    Dimension {
        name: "silences that a trigger hears of",
        first: 100,
        load: Load::Silences,
        most: MAX_EXPONENT,
    },
    Dimension {
        name: "keys of concurrency",
        first: 500,
        load: Load::Executions(
            "concurrency: {limit: 1, key: \"${{ trigger.results.body.data.n }}\"}\nsteps:\n  - set: {a: 1}\n",
        ),
        most: MAX_EXPONENT,
    },
    Dimension { name: "seen keys of a poll", first: 1000, load: Load::KnownItems(5), most: MAX_EXPONENT },
    Dimension { name: "open connections", first: 64, load: Load::OpenConnections, most: MAX_EXPONENT },
    Dimension {
        name: "connections with their secrets",
        first: 200,
        load: Load::ProjectConnections,
        most: MAX_EXPONENT,
    },
    Dimension { name: "tokens", first: 100, load: Load::Tokens, most: MAX_EXPONENT },
    Dimension { name: "subscriptions", first: 200, load: Load::Subscriptions, most: MAX_EXPONENT },
    Dimension { name: "listeners", first: 50, load: Load::Listeners, most: MAX_EXPONENT },
    Dimension { name: "followers", first: 4, load: Load::Followers(500), most: MAX_EXPONENT },
    Dimension {
        name: "executions that are kept no longer",
        first: 2000,
        load: Load::Retention,
        most: MAX_EXPONENT,
    },
];
