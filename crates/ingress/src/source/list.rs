//! The list of poisoned messages, which could not start an execution. It is kept in the store's state, in scopes that no automation
//! can address: one with what lists show, and one with the content.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use catalog::Mount;
use connector::Message;
use jiff::Timestamp;
use model::automation::{AutomationId, TriggerId, TriggerKey};
use serde::{Deserialize, Serialize};
use store::{Accept, OutboxRow, StateWrite};
use value::{JsonLimits, Map, Value};

use super::Streamed;
use super::intake::Prepared;
use super::message::{Identity, Reading};
use crate::ingress::Ingress;

/// The maximum number of messages of an automation. Beyond it they stay at the broker.
const MAX_MESSAGES: usize = 1000;
/// The maximum size of a kept body, in bytes. A larger one is cut, and cannot be tried again from the list.
const MAX_KEPT: usize = 512 << 10;
/// The maximum size of kept headers, as JSON, in bytes.
const MAX_HEADERS: usize = 64 << 10;
/// The number of rows of one page.
const PAGE: u32 = 1000;

/// A message that started nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoisonedMessage {
    /// The id in the list, unique in the automation.
    pub id: String,
    /// The automation.
    #[schema(value_type = String)]
    pub automation: AutomationId,
    /// The trigger.
    #[schema(value_type = String)]
    pub trigger: TriggerId,
    /// The identity at the broker.
    pub message: String,
    /// The stream or queue.
    pub source: String,
    /// The subject, routing key or key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The size of the body in bytes.
    pub size: u64,
    /// The reason why it started nothing.
    pub error: String,
    /// When it came into the list.
    pub at: Timestamp,
    /// True if only the begin of its body, or none of its headers, is kept: it cannot be tried again from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Error of an operation on the list.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// There is no such message.
    #[error("there is no message `{0}` in the list; `cogwork messages list` shows them")]
    NotFound(String),
    /// Only a part of the message is kept.
    #[error(
        "only the begin of the message `{0}` is kept, since it is too large; publish it again at its source"
    )]
    Cut(String),
    /// The trigger is not in force.
    #[error("the trigger `{}` is not in force", .0.name())]
    NoTrigger(TriggerKey),
    /// It cannot start an execution again.
    #[error("the message still starts nothing: {0}")]
    Fails(String),
    /// The engine did not accept the execution.
    #[error(transparent)]
    Engine(#[from] runtime::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

fn scope(automation: &AutomationId) -> String {
    format!("messages:{automation}")
}

fn content_scope(automation: &AutomationId) -> String {
    format!("messageContents:{automation}")
}

/// Returns the content to keep, and true if something was left out.
fn content(message: &Message) -> (Value, bool) {
    let headers = Value::from(message.headers.clone());
    let has_headers = headers.to_json().len() <= MAX_HEADERS;
    let kept = message.body.get(..MAX_KEPT).unwrap_or(&message.body);
    let content = Map::from_iter([
        ("body", Value::from(BASE64_STANDARD.encode(kept))),
        ("headers", if has_headers { headers } else { Value::Null }),
        ("properties", Value::from(message.properties.clone())),
        ("at", message.at.map(|at| Value::from(at.to_string())).unwrap_or_default()),
    ]);
    (Value::from(content), kept.len() < message.body.len() || !has_headers)
}

/// Returns the message of kept parts.
fn restored(kept: &PoisonedMessage, content: &Value) -> Option<Message> {
    let map = |name: &str| content.get(name).and_then(|map| map.as_map().cloned()).unwrap_or_default();
    let body = BASE64_STANDARD.decode(content.get("body")?.as_str()?).ok()?;
    Some(Message {
        token: 0,
        id: kept.message.clone(),
        is_identified: true,
        source: kept.source.clone(),
        key: kept.key.clone(),
        body: body.into(),
        headers: map("headers"),
        properties: map("properties"),
        at: content.get("at").and_then(|at| at.as_str()?.parse().ok()),
        redelivered: true,
    })
}

fn listed(value: &Value) -> Option<PoisonedMessage> {
    serde_json::from_str(&value.to_json()).ok()
}

impl Ingress {
    /// Adds a message to the list, with an event for triggers on failures. Returns false if the list is full, or the store failed.
    pub(super) async fn keep_message(
        &self,
        mount: &Mount,
        message: &Message,
        key: &[u8; 32],
        reason: &str,
    ) -> bool {
        let (trigger, now) = (mount.key(), self.context.clock.now());
        let (content, cut) = content(message);
        let entry = PoisonedMessage {
            id: hex::encode(&key[..16]),
            automation: trigger.automation.clone(),
            trigger: trigger.trigger.clone(),
            message: message.id.clone(),
            source: message.source.clone(),
            key: message.key.clone(),
            size: u64::try_from(message.body.len()).unwrap_or(u64::MAX),
            error: reason.to_owned(),
            at: now,
            cut,
        };
        match self.add_message(entry.clone(), content).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::error!(%trigger, "the message list is full; drop or retry messages with `cogwork messages`");
                return false;
            }
            Err(error) => {
                self.context.lost(&error);
                return false;
            }
        }
        self.context.metrics.messages_poisoned.increment();
        self.store_rows(self.poisoned_message(mount, &entry.id, reason)).await;
        true
    }

    /// Returns false if the list is full. A message that is in the list stays as it is.
    async fn add_message(&self, entry: PoisonedMessage, content: Value) -> Result<bool, store::Error> {
        let _alone = self.sources.list.lock().await;
        let present = self.messages_of(&entry.automation).await?;
        if present.iter().any(|other| other.id == entry.id) {
            return Ok(true);
        }
        if present.len() >= MAX_MESSAGES {
            return Ok(false);
        }
        let write = |scope: String, value: Value| StateWrite {
            scope,
            key: entry.id.clone(),
            expected: None,
            value: Some(value),
            expires_at: None,
        };
        let about = serde_json::to_vec(&entry).ok();
        let about =
            about.and_then(|json| Value::from_json(&json, JsonLimits::default()).ok()).unwrap_or_default();
        let writes =
            vec![write(scope(&entry.automation), about), write(content_scope(&entry.automation), content)];
        match self.context.store.write_state(writes).await {
            // Another node has just added it.
            Ok(()) | Err(store::Error::StateChanged { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Lists the poisoned messages of an automation, the newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn messages_of(&self, automation: &AutomationId) -> Result<Vec<PoisonedMessage>, store::Error> {
        let (scope, mut found, mut after) = (scope(automation), Vec::new(), None::<String>);
        loop {
            let page = self.context.store.list_state(&scope, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            found.extend(page.iter().filter_map(|row| listed(&row.entry.value)));
        }
        found.sort_by(|one: &PoisonedMessage, other| (other.at, &other.id).cmp(&(one.at, &one.id)));
        Ok(found)
    }

    /// Lists the poisoned messages of all automations in force, the newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn messages(&self) -> Result<Vec<PoisonedMessage>, store::Error> {
        let catalog = self.context.catalog.load_full();
        let mut found = Vec::new();
        for deployment in catalog.automations() {
            found.extend(self.messages_of(&deployment.automation.id).await?);
        }
        found.sort_by(|one, other| (other.at, &other.id).cmp(&(one.at, &one.id)));
        Ok(found)
    }

    /// Returns a message of the list with its content: `body`, base64, and `headers`, `properties` and `at`.
    ///
    /// # Errors
    /// There is no such message, or the store failed.
    pub async fn message(
        &self,
        automation: &AutomationId,
        id: &str,
    ) -> Result<(PoisonedMessage, Value), MessageError> {
        let about = self.context.store.read_state(&scope(automation), id).await?;
        let content = self.context.store.read_state(&content_scope(automation), id).await?;
        let found = about.and_then(|about| listed(&about.value)).zip(content.map(|content| content.value));
        found.ok_or_else(|| MessageError::NotFound(id.to_owned()))
    }

    /// Starts an execution with a message of the list, and removes it from there.
    ///
    /// # Errors
    /// There is no such message, it still starts nothing, or the store failed. Then it stays in the list.
    pub async fn retry_message(
        &self,
        automation: &AutomationId,
        id: &str,
    ) -> Result<PoisonedMessage, MessageError> {
        let (kept, content) = self.message(automation, id).await?;
        if kept.cut {
            return Err(MessageError::Cut(id.to_owned()));
        }
        let message = restored(&kept, &content).ok_or_else(|| MessageError::NotFound(id.to_owned()))?;
        let catalog = self.context.catalog.load_full();
        let trigger = TriggerKey::new(kept.automation.clone(), kept.trigger.clone());
        let mount = catalog.trigger(&trigger).filter(Mount::is_enabled);
        let mount = mount.filter(|mount| Streamed::of(mount, &catalog).is_some());
        let mount = mount.ok_or_else(|| MessageError::NoTrigger(trigger.clone()))?;
        let inputs = self.event_inputs(&mount).await.map_err(MessageError::Fails)?;
        let reading = Reading::of(&inputs).map_err(MessageError::Fails)?;
        let data = reading.data(&message).map_err(MessageError::Fails)?;
        let identity = Streamed::of(&mount, &catalog).map(|streamed| Identity::of(streamed.event));
        let key = identity.map(|identity| identity.key(&trigger.trigger.to_string(), &message, &data));
        let key = key.transpose().map_err(MessageError::Fails)?.flatten();
        let data = if self.delivers_lists(&mount) { Value::from(vec![data]) } else { data };
        match self.message_start(&mount, data, key.as_slice()).await {
            Prepared::Starts(start) => {
                let starts = vec![*start];
                self.admission.accept_batch(&mount.deployment, starts, Accept::default()).await?;
            }
            Prepared::Nothing => {}
            Prepared::NotNow => return Err(MessageError::Fails("a secret cannot be read now".to_owned())),
            Prepared::Fails(reason) => return Err(MessageError::Fails(reason)),
        }
        self.drop_message(automation, id).await?;
        Ok(kept)
    }

    fn delivers_lists(&self, mount: &Mount) -> bool {
        let catalog = self.context.catalog.load();
        Streamed::of(mount, &catalog).is_some_and(|streamed| {
            streamed.event.deliver.is_some_and(|(deliver, _)| deliver == model::automation::Delivery::Batch)
        })
    }

    /// Removes a message from the list.
    ///
    /// # Errors
    /// There is no such message, or the store failed.
    pub async fn drop_message(&self, automation: &AutomationId, id: &str) -> Result<(), MessageError> {
        let mut writes = Vec::new();
        for scope in [scope(automation), content_scope(automation)] {
            if let Some(entry) = self.context.store.read_state(&scope, id).await? {
                let expected = Some(entry.version);
                writes.push(StateWrite {
                    scope,
                    key: id.to_owned(),
                    expected,
                    value: None,
                    expires_at: None,
                });
            }
        }
        if writes.is_empty() {
            return Err(MessageError::NotFound(id.to_owned()));
        }
        Ok(self.context.store.write_state(writes).await?)
    }

    /// Stores rows for triggers on failures.
    pub(super) async fn store_rows(&self, emits: Vec<OutboxRow>) {
        if emits.is_empty() {
            return;
        }
        let accept = Accept { emits, ..Accept::default() };
        match self.context.store.accept(&accept).await {
            Ok(_) => self.rows_committed(&accept.emits),
            Err(error) => self.context.lost(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn message(body: usize, header: usize) -> Message {
        Message {
            token: 1,
            id: "ORDERS@1:7".to_owned(),
            is_identified: true,
            source: "ORDERS".to_owned(),
            key: Some("orders.new".to_owned()),
            body: vec![b'x'; body].into(),
            headers: Map::from_iter([("Tenant", "a".repeat(header))]),
            properties: Map::from_iter([("sequence", 7)]),
            at: "2026-03-02T08:00:00Z".parse().ok(),
            redelivered: false,
        }
    }

    #[test]
    fn a_kept_message_is_cut_above_its_limits_and_says_so() {
        assert!(!content(&message(MAX_KEPT, 10)).1);
        let (kept, cut) = content(&message(MAX_KEPT + 1, 10));
        let body = BASE64_STANDARD.decode(kept.get("body").expect("a body").to_text()).expect("base64");
        assert_eq!((cut, body.len()), (true, MAX_KEPT));
        let (kept, cut) = content(&message(10, MAX_HEADERS));
        assert_eq!((cut, kept.get("headers")), (true, Some(Value::Null)));
        let largest = content(&message(MAX_KEPT, MAX_HEADERS - 100)).0.to_json().len();
        assert!(largest < StateWrite::MAX_VALUE_BYTES, "{largest}");
    }

    #[test]
    fn a_kept_message_is_restored_as_it_came() {
        let message = message(10, 10);
        let entry = PoisonedMessage {
            id: "0f".to_owned(),
            automation: AutomationId::parse("orders").expect("an id"),
            trigger: TriggerId::MAIN,
            message: message.id.clone(),
            source: message.source.clone(),
            key: message.key.clone(),
            size: 10,
            error: "no JSON".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            cut: false,
        };
        let restored = restored(&entry, &content(&message).0).expect("it is complete");
        assert_eq!(restored, Message { token: 0, redelivered: true, ..message });
        let json = serde_json::to_string(&entry).expect("JSON");
        let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
        assert_eq!(listed(&value), Some(entry));
    }
}
