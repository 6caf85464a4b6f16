//! Starts a test's execution as a caller, the scheduler or a person would.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{SpannedName, StartForm, Trigger, WebhookTrigger};
use model::execution::Origin;
use model::payload::{HttpResponse, Payload};
use model::test_suite::{Case, Request, RequestBody, Start};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use value::{Data, Map, Value};

use crate::error::TestError;
use crate::test_run::TestRun;
use catalog::read_project_file;
use catalog::{Deployment, Mount, Route};
use runtime::AcceptOptions;
use runtime::Clock as _;
use runtime::ManualStart;

/// Maximum bytes of a body read from a file: the limit of a webhook.
const MAX_BODY: u64 = 512 << 20;

/// Characters to escape in a path (RFC 3986, 3.3).
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// Result of a start.
pub(super) enum StartResult {
    /// The caller received a response.
    Answered(HttpResponse),
    /// The start was refused.
    Refused(String),
    /// The execution started, or the trigger's condition rejected the start.
    Accepted,
}

impl TestRun<'_> {
    /// Starts the execution as the test specifies.
    pub(super) async fn start(&self) -> Result<StartResult, TestError> {
        let automation = &self.deployment.automation;
        let mount = mount(self.case, self.deployment)?;
        match (&self.case.start, mount.on().start_form()) {
            (Start::Request(request), StartForm::Request(webhook)) => {
                self.request(&mount, request, webhook).await
            }
            (Start::Default, StartForm::Request(webhook)) => {
                self.request(&mount, &Request::default(), webhook).await
            }
            (Start::ScheduledAt(at), StartForm::Instant) => self.start_scheduled(&mount, *at).await,
            (Start::Default, StartForm::Instant) => self.start_scheduled(&mount, self.clock.now()).await,
            (Start::Inputs(inputs), _) => self.start_manually(&mount, inputs).await,
            (Start::Default, StartForm::Inputs) => self.start_manually(&mount, &[]).await,
            (Start::Polled(data), StartForm::Data { .. }) => self.start_polled(&mount, data.clone()).await,
            (Start::Default, StartForm::Data { .. }) => self.start_polled(&mount, Value::Null).await,
            (Start::Request(_) | Start::ScheduledAt(_) | Start::Polled(_), _) => Err(TestError::new(
                self.case,
                format!(
                    "`{}` is not started in this way: its trigger is `{}`",
                    automation.id,
                    mount.on().keyword()
                ),
            )),
        }
    }

    async fn request(
        &self,
        mount: &Mount,
        request: &Request,
        webhook: &WebhookTrigger,
    ) -> Result<StartResult, TestError> {
        // A disabled trigger has no live URL, but a test URL.
        let route = Route { mount: mount.clone(), is_test: !mount.is_enabled() };
        let request = self.as_sent(request, webhook)?;
        let catalog = self.runtime.context.catalog();
        let reply = self.ingress.receive_at(&catalog, &route, request).await;
        let response = reply.map_or_else(|rejection| rejection.response(), |reply| reply.response);
        Ok(StartResult::Answered(response))
    }

    fn as_sent(
        &self,
        request: &Request,
        webhook: &WebhookTrigger,
    ) -> Result<trigger::webhook::Request, TestError> {
        let usual =
            || webhook.methods.iter().find(|method| *method == "POST").or(webhook.methods.first()).cloned();
        let method = request.method.as_ref().map(|method| method.name.clone()).or_else(usual);
        let (body, content_type) = match &request.body {
            RequestBody::Empty => (Data::default(), None),
            RequestBody::Value(Value::String(text)) => {
                (text.as_bytes().to_vec().into(), Some("text/plain; charset=utf-8"))
            }
            RequestBody::Value(value) => (value.to_json().into(), Some("application/json")),
            RequestBody::Bytes(bytes) => (bytes.clone().into(), Some("application/octet-stream")),
            RequestBody::File(name) => {
                let path = self.setup.folder.join(&name.name);
                let bytes = read_project_file(&self.setup.dir, &path, MAX_BODY).map_err(|error| {
                    let message = format!("the file `{}` cannot be read: {error}", path.display());
                    TestError { message, span: name.span, help: None }
                })?;
                (bytes.into(), Some("application/octet-stream"))
            }
        };
        let mut headers: Vec<(String, Vec<u8>)> = request
            .headers
            .iter()
            .map(|(name, value)| (name.name.to_ascii_lowercase(), value.clone().into_bytes()))
            .collect();
        if let Some(content_type) = content_type
            && !headers.iter().any(|(name, _)| name == "content-type")
        {
            headers.push(("content-type".to_owned(), content_type.into()));
        }
        let fragment = &request.path_fragment;
        let slash = if fragment.is_empty() || fragment.starts_with('/') { "" } else { "/" };
        Ok(trigger::webhook::Request {
            method: method.unwrap_or_else(|| "POST".to_owned()),
            fragment: format!("{slash}{}", utf8_percent_encode(fragment, PATH)),
            raw_query: query(&request.query_parameters),
            headers,
            body,
        })
    }

    async fn start_scheduled(&self, mount: &Mount, at: Timestamp) -> Result<StartResult, TestError> {
        let Some(schedule) = mount.schedule() else {
            return Err(TestError::new(
                self.case,
                "the schedule of the automation was not compiled".to_owned(),
            ));
        };
        let just_before = at.checked_sub(Duration::from_nanos(1)).unwrap_or(at);
        let fires = schedule.next_after(just_before);
        if fires != Some(at) {
            let next = fires.map_or_else(|| "never again".to_owned(), |next| format!("next at {next}"));
            return Err(TestError {
                message: format!("the schedule does not fire at {at}"),
                span: self.case.start_span,
                help: Some(format!("it fires {next} ({})", schedule.describe())),
            });
        }
        self.clock.advance_to(at);
        let runtime = &self.runtime;
        let payload = schedule.payload(at, self.clock.now());
        let (by, fails) = match self.ingress.prepare_start(mount, &payload).await {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return Ok(StartResult::Accepted),
            Err(error) => return Ok(StartResult::Refused(error.to_string())),
        };
        let start = runtime::Start { payload, origin: Origin::Schedule { instant: at }, by };
        match runtime
            .admission
            .accept(self.deployment, start, AcceptOptions { fails, ..AcceptOptions::default() })
            .await
        {
            Ok(_) => Ok(StartResult::Accepted),
            Err(error) => Ok(StartResult::Refused(error.to_string())),
        }
    }

    async fn start_polled(&self, mount: &Mount, data: Value) -> Result<StartResult, TestError> {
        let runtime = &self.runtime;
        let payload = mount.on().data_payload(data, self.clock.now());
        let origin = match (&payload, mount.on()) {
            (Payload::Emitted(event), _) => event.origin(),
            (_, Trigger::Event(_)) => Origin::Event,
            _ => Origin::Poll,
        };
        let prepared = match payload {
            Payload::Emitted(event) => self.ingress.prepare_event(mount, event).await,
            payload => {
                let prepared = self.ingress.prepare_start(mount, &payload).await;
                prepared.map(|prepared| prepared.map(|(by, fails)| (payload, by, fails)))
            }
        };
        let (payload, by, fails) = match prepared {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return Ok(StartResult::Accepted),
            Err(error) => return Ok(StartResult::Refused(error.to_string())),
        };
        let accepted = runtime
            .admission
            .accept(
                self.deployment,
                runtime::Start { payload, origin, by },
                AcceptOptions { fails, ..AcceptOptions::default() },
            )
            .await;
        Ok(accepted.map_or_else(|error| StartResult::Refused(error.to_string()), |_| StartResult::Accepted))
    }

    async fn start_manually(
        &self,
        mount: &Mount,
        inputs: &[(SpannedName, Value)],
    ) -> Result<StartResult, TestError> {
        let inputs: Map = inputs.iter().map(|(name, value)| (name.name.as_str(), value.clone())).collect();
        let start = ManualStart::new(Payload::manual(inputs), Origin::Manual);
        match self.ingress.start(&mount.key(), start).await {
            Ok(_) => Ok(StartResult::Accepted),
            Err(error) => Ok(StartResult::Refused(error.to_string())),
        }
    }
}

/// Returns the trigger that a test starts.
pub(super) fn mount(case: &Case, deployment: &Arc<Deployment>) -> Result<Mount, TestError> {
    let automation = &deployment.automation;
    let found = case.trigger_of(automation).ok().and_then(|trigger| deployment.mount(&trigger.id));
    found.ok_or_else(|| {
        let message =
            format!("`trigger` has to name the trigger of `{}` that starts this test", automation.id);
        TestError::new(case, message)
    })
}

/// Encodes query parameters; a list repeats its parameter.
fn query(parameters: &[(SpannedName, Value)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = parameters.iter().flat_map(|(name, value)| {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        values.iter().map(move |value| format!("{}={}", encode(&name.name), encode(&value.to_text())))
    });
    pairs.collect::<Vec<_>>().join("&")
}
