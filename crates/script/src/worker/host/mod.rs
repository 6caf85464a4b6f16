//! The host's additions to the language, and its removals: see the files in `js/`, in their order.
//!
//! Bytes are always copied into QuickJS: it does not count external memory, and its heap is bounded.

mod bytes;
mod crypto;
mod errors;
mod text;
mod url;

use std::rc::Rc;

use ::bytes::Bytes;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{ArrayBuffer, Ctx, Exception, Function, Module, Object, Result, Value};

use super::host_state::HostState;
use crate::call::Level;

pub(super) use errors::note_thrown_by_job;
pub(super) use text::well_formed;

/// The prelude: one function of the natives, concatenated from the files in `js/`.
const WORLD: &str = concat!(
    "(native) => { \"use strict\";\n",
    include_str!("../js/bytes.js"),
    include_str!("../js/url.js"),
    include_str!("../js/crypto.js"),
    include_str!("../js/clone.js"),
    include_str!("../js/context.js"),
    include_str!("../js/run.js"),
    include_str!("../js/harden.js"),
    "\nharden();\nreturn { run, collect, describe, freeze: Object.freeze }; }"
);

type Attributes<'js> = Option<ImportAttributes<'js>>;

/// Rejects every `import`.
#[derive(Clone, Copy)]
pub(super) struct NoModules;

impl Resolver for NoModules {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        _base: &str,
        name: &str,
        _attributes: Attributes<'js>,
    ) -> Result<String> {
        let message =
            format!("`{name}` cannot be imported: code has no other modules, write what it needs into it");
        Err(Exception::throw_type(ctx, &message))
    }
}

impl Loader for NoModules {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Attributes<'js>,
    ) -> Result<Module<'js, Declared>> {
        Err(Exception::throw_type(ctx, &format!("`{name}` cannot be imported")))
    }
}

/// Creates the globals that a module sees, and returns the functions that the isolate calls.
pub(super) fn install<'js>(ctx: &Ctx<'js>, host_state: &Rc<HostState>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    text::install(ctx, &native)?;
    url::install(ctx, &native)?;
    crypto::install(ctx, &native)?;
    errors::install(ctx, &native, host_state)?;
    desk_functions(ctx, &native, host_state)?;
    let mut options = rquickjs::context::EvalOptions::default();
    options.filename = Some("cogwork".to_owned());
    let world: Function<'js> = ctx.eval_with_options(WORLD, options)?;
    world.call((native,))
}

/// The functions by which a run writes to the host's state.
fn desk_functions<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host_state: &Rc<HostState>) -> Result<()> {
    let levels = [Level::Debug, Level::Info, Level::Warn, Level::Error];
    let own = Rc::clone(host_state);
    let log = move |level: usize, text: String| {
        own.log(levels.get(level).copied().unwrap_or(Level::Info), &text);
    };
    native.set("log", Function::new(ctx.clone(), log)?)?;
    let own = Rc::clone(host_state);
    let write = move |key: String, value: Option<String>| own.write(key, value.map(well_formed));
    native.set("write", Function::new(ctx.clone(), write)?)?;
    let own = Rc::clone(host_state);
    let add_file = move |ctx: Ctx<'js>, data: String| {
        own.add_file(bytes::unpack(&ctx, &data)?).ok_or_else(|| {
            Exception::throw_range(&ctx, "what the code returns holds more than 8 MiB of bytes")
        })
    };
    native.set("keep", Function::new(ctx.clone(), add_file)?)?;
    let own = Rc::clone(host_state);
    native.set("integer", Function::new(ctx.clone(), move |digits: String| own.mark_integer(&digits))?)
}

/// The bytes of files as buffers; `None` without files.
pub(super) fn buffers<'js>(ctx: &Ctx<'js>, files: &[Bytes]) -> Result<Option<Vec<ArrayBuffer<'js>>>> {
    if files.is_empty() {
        return Ok(None);
    }
    files.iter().map(|file| ArrayBuffer::new_copy(ctx.clone(), file)).collect::<Result<_>>().map(Some)
}

/// The results of earlier runs; `None` if it reads none.
pub(super) fn results<'js>(ctx: &Ctx<'js>, earlier: &[Bytes]) -> Result<Option<Vec<Value<'js>>>> {
    if earlier.is_empty() {
        return Ok(None);
    }
    let parse = |text: &Bytes| match &text[..] {
        [] => Ok(Value::new_null(ctx.clone())),
        _ => parsed(ctx, text),
    };
    earlier.iter().map(parse).collect::<Result<_>>().map(Some)
}

/// Parses JSON to a value.
pub(super) fn parsed<'js>(ctx: &Ctx<'js>, text: &Bytes) -> Result<Value<'js>> {
    // Includes space for the terminating zero of C; otherwise it would be copied once more.
    let mut own = Vec::with_capacity(text.len() + 1);
    own.extend_from_slice(text);
    ctx.json_parse(own)
}
