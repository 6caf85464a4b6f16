//! Multipart bodies: the parts `file`, `comment` and `minorEdit` of an upload.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use multer::{Constraints, Multipart, SizeLimit};

use super::attachments::{Upload, UploadedFile};
use super::error::ApiError;

/// The most parts of one upload.
const MOST_PARTS: usize = 100;
/// The largest part that is not a file, in bytes.
const LARGEST_FIELD: u64 = 64 * 1024;

/// Reads a multipart body that is in memory already, so its size has been limited.
///
/// # Errors
/// 400 for a body that is not well-formed, too many parts, or a `file` part without a file name.
pub(super) async fn read(content_type: &str, body: Bytes) -> Result<Upload, ApiError> {
    let bad =
        |error: multer::Error| ApiError::bad_request(format!("The multipart body cannot be read: {error}"));
    let boundary = multer::parse_boundary(content_type).map_err(bad)?;
    let whole = body.len() as u64;
    let limits = SizeLimit::new().whole_stream(whole).per_field(whole).for_field("comment", LARGEST_FIELD);
    let stream = stream::iter([Ok::<Bytes, Infallible>(body)]);
    let mut multipart = Multipart::with_constraints(stream, boundary, Constraints::new().size_limit(limits));
    let mut upload = Upload::default();
    for _ in 0..MOST_PARTS {
        let Some(field) = multipart.next_field().await.map_err(bad)? else { return Ok(upload) };
        match field.name().unwrap_or_default() {
            "file" => {
                let name = field.file_name().unwrap_or_default().to_owned();
                if name.is_empty() {
                    return Err(ApiError::bad_request("A part named `file` needs a file name"));
                }
                let media_type =
                    field.content_type().map_or("application/octet-stream", |kind| kind.as_ref());
                let media_type = media_type.to_owned();
                let bytes = field.bytes().await.map_err(bad)?;
                upload.files.push(UploadedFile { name, media_type, bytes });
            }
            "comment" => upload.comment = field.text().await.map_err(bad)?,
            "minorEdit" => upload.minor_edit = field.text().await.map_err(bad)?.trim() == "true",
            _ => {
                field.bytes().await.map_err(bad)?;
            }
        }
    }
    Err(ApiError::bad_request(format!("An upload has at most {MOST_PARTS} parts")))
}
