//! Recognises headers and query parameters that carry credentials, by their names.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use percent_encoding::percent_decode_str;

use super::MASK;

/// Substrings of the names of credentials. A signature is valid only for its own body, but a collection of signatures would
/// help a brute-force attack on the secret.
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

/// Substrings of names (without separators) that contain one of [`CREDENTIALS`] but are harmless: identifiers, cursors, and
/// requests for a credential. They are removed before the rest of the name is checked.
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

/// Names of credentials that contain an entry of [`HARMLESS`].
const AUTHORIZATION: [&str; 2] = ["authoriz", "authoris"];

/// Matcher of [`CREDENTIALS`].
static MATCHER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(CREDENTIALS).ok());

/// Returns true if a header or a query parameter of this name carries a credential or a signature.
#[must_use]
pub fn is_credential_name(name: &str) -> bool {
    // Without a matcher, treat every name as a credential.
    let Some(matcher) = &*MATCHER else { return true };
    matcher.is_match(name) && {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        let harmless = |name: String, part: &&str| name.replace(*part, " ");
        AUTHORIZATION.iter().any(|word| name.contains(word))
            || matcher.is_match(&HARMLESS.iter().fold(name, harmless))
    }
}

/// Replaces the value of each query parameter that carries a credential by `***`; borrows if there is none.
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
    fn credential_headers_and_parameters_are_recognized_by_name() {
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
    fn other_names_that_contain_such_a_word_are_not_credentials() {
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
    fn credentials_in_a_query_are_masked() {
        let masked = query_without_credentials;
        assert_eq!(masked("a=1&token=t&b=&api%5Fkey=k&flag"), "a=1&token=***&b=&api%5Fkey=***&flag");
        assert_eq!(masked("toke%6E=x"), "toke%6E=***");
        assert!(matches!(masked("a=1&b=2&token"), Cow::Borrowed("a=1&b=2&token")));
        assert!(matches!(masked("token=***"), Cow::Borrowed("token=***")));
        assert!(matches!(masked(""), Cow::Borrowed("")));
    }
}
