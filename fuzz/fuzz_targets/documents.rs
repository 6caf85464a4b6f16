//! Sheets, pages and archives, read as a document worker reads them. The first byte selects the kind. A worker survives the panic of a
//! parser with an error; memory, time and the stack are what counts here.

#![no_main]

use std::sync::Once;

static QUIET: Once = Once::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // libFuzzer would end at a panic that is caught.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    if let Some((kind, bytes)) = bytes.split_first() {
        systems::fuzzing::read_document(*kind, bytes);
    }
});
