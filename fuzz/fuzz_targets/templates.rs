//! A text with expressions, cut at them as a file is.

#![no_main]

use expression::template::{TemplateToken, tokenize};

libfuzzer_sys::fuzz_target!(|input: &str| {
    for stretch in tokenize(input) {
        if let TemplateToken::Expression { source: inside, offset } = stretch {
            assert_eq!(&input[offset..offset + inside.len()], inside);
            let _ = expression::Expression::compile(inside, text::Span::default());
        }
    }
});
