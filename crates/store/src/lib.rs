//! The only crate that knows SQL: one contract, [`Store`], and what keeps it.

mod contract;

pub use contract::{
    Accept, Accepted, Address, Append, Definition, ExecutionFilter, ExecutionRow, Info, NewExecution, Page, Prune,
    Store, Watermark,
};
