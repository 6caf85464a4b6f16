//! What memory the process may have, and has touched.

/// The heap that a run may have, and what the process had touched before there was any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// The limit, in bytes.
    pub(super) limit: usize,
    before: usize,
}

impl Memory {
    /// A limit of `limit` bytes for heaps that come from now on.
    pub(super) fn from_now(limit: usize) -> Self {
        Self { limit, before: touched() }
    }

    /// Whether the process has touched half of the limit in its life: where a heap was full of small pieces, it has.
    pub(super) fn has_used_much(self) -> bool {
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

/// Not known here: what may have been is taken for so.
#[cfg(not(target_os = "linux"))]
fn touched() -> usize {
    usize::MAX
}
