//! Logs in for the token of a session.

use std::fmt::Write as _;

use ::http::HeaderValue;
use jiff::Timestamp;
use model::{ActionError, ErrorKind};
use value::{Map, Secret, Value};

use super::session::{Login, SessionConfig, SessionPlace};
use super::{ClientAuth, Flow, OAuthClient, RESPONSE_BYTES, TokenError, TokenSet, not_sent};
use crate::connection::BaseUrl;
use crate::http::{ErrorShape, Http, Request, RequestContext, Response};

impl SessionConfig {
    /// Builds the client from checked inputs.
    ///
    /// # Errors
    /// Returns a phrase to follow the connection's name.
    pub(crate) fn client(
        &self,
        connection: &str,
        inputs: &Map,
        base: &BaseUrl,
    ) -> Result<OAuthClient, String> {
        let token_url = base.join(&self.path).map_err(|error| format!("the path of its login {error}"))?;
        let (mut body, mut headers) = (Vec::new(), Vec::new());
        let mut identity = String::new();
        for (name, place) in &self.inputs {
            let text = inputs.get(name).map(Value::to_text).unwrap_or_default();
            if text.is_empty() {
                continue;
            }
            // Writing to a text never fails.
            let _ = write!(identity, "{name}={}:{text} ", text.len());
            match place {
                SessionPlace::Body(path) => body.push((path.clone(), Secret::new(text))),
                SessionPlace::Header(name) => headers.push((name.clone(), Secret::new(text))),
            }
        }
        let digest = value::Data::from(identity.into_bytes()).digest();
        let login = Login {
            method: self.method.clone(),
            is_form: self.is_form,
            body,
            headers,
            token: self.token.clone(),
            expires: self.expires.clone(),
        };
        Ok(OAuthClient {
            connection: connection.to_owned(),
            flow: Flow::ClientCredentials,
            authorize_url: None,
            token_url,
            // Another password is another client, whose token is another one.
            client_id: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            client_secret: Secret::new(""),
            scopes: Vec::new(),
            issuer: None,
            json: !self.is_form,
            client_auth: ClientAuth::Body,
            token_parameters: Vec::new(),
            assertion: None,
            session: Some(login),
            sites: None,
        })
    }
}

impl OAuthClient {
    /// Logs in. The answer is in no recording and in no log, for it holds the token.
    pub(super) async fn log_in(&self, http: &Http, login: &Login) -> Result<TokenSet, TokenError> {
        let request = self.login_request(login).map_err(TokenError::transient)?;
        let context = RequestContext { subject: "the login", is_recorded: false, ..self.context() };
        let response = http.send(&request, &context).await;
        let response = response.map_err(|error| TokenError::transient(not_sent(error)))?;
        let now = http.timer().now();
        if !response.status.is_success() {
            return Err(TokenError::transient(self.refused_login(&response, now)));
        }
        let header = |name: &str| response.header(name).map(str::to_owned);
        let issued = login.token(response.json().ok().as_ref(), &header, now);
        let (access, expires_in) = issued.map_err(|words| TokenError::transient(self.refuse(words)))?;
        Ok(TokenSet { access, refresh: None, expires_in, scope: None })
    }

    fn refused_login(&self, response: &Response, now: Timestamp) -> ActionError {
        let shape = ErrorShape::default();
        let mut error = shape.status_error("the login", response, now);
        error.message = format!("the connection `{}` cannot be used: {}", self.connection, error.message);
        // It may repeat what it refuses.
        error.body = None;
        if matches!(response.status.as_u16(), 400..=428) {
            error.kind = ErrorKind::Connection;
        }
        not_sent(error)
    }

    fn login_request(&self, login: &Login) -> Result<Request, ActionError> {
        let mut request = Request::new(login.method.clone(), self.token_url.clone());
        request.max_response = Some(RESPONSE_BYTES);
        request.set_header("accept", &Value::from("application/json"))?;
        for (name, value) in &login.headers {
            let wrong = || self.refuse(format!("the header `{name}` cannot carry what its input has"));
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            request.headers.insert(name.clone(), value);
        }
        if let Some((media_type, text)) = login.body() {
            request.set_bytes(media_type, text);
        }
        Ok(request)
    }
}
