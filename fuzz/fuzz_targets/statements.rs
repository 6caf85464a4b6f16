//! A statement with parameters, by the rules of each database: text outside parameters stays as it is.

#![no_main]

use systems::{Dialect, Piece, Statement};

libfuzzer_sys::fuzz_target!(|input: &str| {
    for dialect in Dialect::ALL {
        let Ok(statement) = Statement::parse(input, dialect) else { continue };
        let mut whole = String::new();
        for piece in statement.pieces() {
            match piece {
                Piece::Text(text) => whole.push_str(text),
                Piece::Parameter { name, .. } => {
                    whole.push(':');
                    whole.push_str(name);
                }
            }
        }
        assert!(input.starts_with(&whole));
        assert!(input.len() == whole.len() || input[whole.len()..].starts_with(';'));
        let names = statement.parameters().len();
        let mut count = 0;
        statement.render(|_, _| {
            count += 1;
            1
        });
        assert!(count >= names);
    }
});
