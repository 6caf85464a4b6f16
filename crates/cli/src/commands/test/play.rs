//! Runs many tests in parallel, each on a dedicated thread.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use authoring::TestFile;
use connector::Cassette;
use model::test_suite::Case;
use testing::{TestResult, TestRunner};

use super::cases;
use super::cassettes::{self, Recorded};

/// The selection of tests, and the mode.
pub(super) struct Plan<'a> {
    pub(super) files: &'a [TestFile],
    /// Only tests with this text in their name.
    pub(super) name: Option<&'a str>,
    pub(super) jobs: Option<NonZeroUsize>,
    /// True to call the real system and record it: then only tests that name a recording run, one at a time.
    pub(super) records: bool,
}

/// A test file and the results of its selected tests.
pub(super) struct PlayedFile<'a> {
    pub(super) file: &'a TestFile,
    /// The tests in file order.
    pub(super) tests: Vec<PlayedTest<'a>>,
}

/// A test and its result.
pub(super) struct PlayedTest<'a> {
    pub(super) case: &'a Case,
    /// `None` for a skipped test.
    pub(super) verdict: Option<TestResult>,
    /// The recording, if the test names an existing one.
    cassette: Option<Arc<Cassette>>,
    /// The real time that it took.
    pub(super) took: Duration,
}

impl PlayedTest<'_> {
    /// `passed`, `failed` or `skipped`.
    pub(super) fn status(&self) -> &'static str {
        match &self.verdict {
            None => "skipped",
            Some(verdict) if verdict.passes() => "passed",
            Some(_) => "failed",
        }
    }
}

/// Runs the tests of a plan. A file is reported once all its tests have ended, in the order of the files.
///
/// # Errors
/// A recording cannot be read.
pub(super) fn all<'a>(
    runner: &TestRunner,
    plan: &Plan<'a>,
    tell: &mut dyn FnMut(&PlayedFile<'a>),
) -> anyhow::Result<Vec<PlayedFile<'a>>> {
    let name = plan.name.map(str::to_lowercase);
    let wanted = |case: &Case| {
        let named = name.as_ref().is_none_or(|name| case.name.name.to_lowercase().contains(name));
        named && (!plan.records || case.cassette.is_some())
    };
    let jobs: Vec<(usize, &Case)> = plan
        .files
        .iter()
        .enumerate()
        .flat_map(|(index, file)| cases(file).iter().map(move |case| (index, case)))
        .filter(|(_, case)| wanted(case))
        .collect();
    let threads =
        plan.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            let (sender, next, jobs) = (sender.clone(), &next, &jobs);
            scope.spawn(move || {
                while let Some((file, case)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let played = one_test(runner, &plan.files[*file], case, plan.records);
                    // The receiver is gone only after a panic.
                    let _ = sender.send((*file, played));
                }
            });
        }
        drop(sender);
        collect(plan.files, &jobs, &receiver, tell)
    })
}

fn one_test<'a>(
    runner: &TestRunner,
    file: &'a TestFile,
    case: &'a Case,
    records: bool,
) -> anyhow::Result<PlayedTest<'a>> {
    let begun = Instant::now();
    let (mut verdict, mut cassette) = (None, None);
    if let Some(suite) = file.suite.as_ref().filter(|_| case.skip.is_none()) {
        cassette = cassettes::cassette(runner, suite, case, records)?;
        verdict = Some(runner.run(suite, case, cassette.clone()));
    }
    Ok(PlayedTest { case, verdict, cassette, took: begun.elapsed() })
}

/// The exchanges recorded in all tests together.
pub(super) fn recorded(runner: &TestRunner, played: &[PlayedFile<'_>]) -> Recorded {
    let mut recorded = Recorded::default();
    for file in played {
        let Some(suite) = &file.file.suite else { continue };
        for test in &file.tests {
            if let Some(cassette) = &test.cassette {
                recorded.add(runner, suite, test.case, cassette);
            }
        }
    }
    recorded
}

/// Collects the results of the threads, and reports each file once it and all files before it are complete.
fn collect<'a>(
    files: &'a [TestFile],
    jobs: &[(usize, &'a Case)],
    receiver: &mpsc::Receiver<(usize, anyhow::Result<PlayedTest<'a>>)>,
    tell: &mut dyn FnMut(&PlayedFile<'a>),
) -> anyhow::Result<Vec<PlayedFile<'a>>> {
    let mut played: Vec<PlayedFile<'a>> =
        files.iter().map(|file| PlayedFile { file, tests: Vec::new() }).collect();
    let mut left: Vec<usize> = vec![0; files.len()];
    jobs.iter().for_each(|(file, _)| left[*file] += 1);
    let mut told = 0;
    loop {
        while told < files.len() && left[told] == 0 {
            // They end in any order, and are shown in file order.
            played[told].tests.sort_by_key(|test| test.case.name.span.start);
            tell(&played[told]);
            told += 1;
        }
        if told == files.len() {
            return Ok(played);
        }
        let (file, test) = receiver.recv().context("a test ended without a result")?;
        played[file].tests.push(test?);
        left[file] -= 1;
    }
}
