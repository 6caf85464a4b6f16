//! What an author writes, read as a worker reads it.

#![no_main]

libfuzzer_sys::fuzz_target!(|source: &str| script::fuzzing::load_module(source));
