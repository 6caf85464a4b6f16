//! Documents, read and written in real worker processes, and files of rows.

#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails with the reason, and says that it was skipped"
)]

mod archives;
mod csv;
mod hostile;
mod html;
mod openpyxl;
mod sheets;
mod support;
mod workers;
