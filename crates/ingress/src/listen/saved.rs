//! Payloads saved as files of the project: `payloads/<automation>/<name>.json`. People can view, edit and version them,
//! and run them again.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::path::Path;

use model::AutomationId;
use model::payload::{Payload, WebhookPayload};
use model::redact::Redactor;
use serde::Serialize;

use crate::credentials::remove_credentials;
use crate::ingress::Ingress;
use catalog::{EntryKind, check_project_target, list_project_folder, read_project_file};

/// Maximum size of a saved payload, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum length of a name, in characters.
const MAX_CHARACTERS: usize = 100;
/// Maximum number of saved payloads of one Automation.
const MAX_SAVED: usize = 1000;

/// Description of a saved payload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedPayload {
    /// Its name.
    pub name: String,
    /// The file, relative to the project folder.
    pub path: String,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Error of saving or reading a payload.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The name is not allowed.
    #[error(
        "`{0}` is not a valid payload name: use at most 100 letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
    )]
    Name(String),
    /// There is no payload of this name.
    #[error("there is no payload `{name}`: the file `{path}` does not exist")]
    Missing {
        /// Its name.
        name: String,
        /// Expected path of its file.
        path: String,
    },
    /// The file does not contain a payload.
    #[error("`{path}` is not a payload: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// An error of the file system.
    #[error("`{path}`: {error}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        error: io::Error,
    },
}

/// Masks credentials and secrets, since other people may read the file.
fn without_secrets(payload: Payload, redactor: &Redactor) -> Payload {
    let masked: Result<_, Infallible> = payload.try_map_data(
        |request| Ok(remove_credentials(request, redactor)),
        |value| Ok(redactor.redact_value(value)),
    );
    match masked {
        Ok(payload) => payload,
    }
}

impl Ingress {
    /// Saves a payload under a name; overwrites an existing one. Credentials and secrets are removed.
    ///
    /// # Errors
    /// Returns an error if the name is not allowed, or the file cannot be written.
    pub async fn save_payload(
        &self,
        automation: &AutomationId,
        name: &str,
        payload: Payload,
    ) -> Result<SavedPayload, PayloadError> {
        let shown = payload_path(automation, name)?;
        let (root, path, redactor) =
            (self.runtime.settings.dir.clone(), shown.clone(), self.runtime.settings.redactor.clone());
        let work = tokio::task::spawn_blocking(move || {
            write(&root, Path::new(&path), &without_secrets(with_file_contents(payload)?, &redactor))
        });
        let bytes = work.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let bytes = bytes.map_err(|error| PayloadError::Io { path: shown.clone(), error })?;
        Ok(SavedPayload {
            name: name.to_owned(),
            path: shown,
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        })
    }

    /// Deletes a saved payload. Returns false if there was none of this name.
    ///
    /// # Errors
    /// Returns an error if the name is not allowed, or the file cannot be deleted.
    pub async fn delete_payload(&self, automation: &AutomationId, name: &str) -> Result<bool, PayloadError> {
        let shown = payload_path(automation, name)?;
        let (root, path) = (self.runtime.settings.dir.clone(), shown.clone());
        let work = tokio::task::spawn_blocking(move || -> io::Result<bool> {
            // Refuses a folder that is a link out of the project.
            check_project_target(&root, Path::new(&path))?;
            match std::fs::remove_file(root.join(path)) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        });
        let deleted = work.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        deleted.map_err(|error| PayloadError::Io { path: shown, error })
    }

    /// Lists the saved payloads of an Automation, sorted by name.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub async fn saved_payloads(&self, automation: &AutomationId) -> Result<Vec<SavedPayload>, PayloadError> {
        let folder = format!("payloads/{automation}");
        let (root, listed) = (self.runtime.settings.dir.clone(), folder.clone());
        let work = tokio::task::spawn_blocking(move || -> io::Result<Vec<SavedPayload>> {
            let entries = match list_project_folder(&root, Path::new(&listed)).map_err(io::Error::from) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let mut found = Vec::new();
            for entry in entries.into_iter().take(MAX_SAVED) {
                let file = entry.name.to_string_lossy().into_owned();
                let Some(name) = file.strip_suffix(".json").filter(|name| is_name(name)) else { continue };
                let Ok(EntryKind::File(stat)) = entry.kind else { continue };
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                found.push(SavedPayload { name: name.to_owned(), path: format!("{listed}/{file}"), bytes });
            }
            found.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(found)
        });
        let found = work.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        found.map_err(|error| PayloadError::Io { path: folder, error })
    }

    /// Reads a saved payload.
    ///
    /// # Errors
    /// Returns an error if there is none of this name, or it cannot be read.
    pub async fn saved_payload(
        &self,
        automation: &AutomationId,
        name: &str,
    ) -> Result<Payload, PayloadError> {
        let shown = payload_path(automation, name)?;
        let (root, path) = (self.runtime.settings.dir.clone(), shown.clone());
        let work = tokio::task::spawn_blocking(move || {
            read_project_file(&root, Path::new(&path), MAX_BYTES).map_err(io::Error::from)
        });
        let read = work.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let bytes = read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PayloadError::Missing { name: name.to_owned(), path: shown.clone() },
            _ => PayloadError::Io { path: shown.clone(), error },
        })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| PayloadError::Malformed { path: shown, reason: error.to_string() })
    }
}

/// Path of a payload's file, relative to the project folder.
fn payload_path(automation: &AutomationId, name: &str) -> Result<String, PayloadError> {
    if !is_name(name) {
        return Err(PayloadError::Name(name.to_owned()));
    }
    Ok(format!("payloads/{automation}/{name}.json"))
}

/// Writes a payload to a file and returns its size. `path` is relative to the project folder `root`.
fn write(root: &Path, path: &Path, payload: &Payload) -> io::Result<usize> {
    let text = serde_json::to_vec_pretty(payload).map_err(io::Error::other)?;
    check_project_target(root, path)?;
    let path = &root.join(path);
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)?;
    if !path.exists() && std::fs::read_dir(folder)?.take(MAX_SAVED).count() >= MAX_SAVED {
        let told = format!("there are {MAX_SAVED} payloads in this folder; delete some first");
        return Err(io::Error::other(told));
    }
    // A temporary file and a rename make the write atomic for readers.
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(&text)?;
    draft.persist(path).map_err(|error| error.error)?;
    Ok(text.len())
}

/// Loads the bytes of all files into the payload, since readers of the file have no access to the store.
fn with_file_contents(payload: Payload) -> io::Result<Payload> {
    let max = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    payload.try_map_data(
        |request| {
            let body = request.body.load(max).map_err(io::Error::other)?;
            Ok(WebhookPayload { body, ..request })
        },
        |value| value.load_files(max).map_err(io::Error::other),
    )
}

/// Returns true if the text is an allowed name, which cannot leave its folder.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.len() <= MAX_CHARACTERS
        && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_its_folder() {
        assert!(["order", "Order-17_b.2", "1"].into_iter().all(is_name));
        assert!(
            ["", ".", "..", "../x", "a/b", ".hidden", "-x", "a b", "ä"]
                .into_iter()
                .all(|name| !is_name(name))
        );
        assert!(!is_name(&"x".repeat(101)));
    }
}
