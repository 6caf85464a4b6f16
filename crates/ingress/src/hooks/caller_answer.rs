//! The answer that the caller of a webhook got, derived from the log and the definition of its execution.

use jiff::Timestamp;
use model::automation::{Automation, Trigger, WebhookMode, WebhookTrigger};
use model::execution::{Event, ExecutionId, Origin, Outcome};
use model::payload::{HttpResponse, Payload};
use trigger::response;

use super::answer::response_for_outcome;
use super::code::response_from_code;

/// The answer that the caller of a webhook got.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerAnswer {
    /// When it was decided.
    pub at: Timestamp,
    /// The source of the decision.
    pub by: AnsweredBy,
    /// The response.
    pub response: HttpResponse,
}

/// The source of the answer to the caller of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AnswerSource)]
pub enum AnsweredBy {
    /// The acceptance: the id of the execution, at once.
    Accepted,
    /// The static response of an asynchronous webhook.
    Static,
    /// The code of the trigger.
    Code,
    /// A `respond` step, or the response of a code step.
    Respond,
    /// The result of the execution.
    Result,
    /// The failure or cancellation of the execution.
    Failure,
    /// The timeout of a synchronous webhook.
    Timeout,
}

/// The state of the caller of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub enum Caller {
    /// It got this answer.
    Answered(Box<CallerAnswer>),
    /// It still waits.
    Waits,
    /// It got none: the daemon stopped while it waited.
    Left,
}

/// Derives the answer to the caller of an execution. `None` if no caller of a webhook started it.
#[must_use]
pub fn caller(automation: &Automation, id: ExecutionId, events: &[Event]) -> Option<Caller> {
    let Some(Event::Started { at, origin: Origin::Webhook | Origin::Test, payload, trigger, .. }) =
        events.first()
    else {
        return None;
    };
    let (Trigger::Webhook(webhook), Payload::Webhook(request)) =
        (&automation.trigger(trigger)?.on, &**payload)
    else {
        return None;
    };
    let answered =
        |at: Timestamp, by, response| Some(Caller::Answered(Box::new(CallerAnswer { at, by, response })));
    let decided =
        request.code_result.as_deref().and_then(|decided| response_from_code(webhook, decided, &id));
    if let Some(response) = decided {
        return answered(*at, AnsweredBy::Code, response);
    }
    if webhook.mode == WebhookMode::Async {
        let by = if webhook.respond.is_some() { AnsweredBy::Static } else { AnsweredBy::Accepted };
        return answered(*at, by, response::asynchronous(webhook, &id));
    }
    Some(synchronous(webhook, id, *at, events))
}

fn synchronous(webhook: &WebhookTrigger, id: ExecutionId, accepted: Timestamp, events: &[Event]) -> Caller {
    // The record of a timeout is committed with what follows it, so it may stand behind a later response.
    let timed_out = events.iter().find_map(|event| match event {
        Event::Answered { at, .. } => Some(*at),
        _ => None,
    });
    let answered = |at, by, response| Caller::Answered(Box::new(CallerAnswer { at, by, response }));
    for event in events {
        if let Some(at) = timed_out.filter(|at| *at <= event.at()) {
            return answered(at, AnsweredBy::Timeout, response::timed_out(&id));
        }
        match event {
            Event::Resumed { .. } => return Caller::Left,
            Event::Responded { at, response } => return answered(*at, AnsweredBy::Respond, response.clone()),
            Event::Finished { at, outcome } => {
                let succeeded = matches!(outcome, Outcome::Succeeded { .. });
                let by = if succeeded { AnsweredBy::Result } else { AnsweredBy::Failure };
                return answered(*at, by, response_for_outcome(outcome.clone(), &id));
            }
            _ => {}
        }
    }
    match timed_out {
        Some(at) => answered(at, AnsweredBy::Timeout, response::timed_out(&id)),
        // The record of a timeout is lost if the daemon stops before the next commit.
        None if events.last().is_some_and(|last| is_over(webhook, accepted, last.at())) => Caller::Left,
        None => Caller::Waits,
    }
}

fn is_over(webhook: &WebhookTrigger, accepted: Timestamp, now: Timestamp) -> bool {
    accepted.checked_add(webhook.timeout).is_ok_and(|end| now > end)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::DefinitionHash;
    use model::payload::WebhookPayload;
    use pretty_assertions::assert_eq;
    use text::diagnostic::Source;
    use value::{Map, Value};

    use super::*;

    const ID: [u8; 16] = [7; 16];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("an instant")
    }

    fn automation(webhook: &str) -> Automation {
        let text = format!("trigger: {{webhook: {{verify: none, {webhook}}}}}\nsteps: [{{set: {{a: 1}}}}]\n");
        let source = Arc::new(Source::new("automations/a.yaml", text));
        language::load::automation(source, "a").value.expect("it loads")
    }

    fn started() -> Event {
        let body = value::File { content_type: "".into(), filename: None, data: value::Data::default() };
        let payload = Payload::Webhook(WebhookPayload {
            method: "POST".into(),
            path_fragment: String::new(),
            query_parameters: Map::new(),
            raw_query: String::new(),
            headers: std::collections::BTreeMap::new(),
            body,
            code_result: None,
        });
        Event::Started {
            at: at(0),
            automation: model::AutomationId::parse("a").expect("an id"),
            definition: DefinitionHash::from_bytes([0; 32]),
            origin: Origin::Webhook,
            payload: Arc::new(payload),
            trigger: model::automation::TriggerId::MAIN,
            inputs: None,
        }
    }

    /// The decision and the status of the answer, or the state of the caller.
    fn check(webhook: &str, rest: Vec<Event>, expected: &str) {
        let events: Vec<Event> = std::iter::once(started()).chain(rest).collect();
        let found = match caller(&automation(webhook), ExecutionId::from_bytes(ID), &events) {
            Some(Caller::Answered(answer)) => {
                let by = format!("{:?}", answer.by).to_lowercase();
                format!("{by} {} at {}", answer.response.status, answer.at.as_second())
            }
            Some(Caller::Waits) => "waits".to_owned(),
            Some(Caller::Left) => "left".to_owned(),
            None => "nobody".to_owned(),
        };
        assert_eq!(found, expected, "{webhook}: {events:?}");
    }

    #[test]
    fn the_response_of_an_asynchronous_webhook_is_decided_at_acceptance() {
        check("mode: async", vec![], "accepted 200 at 0");
        check("mode: async, respond: {status: 202}", vec![], "static 202 at 0");
    }

    #[test]
    fn the_first_deciding_event_is_the_response_of_a_synchronous_webhook() {
        let response = HttpResponse::json(201, &Value::Null);
        let responded = Event::Responded { at: at(2), response };
        let finished = |second, outcome| Event::Finished { at: at(second), outcome };
        let succeeded = Outcome::Succeeded { result: Value::from(1) };
        let failed = Outcome::Cancelled { reason: "no".into() };
        let timed_out = Event::Answered { at: at(3), status: 504 };
        check("mode: sync", vec![], "waits");
        check("mode: sync", vec![responded.clone(), finished(4, failed.clone())], "respond 201 at 2");
        check("mode: sync", vec![finished(4, succeeded.clone())], "result 200 at 4");
        check("mode: sync", vec![finished(4, failed)], "failure 500 at 4");
        check("mode: sync", vec![timed_out.clone(), finished(9, succeeded.clone())], "timeout 504 at 3");
        // Committed with the end, behind a response that came too late.
        let late = Event::Responded { at: at(5), response: HttpResponse::json(201, &Value::Null) };
        check("mode: sync", vec![late, timed_out], "timeout 504 at 3");
        let resumed = Event::Resumed { at: at(1), waited: false };
        check("mode: sync", vec![resumed, finished(4, succeeded)], "left");
    }
}
