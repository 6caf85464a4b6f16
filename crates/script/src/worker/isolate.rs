//! An isolate: a QuickJS runtime with hardened intrinsics in which one module is compiled, and evaluated anew for each run.
//!
//! The module is wrapped in a function ([`super::prepare`]), and evaluating it anew is calling that function: the module's
//! declarations live in the call and end with it. All that outlives a call is frozen. An error discards the isolate, with
//! the jobs that the run may have left in its queue. Else it lives as long as its worker: after twenty thousand runs that
//! made classes, symbols and promises its heap had the size that it had after two thousand. An isolate whose heap does
//! grow is discarded.
//!
//! A worker caches that function by the digest of the module's text, and not the module's bytecode: QuickJS does not verify
//! bytecode, so loading it is `unsafe`, and each run would pay for it.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use rquickjs::context::intrinsic::{
    Date, Eval, Json, MapSet, Promise as Promises, Proxy, RegExp, RegExpCompiler, TypedArrays,
};
use rquickjs::function::Args;
use rquickjs::promise::PromiseHookType;
use rquickjs::{Context, Ctx, Function, Module, Object, Persistent, Runtime, Value};

use super::failure;
use super::host;
use super::host_state::{HostOutput, HostState};
use super::memory::Memory;
use super::prepare::{LINES_BEFORE, Prepared};
use super::transport::ReplySender;
use crate::call::Kind;
use crate::protocol::{Fault, FaultKind, Request, Write};

/// The stack of QuickJS, in bytes; the process has several times that.
const MAX_STACK: usize = 1024 * 1024;
/// The growth of the heap, in bytes, after which an isolate is discarded: garbage of earlier runs must not exhaust the
/// memory of a later one.
const MAX_GROWTH: i64 = 8 * 1024 * 1024;
/// The number of runs between checks of the heap: a check takes longer than a small run.
const LOOK_EVERY: u32 = 500;

/// A compiled module in a QuickJS runtime of its own.
pub(super) struct Isolate {
    // Dropped in this order: references into the context before the context, and the context before its runtime.
    parts: Parts,
    context: Context,
    runtime: Runtime,
    host_state: Rc<HostState>,
    runs: u32,
    heap: i64,
}

/// The functions that the host calls.
#[derive(Clone)]
struct Parts {
    factory: Persistent<Function<'static>>,
    run: Persistent<Function<'static>>,
    collect: Persistent<Function<'static>>,
    describe: Persistent<Function<'static>>,
}

/// The end of a run.
pub(super) enum Run {
    Clean(RunResult),
    Faulty(Fault),
}

/// The result of a run.
pub(super) struct RunResult {
    /// As JSON; empty for nothing.
    pub(super) result: Bytes,
    pub(super) writes: Vec<Write>,
    pub(super) files: Vec<Bytes>,
    /// True if texts of the result are marked as files or integers.
    pub(super) has_marked: bool,
}

impl Run {
    /// True if the context can run again.
    pub(super) fn is_clean(&self) -> bool {
        matches!(self, Self::Clean(_))
    }

    /// True if the process must not run anything more.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(self, Self::Faulty(fault) if matches!(fault.kind, FaultKind::Overrun | FaultKind::OutOfMemory))
    }
}

/// The reason why JavaScript returned no value.
enum Interruption {
    /// It threw; the context holds the exception.
    Thrown,
    /// Its promise is pending, and no job is left that could settle it.
    Open,
}

impl From<rquickjs::Error> for Interruption {
    fn from(_: rquickjs::Error) -> Self {
        Self::Thrown
    }
}

impl Isolate {
    /// Compiles a module in a runtime of its own.
    pub(super) fn new(
        prepared: &Prepared,
        memory: Memory,
        replies: &Rc<ReplySender>,
        until: Instant,
    ) -> Result<Self, Fault> {
        let broken = |error: rquickjs::Error| failure::thrown(&error.to_string(), "", LINES_BEFORE);
        let runtime = Runtime::new().map_err(broken)?;
        runtime.set_memory_limit(memory.limit);
        runtime.set_max_stack_size(MAX_STACK);
        runtime.set_loader(host::NoModules, host::NoModules);
        let host_state = Rc::new(HostState::new(memory, Rc::clone(replies)));
        let asked = Rc::clone(&host_state);
        runtime.set_interrupt_handler(Some(Box::new(move || asked.must_end())));
        let own = Rc::clone(&host_state);
        runtime.set_promise_hook(Some(Box::new(move |ctx, kind, _, _| {
            if kind == PromiseHookType::After {
                host::note_thrown_by_job(&ctx, &own);
            }
        })));
        host_state.until(until);
        type Language = (Date, Eval, RegExpCompiler, RegExp, Json, Proxy, MapSet, TypedArrays, Promises);
        let context = Context::custom::<Language>(&runtime).map_err(broken)?;
        let parts = context.with(|ctx| {
            // The author's text alone first: only a complete module may be put between the lines of the wrapper.
            let alone = Module::declare(ctx.clone(), failure::CODE, prepared.source.as_bytes());
            let alone = alone.map_err(|_| Self::fault(&ctx, &host_state, None, 0))?;
            let parts = Self::parts(&ctx, &host_state, &prepared.wrapped, &alone);
            parts.map_err(|_| Self::fault(&ctx, &host_state, None, LINES_BEFORE))
        })?;
        let heap = runtime.memory_usage().malloc_size;
        Ok(Self { parts, context, runtime, host_state, runs: 0, heap })
    }

    fn parts<'js>(
        ctx: &Ctx<'js>,
        host_state: &Rc<HostState>,
        wrapped: &str,
        alone: &Module<'js>,
    ) -> rquickjs::Result<Parts> {
        let world: Object<'js> = host::install(ctx, host_state)?;
        let module = Module::declare(ctx.clone(), failure::CODE, wrapped.as_bytes())?;
        let freeze: Function<'js> = world.get("freeze")?;
        // Runs could otherwise leave values for each other in `import.meta`. QuickJS finds it by the name of the module,
        // which both have in common.
        freeze.call::<_, ()>((alone.meta()?,))?;
        freeze.call::<_, ()>((module.meta()?,))?;
        let (module, promise) = module.eval()?;
        promise.finish::<()>()?;
        let add_file = |function: Function<'js>| Persistent::save(ctx, function);
        Ok(Parts {
            factory: add_file(module.get("default")?),
            run: add_file(world.get("run")?),
            collect: add_file(world.get("collect")?),
            describe: add_file(world.get("describe")?),
        })
    }

    /// Evaluates the module anew and calls its function. `earlier` holds the results of earlier runs that it reads.
    pub(super) fn run(&mut self, request: &Request, earlier: &[Bytes], until: Instant) -> Run {
        self.runs += 1;
        self.host_state.begin(until, request.head.nonce);
        let ended = self.call(request, earlier);
        let Self { parts, context, host_state, .. } = self;
        match ended {
            Ok(result) if !host_state.must_end() => {
                let HostOutput { writes, files, has_marked } = host_state.end();
                Run::Clean(RunResult { result: result.into(), writes, files, has_marked })
            }
            // The code may have caught the error that stopped it.
            Ok(_) | Err(Interruption::Thrown) => Run::Faulty(
                context.with(|ctx| Self::fault(&ctx, host_state, Some(parts.describe.clone()), LINES_BEFORE)),
            ),
            Err(Interruption::Open) => {
                drop(host_state.end());
                let message = "the code never ends: it waits for a promise that nothing is left to settle";
                Run::Faulty(failure::thrown(message, "", LINES_BEFORE))
            }
        }
    }

    fn call(&self, request: &Request, earlier: &[Bytes]) -> Result<Vec<u8>, Interruption> {
        let Self { parts, context, .. } = self;
        let returned = context.with(|ctx| Self::begin(&ctx, parts.clone(), request, earlier))?;
        self.run_jobs()?;
        let text = context.with(|ctx| Self::collect(&ctx, parts.clone(), returned))?;
        // Jobs of getters and `toJSON` of the result are part of the run too.
        self.run_jobs()?;
        Ok(text)
    }

    /// Calls the module's function, which may return a promise.
    fn begin(
        ctx: &Ctx<'_>,
        parts: Parts,
        request: &Request,
        earlier: &[Bytes],
    ) -> Result<Persistent<Value<'static>>, Interruption> {
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

    /// Converts the returned value to JSON, once no job is left.
    fn collect(
        ctx: &Ctx<'_>,
        parts: Parts,
        returned: Persistent<Value<'static>>,
    ) -> Result<Vec<u8>, Interruption> {
        let value = match returned.restore(ctx)?.try_into_promise() {
            Ok(promise) => promise.result::<Value<'_>>().ok_or(Interruption::Open)??,
            Err(value) => value,
        };
        let text: Option<rquickjs::String<'_>> = parts.collect.restore(ctx)?.call((value,))?;
        let Some(text) = text else { return Ok(Vec::new()) };
        Ok(host::well_formed(text.to_string()?).into_bytes())
    }

    /// Runs the pending jobs. An endless chain of jobs does not poll the interrupt handler, so this loop checks the deadline.
    fn run_jobs(&self) -> Result<(), Interruption> {
        loop {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                // An exception of the code rejects a promise. A job itself throws only if memory for that was refused,
                // or if it was interrupted.
                Err(_) if self.host_state.must_end() => {}
                Err(_) => self.host_state.record_refused_memory(),
            }
            if self.host_state.must_end() {
                return Err(Interruption::Thrown);
            }
        }
        if self.host_state.stopped().is_some() { Err(Interruption::Thrown) } else { Ok(()) }
    }

    /// The exception, or the expired deadline or exhausted memory.
    fn fault(
        ctx: &Ctx<'_>,
        host_state: &HostState,
        describe: Option<Persistent<Function<'static>>>,
        lines_before: u32,
    ) -> Fault {
        let thrown = ctx.catch();
        let described = match describe.map(|describe| describe.restore(ctx)) {
            _ if host_state.stopped().is_some() => None,
            Some(Ok(describe)) => describe.call::<_, Vec<String>>((thrown,)).ok(),
            Some(_) => None,
            // No code of the author has run yet, so the error comes from QuickJS.
            None => thrown.as_object().map(|error| {
                let text = |key: &str| error.get::<_, String>(key).unwrap_or_default();
                vec![text("message"), text("stack"), String::new()]
            }),
        };
        let stopped = host_state.stopped();
        drop(host_state.end());
        match (stopped, described.as_deref()) {
            (Some(kind), _) => failure::ended(kind),
            (None, Some([message, stack, memory])) if memory.is_empty() => {
                failure::thrown(message, stack, lines_before)
            }
            _ => failure::ended(FaultKind::OutOfMemory),
        }
    }

    /// The number of its runs.
    #[cfg(test)]
    pub(super) fn runs(&self) -> u32 {
        self.runs
    }

    /// True if the heap has grown far beyond its initial size. Checked regularly.
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

    fn isolate(text: &str) -> Isolate {
        let prepared = prepare::prepare(text).expect("it is a module");
        let until = Instant::now() + Duration::from_secs(60);
        Isolate::new(&prepared, Memory::from_now(64 << 20), &Rc::default(), until)
            .unwrap_or_else(|fault| panic!("{}", fault.message))
    }

    fn run(isolate: &mut Isolate) -> Run {
        let request = Request::for_module("");
        isolate.run(&request, &[], Instant::now() + request.head.deadline)
    }

    #[test]
    fn what_many_runs_leave_behind_is_no_more_than_what_a_few_do() {
        const TEXT: &str = "export default async () => {
  class Own { static value = Symbol.for('x' + Math.random()); }
  const list = Array.from({ length: 50 }, (_, index) => ({ ['k' + Math.random()]: index }));
  await null;
  return { data: [list.length, new RegExp('a' + Math.random()).source, String(Own.value)] };
};";
        let mut isolate = isolate(TEXT);
        let mut heap_after = |runs: u32| {
            for _ in 0..runs {
                assert!(run(&mut isolate).is_clean());
            }
            isolate.runtime.run_gc();
            isolate.runtime.memory_usage().malloc_size
        };
        let few = heap_after(500);
        assert_eq!(heap_after(1_500), few);
    }

    #[test]
    fn a_cell_whose_heap_has_grown_serves_no_other_run() {
        let mut isolate = isolate("export default () => 1;");
        // As if its heap had been smaller at first.
        isolate.heap -= 2 * MAX_GROWTH;
        let grown = (1..=LOOK_EVERY).find(|_| {
            assert!(run(&mut isolate).is_clean());
            isolate.has_grown()
        });
        assert_eq!(grown, Some(LOOK_EVERY));
        isolate.heap += 2 * MAX_GROWTH;
        assert!(!isolate.has_grown());
    }
}
