//! The server's files in the data folder: the admin token, and the addresses of a running daemon.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use value::Secret;

use crate::Error;

/// The minimum length of a configured admin token, in characters.
const LEAST_TOKEN: usize = 16;
/// The maximum number of bytes read from either file.
const MOST_BYTES: u64 = 4096;

/// A running daemon, as `daemon.json` in its data folder describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Daemon {
    /// The process id.
    pub pid: u32,
    /// The address of its API.
    pub admin: SocketAddr,
    /// The address of its hook listener.
    pub hooks: SocketAddr,
}

impl Daemon {
    /// The daemon recorded on this data folder. It may have been killed since; only a request shows that.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn find(data_dir: &Path) -> Result<Option<Self>, Error> {
        let path = Self::path(data_dir);
        match read_text(&path) {
            // A file truncated by a crash names no daemon.
            Ok(text) => Ok(serde_json::from_str(&text).ok()),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::File { path, source }),
        }
    }

    fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("daemon.json")
    }
}

/// The file that records this daemon; deleted on drop, unless another daemon has replaced it.
#[derive(Debug)]
pub(crate) struct Announcement {
    data_dir: PathBuf,
    daemon: Daemon,
}

impl Announcement {
    /// Writes a temporary file and renames it, so that no reader sees an incomplete file.
    pub(crate) fn write(data_dir: &Path, daemon: Daemon) -> Result<Self, Error> {
        let (path, draft) = (Daemon::path(data_dir), data_dir.join(format!("daemon.json.{}", daemon.pid)));
        let text = serde_json::to_string(&daemon).unwrap_or_default();
        let written = create_dir(data_dir)
            .and_then(|()| match fs::remove_file(&draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => create_private(&draft, &text),
            })
            .and_then(|()| fs::rename(&draft, &path));
        written.map_err(|source| Error::File { path, source })?;
        Ok(Self { data_dir: data_dir.to_owned(), daemon })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if matches!(Daemon::find(&self.data_dir), Ok(Some(found)) if found == self.daemon) {
            // A failure is harmless: a daemon that does not respond does not count as running.
            let _ = fs::remove_file(Daemon::path(&self.data_dir));
        }
    }
}

/// The admin token of a data folder: `given`, or the content of `admin-token`, or a new one of 256 random bits that is
/// written there, readable by its owner only.
///
/// # Errors
/// The file cannot be read or written, the system returns no random bytes, or the token is shorter than 16 characters
/// or contains other characters than visible ASCII.
pub fn admin_token(data_dir: &Path, given: Option<&Secret>) -> Result<Secret, Error> {
    let token = match given {
        Some(token) => token.clone(),
        None => stored_token(data_dir)?,
    };
    let text = token.expose();
    if text.len() < LEAST_TOKEN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::WeakToken { found: text.chars().count(), least: LEAST_TOKEN });
    }
    Ok(token)
}

fn stored_token(data_dir: &Path) -> Result<Secret, Error> {
    let path = data_dir.join("admin-token");
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(Error::Random)?;
    let fresh = URL_SAFE_NO_PAD.encode(bits);
    let created = create_dir(data_dir).and_then(|()| create_private(&path, &format!("{fresh}\n")));
    match created {
        Ok(()) => Ok(Secret::new(fresh)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let token = make_private(&path).and_then(|()| read_text(&path));
            token.map(|text| Secret::new(text.trim())).map_err(|source| Error::File { path, source })
        }
        Err(source) => Err(Error::File { path, source }),
    }
}

/// The stored token, for a client; creates nothing.
pub(crate) fn existing_token(data_dir: &Path) -> Result<Secret, Error> {
    let path = data_dir.join("admin-token");
    read_text(&path).map(|text| Secret::new(text.trim())).map_err(|source| Error::File { path, source })
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    store::regular::open_to_read(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn create_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Creates a file that only its owner can read; never overwrites another one.
fn create_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes the permissions of others on a file.
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let file = store::regular::open_to_read(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others could read the admin token; now its owner alone can");
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[cfg(unix)]
    fn mode(path: &Path) -> u32 {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    #[test]
    fn the_admin_token_is_created_once_and_reused() {
        let folder = folder();
        let data = folder.path().join("data");
        let first = admin_token(&data, None).expect("a token");
        assert_eq!(first.expose().len(), 43);
        assert_eq!(admin_token(&data, None).expect("a token"), first);
        assert_eq!(existing_token(&data).expect("a token"), first);
        assert_ne!(admin_token(&folder.path().join("other"), None).expect("a token"), first);
    }

    #[test]
    fn the_token_file_is_never_followed_through_a_symlink() {
        let folder = folder();
        let theirs = folder.path().join("theirs");
        fs::write(&theirs, "a-token-of-somebody").expect("written");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&theirs, open).expect("a change");
        std::os::unix::fs::symlink(&theirs, folder.path().join("admin-token")).expect("a link");
        let error = admin_token(folder.path(), None).expect_err("a link");
        assert!(format!("{error:?}").contains("it is a link"), "{error:?}");
        assert_eq!(mode(&theirs), 0o644);
    }

    #[cfg(unix)]
    #[test]
    fn the_data_folder_and_token_are_readable_by_the_owner_only() {
        let folder = folder();
        let data = folder.path().join("data");
        admin_token(&data, None).expect("a token");
        assert_eq!((mode(&data), mode(&data.join("admin-token"))), (0o700, 0o600));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(data.join("admin-token"), open).expect("a change");
        admin_token(&data, None).expect("a token");
        assert_eq!(mode(&data.join("admin-token")), 0o600);
    }

    #[test]
    fn a_weak_admin_token_is_rejected() {
        let folder = folder();
        let token = |text: &str| admin_token(folder.path(), Some(&Secret::new(text)));
        assert!(matches!(token("short"), Err(Error::WeakToken { found: 5, .. })));
        assert!(matches!(token("with spaces in the midst"), Err(Error::WeakToken { .. })));
        assert!(token("0123456789abcdef").is_ok());
        assert!(!folder.path().join("admin-token").exists());
    }

    #[test]
    fn the_daemon_file_exists_while_the_daemon_runs() {
        let folder = folder();
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let daemon = |pid| Daemon { pid, admin: local(1), hooks: local(2) };
        assert_eq!(Daemon::find(folder.path()).expect("no file"), None);
        let first = Announcement::write(folder.path(), daemon(1)).expect("a file");
        assert_eq!(Daemon::find(folder.path()).expect("a file"), Some(daemon(1)));
        let second = Announcement::write(folder.path(), daemon(2)).expect("a file");
        drop(first);
        assert_eq!(Daemon::find(folder.path()).expect("a file"), Some(daemon(2)));
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_truncated_daemon_file_is_ignored() {
        let folder = folder();
        fs::write(folder.path().join("daemon.json"), "{\"pid\":1").expect("a file");
        assert_eq!(Daemon::find(folder.path()).expect("a file"), None);
    }
}
