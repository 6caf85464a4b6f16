//! Text encoding and decoding, for the encodings of the web.

use encoding_rs::{Encoding, UTF_8};
use rquickjs::{ArrayBuffer, Ctx, Exception, Function, Object, Result};

use super::bytes;

pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let encode = |ctx: Ctx<'js>, text: String| ArrayBuffer::new_copy(ctx, text.as_bytes());
    native.set("encodeUtf8", Function::new(ctx.clone(), encode)?)?;
    let label =
        |label: String| Encoding::for_label(label.as_bytes()).map(|encoding| encoding.name().to_lowercase());
    native.set("encoding", Function::new(ctx.clone(), label)?)?;
    native.set("decode", Function::new(ctx.clone(), decode)?)
}

/// Decodes bytes; malformed bytes become U+FFFD, or an error if `fatal`.
fn decode(ctx: Ctx<'_>, data: String, label: String, fatal: bool, keep_bom: bool) -> Result<String> {
    let encoding = Encoding::for_label(label.as_bytes()).unwrap_or(UTF_8);
    let bytes = bytes::unpack(&ctx, &data)?;
    let (text, had_errors) = if keep_bom {
        encoding.decode_without_bom_handling(&bytes)
    } else {
        encoding.decode_with_bom_removal(&bytes)
    };
    if had_errors && fatal {
        return Err(Exception::throw_type(&ctx, &format!("the bytes are no text in {}", encoding.name())));
    }
    Ok(text.into_owned())
}

/// Makes JSON valid for every parser: lone surrogates, which JavaScript strings may contain and which `JSON.stringify`
/// writes as `\ud83d`, become the replacement character.
pub(in crate::worker) fn well_formed(mut json: String) -> String {
    let mut from = 0;
    while let Some(found) = json.get(from..).and_then(|rest| rest.find('\\')) {
        let at = from + found;
        let is_half = json.as_bytes().get(at + 1..at + 3) == Some(b"ud");
        if is_half && json.is_char_boundary(at + 6) {
            json.replace_range(at..at + 6, "\\ufffd");
        }
        from = at + 2;
    }
    json
}
