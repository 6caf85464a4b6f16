//! An isolate: a QuickJS runtime with hardened intrinsics, in which modules are compiled once, and evaluated anew for each
//! run.
//!
//! Each module is wrapped in a function ([`super::prepare`]), and evaluating it anew is calling that function: the module's
//! declarations live in the call and end with it. All that outlives a call is frozen, so that no run sees another, of the
//! same module or of a different one. An isolate lives as long as its worker: after twenty thousand runs that made classes,
//! symbols and promises its heap had the size that it had after two thousand. It is discarded if a run exhausted its memory
//! or its time, if a failed run left jobs in the queue, if its heap grows, and if its modules take too much memory.
//!
//! An isolate caches the functions by the digest of the module's text, and not the module's bytecode: QuickJS does not
//! verify bytecode, so loading it is `unsafe`, and each run would pay for it. One isolate serves all modules of a worker,
//! since hardening the intrinsics takes more than ten times as long as compiling a module.

use std::collections::HashMap;
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
use crate::module::Digest;
use crate::protocol::{FailureKind, MAX_MODULES, Request, RunFailure, Write};

/// The stack of QuickJS, in bytes; the process has several times that.
const MAX_STACK: usize = 1024 * 1024;
/// The growth of the heap, in bytes, after which an isolate is discarded: garbage of earlier runs must not exhaust the
/// memory of a later one.
const MAX_GROWTH: i64 = 8 * 1024 * 1024;
/// The number of runs between checks of the heap: a check takes longer than a small run.
const LOOK_EVERY: u32 = 500;

/// The maximum memory of compiled modules, in bytes, after which an isolate is discarded.
const MAX_COMPILED_HEAP: i64 = 48 * 1024 * 1024;
/// The maximum number of modules that an isolate compiles: QuickJS keeps a record of each until the end of its context.
const MAX_COMPILED: usize = 4 * MAX_MODULES;

/// A QuickJS runtime with its compiled modules.
pub(super) struct Isolate {
    // Dropped in this order: references into the context before the context, and the context before its runtime.
    modules: HashMap<Digest, Persistent<Function<'static>>>,
    parts: Parts,
    context: Context,
    runtime: Runtime,
    host_state: Rc<HostState>,
    runs: u32,
    compiled: usize,
    /// The heap without garbage of runs, in bytes.
    heap: i64,
    /// The heap before the first module was compiled, in bytes.
    empty_heap: i64,
    memory: Memory,
}

/// The functions that the host calls.
#[derive(Clone)]
struct Parts {
    run: Persistent<Function<'static>>,
    collect: Persistent<Function<'static>>,
    describe: Persistent<Function<'static>>,
    freeze: Persistent<Function<'static>>,
}

/// The end of a run.
pub(super) enum Run {
    Succeeded(RunResult),
    Failed(RunFailure),
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
    /// True if the run returned a result.
    #[cfg(test)]
    fn is_clean(&self) -> bool {
        matches!(self, Self::Succeeded(_))
    }

    /// True if the process must not run any more code.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(self, Self::Failed(fault) if matches!(fault.kind, FailureKind::Overrun | FailureKind::OutOfMemory))
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
    /// Creates a runtime without modules.
    pub(super) fn new(memory: Memory, replies: &Rc<ReplySender>, until: Instant) -> Result<Self, RunFailure> {
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
            Self::parts(&ctx, &host_state).map_err(|_| Self::fault(&ctx, &host_state, None, LINES_BEFORE))
        })?;
        let heap = runtime.memory_usage().malloc_size;
        let (modules, runs, compiled, empty_heap) = (HashMap::new(), 0, 0, heap);
        Ok(Self { modules, parts, context, runtime, host_state, runs, compiled, heap, empty_heap, memory })
    }

    fn parts(ctx: &Ctx<'_>, host_state: &Rc<HostState>) -> rquickjs::Result<Parts> {
        let world: Object<'_> = host::install(ctx, host_state)?;
        let keep = |name: &str| -> rquickjs::Result<_> {
            Ok(Persistent::save(ctx, world.get::<_, Function<'_>>(name)?))
        };
        Ok(Parts {
            run: keep("run")?,
            collect: keep("collect")?,
            describe: keep("describe")?,
            freeze: keep("freeze")?,
        })
    }

    /// True if a module is compiled.
    pub(super) fn has(&self, digest: Digest) -> bool {
        self.modules.contains_key(&digest)
    }

    /// Compiles a module.
    pub(super) fn compile(
        &mut self,
        digest: Digest,
        prepared: &Prepared,
        until: Instant,
    ) -> Result<(), RunFailure> {
        self.compiled += 1;
        let Self { parts, context, runtime, host_state, .. } = self;
        host_state.until(until);
        let before = runtime.memory_usage().malloc_size;
        let factory = context.with(|ctx| -> Result<_, RunFailure> {
            // The author's text alone first: only a complete module may be inserted into the wrapper.
            let alone = Module::declare(ctx.clone(), failure::CODE, prepared.source.as_bytes());
            let alone = alone.map_err(|_| Self::fault(&ctx, host_state, None, 0))?;
            let factory = Self::factory(&ctx, parts, &prepared.wrapped, &alone);
            factory.map_err(|_| Self::fault(&ctx, host_state, None, LINES_BEFORE))
        })?;
        self.heap += (runtime.memory_usage().malloc_size - before).max(0);
        // The limit of a run does not include the compiled modules.
        let compiled = usize::try_from(self.heap - self.empty_heap).unwrap_or_default();
        runtime.set_memory_limit(self.memory.limit.saturating_add(compiled));
        self.modules.insert(digest, factory);
        Ok(())
    }

    /// Removes a module.
    pub(super) fn evict(&mut self, digest: Digest) {
        self.modules.remove(&digest);
    }

    fn factory<'js>(
        ctx: &Ctx<'js>,
        parts: &Parts,
        wrapped: &str,
        alone: &Module<'js>,
    ) -> rquickjs::Result<Persistent<Function<'static>>> {
        let module = Module::declare(ctx.clone(), failure::CODE, wrapped.as_bytes())?;
        let freeze = parts.freeze.clone().restore(ctx)?;
        // Runs could otherwise leave values for each other in `import.meta`. QuickJS finds it by the name of the module,
        // which all modules share.
        freeze.call::<_, ()>((alone.meta()?,))?;
        freeze.call::<_, ()>((module.meta()?,))?;
        let (module, promise) = module.eval()?;
        promise.finish::<()>()?;
        let factory: Function<'js> = module.get("default")?;
        Ok(Persistent::save(ctx, factory))
    }

    /// True if another run may follow: after a failed run only if it left no jobs.
    pub(super) fn is_reusable(&mut self, run: &Run) -> bool {
        match run {
            Run::Succeeded(_) => !self.has_grown() && !self.is_full(),
            Run::Failed(_) if run.is_fatal() => false,
            Run::Failed(_) => !self.runtime.is_job_pending() && !self.has_grown() && !self.is_full(),
        }
    }

    /// True if its modules take too much memory.
    fn is_full(&self) -> bool {
        self.compiled >= MAX_COMPILED || self.heap - self.empty_heap > MAX_COMPILED_HEAP
    }

    /// Evaluates the module anew and calls its function. `earlier` holds the results of earlier runs that it reads.
    pub(super) fn run(&mut self, request: &Request, earlier: &[Bytes], until: Instant) -> Run {
        self.runs += 1;
        self.host_state.begin(until, request.head.nonce);
        let Some(factory) = self.modules.get(&request.head.digest).cloned() else {
            return Run::Failed(failure::thrown("the module is not compiled", "", LINES_BEFORE));
        };
        let ended = self.call(factory, request, earlier);
        let Self { parts, context, host_state, .. } = self;
        match ended {
            Ok(result) if !host_state.must_end() => {
                let HostOutput { writes, files, has_marked } = host_state.end();
                Run::Succeeded(RunResult { result: result.into(), writes, files, has_marked })
            }
            // The code may have caught the error that stopped it.
            Ok(_) | Err(Interruption::Thrown) => Run::Failed(
                context.with(|ctx| Self::fault(&ctx, host_state, Some(parts.describe.clone()), LINES_BEFORE)),
            ),
            Err(Interruption::Open) => {
                drop(host_state.end());
                let message = "the code never ends: it waits for a promise that nothing is left to settle";
                Run::Failed(failure::thrown(message, "", LINES_BEFORE))
            }
        }
    }

    fn call(
        &self,
        factory: Persistent<Function<'static>>,
        request: &Request,
        earlier: &[Bytes],
    ) -> Result<Vec<u8>, Interruption> {
        let Self { parts, context, .. } = self;
        let returned = context.with(|ctx| Self::begin(&ctx, factory, parts.clone(), request, earlier))?;
        self.run_jobs()?;
        let text = context.with(|ctx| Self::collect(&ctx, parts.clone(), returned))?;
        // Jobs of getters and `toJSON` of the result are part of the run too.
        self.run_jobs()?;
        Ok(text)
    }

    /// Calls the module's function, which may return a promise.
    fn begin(
        ctx: &Ctx<'_>,
        factory: Persistent<Function<'static>>,
        parts: Parts,
        request: &Request,
        earlier: &[Bytes],
    ) -> Result<Persistent<Value<'static>>, Interruption> {
        let mut args = Args::new(ctx.clone(), 9);
        args.push_arg(factory.restore(ctx)?)?;
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
    ) -> RunFailure {
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
            _ => failure::ended(FailureKind::OutOfMemory),
        }
    }

    /// The number of its runs.
    #[cfg(test)]
    pub(super) fn runs(&self) -> u32 {
        self.runs
    }

    /// True if the heap has grown far beyond its initial size. Checked regularly.
    fn has_grown(&mut self) -> bool {
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
        let isolate = Isolate::new(Memory::from_now(64 << 20), &Rc::default(), until);
        let mut isolate = isolate.unwrap_or_else(|fault| panic!("{}", fault.message));
        let compiled = isolate.compile(Request::for_module("").head.digest, &prepared, until);
        compiled.unwrap_or_else(|fault| panic!("{}", fault.message));
        isolate
    }

    fn run(isolate: &mut Isolate) -> Run {
        let request = Request::for_module("");
        isolate.run(&request, &[], Instant::now() + request.head.deadline)
    }

    #[test]
    fn leftovers_of_runs_do_not_accumulate() {
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
    fn an_isolate_whose_heap_has_grown_is_not_reused() {
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
