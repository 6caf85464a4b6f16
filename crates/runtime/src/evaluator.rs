//! Evaluates expressions without holding a thread of the runtime.
//!
//! An evaluation begins where it is called, under an inline [`Budget`] of about a millisecond, which is enough for nearly
//! all. One that needs more starts again on a blocking thread under a full budget. The number of such threads leaves one
//! processor free. Evaluations are pure, so starting again changes nothing. Dropping the future stops the thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use allocator::LargeWork;
use expression::template::Template;
use expression::{EvalClock, EvaluationError, Expression};
use model::metric::Counter;
use tokio::runtime::RuntimeFlavor;
use tokio::sync::Semaphore;
use value::budget::{Exceeded, Limits};
use value::{Budget, Value};

/// Evaluates expressions, and bounds how many evaluations run on blocking threads.
pub struct Evaluator {
    permits: Semaphore,
    /// As many threads as permits.
    threads: LargeWork,
    /// The evaluations that took much work.
    pub counters: EvaluationCounters,
}

/// Counts of evaluations that took much work.
#[derive(Default)]
pub struct EvaluationCounters {
    /// Evaluations that moved to a blocking thread.
    pub long: Counter,
    /// Evaluations that failed because they exceeded the work or the memory of their budget.
    pub exceeded: Counter,
}

impl EvaluationCounters {
    /// Counts an evaluation if it exceeded its budget.
    pub fn note<T>(&self, result: &Result<T, EvaluationError>) {
        if let Err(error) = result
            && matches!(error.exceeded, Some(Exceeded::Work(_) | Exceeded::Memory(_)))
        {
            self.exceeded.increment();
        }
    }
}

impl Evaluator {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let count = processors.saturating_sub(1).max(1);
        Self {
            permits: Semaphore::new(count),
            threads: LargeWork::new(count),
            counters: EvaluationCounters::default(),
        }
    }

    /// Evaluates a template over `scope`. In a URL (`is_address`), values are encoded by their position.
    pub async fn template(
        &self,
        template: &Template,
        is_address: bool,
        scope: &Value,
    ) -> Result<Value, EvaluationError> {
        let evaluate = if is_address { evaluate_url } else { Template::evaluate_with_clock };
        let value = match inline(None, |budget| evaluate(template, scope, None, budget)) {
            Inline::Done(value, _) => value,
            Inline::TooShort => {
                let (template, scope) = (template.clone(), scope.clone());
                self.long(move |budget| evaluate(&template, &scope, None, budget)).await
            }
        };
        self.counters.note(&value);
        value
    }

    /// Evaluates a condition over `scope`.
    pub async fn holds(&self, condition: &Expression, scope: &Value) -> Result<bool, EvaluationError> {
        let short = |budget: &Budget| condition.is_true(scope, budget);
        let holds = match inline(None, short) {
            Inline::Done(done, _) => done,
            Inline::TooShort => {
                let (condition, scope) = (condition.clone(), scope.clone());
                self.long(move |budget| condition.is_true(&scope, budget)).await
            }
        };
        self.counters.note(&holds);
        holds
    }

    /// Runs `work` on a blocking thread, under a full budget.
    pub async fn long<T: Send + 'static>(&self, work: impl FnOnce(&Budget) -> T + Send + 'static) -> T {
        self.counters.long.increment();
        let Ok(_permit) = self.permits.acquire().await else {
            // The semaphore is never closed.
            return std::future::pending().await;
        };
        let stop = StopOnDrop(Arc::default());
        let flag = stop.0.clone();
        let evaluation = self.threads.run(move || work(&Budget::new(Limits::default(), Some(flag))));
        match evaluation.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and the value is not needed.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// The end of an evaluation under an inline budget.
pub enum Inline<T> {
    /// The result, and the units of work that it took.
    Done(T, u64),
    /// The budget was too small; the evaluation has to start again under a full one.
    TooShort,
}

/// Runs `work` under an inline budget. If that is too small, the UUIDs that `work` took from `moment` are given back, so
/// that the second evaluation takes the same ones.
pub fn inline<T>(moment: Option<&Arc<dyn EvalClock>>, work: impl FnOnce(&Budget) -> T) -> Inline<T> {
    let drawn = moment.map(|moment| moment.uuids_drawn());
    let budget = Budget::inline();
    let result = work(&budget);
    if !budget.exceeded_inline_work() {
        return Inline::Done(result, budget.spent());
    }
    if let (Some(moment), Some(drawn)) = (moment, drawn) {
        moment.reset_uuids(drawn);
    }
    Inline::TooShort
}

/// Runs `work` in synchronous code: under an inline budget or, if that is too small, [in place](in_place).
pub(crate) fn blocking<T>(work: impl Fn(&Budget) -> T) -> T {
    if let Inline::Done(result, _) = inline(None, &work) {
        return result;
    }
    in_place(work)
}

/// Runs `work` on this thread, under a full budget. A multi-threaded runtime moves the other tasks of the thread away.
pub(crate) fn in_place<T>(work: impl FnOnce(&Budget) -> T) -> T {
    let whole = || work(&Budget::default());
    match tokio::runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(whole),
        _ => whole(),
    }
}

/// Sets the stop flag of an evaluation when its caller stops waiting.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Evaluates a template that is a URL.
pub(crate) fn evaluate_url(
    template: &Template,
    scope: &Value,
    moment: Option<&Arc<dyn EvalClock>>,
    budget: &Budget,
) -> Result<Value, EvaluationError> {
    expression::url_template::evaluate(template, budget, &mut |expression| {
        expression.evaluate_with_clock(scope, moment, budget)
    })
}
