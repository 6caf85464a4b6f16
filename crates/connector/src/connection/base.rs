//! The address that a connection's credentials are bound to, and what may be joined to it.

use std::fmt;

use url::Url;

/// Scheme, host and perhaps the beginning of a path, without a slash at the end. Credentials go nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// Why a text is no address, or why a path cannot be joined to one. The words go behind the input's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// Nothing was given.
    #[error("is empty; write the address, such as `https://acme.example.com`")]
    Empty,
    /// Not the form of an address.
    #[error("is not an address ({0}); write it like `https://acme.example.com`")]
    Malformed(url::ParseError),
    /// Neither http nor https.
    #[error("must begin with `https://` or `http://`")]
    Scheme,
    /// Credentials, a query or a fragment.
    #[error("must hold no user name, `?` or `#`")]
    Extras,
    /// Not a path.
    #[error("must be a path that begins with one `/`; the address comes from the connection")]
    NotAPath,
    /// Something in the path that could lead elsewhere.
    #[error("must hold no `{0}`, which could lead away from the connection's address")]
    Escape(&'static str),
    /// A fragment.
    #[error("must hold no `#`; write it as `%23`")]
    Fragment,
    /// Another place than the connection is for.
    #[error("leaves `{0}`, which the connection's credentials are bound to")]
    Elsewhere(String),
}

impl BaseUrl {
    /// Reads an address as people write it: `acme.example.com`, `https://acme.example.com/`. Without a scheme it is
    /// https. If the path ends in `strip`, that end is taken away.
    ///
    /// # Errors
    /// It is not an address of http or https, or holds credentials, a query or a fragment.
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

    /// The path of the address, without a slash at the end: empty for most.
    fn prefix(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }

    /// The address with `path` behind it, for a path whose parts are encoded already.
    ///
    /// # Errors
    /// A part of the path is `.` or `..`, in whatever spelling.
    pub(crate) fn join_encoded(&self, path: &str) -> Result<Url, BaseUrlError> {
        let whole = format!("{}{path}", self.prefix());
        let mut url = self.0.clone();
        url.set_path(&whole);
        // The URL parser resolves dot segments; a path that it changed was about to go somewhere else.
        if url.path() != whole {
            return Err(BaseUrlError::Escape(".."));
        }
        Ok(url)
    }

    /// The address with a path as an author wrote it, perhaps with a query (threat model 4.4: path only).
    ///
    /// # Errors
    /// It is not a path with one `/` first, or holds something that could lead away from this address: a scheme,
    /// `\`, `@`, a dot segment in any spelling, a control character.
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
            return Err(BaseUrlError::Escape("\\"));
        }
        if before_query.contains('@') {
            return Err(BaseUrlError::Escape("@"));
        }
        if path.chars().any(|c| c.is_control()) {
            return Err(BaseUrlError::Escape("control character"));
        }
        if has_dot_segment(before_query) {
            return Err(BaseUrlError::Escape(".."));
        }
        let mut url = self.0.clone();
        url.set_path(&format!("{}{before_query}", self.prefix()));
        url.set_query(query);
        if self.holds(&url) { Ok(url) } else { Err(BaseUrlError::Elsewhere(self.to_string())) }
    }

    /// Whether `url` is below this address: same scheme, host and port, and a path that begins with this one's.
    #[must_use]
    pub fn holds(&self, url: &Url) -> bool {
        let prefix = self.prefix();
        let has_user = !url.username().is_empty() || url.password().is_some();
        let below =
            url.path().strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.same_origin(url) && below && !has_user
    }

    /// Whether `url` has the same scheme, host and port.
    #[must_use]
    pub fn same_origin(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }

    /// The address as a URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }
}

/// Whether a path has a segment `.` or `..`, also with its dots or the slashes beside it encoded: URL parsers resolve
/// `%2e`, and many a server decodes `%2f` and `%5c` before it looks for segments.
fn has_dot_segment(path: &str) -> bool {
    let decoded = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    decoded.split('/').any(|segment| segment == "." || segment == "..")
}

impl fmt::Display for BaseUrl {
    /// The address without a slash at the end.
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
    fn every_spelling_of_a_host_is_the_same_address() {
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
    fn what_is_no_address_is_refused() {
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
    fn whatever_could_leave_the_address_is_refused() {
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
    fn only_what_is_below_the_address_is_held() {
        let base = BaseUrl::parse("https://acme.example/v1", None).expect("an address");
        let holds = |text: &str| base.holds(&Url::parse(text).expect("a URL"));
        assert!(holds("https://acme.example/v1"));
        assert!(holds("https://acme.example:443/v1/users?x=1"));
        for text in [
            "https://acme.example/v10",
            "https://acme.example/",
            "http://acme.example/v1",
            "https://acme.example:8443/v1",
            "https://acme.example.evil/v1",
            "https://u@acme.example/v1",
        ] {
            assert!(!holds(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_away(path in "[/.\\\\@:%2eE?#a-c\u{0}-\u{20}]{0,24}") {
            let base = BaseUrl::parse("https://acme.example/ex/1", None).expect("an address");
            if let Ok(url) = base.join(&path) {
                prop_assert!(base.holds(&url), "{}", url);
                prop_assert_eq!(url.host_str(), Some("acme.example"));
            }
            if let Ok(url) = base.join_encoded(&path) {
                prop_assert!(base.same_origin(&url));
            }
        }

        #[test]
        fn no_text_breaks_the_reader(text in "\\PC{0,30}") {
            let _ = BaseUrl::parse(&text, Some("/wiki"));
        }
    }
}
