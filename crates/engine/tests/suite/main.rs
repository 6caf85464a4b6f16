//! The engine from its handle: a real SQLite file, real files, real HTTP on loopback; time moved by hand.

mod common;

mod durability;
mod executions;
mod flow;
mod hooks;
mod reload;
mod schedules;
