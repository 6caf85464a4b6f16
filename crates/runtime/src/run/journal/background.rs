//! The background commit: while an execution waits, the results of its finished calls are committed, and nobody waits for that.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use model::action::Effect;

use super::Journal;
use super::transit::MOMENT;

/// The delay before the results of calls that only read are committed.
type Delay = Option<BoxFuture<'static, ()>>;

impl Journal {
    /// Drives `walk`, the steps of the execution. Whenever it waits for something, the results of finished calls are
    /// committed beside it: at once where a call changed something, after [`MOMENT`] where calls only read.
    pub(crate) async fn commit_beside_walk<T>(&self, walk: impl Future<Output = T>) -> T {
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

    /// Begins the background commit if one is due, and polls the write that is under way.
    fn advance(&self, delay: &mut Delay, context: &mut Context<'_>) {
        // Nothing happens outside before the acceptance. A lock that is taken means that the walk waits for a write itself.
        if self.unaccepted.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut transit) = self.transit.try_lock() else { return };
        if transit.is_under_way() && pin!(transit.arrive(self)).poll(context).is_pending() {
            return;
        }
        let ended_calls = self.state().ended_calls;
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
            // A store that fails is reported to the next commit of the walk.
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
