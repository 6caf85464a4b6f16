//! Operations: work of a service that goes on after the request that starts it. A call looks at it until it ends.

use std::time::Duration;

use ::http::Method;
use ::http::header::ACCEPT;
use model::{ActionError, ErrorKind};
use value::{Map, Value};

use super::{Definition, Head, Piece, RequestLocation, RestAction};
use crate::action::{Call, SendMode};
use crate::connection::BaseUrl;
use crate::http::{Mark, Request, Response, value_at_path};
use crate::stages::{Checkpoint, Pause, Progress, Reached};

/// The placeholder of the operation's id in the path of the status request.
pub(super) const ID: &str = "id";

/// The work that an action starts.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The path to the id in the response to the first request.
    pub id: String,
    /// The path of the status request, a `GET`, with the id and inputs.
    pub path: Vec<Piece>,
    /// Constant parameters of the status request.
    pub query: Vec<(String, String)>,
    /// The mark of work that has ended.
    pub done: Mark,
    /// The mark of work that has failed; `None` if the service does not say so.
    pub failed: Option<Mark>,
    /// The path to the result in the last response; `None` if it is the result.
    pub result: Option<String>,
    /// The pause before the first looks.
    pub every: Duration,
    /// The time limit from the response to the first request on.
    pub at_most: Duration,
}

/// The state of an operation, as a response shows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OperationState {
    Running,
    Done,
    Failed,
}

impl Operation {
    /// The longest pause between two looks, unless `every` is longer.
    const MAX_PAUSE: Duration = Duration::from_secs(10 * 60);

    /// Returns the state that a response shows. A failure counts first: some services call failed work done.
    pub(super) fn state(&self, body: &Value) -> OperationState {
        if self.failed.as_ref().is_some_and(|mark| mark.is_in(body)) {
            return OperationState::Failed;
        }
        if self.done.is_in(body) { OperationState::Done } else { OperationState::Running }
    }

    /// Returns the id in the response to the first request.
    pub(super) fn id_in(&self, body: &Value) -> Option<String> {
        let id = value_at_path(body, &self.id)?;
        let is_id = matches!(id, Value::String(_) | Value::Number(_));
        is_id.then(|| id.to_text()).filter(|text| !text.trim().is_empty())
    }

    /// Returns the result in the last response.
    pub(super) fn result_in(&self, body: Value) -> Value {
        match &self.result {
            Some(path) => value_at_path(&body, path).unwrap_or_default(),
            None => body,
        }
    }

    /// Returns the pause before the next look at work of this age: `every` at first, and later a tenth of the age, so that long work costs
    /// few looks and is noticed soon after its end. A service may ask for a longer pause.
    fn pause(&self, age: Duration, asked: Option<Duration>) -> Duration {
        let usual = (age / 10).clamp(self.every, self.every.max(Self::MAX_PAUSE));
        let left = self.at_most.saturating_sub(age);
        usual.max(asked.unwrap_or_default()).min(left.max(self.every))
    }

    /// Returns the reasons why the service cannot answer the first request so.
    pub(super) fn first_answer_problems(&self, answer: &Value) -> Vec<String> {
        let is_incomplete = self.state(answer) == OperationState::Running && self.id_in(answer).is_none();
        is_incomplete.then(|| format!("it has no id of the operation at `{}`", self.id)).into_iter().collect()
    }

    fn checkpoint(&self, id: String, age: Duration, asked: Option<Duration>) -> Progress {
        let data = Value::from(Map::from_iter([(ID, Value::from(id.as_str()))]));
        let pause = Some(Pause { operation: id, length: self.pause(age, asked) });
        Progress::Reached(Checkpoint { data, is_secret: false, pause })
    }
}

impl RestAction {
    /// Starts the operation, or looks at a started one.
    pub(super) async fn operate(
        &self,
        operation: &Operation,
        call: &Call<'_>,
        base: &BaseUrl,
        reached: Option<Reached<'_>>,
    ) -> Result<Progress, ActionError> {
        let Some(Reached { data, age }) = reached else {
            let response = self.send(call, base, call.inputs).await?;
            let body = self.definition.body(&self.head, &response)?;
            let id = operation.id_in(&body);
            return match operation.state(&body) {
                OperationState::Running => match id {
                    Some(id) => Ok(operation.checkpoint(
                        id,
                        Duration::ZERO,
                        response.retry_after(call.http.timer().now()),
                    )),
                    None => Err(self.without_id(operation, &response)),
                },
                ended => self.ended(operation, ended, id.as_deref(), body, &response),
            };
        };
        let id = data.get(ID).map(|id| id.to_text()).unwrap_or_default();
        let response = match self.look(operation, call, base, &id).await {
            Ok(response) => response,
            Err(error) if is_temporary(&error) && age >= operation.at_most => {
                let mut late = self.too_long(operation, &id);
                late.message.push_str("; the last look failed: ");
                late.message.push_str(&error.message);
                return Err(late);
            }
            Err(error) if is_temporary(&error) => {
                let message = format!("the operation `{id}` could not be looked at: {}", error.message);
                call.log.line(model::LogLevel::Warn, &message);
                return Ok(operation.checkpoint(id, age, error.retry_after()));
            }
            Err(error) => return Err(error),
        };
        let body = self.definition.body(&self.head, &response)?;
        match operation.state(&body) {
            OperationState::Running if age >= operation.at_most => Err(self.too_long(operation, &id)),
            OperationState::Running => {
                Ok(operation.checkpoint(id, age, response.retry_after(call.http.timer().now())))
            }
            ended => self.ended(operation, ended, Some(&id), body, &response),
        }
    }

    async fn look(
        &self,
        operation: &Operation,
        call: &Call<'_>,
        base: &BaseUrl,
        id: &str,
    ) -> Result<Response, ActionError> {
        let translated = self.translated(call, call.inputs);
        let inputs = translated.as_ref().unwrap_or(call.inputs);
        let request = self.definition.status_request(operation, &self.head, base, inputs, id)?;
        self.head.answered(call, &request, &self.head.subject, SendMode::Default).await
    }

    /// Returns the end of a call whose operation has ended.
    fn ended(
        &self,
        operation: &Operation,
        state: OperationState,
        id: Option<&str>,
        body: Value,
        response: &Response,
    ) -> Result<Progress, ActionError> {
        let named = id.map(|id| format!(" `{id}`")).unwrap_or_default();
        if state == OperationState::Failed {
            let code = operation.failed.as_ref().and_then(|mark| value_at_path(&body, &mark.path));
            let mut error = self.head.errors.failed_operation(
                &format!("{}: the operation{named} has failed", self.head.subject),
                response,
            );
            if let Some(Value::String(code)) = code {
                error = error.with_code(code.to_string());
            }
            return Ok(Progress::Failed(error));
        }
        let result = operation.result_in(body);
        let problems = match self.definition.fits(&result) {
            true => None,
            false => Some(format!(
                "{}: the operation{named} ended with {} where {} was expected",
                self.head.subject,
                if result.is_null() { "nothing".to_owned() } else { format!("a {}", result.kind()) },
                self.definition.answers.describe()
            )),
        };
        match problems {
            None => Ok(Progress::Ended(result)),
            Some(message) => Err(self.head.errors.response_error(ErrorKind::Response, message, response)),
        }
    }

    fn without_id(&self, operation: &Operation, response: &Response) -> ActionError {
        let message = format!(
            "{} answered {} without an id of the operation at `{}`",
            self.head.subject,
            response.status.as_u16(),
            operation.id
        );
        self.definition.unusable(self.head.errors.response_error(ErrorKind::Response, message, response))
    }

    fn too_long(&self, operation: &Operation, id: &str) -> ActionError {
        let limit = text::units::format_duration(operation.at_most);
        let message = format!(
            "{}: the operation `{id}` has not ended within {limit}; it may go on there",
            self.head.subject
        );
        ActionError::new(ErrorKind::Timeout, message).with_outcome_unknown()
    }
}

impl Definition {
    /// Builds the status request. It has the headers of the action, and no other inputs than those in its path.
    pub(super) fn status_request(
        &self,
        operation: &Operation,
        head: &Head,
        base: &BaseUrl,
        inputs: &Map,
        id: &str,
    ) -> Result<Request, ActionError> {
        let with_id = inputs.iter().map(|(name, value)| (name.clone(), value.clone()));
        let with_id: Map = with_id.chain([(ID.into(), Value::from(id))]).collect();
        let mut request = Request::new(Method::GET, self.url_of(&operation.path, base, &with_id)?);
        request.rules = self.rules.clone();
        for (name, value) in &head.headers {
            request.set_header(name, &Value::from(value.as_str()))?;
        }
        let fixed = self.fixed.iter().map(|(place, value)| (place, value.clone()));
        for (place, value) in fixed.chain(self.sent(inputs)) {
            if let RequestLocation::Header(Some(name)) = place {
                request.set_header(name, &value)?;
            }
        }
        if !request.headers.contains_key(ACCEPT) {
            request.set_header("accept", &Value::from("application/json"))?;
        }
        for (name, value) in &operation.query {
            request.add_query(name, &Value::from(value.as_str()));
        }
        Ok(request)
    }
}

/// True if a later look may succeed.
pub(super) fn is_temporary(error: &ActionError) -> bool {
    matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout)
        || error.status.is_some_and(|status| status == 429 || status >= 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_and_never_pass_the_time_limit() {
        let seconds = Duration::from_secs;
        let mark = |path: &str| Mark { path: path.to_owned(), is: Vec::new() };
        let operation = Operation {
            id: ID.to_owned(),
            path: Vec::new(),
            query: Vec::new(),
            done: mark("done"),
            failed: None,
            result: None,
            every: seconds(2),
            at_most: seconds(86_400),
        };
        for (age, asked, pause) in [
            (0, None, 2),
            (20, None, 2),
            (300, None, 30),
            (50_000, None, 600),
            (86_395, None, 5),
            (86_400, None, 2),
            (0, Some(7), 7),
            (0, Some(100_000), 86_400),
        ] {
            assert_eq!(operation.pause(seconds(age), asked.map(seconds)), seconds(pause), "{age}");
        }
        let (mut age, mut looks) = (Duration::ZERO, 0);
        while age < operation.at_most {
            age += operation.pause(age, None);
            looks += 1;
        }
        assert_eq!((age, looks), (operation.at_most, 204));
    }
}
