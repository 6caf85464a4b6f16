//! The variables at the start of a walk, which may wait for a provider of secrets.

use std::time::Duration;

use model::LogLevel;
use model::action::Effect;

use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::secrets::PROVIDER_FAILURE;

/// The time after which variables are read again while a provider of secrets fails. The execution is suspended meanwhile.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The same for closing steps, which wait in memory, since their limit counts from the start of the wait.
const AGAIN_IN_CLOSING: Duration = Duration::from_secs(2);

impl Run {
    /// Creates the variables for the steps. While a provider of secrets fails, it reads again until the execution has to end.
    ///
    /// # Errors
    /// Returns the exit with which the steps end instead.
    pub(super) async fn scope(&self) -> Result<Scope, Exit> {
        if self.journal.closing().is_some() || self.journal.cancelling().is_some() {
            return self.scope_of_closing(true).await;
        }
        self.scope_within(&self.frame(), AGAIN_AFTER).await
    }

    /// Creates the variables for the closing steps, if there are any. If a provider of secrets fails longer than these may take, the
    /// variables that cannot be read are missing, and the steps without them still run.
    ///
    /// # Errors
    /// The engine stops, or the data of the trigger cannot be read.
    pub(super) async fn scope_of_closing(&self, has_steps: bool) -> Result<Scope, Exit> {
        if has_steps {
            match self.scope_within(&self.closing_frame(), AGAIN_IN_CLOSING).await {
                Ok(scope) => return Ok(scope),
                Err(exit) if exit.is_immediate() => return Err(exit),
                Err(_) => {}
            }
        }
        Scope::for_closing(self).map_err(failed)
    }

    /// Creates the variables for a replay of the steps, once closing steps run: it waits for no provider again.
    ///
    /// # Errors
    /// The engine stops, or the data of the trigger cannot be read.
    pub(super) async fn scope_to_replay(&self) -> Result<Scope, Exit> {
        let frame = self.closing_frame();
        let built = tokio::select! {
            biased;
            built = Scope::for_run(self) => built,
            exit = self.interruption(&frame) => {
                if exit.is_immediate() {
                    return Err(exit);
                }
                Scope::for_closing(self)
            }
        };
        built.or_else(|_| Scope::for_closing(self)).map_err(failed)
    }

    async fn scope_within(&self, frame: &Frame, again_after: Duration) -> Result<Scope, Exit> {
        // Somebody waits for a command that runs one execution.
        let waits = self.context.settings.background;
        let mut is_told = false;
        loop {
            if self.context.secrets.config_vars_would_wait(&self.deployment.automation) {
                // The caller of an execution that is not accepted yet does not wait for a provider of secrets.
                self.journal.before_effect(Effect::Read).await?;
            }
            let built = tokio::select! {
                biased;
                built = Scope::for_run(self) => built,
                exit = self.interruption(frame) => return Err(exit),
            };
            let error = match built {
                Ok(scope) => return Ok(scope),
                Err(error) if error.code.as_deref() == Some(PROVIDER_FAILURE) && waits => error,
                Err(error) => return Err(failed(error)),
            };
            // Once for the execution, and not after each suspension.
            if !std::mem::replace(&mut is_told, true) && !self.journal.is_resumed() {
                self.journal.log(LogLevel::Warn, None, &format!("{}; it is read again", error.message));
            }
            let due = self.context.clock.monotonic_now().after(again_after);
            self.pause_before_try("", due, Some(frame)).await?;
        }
    }

    /// True if a failure of the execution runs steps.
    pub(super) fn has_closing_steps(&self) -> bool {
        let automation = &self.deployment.automation;
        automation.on_error.is_some() || automation.finally.is_some() || !self.undo_lists().is_empty()
    }
}
