//! Raw Request: sends any request to the connection's own address (specification 4.1.5).

use std::sync::Arc;
use std::time::Duration;

use ::http::Method;
use ::http::header::ACCEPT;
use async_trait::async_trait;
use model::action::LostAttempt;
use model::{ActionError, ActionSpec, Effect, InputSpec, InputType, LogLevel, RetryPolicy};
use value::{Map, Value};

use super::retry::Retry;
use super::{
    BareNumber, add_headers, check_credentials, check_query, choice, defaulted, effect_of, entries_of,
    envelope, input_error, map_of, optional, request_problems, required, spec_for, text_of, timeout_of,
};
use crate::action::{Action, Call, SendMode};
use crate::connection::BaseUrl;
use crate::http::{Body, BodyFormat, Part, Request};
use crate::manifest::{Head, NativeSettings};
use crate::static_inputs::{InputProblem, StaticInputs};

/// The methods in the specification of this action.
const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "LINK", "UNLINK", "PURGE"];

/// The largest number of retries.
const MAX_RETRIES: i64 = 100;
/// The longest fixed delay between two attempts, in milliseconds: one hour.
const MAX_RETRY_DELAY_MS: i64 = 3_600_000;
/// The longest total time that a call waits for the back-off of a host before mode.
const MAX_PATIENCE: Duration = RetryPolicy::MAX_RETRY_AFTER;
/// The least amount by which a wait reduces this time, to bound the number of waits.
const LEAST_COUNTED: Duration = Duration::from_secs(1);

struct RawRequest {
    head: Arc<Head>,
    spec: ActionSpec,
}

/// Builds the action for a connector.
pub(crate) fn build(head: &Arc<Head>, settings: &NativeSettings) -> Result<Arc<dyn Action>, String> {
    if settings.path.is_some() {
        return Err("`rawRequest` calls any path, so it takes no `path`".to_owned());
    }
    let spec = ActionSpec {
        description: Some(format!(
            "Sends any HTTP request to {}, for what no other action does. An answer of 4xx or 5xx is an error.",
            head.subject
        )),
        inputs: inputs(),
        result: Some("`{statusCode, headers, body}`, the body by `responseType`".to_owned()),
        results: envelope(),
        example: settings.example.clone(),
        ..spec_for(head, "rawRequest", "Raw Request")
    };
    Ok(Arc::new(RawRequest { head: head.clone(), spec }))
}

fn inputs() -> Vec<InputSpec> {
    let whole = |max| InputType::Integer { min: Some(0), max: Some(max) };
    vec![
        required(
            "url",
            InputType::Url,
            "The path only, with one `/` first; the address comes from the connection. Values in it are encoded by their \
             position.",
        ),
        required("method", choice(&METHODS), "The HTTP method."),
        optional(
            "data",
            InputType::Any,
            "The body: a map or list is sent as JSON, text and files unchanged.",
        ),
        optional("formData", map_of(InputType::Any), "Fields of a multipart form."),
        optional("fileData", map_of(InputType::File), "Files of a multipart form, by field."),
        optional("fileDataFileNames", map_of(InputType::Text), "File names, by the keys of `fileData`."),
        optional(
            "queryParameters",
            map_of(InputType::Any),
            "Parameters of the query; a list repeats its parameter.",
        ),
        optional("headers", map_of(InputType::Text), "Headers of the request."),
        defaulted(
            "responseType",
            choice(&["json", "text", "binary"]),
            "json",
            "What the answer is expected to be.",
        ),
        optional(
            "timeout",
            InputType::Text,
            "How long to wait for the answer: milliseconds such as `1000`, or a duration such as `30s`; 60s if not given.",
        ),
        defaulted(
            "retryDelayMs",
            whole(MAX_RETRY_DELAY_MS),
            0_i64,
            "The delay between retries in milliseconds; a `Retry-After` of the answer is the least wait.",
        ),
        defaulted(
            "retryOnAllErrors",
            InputType::Boolean,
            false,
            "Whether every erroneous answer is retried, not only 5xx and failures of the network.",
        ),
        defaulted(
            "maxRetryCount",
            whole(MAX_RETRIES),
            0_i64,
            "The most retries, each a request that is sent; 0 is none.",
        ),
        defaulted(
            "useExponentialBackoff",
            InputType::Boolean,
            false,
            "Whether the delay grows from 200 ms by doubling; `retryDelayMs` is then ignored.",
        ),
    ]
}

#[async_trait]
impl Action for RawRequest {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn is_raw(&self) -> bool {
        true
    }

    fn effect<'a>(&self, known: &dyn Fn(&str) -> Option<&'a Value>) -> Effect {
        effect_of(known("method").and_then(Value::as_str))
    }

    fn transport_inputs(&self) -> &'static [&'static str] {
        &["headers", "timeout", "retryDelayMs", "retryOnAllErrors", "maxRetryCount", "useExponentialBackoff"]
    }

    fn prepare(&self, inputs: &Map, base: Option<&BaseUrl>) -> Option<Result<Request, ActionError>> {
        Some(self.head.address(base).and_then(|base| self.request(inputs, base)))
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let mut found = request_problems(inputs, "queryParameters", "data", BareNumber::Milliseconds);
        if let Some((text, is_whole)) = inputs.text_prefix("url") {
            // A computed remainder cannot repair a path that does not begin with exactly one `/`.
            let probe = if is_whole || !begins_path(text) { text } else { "/" };
            let joined = BaseUrl::parse("example.invalid", None).and_then(|base| base.join(probe));
            if let Err(error) = joined {
                let help = "write the path alone, such as `/wiki/api/v2/pages`; the address comes from the connection";
                found.push(InputProblem::new("url", format!("it {error}"), help));
            }
        }
        if let Some(form) = ["formData", "fileData"].into_iter().find(|name| inputs.is_given(name))
            && inputs.is_given("data")
        {
            let message = format!("it cannot be given together with `{form}`");
            found.push(InputProblem::new("data", message, "remove one of the two: a request has one body"));
        }
        let names = inputs.keys("fileDataFileNames").unwrap_or_default();
        let files =
            if (inputs.template)("fileData").is_some() { inputs.keys("fileData") } else { Some(Vec::new()) };
        for key in names.into_iter().filter(|key| files.as_ref().is_some_and(|files| !files.contains(key))) {
            let message = format!("`{key}` names a file that `fileData` does not have");
            let help = "give the file below `fileData` by the same key, or remove its name";
            found.push(InputProblem::new("fileDataFileNames", message, help));
        }
        found
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        let connection = call.connection_for(&self.spec)?;
        let base = self.head.address(connection.map(|connection| connection.base()))?;
        let request = self.request(call.inputs, base)?;
        check_credentials(&request, connection)?;
        let retry = Retry::from_inputs(call.inputs);
        if !retry.is_wanted() {
            return self.once(&call, &request, SendMode::Default).await;
        }
        // Only requests that were sent count as attempts, so that their number matches the inputs.
        let (mut tries, mut lost, mut patience) = (0, None, MAX_PATIENCE);
        loop {
            let error = match self.once(&call, &request, SendMode::OwnRetries).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            if let Some(wait) = refused_for(&error) {
                let Some(left) = patience.checked_sub(wait.max(LEAST_COUNTED)) else {
                    return Err(after(tries, error, lost));
                };
                patience = left;
                let shown = text::units::format_duration(wait);
                call.log.line(LogLevel::Warn, &format!("{error}; the next try follows in {shown}"));
                call.http.timer().pause(wait).await;
                continue;
            }
            tries += 1;
            let next = retry.next(tries, &error);
            let Some(wait) = next else { return Err(after(tries, error, lost)) };
            lost = lost.or_else(|| error.to_lost_attempt(tries));
            let shown = text::units::format_duration(wait);
            call.log
                .line(LogLevel::Warn, &format!("try {tries} failed: {error}; the next follows in {shown}"));
            call.http.timer().pause(wait).await;
        }
    }
}

/// True if this text can be the text_prefix of a path.
fn begins_path(text: &str) -> bool {
    text.starts_with('/') && !text.starts_with("//")
}

/// Returns the back-off of the host if it prevented mode.
fn refused_for(error: &ActionError) -> Option<Duration> {
    error.retry_after().filter(|_| error.not_sent)
}

/// Adds to the last error the number of attempts, and the earlier attempt that may have had its effect.
fn after(tries: u32, mut error: ActionError, lost: Option<Box<LostAttempt>>) -> ActionError {
    let alone = error.message.clone();
    error = error.with_lost_attempt(tries, lost);
    if tries > 1 && error.message == alone {
        error.message = format!("{alone} ({tries} tries)");
    }
    error
}

impl RawRequest {
    async fn once(&self, call: &Call<'_>, request: &Request, mode: SendMode) -> Result<Value, ActionError> {
        let subject = &self.head.subject;
        let response = self.head.answered(call, request, subject, mode).await?;
        let result = self.head.envelope(call, &response, subject);
        result.map_err(|error| if request.is_safe() { error } else { error.with_outcome_unknown() })
    }

    fn request(&self, inputs: &Map, base: &BaseUrl) -> Result<Request, ActionError> {
        let url = base.join(text_of(inputs, "url")).map_err(|error| input_error(format!("`url` {error}")))?;
        let method = Method::from_bytes(text_of(inputs, "method").as_bytes())
            .map_err(|_| input_error("`method` is not a method"))?;
        let mut request = Request::new(method, url);
        request.rules = self.head.rules.clone();
        request.timeout = timeout_of(inputs, BareNumber::Milliseconds)?;
        for (name, value) in &self.head.headers {
            request.set_header(name, &Value::from(value.as_str()))?;
        }
        if BodyFormat::parse(text_of(inputs, "responseType")) == BodyFormat::Json {
            request.headers.insert(ACCEPT, ::http::HeaderValue::from_static("application/json"));
        }
        add_headers(&mut request, inputs)?;
        check_query(inputs, "queryParameters")?;
        if let Some(parameters) = inputs.get("queryParameters").and_then(Value::as_map) {
            request.merge_query(parameters);
        }
        let parts = parts(inputs)?;
        match inputs.get("data").filter(|data| !data.is_null()) {
            Some(_) if !parts.is_empty() => {
                return Err(input_error("`data` cannot be given together with `formData` or `fileData`"));
            }
            Some(data) => request.set_value(data)?,
            None if !parts.is_empty() => request.body = Body::Multipart(parts),
            None => {}
        }
        Ok(request)
    }
}

/// Returns the parts of the form: fields, then files. The name of a file is that in `fileDataFileNames`, else its
/// own, else that of its field.
fn parts(inputs: &Map) -> Result<Vec<Part>, ActionError> {
    let names = inputs.get("fileDataFileNames").and_then(Value::as_map);
    let files = inputs.get("fileData").and_then(Value::as_map);
    for key in names.into_iter().flat_map(Map::keys) {
        if !files.is_some_and(|files| files.contains_key(key)) {
            return Err(input_error(format!(
                "`fileDataFileNames.{key}` names a file that `fileData` does not have"
            )));
        }
    }
    let mut parts = entries_of(inputs, "formData")
        .map(|(name, value)| Part::from_value(name, value))
        .collect::<Result<Vec<Part>, ActionError>>()?;
    for (name, value) in entries_of(inputs, "fileData") {
        let Some(file) = value.as_file() else { continue };
        let file_name = names.and_then(|names| names.get(name)).and_then(Value::as_str);
        parts.push(Part::file(name.to_string(), file, file_name));
    }
    Ok(parts)
}
