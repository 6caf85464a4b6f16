//! Runs one test from start to end: a real engine with its own store, on its own thread, with a clock that advances
//! only while all tasks wait.

use std::sync::Arc;
use std::time::Duration;

use model::test_suite::Case;

use crate::driver::DriveResult;
use crate::error::TestError;
use crate::quiescence::Quiescence;
use crate::start::StartResult;
use crate::test_run::{TestRun, TestSetup, TestTrace};
use catalog::Deployment;

/// Maximum real time of a test. Tests never wait for real time, so a longer one is in a loop.
pub(super) const MAX_TEST_TIME: Duration = Duration::from_secs(60);

/// Runs a test for at most `limit`.
pub(super) fn play(
    setup: &TestSetup,
    case: &Case,
    deployment: &Arc<Deployment>,
    limit: Duration,
) -> Result<TestTrace, TestError> {
    let quiescence = Quiescence::default();
    let watcher = quiescence.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || watcher.idle())
        .build()
        .map_err(|error| TestError::system("cannot start a thread for the test", &error))?;
    let trace = runtime.block_on(async {
        let run = TestRun::new(setup, case, deployment, quiescence)?;
        let trace = tokio::time::timeout(limit, play_in(&run)).await;
        run.shut_down().await;
        trace.unwrap_or_else(|_| {
            let seconds = limit.as_secs();
            Err(TestError::new(case, format!("the test did not finish and was stopped after {seconds}s")))
        })
    });
    runtime.shutdown_background();
    trace
}

/// Starts the execution, drives the clock until it ends, and collects the trace.
async fn play_in(run: &TestRun<'_>) -> Result<TestTrace, TestError> {
    run.write_initial_state().await?;
    let begin = async {
        let start_result = match &run.setup.trial {
            Some(trial) => Ok(run.start_trial(trial).await),
            None => run.start().await,
        };
        run.started.set(true);
        start_result
    };
    let (start_result, drive_result) = tokio::join!(begin, run.drive());
    let DriveResult { stuck, unawaited } = drive_result?;
    let new_call = run.doubles.unknown_call();
    let (call_log, unused) = run.doubles.close();
    let executions = run.executions().await?;
    let (response, refused, passed) = match start_result? {
        StartResult::Answered(response) => {
            let passed = response.status == 200;
            (Some(response), None, passed)
        }
        StartResult::Refused(message) => (None, Some(message), false),
        StartResult::Accepted => (None, None, true),
    };
    let filtered = passed && executions.is_empty();
    let state = run.final_state().await?;
    let cassette = run.setup.cassette.clone();
    Ok(TestTrace {
        response,
        refused,
        filtered,
        executions,
        call_log,
        unused,
        stuck,
        unawaited,
        state,
        cassette,
        new_call,
    })
}
