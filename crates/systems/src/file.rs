//! Bytes of files, piece by piece.

use model::{ActionError, ErrorKind};
use value::Data;

/// Reads bytes of a file, which blocks, on another thread.
///
/// # Errors
/// Returns [`ErrorKind::Internal`] if they cannot be read.
pub(crate) async fn bytes_of(data: Data, offset: usize, length: usize) -> Result<Vec<u8>, ActionError> {
    let mut bytes = vec![0; length];
    let reading =
        allocator::large_work(move || data.read_exact_at(offset as u64, &mut bytes).map(|()| bytes));
    let read = reading.await.map_err(std::io::Error::other).flatten();
    read.map_err(|error| ActionError::new(ErrorKind::Internal, format!("the file cannot be read: {error}")))
}
