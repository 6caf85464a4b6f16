//! A file of an automation: it loads, or is refused at its places.

#![no_main]

use std::sync::Arc;

libfuzzer_sys::fuzz_target!(|input: &str| {
    let source = Arc::new(model::Source::new("automations/fuzz.yaml", input));
    let _ = model::load::automation(source, "fuzz").report;
});
