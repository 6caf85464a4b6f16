//! The start of a test: as a caller, the clock or a person would make it.

use std::time::Duration;

use jiff::Timestamp;
use model::automation::{Named, Trigger, WebhookTrigger};
use model::execution::Origin;
use model::payload::{HttpResponse, Payload};
use model::trial::{Case, Request, RequestBody, Start};
use model::value::{Data, Map, Value};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Trouble;
use super::play::Scene;
use crate::catalog::{Deployed, Mounted};
use crate::clock::Clock as _;
use crate::intake::Terms;
use crate::project_dir::read_project_file;

/// The most bytes of a file that is sent as a body: as many as a webhook may take.
const MOST_BODY: u64 = 512 << 20;

/// What cannot stand in a path as it is (RFC 3986, 3.3).
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// What came of a start.
pub(super) enum Begun {
    /// The caller was answered.
    Answered(HttpResponse),
    /// Nothing was started.
    Refused(String),
    /// It was started, or passed over by the trigger's condition.
    Accepted,
}

/// Where the clock stands at the start: for a usual start of a schedule, where it fires next.
pub(super) fn now(case: &Case, deployed: &Deployed) -> Timestamp {
    let just_before = case.now.checked_sub(Duration::from_nanos(1)).unwrap_or(case.now);
    let next = deployed.schedule.as_ref().and_then(|schedule| schedule.next_after(just_before));
    match case.start {
        Start::Usual => next.unwrap_or(case.now),
        _ => case.now,
    }
}

impl Scene<'_> {
    /// Starts the execution as the test says.
    pub(super) async fn begin(&self) -> Result<Begun, Trouble> {
        let automation = &self.deployed.automation;
        match (&self.case.start, &automation.trigger) {
            (Start::Request(request), Trigger::Webhook(webhook)) => self.request(request, webhook).await,
            (Start::Usual, Trigger::Webhook(webhook)) => self.request(&Request::default(), webhook).await,
            (Start::Due(at), Trigger::Schedule(_)) => self.tick(*at).await,
            (Start::Usual, Trigger::Schedule(_)) => self.tick(self.clock.now()).await,
            (Start::Inputs(inputs), _) => self.by_hand(inputs).await,
            (Start::Usual, Trigger::Manual) => self.by_hand(&[]).await,
            (Start::Found(data), Trigger::Poll(_) | Trigger::Event(_)) => self.found(data.clone()).await,
            (Start::Usual, Trigger::Poll(_) | Trigger::Event(_)) => self.found(Value::Null).await,
            (Start::Request(_) | Start::Due(_) | Start::Found(_), trigger) => Err(Trouble::of(
                self.case,
                format!(
                    "`{}` is not started in this way: its trigger is `{}`",
                    automation.id,
                    trigger.word()
                ),
            )),
        }
    }

    async fn request(&self, request: &Request, webhook: &WebhookTrigger) -> Result<Begun, Trouble> {
        let mounted = Mounted {
            deployed: self.deployed.clone(),
            // The live address of a disabled Automation is not there; its test address is.
            test: !self.deployed.automation.enabled,
        };
        let request = self.as_sent(request, webhook)?;
        let answer = self.engine.receive_at(&mounted, request).await;
        Ok(Begun::Answered(answer.unwrap_or_else(|rejection| rejection.response())))
    }

    fn as_sent(
        &self,
        request: &Request,
        webhook: &WebhookTrigger,
    ) -> Result<trigger::webhook::Request, Trouble> {
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
                let path = self.props.folder.join(&name.name);
                let bytes = read_project_file(&self.props.dir, &path, MOST_BODY).map_err(|error| {
                    let message = format!("the file `{}` cannot be read: {error}", path.display());
                    Trouble { message, span: name.span, help: None }
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

    async fn tick(&self, at: Timestamp) -> Result<Begun, Trouble> {
        let automation = &self.deployed.automation;
        let Some(schedule) = &self.deployed.schedule else {
            return Err(Trouble::of(self.case, "the schedule of the automation was not compiled".to_owned()));
        };
        let just_before = at.checked_sub(Duration::from_nanos(1)).unwrap_or(at);
        let fires = schedule.next_after(just_before);
        if fires != Some(at) {
            let next = fires.map_or_else(|| "never again".to_owned(), |next| format!("next at {next}"));
            return Err(Trouble {
                message: format!("the schedule does not fire at {at}"),
                span: self.case.start_span,
                help: Some(format!("it fires {next} ({})", schedule.describe())),
            });
        }
        self.clock.advance_to(at);
        let services = self.engine.services();
        let payload = schedule.payload(at, self.clock.now());
        let Some(fails) = services.evaluate_trigger_condition(automation, &payload).await.start() else {
            return Ok(Begun::Accepted);
        };
        let start = crate::Start { payload, origin: Origin::Schedule { instant: at } };
        match services.accept(self.deployed, start, Terms { fails, ..Terms::default() }).await {
            Ok(_) => Ok(Begun::Accepted),
            Err(error) => Ok(Begun::Refused(error.to_string())),
        }
    }

    async fn found(&self, data: Value) -> Result<Begun, Trouble> {
        let automation = &self.deployed.automation;
        let services = self.engine.services();
        let payload = Payload::Poll { data, polled_at: self.clock.now() };
        let Some(fails) = services.evaluate_trigger_condition(automation, &payload).await.start() else {
            return Ok(Begun::Accepted);
        };
        let is_event = matches!(automation.trigger, Trigger::Event(_));
        let origin = if is_event { Origin::Event } else { Origin::Poll };
        let accepted = services
            .accept(self.deployed, crate::Start { payload, origin }, Terms { fails, ..Terms::default() })
            .await;
        Ok(accepted.map_or_else(|error| Begun::Refused(error.to_string()), |_| Begun::Accepted))
    }

    async fn by_hand(&self, inputs: &[(Named, Value)]) -> Result<Begun, Trouble> {
        let inputs: Map = inputs.iter().map(|(name, value)| (name.name.as_str(), value.clone())).collect();
        let start = crate::Start { payload: Payload::manual(inputs), origin: Origin::Manual };
        match self.engine.run(&self.deployed.automation.id, start).await {
            Ok(_) => Ok(Begun::Accepted),
            Err(error) => Ok(Begun::Refused(error.to_string())),
        }
    }
}

/// The query: a list repeats its parameter.
fn query(parameters: &[(Named, Value)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = parameters.iter().flat_map(|(name, value)| {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        values.iter().map(move |value| format!("{}={}", encode(&name.name), encode(&value.to_text())))
    });
    pairs.collect::<Vec<_>>().join("&")
}
