//! Authenticators: they can be compared in one way only, which takes as long wherever two differ.

use ring::hmac;

/// A MAC, or another text that only its owner knows. It has no `==`: that stops at the first byte that differs, and so tells how many
/// were right.
pub(crate) struct Mac(hmac::Tag);

impl Mac {
    /// One that was just made.
    pub(super) fn of(tag: hmac::Tag) -> Self {
        Self::from(tag.as_ref())
    }

    /// Whether this is the same. Takes as long for any that was sent, of any length: both become MACs under one key first.
    pub(crate) fn is(&self, sent: &[u8]) -> bool {
        #[cfg(test)]
        COMPARED.set(COMPARED.get() + 1);
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
    static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How often something was compared since this was last asked.
#[cfg(test)]
pub(super) fn compared() -> usize {
    COMPARED.replace(0)
}

/// A key that need not be secret: it only brings what is compared to one length, by a function that hides where two differ.
fn key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, b"compare")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_the_same_whatever_their_length() {
        let right = Mac::from(&b"0123456789abcdef"[..]);
        assert!(right.is(b"0123456789abcdef"));
        for sent in [&b""[..], b"0", b"0123456789abcde", b"0123456789abcdef0", b"0123456789abcdeF"] {
            assert!(!right.is(sent), "{sent:?}");
        }
    }
}
