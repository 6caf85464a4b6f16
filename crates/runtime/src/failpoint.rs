//! Failpoints: faults that a test injects around effects and answers.

use model::action::{ActionError, ErrorKind};
use model::failpoint::{Failpoint, FailpointAction};

use crate::context::Context;

impl Context {
    /// Reaches a failpoint, aborts or delays as configured there, and returns true if the operation is to fail.
    pub async fn fails_at(&self, boundary: Failpoint) -> bool {
        match self.settings.failpoints.at(boundary) {
            None => false,
            Some(FailpointAction::Abort) => std::process::abort(),
            Some(FailpointAction::Error | FailpointAction::UnknownOutcome) => true,
            Some(FailpointAction::Delay(time)) => {
                self.clock.sleep_for(time).await;
                false
            }
        }
    }

    /// Runs a call with an effect between the failpoints before and after it.
    pub(crate) async fn with_failpoints<T>(
        &self,
        call: impl Future<Output = Result<T, ActionError>>,
    ) -> Result<T, ActionError> {
        let failed = || ActionError::new(ErrorKind::Network, "a failpoint made it fail");
        if self.fails_at(Failpoint::BeforeEffect).await {
            return Err(failed());
        }
        let result = call.await;
        if self.fails_at(Failpoint::AfterEffect).await { Err(failed()) } else { result }
    }
}
