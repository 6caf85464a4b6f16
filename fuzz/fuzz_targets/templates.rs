//! A text with expressions, cut at them as a file is.

#![no_main]

use model::template::{Stretch, stretches};

libfuzzer_sys::fuzz_target!(|input: &str| {
    for stretch in stretches(input) {
        if let Stretch::Expression { inside, offset } = stretch {
            assert_eq!(&input[offset..offset + inside.len()], inside);
            let _ = model::Expression::compile(inside, model::Span::default());
        }
    }
});
