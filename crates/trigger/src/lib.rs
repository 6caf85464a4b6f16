//! When to start an Automation and with what. Pure: time and requests in, payloads and answers out.
//!
//! Nothing here reads the clock, opens a connection or waits. [`webhook::receive`] turns a request into what is
//! stored and what steps read; [`challenge`] answers what senders ask before that; [`sending`] tells what
//! is sent again; [`response`] makes every answer a caller can get, with the headers that keep it
//! harmless in a browser; [`schedule::Schedule`] says when a schedule fires, in any zone, over every change of the
//! clocks. What is outside this crate is only who asks, and what is done with the answer.

pub mod challenge;
pub mod response;
pub mod schedule;
pub mod sending;
pub mod verify;
pub mod webhook;

mod rejection;
mod results;

pub use rejection::Rejection;
pub use results::results;
pub use schedule::{Missed, Schedule, ScheduleError};
