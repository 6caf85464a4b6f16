//! The bucket of a connection: its addresses, and requests with its signature.

use std::time::Duration;

use connector::http::{MAX_TIMEOUT, Method, Request, Response, encode};
use connector::{BaseUrl, BodySink, Call, Exchanged, ResolvedConnection, SigningKeys};
use jiff::Timestamp;
use model::{ActionError, ErrorKind};
use url::Url;
use value::{Map, Secret, Value};

use super::failure::{Refusal, failure};
use super::{S3, input_error};
use crate::connection::Inputs;

/// The service in signatures.
const SERVICE: &str = "s3";
/// The largest size of a key, in bytes.
const MAX_KEY: usize = 1_024;

/// The bucket of a call.
pub(super) struct Bucket<'a> {
    pub call: &'a Call<'a>,
    pub subject: &'a str,
    pub name: &'a str,
    connection: ResolvedConnection,
    /// The end of the keys, if they have one. No signature is good for longer.
    pub keys_end: Option<Timestamp>,
}

impl<'a> Bucket<'a> {
    /// The bucket of the call's connection, with keys that are good.
    pub(super) async fn open(action: &'a S3, call: &'a Call<'a>) -> Result<Self, ActionError> {
        let missing = || {
            let message = format!("`{}` needs a connection", action.spec.name);
            ActionError::new(ErrorKind::Connection, message)
        };
        let connection = call.connection_for(&action.spec)?.ok_or_else(missing)?;
        let inputs = Inputs(connection);
        let name = inputs.text("bucket").unwrap_or_default();
        if name.is_empty() || name.chars().any(|c| !c.is_ascii_alphanumeric() && !"-._".contains(c)) {
            return Err(inputs.refuse(format_args!("`bucket` is not the name of a bucket: `{name}`")));
        }
        let base = base_of(inputs, name)?;
        let (keys, keys_end) = match inputs.text("roleArn") {
            Some(role) => action.identities.keys(call, inputs, role, region_of(inputs)).await?,
            None => (keys_of(inputs), None),
        };
        let connection = connection.clone().signed(base, keys);
        Ok(Self { call, subject: &action.subject, name, connection, keys_end })
    }

    /// The text of an input; empty if it is not set.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.call.inputs.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.call.inputs.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A request for an object.
    pub(super) fn request(&self, method: Method, input: &str, key: &str) -> Result<Request, ActionError> {
        let mut request = Request::new(method, self.url_of(input, key)?);
        // A transfer of a large object takes as long as the step has; the answer may not stop in its middle.
        request.timeout = Some(self.call.time_left.unwrap_or(MAX_TIMEOUT));
        Ok(request)
    }

    /// A request for the bucket.
    pub(super) fn bucket_request(&self, method: Method) -> Request {
        let mut url = self.connection.base().url().clone();
        if url.path().is_empty() {
            url.set_path("/");
        }
        Request::new(method, url)
    }

    /// The address of an object whose key is in this input.
    pub(super) fn url_of(&self, input: &str, key: &str) -> Result<Url, ActionError> {
        let problem = |problem: String| input_error(format!("`{input}` {problem}"));
        if let Some(found) = key_problem(key) {
            return Err(problem(found));
        }
        let path = format!("/{}", encoded_key(key));
        self.connection.base().join_encoded(&path).map_err(|error| problem(error.to_string()))
    }

    /// The address with a signature.
    pub(super) fn presigned(
        &self,
        method: &Method,
        url: &Url,
        expires: Duration,
        now: Timestamp,
    ) -> Option<Url> {
        self.connection.presigned(method, url, expires, now)
    }

    /// Sends a request. An answer with an error status is an error.
    pub(super) async fn send(&self, request: &Request) -> Result<Response, ActionError> {
        let response = self.exchange(request, None).await?;
        if response.status.is_success() { Ok(response) } else { Err(self.failure(&response, None)) }
    }

    /// Sends a request whose answer may have any status.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        body: Option<&dyn BodySink>,
    ) -> Result<Response, ActionError> {
        let connection = Some(&self.connection);
        self.call
            .exchange(request, &Exchanged { subject: self.subject, connection, body, is_recorded: true })
            .await
    }

    pub(super) fn failure(&self, response: &Response, refusal: Option<Refusal>) -> ActionError {
        failure(self.subject, response, refusal).redacted(&self.call.http.options().redactor)
    }
}

/// The fault of a key in words; `None` if an address can have it.
pub(super) fn key_problem(key: &str) -> Option<String> {
    if key.is_empty() {
        return Some("is empty".to_owned());
    }
    if key.len() > MAX_KEY {
        return Some(format!("has {} bytes; a key has at most {MAX_KEY}", key.len()));
    }
    let dots = key.split('/').find(|part| matches!(*part, "." | ".."))?;
    Some(format!("has the part `{dots}`, which no address can have"))
}

/// The key as part of an address.
pub(super) fn encoded_key(key: &str) -> String {
    key.split('/').map(encode).collect::<Vec<_>>().join("/")
}

/// A map of the entries that have a value.
pub(super) fn result<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::from(Map::from_iter(entries))
}

pub(super) fn region_of(inputs: Inputs<'_>) -> &str {
    inputs.text("region").unwrap_or("us-east-1")
}

fn keys_of(inputs: Inputs<'_>) -> SigningKeys {
    SigningKeys {
        service: SERVICE,
        region: region_of(inputs).to_owned(),
        access_key: inputs.text("accessKey").unwrap_or_default().to_owned(),
        secret_key: Secret::new(inputs.text("secretKey").unwrap_or_default()),
        session_token: inputs.text("sessionToken").map(Secret::new),
    }
}

/// The address of the bucket.
fn base_of(inputs: Inputs<'_>, bucket: &str) -> Result<BaseUrl, ActionError> {
    let refuse =
        |error: connector::connection::BaseUrlError| inputs.refuse(format_args!("`endpoint` {error}"));
    let own = inputs.text("endpoint");
    let usual = || format!("https://s3.{}.amazonaws.com", region_of(inputs));
    let endpoint = BaseUrl::parse(&own.map_or_else(usual, str::to_owned), None).map_err(refuse)?;
    let is_in_path = inputs.text("style").map_or(own.is_some(), |style| style == "path");
    let url = endpoint.url();
    let text = match is_in_path {
        true => format!("{endpoint}/{bucket}"),
        false => {
            let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
            let host = url.host_str().unwrap_or_default();
            format!("{}://{bucket}.{host}{port}{}", url.scheme(), url.path().trim_end_matches('/'))
        }
    };
    BaseUrl::parse(&text, None).map_err(refuse)
}
