//! The memory that the process may use and has touched.

/// The heap limit of a run, and the memory that the process had touched before the first heap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// The limit, in bytes.
    pub(super) limit: usize,
    before: usize,
}

impl Memory {
    /// A limit of `limit` bytes for heaps created from now on.
    pub(super) fn from_now(limit: usize) -> Self {
        Self { limit, before: touched() }
    }

    /// True if the process has ever touched half of the limit, as it has if a heap was full of small objects.
    pub(super) fn has_touched_half(self) -> bool {
        touched().saturating_sub(self.before) >= self.limit / 2
    }
}

/// The memory that this process has touched for the first time since it began, in bytes.
#[cfg(target_os = "linux")]
fn touched() -> usize {
    use nix::sys::resource::{UsageWho, getrusage};
    let pages = getrusage(UsageWho::RUSAGE_SELF).map_or(i64::MAX, |usage| usage.minor_page_faults());
    usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(rustix::param::page_size())
}

/// Unknown on this system; the maximum is assumed.
#[cfg(not(target_os = "linux"))]
fn touched() -> usize {
    usize::MAX
}
