//! Looks into a module: whether its syntax is good, and what it names.

use rquickjs::{Context, Module, Runtime};

use super::failure::{self, CODE};
use super::prepare;
use crate::facts::{Facts, SyntaxError};
use crate::module::Position;

/// What a module is made of, or why its text is none.
pub(super) fn check(source: &str) -> Result<Facts, Vec<SyntaxError>> {
    compile(source).map_err(|error| vec![error])?;
    prepare::prepare(source).map_err(|error| vec![error])?;
    Ok(Facts {
        export: None,
        parameters: Vec::new(),
        references: Vec::new(),
        state: Vec::new(),
        computed_keys: Vec::new(),
    })
}

/// Whether QuickJS takes the text.
fn compile(source: &str) -> Result<(), SyntaxError> {
    let start = Position { line: 1, column: 1 };
    let broken = |error: rquickjs::Error| SyntaxError { message: error.to_string(), at: start };
    let runtime = Runtime::new().map_err(broken)?;
    let context = Context::full(&runtime).map_err(broken)?;
    context.with(|ctx| {
        if Module::declare(ctx.clone(), CODE, source.as_bytes()).is_ok() {
            return Ok(());
        }
        let thrown = ctx.catch();
        let text = |key: &str| {
            thrown.as_object().and_then(|error| error.get::<_, String>(key).ok()).unwrap_or_default()
        };
        let at = failure::places(&text("stack"), 0).first().map_or(start, |place| place.at);
        Err(SyntaxError { message: text("message"), at })
    })
}
