//! The keys that encrypt secrets: their sources, the key file and its rotation.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest as _, Sha256};
use value::Secret;
use zeroize::Zeroizing;

use crate::error::Error;

/// Maximum size of a key file, in bytes.
const MAX_BYTES: u64 = 4096;
/// Maximum number of keys: the current one and older ones that can still decrypt.
const MAX_KEYS: usize = 8;

/// Sources of the encryption keys. Keys are never in the store whose secrets they encrypt.
#[derive(Clone, Debug)]
pub struct KeySource {
    /// Keys from the environment, separated by commas or line breaks; they take precedence over the file. `None` if the
    /// variable is not set.
    pub given: Option<Secret>,
    /// Key file, one key per line. Created when the first secret is stored.
    pub file: PathBuf,
}

impl KeySource {
    /// Returns the place of the keys, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.given {
            Some(_) => "COGWORK_MASTER_KEY".to_owned(),
            None => format!("`{}`", self.file.display()),
        }
    }

    /// Returns the way to the key that the store needs, for messages.
    pub(super) fn way_out(&self) -> String {
        match &self.given {
            Some(_) => {
                "set COGWORK_MASTER_KEY to the key that the other daemons have, or add it after a comma"
                    .to_owned()
            }
            None => format!(
                "put the key of the other daemons in `{}`, or restore the file; values whose key is lost are to be removed and set again",
                self.file.display()
            ),
        }
    }

    /// The file `master.key` of this data folder.
    #[must_use]
    pub fn in_folder(data_dir: &Path) -> Self {
        Self { given: None, file: data_dir.join("master.key") }
    }
}

/// An encryption key.
pub(super) struct Key {
    /// Identifies the key in stored records. A truncated hash that reveals nothing about the key.
    pub(super) id: String,
    pub(super) bits: Zeroizing<[u8; 32]>,
}

/// The loaded keys. The first one encrypts; all of them decrypt.
pub(super) struct KeyRing {
    keys: Vec<Key>,
}

impl KeyRing {
    /// Loads the keys; `None` if neither the variable nor the file exists.
    pub(super) fn read(source: &KeySource) -> Result<Option<Self>, Error> {
        if let Some(given) = &source.given {
            return Self::parse(given.expose(), "the master key of the environment").map(Some);
        }
        let what = format!("`{}`", source.file.display());
        match read_private(&source.file) {
            Ok(text) => Self::parse(&text, &what).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Vault(format!("cannot read {what}: {error}"))),
        }
    }

    /// Creates a key and its file.
    pub(super) fn create(source: &KeySource) -> Result<Self, Error> {
        let ring = Self { keys: vec![Key::generate()?] };
        ring.write(&source.file)?;
        tracing::info!(file = %source.file.display(), "created the key that encrypts secrets; keep a copy of it separate from the store");
        Ok(ring)
    }

    fn parse(text: &str, what: &str) -> Result<Self, Error> {
        let lines = text.split([',', '\n']).map(str::trim).filter(|line| !line.is_empty());
        let keys = lines.map(|line| {
            Key::parse(line).ok_or_else(|| {
                Error::Vault(format!(
                    "{what} contains an invalid key; a key is 32 bytes in base64, as `openssl rand -base64 32` gives"
                ))
            })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        match keys.len() {
            0 => Err(Error::Vault(format!("{what} contains no key"))),
            1..=MAX_KEYS => Ok(Self { keys }),
            more => Err(Error::Vault(format!("{what} contains {more} keys; the maximum is {MAX_KEYS}"))),
        }
    }

    /// The key that encrypts.
    pub(super) fn current(&self) -> Option<&Key> {
        self.keys.first()
    }

    /// The ids of the keys.
    pub(super) fn ids(&self) -> Vec<String> {
        self.keys.iter().map(|key| key.id.clone()).collect()
    }

    /// Finds a key by id.
    pub(super) fn find(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Adds a new current key and writes the file first, so that everything encrypted with it can be decrypted after a
    /// crash.
    pub(super) fn add(&mut self, source: &KeySource) -> Result<(), Error> {
        self.keys.insert(0, Key::generate()?);
        self.keys.truncate(MAX_KEYS);
        self.write(&source.file)
    }

    /// Removes all keys except the current one.
    pub(super) fn retire(&mut self, source: &KeySource) -> Result<(), Error> {
        self.keys.truncate(1);
        self.write(&source.file)
    }

    /// Writes a temporary file and renames it, so that no reader sees a partial file.
    fn write(&self, file: &Path) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Vault(format!("cannot write `{}`: {error}", file.display()));
        let mut text = Zeroizing::new(String::new());
        for key in &self.keys {
            text.push_str(&Zeroizing::new(STANDARD.encode(*key.bits)));
            text.push('\n');
        }
        let draft = file.with_extension("key.new");
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        write_private(&draft, &text).and_then(|()| fs::rename(&draft, file)).map_err(failed)?;
        sync_folder(file);
        Ok(())
    }
}

impl Key {
    fn generate() -> Result<Self, Error> {
        let mut bits = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bits)
            .map_err(|error| Error::Vault(format!("the system provides no random bytes: {error}")))?;
        Ok(Self::new(bits))
    }

    fn parse(line: &str) -> Option<Self> {
        let bytes = Zeroizing::new(STANDARD_NO_PAD.decode(line.trim_end_matches('=')).ok()?);
        let bits = <[u8; 32]>::try_from(bytes.as_slice()).ok()?;
        Some(Self::new(Zeroizing::new(bits)))
    }

    fn new(bits: Zeroizing<[u8; 32]>) -> Self {
        let digest = Sha256::new().chain_update(b"cogwork key id\0").chain_update(*bits).finalize();
        Self { id: hex::encode(&digest[..4]), bits }
    }
}

fn read_private(path: &Path) -> io::Result<Zeroizing<String>> {
    let file = fs::File::open(path)?;
    check_owner_only(&file)?;
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(unix)]
fn check_owner_only(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = "other users can read it; run `chmod 600` on it and rotate the key";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner_only(_: &fs::File) -> io::Result<()> {
    Ok(())
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Syncs the folder of the key file: losing the key in a power failure would lose every secret.
fn sync_folder(file: &Path) {
    if let Some(folder) = file.parent().and_then(|folder| fs::File::open(folder).ok()) {
        // Not every file system can sync a folder.
        let _ = folder.sync_all();
    }
}
