//! Observes every exception before the code can catch it.
//!
//! The engine reports failed allocations with an error that code can catch, after which its state is unreliable. So the first
//! failure is recorded where code cannot prevent it: QuickJS calls `Error.prepareStackTrace` for every exception that passes
//! a JavaScript frame, and the first such frame is below the first `catch`. The code itself never sees that hook. Exceptions
//! of built-in functions in promise jobs pass no such frame: handlers are wrapped in one (`js/harden.js`), and calls of a
//! foreign `then` are checked separately. The remaining cases are built-in functions whose errors the engine drops, such as
//! an iterator's `return` when another error leaves its loop.

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
            // QuickJS takes any other return value as the stack of every error until the next `catch`; after null it stops calling this
            // hook.
            Undefined
        };
    native.set("noteError", Function::new(ctx.clone(), note)?)
}

/// True if an allocation failed. Without memory even for an error, QuickJS throws null. A few built-in functions
/// (`normalize`) fail without an error of their own: QuickJS then throws its internal marker, which code cannot create.
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
    // Reading other thrown values may run the author's code.
    if !error.is_error() {
        return false;
    }
    let message = function.get::<_, Object<'js>>("internal").and_then(|internal| {
        if error.get_prototype() == Some(internal) { error.get("message").map(Some) } else { Ok(None) }
    });
    match message {
        Ok(message) => message.is_some_and(|message: String| message.starts_with(REFUSED)),
        // There is not even memory to read it.
        Err(_) => {
            drop(ctx.catch());
            host_state.has_touched_half()
        }
    }
}

/// Records a failed allocation that is about to reject a promise: exceptions of built-in functions called by the engine itself
/// pass no JavaScript frame. Called after each call of the `then` of a non-promise.
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

/// Sets the stack of an error as QuickJS formats it. On a stack overflow no function can be called, but then this is called
/// again for the next frame.
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
