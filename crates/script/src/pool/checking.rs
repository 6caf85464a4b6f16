//! Looking into a module without running it, for threads that may block: the loader's.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::link::{Broken, Link};
use super::{Error, Module, Pool, Tag, encode, too_large};
use crate::facts::{Facts, SyntaxError};
use crate::module::MAX_SOURCE;

/// How many looks go on at the same time. They do not compete with runs for their places.
pub(super) struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place at the gate, given back at the end.
struct Inside<'gate>(&'gate Gate);

impl Gate {
    pub(super) fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), freed: Condvar::new() }
    }

    /// Waits for a place. Each look is bounded, so this is.
    fn enter(&self) -> Inside<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

impl Pool {
    /// What a module is made of, or why its text is none. For threads that may block.
    ///
    /// # Errors
    /// It could not be found out: no worker was to be had, or it took too long. A text that is no module is no error,
    /// but an answer.
    pub fn check_blocking(&self, module: &Module) -> Result<Result<Facts, Vec<SyntaxError>>, Error> {
        if module.source().len() > MAX_SOURCE {
            return Err(Error::TooLarge { what: "the code", limit: MAX_SOURCE });
        }
        let shared = &self.shared;
        let limits = &shared.settings;
        let _inside = shared.checks.enter();
        let message = encode(Tag::Check, &[module.source().as_bytes()]).map_err(|_| too_large("the code"))?;
        let (link, answer) = loop {
            let mut link = self.link_blocking()?;
            match link.exchange_blocking(&message, Instant::now() + limits.check_within) {
                // It has died in its rest.
                Err(Broken::Unsent) if link.has_rested() => {}
                Err(Broken::Late) => {
                    let (deadline, took) = (limits.check_within, limits.check_within);
                    return Err(Error::Overrun { deadline, took, logs: Vec::new() });
                }
                answer => break (link, answer.map_err(|broken| broken.into_error(Vec::new()))?),
            }
        };
        let garbled = || Broken::Garbled.into_error(Vec::new());
        if answer.tag != Tag::Checked {
            return Err(garbled());
        }
        let text = answer.text(0).map_err(|_| garbled())?;
        let checked: Result<Facts, Vec<SyntaxError>> = serde_json::from_str(text).map_err(|_| garbled())?;
        shared.put_back(link);
        let origin = module.origin();
        Ok(checked.map(|facts| facts.placed(origin)).map_err(|errors| {
            errors.into_iter().map(|error| SyntaxError { at: origin.place(error.at), ..error }).collect()
        }))
    }

    /// Has a worker ready, so that the first run does not wait for one to start. For threads that may block.
    ///
    /// # Errors
    /// None can be started.
    pub fn warm(&self) -> Result<(), Error> {
        self.shared.put_back(self.link_blocking()?);
        Ok(())
    }

    /// A worker that is ready.
    fn link_blocking(&self) -> Result<Link, Error> {
        let shared = &self.shared;
        let mut link = match shared.resting(None) {
            Some(link) => link,
            None => shared.keeper.start_blocking().map_err(Error::Start)?,
        };
        let greeted = link.greeting_blocking(shared.settings.start_within);
        greeted.map_err(|broken| broken.into_error(Vec::new()))?;
        Ok(link)
    }

    /// As [`Pool::check_blocking`], for a task.
    ///
    /// # Errors
    /// As there.
    pub async fn check(&self, module: &Module) -> Result<Result<Facts, Vec<SyntaxError>>, Error> {
        let (pool, module) = (self.clone(), module.clone());
        let checking = tokio::task::spawn_blocking(move || pool.check_blocking(&module));
        checking.await.map_err(|_| Broken::Ended.into_error(Vec::new()))?
    }
}
