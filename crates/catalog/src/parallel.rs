//! Parallel map over a slice, using all processors.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Items a thread takes at a time; small, so that no thread is left with a long tail.
const SHARE: usize = 16;

/// Applies `work` to each item in parallel and returns the results in order. Few items run on the calling thread.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    map_on(processors.min(items.len().div_ceil(SHARE)), items, work)
}

fn map_on<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            let Some(rest) = items.get(start..).filter(|rest| !rest.is_empty()) else { return done };
            done.push((start, rest.iter().take(SHARE).map(&work).collect::<Vec<R>>()));
        }
    };
    let mut shares: Vec<(usize, Vec<R>)> = thread::scope(|scope| {
        // The calling thread takes its share, too.
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut shares = take();
        for other in others {
            match other.join() {
                Ok(more) => shares.extend(more),
                // Propagate the panic to the caller.
                Err(panic) => resume_unwind(panic),
            }
        }
        shares
    });
    shares.sort_unstable_by_key(|(start, _)| *start);
    shares.into_iter().flat_map(|(_, share)| share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_mapped_once_and_the_order_is_kept() {
        for count in [0, 1, SHARE, SHARE + 1, 1000] {
            for threads in [1, 2, 7] {
                let items: Vec<usize> = (0..count).collect();
                let calls = AtomicUsize::new(0);
                let done = map_on(threads, &items, |item| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    item * 2
                });
                assert_eq!(done, items.iter().map(|item| item * 2).collect::<Vec<_>>());
                assert_eq!(calls.into_inner(), count);
            }
        }
    }
}
