//! Bytes on their way out of the engine: in base64, which the engine writes fast. What it holds can be read in place
//! only by `unsafe` code, and there is none in this house. Into the engine they go as they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::{Ctx, Exception, Result};

/// The bytes that `js/bytes.js` has packed.
pub(super) fn unpack(ctx: &Ctx<'_>, packed: &str) -> Result<Vec<u8>> {
    STANDARD.decode(packed).map_err(|_| Exception::throw_type(ctx, "bytes are wanted"))
}
