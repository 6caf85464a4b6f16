//! Random bytes of the operating system, for ids and secrets that a store keeps.

use crate::Error;

/// Returns random bytes of the operating system.
///
/// # Errors
/// The system provides none.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::NoRandomBytes { reason: error.to_string() })?;
    Ok(bytes)
}
