//! Where a test lets something go wrong around effects and answers.

use model::action::{ActionError, ErrorKind};
use model::failpoint::{Boundary, Mishap};
use model::value::Value;

use crate::context::Runtime;

impl Runtime {
    /// Reaches a boundary. True where what is under way is to fail.
    pub async fn fails_at(&self, boundary: Boundary) -> bool {
        match self.settings.mishaps.at(boundary) {
            None => false,
            Some(Mishap::Abort) => std::process::abort(),
            Some(Mishap::Error | Mishap::Doubt) => true,
            Some(Mishap::Delay(time)) => {
                self.clock.sleep_for(time).await;
                false
            }
        }
    }

    /// A call with an effect, between the boundaries around it.
    pub(crate) async fn between_boundaries(
        &self,
        call: impl Future<Output = Result<Value, ActionError>>,
    ) -> Result<Value, ActionError> {
        let failed = || ActionError::new(ErrorKind::Network, "a failpoint lets it fail");
        if self.fails_at(Boundary::BeforeEffect).await {
            return Err(failed());
        }
        let result = call.await;
        if self.fails_at(Boundary::AfterEffect).await { Err(failed()) } else { result }
    }
}
