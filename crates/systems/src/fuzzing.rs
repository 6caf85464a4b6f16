//! Entry points for the fuzz targets: the parsers of bytes that other systems send.

#[cfg(feature = "amqp")]
pub use crate::amqp::read_frames;
#[cfg(feature = "documents")]
pub use crate::documents::read_document;
#[cfg(feature = "mail")]
pub use crate::mail::read_responses;
