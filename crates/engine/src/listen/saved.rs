//! Payloads saved by name as files of the project: `payloads/<automation>/<name>.json`. They can be looked at, changed by
//! hand, kept with the project, and run again.

use std::io::{self, Write as _};
use std::path::Path;

use model::AutomationId;
use model::payload::{Payload, WebhookPayload};
use model::redact::Redactor;
use model::value::Value;
use serde::Serialize;

use crate::engine::Engine;
use crate::hooks::without_credentials;
use crate::project_dir::{self, EntryKind, check_project_target, read_project_file};

/// The most bytes of a saved payload.
const MOST_BYTES: u64 = 64 << 20;
/// The most characters of a name.
const MOST_CHARACTERS: usize = 100;
/// The most payloads that are saved for one Automation.
const MOST_SAVED: usize = 1000;

/// A payload that was saved.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedPayload {
    /// Its name.
    pub name: String,
    /// The file, relative to the project folder.
    pub path: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Why a payload cannot be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// Not a name.
    #[error(
        "`{0}` cannot be the name of a payload: letters, digits, `.`, `_` and `-`, a letter or digit first, at most 100"
    )]
    Name(String),
    /// There is none of that name.
    #[error("there is no payload `{name}`: the file `{path}` is not there")]
    Missing {
        /// Its name.
        name: String,
        /// Where it would be.
        path: String,
    },
    /// It is none.
    #[error("`{path}` is no payload: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The system refuses.
    #[error("`{path}`: {error}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
}

/// A payload as it may be written into a file that others read.
fn without_secrets(payload: Payload, redactor: &Redactor) -> Payload {
    match payload {
        Payload::Webhook(payload) => Payload::Webhook(without_credentials(payload, redactor)),
        Payload::Poll { data, polled_at } => Payload::Poll { data: redactor.value(data), polled_at },
        Payload::Manual { inputs } => Payload::Manual {
            inputs: inputs.into_iter().map(|(name, value)| (name, redactor.value(value))).collect(),
        },
        Payload::Schedule { .. } => payload,
    }
}

impl Engine {
    /// Saves a payload under a name, in place of the one that had it. Credentials and secrets are left out.
    ///
    /// # Errors
    /// It cannot be its name, or the system refuses.
    pub async fn save_payload(
        &self,
        automation: &AutomationId,
        name: &str,
        payload: Payload,
    ) -> Result<SavedPayload, PayloadError> {
        let shown = payload_path(automation, name)?;
        let (root, path, redactor) =
            (self.settings().dir.clone(), shown.clone(), self.settings().redactor.clone());
        let work = tokio::task::spawn_blocking(move || {
            write(&root, Path::new(&path), &without_secrets(whole(payload)?, &redactor))
        });
        let bytes = work.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let bytes = bytes.map_err(|error| PayloadError::Io { path: shown.clone(), error })?;
        Ok(SavedPayload {
            name: name.to_owned(),
            path: shown,
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        })
    }

    /// Deletes a saved payload; false if there was none of that name.
    ///
    /// # Errors
    /// It cannot be its name, or the system refuses.
    pub async fn delete_payload(&self, automation: &AutomationId, name: &str) -> Result<bool, PayloadError> {
        let shown = payload_path(automation, name)?;
        let (root, path) = (self.settings().dir.clone(), shown.clone());
        let work = tokio::task::spawn_blocking(move || -> io::Result<bool> {
            // A folder that leads out of the project is left alone.
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

    /// The payloads that are saved for an Automation, by name.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn saved_payloads(&self, automation: &AutomationId) -> Result<Vec<SavedPayload>, PayloadError> {
        let folder = format!("payloads/{automation}");
        let (root, listed) = (self.settings().dir.clone(), folder.clone());
        let work = tokio::task::spawn_blocking(move || -> io::Result<Vec<SavedPayload>> {
            let entries = match project_dir::list(&root, Path::new(&listed)).map_err(io::Error::from) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let mut found = Vec::new();
            for entry in entries.into_iter().take(MOST_SAVED) {
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

    /// The payload that is saved under a name.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn saved_payload(
        &self,
        automation: &AutomationId,
        name: &str,
    ) -> Result<Payload, PayloadError> {
        let shown = payload_path(automation, name)?;
        let (root, path) = (self.settings().dir.clone(), shown.clone());
        let work = tokio::task::spawn_blocking(move || {
            read_project_file(&root, Path::new(&path), MOST_BYTES).map_err(io::Error::from)
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

/// The file of a name, relative to the project folder.
fn payload_path(automation: &AutomationId, name: &str) -> Result<String, PayloadError> {
    if !is_name(name) {
        return Err(PayloadError::Name(name.to_owned()));
    }
    Ok(format!("payloads/{automation}/{name}.json"))
}

/// Writes a payload into its file. `path` is relative to the project folder `root`.
fn write(root: &Path, path: &Path, payload: &Payload) -> io::Result<usize> {
    let text = serde_json::to_vec_pretty(payload).map_err(io::Error::other)?;
    check_project_target(root, path)?;
    let path = &root.join(path);
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)?;
    if !path.exists() && std::fs::read_dir(folder)?.take(MOST_SAVED).count() >= MOST_SAVED {
        let told = format!("there are {MOST_SAVED} payloads in this folder; remove some that are not needed");
        return Err(io::Error::other(told));
    }
    // Written beside it and put in its place: nobody sees half of one.
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(&text)?;
    draft.persist(path).map_err(|error| error.error)?;
    Ok(text.len())
}

/// A payload with the bytes of its files in it: whoever reads the file has no store to find them in.
fn whole(payload: Payload) -> io::Result<Payload> {
    let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
    let value = |value: &Value| value.load_files(most).map_err(io::Error::other);
    Ok(match payload {
        Payload::Webhook(request) => {
            let body = request.body.load(most).map_err(io::Error::other)?;
            Payload::Webhook(WebhookPayload { body, ..request })
        }
        Payload::Poll { data, polled_at } => Payload::Poll { data: value(&data)?, polled_at },
        Payload::Manual { inputs } => {
            let inputs = inputs.iter().map(|(name, input)| Ok((name.clone(), value(input)?)));
            Payload::manual(inputs.collect::<io::Result<_>>()?)
        }
        Payload::Schedule { .. } => payload,
    })
}

/// Whether a text is a name that never leads out of its folder.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.len() <= MOST_CHARACTERS
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
