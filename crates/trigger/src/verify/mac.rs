//! Message authentication codes that can be compared in constant time only.

use ring::hmac;

/// A MAC, or another secret text. It has no `==`, which would stop at the first different byte and reveal how many bytes are
/// right.
pub(crate) struct Mac(hmac::Tag);

impl Mac {
    /// Wraps a MAC that was just computed.
    pub(super) fn from_tag(tag: hmac::Tag) -> Self {
        Self::from(tag.as_ref())
    }

    /// True if `sent` is equal. Takes constant time for any content and length: compares MACs of both under one key.
    pub(crate) fn matches(&self, sent: &[u8]) -> bool {
        #[cfg(test)]
        COMPARISONS.set(COMPARISONS.get() + 1);
        hmac::verify(&key(), sent, self.0.as_ref()).is_ok()
    }
}

impl From<&[u8]> for Mac {
    fn from(right: &[u8]) -> Self {
        Self(hmac::sign(&key(), right))
    }
}

#[cfg(test)]
thread_local! {
    static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns and resets the number of comparisons.
#[cfg(test)]
pub(super) fn take_comparison_count() -> usize {
    COMPARISONS.replace(0)
}

/// A key that need not be secret: it maps both operands to a fixed length, and their difference to an unrelated one.
fn key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, b"compare")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_match_only_if_all_bytes_are_equal() {
        let right = Mac::from(&b"0123456789abcdef"[..]);
        assert!(right.matches(b"0123456789abcdef"));
        for sent in [&b""[..], b"0", b"0123456789abcde", b"0123456789abcdef0", b"0123456789abcdeF"] {
            assert!(!right.matches(sent), "{sent:?}");
        }
    }
}
