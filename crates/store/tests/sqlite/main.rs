//! What is particular to the store in a SQLite file.

mod common;
mod crash;
mod faults;
mod files;
