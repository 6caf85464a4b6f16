//! Sees every exception before the code can catch it.
//!
//! The engine refuses memory by throwing an error that code may catch, and what is left after that nobody should rely on.
//! So the first refusal is noted where no code can prevent it: QuickJS calls `Error.prepareStackTrace` for whatever is thrown
//! through a frame of JavaScript, the first of which is below the first `catch`. The code itself never sees that hook. What
//! a built-in function throws in a job of a promise goes through no such frame: handlers get one around them (`js/harden.js`),
//! and calls of another's `then` are looked at besides. What is left are built-in functions whose errors the engine itself drops: an iterator's `return`, when its loop is left by
//! another error.

use std::rc::Rc;

use rquickjs::function::{FuncArg, This};
use rquickjs::object::Property;
use rquickjs::{Array, Ctx, Function, Object, Result, Type, Undefined, Value};

use super::super::host_state::HostState;

/// The messages of QuickJS for refused memory.
const REFUSED: &str = "out of memory";

pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host_state: &Rc<HostState>) -> Result<()> {
    let own = Rc::clone(host_state);
    let note =
        move |ctx: Ctx<'js>, function: FuncArg<Function<'js>>, thrown: Value<'js>, sites: Value<'js>| {
            if is_refusal(&ctx, &own, &function.0, &thrown) {
                own.record_refused_memory();
            }
            if let Some(error) = thrown.as_object().filter(|thrown| thrown.is_error())
                && keep_stack(error, &sites).is_err()
            {
                drop(ctx.catch());
            }
            // Anything else the engine would take for the stack of all that is thrown until the next `catch`, and not
            // call this for null.
            Undefined
        };
    native.set("noteError", Function::new(ctx.clone(), note)?)
}

/// True if memory was refused. If there is none even for an error, QuickJS throws null. A few built-in functions
/// (`normalize`) fail without an error of their own: QuickJS then throws its mark for no value, which code cannot make.
fn is_refusal<'js>(
    ctx: &Ctx<'js>,
    host_state: &HostState,
    function: &Function<'js>,
    thrown: &Value<'js>,
) -> bool {
    if thrown.type_of() == Type::Uninitialized {
        return true;
    }
    let Some(error) = thrown.as_object() else { return thrown.is_null() && host_state.has_touched_half() };
    // Other thrown values may run code of their own when read.
    if !error.is_error() {
        return false;
    }
    let message = function.get::<_, Object<'js>>("internal").and_then(|internal| {
        if error.get_prototype() == Some(internal) { error.get("message").map(Some) } else { Ok(None) }
    });
    match message {
        Ok(message) => message.is_some_and(|message: String| message.starts_with(REFUSED)),
        // There is no memory even to read it.
        Err(_) => {
            drop(ctx.catch());
            host_state.has_touched_half()
        }
    }
}

/// Notes a refusal that a promise is about to be rejected with: what a built-in function throws that the engine itself has
/// called goes through no frame of JavaScript. Called behind each call of the `then` of something that is no promise.
pub(in crate::worker) fn note_thrown_by_job(ctx: &Ctx<'_>, host_state: &HostState) {
    if !ctx.has_exception() {
        return;
    }
    let thrown = ctx.catch();
    let is_refusal = match thrown.as_object().filter(|thrown| thrown.is_error()) {
        None => thrown.is_null() && host_state.has_touched_half(),
        Some(error) => {
            let text = |key: &str| error.get::<_, String>(key);
            match (text("name"), text("message")) {
                (Ok(name), Ok(message)) => name == "InternalError" && message.starts_with(REFUSED),
                _ => {
                    drop(ctx.catch());
                    host_state.has_touched_half()
                }
            }
        }
    };
    if is_refusal {
        host_state.record_refused_memory();
    }
    let _ = ctx.throw(thrown);
}

/// Gives an error its stack as QuickJS writes it. Where the stack of the engine is full no function can be called, but then
/// this is called for the frame above once more.
fn keep_stack<'js>(error: &Object<'js>, sites: &Value<'js>) -> Result<()> {
    let Some(sites) = sites.as_array().filter(|sites| !sites.is_empty()) else { return Ok(()) };
    if !error.get::<_, Value<'js>>("stack")?.is_undefined() {
        return Ok(());
    }
    error.prop("stack", Property::from(stack(sites)?).writable().configurable())
}

/// Lines such as `    at name (code:3:7)`.
fn stack(sites: &Array<'_>) -> Result<String> {
    let mut text = String::new();
    for site in sites.iter::<Object<'_>>() {
        let site = site?;
        let function: Option<String> = ask(&site, "getFunctionName")?;
        let file: Option<String> = ask(&site, "getFileName")?;
        let (line, column): (Option<i32>, Option<i32>) =
            (ask(&site, "getLineNumber")?, ask(&site, "getColumnNumber")?);
        let function = function.filter(|name| !name.is_empty()).unwrap_or_else(|| "<anonymous>".to_owned());
        let place = match (file, line, column) {
            (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}"),
            _ => "native".to_owned(),
        };
        text.push_str(&format!("    at {function} ({place})\n"));
    }
    Ok(text)
}

fn ask<'js, T: rquickjs::FromJs<'js>>(site: &Object<'js>, what: &str) -> Result<T> {
    site.get::<_, Function<'js>>(what)?.call((This(site.clone()),))
}
