//! What is said to the other application, in the words of its connector's actions.

use std::time::Duration;

use connector::{Call, HookedEvent, LogSink};
use model::action::{ActionError, ActionSpec};
use model::execution::LogLevel;
use model::value::{Map, Value};
use store::Subscription;

use crate::catalog::{Catalog, Deployed, hooked};
use crate::services::Services;

/// The longest that the other application may take (semantics 3.8).
const DEADLINE: Duration = Duration::from_secs(30);

impl Services {
    /// Subscribes, and gives the inputs and what the other application calls the subscription. Both are stored, and so is
    /// the error: none of them holds a secret.
    pub(super) async fn subscribe(&self, wanted: &Subscription) -> Result<(Map, Value), String> {
        let made = self.make_subscription(wanted).await;
        made.map_err(|error| self.settings.redactor.message(&error).into_owned())
    }

    async fn make_subscription(&self, wanted: &Subscription) -> Result<(Map, Value), String> {
        let catalog = self.catalog.load_full();
        let deployed = catalog.get(&wanted.automation).ok_or("there is no such automation any more")?;
        let (_, hook) = hooked(deployed, &catalog).ok_or("it starts by another event now")?;
        if self.settings.public_url.is_none() {
            return Err(
                "nobody could reach this daemon: set `publicUrl` to the address under which others do"
                    .to_owned(),
            );
        }
        let inputs = self.event_inputs(deployed)?;
        let stored = Value::from(inputs.clone());
        if self.settings.redactor.value(stored.clone()) != stored {
            // Masked, it could not be taken back with them.
            return Err("an input of the event holds a secret; only its connection may".to_owned());
        }
        let secret = self.event_secret(&wanted.automation);
        self.settings.redactor.hide(&secret);
        let mut with = hook.with.clone();
        for (name, value) in inputs.iter() {
            with.insert(name.clone(), value.clone());
        }
        with.insert(hook.url.as_str(), self.event_url(deployed, wanted.test));
        with.insert(hook.secret.as_str(), secret);
        let asking = Subscription {
            inputs: inputs.clone(),
            url: self.event_url(deployed, wanted.test),
            ..wanted.clone()
        };
        if wanted.requested {
            // It was asked before, and what came of that is not known: it may have it.
            if let Some(remote) = self.take_over(&catalog, &hook, &asking).await? {
                return Ok((inputs, remote));
            }
        } else {
            // Written down first. Otherwise a crash in between would leave one there of which nobody knows here.
            self.note_asked(&asking).await;
        }
        let result =
            self.say(&catalog, wanted, &hook.subscribe, &with).await.map_err(ActionError::into_message)?;
        let remote = result.path(&hook.id).filter(|id| !id.is_null());
        let remote = remote.ok_or_else(|| format!("`{}` gave no id at `{}`", hook.subscribe, hook.id))?;
        Ok((inputs, remote))
    }

    /// Takes a subscription back. One that is not there any more is taken back.
    pub(super) async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), String> {
        let gone = self.ask_to_stop(subscription).await;
        gone.map_err(|error| self.settings.redactor.message(&error).into_owned())
    }

    async fn ask_to_stop(&self, subscription: &Subscription) -> Result<(), String> {
        if subscription.remote.is_null() && !subscription.requested {
            return Ok(());
        }
        let catalog = self.catalog.load_full();
        let hook = event_hook(&catalog, &subscription.event)?;
        if subscription.remote.is_null() {
            return self.take_back_orphans(&catalog, &hook, subscription).await;
        }
        self.take_back(&catalog, &hook, subscription, &subscription.remote).await
    }

    /// Takes back what the other application calls `remote`. What is not there any more is taken back.
    pub(super) async fn take_back(
        &self,
        catalog: &Catalog,
        hook: &HookedEvent,
        subscription: &Subscription,
        remote: &Value,
    ) -> Result<(), String> {
        let action = catalog.registry().action(&hook.unsubscribe).cloned();
        let action = action.ok_or_else(|| format!("there is no action `{}` any more", hook.unsubscribe))?;
        let mut with = taken(action.spec(), &subscription.inputs);
        with.insert(hook.id_input.as_str(), remote.clone());
        match self.say(catalog, subscription, &hook.unsubscribe, &with).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.status, Some(404 | 410)) => Ok(()),
            Err(error) => Err(error.into_message()),
        }
    }

    /// The secret by which the sender of an Automation's event is known: the same for as long as the store lives.
    pub(super) fn event_secret(&self, automation: &model::AutomationId) -> String {
        hex::encode(self.secret.derive(&[b"event", automation.as_str().as_bytes()]))
    }

    fn event_inputs(&self, deployed: &Deployed) -> Result<Map, String> {
        let automation = &deployed.automation;
        let config_vars = self.secrets.config_vars(automation).map_err(ActionError::into_message)?;
        let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
        let scope = Value::from(Map::from_iter([
            ("configVars", Value::from(config_vars)),
            ("automation", Value::from(about)),
        ]));
        let mut inputs = Map::new();
        for (name, template) in automation.trigger.asks().into_iter().flat_map(|asks| &asks.with) {
            let value = template
                .evaluate(&scope, &model::Budget::default())
                .map_err(|error| format!("input `{}`: {error}", name.name))?;
            inputs.insert(name.name.as_str(), value);
        }
        Ok(inputs)
    }

    pub(super) async fn say(
        &self,
        catalog: &Catalog,
        about: &Subscription,
        name: &str,
        with: &Map,
    ) -> Result<Value, ActionError> {
        let wrong = |message: String| ActionError::new(model::action::ErrorKind::Input, message);
        let action = catalog.registry().action(name).cloned();
        let action = action.ok_or_else(|| wrong(format!("there is no action `{name}` any more")))?;
        let inputs = connector::check_inputs(action.spec(), with)?;
        let connection = match &about.connection {
            Some(name) => Some(self.connect(catalog, name).await?),
            None => None,
        };
        let call = Call {
            inputs: &inputs,
            connection: connection.as_ref(),
            idempotency_key: &about.id,
            http: &self.http,
            debug: false,
            log: &Quiet,
            trace: None,
        };
        tokio::select! {
            biased;
            result = action.call(call) => result,
            () = self.clock.sleep_for(DEADLINE) => {
                Err(wrong(format!("there was no answer within {}", model::units::format_duration(DEADLINE))))
            }
            () = self.closing.cancelled() => Err(wrong("the daemon stops".to_owned())),
        }
    }
}

/// Those of the inputs of an event that an action takes.
pub(super) fn taken(action: &ActionSpec, inputs: &Map) -> Map {
    let takes = |name: &str| action.inputs.iter().any(|input| input.name == name);
    let taken = inputs.iter().filter(|(name, _)| takes(name));
    taken.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// How an event is subscribed to, whichever Automation it is for.
fn event_hook(catalog: &Catalog, event: &str) -> Result<HookedEvent, String> {
    match catalog.registry().event(event).map(|spec| &spec.source) {
        Some(connector::EventSource::Hook(hook)) => Ok(hook.clone()),
        _ => Err(format!("there is no event `{event}` any more to take back")),
    }
}

/// Takes the lines of an action that no execution called.
struct Quiet;

impl LogSink for Quiet {
    fn line(&self, level: LogLevel, message: &str) {
        tracing::debug!(?level, message, "a subscription");
    }
}
