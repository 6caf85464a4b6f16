//! Responses of a mail server: their bounds before the parser, then headers and parts of messages. A session survives a panic of the
//! parser with an error; memory, time, the stack and our own code are what counts here.

#![no_main]

use std::sync::Once;

static QUIET: Once = Once::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Replaces the hook of libFuzzer, which ends at caught panics too. It still ends at uncaught ones.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    systems::fuzzing::read_responses(bytes);
});
