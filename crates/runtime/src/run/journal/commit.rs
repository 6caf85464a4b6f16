//! The commits of a journal: how recorded events become durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::action::Effect;
use model::execution::{Event, Outcome, Status};
use model::{Backoff, LogLine};
use store::{AcceptOutcome, Append, InitialEvents, OutboxRow};

use super::Journal;
use super::acceptance::PendingAcceptance;
use crate::locks::StoreLock;
use crate::run::Exit;

/// The longest delay before an append is tried again that the store did not take. By then it was refused for 8 seconds.
const LONGEST_DELAY: Duration = Duration::from_secs(5);
const DELAYS: Backoff = Backoff::new(Duration::from_millis(250), LONGEST_DELAY);

/// The time that results of calls that only read wait for others to be committed with them: longer than a commit takes on
/// most disks, and short compared with a restart, after which the calls are made again.
pub(super) const MOMENT: Duration = Duration::from_millis(10);

/// The result of the acceptance of an execution.
pub(crate) type AcceptResult = Result<AcceptOutcome, Arc<store::Error>>;

/// The position of the log in the store, and the write in flight.
pub(super) struct CommitState {
    next: u32,
    /// The pending acceptance; `None` once its write has begun.
    acceptance: Option<PendingAcceptance>,
    in_flight: Option<InFlightCommit>,
}

/// A write in flight.
struct InFlightCommit {
    events: u32,
    effects: u64,
    status: Status,
    /// True if a step that a crash may have interrupted ends with this write.
    passes: bool,
    /// The names of the events that are sent with it.
    sent: Vec<String>,
    /// The events and lines for subscribers; copied only if there are any.
    published: Option<(Vec<Event>, Vec<LogLine>)>,
    /// The locks of the written state, held until it can be read.
    _locks: Vec<StoreLock>,
    write: BoxFuture<'static, Result<WriteResult, store::Error>>,
    /// The append, to send it again; `None` for an acceptance, which its caller sends again.
    append: Option<Arc<Append>>,
    delays: Backoff,
}

/// The kind of a write, with its result.
enum WriteResult {
    Appended,
    Accepted(AcceptOutcome),
}

/// Returns the names of events.
fn names(rows: &[OutboxRow]) -> Vec<String> {
    rows.iter().map(|row| row.name.clone()).collect()
}

/// True if an event ends a try of a step or of the execution, so that earlier crashes no longer count.
fn ends_a_try(event: &Event) -> bool {
    matches!(
        event,
        Event::StepFinished { .. }
            | Event::StepFailed { .. }
            | Event::StepRetry { .. }
            | Event::Retried { .. }
            | Event::Finished { .. }
    )
}

impl InFlightCommit {
    /// Retries an append with a growing delay, since nothing that depends on the recorded effects may run before they are
    /// stored. Returns false if the write has failed: the engine stops, or the store has refused it for long and the
    /// execution can be repeated instead, so that it leaves memory. If the engine stops with changes that are not stored, they
    /// are repeated at its next start.
    fn is_sent_again(&mut self, journal: &Journal, error: &store::Error) -> bool {
        let Some(append) = self.append.clone().filter(|_| !journal.closing.is_cancelled()) else {
            return false;
        };
        let is_long =
            self.delays.peek() >= LONGEST_DELAY || journal.leaves_at_refusal.load(Ordering::Relaxed);
        if is_long && journal.fails_without_loss(error) {
            return false;
        }
        journal.is_refused.store(true, Ordering::Relaxed);
        let delay = self.delays.pause();
        let (store, clock, closing) = (journal.store.clone(), journal.clock.clone(), journal.closing.clone());
        self.write = Box::pin(async move {
            closing.run_until_cancelled(clock.sleep_for(delay)).await;
            store.append(&append).await.map(|()| WriteResult::Appended)
        });
        true
    }
}

impl Journal {
    /// Completes when a call with this effect may start: the execution is accepted and, before a read, the results of all
    /// changes are committed; before a change the results of reads too, since it may depend on them.
    ///
    /// Consecutive reads share a commit: a crash repeats uncommitted reads, which has no effect. Their results are
    /// committed in the background at most [`MOMENT`] after the first, while a later call waits for its response.
    pub(crate) async fn before_effect(&self, effect: Effect) -> Result<(), Exit> {
        if !self.is_stored() {
            // Writes the acceptance only. If parallel branches committed all events, each would wait for the commit of the
            // start of the branch before it.
            self.transit.lock().await.accept(self).await?;
        }
        if effect == Effect::Read && self.uncommitted() != Effect::Write {
            return Ok(());
        }
        self.barrier().await
    }

    /// The result of the acceptance, which is written now at the latest. Does not wait for a write after it, which the store may
    /// refuse for as long as an outage lasts.
    pub(crate) async fn verdict(&self) -> AcceptResult {
        let accept = async {
            let mut transit = self.transit.lock().await;
            // A failure is part of the verdict.
            let _ = transit.accept(self).await;
        };
        tokio::select! {
            biased;
            verdict = self.verdict.wait() => verdict.clone(),
            () = accept => self.verdict.get().cloned().unwrap_or(Ok(AcceptOutcome::New)),
        }
    }

    /// Returns a write of the status without events; `None` while another write is under way, which has a status too.
    pub(crate) fn status_alone(&self, status: Status) -> Option<Append> {
        let transit = self.transit.try_lock().ok().filter(|transit| !transit.is_under_way())?;
        Some(Append::new(self.id, transit.next(), status))
    }

    /// Completes when every effect that is recorded now is committed.
    pub(crate) async fn barrier(&self) -> Result<(), Exit> {
        let recorded = {
            let state = self.state();
            state.check_writes()?;
            let Some(recorded) = state.watermark.missing() else { return Ok(()) };
            recorded
        };
        // The commit in flight may be enough.
        self.transit.lock().await.arrive(self).await?;
        if self.state().watermark.has_reached(recorded) { Ok(()) } else { self.commit().await }
    }

    /// Commits the results of an ended branch while others run, which may take long. `most` is its strongest effect.
    pub(crate) async fn commit_branch_result(&self, most: Effect) -> Result<(), Exit> {
        if most != Effect::Write {
            // Reads may be repeated: waiting a moment lets other branches share the commit.
            self.clock.sleep_for(MOMENT).await;
        }
        self.barrier().await
    }

    /// Completes when everything that is recorded now is committed.
    pub(crate) async fn commit(&self) -> Result<(), Exit> {
        let mut transit = self.transit.lock().await;
        transit.accept(self).await?;
        transit.begin(self);
        transit.arrive(self).await
    }

    /// Passes log lines to the observer as they are stored. A line may be exported although its commit fails.
    fn export_logs(&self, lines: &[LogLine]) {
        if let Some(observed) = &self.observed {
            observed.logged(lines);
        }
    }

    /// Takes the events to be written together with the acceptance, with the number of effects in them. Pauses and state writes
    /// need a write of their own after it.
    fn already(&self) -> (InitialEvents, u64, Status) {
        let mut state = self.state();
        if state.pauses.is_changed() || !state.writes.is_empty() {
            return (InitialEvents::default(), 0, Status::Running);
        }
        let status = state.outcome.as_ref().map_or(Status::Running, Outcome::status);
        let (events, logs) = (state.take_events(), std::mem::take(&mut state.logs));
        let effects = state.watermark.begin_write();
        let emits = state.events.take();
        drop(state);
        let mut already = InitialEvents { events, logs: self.redact_lines(logs), emits };
        self.export_logs(&already.logs);
        self.redact_events(&mut already.events);
        (already, effects, status)
    }
}

impl CommitState {
    /// The position of a log with this number of stored events.
    pub(super) fn after(events: u32) -> Self {
        Self { next: events, acceptance: None, in_flight: None }
    }

    /// The position of a log that is not stored yet.
    pub(super) fn before(acceptance: PendingAcceptance) -> Self {
        Self { acceptance: Some(acceptance), ..Self::after(1) }
    }

    /// Begins the acceptance, if it has not begun, and waits for the write in flight.
    async fn accept(&mut self, journal: &Journal) -> Result<(), Exit> {
        if let Some(acceptance) = self.acceptance.take() {
            let (already, effects, status) = journal.already();
            let published = journal.is_watched().then(|| (already.events.clone(), already.logs.clone()));
            let events = u32::try_from(already.events.len()).unwrap_or(u32::MAX);
            let sent = names(&already.emits);
            let store = journal.store.clone();
            let write =
                Box::pin(async move { acceptance.write(&*store, already).await.map(WriteResult::Accepted) });
            let (passes, _locks, append, delays) = (false, Vec::new(), None, DELAYS);
            self.in_flight = Some(InFlightCommit {
                events,
                effects,
                status,
                passes,
                sent,
                published,
                _locks,
                write,
                append,
                delays,
            });
        }
        self.arrive(journal).await
    }

    /// Begins the write of everything that is recorded, if there is anything and no write before it has failed. The execution is
    /// accepted, and no write is in flight.
    pub(super) fn begin(&mut self, journal: &Journal) {
        let (mut append, effects, locks) = {
            let mut state = journal.state();
            let nothing = !state.has_events() && state.logs.is_empty() && state.writes.is_empty();
            if (nothing && !state.pauses.is_changed()) || state.failed_write.is_some() {
                return;
            }
            let rests = if state.pauses.rests() { Status::Waiting } else { Status::Running };
            let effects = state.watermark.begin_write();
            let append = Append {
                execution: journal.id,
                first: self.next,
                status: state.outcome.as_ref().map_or(rests, Outcome::status),
                waits: state.waits(),
                keeps_permit: state.pauses.holds(),
                events: state.take_events(),
                logs: journal.redact_lines(std::mem::take(&mut state.logs)),
                state: std::mem::take(&mut state.writes),
                snapshot: std::mem::take(&mut state.loops.change),
                emits: state.events.take(),
            };
            (append, effects, std::mem::take(&mut state.locks))
        };
        journal.redact_append(&mut append);
        journal.export_logs(&append.logs);
        let published = journal.is_watched().then(|| (append.events.clone(), append.logs.clone()));
        let passes = journal.resumed && append.events.iter().any(ends_a_try);
        let (count, status) = (u32::try_from(append.events.len()).unwrap_or(u32::MAX), append.status);
        let sent = names(&append.emits);
        let (store, append) = (journal.store.clone(), Arc::new(append));
        let written = append.clone();
        let write = Box::pin(async move { store.append(&written).await.map(|()| WriteResult::Appended) });
        self.in_flight = Some(InFlightCommit {
            events: count,
            effects,
            status,
            passes,
            sent,
            published,
            _locks: locks,
            write,
            append: Some(append),
            delays: DELAYS,
        });
    }

    /// The number of stored events, without the write in flight.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// True if a write is in flight.
    pub(super) fn is_under_way(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Waits for the write in flight, if there is one.
    pub(super) async fn arrive(&mut self, journal: &Journal) -> Result<(), Exit> {
        journal.state().check_writes()?;
        let Some(in_flight) = &mut self.in_flight else { return check_accepted(journal) };
        let result = loop {
            match (&mut in_flight.write).await {
                Err(error) if error.may_pass() && in_flight.is_sent_again(journal, &error) => {}
                result => break result,
            }
        };
        journal.is_refused.store(false, Ordering::Relaxed);
        let Some(in_flight) = self.in_flight.take() else { return Ok(()) };
        match result {
            Ok(WriteResult::Accepted(accepted)) if accepted != AcceptOutcome::New => {
                refuse(journal, Ok(accepted))
            }
            Ok(written) => {
                if matches!(written, WriteResult::Accepted(_)) {
                    let _ = journal.verdict.set(Ok(AcceptOutcome::New));
                }
                journal.leaves_at_refusal.store(false, Ordering::Relaxed);
                self.next += in_flight.events;
                journal.state().watermark.commit(in_flight.effects);
                if !in_flight.sent.is_empty() {
                    journal.outbox.committed(in_flight.sent.iter().map(String::as_str));
                }
                if in_flight.passes {
                    journal.passed.store(true, Ordering::Relaxed);
                }
                // A subscriber that came during the commit has read the store without it, and gets an empty notice.
                let (events, logs) = in_flight.published.unwrap_or_default();
                journal.publish(in_flight.status, events, logs);
                Ok(())
            }
            Err(error) if !journal.is_stored() => refuse(journal, Err(Arc::new(error))),
            Err(error) => {
                let error = Arc::new(error);
                journal.state().failed_write = Some(error.clone());
                Err(Exit::StoreFailed(error))
            }
        }
    }
}

/// Notes that the execution was not accepted.
fn refuse(journal: &Journal, verdict: AcceptResult) -> Result<(), Exit> {
    // The acceptance is written once.
    let _ = journal.verdict.set(verdict);
    journal.discard_outcome();
    check_accepted(journal)
}

/// Returns [`Exit::NotAccepted`] if the execution was not accepted.
fn check_accepted(journal: &Journal) -> Result<(), Exit> {
    match journal.verdict.get() {
        None | Some(Ok(AcceptOutcome::New)) => Ok(()),
        Some(_) => Err(Exit::NotAccepted),
    }
}
