//! Shared helpers of the tests: a pool of real workers, and a call in one line.

use std::time::Duration;

use script::{Call, Context, Error, Kind, Module, Origin, Outcome, Pool, PoolSettings};
use value::{JsonLimits, Value};

/// A pool of the workers that are built beside these tests.
pub(crate) fn settings(workers: usize) -> PoolSettings {
    let program = env!("CARGO_BIN_EXE_script-worker").into();
    PoolSettings { workers, ..PoolSettings::new(program, Vec::new()) }
}

pub(crate) fn pool() -> Pool {
    Pool::new(settings(1))
}

pub(crate) fn json(text: &str) -> Value {
    Value::from_json(text.as_bytes(), JsonLimits::default()).expect("the test's JSON is good")
}

/// A run of a step with this code.
pub(crate) struct Run<'run> {
    pub(crate) kind: Kind,
    pub(crate) code: &'run str,
    pub(crate) argument: Value,
    pub(crate) config_vars: Value,
    pub(crate) state: Vec<(std::sync::Arc<str>, Option<Value>)>,
    pub(crate) deadline: Duration,
}

pub(crate) fn step(code: &str) -> Run<'_> {
    Run {
        kind: Kind::Step,
        code,
        argument: json("{}"),
        config_vars: json("{}"),
        state: Vec::new(),
        deadline: Duration::from_secs(20),
    }
}

impl Run<'_> {
    pub(crate) async fn on(self, pool: &Pool) -> Result<Outcome, Error> {
        let module = Module::new(self.code, Origin { file: "flow.yaml".into(), line: 10, column: 7 });
        let context = Context {
            config_vars: &self.config_vars,
            execution_id: "exec1",
            step_id: Some("shape"),
            started_at: "2026-11-21T15:00:00Z",
            state: &self.state,
        };
        let (kind, argument, deadline) = (self.kind, &self.argument, self.deadline);
        pool.run(Call { module: &module, kind, context, argument, deadline }).await
    }
}

/// The result of a step with this code, or the message of its error.
pub(crate) async fn result(pool: &Pool, code: &str) -> String {
    match step(code).on(pool).await {
        Ok(outcome) => outcome.value.to_json(),
        Err(error) => format!("error: {error}"),
    }
}

/// The message of the error that a step with this code ends with.
pub(crate) async fn error(pool: &Pool, code: &str) -> String {
    step(code).on(pool).await.expect_err("the code fails").to_string()
}
