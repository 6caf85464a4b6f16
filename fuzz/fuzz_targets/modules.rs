//! Modules of an author, read as a worker reads them.

#![no_main]

libfuzzer_sys::fuzz_target!(|source: &str| script::fuzzing::load_module(source));
