//! Digests and message authentication codes.

use ::hmac::digest::block_api::EagerHash;
use ::hmac::{Hmac, KeyInit, Mac};
use ::sha2::{Digest, Sha256, Sha512};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::Sha1;
use value::Value;

use super::arguments::Arguments;

const ALGORITHMS: [&str; 4] = ["sha256", "sha512", "sha1", "md5"];
const ENCODINGS: [&str; 2] = ["hex", "base64"];

/// `hash(data, algorithm=, encoding=)`.
pub(super) fn hash(arguments: &Arguments<'_>) -> Result<Value, String> {
    let data = arguments.bytes("data")?;
    let digest = match arguments.word("algorithm", &ALGORITHMS)? {
        "sha512" => Sha512::digest(&data).to_vec(),
        "sha1" => Sha1::digest(&data).to_vec(),
        "md5" => Md5::digest(&data).to_vec(),
        _ => Sha256::digest(&data).to_vec(),
    };
    encode(arguments, &digest)
}

/// `hmac(data, key, algorithm=, encoding=)`.
pub(super) fn hmac(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (data, key) = (arguments.bytes("data")?, arguments.bytes("key")?);
    if key.is_empty() {
        return Err("`key` is empty".to_owned());
    }
    let digest = match arguments.word("algorithm", &ALGORITHMS)? {
        "sha512" => hmac_digest::<Sha512>(&key, &data),
        "sha1" => hmac_digest::<Sha1>(&key, &data),
        "md5" => hmac_digest::<Md5>(&key, &data),
        _ => hmac_digest::<Sha256>(&key, &data),
    };
    encode(arguments, &digest?)
}

fn hmac_digest<D: EagerHash>(key: &[u8], data: &[u8]) -> Result<Vec<u8>, String>
where
    Hmac<D>: Mac + KeyInit,
{
    // HMAC accepts a key of any length (RFC 2104).
    let mut mac = <Hmac<D> as KeyInit>::new_from_slice(key).map_err(|error| error.to_string())?;
    Mac::update(&mut mac, data);
    Ok(mac.finalize().into_bytes().to_vec())
}

fn encode(arguments: &Arguments<'_>, digest: &[u8]) -> Result<Value, String> {
    Ok(Value::from(match arguments.word("encoding", &ENCODINGS)? {
        "base64" => STANDARD.encode(digest),
        _ => hex::encode(digest),
    }))
}
