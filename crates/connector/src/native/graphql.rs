//! Raw GraphQL Request: sends a query or mutation to the connection's own address.

use std::sync::Arc;

use ::http::Method;
use async_trait::async_trait;
use model::{ActionError, ActionSpec, InputType};
use value::{Map, Value};

use super::{add_headers, check_credentials, input_error, map_of, optional, required, spec_for, text_of};
use crate::action::{Action, Call, SendMode};
use crate::connection::BaseUrl;
use crate::http::Request;
use crate::manifest::{Head, NativeSettings};

struct RawGraphqlRequest {
    head: Arc<Head>,
    spec: ActionSpec,
    path: String,
}

/// Builds the action for a connector; its settings name the path of the endpoint.
pub(crate) fn build(head: &Arc<Head>, settings: &NativeSettings) -> Result<Arc<dyn Action>, String> {
    let Some(path) = settings.path.clone() else {
        return Err("`rawGraphqlRequest` needs the `path` of the endpoint".to_owned());
    };
    let spec = ActionSpec {
        description: Some(format!(
            "Sends a GraphQL query or mutation to {}. An answer with errors is an error, even beside data.",
            head.subject
        )),
        inputs: vec![
            required("query", InputType::Text, "The query or mutation, as GraphQL text."),
            optional("variables", map_of(InputType::Any), "The variables of the query."),
            optional("headers", map_of(InputType::Text), "Headers of the request."),
        ],
        result: Some("the `data` of the answer".to_owned()),
        example: settings.example.clone(),
        ..spec_for(head, "rawGraphqlRequest", "Raw GraphQL Request")
    };
    Ok(Arc::new(RawGraphqlRequest { head: head.clone(), spec, path }))
}

#[async_trait]
impl Action for RawGraphqlRequest {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn is_raw(&self) -> bool {
        true
    }

    /// Required by its specification, unlike for all other actions.
    fn reveals_credentials(&self) -> bool {
        true
    }

    fn prepare(&self, inputs: &Map, base: Option<&BaseUrl>) -> Option<Result<Request, ActionError>> {
        Some(self.head.address(base).and_then(|base| self.request(inputs, base, &self.path)))
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        let connection = call.connection_for(&self.spec)?;
        let (base, path) = match connection {
            Some(connection) => connection.route(&self.path),
            None => (self.head.address(None)?, self.path.as_str()),
        };
        let request = self.request(call.inputs, base, path)?;
        check_credentials(&request, connection)?;
        let response =
            self.head.answered(&call, &request, &self.head.subject, SendMode::RevealCredentials).await?;
        self.head.graphql_data(&response)
    }
}

impl RawGraphqlRequest {
    fn request(&self, inputs: &Map, base: &BaseUrl, path: &str) -> Result<Request, ActionError> {
        let url = base.join(path).map_err(|error| input_error(format!("the endpoint's path {error}")))?;
        let mut request = Request::new(Method::POST, url);
        request.rules = self.head.rules.clone();
        request.set_header("accept", &Value::from("application/json"))?;
        add_headers(&mut request, inputs)?;
        let mut body = Map::new();
        body.insert("query", text_of(inputs, "query"));
        if let Some(variables) = inputs.get("variables") {
            body.insert("variables", variables.clone());
        }
        request.set_json(&Value::from(body))?;
        Ok(request)
    }
}
