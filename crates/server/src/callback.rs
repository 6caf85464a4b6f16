//! The redirect target of OAuth providers: `GET /oauth/callback` on the hook listener.
//!
//! Texts of the provider are shown as text, never as markup, truncated to the cause.

use engine::Engine;
use http::header::ALLOW;
use http::{HeaderValue, Method, Response, StatusCode};
use runtime::LoginCallback;

use crate::net::Outgoing;
use crate::resume;

/// Completes the consent that the request belongs to, and shows its result.
pub(crate) async fn answer(engine: &Engine, head: &http::request::Parts) -> Response<Outgoing> {
    if head.method != Method::GET {
        let mut response = resume::notice(StatusCode::METHOD_NOT_ALLOWED, "This did not work", "use GET");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    let Some(answer) = read(head.uri.query().unwrap_or_default()) else {
        let text = "The address names something twice, so it does not come from the provider.";
        return resume::notice(StatusCode::BAD_REQUEST, "This did not work", text);
    };
    match engine.connections().end_login(answer).await {
        Ok(name) => {
            let text = format!("The connection `{name}` can be used now. You can close this page.");
            resume::notice(StatusCode::OK, "Connected", &text)
        }
        Err(reason) => resume::notice(StatusCode::BAD_REQUEST, "Not connected", &sentence(&reason)),
    }
}

/// The parameters; `None` if one is repeated (RFC 6749, section 3.1).
fn read(query: &str) -> Option<LoginCallback> {
    let mut answer = LoginCallback::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let place = match &*name {
            "state" => &mut answer.state,
            "code" => &mut answer.code,
            "error" => &mut answer.error,
            "iss" => &mut answer.issuer,
            _ => continue,
        };
        if place.replace(value.into_owned()).is_some() {
            return None;
        }
    }
    Some(answer)
}

/// A message as a sentence of a page.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_callback_parameter_is_rejected() {
        let answer = read("state=a%20b&code=c&more=1&iss=https%3A%2F%2Fi.example").expect("an answer");
        assert_eq!((answer.state.as_deref(), answer.code.as_deref()), (Some("a b"), Some("c")));
        assert_eq!(answer.issuer.as_deref(), Some("https://i.example"));
        assert!(read("state=a&state=b").is_none());
        assert!(read("code=a&code=a").is_none());
    }
}
