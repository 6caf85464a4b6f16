//! The faults, a file each.

mod clock;
mod cluster;
mod cluster_clock;
mod database;
mod database_full;
mod disk;
mod failover;
mod failpoints;
mod finished;
mod kill;
mod message_broker;
mod messages;
mod network;
mod once;
mod own_events;
mod power;
mod releases;
mod reload;
mod second;
mod snapshot;
mod storm;
mod sweep;
mod term;
mod ticks;

use futures_util::future::BoxFuture;

use super::{Effort, Error, Verdict};

/// The code with which the daemon ends when it is in doubt about what is stored.
const IN_DOUBT: i32 = 3;

/// A fault that can be tried.
#[derive(Debug)]
pub struct Fault {
    /// Its name on the command line.
    pub name: &'static str,
    /// The fault, and the guarantees that must hold.
    pub about: &'static str,
    /// The repetitions in quick mode; 0 leaves it out.
    pub quick: u32,
    /// The number of rounds in a long run.
    pub long: u32,
    /// True if it mostly waits, so that it can be tried beside others.
    pub waits: bool,
    /// Runs it.
    pub run: fn(Effort) -> BoxFuture<'static, Result<Verdict, Error>>,
}

/// All of them.
pub const FAULTS: [Fault; 34] = [
    Fault {
        name: "kill",
        about: "kill -9 at random moments: nothing acknowledged is lost, no finished step runs again",
        quick: 6,
        long: 200,
        waits: false,
        run: |effort| Box::pin(kill::run(effort)),
    },
    Fault {
        name: "finished",
        about: "kill -9 while code runs or a wait lasts behind a call that has ended: the call is not made again",
        quick: 1,
        long: 20,
        waits: false,
        run: |effort| Box::pin(finished::run(effort)),
    },
    Fault {
        name: "once",
        about: "abort at each boundary and kill -9 within a change of a database with `once`: it happens once",
        quick: 1,
        long: 20,
        waits: false,
        run: |effort| Box::pin(once::run(effort)),
    },
    Fault {
        name: "term",
        about: "SIGTERM under load: it ends in order, and no effect is repeated",
        quick: 4,
        long: 100,
        waits: false,
        run: |effort| Box::pin(term::run(effort)),
    },
    Fault {
        name: "sweep-syncs",
        about: "kill -9 at every sync of one execution",
        quick: 1,
        long: 1,
        waits: false,
        run: |effort| Box::pin(sweep::run("sweep-syncs", &["fdatasync", "fsync"], effort)),
    },
    Fault {
        name: "sweep-writes",
        about: "kill -9 at every write of one execution",
        quick: 0,
        long: 1,
        waits: false,
        run: |effort| {
            Box::pin(sweep::run("sweep-writes", &["pwrite64", "write", "writev", "sendto"], effort))
        },
    },
    Fault {
        name: "disk-error",
        about: "EIO on a sync or a write, ENOSPC on a sync: no answer in doubt, exit with code 3",
        quick: 3,
        long: 40,
        waits: false,
        run: |effort| Box::pin(disk::errors(effort)),
    },
    Fault {
        name: "disk-full",
        about: "ENOSPC: 503 with Retry-After, and on again when there is space",
        quick: 1,
        long: 20,
        waits: false,
        run: |effort| Box::pin(disk::full(effort)),
    },
    Fault {
        name: "disk-space",
        about: "a disk is full: 503 with Retry-After, and on again when there is space (needs root)",
        quick: 0,
        long: 20,
        waits: false,
        run: |effort| Box::pin(disk::space(effort)),
    },
    Fault {
        name: "failpoints",
        about: "abort, error and delay at each boundary of commits, answers and effects (not in a release build)",
        quick: 1,
        long: 10,
        waits: false,
        run: |effort| Box::pin(failpoints::run(effort)),
    },
    Fault {
        name: "power",
        about: "the power of the disk is cut: nothing acknowledged is lost (needs root)",
        quick: 0,
        long: 50,
        waits: false,
        run: |effort| Box::pin(power::cut(effort)),
    },
    Fault {
        name: "power-relaxed",
        about: "the same with `durability: relaxed` must lose something, else the cut does not bite (needs root)",
        quick: 0,
        long: 10,
        waits: false,
        run: |effort| Box::pin(power::cut_relaxed(effort)),
    },
    Fault {
        name: "clock",
        about: "the clock steps by an hour and by a year, both ways: nothing stops, no instant runs twice",
        quick: 0,
        long: 2,
        waits: false,
        run: |effort| Box::pin(clock::run(effort)),
    },
    Fault {
        name: "reload",
        about: "files change under load, some to broken ones: no request to another webhook fails, memory stays flat",
        quick: 40,
        long: 1000,
        waits: false,
        run: |effort| Box::pin(reload::run(effort)),
    },
    Fault {
        name: "second",
        about: "a second daemon on the same data refuses, and the first does not notice",
        quick: 1,
        long: 10,
        waits: false,
        run: |effort| Box::pin(second::run(effort)),
    },
    Fault {
        name: "cluster",
        about: "of four daemons on one database one is killed, one frozen, one cut off: the fourth goes on with everything, they end with 3",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(cluster::run(effort)),
    },
    Fault {
        name: "own-events",
        about: "three daemons on one database send events, 2,000 in a round, and one is killed: each trigger starts once for each",
        quick: 1,
        long: 50,
        waits: true,
        run: |effort| Box::pin(own_events::run(effort)),
    },
    Fault {
        name: "messages",
        about: "three daemons on one database take messages of a broker, 200 in a round; a daemon or the broker is killed, or acknowledgements are lost: each starts one execution",
        quick: 1,
        long: 50,
        waits: true,
        run: |effort| Box::pin(messages::run(effort, message_broker::Kind::Nats)),
    },
    Fault {
        name: "messages-amqp",
        about: "the same with a server of AMQP, whose messages have the identity that their sender gives them",
        quick: 1,
        long: 50,
        waits: true,
        run: |effort| Box::pin(messages::run(effort, message_broker::Kind::Amqp)),
    },
    Fault {
        name: "messages-redis",
        about: "the same with the streams of a Redis server that writes each change to disk",
        quick: 1,
        long: 50,
        waits: true,
        run: |effort| Box::pin(messages::run(effort, message_broker::Kind::Redis)),
    },
    Fault {
        name: "storm",
        about: "1,000 automations fail in a round: the executions of the handler count each once, at most 600 start in a minute",
        // Two executions for failures of one kind are a minute apart.
        quick: 0,
        long: 10,
        waits: true,
        run: |effort| Box::pin(storm::run(effort)),
    },
    Fault {
        name: "database-restart",
        about: "the database is killed and started again: the daemon goes on, nothing lost, nothing doubled",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(database::restart(effort)),
    },
    Fault {
        name: "database-cuts",
        about: "connections to the database are cut within answers, 20 in a round: a commit without an answer counts once",
        quick: 1,
        long: 50,
        waits: true,
        run: |effort| Box::pin(database::cuts(effort)),
    },
    Fault {
        name: "database-silence",
        about: "connections to the database swallow everything: 503, and on again, nothing lost, nothing doubled",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(database::swallow(effort)),
    },
    Fault {
        name: "failover",
        about: "the database dies and its synchronous standby takes its place: the daemon goes on, nothing lost",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(failover::synchronous(effort)),
    },
    Fault {
        name: "failover-loss",
        about: "a standby that is behind takes its place: the daemon notices the loss, says so and ends with 3",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(failover::asynchronous(effort)),
    },
    Fault {
        name: "standby-gone",
        about: "the synchronous standby is gone: commits wait and are not given up, 503, and on again",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(failover::standby_gone(effort)),
    },
    Fault {
        name: "pooler",
        about: "a pooler in transaction mode is refused",
        quick: 2,
        long: 20,
        waits: true,
        run: |effort| Box::pin(database::pooler(effort)),
    },
    Fault {
        name: "database-full",
        about: "the disk of the database is full, that of its data or of its log: 503, and on again (needs root)",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(database_full::run(effort)),
    },
    Fault {
        name: "database-snapshot",
        about: "a transaction with an old snapshot stays open, and nothing vacuums: the daemon goes on",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(snapshot::run(effort)),
    },
    Fault {
        name: "network",
        about: "of three daemons one is cut off by the network, in one direction or both: 503, taken over, ends with 3 (needs root)",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(network::run(effort)),
    },
    Fault {
        name: "cluster-clock",
        about: "the clock of one of three daemons steps, and that of the database: nothing stops, no instant runs twice",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(cluster_clock::run(effort)),
    },
    Fault {
        name: "releases",
        about: "a later release migrates the database beside this one: it goes on, or stops once it cannot use the tables",
        quick: 1,
        long: 20,
        waits: true,
        run: |effort| Box::pin(releases::run(effort)),
    },
    Fault {
        name: "ticks",
        about: "four daemons with 200 schedules of a second, one freezes again and again: each instant runs once",
        quick: 1,
        long: 1,
        // Its daemons use all processors.
        waits: false,
        run: |effort| Box::pin(ticks::run(effort)),
    },
];
