//! Calls the connector's actions that subscribe, unsubscribe and list subscriptions.

use std::time::Duration;

use connector::{Call, LogSink, SubscribedEvent};
use model::LogLevel;
use model::action::{ActionError, ActionSpec};
use model::automation::TriggerKey;
use runtime::Share;
use store::Subscription;
use value::{Map, Reserved, Value};

use crate::ingress::Ingress;
use catalog::{Catalog, Mount, trigger_hook};

/// Time limit of a call (semantics 3.8).
const DEADLINE: Duration = Duration::from_secs(30);

impl Ingress {
    /// Subscribes. Returns the inputs and the remote id of the subscription. Both are stored, and so is the error: none
    /// of them contains a secret.
    pub(super) async fn subscribe(&self, wanted: &Subscription) -> Result<(Map, Value), String> {
        let made = self.create_subscription(wanted).await;
        made.map_err(|error| self.context.settings.redactor.redact_message(&error).into_owned())
    }

    async fn create_subscription(&self, wanted: &Subscription) -> Result<(Map, Value), String> {
        let catalog = self.context.catalog.load_full();
        let mount = catalog.trigger(&wanted.trigger).ok_or("the trigger no longer exists")?;
        let (_, hook) = trigger_hook(mount.on(), &catalog).ok_or("its trigger is a different event now")?;
        if self.context.settings.public_url.is_none() {
            return Err(
                "other systems cannot reach this daemon: set `publicUrl` to its public address".to_owned()
            );
        }
        let inputs = self.event_inputs(&mount).await?;
        let stored = Value::from(inputs.clone());
        if self.context.settings.redactor.redact_value(stored.clone()) != stored {
            // Unsubscribing needs the inputs again, and masked ones would not work.
            return Err("an input of the event contains a secret; put it into the connection".to_owned());
        }
        let secret = self.event_secret(wanted.secret_trigger.as_ref().unwrap_or(&wanted.trigger));
        self.context.settings.redactor.add_secret(&secret);
        let mut with = hook.with.clone();
        for (name, value) in inputs.iter() {
            with.insert(name.clone(), value.clone());
        }
        with.insert(hook.url.as_str(), self.event_url(&mount, wanted.test));
        with.insert(hook.secret.as_str(), secret);
        let request = Subscription {
            inputs: inputs.clone(),
            url: self.event_url(&mount, wanted.test),
            ..wanted.clone()
        };
        if wanted.requested {
            // An earlier request has an unknown result: the subscription may exist already.
            if let Some(remote) = self.adopt_orphan(&catalog, &hook, &request).await? {
                return Ok((inputs, remote));
            }
        } else {
            // Recorded before the request: after a crash in between, the subscription would otherwise be unknown here.
            if !self.record_request(&request).await {
                return Err("the store could not record the request".to_owned());
            }
        }
        let result = self
            .call_action(&catalog, wanted, &hook.subscribe, &with)
            .await
            .map_err(ActionError::into_message)?;
        let remote = result.path(&hook.id).filter(|id| !id.is_null());
        let remote = remote.ok_or_else(|| format!("`{}` returned no id at `{}`", hook.subscribe, hook.id))?;
        Ok((inputs, remote))
    }

    /// Unsubscribes. A subscription that no longer exists counts as removed.
    pub(super) async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), String> {
        let gone = self.remove_subscription(subscription).await;
        gone.map_err(|error| self.context.settings.redactor.redact_message(&error).into_owned())
    }

    async fn remove_subscription(&self, subscription: &Subscription) -> Result<(), String> {
        if subscription.remote.is_null() && !subscription.requested {
            return Ok(());
        }
        let catalog = self.context.catalog.load_full();
        let hook = event_hook(&catalog, &subscription.event)?;
        if subscription.remote.is_null() {
            return self.delete_orphans(&catalog, &hook, subscription).await;
        }
        self.delete_remote(&catalog, &hook, subscription, &subscription.remote).await
    }

    /// Deletes the remote subscription with the id `remote`. A missing one counts as deleted.
    pub(super) async fn delete_remote(
        &self,
        catalog: &Catalog,
        hook: &SubscribedEvent,
        subscription: &Subscription,
        remote: &Value,
    ) -> Result<(), String> {
        let action = catalog.registry().action(&hook.unsubscribe).cloned();
        let action = action.ok_or_else(|| format!("the action `{}` no longer exists", hook.unsubscribe))?;
        let mut with = declared_inputs(action.spec(), &subscription.inputs);
        if let Some(input) = &hook.id_input {
            with.insert(input.as_str(), remote.clone());
        }
        match self.call_action(catalog, subscription, &hook.unsubscribe, &with).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.status, Some(404 | 410)) => Ok(()),
            Err(error) => Err(error.into_message()),
        }
    }

    /// Secret that authenticates the sender of a trigger's event.
    pub(super) fn secret_of(&self, trigger: &TriggerKey) -> String {
        let first = self.subscriptions.table().secret_trigger(trigger).cloned();
        self.event_secret(first.as_ref().unwrap_or(trigger))
    }

    /// Derives a secret from the store's, so that it stays the same.
    fn event_secret(&self, trigger: &TriggerKey) -> String {
        hex::encode(self.context.secret.derive(&[b"event", trigger.to_string().as_bytes()]))
    }

    /// Evaluates the inputs of the event of a trigger.
    pub(crate) async fn event_inputs(&self, mount: &Mount) -> Result<Map, String> {
        let automation = &mount.deployment.automation;
        let config_vars =
            self.context.secrets.config_vars(automation).await.map_err(ActionError::into_message)?;
        let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
        let scope = Value::from(Map::from_iter([
            ("configVars", Value::from(config_vars)),
            ("automation", Value::from(about)),
        ]));
        let mut inputs = Map::new();
        for (name, template) in mount.on().call().into_iter().flat_map(|call| &call.with) {
            let value = template
                .evaluate(&scope, &value::Budget::default())
                .map_err(|error| format!("input `{}`: {error}", name.name))?;
            inputs.insert(name.name.as_str(), value);
        }
        Ok(inputs)
    }

    pub(super) async fn call_action(
        &self,
        catalog: &Catalog,
        about: &Subscription,
        name: &str,
        with: &Map,
    ) -> Result<Value, ActionError> {
        let wrong = |message: String| ActionError::new(model::action::ErrorKind::Input, message);
        let action = catalog.registry().action(name).cloned();
        let action = action.ok_or_else(|| wrong(format!("the action `{name}` no longer exists")))?;
        let inputs = connector::check_inputs(action.spec(), with, &Reserved::nothing())?;
        let connection = match &about.connection {
            Some(name) => Some(self.connections.connect(catalog, name).await?),
            None => None,
        };
        // The inputs contain no files.
        let (memory, share) = (Reserved::nothing(), Share::default());
        let call = Call {
            inputs: &inputs,
            connection: connection.as_ref(),
            idempotency_key: &about.id,
            memory: &memory,
            answers: &self.context.answer_memory(&share),
            http: &self.context.http,
            debug: false,
            log: &DaemonLog,
            trace: None,
            files: self.context.file_access(),
            time_left: None,
        };
        tokio::select! {
            biased;
            result = action.call(call) => result,
            () = self.context.clock.sleep_for(DEADLINE) => {
                Err(wrong(format!("there was no answer within {}", text::units::format_duration(DEADLINE))))
            }
            () = self.context.closing.cancelled() => Err(wrong("the daemon is stopping".to_owned())),
        }
    }
}

/// Returns those inputs of an event that the action declares.
pub(super) fn declared_inputs(action: &ActionSpec, inputs: &Map) -> Map {
    let takes = |name: &str| action.inputs.iter().any(|input| input.name == name);
    let declared = inputs.iter().filter(|(name, _)| takes(name));
    declared.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the subscription calls of an event. Needs no Automation, which may have been deleted.
fn event_hook(catalog: &Catalog, event: &str) -> Result<SubscribedEvent, String> {
    match catalog.registry().event(event).map(|spec| &spec.source) {
        Some(connector::EventSource::Hook(hook)) => Ok(hook.clone()),
        _ => Err(format!("the event `{event}` no longer exists, so its subscription cannot be removed")),
    }
}

/// Writes the log lines of an action to the daemon's log, since no execution owns them.
struct DaemonLog;

impl LogSink for DaemonLog {
    fn line(&self, level: LogLevel, message: &str) {
        tracing::debug!(?level, message, "a subscription");
    }
}
