//! What a worker sends, read as the pool reads it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::fuzzing::read_answers(bytes));
