//! Signatures of requests as the services of AWS, and object stores with the same protocol, check them (Signature Version 4).

use std::fmt::Write as _;
use std::time::Duration;

use ::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use jiff::tz::Offset;
use ring::{digest, hmac};
use url::Url;
use value::{Data, Map, Secret};

use crate::http::request::{Body, decode, encode};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
/// The service whose paths are encoded once, and whose requests have the hash of their body in a header.
const OBJECT_STORE: &str = "s3";

/// The `sigv4` section of a manifest. A field for an input holds the name of the input.
#[derive(Clone, Debug)]
pub(crate) struct SigV4Rule {
    /// The name of the service in signatures, such as `sqs`.
    pub(crate) service: String,
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) session_token: Option<String>,
}

/// The keys with which the requests of a connection are signed. Its `Debug` hides them.
#[derive(Clone, Debug)]
pub struct SigningKeys {
    /// The name of the service in signatures, such as `s3`.
    pub service: &'static str,
    /// The region.
    pub region: String,
    /// The name of the key.
    pub access_key: String,
    /// The key.
    pub secret_key: Secret,
    /// The token beside keys that expire.
    pub session_token: Option<Secret>,
}

impl From<SigningKeys> for Signer {
    fn from(keys: SigningKeys) -> Self {
        let SigningKeys { service, region, access_key, secret_key, session_token } = keys;
        Self { service: service.to_owned(), region, access_key, secret_key, session_token }
    }
}

/// Signs the requests of a connection. Its `Debug` hides the keys.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pub(crate) service: String,
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: Secret,
    pub(crate) session_token: Option<Secret>,
}

impl SigV4Rule {
    /// Builds the signer from checked inputs.
    pub(crate) fn signer(&self, inputs: &Map) -> Result<Signer, String> {
        let required =
            |name: &String| super::given::first(inputs, std::slice::from_ref(name)).map(str::to_owned);
        let token = self
            .session_token
            .as_ref()
            .and_then(|name| super::given::given(inputs, std::slice::from_ref(name)));
        Ok(Signer {
            service: self.service.clone(),
            region: required(&self.region)?,
            access_key: required(&self.access_key)?,
            secret_key: Secret::new(required(&self.secret_key)?),
            session_token: token.map(Secret::new),
        })
    }
}

impl Signer {
    /// Adds the headers of the signature. A multipart body, whose bytes are not known yet, is not covered.
    pub(crate) fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &Body<Data>,
        now: Timestamp,
    ) -> Result<(), String> {
        let now = basic_time(now);
        let day = now.get(..8).unwrap_or_default();
        let payload = match body {
            Body::Empty => hex(digest::digest(&digest::SHA256, b"").as_ref()),
            Body::Whole(data) => hex(&data.digest()),
            Body::Multipart(_) => "UNSIGNED-PAYLOAD".to_owned(),
        };
        insert(headers, DATE, &now, false)?;
        if self.service == OBJECT_STORE {
            insert(headers, CONTENT_SHA256, &payload, false)?;
        }
        if let Some(token) = &self.session_token {
            insert(headers, SECURITY_TOKEN, token.expose(), true)?;
        }
        let (names, lines) = signed_headers(url, headers);
        let (path, query) = (self.path(url), sorted_query(url));
        let scope = self.scope(day);
        let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}");
        let signature = self.signature(&now, &scope, &request);
        let value = format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.access_key
        );
        insert(headers, AUTHORIZATION, &value, true)
    }

    /// Returns the address with a signature in its query, which covers the method, the host and the query, and no body.
    pub(crate) fn presign(&self, method: &Method, url: &Url, expires: Duration, now: Timestamp) -> Url {
        let now = basic_time(now);
        let scope = self.scope(now.get(..8).unwrap_or_default());
        let mut url = url.clone();
        let credential = format!("{}/{scope}", self.access_key);
        let lifetime = expires.as_secs().to_string();
        let token = self.session_token.as_ref().map(|token| ("X-Amz-Security-Token", token.expose()));
        let added = [
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &now),
            ("X-Amz-Expires", &lifetime),
            ("X-Amz-SignedHeaders", "host"),
        ];
        let added = added.into_iter().chain(token).map(|(name, value)| format!("{name}={}", encode(value)));
        let own = url.query().into_iter().filter(|query| !query.is_empty()).map(str::to_owned);
        let query = own.chain(added).collect::<Vec<_>>().join("&");
        url.set_query(Some(&query));
        let (names, lines) = signed_headers(&url, &HeaderMap::new());
        let (path, sorted) = (self.path(&url), sorted_query(&url));
        let request = format!("{method}\n{path}\n{sorted}\n{lines}\n{names}\nUNSIGNED-PAYLOAD");
        let signature = self.signature(&now, &scope, &request);
        url.set_query(Some(&format!("{query}&X-Amz-Signature={signature}")));
        url
    }

    fn scope(&self, day: &str) -> String {
        format!("{day}/{}/{}/aws4_request", self.region, self.service)
    }

    fn signature(&self, now: &str, scope: &str, request: &str) -> String {
        let hash = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
        self.mac(now.get(..8).unwrap_or_default(), &format!("{ALGORITHM}\n{now}\n{scope}\n{hash}"))
    }

    /// The path as it is signed: with each segment encoded again, except for object stores.
    fn path(&self, url: &Url) -> String {
        let of = |segment: &str| match self.service.as_str() {
            OBJECT_STORE => encode(&decode(segment)),
            _ => encode(segment),
        };
        url.path().split('/').map(of).collect::<Vec<_>>().join("/")
    }

    fn mac(&self, day: &str, text: &str) -> String {
        let first = format!("AWS4{}", self.secret_key.expose()).into_bytes();
        let parts = [day, &self.region, &self.service, "aws4_request"];
        let key = parts.iter().fold(first, |key, part| mac(&key, part.as_bytes()));
        hex(&mac(&key, text.as_bytes()))
    }
}

/// The instant as signatures have it: `20150830T123600Z`.
fn basic_time(at: Timestamp) -> String {
    Offset::UTC.to_datetime(at).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Returns the names of the signed headers, and a line for each: the host, the type of the body, and all of `x-amz-…`.
fn signed_headers(url: &Url, headers: &HeaderMap) -> (String, String) {
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let is_signed = |name: &HeaderName| *name == CONTENT_TYPE || name.as_str().starts_with("x-amz-");
    let own = headers.iter().filter(|(name, _)| is_signed(name));
    let mut signed: Vec<(String, String)> = own
        .map(|(name, value)| (name.to_string(), spaced_once(&String::from_utf8_lossy(value.as_bytes()))))
        .chain([(HOST.to_string(), host)])
        .collect();
    signed.sort();
    let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
    (names.join(";"), signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect())
}

/// A value as it is signed: without white space at its ends, and with one space for each run of white space.
fn spaced_once(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn sorted_query(url: &Url) -> String {
    let pairs = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encode(&decode(name)), encode(&decode(value)))
        })
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str, is_secret: bool) -> Result<(), String> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("the header `{name}` of the signature cannot carry a key or a region"))?;
    value.set_sensitive(is_secret);
    headers.insert(name, value);
    Ok(())
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a text never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the signature of a request with the keys of the public test suite, at its time.
    fn signature(
        service: &str,
        token: Option<&str>,
        (method, url): (Method, &str),
        headers: &[(&'static str, &str)],
        body: &[u8],
    ) -> (String, HeaderMap) {
        let signer = Signer {
            service: service.to_owned(),
            region: "us-east-1".to_owned(),
            access_key: "AKIDEXAMPLE".to_owned(),
            secret_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: token.map(Secret::new),
        };
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            sent.insert(*name, HeaderValue::from_str(value).expect("a header"));
        }
        let body = if body.is_empty() { Body::Empty } else { Body::Whole(Data::from(body.to_vec())) };
        let now = "2015-08-30T12:36:00Z".parse().expect("an instant");
        let url = Url::parse(url).expect("an address");
        signer.sign(&method, &url, &mut sent, &body, now).expect("it is signed");
        assert!(!format!("{signer:?} {sent:?}").contains("wJalr"));
        let value = sent[AUTHORIZATION].to_str().expect("a text");
        let parts = value.split_once("SignedHeaders=").expect("signed headers").1.to_owned();
        (parts, sent)
    }

    /// The first is `get-vanilla` of the public test suite of AWS, and the second has the values of `get-header-value-trim`; `botocore` 1.43.11
    /// of PyPI makes it and the others.
    #[test]
    fn signatures_equal_those_of_the_services_own_library() {
        let root = || (Method::GET, "https://example.amazonaws.com/");
        assert_eq!(
            signature("service", None, root(), &[], b"").0,
            "host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
        let spaced = [("x-amz-meta-one", " value1 "), ("x-amz-meta-two", " \"a   b   c\" ")];
        assert_eq!(
            signature("service", None, root(), &spaced, b"").0,
            "host;x-amz-date;x-amz-meta-one;x-amz-meta-two, Signature=d9aa399e25cf5ee6874a8c108c12ce91f571453c072e793fe55c386adce69759"
        );
        let encoded = "https://example.amazonaws.com/a%20b/%C3%A4?Param2=value2&Param1=value1&Param1=a%2Fb";
        assert_eq!(
            signature("service", None, (Method::GET, encoded), &[], b"").0,
            "host;x-amz-date, Signature=5c0159080771b73f38726bc836c92864e4f990c99f26465bfbc9447c8c9a27d2"
        );
        let queue = (Method::POST, "https://sqs.us-east-1.amazonaws.com/");
        let headers =
            [("content-type", "application/x-amz-json-1.0"), ("x-amz-target", "AmazonSQS.SendMessage")];
        assert_eq!(
            signature("sqs", Some("token/1=="), queue, &headers, b"{\"a\":1}").0,
            "content-type;host;x-amz-date;x-amz-security-token;x-amz-target, Signature=f5f0ddac67fd0ea63d831f5f6d49b37af565b323cc40ea39fde3fa810cab7f73"
        );
        let object = "https://bucket.s3.us-east-1.amazonaws.com/a%20b/c%2Bd?x-id=PutObject";
        let (parts, sent) =
            signature("s3", None, (Method::PUT, object), &[("content-type", "text/plain")], b"hello");
        assert_eq!(
            parts,
            "content-type;host;x-amz-content-sha256;x-amz-date, Signature=fb7f4ee83f619c176c331d4d01893377a828b680840ce7aefa56bf9b9d31884b"
        );
        assert_eq!(
            sent[CONTENT_SHA256].to_str().expect("a text"),
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        );
    }
}
