//! `http.request`, and `http.get` to `http.delete` with their method: sends a request to any address that the guard allows, or to
//! that of a connection.

use std::sync::Arc;

use ::http::{Method, StatusCode};
use async_trait::async_trait;
use model::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType};
use url::Url;
use value::{Map, Value};

use super::pages::{self, Pages};
use super::{
    BareNumber, add_headers, check_credentials, check_query, choice, defaulted, effect_of, entries_of,
    envelope, input_error, map_of, optional, request_problems, required, spec_for, text_of, timeout_of,
};
use crate::action::{Action, Call, SendMode};
use crate::connection::BaseUrl;
use crate::http::{Body, BodyFormat, Part, Request, Response};
use crate::manifest::{Head, NativeSettings};
use crate::static_inputs::{InputProblem, StaticInputs};

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// The actions that send one method only, each with its method. They have the other inputs of `request`.
pub(crate) const VERBS: [(&str, &str); 5] =
    [("get", "GET"), ("post", "POST"), ("put", "PUT"), ("patch", "PATCH"), ("delete", "DELETE")];

/// Name of the input that [`VERBS`] do not have.
const METHOD: &str = "method";

/// True for the actions of the connector `http`, which call any address.
#[must_use]
pub fn is_http_call(action: &str) -> bool {
    let name = action.strip_prefix("http.").unwrap_or_default();
    name == "request" || VERBS.iter().any(|(verb, _)| *verb == name)
}

struct HttpRequest {
    head: Arc<Head>,
    spec: ActionSpec,
    /// The method of one of [`VERBS`]; `None` if an input chooses it.
    method: Option<&'static str>,
}

/// Builds the action for a connector.
pub(crate) fn build(head: &Arc<Head>, settings: &NativeSettings) -> Result<Arc<dyn Action>, String> {
    if settings.path.is_some() {
        return Err(format!("`{}` calls any address, so it takes no `path`", settings.name));
    }
    let method = VERBS.iter().find(|(verb, _)| *verb == settings.name).map(|(_, method)| *method);
    let (sends, title) = match method {
        Some(method) => (format!("Sends a {method} request"), format!("HTTP {method}")),
        None => ("Sends an HTTP request".to_owned(), "HTTP Request".to_owned()),
    };
    let spec = ActionSpec {
        description: Some(format!(
            "{sends}. An answer of 4xx or 5xx is an error; redirects of GET and HEAD are followed. A 304 is a result if the \
             request has `If-None-Match` or `If-Modified-Since`."
        )),
        effect: effect_of(method),
        inputs: inputs(method),
        result: Some("`{statusCode, headers, body}`, the body by `responseType`".to_owned()),
        results: envelope(),
        example: settings.example.clone(),
        ..spec_for(head, settings.name, &title)
    };
    Ok(Arc::new(HttpRequest { head: head.clone(), spec, method }))
}

/// The inputs of an action that sends this method, or of `request`.
fn inputs(method: Option<&str>) -> Vec<InputSpec> {
    let mut inputs = vec![
        required(
            "url",
            InputType::Url,
            "The address; with a connection a path below the connection's own is enough. Values in it are encoded by \
             their position.",
        ),
        defaulted(METHOD, choice(&METHODS), "GET", "The HTTP method."),
        optional("headers", map_of(InputType::Text), "Headers of the request."),
        optional("query", map_of(InputType::Any), "Parameters of the query; a list repeats its parameter."),
        optional(
            "body",
            InputType::Any,
            "The body: a map or list is sent as JSON, text and files unchanged.",
        ),
        optional(
            "form",
            map_of(InputType::Any),
            "Fields of a form; a list repeats its field, a map is sent as JSON. Sent as `multipart/form-data` if one of them is a file.",
        ),
        optional(
            "multipart",
            map_of(InputType::Any),
            "Parts of a form, `multipart/form-data`: a file with its name and type, a list or map as JSON.",
        ),
        pages::input(),
        defaulted(
            "responseType",
            choice(&BodyFormat::NAMES),
            "auto",
            "How to parse the answer; `auto` uses its media type.",
        ),
        optional("timeout", InputType::Text, "The time limit of the call, such as `30s`; 60s if not given."),
    ];
    if let Some(method) = method {
        // Pages are those of a GET.
        inputs.retain(|input| input.name != METHOD && (method == "GET" || input.name != pages::INPUT));
    }
    inputs
}

#[async_trait]
impl Action for HttpRequest {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn is_raw(&self) -> bool {
        true
    }

    fn effect<'a>(&self, known: &dyn Fn(&str) -> Option<&'a Value>) -> Effect {
        effect_of(self.method.or_else(|| known(METHOD).and_then(Value::as_str)))
    }

    fn transport_inputs(&self) -> &'static [&'static str] {
        &["headers", "timeout"]
    }

    fn prepare(&self, inputs: &Map, base: Option<&BaseUrl>) -> Option<Result<Request, ActionError>> {
        Some(self.request(inputs, base))
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let mut found = request_problems(inputs, "query", "body", BareNumber::Refused);
        if let Some((text, true)) = inputs.text_prefix("url")
            && !(inputs.has_connection && text.starts_with('/'))
            && let Err(error) = address(text, None)
        {
            let help = "write the whole address; with a connection a path that begins with `/` is enough";
            found.push(InputProblem::new("url", error.into_message(), help).with_scheme(text));
        }
        let bodies = ["body", "form", "multipart"];
        let given: Vec<&str> = bodies.into_iter().filter(|name| inputs.is_given(name)).collect();
        if let [first, second, ..] = given.as_slice() {
            let message = format!("it cannot be given together with `{first}`");
            found.push(InputProblem::new(second, message, "remove one of the two: a request has one body"));
        }
        let method = self.method.or_else(|| inputs.literal(METHOD).and_then(Value::as_str));
        if inputs.is_given(pages::INPUT) && method.is_some_and(|method| method != "GET") {
            let message = "it follows the pages of a GET only";
            found.push(InputProblem::new(pages::INPUT, message, "remove it, or set `method: GET`"));
        }
        if let Some(keys) = inputs.keys(pages::INPUT)
            && inputs.literal_entries(pages::INPUT).get("style").and_then(Value::as_str) == Some("cursor")
            && !keys.contains(&"next")
        {
            let help = "add `next`, a path in the body to the cursor or to the address of the next page";
            found.push(InputProblem::new(pages::INPUT, "it does not say where the cursor is", help));
        }
        found
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        let connection = call.connection_for(&self.spec)?;
        let base = connection.map(|connection| connection.base());
        let mut request = self.request(call.inputs, base)?;
        check_credentials(&request, connection)?;
        let subject = format!("`{}`", request.url.host_str().unwrap_or_default());
        let Some(mut pages) = Pages::from_inputs(call.inputs, &request)? else {
            return self.once(&call, &request, &subject).await.map(|(_, result)| result);
        };
        loop {
            let (response, result) = self.once(&call, &request, &subject).await?;
            if response.status == StatusCode::NOT_MODIFIED {
                return Ok(result);
            }
            let body = result.get("body").unwrap_or_default();
            if !pages.take(&self.head, &subject, &response, &body, &mut request, call.log)? {
                let mut whole = result.as_map().cloned().unwrap_or_default();
                whole.insert("body", pages.into_items());
                return Ok(Value::from(whole));
            }
            if let Some(base) = base.filter(|base| !base.contains(&request.url)) {
                let message = format!("{subject} links the next page of the list outside of `{base}`");
                return Err(ActionError::new(ErrorKind::Response, message));
            }
        }
    }
}

impl HttpRequest {
    /// Sends the request once, and returns the response with its decoded result.
    async fn once(
        &self,
        call: &Call<'_>,
        request: &Request,
        subject: &str,
    ) -> Result<(Response, Value), ActionError> {
        let response = self.head.answered(call, request, subject, SendMode::Default).await?;
        let result = self.head.envelope(call, &response, subject)?;
        Ok((response, result))
    }

    fn request(&self, inputs: &Map, base: Option<&BaseUrl>) -> Result<Request, ActionError> {
        let method = Method::from_bytes(self.method.unwrap_or_else(|| text_of(inputs, METHOD)).as_bytes())
            .map_err(|_| input_error("`method` is not a method"))?;
        let mut request = Request::new(method, address(text_of(inputs, "url"), base)?);
        request.timeout = timeout_of(inputs, BareNumber::Refused)?;
        add_headers(&mut request, inputs)?;
        check_query(inputs, "query")?;
        if let Some(parameters) = inputs.get("query").and_then(Value::as_map) {
            request.merge_query(parameters);
        }
        set_body(&mut request, inputs)?;
        Ok(request)
    }
}

/// Sets the body from the inputs, in one of its three forms.
fn set_body(request: &mut Request, inputs: &Map) -> Result<(), ActionError> {
    let body = inputs.get("body").filter(|body| !body.is_null());
    let fields = |name| -> Vec<(String, Value)> {
        entries_of(inputs, name).map(|(name, value)| (name.to_string(), value.clone())).collect()
    };
    let (form, parts) = (fields("form"), fields("multipart"));
    let given = [body.is_some(), !form.is_empty(), !parts.is_empty()];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(input_error("only one of `body`, `form` and `multipart` can be given"));
    }
    let has_file = form.iter().any(|(_, value)| value.as_file().is_some());
    match body {
        Some(body) => request.set_value(body)?,
        None if !parts.is_empty() || has_file => {
            let parts = parts.iter().chain(&form).map(|(name, value)| Part::from_value(name, value));
            request.body = Body::Multipart(parts.collect::<Result<_, _>>()?);
        }
        None if !form.is_empty() => request.set_form(&form)?,
        None => {}
    }
    Ok(())
}

/// Returns the address to call. With a connection, only its own address is allowed, because credentials are bound to
/// it.
fn address(text: &str, base: Option<&BaseUrl>) -> Result<Url, ActionError> {
    if let Some(base) = base
        && text.starts_with('/')
    {
        return base.join(text).map_err(|error| input_error(format!("`url` {error}")));
    }
    let mut url = Url::parse(text).map_err(|error| {
        input_error(format!(
            "`url` is not an address ({error}); write it like `https://api.example.com/items`"
        ))
    })?;
    url.set_fragment(None);
    match base {
        Some(base) if !base.contains(&url) => Err(input_error(format!(
            "`url` leaves `{base}`, which the connection's credentials are bound to"
        ))),
        _ => Ok(url),
    }
}
