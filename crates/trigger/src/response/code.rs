//! Responses from code: a response object (specification 6.4).

use model::{ExecutionId, HttpResponse};
use value::Value;

use super::{Body, PartsError, RespondParts, respond};

/// The response of a response object `{statusCode, contentType, headers, body}`; `data` is used if `body` is missing. The
/// default status is 200, the default type `application/json` or that of a file (semantics 3.5).
///
/// # Errors
/// As [`respond`]; the error names the key of the object.
pub fn from_code(value: &Value, id: &ExecutionId) -> Result<HttpResponse, PartsError> {
    let part = |name: &str| value.get(name).filter(|value| !value.is_null());
    let body = part("body").or_else(|| part("data"));
    let is_file = body.as_ref().is_some_and(|body| body.as_file().is_some());
    let usual_type = if is_file || body.is_none() { Value::Null } else { Value::from("application/json") };
    let parts = RespondParts {
        status: part("statusCode").unwrap_or_else(|| Value::from(200)),
        content_type: part("contentType").unwrap_or(usual_type),
        headers: part("headers").unwrap_or_default(),
        body: body.map_or(Body::Empty, Body::Any),
        allows_forms: false,
        allows_scripts: false,
    };
    respond(&parts, id).map_err(|error| PartsError {
        part: if error.part == "status" { "statusCode" } else { error.part },
        message: error.message.replacen("`status`", "`statusCode`", 1),
    })
}
