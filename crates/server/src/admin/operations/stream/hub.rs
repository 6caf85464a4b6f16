//! The news of the daemon, gathered once for all streams, with ids from which a stream goes on.
//!
//! A task gathers while a stream is open and for some time after, so that a browser that comes back misses nothing. It
//! publishes at most four times a second, whatever happens meanwhile: a burst of executions becomes one message with
//! counts. What is kept is bounded; a stream that asks for more is told to read everything anew.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::Engine;
use model::{AutomationId, ExecutionId, Status};
use runtime::EngineEvent;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::StreamMessage;
use super::samples::Samples;
use super::topic::Topic;

/// The time between two publications.
const PACE: Duration = Duration::from_millis(250);
/// The publications after which the hub rests if no stream is open: a minute.
const IDLE_TICKS: u32 = 240;
/// Maximum number of executions that one message distinguishes.
const MOST_EXECUTIONS: usize = 2000;
/// Maximum number of messages that are kept.
const MOST_MESSAGES: usize = 1000;
/// Maximum number of executions in all messages that are kept, about 2 MB.
const MOST_WEIGHT: usize = 20_000;

/// News with its id.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) news: News,
}

/// Something that has changed.
#[derive(Debug)]
pub(super) enum News {
    Catalog {
        generation: u64,
    },
    Executions(Burst),
    /// A sample that differs from the previous one.
    Sampled {
        topic: Topic,
        message: StreamMessage,
    },
}

/// The executions that went on since the previous message.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// Where each of them stands now.
    pub(super) changed: HashMap<ExecutionId, (AutomationId, Status)>,
    /// Number of executions that came to each status.
    pub(super) statuses: BTreeMap<&'static str, usize>,
    /// True if some are not in `changed`: there were too many.
    pub(super) is_cut: bool,
}

/// The place where streams find the news.
pub(crate) struct Hub {
    state: Mutex<State>,
    /// The id of the newest message.
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Distinguishes the ids of this run of the task from those of others.
    run: u32,
    /// The id of the newest message.
    newest: u64,
    kept: VecDeque<Arc<Message>>,
    weight: usize,
    /// Number of open streams that follow each topic.
    wanted: HashMap<Topic, usize>,
    readers: usize,
    is_running: bool,
}

/// The messages after the place of a stream.
pub(super) enum After {
    Messages(Vec<Arc<Message>>),
    /// Some of them are no longer kept.
    Missed(u64),
}

impl Hub {
    pub(crate) fn new() -> Self {
        // Ids of an earlier process must not fit by chance.
        let mut run = [0; 4];
        let _ = getrandom::fill(&mut run);
        let state = State { run: u32::from_be_bytes(run), ..State::default() };
        Self { state: Mutex::new(state), newest: watch::channel(0).0 }
    }

    /// Registers a stream. True if the task has to be started.
    pub(super) fn enter(&self, topics: &[Topic]) -> bool {
        let mut state = self.state();
        state.readers += 1;
        for topic in topics {
            *state.wanted.entry(topic.clone()).or_default() += 1;
        }
        !std::mem::replace(&mut state.is_running, true)
    }

    /// Removes a stream.
    pub(super) fn leave(&self, topics: &[Topic]) {
        let mut state = self.state();
        state.readers = state.readers.saturating_sub(1);
        for topic in topics {
            if let Some(count) = state.wanted.get_mut(topic) {
                *count -= 1;
                if *count == 0 {
                    state.wanted.remove(topic);
                }
            }
        }
    }

    /// The id of a message for `Last-Event-ID`.
    pub(super) fn id(&self, message: u64) -> String {
        format!("{:08x}-{message}", self.state().run)
    }

    /// The place of a stream that goes on after this id; `None` if what follows it is not known any more.
    pub(super) fn place(&self, id: &str) -> Option<u64> {
        let (run, message) = id.split_once('-')?;
        let state = self.state();
        let message =
            message.parse().ok().filter(|&message| message <= state.newest && state.keeps_after(message))?;
        (u32::from_str_radix(run, 16) == Ok(state.run)).then_some(message)
    }

    /// The id of the newest message, and its changes.
    pub(super) fn newest(&self) -> (u64, watch::Receiver<u64>) {
        let newest = self.newest.subscribe();
        (self.state().newest, newest)
    }

    pub(super) fn after(&self, place: u64) -> After {
        let state = self.state();
        if !state.keeps_after(place) {
            return After::Missed(state.newest.saturating_sub(place));
        }
        After::Messages(state.kept.iter().filter(|message| message.id > place).cloned().collect())
    }

    fn publish(&self, news: News) {
        let mut state = self.state();
        state.newest += 1;
        let id = state.newest;
        state.weight += news.weight();
        state.kept.push_back(Arc::new(Message { id, news }));
        while state.kept.len() > MOST_MESSAGES || state.weight > MOST_WEIGHT {
            let Some(oldest) = state.kept.pop_front() else { break };
            state.weight -= oldest.news.weight();
        }
        drop(state);
        self.newest.send_replace(id);
    }

    fn wanted(&self) -> Vec<Topic> {
        self.state().wanted.keys().cloned().collect()
    }

    /// Counts a publication without a stream. True if the task has to end.
    fn rests(&self, idle: &mut u32) -> bool {
        let mut state = self.state();
        *idle = if state.readers == 0 { *idle + 1 } else { 0 };
        if *idle < IDLE_TICKS {
            return false;
        }
        let run = state.run.wrapping_add(1);
        *state = State { run, newest: state.newest, ..State::default() };
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gathers news until the daemon stops, or nobody has wanted any for a minute.
    pub(super) async fn run(
        self: Arc<Self>,
        engine: Engine,
        mut notices: broadcast::Receiver<EngineEvent>,
        closing: CancellationToken,
    ) {
        let mut tick = tokio::time::interval(PACE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut burst, mut samples, mut idle) = (Burst::default(), Samples::default(), 0);
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                _ = tick.tick() => {
                    if !burst.is_empty() {
                        self.publish(News::Executions(std::mem::take(&mut burst)));
                    }
                    for (topic, message) in samples.differences(&engine, &self.wanted()).await {
                        self.publish(News::Sampled { topic, message });
                    }
                    if self.rests(&mut idle) {
                        return;
                    }
                }
                notice = notices.recv() => match notice {
                    Ok(EngineEvent::CatalogChanged { generation }) => self.publish(News::Catalog { generation }),
                    Ok(EngineEvent::ExecutionEvents { id, automation, status, .. }) => burst.add(id, automation, status),
                    Err(RecvError::Lagged(_)) => burst.is_cut = true,
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }
}

impl State {
    /// True if every message after this one is kept.
    fn keeps_after(&self, message: u64) -> bool {
        match self.kept.front() {
            Some(oldest) => message + 1 >= oldest.id,
            None => message == self.newest,
        }
    }
}

impl News {
    fn weight(&self) -> usize {
        match self {
            Self::Executions(burst) => 1 + burst.changed.len(),
            Self::Catalog { .. } | Self::Sampled { .. } => 1,
        }
    }
}

impl Burst {
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && !self.is_cut
    }

    fn add(&mut self, id: ExecutionId, automation: AutomationId, status: Status) {
        let known = self.changed.get(&id).map(|(_, status)| *status);
        if known.is_none() && self.changed.len() >= MOST_EXECUTIONS {
            self.is_cut = true;
        } else {
            self.changed.insert(id, (automation, status));
        }
        if known != Some(status) {
            *self.statuses.entry(status.as_str()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(count: u8) -> News {
        let mut burst = Burst::default();
        for byte in 0..count {
            let automation = AutomationId::parse("a").expect("an id");
            burst.add(ExecutionId::from_bytes([byte; 16]), automation, Status::Running);
        }
        News::Executions(burst)
    }

    #[test]
    fn a_stream_resumes_after_its_last_event_id() {
        let hub = Hub::new();
        hub.publish(News::Catalog { generation: 1 });
        let id = hub.id(1);
        hub.publish(News::Catalog { generation: 2 });
        assert_eq!(hub.place(&id), Some(1));
        let After::Messages(after) = hub.after(1) else { panic!("messages are missing") };
        assert_eq!(after.iter().map(|message| message.id).collect::<Vec<_>>(), [2]);
        for unknown in ["", "1", "00000000-", &id.replace("-1", "-3"), &Hub::new().id(1)] {
            assert_eq!(hub.place(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_backlog_is_bounded_and_a_slow_stream_learns_that_it_missed_events() {
        let hub = Hub::new();
        (0..300).for_each(|_| hub.publish(burst(200)));
        let state = hub.state();
        assert!(state.weight <= MOST_WEIGHT && state.kept.len() < 300, "{}", state.weight);
        drop(state);
        assert!(matches!(hub.after(0), After::Missed(300)));
        assert!(matches!(hub.after(299), After::Messages(messages) if messages.len() == 1));
    }

    #[test]
    fn a_burst_counts_each_change_of_a_status_once() {
        let News::Executions(mut found) = burst(3) else { panic!("a burst") };
        let automation = || AutomationId::parse("a").expect("an id");
        found.add(ExecutionId::from_bytes([0; 16]), automation(), Status::Running);
        found.add(ExecutionId::from_bytes([0; 16]), automation(), Status::Succeeded);
        assert_eq!(found.statuses, BTreeMap::from([("running", 3), ("succeeded", 1)]));
        assert_eq!(found.changed.len(), 3);
    }

    #[test]
    fn a_thousand_messages_are_kept_until_a_minute_without_subscribers() {
        let hub = Hub::new();
        (1..=MOST_MESSAGES + 1).for_each(|_| hub.publish(News::Catalog { generation: 1 }));
        assert_eq!(hub.state().kept.len(), MOST_MESSAGES);
        assert_eq!(PACE * IDLE_TICKS, Duration::from_secs(60));
        let mut idle = 0;
        assert!((1..IDLE_TICKS).all(|_| !hub.rests(&mut idle)));
        assert!(hub.rests(&mut idle));
        assert_eq!(hub.state().kept.len(), 0);
    }
}
