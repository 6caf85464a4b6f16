//! Random bytes, digests and signatures.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use rquickjs::{ArrayBuffer, Ctx, Exception, Function, Object, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq as _;
use uuid::Builder;

use super::bytes;

/// The maximum number of random bytes per call, as in browsers.
const MAX_RANDOM: usize = 65_536;

pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let uuid = |ctx: Ctx<'js>| {
        let mut random = [0; 16];
        fill(&ctx, &mut random)?;
        Ok::<_, rquickjs::Error>(Builder::from_random_bytes(random).into_uuid().to_string())
    };
    native.set("uuid", Function::new(ctx.clone(), uuid)?)?;
    let random = |ctx: Ctx<'js>, count: usize| {
        let mut random = vec![0; count.min(MAX_RANDOM)];
        fill(&ctx, &mut random)?;
        ArrayBuffer::new_copy(ctx, &random)
    };
    native.set("random", Function::new(ctx.clone(), random)?)?;
    let digest = |ctx: Ctx<'js>, name: String, data: String| {
        let digest = digest(&name, &bytes::unpack(&ctx, &data)?);
        digest.map(|digest| ArrayBuffer::new_copy(ctx, &digest)).transpose()
    };
    native.set("digest", Function::new(ctx.clone(), digest)?)?;
    let hmac = |ctx: Ctx<'js>, name: String, key: String, data: String| {
        let signature = sign(&name, &bytes::unpack(&ctx, &key)?, &bytes::unpack(&ctx, &data)?);
        signature.map(|signature| ArrayBuffer::new_copy(ctx, &signature)).transpose()
    };
    native.set("hmac", Function::new(ctx.clone(), hmac)?)?;
    let equal = |ctx: Ctx<'js>, one: String, other: String| {
        Ok::<bool, rquickjs::Error>(bytes::unpack(&ctx, &one)?.ct_eq(&bytes::unpack(&ctx, &other)?).into())
    };
    native.set("equal", Function::new(ctx.clone(), equal)?)
}

fn fill(ctx: &Ctx<'_>, random: &mut [u8]) -> Result<()> {
    getrandom::fill(random).map_err(|_| Exception::throw_internal(ctx, "the system has no random numbers"))
}

/// The digest of `data`; `None` for an unknown algorithm.
fn digest(name: &str, data: &[u8]) -> Option<Vec<u8>> {
    Some(match name {
        "sha1" => Sha1::digest(data).to_vec(),
        "sha256" => Sha256::digest(data).to_vec(),
        "sha384" => Sha384::digest(data).to_vec(),
        "sha512" => Sha512::digest(data).to_vec(),
        _ => return None,
    })
}

/// The signature of `data`; `None` for an unknown algorithm.
fn sign(name: &str, key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    match name {
        "md5" => mac::<Hmac<Md5>>(key, data),
        "sha1" => mac::<Hmac<Sha1>>(key, data),
        "sha256" => mac::<Hmac<Sha256>>(key, data),
        "sha384" => mac::<Hmac<Sha384>>(key, data),
        "sha512" => mac::<Hmac<Sha512>>(key, data),
        _ => None,
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().to_vec())
}
