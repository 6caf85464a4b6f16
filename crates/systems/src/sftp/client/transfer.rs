//! `sftp.get` and `sftp.put`: the bytes of files, several pieces at a time.

use connector::{Call, FileSink};
use futures_util::{StreamExt as _, TryStreamExt as _};
use model::{ActionError, ErrorKind};
use russh_sftp::client::error::Error;
use russh_sftp::protocol::{OpenFlags, StatusCode};
use sha2::{Digest as _, Sha256};
use value::{Data, File, Map, Value};

use super::change::explained;
use super::failure::is_missing;
use super::folder::{Entry, name_of};
use super::session::Session;
use super::{flag_of, input_error, path_of};
use crate::file::bytes_of;
use crate::spec::content_of;

/// The bytes of a piece, which every server takes.
const PIECE: usize = 32 << 10;
/// The pieces that are on their way at a time.
const CONCURRENT: usize = 16;

/// `sftp.get`.
pub(super) async fn get(session: &Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let path = path_of(call.inputs, "path")?;
    let known = session.sftp.stat(path).await.map_err(session.failed(path))?.attrs;
    let entry = Entry::new(path, &known);
    if entry.kind != "file" {
        return Err(input_error(format!("`{path}` is a {}, and `sftp.get` reads a file", entry.kind)));
    }
    let mut sink = call.file_sink("the file");
    read(session, path, entry.size, Target::File(&mut sink)).await?;
    let data = sink.finish().await?;
    let content_type = "application/octet-stream".into();
    let file = File { content_type, filename: Some(name_of(path).into()), data };
    let mut result = entry.to_map();
    result.insert("file", Value::from(file));
    Ok(Value::from(result))
}

/// Takes the bytes of a file.
enum Target<'a> {
    File(&'a mut FileSink),
    Hash(&'a mut Sha256),
}

impl Target<'_> {
    async fn push(&mut self, bytes: &[u8]) -> Result<(), ActionError> {
        match self {
            Self::File(sink) => sink.push(bytes).await,
            Self::Hash(hash) => {
                hash.update(bytes);
                Ok(())
            }
        }
    }
}

/// Reads a file of a size that is known, and passes its bytes on in order.
async fn read(session: &Session, path: &str, size: u64, mut target: Target<'_>) -> Result<(), ActionError> {
    let handle = session.open_file(path, OpenFlags::READ).await?;
    let offsets = (0..size.div_ceil(PIECE as u64)).map(|index| index * PIECE as u64);
    let pieces = offsets.map(|offset| piece(session, &handle, offset, (size - offset).min(PIECE as u64)));
    let mut pieces = futures_util::stream::iter(pieces).buffered(CONCURRENT);
    let mut result = Ok(());
    while let Some(piece) = pieces.next().await {
        result = match piece {
            Ok(Some(bytes)) => target.push(&bytes).await,
            Ok(None) => {
                let message = format!("`{path}` became shorter while it was read");
                Err(ActionError::new(ErrorKind::Response, message))
            }
            Err(error) => Err(session.failed(path)(error)),
        };
        if result.is_err() {
            break;
        }
    }
    drop(pieces);
    let _ = session.sftp.close(handle).await;
    result
}

/// Reads a piece; `None` if the file ends before.
async fn piece(session: &Session, handle: &str, offset: u64, length: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let (from, left) = (offset + bytes.len() as u64, length - bytes.len() as u64);
        match session.sftp.read(handle, from, u32::try_from(left).unwrap_or(u32::MAX)).await {
            Ok(data) if data.data.is_empty() => return Ok(None),
            Ok(data) => bytes.extend_from_slice(&data.data),
            Err(Error::Status(status)) if status.status_code == StatusCode::Eof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// `sftp.put`.
pub(super) async fn put(session: &Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let path = path_of(call.inputs, "path")?;
    let data = content_of(call.inputs, "content")?.data;
    let part = part_of(path, call.idempotency_key);
    let replace = flag_of(call.inputs, "replace");
    call.http.dialer().pass_gate().await;
    if let Err(error) = write(session, &part, &data).await {
        let _ = session.sftp.remove(&part).await;
        return Err(error);
    }
    call.http.dialer().pass_gate().await;
    let is_repeated = match session.rename(&part, path, replace).await {
        Ok(()) => false,
        Err(error) => {
            let failed = session.change_failed(path)(error);
            let _ = session.sftp.remove(&part).await;
            // Only a look tells that an earlier attempt has written it. Without one the failure stands, with its unknown outcome.
            if replace || !has_content(session, path, &data).await.unwrap_or(false) {
                return Err(explained(session, failed, path, replace).await);
            }
            true
        }
    };
    let size = i64::try_from(data.len()).unwrap_or(i64::MAX);
    let entries =
        [("path", Value::from(path)), ("size", Value::from(size)), ("repeated", Value::from(is_repeated))];
    Ok(Value::from(Map::from_iter(entries)))
}

/// The path of the file until it is complete. Each attempt of the step has the same.
fn part_of(path: &str, idempotency_key: &str) -> String {
    let name = name_of(path);
    let folder = path.strip_suffix(name).unwrap_or_default();
    let hash: String =
        Sha256::digest(idempotency_key).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{folder}.{name}.{hash}.part")
}

/// Writes a file from its start, with several pieces on their way, and syncs it.
async fn write(session: &Session, path: &str, data: &Data) -> Result<(), ActionError> {
    let flags = OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::WRITE;
    let handle = session.open_file(path, flags).await?;
    let (count, handle_of) = (data.len().div_ceil(PIECE), handle.as_str());
    let pieces = (0..count).map(|index| async move {
        let offset = index * PIECE;
        let bytes = bytes_of(data.clone(), offset, PIECE.min(data.len() - offset)).await?;
        let written = session.sftp.write(handle_of, offset as u64, bytes).await;
        written.map(|_| ()).map_err(session.failed(path))
    });
    futures_util::stream::iter(pieces).buffer_unordered(CONCURRENT).try_collect::<()>().await?;
    session.sync(&handle).await.map_err(session.failed(path))?;
    session.sftp.close(handle).await.map(|_| ()).map_err(session.failed(path))
}

/// True if a file is there with the same bytes: an earlier attempt wrote it, whose answer was lost.
async fn has_content(session: &Session, path: &str, data: &Data) -> Result<bool, ActionError> {
    let size = match session.sftp.stat(path).await {
        Ok(known) => known.attrs.size.unwrap_or_default(),
        Err(error) if is_missing(&error) => return Ok(false),
        Err(error) => return Err(session.failed(path)(error)),
    };
    if size != data.len() as u64 {
        return Ok(false);
    }
    let mut hash = Sha256::new();
    read(session, path, size, Target::Hash(&mut hash)).await?;
    Ok(<[u8; 32]>::from(hash.finalize()) == data.digest())
}
