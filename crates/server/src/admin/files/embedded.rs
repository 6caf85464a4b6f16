//! Answers with files that are embedded in the binary.

use axum::body::Body;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use rust_embed::EmbeddedFile;

/// The encodings that a client takes.
pub(crate) struct Accepted<'a>(Vec<&'a str>);

impl<'a> Accepted<'a> {
    /// Reads them from the fields of a request.
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let fields = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
        Self(fields.flat_map(|field| field.split(',')).map(str::trim).collect())
    }

    /// True if the client takes an encoding.
    pub(crate) fn takes(&self, encoding: &str) -> bool {
        takes(&self.0, encoding)
    }
}

/// Answers with a file under a content security policy and with its caching, or with 304 if the client has it. Its bytes are
/// in `encoding`; its media type is that of `name`.
pub(crate) fn answer(
    found: EmbeddedFile,
    name: &str,
    encoding: Option<&'static str>,
    headers: &HeaderMap,
    policy: &'static str,
    lasting: &'static str,
) -> Option<Response<Body>> {
    let digest = found.metadata.sha256_hash();
    let tag: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let mut response = Response::new(Body::empty());
    let fields = response.headers_mut();
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static(lasting));
    fields.insert(VARY, HeaderValue::from_static("accept-encoding"));
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    fields.insert(ETAG, HeaderValue::try_from(&tag).ok()?);
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|field| field.to_str().ok());
    if known.flat_map(|field| field.split(',')).any(|known| known.trim().trim_start_matches("W/") == tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Some(response);
    }
    if let Some(encoding) = encoding {
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    *response.body_mut() = Body::from(found.data.into_owned());
    Some(response)
}

/// True if the client takes an encoding: it names it, and not with a weight of 0 (RFC 9110, section 12.5.3).
fn takes(accepted: &[&str], encoding: &str) -> bool {
    accepted.iter().any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, ""));
        let refused =
            weight.trim().strip_prefix("q=").is_some_and(|weight| weight.trim().parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case(encoding) && !refused
    })
}

/// The media types of the files that the build makes.
fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_accepted_if_listed_with_a_nonzero_quality() {
        assert!(takes(&["gzip", "deflate", "br"], "br"));
        assert!(takes(&["gzip;q=0.5"], "gzip"));
        assert!(!takes(&["br;q=0", "gzip; q=0.0"], "br") && !takes(&["gzip; q=0.0"], "gzip"));
        assert!(!takes(&["deflate"], "gzip"));
    }
}
