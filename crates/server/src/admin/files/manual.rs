//! The manual of this version, embedded in the binary: `make book` renders it, with text files compressed by gzip.

use std::borrow::Cow;
use std::io::Read as _;

use axum::body::Body;
use axum::response::IntoResponse;
use flate2::read::GzDecoder;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use rust_embed::EmbeddedFile;

use super::embedded::{self, Accepted};
use crate::admin::Problem;

/// The pages, or one page that says how to make them.
#[derive(rust_embed::Embed)]
#[folder = "../../docs/book-packed"]
struct Pages;

/// The address of the manual.
const ROOT: &str = "/manual";
/// The first page.
const FIRST: &str = "index.html";
/// Maximum number of bytes of a decompressed file.
const MAX_BYTES: u64 = 32 << 20;
/// Scripts and styles come from this origin alone, and scripts reach nothing: the search reads its index as a script. The
/// scripts are those of mdBook, which make HTML of the fixed texts of the manual, so trusted types are not required.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
    connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers a request for a page of the manual; `None` if the path is none of its addresses.
pub(crate) fn answer(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let name = match path.strip_prefix(ROOT)? {
        "" => {
            let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
            // Links of its pages are relative.
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("/manual/"));
            return Some(response);
        }
        "/" => FIRST,
        rest => rest.strip_prefix('/')?,
    };
    let is_page = name.ends_with(".html");
    // A binary without the manual has one page, which answers every link to it.
    let found = file(name, headers).or_else(|| (is_page && !is_built()).then(|| file(FIRST, headers))?);
    Some(found.unwrap_or_else(|| Problem::nothing_here().into_response()))
}

/// True if the binary contains the manual. Its first page is compressed, and the page without it is not.
fn is_built() -> bool {
    Pages::get(&format!("{FIRST}.gz")).is_some()
}

fn file(name: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    if name.ends_with(".gz") {
        return None;
    }
    let (found, encoding) = match Pages::get(&format!("{name}.gz")) {
        Some(packed) if Accepted::of(headers).accepts("gzip") => (packed, Some("gzip")),
        Some(packed) => (unpacked(packed)?, None),
        None => (Pages::get(name)?, None),
    };
    embedded::answer(found, name, encoding, headers, POLICY, "no-cache")
}

/// The file for a client that does not take gzip.
fn unpacked(packed: EmbeddedFile) -> Option<EmbeddedFile> {
    let mut data = Vec::new();
    GzDecoder::new(&*packed.data).take(MAX_BYTES).read_to_end(&mut data).ok()?;
    Some(EmbeddedFile { data: Cow::Owned(data), metadata: packed.metadata })
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

    use super::*;

    fn get(path: &str, encoding: Option<&'static str>) -> Response<Body> {
        let mut headers = HeaderMap::new();
        if let Some(encoding) = encoding {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
        }
        answer(path, &headers).expect("it is an address of the manual")
    }

    #[test]
    fn only_paths_of_the_manual_are_served() {
        for path in ["/", "/manuals", "/executions", "/api/v1/status"] {
            assert!(answer(path, &HeaderMap::new()).is_none(), "{path}");
        }
        let moved = get("/manual", None);
        assert_eq!(moved.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(moved.headers()[LOCATION], "/manual/");
    }

    #[test]
    fn manual_pages_allow_only_same_origin_scripts_without_network() {
        let page = get("/manual/", None);
        assert_eq!(page.status(), StatusCode::OK);
        assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text");
        assert!(
            policy.contains("default-src 'none'; script-src 'self';")
                && policy.contains("connect-src 'none'")
        );
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn every_file_is_served_plain_and_compressed() {
        for name in Pages::iter() {
            let plain = name.strip_suffix(".gz").unwrap_or(&name);
            let path = format!("/manual/{plain}");
            assert_eq!(get(&path, None).status(), StatusCode::OK, "{path}");
            assert!(!get(&path, None).headers().contains_key(CONTENT_ENCODING), "{path}");
            let packed = get(&path, Some("gzip"));
            assert_eq!(packed.headers().contains_key(CONTENT_ENCODING), name.ends_with(".gz"), "{path}");
        }
    }

    #[test]
    fn a_missing_page_is_404_unless_the_manual_was_not_built() {
        let expected = if is_built() { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(get("/manual/none.html", None).status(), expected);
        assert_eq!(get("/manual/none.js", None).status(), StatusCode::NOT_FOUND);
        assert_eq!(get("/manual/index.html.gz", None).status(), StatusCode::NOT_FOUND);
    }
}
