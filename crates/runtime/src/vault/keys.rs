//! The keys that seal secrets: where they come from, and how one takes the place of another.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use model::Secret;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::Error;

/// The most bytes of a key file.
const MOST_BYTES: u64 = 4096;
/// The most keys in use at one time: the one that seals, and those before it.
const MOST_KEYS: usize = 8;

/// Where the keys that seal secrets are: never in the store that they seal.
#[derive(Clone, Debug)]
pub struct KeySource {
    /// Keys that the environment gives, apart by commas or lines. They go before the file.
    pub given: Option<Secret>,
    /// The file, one key a line. It is made when the first secret is kept.
    pub file: PathBuf,
}

impl KeySource {
    /// The file `master.key` of this data folder.
    #[must_use]
    pub fn in_folder(data_dir: &Path) -> Self {
        Self { given: None, file: data_dir.join("master.key") }
    }
}

/// One key.
pub(super) struct Key {
    /// What records name it by: it tells nothing of the key.
    pub(super) id: String,
    pub(super) bits: Zeroizing<[u8; 32]>,
}

/// The keys in use. The first one seals; all of them open.
pub(super) struct KeyRing {
    keys: Vec<Key>,
}

impl KeyRing {
    /// The keys there are; `None` where there is neither a variable nor a file.
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

    /// A new key in a new file.
    pub(super) fn make(source: &KeySource) -> Result<Self, Error> {
        let ring = Self { keys: vec![Key::fresh()?] };
        ring.write(&source.file)?;
        tracing::info!(file = %source.file.display(), "made the key that seals secrets; keep a copy of it apart from the store");
        Ok(ring)
    }

    fn parse(text: &str, what: &str) -> Result<Self, Error> {
        let lines = text.split([',', '\n']).map(str::trim).filter(|line| !line.is_empty());
        let keys = lines.map(|line| {
            Key::parse(line).ok_or_else(|| {
                Error::Vault(format!(
                    "{what} holds something that is no key; a key is 32 bytes in base64, as `openssl rand -base64 32` gives"
                ))
            })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        match keys.len() {
            0 => Err(Error::Vault(format!("{what} holds no key"))),
            1..=MOST_KEYS => Ok(Self { keys }),
            more => Err(Error::Vault(format!("{what} holds {more} keys; at most {MOST_KEYS} are taken"))),
        }
    }

    /// The key that seals.
    pub(super) fn current(&self) -> Option<&Key> {
        self.keys.first()
    }

    /// The key with this id.
    pub(super) fn find(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Puts a new key before the others, in the file first: what is sealed with it can be opened whatever happens.
    pub(super) fn add(&mut self, source: &KeySource) -> Result<(), Error> {
        self.keys.insert(0, Key::fresh()?);
        self.keys.truncate(MOST_KEYS);
        self.write(&source.file)
    }

    /// Forgets all keys but the one that seals.
    pub(super) fn retire(&mut self, source: &KeySource) -> Result<(), Error> {
        self.keys.truncate(1);
        self.write(&source.file)
    }

    /// Writes the file beside its place and moves it there, so that nobody finds half of it.
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
    fn fresh() -> Result<Self, Error> {
        let mut bits = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bits)
            .map_err(|error| Error::Vault(format!("the system gives no random bytes: {error}")))?;
        Ok(Self::of(bits))
    }

    fn parse(line: &str) -> Option<Self> {
        let bytes = Zeroizing::new(STANDARD_NO_PAD.decode(line.trim_end_matches('=')).ok()?);
        let bits = <[u8; 32]>::try_from(bytes.as_slice()).ok()?;
        Some(Self::of(Zeroizing::new(bits)))
    }

    fn of(bits: Zeroizing<[u8; 32]>) -> Self {
        let digest = Sha256::new().chain_update(b"cogwork key id\0").chain_update(*bits).finalize();
        Self { id: hex::encode(&digest[..4]), bits }
    }
}

fn read_private(path: &Path) -> io::Result<Zeroizing<String>> {
    let file = fs::File::open(path)?;
    check_owner_only(&file)?;
    let mut text = Zeroizing::new(String::new());
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(unix)]
fn check_owner_only(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = "others can read it; take that away with `chmod 600`, and rotate the key";
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

/// A key that a power cut takes along would take every secret with it.
fn sync_folder(file: &Path) {
    if let Some(folder) = file.parent().and_then(|folder| fs::File::open(folder).ok()) {
        // Not every file system can sync a folder.
        let _ = folder.sync_all();
    }
}
