//! The memory allocator of the program, and the return of freed memory to the system.
//!
//! This is the only crate with `unsafe` code: mimalloc is a C library, and a change of the environment is
//! safe only while no other thread runs.
//!
//! Modules, in reading order:
//!
//! * `global`: the allocator of the program
//! * `large_work`: runs large values and parts of bodies on a few threads

mod global;
mod large_work;

use std::ffi::{c_int, c_long};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub use global::Allocator;
pub use large_work::{LargeWork, large_work};

/// The number of bytes from which on values are large.
const LARGE: usize = 1 << 20;

/// The time between a request and the purge. It covers the values that are freed together. The next large values come within
/// milliseconds on a busy daemon, and would add to what the ones before them left.
const DELAY: Duration = Duration::from_millis(1);

/// The time after the last request for which freed memory returns to the system at once.
const CALM: Duration = Duration::from_millis(500);

/// The number of the option (`mi_option_t` in mimalloc.h of mimalloc 3) for the KiB above which a value has a mapping of its own, which
/// returns to the system as soon as the value is freed.
const MAX_OBJECT_SIZE: c_int = 45;

/// The number of the option for the milliseconds after which freed memory may return to the system, 1,000 by default. A delay within the
/// pauses of a busy daemon returns pages that the next requests fault in again: 3 ms cost 18 % of the processor time of an
/// acknowledgement, 100 ms 10 %.
const PURGE_DELAY: c_int = 15;

/// Makes the allocator return memory of large values early. The first thing that the program does.
///
/// A daemon whose strangers send bodies of megabytes otherwise holds several times the memory of the values that exist.
pub fn configure() {
    // mimalloc has read the variable.
    if std::env::var_os("MIMALLOC_ARENA_MAX_OBJECT_SIZE").is_none() {
        set(MAX_OBJECT_SIZE, 1024);
    }
}

#[expect(unsafe_code, reason = "a function of a C library")]
fn set(option: c_int, value: c_long) {
    // SAFETY: `mi_option_set` may be called at any time; it ignores numbers that are no option.
    unsafe { libmimalloc_sys::mi_option_set(option, value) }
}

#[expect(unsafe_code, reason = "a function of a C library")]
fn get(option: c_int) -> c_long {
    // SAFETY: `mi_option_get` may be called at any time; it returns 0 for numbers that are no option.
    unsafe { libmimalloc_sys::mi_option_get(option) }
}

/// Removes a variable from the environment, so that neither a library nor a process that is started later finds it. To be called before
/// any thread is started.
#[expect(unsafe_code, reason = "a change of the environment")]
pub fn remove_variable(name: &str) {
    // SAFETY: the caller is the only thread of the process, so no other thread reads the environment meanwhile.
    unsafe { std::env::remove_var(name) }
}

/// The thread that purges. `None` if the system refused to start it.
static PURGER: OnceLock<Option<Thread>> = OnceLock::new();

/// True from a request until the purger has seen it.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Notes that values of `bytes` bytes are freed: [requests a purge](request_purge) if they are large.
pub fn note_freed(bytes: usize) {
    if bytes >= LARGE {
        request_purge();
    }
}

/// Requests that the memory of freed values return to the system in about a millisecond. Does not wait for it.
///
/// mimalloc returns memory only while a thread allocates. A thread that does nothing else purges in its place. Many requests
/// become one purge. Until no request has come for half a second, all freed memory returns at once: with hostile bodies of 5 MB the
/// daemon holds a fifth less at the peak, and requests with small bodies pay nothing for it at other times.
pub fn request_purge() {
    let purger = PURGER.get_or_init(|| {
        let thread = thread::Builder::new().name("purger".to_owned()).spawn(purge_on_request);
        thread.ok().map(|thread| thread.thread().clone())
    });
    REQUESTED.store(true, Ordering::Release);
    if let Some(purger) = purger {
        purger.unpark();
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, which no task waits for")]
fn purge_on_request() {
    loop {
        while !REQUESTED.load(Ordering::Acquire) {
            thread::park();
        }
        let usual = get(PURGE_DELAY);
        set(PURGE_DELAY, 0);
        while REQUESTED.swap(false, Ordering::AcqRel) {
            thread::sleep(DELAY);
            purge();
            wait_for_request(CALM);
        }
        set(PURGE_DELAY, usual);
    }
}

/// Waits until a purge is requested, at most so long.
fn wait_for_request(patience: Duration) {
    let begun = Instant::now();
    while !REQUESTED.load(Ordering::Acquire)
        && let Some(left) = patience.checked_sub(begun.elapsed())
    {
        thread::park_timeout(left);
    }
}

#[expect(unsafe_code, reason = "a function of a C library")]
fn purge() {
    // SAFETY: `mi_collect` may be called at any time on any thread. It frees only what no value uses.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// The resident memory of this process, in bytes.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
    }

    /// Requests a purge, and waits until the process holds less memory than this.
    fn wait_until_below(bytes: usize) {
        request_purge();
        let deadline = Instant::now() + Duration::from_secs(20);
        while resident() > bytes {
            assert!(Instant::now() < deadline, "{} MiB remain", resident() >> 20);
            thread::yield_now();
        }
    }

    /// Waits until the purge delay of freed memory is this number of milliseconds.
    fn wait_until_purge_delay_is(milliseconds: c_long) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while get(PURGE_DELAY) != milliseconds {
            assert!(Instant::now() < deadline, "it is {}", get(PURGE_DELAY));
            thread::yield_now();
        }
    }

    fn values(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| vec![1; LARGE / 16]).collect()
    }

    #[test]
    fn the_options_have_the_numbers_of_mimalloc() {
        // The defaults of mimalloc tell whether the numbers still belong to these options.
        assert_eq!((get(MAX_OBJECT_SIZE), get(PURGE_DELAY)), (2 << 20, 1000));
        configure();
        assert_eq!((get(MAX_OBJECT_SIZE), get(PURGE_DELAY)), (1024, 1000));
    }

    #[test]
    fn freed_memory_is_purged_at_once_while_large_values_are_freed() {
        configure();
        note_freed(LARGE - 1);
        assert!(PURGER.get().is_none());
        note_freed(LARGE);
        wait_until_purge_delay_is(0);
        wait_until_purge_delay_is(1000);
    }

    /// `MI_ENABLE_LARGE_PAGES=0` in `.cargo/config.toml`.
    #[test]
    fn a_live_value_does_not_keep_the_memory_of_freed_ones_of_its_size() {
        let before = resident();
        let mut values: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; LARGE / 10]).collect();
        assert!(resident() > before + 90 * LARGE, "{before}");
        let mut index = 0;
        values.retain(|_| {
            index += 1;
            index % 32 == 0
        });
        wait_until_below(before + 32 * LARGE);
        assert_eq!(values.len(), 31);
    }

    #[test]
    fn memory_freed_by_another_thread_returns_to_the_system() {
        let before = resident();
        let large = values(64 * 16);
        assert!(resident() > before + 60 * LARGE, "{before}");
        thread::spawn(move || drop(large)).join().unwrap();
        wait_until_below(before + 16 * LARGE);
    }
}
