//! `sftp.move`, `sftp.delete` and `sftp.makeFolder`.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use connector::Call;
use model::ActionError;
use russh_sftp::protocol::FileAttributes;
use value::{Map, Value};

use super::failure::is_missing;
use super::session::Session;
use super::{flag_of, input_error, path_of};

/// The moves whose state is remembered for later attempts.
const MAX_MOVES: usize = 1_000;

/// The state in which the last attempts of moves found their source, by the key of the step. A restart forgets them.
#[derive(Default)]
pub(in crate::sftp) struct Moves(Mutex<VecDeque<(String, Source)>>);

/// The source of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// It was never there.
    Missing,
    /// It was there, with its size if it is a file.
    There(Option<u64>),
}

impl Moves {
    fn note(&self, key: &str, source: Source) {
        let mut moves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moves.retain(|(known, _)| known != key);
        if moves.len() >= MAX_MOVES {
            moves.pop_front();
        }
        moves.push_back((key.to_owned(), source));
    }

    fn source(&self, key: &str) -> Option<Source> {
        let moves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moves.iter().find(|(known, _)| known == key).map(|(_, source)| *source)
    }
}

/// `sftp.move`.
pub(super) async fn rename(session: &Session, call: &Call<'_>, moves: &Moves) -> Result<Value, ActionError> {
    let (from, to) = (path_of(call.inputs, "from")?, path_of(call.inputs, "to")?);
    if segments(from) == segments(to) {
        return Err(input_error(format!("`from` and `to` are the same path, `{to}`; name another one")));
    }
    let (replace, key) = (flag_of(call.inputs, "replace"), call.idempotency_key);
    call.http.dialer().pass_gate().await;
    let is_repeated = match session.sftp.lstat(from).await {
        Err(error) if is_missing(&error) => {
            let target = session.sftp.lstat(to).await.ok().map(|known| size_of(&known.attrs));
            let is_moved = match (moves.source(key), target) {
                (_, None) | (Some(Source::Missing), _) => false,
                (Some(Source::There(size)), Some(found)) => size == found,
                (None, Some(_)) => call.may_repeat,
            };
            if !is_moved {
                moves.note(key, Source::Missing);
                return Err(missing(session.failed(from)(error), to, target.is_some()));
            }
            true
        }
        Err(error) => return Err(session.failed(from)(error)),
        Ok(known) => {
            moves.note(key, Source::There(size_of(&known.attrs)));
            if let Err(error) = session.rename(from, to, replace).await {
                return Err(explained(session, session.change_failed(to)(error), to, replace).await);
            }
            false
        }
    };
    Ok(Value::from(Map::from_iter([("path", Value::from(to)), ("repeated", Value::from(is_repeated))])))
}

/// The size of a file; `None` for a folder, whose size says nothing.
fn size_of(attributes: &FileAttributes) -> Option<u64> {
    attributes.size.filter(|_| !attributes.is_dir())
}

/// The parts of a path that count, and whether it begins at the root.
fn segments(path: &str) -> (bool, Vec<&str>) {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    (path.starts_with('/'), parts.collect())
}

/// Adds that the target of a move is another file, if there is one.
fn missing(mut error: ActionError, to: &str, has_target: bool) -> ActionError {
    if has_target {
        error.message.push_str(&format!("; `{to}` exists, but this step has not moved it there"));
    }
    error
}

/// Adds that a file exists. Servers refuse its name with no better word than "failure".
pub(super) async fn explained(
    session: &Session,
    mut error: ActionError,
    path: &str,
    replace: bool,
) -> ActionError {
    let is_unclear = !replace && error.code.as_deref() == Some("SSH_FX_FAILURE");
    if is_unclear && session.sftp.lstat(path).await.is_ok() {
        error.message.push_str(&format!("; `{path}` exists: replace it with `replace: true`"));
    }
    error
}

/// `sftp.delete`.
pub(super) async fn delete(session: &Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let path = path_of(call.inputs, "path")?;
    let failed = session.change_failed(path);
    call.http.dialer().pass_gate().await;
    let deleted = match session.sftp.lstat(path).await {
        Err(error) => Err(error),
        Ok(known) if known.attrs.is_dir() => session.sftp.rmdir(path).await,
        Ok(_) => session.sftp.remove(path).await,
    };
    let was_there = match deleted {
        Ok(_) => true,
        Err(error) if is_missing(&error) => false,
        Err(error) => return Err(failed(error)),
    };
    Ok(Value::from(Map::from_iter([("deleted", Value::from(was_there))])))
}

/// `sftp.makeFolder`.
pub(super) async fn make_folder(session: &Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let path = path_of(call.inputs, "path")?.trim_end_matches('/');
    call.http.dialer().pass_gate().await;
    let mut is_new = false;
    let ends = path.char_indices().filter(|(index, c)| *c == '/' && *index > 0).map(|(index, _)| index);
    for end in ends.chain([path.len()]) {
        let folder = path.get(..end).unwrap_or(path);
        match session.sftp.stat(folder).await {
            Ok(known) if known.attrs.is_dir() => continue,
            Ok(_) => return Err(input_error(format!("`{folder}` is a file, and no folder"))),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(session.failed(folder)(error)),
        }
        match session.sftp.mkdir(folder, FileAttributes::empty()).await {
            Ok(_) => is_new = true,
            // Another writer may have made it meanwhile.
            Err(error) => match session.sftp.stat(folder).await {
                Ok(known) if known.attrs.is_dir() => {}
                _ => return Err(session.change_failed(folder)(error)),
            },
        }
    }
    Ok(Value::from(Map::from_iter([("path", Value::from(path)), ("created", Value::from(is_new))])))
}
