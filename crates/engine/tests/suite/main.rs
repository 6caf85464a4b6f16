//! The engine from its handle: a real SQLite file, real files, real HTTP on loopback; time moved by hand.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails with the reason, and shows what it saw"
)]

mod common;
mod connections;
mod crashes;
mod waiting_events;
mod watched;

mod acceptance;
mod addresses;
mod admission;
mod brokers;
mod brokers_amqp;
mod brokers_redis;
mod calls;
mod checking;
mod checking_shipped;
mod clock_steps;
mod closing;
mod code;
mod code_ahead;
mod commit_crashes;
mod computed;
mod corpus;
mod defaults;
mod durability;
mod engine_events;
mod environment;
mod evaluations;
mod events;
mod executions;
mod files;
mod flow;
mod forecast;
mod hiding;
mod history;
mod hooks;
mod inputs;
mod kept_events;
mod keys;
mod large_files;
mod limit_changes;
mod limits;
mod links;
mod listening;
mod literals;
mod mail_received;
mod mistakes;
mod moved_triggers;
mod near_mistakes;
mod operations;
mod other_failures;
mod own_errors;
mod own_events;
mod pauses;
mod polls;
mod quorum;
mod recovering;
mod refused;
mod regressions;
mod relations;
mod reload;
mod reload_events;
mod replays;
mod retention;
mod sagas;
mod scaffold;
mod schedules;
mod schemas;
mod secret_outages;
mod secret_rotations;
mod shared_shards;
mod silences;
mod slips;
mod snapshots;
mod sql;
mod sql_wake;
mod stores;
mod system_mistakes;
mod transfer;
mod trials;
mod uploads;
mod values;
mod verbs;
