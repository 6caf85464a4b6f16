//! `sftp.move`, `sftp.delete` and `sftp.makeFolder`.

use connector::Call;
use model::ActionError;
use russh_sftp::protocol::FileAttributes;
use value::{Map, Value};

use super::failure::is_missing;
use super::session::Session;
use super::{flag_of, path_of};

/// `sftp.move`.
pub(super) async fn rename(session: &Session, call: &Call<'_>) -> Result<Value, ActionError> {
    let (from, to) = (path_of(call.inputs, "from")?, path_of(call.inputs, "to")?);
    let replace = flag_of(call.inputs, "replace");
    call.http.dialer().pass_gate().await;
    let is_repeated = match session.sftp.lstat(from).await {
        Err(error) if is_missing(&error) => {
            // An earlier attempt has moved it, if it is there.
            session.sftp.lstat(to).await.map_err(|_| session.failed(from)(error))?;
            true
        }
        Err(error) => return Err(session.failed(from)(error)),
        Ok(_) => {
            let renamed = session.rename(from, to, replace).await;
            renamed.map_err(session.change_failed(to)).map_err(|error| explained(error, to, replace))?;
            false
        }
    };
    Ok(Value::from(Map::from_iter([("path", Value::from(to)), ("repeated", Value::from(is_repeated))])))
}

/// Servers refuse a name that exists with no better word than "failure".
fn explained(mut error: ActionError, to: &str, replace: bool) -> ActionError {
    if !replace && error.code.as_deref() == Some("SSH_FX_FAILURE") {
        error.message.push_str(&format!("; if `{to}` exists, replace it with `replace: true`"));
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
            Ok(_) => return Err(super::input_error(format!("`{folder}` is a file, and no folder"))),
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
