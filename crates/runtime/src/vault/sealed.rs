//! An encrypted value: XChaCha20-Poly1305, authenticated with its name and version.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use jiff::Timestamp;
use value::{Map, Value};
use zeroize::Zeroizing;

use super::keys::{Key, KeyRing};
use crate::error::Error;

/// An encrypted value as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    /// Number of the value under its name, from 1. Authenticated.
    pub(super) version: u64,
    /// Id of the key.
    pub(super) key: String,
    /// Time at which the value was set; a key rotation keeps it.
    pub(super) set_at: Timestamp,
    nonce: [u8; 24],
    data: Vec<u8>,
}

impl Sealed {
    /// Encrypts `plain`. The row's name and version are authenticated, so rows cannot be swapped.
    pub(super) fn seal(
        name: &str,
        version: u64,
        set_at: Timestamp,
        plain: &str,
        key: &Key,
    ) -> Result<Self, Error> {
        let mut nonce = [0; 24];
        getrandom::fill(&mut nonce)
            .map_err(|error| Error::Vault(format!("the system provides no random bytes: {error}")))?;
        let aad = associated_data(name, version);
        let payload = Payload { msg: plain.as_bytes(), aad: &aad };
        let data = XChaCha20Poly1305::new((&*key.bits).into())
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| Error::Vault(format!("`{name}` cannot be encrypted")))?;
        Ok(Self { version, key: key.id.clone(), set_at, nonce, data })
    }

    /// Decrypts the value. Fails if the key is missing, or name or version do not match.
    pub(super) fn open(&self, name: &str, ring: Option<&KeyRing>) -> Result<Zeroizing<String>, Error> {
        let key = ring.and_then(|ring| ring.find(&self.key)).ok_or_else(|| {
            Error::Vault(format!("the key `{}` that encrypts it is missing; restore the key file", self.key))
        })?;
        let aad = associated_data(name, self.version);
        let payload = Payload { msg: &self.data, aad: &aad };
        let plain =
            XChaCha20Poly1305::new((&*key.bits).into())
                .decrypt(&XNonce::from(self.nonce), payload)
                .map_err(|_| Error::Vault("it is damaged, or was not stored under this name".to_owned()))?;
        let plain = String::from_utf8(plain).map_err(|_| Error::Vault("it is not UTF-8 text".to_owned()))?;
        Ok(Zeroizing::new(plain))
    }

    pub(super) fn to_value(&self) -> Value {
        Value::from(Map::from_iter([
            ("version", Value::from(i64::try_from(self.version).unwrap_or(i64::MAX))),
            ("key", Value::from(self.key.as_str())),
            ("setAt", Value::from(self.set_at.to_string())),
            ("nonce", Value::from(STANDARD.encode(self.nonce))),
            ("data", Value::from(STANDARD.encode(&self.data))),
        ]))
    }

    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let Value::Map(map) = value else { return None };
        let text = |name: &str| map.get(name).and_then(Value::as_str);
        let bytes = |name: &str| STANDARD.decode(text(name)?).ok();
        Some(Self {
            version: u64::try_from(map.get("version")?.as_i64()?).ok()?,
            key: text("key")?.to_owned(),
            set_at: text("setAt")?.parse().ok()?,
            nonce: bytes("nonce")?.try_into().ok()?,
            data: bytes("data")?,
        })
    }
}

fn associated_data(name: &str, version: u64) -> Vec<u8> {
    format!("cogwork secret\0{version}\0{name}").into_bytes()
}
