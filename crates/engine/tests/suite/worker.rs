//! The worker that the tests start.

use std::process::ExitCode;

fn main() -> ExitCode {
    engine::serve_code()
}
