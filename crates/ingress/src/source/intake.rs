//! One commit: the executions of some messages with their ids, and then the acknowledgements.

use std::time::Duration;

use connector::{Fate, Message, MessageSource, TakeLimits};
use jiff::{SignedDuration, Timestamp};
use model::action::ActionError;
use model::automation::Delivery;
use model::execution::Origin;
use model::payload::Payload;
use runtime::{NewStart, Start};
use store::{Accept, AcceptOutcome, DedupRecord};
use value::Value;

use super::consumer::{Consumer, Plan};
use super::message::dedup_key;
use crate::ingress::Ingress;
use catalog::Mount;

/// The maximum size of the messages of one commit, in bytes; one message may be larger.
pub(super) const MAX_BYTES: usize = 8 << 20;
/// The time for which the id of a message is known after its execution was accepted.
const ID_WINDOW: SignedDuration = SignedDuration::from_hours(24 * 7);
/// The size of messages from which they are parsed apart from the threads of tokio, in bytes.
const LARGE: usize = 256 << 10;
/// The time after which messages come again that could not be accepted for the moment.
const AGAIN: Duration = Duration::from_secs(1);
/// The time after which a message comes again that has no room in the list.
const NO_LIST: Duration = Duration::from_secs(60);
/// The maximum number of attempts to accept a batch of which some messages have just been accepted elsewhere.
const MAX_BATCHES: usize = 3;

/// The result of taking messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// They are accepted, or come again.
    Done,
    /// Another node has the shard, or is to get it. They come again.
    NotHere,
}

/// A message with what becomes of it.
struct Read {
    message: Message,
    /// Its key among the messages that start nothing.
    key: [u8; 32],
    /// The key by which it starts an execution once; `None` if nothing identifies it.
    identity: Option<[u8; 32]>,
    /// The data of an execution, or the reason for their absence.
    data: Result<Value, String>,
}

/// The fate of each message, and the messages that started nothing.
#[derive(Default)]
struct Fates {
    fates: Vec<(u64, Fate)>,
    failed: Vec<(Message, [u8; 32], String)>,
    accepted: u64,
    repeated: u64,
}

impl Fates {
    fn all(&mut self, reads: &[Read], fate: Fate) {
        self.fates.extend(reads.iter().map(|read| (read.message.token, fate)));
    }

    fn fail(&mut self, reads: Vec<Read>, reason: &str) {
        self.failed.extend(reads.into_iter().map(|read| (read.message, read.key, reason.to_owned())));
    }
}

impl Consumer {
    /// Takes the messages that are there, accepts them in one commit, and settles them.
    pub(super) async fn intake(
        &mut self,
        plan: &Plan,
        source: &mut dyn MessageSource,
    ) -> Result<Taken, ActionError> {
        let ingress = self.ingress.clone();
        let shards = &ingress.peers.shards;
        let hold = shards.hold_shard(self.id.shard()).filter(|_| !shards.is_leaving(self.id.shard()));
        // The semaphore is never closed.
        let _slot = ingress.sources.intakes.acquire().await;
        let room = if hold.is_some() { plan.batch.max.min(ingress.admission.queue_room()).max(1) } else { 1 };
        let limits = TakeLimits { messages: room, bytes: MAX_BYTES, fill: plan.batch.within };
        let messages = source.take(limits).await?;
        if hold.is_none() {
            let back = messages.iter().map(|message| (message.token, Fate::Later(Duration::ZERO)));
            source.settle(back.collect()).await?;
            return Ok(Taken::NotHere);
        }
        let reads = ingress.read_messages(plan, messages).await;
        self.note_unidentified(&reads);
        let mut fates = Fates::default();
        match plan.deliver {
            Delivery::Each => ingress.accept_each(plan, reads, &mut fates).await,
            Delivery::Batch => ingress.accept_together(plan, reads, &mut fates).await,
        }
        // The process may have been frozen, and another one may have the messages now.
        ingress.context.http.dialer().pass_gate().await;
        self.settle(plan, source, fates).await?;
        Ok(Taken::Done)
    }

    /// Counts the messages without an identity, and warns of the first of them.
    fn note_unidentified(&self, reads: &[Read]) {
        let found = reads.iter().filter(|read| read.data.is_ok() && read.identity.is_none()).count();
        if found == 0 {
            return;
        }
        self.ingress.sources.change(&self.id, |view| {
            if view.unidentified == 0 {
                tracing::warn!(
                    trigger = %self.id.trigger,
                    code = "no-message-id",
                    "messages carry no message-id: each starts an execution whenever it comes; give `dedup.by` what identifies them"
                );
            }
            view.unidentified = view.unidentified.saturating_add(u64::try_from(found).unwrap_or(u64::MAX));
        });
    }

    async fn settle(
        &mut self,
        plan: &Plan,
        source: &mut dyn MessageSource,
        fates: Fates,
    ) -> Result<(), ActionError> {
        let Fates { fates, failed, accepted, repeated } = fates;
        let now = self.ingress.context.clock.now();
        self.ingress.sources.change(&self.id, |view| {
            view.accepted += accepted;
            view.repeated += repeated;
            view.last_at = Some(now);
        });
        // First, so that no failure of a copy makes them come again.
        source.settle(fates).await?;
        let (mut fates, mut poisoned, mut problem) = (Vec::new(), 0, None);
        for (message, key, reason) in failed {
            let reason = self.ingress.context.settings.redactor.redact_message(&reason).into_owned();
            let fate = match self.attempts.failed(key, plan.poison.after) {
                Some(pause) => Fate::Later(pause),
                None => match self.poison(plan, source, &message, &key, &reason).await {
                    Ok(true) => {
                        self.attempts.settled(&key);
                        poisoned += 1;
                        Fate::Done
                    }
                    Ok(false) => Fate::Later(NO_LIST),
                    Err(error) => {
                        problem = Some(error);
                        Fate::Later(NO_LIST)
                    }
                },
            };
            tracing::warn!(trigger = %self.id.trigger, message = message.id, reason, ?fate, "a message started nothing");
            fates.push((message.token, fate));
        }
        self.ingress.sources.change(&self.id, |view| view.poisoned += poisoned);
        source.settle(fates).await?;
        match problem {
            Some(error) => self.copy_failed(&plan.mount, error, NO_LIST).await,
            None if poisoned > 0 => self.copied(),
            None => {}
        }
        Ok(())
    }

    /// Adds a message to the list, and publishes its copy. Returns false if the list has no room.
    async fn poison(
        &self,
        plan: &Plan,
        source: &mut dyn MessageSource,
        message: &Message,
        key: &[u8; 32],
        reason: &str,
    ) -> Result<bool, ActionError> {
        if !self.ingress.keep_message(&plan.mount, message, key, reason).await {
            return Ok(false);
        }
        if let Some(to) = &plan.poison.to {
            let copied = source.forward(to, message, &format!("poison:{}", hex::encode(key)), reason).await;
            copied.map_err(|mut error| {
                error.message.insert_str(0, &format!("a message could not be copied to `{to}`: "));
                error
            })?;
        }
        Ok(true)
    }
}

impl Ingress {
    /// Reads messages, large ones apart from the threads of tokio.
    async fn read_messages(&self, plan: &Plan, messages: Vec<Message>) -> Vec<Read> {
        let (reading, identity) = (plan.reading, plan.identity.clone());
        let trigger = plan.mount.key().trigger.to_string();
        let size = messages.iter().map(|message| message.body.len()).fold(0, usize::saturating_add);
        let read = move || -> Vec<Read> {
            let read = |message: Message| {
                let key = dedup_key(&trigger, &message.id);
                let read = reading.data(&message).and_then(|data| {
                    let identity = identity.key(&trigger, &message, &data)?;
                    Ok((data, identity))
                });
                let (data, identity) = match read {
                    Ok((data, identity)) => (Ok(data), identity),
                    Err(reason) => (Err(reason), None),
                };
                Read { message, key, identity, data }
            };
            messages.into_iter().map(read).collect()
        };
        if size < LARGE {
            return read();
        }
        // After a panic the messages are not settled, and come again.
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    /// Accepts an execution for each message.
    async fn accept_each(&self, plan: &Plan, reads: Vec<Read>, fates: &mut Fates) {
        let (mut starts, mut started) = (Vec::new(), Vec::new());
        for read in reads {
            let prepared = match &read.data {
                Ok(data) => self.message_start(&plan.mount, data.clone(), read.identity.as_slice()).await,
                Err(reason) => Prepared::Fails(reason.clone()),
            };
            match prepared {
                Prepared::Starts(start) => {
                    starts.push(*start);
                    started.push(read);
                }
                Prepared::Nothing => fates.all(&[read], Fate::Done),
                Prepared::NotNow => fates.all(&[read], Fate::Later(AGAIN)),
                Prepared::Fails(reason) => fates.fail(vec![read], &reason),
            }
        }
        let Some(outcomes) = self.accept_messages(plan, starts).await else {
            return fates.all(&started, Fate::Later(AGAIN));
        };
        for outcome in outcomes {
            match outcome {
                AcceptOutcome::New | AcceptOutcome::Elsewhere => fates.accepted += 1,
                AcceptOutcome::Duplicate(_) | AcceptOutcome::Mismatch(_) => fates.repeated += 1,
            }
        }
        fates.all(&started, Fate::Done);
    }

    /// Accepts one execution for all messages that have started none yet.
    async fn accept_together(&self, plan: &Plan, reads: Vec<Read>, fates: &mut Fates) {
        let (fresh, unreadable): (Vec<Read>, Vec<Read>) =
            reads.into_iter().partition(|read| read.data.is_ok());
        for read in unreadable {
            let reason = read.data.as_ref().err().cloned().unwrap_or_default();
            fates.fail(vec![read], &reason);
        }
        // A batch that cannot start is tried in halves, so that only the messages that are at fault start nothing.
        let mut batches = vec![fresh];
        while let Some(batch) = batches.pop() {
            if let Some((mut batch, reason)) = self.accept_batch_of(plan, batch, fates).await {
                match batch.split_off(batch.len() / 2) {
                    last if batch.is_empty() => fates.fail(last, &reason),
                    half => batches.extend([half, batch]),
                }
            }
        }
    }

    /// Accepts one execution for all messages of a batch that have started none yet. Returns the messages for which none can start, with the
    /// reason.
    async fn accept_batch_of(
        &self,
        plan: &Plan,
        mut fresh: Vec<Read>,
        fates: &mut Fates,
    ) -> Option<(Vec<Read>, String)> {
        for _ in 0..MAX_BATCHES {
            fresh = self.without_known(plan, fresh, fates).await?;
            if fresh.is_empty() {
                return None;
            }
            let data: Vec<Value> = fresh.iter().filter_map(|read| read.data.clone().ok()).collect();
            let keys: Vec<[u8; 32]> = fresh.iter().filter_map(|read| read.identity).collect();
            let start = match self.message_start(&plan.mount, Value::from(data), &keys).await {
                Prepared::Starts(start) => start,
                Prepared::Nothing => {
                    fates.all(&fresh, Fate::Done);
                    return None;
                }
                Prepared::NotNow => break,
                Prepared::Fails(reason) => return Some((fresh, reason)),
            };
            match self.accept_messages(plan, vec![*start]).await.as_deref() {
                Some([AcceptOutcome::New | AcceptOutcome::Elsewhere]) => {
                    fates.accepted += u64::try_from(fresh.len()).unwrap_or(u64::MAX);
                    fates.all(&fresh, Fate::Done);
                    return None;
                }
                // Another consumer has just accepted some of them.
                Some(_) => {}
                None => break,
            }
        }
        fates.all(&fresh, Fate::Later(AGAIN));
        None
    }

    /// Removes the messages that have started an execution. `None` if the store failed: all come again.
    async fn without_known(&self, plan: &Plan, reads: Vec<Read>, fates: &mut Fates) -> Option<Vec<Read>> {
        let (automation, now) = (&plan.mount.deployment.automation.id, self.context.clock.now());
        let mut fresh = Vec::with_capacity(reads.len());
        let mut reads = reads.into_iter();
        while let Some(read) = reads.next() {
            let Some(key) = read.identity else {
                fresh.push(read);
                continue;
            };
            match self.context.store.find_dedup(automation, key, now).await {
                Ok(Some(_)) => {
                    fates.repeated += 1;
                    fates.all(&[read], Fate::Done);
                }
                // A repetition of a message of this batch comes again once it is known what became of the first.
                Ok(None) if fresh.iter().any(|other| other.identity == Some(key)) => {
                    fates.all(&[read], Fate::Later(AGAIN));
                }
                Ok(None) => fresh.push(read),
                Err(error) => {
                    self.context.lost(&error);
                    fresh.push(read);
                    fresh.extend(reads);
                    fates.all(&fresh, Fate::Later(AGAIN));
                    return None;
                }
            }
        }
        Some(fresh)
    }

    /// Commits executions. `None` if nothing was accepted.
    async fn accept_messages(&self, plan: &Plan, starts: Vec<NewStart>) -> Option<Vec<AcceptOutcome>> {
        if starts.is_empty() {
            return Some(Vec::new());
        }
        if starts.len() > self.admission.queue_room() {
            return None;
        }
        match self.admission.accept_batch(&plan.mount.deployment, starts, Accept::default()).await {
            Ok(outcomes) => Some(outcomes),
            Err(error) => {
                tracing::debug!(%error, "messages could not be accepted; they come again");
                None
            }
        }
    }

    /// Returns the start by messages with these keys.
    pub(super) async fn message_start(&self, mount: &Mount, data: Value, keys: &[[u8; 32]]) -> Prepared {
        let now = self.context.clock.now();
        let payload = Payload::Poll { data, polled_at: now };
        match self.prepare_start(mount, &payload).await {
            Err(error) => {
                tracing::warn!(trigger = %mount.key(), %error, "messages cannot be accepted now; they come again");
                Prepared::NotNow
            }
            Ok(None) => Prepared::Nothing,
            Ok(Some((_, Some(error)))) => Prepared::Fails(error.into_message()),
            Ok(Some((by, None))) => {
                let until = now.checked_add(ID_WINDOW).unwrap_or(Timestamp::MAX);
                let dedup = keys.iter().map(|key| DedupRecord { key: *key, content: None, until }).collect();
                let start = Start { payload, origin: Origin::Event, by };
                Prepared::Starts(Box::new(NewStart { start, fails: None, key: None, dedup }))
            }
        }
    }
}

/// The start that a message causes.
pub(super) enum Prepared {
    Starts(Box<NewStart>),
    /// The trigger's condition is false.
    Nothing,
    /// A provider of secrets fails.
    NotNow,
    /// The trigger's condition or its inputs fail.
    Fails(String),
}
