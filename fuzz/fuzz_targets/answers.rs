//! Messages of a worker, read as the pool reads them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::fuzzing::read_answers(bytes));
