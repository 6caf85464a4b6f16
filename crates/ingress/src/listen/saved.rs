//! Payloads saved as files of the project: `payloads/<automation>/<name>.json`. People can view, edit and version them,
//! and run them again.

use std::convert::Infallible;
use std::io::{self, Read as _};
use std::path::Path;

use jiff::Timestamp;
use model::automation::TriggerKey;
use model::payload::{EmittedEvent, Payload, WebhookPayload};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;
use value::Reserved;
use value::redact::Redactor;

use super::payload_head::{HEAD_BYTES, PayloadHead};
use crate::ingress::Ingress;
use catalog::{
    EntryKind, ProjectFileError, ProjectTarget, list_project_folder, open_project_file, read_project_file,
};
use runtime::remove_credentials;

/// The permissions of new files, which have data of other people.
const MODE: u32 = 0o600;
/// Maximum size of a saved payload, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum length of a name, in characters.
const MAX_CHARACTERS: usize = 100;
/// Maximum number of saved payloads of one Automation.
const MAX_SAVED: usize = 1000;

/// A payload that is saved as a file of the project.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedPayload {
    /// Its name.
    pub name: String,
    /// Relative to the project folder.
    pub path: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// When the file was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<Timestamp>,
    /// Its kind: `webhook`, `schedule`, `poll` or `manual`; absent if the file does not begin as a payload does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The method of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The content type of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// A saved payload with the version of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionedPayload {
    /// The payload.
    pub payload: Payload,
    /// The version: a hash of the file.
    pub version: String,
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
    /// The file is not in the version that the change expects.
    #[error("`{path}` was changed meanwhile; read it again and repeat the change")]
    Changed {
        /// The file.
        path: String,
    },
    /// The new name is taken.
    #[error("there is a payload `{0}` already; choose another name, or delete that one first")]
    Taken(String),
    /// The path is that of a link, a pipe or another thing that is no file of the project.
    #[error("`{path}`: {error}")]
    Refused {
        /// The path.
        path: String,
        /// The reason.
        error: ProjectFileError,
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
    /// Saves a payload under a name; overwrites an existing one, in the version `expected` if that is given. Credentials
    /// and secrets are removed.
    ///
    /// # Errors
    /// Returns an error if the name is not allowed, the file is another version, or it cannot be written.
    pub async fn save_payload(
        &self,
        trigger: &TriggerKey,
        name: &str,
        payload: Payload,
        expected: Option<String>,
    ) -> Result<SavedPayload, PayloadError> {
        let name = name.to_owned();
        let redactor = self.context.settings.redactor.clone();
        // The bytes, and the text of the file.
        let memory = self.context.reserve_to_load(external_bytes(&payload).saturating_mul(3)).await;
        self.on_file(trigger, &name.clone(), move |root, shown| {
            let failed = |error| io_error(shown, error);
            check_version(root, shown, expected.as_deref())?;
            let payload = without_secrets(with_file_contents(payload, &memory).map_err(failed)?, &redactor);
            write(root, shown, &payload)?;
            describe(root, shown, name)
        })
        .await
    }

    /// Deletes a saved payload, in the version `expected` if that is given. Returns false if there was none of this name.
    ///
    /// # Errors
    /// Returns an error if the name is not allowed, the file is another version, or it cannot be deleted.
    pub async fn delete_payload(
        &self,
        trigger: &TriggerKey,
        name: &str,
        expected: Option<String>,
    ) -> Result<bool, PayloadError> {
        self.on_file(trigger, name, move |root, shown| {
            let target = match ProjectTarget::open(root, Path::new(shown), false) {
                Err(ProjectFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(false);
                }
                target => target.map_err(|error| refused(shown, error))?,
            };
            check_version(root, shown, expected.as_deref())?;
            target.remove().map_err(|error| io_error(shown, error))
        })
        .await
    }

    /// Renames a saved payload. A payload that has the new name already is not overwritten.
    ///
    /// # Errors
    /// Returns an error if a name is not allowed, the new one is taken, there is no such payload, or the file cannot be
    /// renamed.
    pub async fn rename_payload(
        &self,
        trigger: &TriggerKey,
        name: &str,
        to: &str,
    ) -> Result<SavedPayload, PayloadError> {
        let (name, to) = (name.to_owned(), to.to_owned());
        let target = payload_path(trigger, &to)?;
        self.on_file(trigger, &name.clone(), move |root, shown| {
            let missing = || PayloadError::Missing { name: name.clone(), path: shown.to_owned() };
            let open = |path: &str| match ProjectTarget::open(root, Path::new(path), false) {
                Err(ProjectFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
                opened => opened.map_err(|error| refused(path, error)),
            };
            match open(shown)?.move_to(&open(&target)?) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(PayloadError::Taken(to));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(missing());
                }
                Err(error) => return Err(io_error(&target, error)),
            }
            describe(root, &target, to)
        })
        .await
    }

    /// Runs `work` with the project folder and the file of a payload on a blocking thread.
    async fn on_file<T: Send + 'static>(
        &self,
        trigger: &TriggerKey,
        name: &str,
        work: impl FnOnce(&Path, &str) -> Result<T, PayloadError> + Send + 'static,
    ) -> Result<T, PayloadError> {
        let shown = payload_path(trigger, name)?;
        let (root, path) = (self.context.settings.dir.clone(), shown.clone());
        let work = tokio::task::spawn_blocking(move || work(&root, &path));
        work.await.unwrap_or_else(|error| Err(io_error(&shown, io::Error::other(error))))
    }

    /// Lists the saved payloads of an Automation, sorted by name.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub async fn saved_payloads(&self, trigger: &TriggerKey) -> Result<Vec<SavedPayload>, PayloadError> {
        let folder = format!("payloads/{}", trigger.name());
        let (root, listed) = (self.context.settings.dir.clone(), folder.clone());
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
                let Ok(EntryKind::File(_)) = entry.kind else { continue };
                // A file that is deleted meanwhile is left out.
                found.extend(describe(&root, &format!("{listed}/{file}"), name.to_owned()).ok());
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
    /// Returns an error if the name is unknown, or the payload cannot be read.
    pub async fn saved_payload(
        &self,
        trigger: &TriggerKey,
        name: &str,
    ) -> Result<VersionedPayload, PayloadError> {
        let name = name.to_owned();
        self.on_file(trigger, &name.clone(), move |root, shown| {
            let bytes = match read_project_file(root, Path::new(shown), MAX_BYTES) {
                Err(ProjectFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(PayloadError::Missing { name, path: shown.to_owned() });
                }
                bytes => bytes.map_err(|error| refused(shown, error))?,
            };
            let payload = serde_json::from_slice(&bytes).map_err(|error| PayloadError::Malformed {
                path: shown.to_owned(),
                reason: error.to_string(),
            })?;
            Ok(VersionedPayload { payload, version: version_of(&bytes) })
        })
        .await
    }
}

fn io_error(path: &str, error: io::Error) -> PayloadError {
    PayloadError::Io { path: path.to_owned(), error }
}

fn refused(path: &str, error: ProjectFileError) -> PayloadError {
    match error {
        ProjectFileError::Io(error) => io_error(path, error),
        error => PayloadError::Refused { path: path.to_owned(), error },
    }
}

fn version_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that a file has the expected version, if one is given.
fn check_version(root: &Path, path: &str, expected: Option<&str>) -> Result<(), PayloadError> {
    let Some(expected) = expected else { return Ok(()) };
    let found = read_project_file(root, Path::new(path), MAX_BYTES).map(|bytes| version_of(&bytes));
    if found.is_ok_and(|found| found == expected) {
        return Ok(());
    }
    Err(PayloadError::Changed { path: path.to_owned() })
}

/// Describes the file of a payload.
fn describe(root: &Path, path: &str, name: String) -> Result<SavedPayload, PayloadError> {
    let file = open_project_file(root, Path::new(path)).map_err(|error| refused(path, error))?;
    let failed = |error| io_error(path, error);
    let found = file.metadata().map_err(failed)?;
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
    let PayloadHead { kind, method, content_type } = PayloadHead::read(&head);
    let saved_at = found.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
    Ok(SavedPayload { name, path: path.to_owned(), bytes: found.len(), saved_at, kind, method, content_type })
}

/// Path of a payload's file, relative to the project folder.
fn payload_path(trigger: &TriggerKey, name: &str) -> Result<String, PayloadError> {
    if !is_name(name) {
        return Err(PayloadError::Name(name.to_owned()));
    }
    Ok(format!("payloads/{}/{name}.json", trigger.name()))
}

/// Writes a payload to a file. `path` is relative to the project folder `root`.
fn write(root: &Path, path: &str, payload: &Payload) -> Result<(), PayloadError> {
    let failed = |error| io_error(path, error);
    let text = serde_json::to_vec_pretty(payload).map_err(|error| failed(io::Error::other(error)))?;
    let target = ProjectTarget::open(root, Path::new(path), true).map_err(|error| refused(path, error))?;
    if !target.exists().map_err(failed)? && target.siblings(MAX_SAVED).map_err(failed)? >= MAX_SAVED {
        let told = format!("there are {MAX_SAVED} payloads in this folder; delete some first");
        return Err(failed(io::Error::other(told)));
    }
    target.replace(&text, MODE).map_err(failed)
}

/// The bytes of a payload that are in files.
fn external_bytes(payload: &Payload) -> usize {
    match payload {
        Payload::Webhook(request) if request.body.data.is_external() => request.body.data.len(),
        Payload::Poll { data, .. } | Payload::Emitted(EmittedEvent { data, .. }) => data.external_bytes(),
        Payload::Manual { inputs } => inputs.iter().map(|(_, input)| input.external_bytes()).sum(),
        _ => 0,
    }
}

/// Loads the bytes of all files into the payload, since readers of the file have no access to the store.
fn with_file_contents(payload: Payload, memory: &Reserved) -> io::Result<Payload> {
    let max = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    payload.try_map_data(
        |request| {
            let body = request.body.load(max, memory).map_err(io::Error::other)?;
            Ok(WebhookPayload { body, ..request })
        },
        |value| value.load_files(max, memory).map_err(io::Error::other),
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
    fn the_name_of_a_payload_cannot_leave_its_folder() {
        assert!(["order", "Order-17_b.2", "1"].into_iter().all(is_name));
        assert!(
            ["", ".", "..", "../x", "a/b", ".hidden", "-x", "a b", "ä"]
                .into_iter()
                .all(|name| !is_name(name))
        );
        assert!(!is_name(&"x".repeat(101)));
    }
}
