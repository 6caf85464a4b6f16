//! A cell: a runtime with hardened intrinsics that one module is compiled in, and each of its runs evaluated anew.
//!
//! The module is wrapped in a function ([`super::prepare`]), so that evaluating it anew is calling that function:
//! what the module declares lives in the call and ends with it. All that outlives a call is frozen. After an error
//! the cell is thrown away, with whatever the run may have left in its queue. Else it lives as long as its worker: after
//! twenty thousand runs that made classes, symbols and promises its heap was what it was after two thousand. One whose heap
//! does grow goes.
//!
//! That function is what a worker keeps of a module, known by the digest of its text, and not its bytecode as bytes: QuickJS
//! believes what it reads as bytecode, so reading it is `unsafe`, and a run would pay for it each time.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use rquickjs::context::intrinsic::{
    Date, Eval, Json, MapSet, Promise as Promises, Proxy, RegExp, RegExpCompiler, TypedArrays,
};
use rquickjs::function::Args;
use rquickjs::promise::PromiseHookType;
use rquickjs::{Context, Ctx, Function, Module, Object, Persistent, Runtime, Value};

use super::desk::{Desk, Left};
use super::failure;
use super::host;
use super::memory::Memory;
use super::prepare::{LINES_BEFORE, Prepared};
use super::wire::Outlet;
use crate::call::Kind;
use crate::protocol::{Fault, FaultKind, Request, Write};

/// The stack of the engine, in bytes; the process has several times that.
const MAX_STACK: usize = 1024 * 1024;
/// How far the heap may grow over what it was, before the cell is thrown away: what is left over of the runs before
/// must not be what a later run lacks.
const MAX_GROWTH: i64 = 8 * 1024 * 1024;
/// How often the heap is looked at: it takes longer than a small run.
const LOOK_EVERY: u32 = 500;

/// A module, compiled, in a world of its own.
pub(super) struct Cell {
    // Dropped in this order: what is held of the context before the context, and that before its runtime.
    parts: Parts,
    context: Context,
    runtime: Runtime,
    desk: Rc<Desk>,
    runs: u32,
    heap: i64,
}

/// The functions that are called from outside.
#[derive(Clone)]
struct Parts {
    factory: Persistent<Function<'static>>,
    run: Persistent<Function<'static>>,
    collect: Persistent<Function<'static>>,
    describe: Persistent<Function<'static>>,
}

/// How a run ended.
pub(super) enum Run {
    Clean(Given),
    Faulty(Fault),
}

/// What a run gave.
pub(super) struct Given {
    /// As JSON; empty for nothing.
    pub(super) result: Bytes,
    pub(super) writes: Vec<Write>,
    pub(super) files: Vec<Bytes>,
    /// Whether texts of the result stand for something else.
    pub(super) has_marked: bool,
}

impl Run {
    /// Whether nothing speaks against another run in the same cell.
    pub(super) fn is_clean(&self) -> bool {
        matches!(self, Self::Clean(_))
    }

    /// Whether the process is not to run anything any more.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(self, Self::Faulty(fault) if matches!(fault.kind, FaultKind::Overrun | FaultKind::OutOfMemory))
    }
}

/// Why JavaScript did not give a value.
enum Stop {
    /// It threw; the value is with the context.
    Thrown,
    /// It never will: nothing is left to do, and its promise is open.
    Open,
}

impl From<rquickjs::Error> for Stop {
    fn from(_: rquickjs::Error) -> Self {
        Self::Thrown
    }
}

impl Cell {
    /// Compiles a module in a world of its own.
    pub(super) fn new(
        prepared: &Prepared,
        memory: Memory,
        outlet: &Rc<Outlet>,
        until: Instant,
    ) -> Result<Self, Fault> {
        let broken = |error: rquickjs::Error| failure::thrown(&error.to_string(), "", LINES_BEFORE);
        let runtime = Runtime::new().map_err(broken)?;
        runtime.set_memory_limit(memory.limit);
        runtime.set_max_stack_size(MAX_STACK);
        runtime.set_loader(host::NoModules, host::NoModules);
        let desk = Rc::new(Desk::new(memory, Rc::clone(outlet)));
        let asked = Rc::clone(&desk);
        runtime.set_interrupt_handler(Some(Box::new(move || asked.is_over())));
        let own = Rc::clone(&desk);
        runtime.set_promise_hook(Some(Box::new(move |ctx, kind, _, _| {
            if kind == PromiseHookType::After {
                host::note_thrown_by_job(&ctx, &own);
            }
        })));
        desk.until(until);
        type Language = (Date, Eval, RegExpCompiler, RegExp, Json, Proxy, MapSet, TypedArrays, Promises);
        let context = Context::custom::<Language>(&runtime).map_err(broken)?;
        let parts = context.with(|ctx| {
            // The author's text by itself: only what is a whole module may be put between the lines of the wrapper.
            let alone = Module::declare(ctx.clone(), failure::CODE, prepared.source.as_bytes());
            let alone = alone.map_err(|_| Self::fault(&ctx, &desk, None, 0))?;
            let parts = Self::parts(&ctx, &desk, &prepared.wrapped, &alone);
            parts.map_err(|_| Self::fault(&ctx, &desk, None, LINES_BEFORE))
        })?;
        let heap = runtime.memory_usage().malloc_size;
        Ok(Self { parts, context, runtime, desk, runs: 0, heap })
    }

    fn parts<'js>(
        ctx: &Ctx<'js>,
        desk: &Rc<Desk>,
        wrapped: &str,
        alone: &Module<'js>,
    ) -> rquickjs::Result<Parts> {
        let world: Object<'js> = host::install(ctx, desk)?;
        let module = Module::declare(ctx.clone(), failure::CODE, wrapped.as_bytes())?;
        let freeze: Function<'js> = world.get("freeze")?;
        // Else `import.meta` would be a place where runs leave things for each other. The engine finds it by the name of
        // the module, which is that of the first one too.
        freeze.call::<_, ()>((alone.meta()?,))?;
        freeze.call::<_, ()>((module.meta()?,))?;
        let (module, promise) = module.eval()?;
        promise.finish::<()>()?;
        let keep = |function: Function<'js>| Persistent::save(ctx, function);
        Ok(Parts {
            factory: keep(module.get("default")?),
            run: keep(world.get("run")?),
            collect: keep(world.get("collect")?),
            describe: keep(world.get("describe")?),
        })
    }

    /// Evaluates the module anew and calls its function. `earlier` is what runs before it have left for it.
    pub(super) fn run(&mut self, request: &Request, earlier: &[Bytes], until: Instant) -> Run {
        self.runs += 1;
        self.desk.begin(until, request.head.nonce);
        let ended = self.call(request, earlier);
        let Self { parts, context, desk, .. } = self;
        match ended {
            Ok(result) if !desk.is_over() => {
                let Left { writes, files, has_marked } = desk.end();
                Run::Clean(Given { result: result.into(), writes, files, has_marked })
            }
            // It may have caught what it was stopped by.
            Ok(_) | Err(Stop::Thrown) => Run::Faulty(
                context.with(|ctx| Self::fault(&ctx, desk, Some(parts.describe.clone()), LINES_BEFORE)),
            ),
            Err(Stop::Open) => {
                drop(desk.end());
                let message = "the code never ends: it waits for a promise that nothing is left to settle";
                Run::Faulty(failure::thrown(message, "", LINES_BEFORE))
            }
        }
    }

    fn call(&self, request: &Request, earlier: &[Bytes]) -> Result<Vec<u8>, Stop> {
        let Self { parts, context, .. } = self;
        let returned = context.with(|ctx| Self::begin(&ctx, parts.clone(), request, earlier))?;
        self.drain()?;
        let text = context.with(|ctx| Self::collect(&ctx, parts.clone(), returned))?;
        // What getters and `toJSON` of the result have left to do is part of the run too.
        self.drain()?;
        Ok(text)
    }

    /// Calls the module's function; what it returns may be a promise.
    fn begin(
        ctx: &Ctx<'_>,
        parts: Parts,
        request: &Request,
        earlier: &[Bytes],
    ) -> Result<Persistent<Value<'static>>, Stop> {
        let mut args = Args::new(ctx.clone(), 9);
        args.push_arg(parts.factory.restore(ctx)?)?;
        args.push_arg(request.head.kind == Kind::Trigger)?;
        args.push_arg(request.execution_id.as_str())?;
        match &request.step_id {
            Some(id) => args.push_arg(id.as_str())?,
            None => args.push_arg(Value::new_null(ctx.clone()))?,
        }
        args.push_arg(request.started_at.as_str())?;
        args.push_arg(host::parsed(ctx, &request.argument)?)?;
        let has_more = !request.context.is_empty();
        args.push_arg(has_more.then(|| host::parsed(ctx, &request.context)).transpose()?)?;
        args.push_arg(host::buffers(ctx, &request.files)?)?;
        args.push_arg(host::results(ctx, earlier)?)?;
        let returned: Value<'_> = args.apply(&parts.run.restore(ctx)?)?;
        Ok(Persistent::save(ctx, returned))
    }

    /// Makes JSON of what was returned, once nothing is left to do.
    fn collect(ctx: &Ctx<'_>, parts: Parts, returned: Persistent<Value<'static>>) -> Result<Vec<u8>, Stop> {
        let value = match returned.restore(ctx)?.try_into_promise() {
            Ok(promise) => promise.result::<Value<'_>>().ok_or(Stop::Open)??,
            Err(value) => value,
        };
        let text: Option<rquickjs::String<'_>> = parts.collect.restore(ctx)?.call((value,))?;
        let Some(text) = text else { return Ok(Vec::new()) };
        Ok(host::well_formed(text.to_string()?).into_bytes())
    }

    /// Does what is left to do. A chain that never ends does not ask the interrupt handler: the loop is ours.
    fn drain(&self) -> Result<(), Stop> {
        loop {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                // What code throws rejects a promise. What a job itself throws is that there was no memory for that, or
                // that it was interrupted.
                Err(_) if self.desk.is_over() => {}
                Err(_) => self.desk.refused(),
            }
            if self.desk.is_over() {
                return Err(Stop::Thrown);
            }
        }
        if self.desk.stopped().is_some() { Err(Stop::Thrown) } else { Ok(()) }
    }

    /// What was thrown, or that time or memory have run out.
    fn fault(
        ctx: &Ctx<'_>,
        desk: &Desk,
        describe: Option<Persistent<Function<'static>>>,
        lines_before: u32,
    ) -> Fault {
        let thrown = ctx.catch();
        let described = match describe.map(|describe| describe.restore(ctx)) {
            _ if desk.stopped().is_some() => None,
            Some(Ok(describe)) => describe.call::<_, Vec<String>>((thrown,)).ok(),
            Some(_) => None,
            // Nothing of the author's has run yet, so the error is the engine's.
            None => thrown.as_object().map(|error| {
                let text = |key: &str| error.get::<_, String>(key).unwrap_or_default();
                vec![text("message"), text("stack"), String::new()]
            }),
        };
        let stopped = desk.stopped();
        drop(desk.end());
        match (stopped, described.as_deref()) {
            (Some(kind), _) => failure::ended(kind),
            (None, Some([message, stack, memory])) if memory.is_empty() => {
                failure::thrown(message, stack, lines_before)
            }
            _ => failure::ended(FaultKind::OutOfMemory),
        }
    }

    /// How many runs it has served.
    #[cfg(test)]
    pub(super) fn runs(&self) -> u32 {
        self.runs
    }

    /// Whether its heap holds much more than at the beginning. Looked at now and then.
    pub(super) fn has_grown(&mut self) -> bool {
        if !self.runs.is_multiple_of(LOOK_EVERY) {
            return false;
        }
        let grown = |heap: i64| heap - self.heap > MAX_GROWTH;
        if !grown(self.runtime.memory_usage().malloc_size) {
            return false;
        }
        self.runtime.run_gc();
        grown(self.runtime.memory_usage().malloc_size)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::prepare;
    use super::*;

    fn cell(text: &str) -> Cell {
        let prepared = prepare::prepare(text).expect("it is a module");
        let until = Instant::now() + Duration::from_secs(60);
        Cell::new(&prepared, Memory::from_now(64 << 20), &Rc::default(), until)
            .unwrap_or_else(|fault| panic!("{}", fault.message))
    }

    fn run(cell: &mut Cell) -> Run {
        let request = Request::of("");
        cell.run(&request, &[], Instant::now() + request.head.deadline)
    }

    #[test]
    fn what_many_runs_leave_behind_is_no_more_than_what_a_few_do() {
        const TEXT: &str = "export default async () => {
  class Own { static value = Symbol.for('x' + Math.random()); }
  const list = Array.from({ length: 50 }, (_, index) => ({ ['k' + Math.random()]: index }));
  await null;
  return { data: [list.length, new RegExp('a' + Math.random()).source, String(Own.value)] };
};";
        let mut cell = cell(TEXT);
        let mut heap_after = |runs: u32| {
            for _ in 0..runs {
                assert!(run(&mut cell).is_clean());
            }
            cell.runtime.run_gc();
            cell.runtime.memory_usage().malloc_size
        };
        let few = heap_after(500);
        assert_eq!(heap_after(1_500), few);
    }

    #[test]
    fn a_cell_whose_heap_has_grown_serves_no_other_run() {
        let mut cell = cell("export default () => 1;");
        // As if it had been so much smaller at the beginning.
        cell.heap -= 2 * MAX_GROWTH;
        let grown = (1..=LOOK_EVERY).find(|_| {
            assert!(run(&mut cell).is_clean());
            cell.has_grown()
        });
        assert_eq!(grown, Some(LOOK_EVERY));
        cell.heap += 2 * MAX_GROWTH;
        assert!(!cell.has_grown());
    }
}
