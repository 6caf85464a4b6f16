//! Calls the connector's actions that subscribe, unsubscribe and list subscriptions.

use std::sync::OnceLock;
use std::time::Duration;

use connector::{Call, LogSink, SubscribedEvent};
use jiff::Timestamp;
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

/// A subscription as the other application has it.
pub(super) struct Subscribed {
    /// The inputs of the event.
    pub(super) inputs: Map,
    /// The remote id; null if it has to be made again.
    pub(super) remote: Value,
    /// The time of the next renewal; `None` if it lasts.
    pub(super) next_at: Option<Timestamp>,
}

impl Ingress {
    /// Subscribes. The result is stored, and so is the error: neither contains a secret.
    pub(super) async fn subscribe(&self, wanted: &Subscription) -> Result<Subscribed, String> {
        let made = self.create_subscription(wanted).await;
        made.map_err(|error| self.context.settings.redactor.redact_message(&error).into_owned())
    }

    async fn create_subscription(&self, wanted: &Subscription) -> Result<Subscribed, String> {
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
        if let Some(input) = &hook.secret {
            with.insert(input.as_str(), secret);
        }
        let now = self.context.clock.now();
        let renew = hook.renew.as_deref();
        renew
            .into_iter()
            .flat_map(|renew| renew.inputs(now))
            .for_each(|(name, end)| drop(with.insert(name, end)));
        let request = Subscription {
            inputs: inputs.clone(),
            url: self.event_url(&mount, wanted.test),
            ..wanted.clone()
        };
        if wanted.requested && hook.secret_from.is_some() {
            // The secret of a subscription whose answer was lost is unknown: it is made again.
            self.delete_orphans(&catalog, &hook, &request).await?;
        } else if wanted.requested {
            // An earlier request has an unknown result: the subscription may exist already.
            if let Some(remote) = self.adopt_orphan(&catalog, &hook, &request).await? {
                // Its end is unknown, so it is renewed at once.
                return Ok(Subscribed { inputs, remote, next_at: renew.map(|_| now) });
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
        if let Some(path) = &hook.secret_from
            && let Err(error) = self.keep_given_secret(wanted, path, &result).await
        {
            self.delete_remote(&catalog, &hook, wanted, &remote).await?;
            return Err(format!("`{}`: {error}", hook.subscribe));
        }
        let next_at = renew.map(|renew| renew.next_at(&result, now));
        Ok(Subscribed { inputs, remote, next_at })
    }

    /// Keeps the secret that an application gave with a subscription, before the subscription counts as made.
    async fn keep_given_secret(
        &self,
        wanted: &Subscription,
        path: &str,
        result: &Value,
    ) -> Result<(), String> {
        let secret = result.path(path).and_then(|secret| secret.as_str().map(str::to_owned));
        let secret = secret.filter(|secret| !secret.is_empty());
        let secret = secret.ok_or_else(|| format!("it returned no secret at `{path}`"))?;
        let trigger = wanted.secret_trigger.as_ref().unwrap_or(&wanted.trigger);
        let kept = self.context.keep_subscription_secret(trigger, wanted.test, &secret).await;
        kept.map_err(|error| format!("the secret that it returned cannot be kept: {error}"))
    }

    /// Deletes the secret that an application gave with a subscription, unless another subscription of the address has taken its place.
    pub(super) async fn forget_given_secret(&self, gone: &Subscription) {
        let trigger = gone.secret_trigger.as_ref().unwrap_or(&gone.trigger);
        let same = |one: &Subscription| {
            one.id != gone.id
                && one.test == gone.test
                && one.secret_trigger.as_ref().unwrap_or(&one.trigger) == trigger
        };
        if self.subscriptions.table().all().any(|(one, ..)| same(one)) {
            return;
        }
        if let Err(error) = self.context.forget_subscription_secret(trigger, gone.test).await {
            tracing::warn!(trigger = %gone.trigger, %error, "the secret of a subscription that has ended could not be deleted");
        }
    }

    /// Renews a subscription that would end. If the other application has it no more, the result has no remote id: it has to be made
    /// again.
    pub(super) async fn renew_subscription(&self, subscription: &Subscription) -> Result<Subscribed, String> {
        let renewed = self.renew_remote(subscription).await;
        renewed.map_err(|error| self.context.settings.redactor.redact_message(&error).into_owned())
    }

    async fn renew_remote(&self, subscription: &Subscription) -> Result<Subscribed, String> {
        let catalog = self.context.catalog.load_full();
        let hook = event_hook(&catalog, &subscription.event)?;
        let (inputs, remote) = (subscription.inputs.clone(), subscription.remote.clone());
        // The connector may have changed since the subscription was made.
        let Some(renew) = &hook.renew else { return Ok(Subscribed { inputs, remote, next_at: None }) };
        let action = catalog.registry().action(&renew.action).cloned();
        let action = action.ok_or_else(|| format!("the action `{}` no longer exists", renew.action))?;
        let mut with = declared_inputs(action.spec(), &inputs);
        let now = self.context.clock.now();
        for (name, value) in renew.with.iter().map(|(name, value)| (name.clone(), value.clone())) {
            with.insert(name, value);
        }
        renew.inputs(now).into_iter().for_each(|(name, end)| drop(with.insert(name, end)));
        if let Some(input) = &renew.id_input {
            with.insert(input.as_str(), remote.clone());
        }
        match self.call_action(&catalog, subscription, &renew.action, &with).await {
            Ok(result) => {
                let next_at = Some(renew.next_at(&result, now));
                Ok(Subscribed { inputs, remote, next_at })
            }
            Err(error) if matches!(error.status, Some(404 | 410)) => {
                Ok(Subscribed { inputs, remote: Value::Null, next_at: Some(now) })
            }
            Err(error) => Err(error.into_message()),
        }
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
        if let Some(other) =
            self.replacement(&catalog, &hook, subscription).await.map_err(|error| error.to_string())?
        {
            // The node that has it does not hear of this removal.
            if !self.peers.shards.has(&other.trigger.automation) {
                self.subscribe_for_other_node(&catalog, &hook, subscription, other).await?;
            }
            return Ok(());
        }
        if subscription.remote.is_null() {
            return self.delete_orphans(&catalog, &hook, subscription).await;
        }
        self.delete_remote(&catalog, &hook, subscription, &subscription.remote).await
    }

    /// Returns the subscription to put in force in place of `removed`, if the application keeps a single subscription: without an id, removing
    /// one removes the other. `None` if no other is wanted, or the application tells subscriptions apart.
    pub(super) async fn replacement(
        &self,
        catalog: &Catalog,
        hook: &SubscribedEvent,
        removed: &Subscription,
    ) -> Result<Option<Subscription>, store::Error> {
        if hook.id_input.is_some() {
            return Ok(None);
        }
        let table = |(one, ..): (&Subscription, _, _)| one.clone();
        let mut others: Vec<Subscription> = self.subscriptions.table().all().map(table).collect();
        if self.context.store.node().is_some() {
            let stored = self.context.store.subscriptions().await?;
            let known = |id: &str| others.iter().any(|other| other.id == id);
            let elsewhere: Vec<_> = stored.into_iter().filter(|one| !known(&one.id)).collect();
            others.extend(elsewhere);
        }
        let action = catalog.registry().action(&hook.unsubscribe);
        let about = |one: &Subscription| action.map(|action| declared_inputs(action.spec(), &one.inputs));
        let same = |other: &Subscription| {
            let other_hook = event_hook(catalog, &other.event);
            other.id != removed.id
                && !other.removing
                && (other.requested || !other.remote.is_null())
                && other.connection == removed.connection
                && other_hook.is_ok_and(|other| other.subscribe == hook.subscribe)
                && about(other) == about(removed)
        };
        Ok(others.into_iter().filter(same).max_by_key(|other| other.since))
    }

    /// Subscribes again for a subscription of another node that is to be in force where `removed` was.
    async fn subscribe_for_other_node(
        &self,
        catalog: &Catalog,
        hook: &SubscribedEvent,
        removed: &Subscription,
        other: Subscription,
    ) -> Result<(), String> {
        let (id, url) = (other.id.clone(), other.url.clone());
        self.create_subscription(&Subscription { requested: true, ..other }).await?;
        match self.replacement(catalog, hook, removed).await.map_err(|error| error.to_string())? {
            Some(now) if now.id == id && now.url == url => Ok(()),
            _ => Err("the subscription that takes its place changed meanwhile".to_owned()),
        }
    }

    /// Subscribes again for the subscription that is to be in force where `removed` was.
    pub(super) async fn subscribe_again(&self, removed: &Subscription) {
        if removed.remote.is_null() && !removed.requested {
            return;
        }
        let catalog = self.context.catalog.load_full();
        let Ok(hook) = event_hook(&catalog, &removed.event) else { return };
        let mut again = match self.replacement(&catalog, &hook, removed).await {
            Ok(Some(again)) => again,
            Ok(None) => return,
            Err(error) => return self.context.lost(&error),
        };
        // For another node it was done before the removal. An entry in memory may be from a time when this node had the shard.
        if !self.peers.shards.has(&again.trigger.automation) {
            return;
        }
        (again.remote, again.requested, again.failures) = (Value::Null, false, 0);
        again.next_at = Some(self.context.clock.now());
        self.store_subscription(again).await;
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

    /// Secret that authenticates the sender of a trigger's event: in the connection, or given by the application, if the hook says so.
    pub(super) async fn sender_secret(
        &self,
        catalog: &Catalog,
        (mount, is_test): (&Mount, bool),
        hook: &SubscribedEvent,
    ) -> Result<String, ActionError> {
        if hook.secret_from.is_some() {
            let key = mount.key();
            let first = self.subscriptions.table().secret_trigger(&key).cloned();
            let secret = self.context.subscription_secret(first.as_ref().unwrap_or(&key), is_test);
            let failed = |message| ActionError::new(model::action::ErrorKind::Connection, message);
            let secret = secret.map_err(|error| failed(error.to_string()))?;
            // The application may send before its answer, with the secret, has arrived: then it tries again.
            // A challenge, which needs no secret, is answered until then.
            let unknown = || hook.challenge.as_ref().map(|_| self.secret_of(&key));
            return secret.map(|secret| secret.to_string()).or_else(unknown).ok_or_else(|| {
                failed("the application has not given the secret yet".to_owned())
                    .with_code(runtime::PROVIDER_FAILURE)
            });
        }
        let Some(input) = &hook.verify_secret else { return Ok(self.secret_of(&mount.key())) };
        let call = mount.on().call();
        let name = call.and_then(|call| call.connection.as_ref()?.literal()).map(|name| name.name.as_str());
        let missing =
            || ActionError::new(model::action::ErrorKind::Connection, format!("`{input}` is not set"));
        let connection = self.connections.connect(catalog, name.ok_or_else(missing)?).await?;
        match connection.values.get(input.as_str()) {
            Some(connector::ConnectionValue::Secret(secret)) if !secret.expose().is_empty() => {
                Ok(secret.expose().to_owned())
            }
            _ => Err(missing()),
        }
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
            may_repeat: false,
            memory: &memory,
            answers: &self.context.answer_memory(&share),
            http: &self.context.http,
            debug: false,
            log: &DaemonLog,
            trace: None,
            files: self.context.file_access(),
            time_left: None,
        };
        let renewed = OnceLock::new();
        let called = self.connections.call_renewing(catalog, (call, &renewed), |call| action.call(call));
        tokio::select! {
            biased;
            result = called => result,
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
