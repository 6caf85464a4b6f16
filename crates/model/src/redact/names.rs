//! Names of headers and query parameters whose values are credentials.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use percent_encoding::percent_decode_str;

use super::MASK;

/// Pieces of the names of credentials. A signature is good for its own body alone, but many of them are what a brute force on the
/// secret needs.
const CREDENTIALS: [&str; 12] = [
    "auth",
    "cookie",
    "credential",
    "hmac",
    "key",
    "passphrase",
    "passw",
    "pwd",
    "secret",
    "session",
    "signature",
    "token",
];

/// Pieces of names, without what stands between their words, that hold one of [`CREDENTIALS`] and are none: what names a thing, says
/// how to go on, or asks for a credential. What is left of the name decides.
const HARMLESS: [&str; 26] = [
    "authenticate",
    "authenticationresults",
    "author",
    "cachekey",
    "continuationtoken",
    "eventkey",
    "groupkey",
    "idempotencykey",
    "idempotencytoken",
    "issuekey",
    "keyboard",
    "keyword",
    "maxtokens",
    "monkey",
    "nexttoken",
    "nextpagetoken",
    "objectkey",
    "orderingkey",
    "pagetoken",
    "partitionkey",
    "projectkey",
    "publickey",
    "routingkey",
    "sortkey",
    "spacekey",
    "surrogatekey",
];

/// Words of credentials in which a piece of [`HARMLESS`] stands.
const AUTHORIZATION: [&str; 2] = ["authoriz", "authoris"];

/// Finds [`CREDENTIALS`].
static PIECES: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(CREDENTIALS).ok());

/// Returns true if a header or a query parameter of this name carries a credential or a signature.
#[must_use]
pub fn is_credential_name(name: &str) -> bool {
    // Without a search all of them may.
    let Some(pieces) = &*PIECES else { return true };
    pieces.is_match(name) && {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        let harmless = |name: String, piece: &&str| name.replace(*piece, " ");
        AUTHORIZATION.iter().any(|word| name.contains(word))
            || pieces.is_match(&HARMLESS.iter().fold(name, harmless))
    }
}

/// The query with `***` as the value of each parameter whose name is one of a credential; borrowed if there is none.
#[must_use]
pub fn query_without_credentials(query: &str) -> Cow<'_, str> {
    let masked = |pair: &'_ str| {
        let (name, value) = pair.split_once('=')?;
        let decoded = percent_decode_str(name).decode_utf8_lossy();
        (value != MASK && is_credential_name(&decoded)).then(|| format!("{name}={MASK}"))
    };
    if !query.split('&').any(|pair| masked(pair).is_some()) {
        return Cow::Borrowed(query);
    }
    let pairs = query.split('&').map(|pair| masked(pair).map_or(Cow::Borrowed(pair), Cow::Owned));
    Cow::Owned(pairs.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_parameters_of_credentials_are_known_by_name() {
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "set-cookie",
            "x-api-key",
            "api-key",
            "apikey",
            "x-hub-signature-256",
            "x-hmac-hash",
            "x-gitlab-token",
            "x-auth",
            "x-access-key",
            "php-auth-pw",
            "x-password",
            "x-amz-credential",
            "x-functions-key",
            "ocp-apim-subscription-key",
            "x-session-id",
            "x-client-secret",
            "x-authorisation",
            "x-project-key-secret",
            "token",
            "api_key",
            "key",
            "accessToken",
            "X-Amz-Signature",
            "sessionId",
        ] {
            assert!(is_credential_name(name), "{name}");
        }
    }

    #[test]
    fn names_of_other_things_that_hold_such_a_word_are_no_credentials() {
        for name in [
            "content-type",
            "host",
            "accept",
            "x-request-id",
            "user-agent",
            "www-authenticate",
            "proxy-authenticate",
            "authentication-results",
            "idempotency-key",
            "x-idempotency-key",
            "i-twilio-idempotency-token",
            "x-event-key",
            ":authority",
            "author",
            "x-author-email",
            "keyword",
            "keywords",
            "pageToken",
            "next_page_token",
            "issue_key",
            "projectKey",
            "spaceKey",
            "max_tokens",
        ] {
            assert!(!is_credential_name(name), "{name}");
        }
    }

    #[test]
    fn a_query_keeps_all_but_its_credentials() {
        let masked = query_without_credentials;
        assert_eq!(masked("a=1&token=t&b=&api%5Fkey=k&flag"), "a=1&token=***&b=&api%5Fkey=***&flag");
        assert_eq!(masked("toke%6E=x"), "toke%6E=***");
        assert!(matches!(masked("a=1&b=2&token"), Cow::Borrowed("a=1&b=2&token")));
        assert!(matches!(masked("token=***"), Cow::Borrowed("token=***")));
        assert!(matches!(masked(""), Cow::Borrowed("")));
    }
}
