//! SQL against real databases: the same rules on each of them.

mod canary;
mod cancel;
mod confined;
mod database;
mod inserts;
#[cfg(feature = "mysql")]
mod mariadb;
mod once;
mod parameters;
mod results;
mod transactions;
