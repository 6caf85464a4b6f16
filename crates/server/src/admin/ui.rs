//! The files of the web UI, embedded in the binary.

use axum::body::Body;
use axum::response::IntoResponse;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};

use super::Problem;

/// The build of `ui/`, or one page that says how to make it.
#[derive(rust_embed::Embed)]
#[folder = "../../ui/dist"]
struct Files;

/// The page that every address of the UI answers with.
const PAGE: &str = "index.html";
/// Scripts and styles come from this origin alone. Trusted types forbid to make HTML of texts; the one policy is that of Svelte.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types svelte-trusted-html";

/// True if a request is one for the UI: its files are public, since the pages have no data without a session.
pub(crate) fn is_page(method: &Method, path: &str) -> bool {
    let apart = ["/api", "/metrics"]
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    matches!(*method, Method::GET | Method::HEAD) && !apart
}

/// Answers with a file of the UI. An address that is no file is one of its pages, except below `/assets`.
pub(crate) async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let path = uri.path().trim_start_matches('/');
    if !is_page(&method, uri.path()) {
        return Problem::nothing_here().into_response();
    }
    let name = match Files::get(path) {
        Some(_) if !is_packed(path) => path,
        _ if path.starts_with("assets/") => return Problem::nothing_here().into_response(),
        _ => PAGE,
    };
    file(name, &headers).unwrap_or_else(|| Problem::nothing_here().into_response())
}

fn is_packed(name: &str) -> bool {
    [".br", ".gz"].iter().any(|suffix| name.ends_with(suffix))
}

/// The answer with one file, in the best encoding that the client takes.
fn file(name: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
    let accepted: Vec<&str> = accepted.flat_map(|field| field.split(',')).map(str::trim).collect();
    let packed = [("br", ".br"), ("gzip", ".gz")].into_iter().find_map(|(encoding, suffix)| {
        let found = takes(&accepted, encoding).then(|| Files::get(&format!("{name}{suffix}")))??;
        Some((Some(encoding), found))
    });
    let (encoding, found) = packed.or_else(|| Files::get(name).map(|file| (None, file)))?;
    let digest = found.metadata.sha256_hash();
    let tag: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let mut response = Response::new(Body::empty());
    let fields = response.headers_mut();
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    let lasting =
        if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
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
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_taken_if_it_is_named_and_not_refused() {
        assert!(takes(&["gzip", "deflate", "br"], "br"));
        assert!(takes(&["gzip;q=0.5"], "gzip"));
        assert!(!takes(&["br;q=0", "gzip; q=0.0"], "br") && !takes(&["gzip; q=0.0"], "gzip"));
        assert!(!takes(&["deflate"], "gzip"));
    }

    #[test]
    fn the_api_is_no_page() {
        for path in ["/api", "/api/v1/status", "/metrics", "/metrics/x"] {
            assert!(!is_page(&Method::GET, path), "{path}");
        }
        for path in ["/", "/executions/x", "/apis", "/assets/a.js"] {
            assert!(is_page(&Method::GET, path) && !is_page(&Method::POST, path), "{path}");
        }
    }
}
