//! Responses of GraphQL, which have the status 200 in any case and list failures in `errors`.

use model::{ActionError, ErrorKind};
use value::Value;

use super::Head;
use crate::http::Response;

/// The largest number of errors that a message repeats from one response.
const MAX_SHOWN: usize = 3;

impl Head {
    /// Returns `data` of a response.
    ///
    /// # Errors
    /// The response is not JSON, or lists failures, also beside data.
    pub(crate) fn graphql_data(&self, response: &Response) -> Result<Value, ActionError> {
        let errors = &self.errors;
        let body = response.json().map_err(|reason| errors.not_json(&self.subject, response, &reason))?;
        let failures =
            body.get("errors").and_then(|errors| errors.as_list().map(<[Value]>::to_vec)).unwrap_or_default();
        if failures.is_empty() {
            return Ok(body.get("data").unwrap_or_default());
        }
        let text =
            |failure: &Value| failure.get("message").map_or_else(|| failure.to_json(), |text| text.to_text());
        let shown: Vec<String> = failures.iter().take(MAX_SHOWN).map(text).collect();
        let more = failures.len().saturating_sub(MAX_SHOWN);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        let message = format!("{} answered with GraphQL errors: {}{more}", self.subject, shown.join("; "));
        let mut error = errors.response_error(ErrorKind::Response, message, response);
        error.code =
            failures.first().and_then(|failure| failure.path("extensions.code")).map(|code| code.to_text());
        Err(error)
    }
}
