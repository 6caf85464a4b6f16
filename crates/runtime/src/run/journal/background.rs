//! The background commit: writes the results of finished calls while the execution waits for something else.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use model::action::Effect;

use super::Journal;
use super::commit::MOMENT;

/// Delay before the results of read-only calls are committed.
type Delay = Option<BoxFuture<'static, ()>>;

impl Journal {
    /// Drives `walk`, the steps of the execution. Whenever it waits, the results of finished calls are committed: at
    /// once after a call with an effect, after [`MOMENT`] if calls only read.
    pub(crate) async fn commit_while_walking<T>(&self, walk: impl Future<Output = T>) -> T {
        let mut walk = pin!(walk);
        let mut delay = None;
        poll_fn(|context| {
            let polled = walk.as_mut().poll(context);
            if polled.is_pending() {
                self.advance(&mut delay, context);
            }
            polled
        })
        .await
    }

    /// Starts the background commit if one is due, and polls the current write.
    fn advance(&self, delay: &mut Delay, context: &mut Context<'_>) {
        // The execution is not accepted yet, so no call has been made. A lock that is taken means that the walk itself
        // waits for a write.
        if !self.is_stored() {
            return;
        }
        let Ok(mut transit) = self.transit.try_lock() else { return };
        if transit.is_under_way() && pin!(transit.arrive(self)).poll(context).is_pending() {
            return;
        }
        let ended_calls = self.state().watermark.ended_calls();
        let is_due = match ended_calls {
            Effect::Pure => false,
            Effect::Read => is_over(delay.get_or_insert_with(|| self.delay()), context),
            Effect::Write => true,
        };
        if is_due || ended_calls == Effect::Pure {
            *delay = None;
        }
        if is_due {
            transit.begin(self);
            // A store error is reported to the next commit of the walk.
            let _ = pin!(transit.arrive(self)).poll(context);
        }
    }

    fn delay(&self) -> BoxFuture<'static, ()> {
        let clock = self.clock.clone();
        Box::pin(async move { clock.sleep_for(MOMENT).await })
    }
}

fn is_over(delay: &mut BoxFuture<'static, ()>, context: &mut Context<'_>) -> bool {
    matches!(Pin::new(delay).poll(context), Poll::Ready(()))
}
