//! The files of the web UI, embedded in the binary.

use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderMap, Method, Response, Uri};

use super::embedded::{self, Accepted};
use super::manual;
use crate::admin::Problem;

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

/// True if a request is one for the UI: its files are public, since the pages have no data without a session. The probes of the hook
/// listener are no pages: at this port a probe would find the daemon ready whatever its state.
pub(crate) fn is_page(method: &Method, path: &str) -> bool {
    let apart = ["/api", "/metrics", "/healthz", "/readyz"]
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
    if let Some(answer) = manual::answer(uri.path(), &headers) {
        return answer;
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
    let accepted = Accepted::of(headers);
    let packed = [("br", ".br"), ("gzip", ".gz")].into_iter().find_map(|(encoding, suffix)| {
        let found = accepted.takes(encoding).then(|| Files::get(&format!("{name}{suffix}")))??;
        Some((Some(encoding), found))
    });
    let (encoding, found) = packed.or_else(|| Files::get(name).map(|file| (None, file)))?;
    let lasting =
        if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    embedded::answer(found, name, encoding, headers, POLICY, lasting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_paths_do_not_serve_the_ui() {
        for path in ["/api", "/api/v1/status", "/metrics", "/metrics/x", "/healthz", "/readyz"] {
            assert!(!is_page(&Method::GET, path), "{path}");
        }
        for path in ["/", "/executions/x", "/apis", "/assets/a.js"] {
            assert!(is_page(&Method::GET, path) && !is_page(&Method::POST, path), "{path}");
        }
    }
}
