//! Both listeners over real sockets, on an engine with a real store.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod support;

mod access;
mod api;
mod authoring;
mod bulk;
mod described;
mod editing;
mod execution_page;
mod framing;
mod hooks;
mod life;
mod limits;
mod login;
mod news;
mod own_events;
mod project_files;
mod replays;
mod resume;
mod runs;
mod sessions;
mod streams;
mod tokens;
mod trials;
mod uploads;
mod waiting;
