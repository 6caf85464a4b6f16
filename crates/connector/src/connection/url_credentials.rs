//! Credentials in the address of a request. They are added right before it is sent, so that no log, history or recording has them.

use std::fmt;

use url::Url;
use value::Secret;

use super::BaseUrl;
use crate::http::encode;

/// The credentials that a connection adds to the address of each request. Its `Debug` hides them.
#[derive(Clone, Default)]
pub(crate) struct UrlCredentials {
    /// The segment between the connection's address and the path of the request.
    segment: Option<Secret>,
    /// Parameters of the query.
    query: Vec<(String, Secret)>,
}

impl fmt::Debug for UrlCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl UrlCredentials {
    pub(crate) fn query(query: Vec<(String, Secret)>) -> Self {
        Self { segment: None, query }
    }

    /// Takes a path segment.
    ///
    /// # Errors
    /// Returns a message if the text has characters that would need another form in a path.
    pub(crate) fn segment(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
        if text.is_empty() || !text.bytes().all(is_plain) || text.bytes().all(|byte| byte == b'.') {
            return Err("the credential for the path has characters that no path carries".to_owned());
        }
        Ok(Self { segment: Some(Secret::new(text)), query: Vec::new() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segment.is_none() && self.query.is_empty()
    }

    /// Returns an address below `base` with the credentials.
    pub(crate) fn add_to(&self, base: &BaseUrl, url: &Url) -> Url {
        let mut url = url.clone();
        if let Some(segment) = &self.segment {
            let prefix = base.prefix();
            let rest = url.path().strip_prefix(prefix).unwrap_or_default();
            let path = format!("{prefix}/{}{rest}", segment.expose());
            url.set_path(&path);
        }
        let pairs =
            self.query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value.expose())));
        let own = url.query().filter(|query| !query.is_empty()).map(str::to_owned);
        let query = own.into_iter().chain(pairs).collect::<Vec<_>>().join("&");
        if !query.is_empty() {
            url.set_query(Some(&query));
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn sent(credentials: &UrlCredentials, path: &str) -> String {
        let base = BaseUrl::parse("https://api.example/v1", None).expect("an address");
        credentials.add_to(&base, &base.join(path).expect("a path")).to_string()
    }

    #[test]
    fn a_segment_goes_between_the_address_and_the_path() {
        let credentials = UrlCredentials::segment("bot12:AB-c_d").expect("a segment");
        assert_eq!(sent(&credentials, "/send?a=1"), "https://api.example/v1/bot12:AB-c_d/send?a=1");
        for wrong in ["", "..", "a/b", "a?b", "a%2fb", "a b", "a\nb"] {
            assert!(UrlCredentials::segment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn query_credentials_follow_the_parameters_of_the_request() {
        let credentials = UrlCredentials::query(vec![
            ("key".to_owned(), Secret::new("a&b")),
            ("token".to_owned(), Secret::new("t")),
        ]);
        assert_eq!(sent(&credentials, "/x?a=1"), "https://api.example/v1/x?a=1&key=a%26b&token=t");
        assert_eq!(sent(&credentials, "/x"), "https://api.example/v1/x?key=a%26b&token=t");
        assert_eq!(format!("{credentials:?}"), "***");
    }
}
