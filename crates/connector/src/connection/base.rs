//! The base address to which a connection's credentials are bound, and the rules for joining paths to it.

use std::fmt;

use url::Url;

/// The scheme, the host and an optional path prefix of a connection, without a trailing slash. Credentials go nowhere
/// else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// An invalid address, or a path that cannot be joined to one. The message is a phrase to follow the input's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// The text is empty.
    #[error("is empty; write the address, such as `https://acme.example.com`")]
    Empty,
    /// The text is not a URL.
    #[error("is not an address ({0}); write it like `https://acme.example.com`")]
    Malformed(url::ParseError),
    /// The scheme is neither http nor https.
    #[error("must begin with `https://` or `http://`")]
    Scheme,
    /// The address contains credentials, a query or a fragment.
    #[error("must hold no user name, `?` or `#`")]
    Extras,
    /// The path does not begin with exactly one `/`.
    #[error("must be a path that begins with one `/`; the address comes from the connection")]
    NotAPath,
    /// The path contains something that could lead to another address.
    #[error("must hold no `{0}`, which could lead away from the connection's address")]
    Traversal(&'static str),
    /// The path contains a fragment.
    #[error("must hold no `#`; write it as `%23`")]
    Fragment,
    /// The joined URL is outside of the base address.
    #[error("leaves `{0}`, which the connection's credentials are bound to")]
    OutsideBase(String),
}

impl BaseUrl {
    /// Parses an address as people write it: `acme.example.com`, `https://acme.example.com/`. The default scheme is
    /// https. A trailing path equal to `strip` is removed.
    ///
    /// # Errors
    /// Returns an error if the text is not an http or https address, or contains credentials, a query or a fragment.
    pub fn parse(text: &str, strip: Option<&str>) -> Result<Self, BaseUrlError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BaseUrlError::Empty);
        }
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let mut url = Url::parse(&with_scheme).map_err(BaseUrlError::Malformed)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BaseUrlError::Scheme);
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::Extras);
        }
        let path = url.path().trim_end_matches('/');
        let path =
            strip.and_then(|strip| path.strip_suffix(strip)).unwrap_or(path).trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// Returns an address that no name leads to (RFC 2606), for connections without one.
    pub(crate) fn none() -> Self {
        Self(Url::parse("https://none.invalid").unwrap_or_else(|_| unreachable!("a constant address")))
    }

    /// Returns the path of the address without a trailing slash; empty for most.
    pub(super) fn prefix(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }

    /// Appends `path`, whose segments are already percent-encoded.
    ///
    /// # Errors
    /// Returns an error if a segment is `.` or `..` in any encoding.
    pub fn join_encoded(&self, path: &str) -> Result<Url, BaseUrlError> {
        let whole = format!("{}{path}", self.prefix());
        let mut url = self.0.clone();
        url.set_path(&whole);
        // The URL parser resolves dot segments: if it changed the path, the path would have led elsewhere.
        if url.path() != whole {
            return Err(BaseUrlError::Traversal(".."));
        }
        Ok(url)
    }

    /// Appends a path as an author wrote it, with an optional query (threat model 4.4: path only).
    ///
    /// # Errors
    /// Returns an error if the path does not begin with exactly one `/`, or contains something that could lead to
    /// another address: a scheme, `\`, `@`, a dot segment in any encoding, or a control character.
    pub fn join(&self, path: &str) -> Result<Url, BaseUrlError> {
        if !path.starts_with('/') || path.starts_with("//") {
            return Err(BaseUrlError::NotAPath);
        }
        if path.contains('#') {
            return Err(BaseUrlError::Fragment);
        }
        let (before_query, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        if path.contains('\\') {
            return Err(BaseUrlError::Traversal("\\"));
        }
        if before_query.contains('@') {
            return Err(BaseUrlError::Traversal("@"));
        }
        if path.chars().any(|c| c.is_control()) {
            return Err(BaseUrlError::Traversal("control character"));
        }
        if has_dot_segment(before_query) {
            return Err(BaseUrlError::Traversal(".."));
        }
        let mut url = self.0.clone();
        url.set_path(&format!("{}{before_query}", self.prefix()));
        url.set_query(query);
        if self.contains(&url) { Ok(url) } else { Err(BaseUrlError::OutsideBase(self.to_string())) }
    }

    /// True if `url` is below this address: the same scheme, host and port, and a path that begins with this path.
    #[must_use]
    pub fn contains(&self, url: &Url) -> bool {
        let prefix = self.prefix();
        let has_user = !url.username().is_empty() || url.password().is_some();
        let below =
            url.path().strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.same_origin(url) && below && !has_user
    }

    /// True if `url` has the same scheme, host and port.
    #[must_use]
    pub fn same_origin(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }

    /// Returns the address as a URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }
}

/// True if a path has a segment `.` or `..`, also if its dots or the slashes next to it are encoded: URL parsers
/// resolve `%2e`, and many servers decode `%2f` and `%5c` before they split the path.
fn has_dot_segment(path: &str) -> bool {
    let decoded = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    decoded.split('/').any(|segment| segment == "." || segment == "..")
}

impl fmt::Display for BaseUrl {
    /// Writes the address without a trailing slash.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn base(text: &str) -> String {
        BaseUrl::parse(text, Some("/wiki")).map_or_else(|error| error.to_string(), |base| base.to_string())
    }

    fn join(path: &str) -> String {
        let base = BaseUrl::parse("https://acme.example/ex/1", None).expect("an address");
        base.join(path).map_or_else(|error| error.to_string(), String::from)
    }

    #[test]
    fn every_spelling_of_a_base_url_is_normalized() {
        for text in [
            "acme.example",
            "acme.example/",
            "acme.example/wiki",
            "https://acme.example",
            "https://acme.example/",
            "https://ACME.example/wiki/",
            " https://acme.example:443/wiki ",
        ] {
            assert_eq!(base(text), "https://acme.example", "{text}");
        }
        assert_eq!(base("http://127.0.0.1:8080/"), "http://127.0.0.1:8080");
        assert_eq!(base("https://gateway.example/ex/wiki/1"), "https://gateway.example/ex/wiki/1");
    }

    #[test]
    fn an_invalid_base_url_is_rejected() {
        assert!(base("").contains("is empty"));
        assert!(base("ftp://acme.example").contains("must begin with"));
        for text in ["https://a:b@acme.example", "https://acme.example/?x=1", "acme.example#x"] {
            assert!(base(text).contains("must hold no"), "{text}");
        }
        for text in ["https://", "a b", "https://[::1"] {
            assert!(base(text).contains("is not an address"), "{text}: {}", base(text));
        }
    }

    #[test]
    fn a_path_is_joined_with_its_query() {
        assert_eq!(
            join("/wiki/api/v2/pages?cursor=a%3D&x=@"),
            "https://acme.example/ex/1/wiki/api/v2/pages?cursor=a%3D&x=@"
        );
        assert_eq!(join("/"), "https://acme.example/ex/1/");
    }

    #[test]
    fn a_path_that_could_leave_the_base_url_is_rejected() {
        for path in [
            "",
            "wiki",
            "//evil.example",
            "https://evil.example/",
            "///evil.example",
            "/\\evil.example",
            "/a\\..\\b",
            "/@evil.example",
            "/..",
            "/../2/x",
            "/a/../../2",
            "/%2e%2E/2",
            "/.%2e/2",
            "/a/./b",
            "/a\r\nhost: evil",
            "/a\tb",
            "/a#b",
            "/..%2fother",
            "/a%2F..%2f..%2Fother",
            "/%2e%2e%5cother",
            "/a%5C..",
        ] {
            assert!(!join(path).starts_with("https:"), "{path}: {}", join(path));
        }
    }

    #[test]
    fn a_base_url_contains_only_urls_below_it() {
        let base = BaseUrl::parse("https://acme.example/v1", None).expect("an address");
        let is_below = |text: &str| base.contains(&Url::parse(text).expect("a URL"));
        assert!(is_below("https://acme.example/v1"));
        assert!(is_below("https://acme.example:443/v1/users?x=1"));
        for text in [
            "https://acme.example/v10",
            "https://acme.example/",
            "http://acme.example/v1",
            "https://acme.example:8443/v1",
            "https://acme.example.evil/v1",
            "https://u@acme.example/v1",
        ] {
            assert!(!is_below(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_base_url(path in "[/.\\\\@:%2eE?#a-c\u{0}-\u{20}]{0,24}") {
            let base = BaseUrl::parse("https://acme.example/ex/1", None).expect("an address");
            if let Ok(url) = base.join(&path) {
                prop_assert!(base.contains(&url), "{}", url);
                prop_assert_eq!(url.host_str(), Some("acme.example"));
            }
            if let Ok(url) = base.join_encoded(&path) {
                prop_assert!(base.same_origin(&url));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,30}") {
            let _ = BaseUrl::parse(&text, Some("/wiki"));
        }
    }
}
