//! Responses of a mail server: their bounds before the parser, then headers and parts of messages.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| systems::fuzzing::read_responses(bytes));
