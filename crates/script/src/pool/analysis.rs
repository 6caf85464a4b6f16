//! The analysis of modules in a worker, for threads that may block, such as the loader's.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::worker_handle::{WorkerFailure, WorkerHandle};
use super::{Error, Module, Pool, Tag, encode, too_large};
use crate::module::MAX_SOURCE;
use crate::module_info::{ModuleInfo, SyntaxError};

/// The maximum number of concurrent analyses. They do not compete with runs for slots.
pub(super) struct AnalysisQueue {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A slot of the queue, released when dropped.
struct AnalysisSlot<'gate>(&'gate AnalysisQueue);

impl AnalysisQueue {
    pub(super) fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), freed: Condvar::new() }
    }

    /// Waits for a slot. Each analysis has a deadline, so the wait is bounded.
    fn enter(&self) -> AnalysisSlot<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        AnalysisSlot(self)
    }
}

impl Drop for AnalysisSlot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

impl Pool {
    /// Analyses a module. For threads that may block.
    ///
    /// # Errors
    /// Returns an error if no worker was available, or the analysis took too long. Syntax errors are part of the
    /// result.
    pub fn check_blocking(&self, module: &Module) -> Result<Result<ModuleInfo, Vec<SyntaxError>>, Error> {
        if module.source().len() > MAX_SOURCE {
            return Err(Error::TooLarge { what: "the code", limit: MAX_SOURCE });
        }
        let shared = &self.shared;
        let limits = &shared.settings;
        let _inside = shared.analyses.enter();
        let message = encode(Tag::Check, &[module.source().as_bytes()]).map_err(|_| too_large("the code"))?;
        let (worker_handle, answer) = loop {
            let mut worker_handle = self.idle_worker_blocking()?;
            match worker_handle.exchange_blocking(&message, Instant::now() + limits.check_within) {
                // It died while idle.
                Err(WorkerFailure::Unsent) if worker_handle.was_idle() => {}
                Err(WorkerFailure::TimedOut) => {
                    let (deadline, took) = (limits.check_within, limits.check_within);
                    return Err(Error::Overrun { deadline, took, logs: Vec::new() });
                }
                answer => break (worker_handle, answer.map_err(|broken| broken.into_error(Vec::new()))?),
            }
        };
        let garbled = || WorkerFailure::ProtocolViolation.into_error(Vec::new());
        if answer.tag != Tag::Checked {
            return Err(garbled());
        }
        let text = answer.text(0).map_err(|_| garbled())?;
        let checked: Result<ModuleInfo, Vec<SyntaxError>> =
            serde_json::from_str(text).map_err(|_| garbled())?;
        shared.put_back(worker_handle);
        let origin = module.origin();
        Ok(checked.map(|module_info| module_info.placed(origin)).map_err(|errors| {
            errors.into_iter().map(|error| SyntaxError { at: origin.place(error.at), ..error }).collect()
        }))
    }

    /// Starts a worker in advance, so that the first run does not wait for one. For threads that may block.
    ///
    /// # Errors
    /// A worker cannot be started.
    pub fn warm(&self) -> Result<(), Error> {
        self.shared.put_back(self.idle_worker_blocking()?);
        Ok(())
    }

    /// Takes an idle worker, or starts one, and waits until it is ready.
    fn idle_worker_blocking(&self) -> Result<WorkerHandle, Error> {
        let shared = &self.shared;
        let mut worker_handle = match shared.take_idle(None) {
            Some(worker_handle) => worker_handle,
            None => shared.supervisor.start_blocking().map_err(Error::Start)?,
        };
        let check_greeting = worker_handle.greeting_blocking(shared.settings.start_within);
        check_greeting.map_err(|broken| broken.into_error(Vec::new()))?;
        Ok(worker_handle)
    }

    /// Asynchronous form of [`Pool::check_blocking`], with the same errors.
    ///
    /// # Errors
    /// As [`Pool::check_blocking`].
    pub async fn check(&self, module: &Module) -> Result<Result<ModuleInfo, Vec<SyntaxError>>, Error> {
        let (pool, module) = (self.clone(), module.clone());
        let analysis = tokio::task::spawn_blocking(move || pool.check_blocking(&module));
        analysis.await.map_err(|_| WorkerFailure::Ended.into_error(Vec::new()))?
    }
}
