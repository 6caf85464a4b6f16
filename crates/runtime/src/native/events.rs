//! `events.emit`: sends an event to the executions that wait for it, and to the triggers that are named after it.

use std::sync::Arc;

use model::LogLevel;
use model::action::{ActionError, ErrorKind};
use model::execution::Signal;
use value::{Map, Value};

use crate::error::Error;
use crate::outbox::EventSender;
use crate::run::{Exit, Run};

impl Run {
    pub(super) async fn emit_action(&self, inputs: &Map, key: &str) -> Result<Value, Exit> {
        let name = inputs.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let sender = self.journal.id();
        let signal = Signal {
            // The same however often this step begins.
            id: format!("{sender}.{key}"),
            name,
            // It becomes part of the logs of other executions.
            data: self.journal.redact_value(inputs.get("data").cloned().unwrap_or_default()),
            by: Some(format!("execution {sender}")),
        };
        let id = signal.id.clone();
        let starts = self.context.starts_of(
            &signal,
            Some(EventSender {
                execution: sender,
                step: key,
                trace: self.chain_of_run(),
                is_test: self.origin.is_test(),
            }),
        );
        let starts = starts.map_err(Exit::Failed)?;
        if starts.is_loop {
            self.report_loop(&signal.name, key).await;
        }
        let may_repeat = self.journal.may_have_begun(key);
        match self.starter.clone().emit(signal, sender, may_repeat).await {
            Ok(sent) => {
                if let Some(row) = starts.row {
                    self.journal.send_event(key, row.at(self.events.next_place(Some(sender))));
                }
                let triggers: Value = starts.triggers.iter().map(|name| Value::from(name.as_str())).collect();
                Ok(Value::from(Map::from_iter([
                    ("delivered", Value::from(sent.delivered)),
                    ("id", Value::from(id)),
                    ("starts", triggers),
                ])))
            }
            Err(Error::Closing) if !self.context.accepting() => Err(Exit::ShuttingDown),
            // The step is repeated, and the steps that have the event already know it.
            Err(Error::Store(error)) => Err(Exit::StoreFailed(Arc::new(error))),
            Err(error) => Err(Exit::Failed(ActionError::new(ErrorKind::Internal, error.to_string()))),
        }
    }

    /// Reports that an event starts nothing, since the chain of executions that led to it is too long.
    async fn report_loop(&self, event: &str, key: &str) {
        self.context.rejections.count(Some(&self.deployment.automation.id), "loop_detected");
        let most = self.context.settings.limits.chain;
        let message = format!(
            "the event `{event}` starts nothing: it comes from a chain of {most} executions that started one another, which is \
             the most (`limits.chain`)"
        );
        self.journal.log(LogLevel::Warn, Some(key), &message);
        let id = format!("event:{}.{key}", self.journal.id());
        self.raise_dropped_event(event, &id, &message).await;
    }
}
