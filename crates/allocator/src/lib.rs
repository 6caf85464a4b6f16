//! The memory allocator of the program, and the return of freed memory to the system.
//!
//! This is the only crate with `unsafe` code: the functions of mimalloc are those of a C library.

use std::ffi::{c_int, c_long};
use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::Duration;

/// The allocator of the program, for `#[global_allocator]`.
///
/// Measured to take a fifth off the cost of a request under load, compared with the allocator of the C library.
pub use mimalloc::MiMalloc as Allocator;

/// The number of bytes from which on values are large.
const LARGE: usize = 1 << 20;

/// The time between a request and the purge. It covers the values that are freed together. The next large values come within
/// milliseconds on a busy daemon, and would add to what the ones before them left.
const DELAY: Duration = Duration::from_millis(1);

/// An option of mimalloc that [`configure`] sets.
struct Setting {
    /// Its number in `mi_option_t` (mimalloc.h of mimalloc 3).
    option: c_int,
    /// The variable of the environment that has priority.
    variable: &'static str,
    value: c_long,
    /// mimalloc's own value, by which a test finds out that the number still belongs to this option.
    #[cfg(test)]
    usual: c_long,
}

const SETTINGS: [Setting; 2] = [
    // Milliseconds after which freed memory may return to the system. Measured with hostile bodies of 5 MB: 10 leave some 20 MiB more
    // at the peak; 1 costs some 5 % of the processor time of an acknowledgement.
    Setting {
        option: 15,
        variable: "MIMALLOC_PURGE_DELAY",
        value: 3,
        #[cfg(test)]
        usual: 1000,
    },
    // KiB above which a value has a mapping of its own, which returns to the system as soon as the value is freed.
    Setting {
        option: 45,
        variable: "MIMALLOC_ARENA_MAX_OBJECT_SIZE",
        value: 1024,
        #[cfg(test)]
        usual: 2 << 20,
    },
];

/// Makes the allocator return memory of large values early. The first thing that the program does.
///
/// A daemon whose strangers send bodies of megabytes otherwise holds several times the memory of the values that exist.
pub fn configure() {
    for setting in SETTINGS {
        if std::env::var_os(setting.variable).is_none() {
            set(setting.option, setting.value);
        }
    }
}

#[expect(unsafe_code, reason = "a function of a C library")]
fn set(option: c_int, value: c_long) {
    // SAFETY: `mi_option_set` may be called at any time; it ignores numbers that are no option.
    unsafe { libmimalloc_sys::mi_option_set(option, value) }
}

/// The thread that purges. `None` if the system refused to start it.
static PURGER: OnceLock<Option<Thread>> = OnceLock::new();

/// Notes that values of so many bytes are freed: [requests a purge](request_purge) if they are large.
pub fn note_freed(bytes: usize) {
    if bytes >= LARGE {
        request_purge();
    }
}

/// Requests that the memory of freed values return to the system in about a millisecond. Does not wait for it.
///
/// mimalloc returns memory only while a thread allocates. A thread that does nothing else purges in its place. Many requests
/// become one purge.
pub fn request_purge() {
    let purger = PURGER.get_or_init(|| {
        let thread = thread::Builder::new().name("purger".to_owned()).spawn(purge_on_request);
        thread.ok().map(|thread| thread.thread().clone())
    });
    if let Some(purger) = purger {
        purger.unpark();
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, which no task waits for")]
fn purge_on_request() {
    loop {
        thread::park();
        thread::sleep(DELAY);
        purge();
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
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while resident() > bytes {
            assert!(std::time::Instant::now() < deadline, "{} MiB remain", resident() >> 20);
            thread::yield_now();
        }
    }

    fn values(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| vec![1; LARGE / 16]).collect()
    }

    #[expect(unsafe_code, reason = "a function of a C library")]
    fn get(option: c_int) -> c_long {
        // SAFETY: `mi_option_get` may be called at any time.
        unsafe { libmimalloc_sys::mi_option_get(option) }
    }

    #[test]
    fn the_settings_have_the_numbers_of_their_options() {
        let before = SETTINGS.map(|setting| get(setting.option));
        assert_eq!(before, SETTINGS.map(|setting| setting.usual));
        configure();
        let after = SETTINGS.map(|setting| get(setting.option));
        assert_eq!(after, SETTINGS.map(|setting| setting.value));
    }

    /// `MI_ENABLE_LARGE_PAGES=0` in `.cargo/config.toml`.
    #[test]
    fn a_value_that_lives_does_not_keep_the_memory_of_others_of_its_size() {
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
    fn the_memory_of_values_that_another_thread_has_freed_returns_to_the_system() {
        let before = resident();
        let large = values(64 * 16);
        assert!(resident() > before + 60 * LARGE, "{before}");
        thread::spawn(move || drop(large)).join().unwrap();
        wait_until_below(before + 16 * LARGE);
    }
}
