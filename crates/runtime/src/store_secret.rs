//! The secret of the store, from which tokens and random values are derived.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A random key in the store, from which stable and unguessable values are derived.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("***")
    }
}

impl Secret {
    /// A secret with this key.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Derives 16 bytes from these parts with HMAC.
    pub fn derive(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut derived = [0; 16];
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return derived };
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        derived.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        derived
    }
}
