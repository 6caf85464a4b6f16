//! Transfers bytes out of the engine in base64, which the engine encodes fast. Reading its buffers in place needs
//! `unsafe` code, which this workspace does not use. Bytes into the engine are copied unchanged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::{Ctx, Exception, Result};

/// The bytes that `js/bytes.js` has packed.
pub(super) fn unpack(ctx: &Ctx<'_>, packed: &str) -> Result<Vec<u8>> {
    STANDARD.decode(packed).map_err(|_| Exception::throw_type(ctx, "bytes are wanted"))
}
