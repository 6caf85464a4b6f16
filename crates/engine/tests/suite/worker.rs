//! The worker that the tests start.

use std::process::ExitCode;

fn main() -> ExitCode {
    catalog::serve_code()
}
