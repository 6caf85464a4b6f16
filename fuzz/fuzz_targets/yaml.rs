//! A file of an automation: it loads, or is refused at its places.

#![no_main]

use std::sync::Arc;

libfuzzer_sys::fuzz_target!(|input: &str| {
    let source = Arc::new(text::Source::new("automations/fuzz.yaml", input));
    let _ = language::load::automation(source, "fuzz").report;
});
