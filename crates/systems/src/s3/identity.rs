//! Keys for the token of a workload, from the token service.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use connector::http::{Method, Request, Response};
use connector::{BaseUrl, Call, Exchanged, SigningKeys, Transport};
use jiff::{SignedDuration, Timestamp};
use model::{ActionError, ErrorKind};
use value::{Secret, Value};

use super::document::{parse, text_at};
use super::failure::failure;
use crate::connection::Inputs;

/// The name of the token service in messages.
const SUBJECT: &str = "the token service";
/// The time before their end at which keys are replaced.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// The connections whose keys are kept. Keys of others are asked for again.
const MAX_KEPT: usize = 1_000;

/// The keys of connections, by the hash of their values.
#[derive(Default)]
pub(super) struct Identities(Mutex<HashMap<[u8; 32], Arc<Slot>>>);

/// The keys of a connection, with their end. The lock is held while keys are asked for.
type Slot = tokio::sync::Mutex<Option<(SigningKeys, Timestamp)>>;

impl Identities {
    /// Returns keys that are good for some minutes at least, with their end; `None` for recorded keys.
    pub(super) async fn keys(
        &self,
        call: &Call<'_>,
        inputs: Inputs<'_>,
        role: &str,
        region: &str,
    ) -> Result<(SigningKeys, Option<Timestamp>), ActionError> {
        if matches!(&call.http.options().transport, Transport::Cassette(cassette) if !cassette.is_recording())
        {
            // A recording has no keys, and needs none.
            return Ok((keys(region, "recorded", "recorded", ""), None));
        }
        let slot = self.slot(inputs.digest());
        let mut kept = slot.lock().await;
        let now = call.http.timer().now();
        if let Some((keys, end)) = &*kept
            && end.duration_since(now) > MARGIN
        {
            return Ok((keys.clone(), Some(*end)));
        }
        let (keys, end) = ask(call, inputs, role, region).await?;
        *kept = Some((keys.clone(), end));
        Ok((keys, Some(end)))
    }

    fn slot(&self, connection: [u8; 32]) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_KEPT && !slots.contains_key(&connection) {
            slots.clear();
        }
        slots.entry(connection).or_default().clone()
    }
}

fn keys(region: &str, access_key: &str, secret_key: &str, token: &str) -> SigningKeys {
    SigningKeys {
        service: "s3",
        region: region.to_owned(),
        access_key: access_key.to_owned(),
        secret_key: Secret::new(secret_key),
        session_token: (!token.is_empty()).then(|| Secret::new(token)),
    }
}

async fn ask(
    call: &Call<'_>,
    inputs: Inputs<'_>,
    role: &str,
    region: &str,
) -> Result<(SigningKeys, Timestamp), ActionError> {
    let usual = || format!("https://sts.{region}.amazonaws.com");
    let service = inputs.text("tokenService").map_or_else(usual, str::to_owned);
    let base = BaseUrl::parse(&service, None);
    let base = base.map_err(|error| inputs.refuse(format_args!("`tokenService` {error}")))?;
    if base.url().scheme() != "https" && !call.http.is_named(base.url()) {
        let words = "`tokenService` begins with `http://`, by which the token would travel for everybody to read; only a server \
                     that the setting `outbound.allow` names is called so";
        return Err(inputs.refuse(words));
    }
    let mut request = Request::new(Method::POST, base.url().clone());
    let fields = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", "cogwork"),
        ("WebIdentityToken", inputs.text("token").unwrap_or_default()),
    ];
    request.set_form(&fields.map(|(name, value)| (name.to_owned(), Value::from(value))))?;
    let to = Exchanged { subject: SUBJECT, connection: None, body: None, is_recorded: false };
    let response = call.exchange(&request, &to).await?;
    if !response.status.is_success() {
        let error = failure(SUBJECT, &response, None).redacted(&call.http.options().redactor);
        return Err(match error.kind {
            ErrorKind::Response => {
                inputs.refuse(&error.message).with_code(error.code.clone().unwrap_or_default())
            }
            _ => error,
        });
    }
    issued(call, region, &response)
}

fn issued(
    call: &Call<'_>,
    region: &str,
    response: &Response,
) -> Result<(SigningKeys, Timestamp), ActionError> {
    let document = parse(response, SUBJECT)?;
    let field = |name: &str| {
        let path = "AssumeRoleWithWebIdentityResponse.AssumeRoleWithWebIdentityResult.Credentials";
        text_at(&document, &format!("{path}.{name}"))
    };
    let (access_key, secret, token) = (field("AccessKeyId"), field("SecretAccessKey"), field("SessionToken"));
    let end = field("Expiration").parse::<Timestamp>();
    let (false, Ok(end)) = (access_key.is_empty() || secret.is_empty(), end) else {
        let message = format!("{SUBJECT} gave an answer without keys");
        return Err(ActionError::new(ErrorKind::Response, message));
    };
    for secret in [&secret, &token] {
        call.http.options().redactor.add_secret(secret);
        if let Transport::Cassette(cassette) = &call.http.options().transport {
            cassette.add_secret(secret);
        }
    }
    Ok((keys(region, &access_key, &secret, &token), end))
}
