//! The interpreter of manifests: builds requests from inputs, and results from responses.

use ::http::header::{ACCEPT, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use ::http::{Method, StatusCode};
use async_trait::async_trait;
use model::{ActionError, ActionSpec, Effect, ErrorKind, InputType, ResultType};
use value::{Map, Value};

use super::put::put;
use super::{
    Definition, Encoding, Head, Idempotency, InputPlacement, NextSource, Paging, PagingStyle, Piece,
    RequestLocation, RestAction, brackets, fetch_all, page,
};
use crate::action::{Action, Call, SendMode};
use crate::connection::{BaseUrl, ResolvedConnection};
use crate::http::{BodyFormat, Part, Request, Response, encode, may_have_acted};
use crate::stages::{Progress, Reached, StatusExample};
use crate::static_inputs::{InputProblem, StaticInputs};

#[async_trait]
impl Action for RestAction {
    fn spec(&self) -> &ActionSpec {
        &self.definition.spec
    }

    fn prepare(&self, inputs: &Map, base: Option<&BaseUrl>) -> Option<Result<Request, ActionError>> {
        Some(self.head.address(base).and_then(|base| self.definition.request(&self.head, base, inputs, None)))
    }

    fn repeats_change(&self, _: &dyn Fn(&str) -> Option<Value>) -> bool {
        let definition = &self.definition;
        // Repeated, the other methods lead to the same state (RFC 9110, 9.2.2; most services use PATCH in this way, too).
        definition.spec.effect == Effect::Write
            && definition.method == Method::POST
            && definition.idempotency == Idempotency::None
            // A session to which nobody sends leaves no file, and a known session is asked for its offset.
            && definition.upload.is_none()
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        self.definition.wires.iter().filter_map(|wire| wire.static_problem(inputs)).collect()
    }

    fn example_answer(&self) -> Option<&Value> {
        self.definition.example_answer.as_ref()
    }

    fn answer_type(&self) -> ResultType {
        match &self.definition.operation {
            // The declared type is that of a part of the last response.
            Some(operation) if operation.result.is_some() => ResultType::Any,
            _ => self.definition.answers.clone(),
        }
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        if self.has_stages() {
            let message = format!("`{}` can only be called by a step, which waits for it", self.spec().name);
            return Err(ActionError::new(ErrorKind::Input, message));
        }
        let connection = call.connection_for(&self.definition.spec)?;
        let base = self.head.address(connection.map(|connection| connection.base()))?;
        let result = if self.definition.is_download {
            self.download(&call, base, call.inputs).await?
        } else if let Some(paging) =
            self.definition.paging.as_ref().filter(|_| fetch_all::is_wanted(call.inputs))
        {
            fetch_all::fetch(self, paging, &call, base).await?
        } else {
            let response = self.send(&call, base, call.inputs).await?;
            let (body, cursor) = self.definition.read(&self.head, base, call.inputs, &response)?;
            match cursor {
                Some(cursor) => page::put_cursor(body, cursor),
                None => body,
            }
        };
        Ok(self.in_own_words(&call, result))
    }

    fn has_stages(&self) -> bool {
        self.definition.operation.is_some() || self.definition.upload.is_some()
    }

    fn example_status(&self) -> Option<&StatusExample> {
        self.definition.example_status.as_ref()
    }

    async fn advance(&self, call: Call<'_>, reached: Option<Reached<'_>>) -> Result<Progress, ActionError> {
        let connection = call.connection_for(&self.definition.spec)?;
        let base = self.head.address(connection.map(|connection| connection.base()))?;
        let progress = match (&self.definition.operation, &self.definition.upload) {
            (Some(operation), _) => self.operate(operation, &call, base, reached).await?,
            (None, Some(upload)) => self.upload(upload, &call, base, reached).await?,
            (None, None) => return self.call(call).await.map(Progress::Ended),
        };
        Ok(match progress {
            Progress::Ended(result) => Progress::Ended(self.in_own_words(&call, result)),
            progress => progress,
        })
    }
}

impl RestAction {
    /// Returns a result in the words of automations.
    fn in_own_words(&self, call: &Call<'_>, result: Value) -> Value {
        let vocabulary =
            call.connection.map(ResolvedConnection::vocabulary).filter(|vocabulary| !vocabulary.is_empty());
        match vocabulary {
            Some(vocabulary) => vocabulary.value_from_service(&self.definition.spec.results, result),
            None => result,
        }
    }

    /// Sends the request for these inputs; a response of 4xx or 5xx is an error.
    pub(super) async fn send(
        &self,
        call: &Call<'_>,
        base: &BaseUrl,
        inputs: &Map,
    ) -> Result<Response, ActionError> {
        let request = self.request(call, base, inputs)?;
        self.head.answered(call, &request, &self.head.subject, SendMode::Default).await
    }

    /// Returns the inputs in the words of the service; `None` if it has no other words.
    pub(super) fn translated(&self, call: &Call<'_>, inputs: &Map) -> Option<Map> {
        let vocabulary =
            call.connection.map(ResolvedConnection::vocabulary).filter(|vocabulary| !vocabulary.is_empty());
        vocabulary.map(|vocabulary| vocabulary.to_service(&self.definition.spec.inputs, inputs))
    }

    /// Builds the request for these inputs in the words of the service.
    pub(super) fn request(
        &self,
        call: &Call<'_>,
        base: &BaseUrl,
        inputs: &Map,
    ) -> Result<Request, ActionError> {
        let translated = self.translated(call, inputs);
        let inputs = translated.as_ref().unwrap_or(inputs);
        self.definition.request(&self.head, base, inputs, Some(call.idempotency_key))
    }
}

impl Head {
    /// Sends a request; a response of 4xx or 5xx is an error. `subject` is the called system as messages name it.
    pub(crate) async fn answered(
        &self,
        call: &Call<'_>,
        request: &Request,
        subject: &str,
        mode: SendMode,
    ) -> Result<Response, ActionError> {
        self.checked(call, request, subject, call.send(request, subject, mode).await?)
    }

    /// Returns a good response; a response of 4xx or 5xx is an error.
    pub(super) fn checked(
        &self,
        call: &Call<'_>,
        request: &Request,
        subject: &str,
        response: Response,
    ) -> Result<Response, ActionError> {
        if response.status.is_success() || is_not_modified(request, &response) {
            let refusal = self.errors.refusal(subject, &response, call.http.timer().now());
            return refusal.map_or(Ok(response), |error| Err(self.errors.marked(error, request.is_safe())));
        }
        let mut error = self.errors.status_error(subject, &response, call.http.timer().now());
        error.outcome_unknown = !request.is_safe() && may_have_acted(response.status.as_u16());
        let error = self.errors.marked(error, request.is_safe());
        let own = call.connection.and_then(ResolvedConnection::request_id);
        Err(match own.and_then(|name| response.header(name.as_str())) {
            Some(id) => error.with_request_id(id),
            None => error,
        })
    }

    /// Returns the response as `{statusCode, headers, body}`, with the body decoded according to the input
    /// `responseType`.
    pub(crate) fn envelope(
        &self,
        call: &Call<'_>,
        response: &Response,
        subject: &str,
    ) -> Result<Value, ActionError> {
        let wanted = call.inputs.get("responseType").and_then(Value::as_str).unwrap_or_default();
        response
            .envelope(BodyFormat::parse(wanted))
            .map_err(|reason| self.errors.not_json(subject, response, &reason))
    }

    /// Returns the base address of a call: that of the connection, or else that of the connector.
    pub(crate) fn address<'a>(&'a self, base: Option<&'a BaseUrl>) -> Result<&'a BaseUrl, ActionError> {
        base.or(self.base.as_ref()).ok_or_else(|| {
            let message =
                format!("there is no address to call; give the step a connection of `{}`", self.name);
            ActionError::new(ErrorKind::Connection, message)
        })
    }
}

/// True if the response says that nothing has changed, to a request that asked for that (RFC 9110, 13.1).
fn is_not_modified(request: &Request, response: &Response) -> bool {
    response.status == StatusCode::NOT_MODIFIED
        && [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().any(|name| request.headers.contains_key(name))
}

impl Definition {
    /// Builds the request. `key` identifies the call, for services that take it in the body.
    fn request(
        &self,
        head: &Head,
        base: &BaseUrl,
        inputs: &Map,
        key: Option<&str>,
    ) -> Result<Request, ActionError> {
        self.check(inputs)?;
        let page = self.linked_page(base, inputs)?;
        let mut request = match &page {
            Some(link) => Request::new(self.method.clone(), link.clone()),
            None => Request::new(self.method.clone(), self.url(base, inputs)?),
        };
        request.rules = self.rules.clone();
        for (name, value) in &head.headers {
            request.set_header(name, &Value::from(value.as_str()))?;
        }
        if self.answer == BodyFormat::Json && !request.headers.contains_key(ACCEPT) {
            request.set_header("accept", &Value::from("application/json"))?;
        }
        for (name, value) in self.query.iter().filter(|_| page.is_none()) {
            request.add_query(name, &Value::from(value.as_str()));
        }
        let mut body = Body::default();
        if let (Idempotency::Body(path), Some(key)) = (&self.idempotency, key)
            && !request.is_safe()
        {
            body.put(path, Value::from(key));
        }
        let mut merged = Vec::new();
        for (place, value) in
            self.fixed.iter().map(|(place, value)| (place, value.clone())).chain(self.sent(inputs))
        {
            match place {
                RequestLocation::Path | RequestLocation::Upload => {}
                // The link of a page has the parameters of the list.
                RequestLocation::Query(_) if page.is_some() => {}
                RequestLocation::Query(Some(name)) => request.add_query(name, &value),
                RequestLocation::Header(Some(name)) => request.set_header(name, &value)?,
                RequestLocation::Query(None) | RequestLocation::Header(None) => merged.push((place, value)),
                RequestLocation::Body(None) => body.whole = Some(value),
                RequestLocation::Body(Some(path)) => body.put(path, value),
            }
        }
        // Whole maps are applied last, so that their entries override other inputs (wiki-api facts 1.2).
        for (place, value) in merged {
            let Some(map) = value.as_map() else { continue };
            if matches!(place, RequestLocation::Query(_)) {
                request.merge_query(map);
            } else {
                for (name, value) in map.iter() {
                    request.set_header(name, value)?;
                }
            }
        }
        self.set_body(&mut request, body)?;
        Ok(request)
    }

    /// Returns the address of a further page that the service has linked; `None` for the first page, and for other lists.
    fn linked_page(&self, base: &BaseUrl, inputs: &Map) -> Result<Option<url::Url>, ActionError> {
        let Some(Paging { input, style: PagingStyle::Cursor(pages), .. }) = &self.paging else {
            return Ok(None);
        };
        let text = inputs.get(input).and_then(Value::as_str).unwrap_or_default();
        let is_link = pages.next.iter().any(|next| matches!(next.source, NextSource::BodyLink(_)));
        if !is_link || text.is_empty() {
            return Ok(None);
        }
        let link = url::Url::parse(text).ok().filter(|link| base.contains(link));
        link.map(Some).ok_or_else(|| {
            let message = format!(
                "`{}` cannot be called: `{input}` is not a link below `{base}`, as `nextCursor` gives it",
                self.spec.name
            );
            ActionError::new(ErrorKind::Input, message)
        })
    }

    /// Rejects inputs that would change the meaning of the request: an empty list in the query would drop the filter,
    /// and an input with `requiredUnless` may be missing.
    fn check(&self, inputs: &Map) -> Result<(), ActionError> {
        let refuse = |words: String| {
            let message = format!("`{}` cannot be called: {words}", self.spec.name);
            Err(ActionError::new(ErrorKind::Input, message))
        };
        for wire in &self.wires {
            let value = inputs.get(&wire.input);
            if let Some(problem) = value.and_then(|value| wire.problem(value)) {
                return refuse(format!("{problem}; {LEAVE_OUT}"));
            }
            if let Some((other, allowed)) = &wire.required_unless
                && value.is_none_or(is_empty)
                && inputs.get(other).and_then(Value::as_str) != Some(allowed)
            {
                return refuse(format!("`{}` is missing; {}", wire.input, only_with(other, allowed)));
            }
        }
        Ok(())
    }

    fn url(&self, base: &BaseUrl, inputs: &Map) -> Result<url::Url, ActionError> {
        self.url_of(&self.path, base, inputs)
    }

    /// Returns the address with the inputs in a path.
    pub(super) fn url_of(
        &self,
        pieces: &[Piece],
        base: &BaseUrl,
        inputs: &Map,
    ) -> Result<url::Url, ActionError> {
        let mut path = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => path.push_str(text),
                Piece::Input(name) => {
                    let text = inputs.get(name).map(Value::to_text).unwrap_or_default();
                    if text.is_empty() {
                        let message = format!("`{}` cannot be called: `{name}` is empty", self.spec.name);
                        return Err(ActionError::new(ErrorKind::Input, message));
                    }
                    path.push_str(&encode(&text));
                }
            }
        }
        base.join_encoded(&path).map_err(|error| {
            let message = format!("`{}` cannot be called: an input of its path {error}", self.spec.name);
            ActionError::new(ErrorKind::Input, message)
        })
    }

    /// Returns the inputs to send with their locations, without empty values and omitted defaults.
    pub(super) fn sent<'a>(&'a self, inputs: &'a Map) -> impl Iterator<Item = (&'a RequestLocation, Value)> {
        let given =
            self.wires.iter().filter_map(move |wire| Some((wire, wire.items(inputs.get(&wire.input)?))));
        given.filter(|(wire, value)| !is_empty(value) && wire.omit.as_ref() != Some(value)).flat_map(
            |(wire, value)| wire.places.iter().map(move |place| (place, wire.value_at(place, &value))),
        )
    }

    fn set_body(&self, request: &mut Request, body: Body) -> Result<(), ActionError> {
        let has_body = |place: &RequestLocation| matches!(place, RequestLocation::Body(_));
        let wants_body = body.whole.is_some()
            || !body.map.is_empty()
            || self.fixed.iter().any(|(place, _)| has_body(place))
            || self.wires.iter().any(|wire| wire.places.iter().any(has_body));
        if !wants_body {
            return Ok(());
        }
        let value = body.whole.unwrap_or_else(|| Value::from(body.map));
        match (self.encoding, &value) {
            (Encoding::Form, Value::Map(map)) => {
                let fields: Vec<_> =
                    map.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
                request.set_form(&fields)?;
            }
            (Encoding::JsonForm, Value::Map(map)) => {
                let text = |value: &Value| match value {
                    Value::List(_) | Value::Map(_) => Value::from(value.to_json()),
                    plain => plain.clone(),
                };
                let fields: Vec<_> =
                    map.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
                request.set_form(&fields)?;
            }
            (Encoding::BracketedForm, Value::Map(map)) => request.set_form(&brackets::fields(map))?,
            (Encoding::Multipart, Value::Map(map)) => {
                let parts = map.iter().map(|(name, value)| Part::from_value(name, value));
                request.body = crate::http::Body::Multipart(parts.collect::<Result<_, _>>()?);
            }
            (_, Value::File(file)) => request.set_bytes(&file.content_type, file.data.clone()),
            (_, value) => request.set_json(value)?,
        }
        Ok(())
    }

    /// Parses the body of a response.
    pub(super) fn body(&self, head: &Head, response: &Response) -> Result<Value, ActionError> {
        if self.is_graphql {
            return head.graphql_data(response);
        }
        let body = response.decode_body(self.answer);
        body.map_err(|reason| self.unusable(head.errors.not_json(&head.subject, response, &reason)))
    }

    /// Parses the body of a response, and for a list also the cursor of the next page.
    pub(super) fn read(
        &self,
        head: &Head,
        base: &BaseUrl,
        inputs: &Map,
        response: &Response,
    ) -> Result<(Value, Option<Value>), ActionError> {
        let body = self.body(head, response)?;
        if !self.fits(&body) {
            let found = if body.is_null() { "nothing".to_owned() } else { format!("a {}", body.kind()) };
            let status = response.status.as_u16();
            let expected = self.answers.describe();
            let message =
                format!("{} answered {status} with {found} where {expected} was expected", head.subject);
            return Err(self.unusable(head.errors.response_error(ErrorKind::Response, message, response)));
        }
        let Some(paging) = &self.paging else { return Ok((body, None)) };
        let cursor = page::next_cursor(paging, head, base, inputs, response, &body)?;
        Ok((body, Some(cursor)))
    }
}

impl Definition {
    /// Returns the reasons why the service cannot answer so, by what the action declares.
    pub(super) fn answer_problems(&self, head: &Head, answer: &Value) -> Vec<String> {
        if head.errors.when.as_ref().is_some_and(|mark| mark.is_in(answer)) {
            return vec!["`errors.when` takes it for a refusal".to_owned()];
        }
        let data = if self.is_graphql { answer.get("data").unwrap_or_default() } else { answer.clone() };
        match &self.operation {
            Some(operation) => operation.first_answer_problems(&data),
            None => self.answers.type_mismatches(&data),
        }
    }

    /// True if the response has the declared kind, for maps and lists. A response of another kind would otherwise
    /// fail later, in another step.
    pub(super) fn fits(&self, body: &Value) -> bool {
        let is_shape = |kind: &ResultType| {
            matches!(kind, ResultType::Object(_) | ResultType::Map { .. } | ResultType::List { .. })
        };
        !self.answers.alternatives().iter().any(is_shape) || self.answers.accepts_kind(body)
    }

    /// Marks the error of an unusable response: if the request may change something, it probably did.
    pub(super) fn unusable(&self, error: ActionError) -> ActionError {
        if self.spec.effect == Effect::Read { error } else { error.with_outcome_unknown() }
    }
}

/// The help text for an empty filter.
const LEAVE_OUT: &str = "leave the input out, or give null, where nothing is to be filtered, and skip the step with `if` where \
                         nothing is to be found";

/// Returns the help text for an input with `requiredUnless`.
fn only_with(other: &str, allowed: &str) -> String {
    format!("it may be left out only with `{other}: {allowed}`")
}

impl InputPlacement {
    /// Returns the value with the texts of a list split into items.
    fn items(&self, value: &Value) -> Value {
        let (Some(split), Value::List(_) | Value::String(_)) = (&self.split, value) else {
            return value.clone();
        };
        let items = value.as_list().unwrap_or(std::slice::from_ref(value));
        let items = items.iter().flat_map(|item| match item {
            Value::String(text) => text
                .split(split.as_str())
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(Value::from)
                .collect(),
            other => vec![other.clone()],
        });
        items.collect()
    }

    /// Returns the problem of an input that is certain before the run.
    fn static_problem(&self, inputs: &StaticInputs<'_>) -> Option<InputProblem> {
        let name = &self.input;
        let entries = Value::from(inputs.literal_entries(name));
        let known = inputs.literal(name).or_else(|| Some(&entries).filter(|_| !is_empty(&entries)));
        if let Some(problem) = known.and_then(|value| self.problem(value)) {
            return Some(InputProblem::new(name, problem, LEAVE_OUT));
        }
        let (other, allowed) = self.required_unless.as_ref()?;
        let is_there = match (inputs.template)(name) {
            None => false,
            Some(template) => template.literal().is_none_or(|value| !is_empty(value)),
        };
        let may_be_left_out = match (inputs.template)(other) {
            None => false,
            Some(template) => template.literal().is_none_or(|value| value.as_str() == Some(allowed)),
        };
        if is_there || may_be_left_out {
            return None;
        }
        let help = only_with(other, allowed);
        Some(InputProblem::new(name, "it is missing", help))
    }

    /// Returns the reason why a value would not filter as intended, without help text.
    fn problem(&self, value: &Value) -> Option<String> {
        let name = &self.input;
        let named = self.places.iter().any(|place| matches!(place, RequestLocation::Query(Some(_))));
        let merged = self.places.contains(&RequestLocation::Query(None));
        match self.items(value) {
            Value::List(list) if named && list.0.iter().all(Value::is_null) => {
                Some(format!("`{name}` is an empty list, which would be no filter"))
            }
            Value::String(text) if self.not_empty && text.trim().is_empty() => {
                Some(format!("`{name}` is empty, which would be no filter"))
            }
            Value::Map(map) if merged => empty_filter(name, &map),
            _ => None,
        }
    }

    fn value_at(&self, place: &RequestLocation, value: &Value) -> Value {
        match (place, value, &self.join) {
            (RequestLocation::Path, ..) => value.clone(),
            (_, Value::List(list), Some(join)) => {
                Value::from(list.0.iter().map(Value::to_text).collect::<Vec<_>>().join(join))
            }
            _ => value.clone(),
        }
    }
}

/// Returns a message about the first query parameter that is an empty list.
pub(crate) fn empty_filter(name: &str, parameters: &Map) -> Option<String> {
    let is_empty = |value: &Value| value.as_list().is_some_and(|list| list.iter().all(Value::is_null));
    let (key, _) = parameters.iter().find(|(_, value)| is_empty(value))?;
    Some(format!("`{name}.{key}` is an empty list, which would be no filter"))
}

/// The body under construction.
#[derive(Default)]
struct Body {
    whole: Option<Value>,
    map: Map,
}

impl Body {
    fn put(&mut self, path: &[String], value: Value) {
        put(&mut self.map, path, value);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::List(list) => list.0.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// True if values of the type fit in a path, a named query parameter or a header.
pub(super) fn fits_text(kind: &InputType) -> bool {
    !matches!(kind, InputType::Object { .. } | InputType::Map { .. } | InputType::File)
}
