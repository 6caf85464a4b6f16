//! One call: a session, one transaction in it, and other attempts after a conflict.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use connector::Call;
use model::{ActionError, ErrorKind};
use tokio::time::Instant;
use value::{Map, Value};

use super::server::Server;
use super::session::{Class, Failure, Mode, Opened, Session, Swept};
use super::work::Work;
use super::{Kind, Sql, once};
use crate::pool::Lease;

/// The time of a step without a timeout.
const USUAL_LIMIT: Duration = Duration::from_secs(60);
/// The attempts after a conflict, and the time for them.
const MAX_CONFLICTS: u32 = 5;
const CONFLICT_TIME: Duration = Duration::from_secs(5);
/// The time for the deletion of old keys.
const SWEEP_TIME: Duration = Duration::from_secs(2);
/// The pause before the first attempt after a conflict; doubled each time.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a call within the time of its step.
pub(super) async fn run(sql: &Sql, call: &Call<'_>) -> Result<Value, ActionError> {
    let server = Server::of(call, sql)?;
    let work = Work::of(sql.kind, call, server.dialect())?;
    let limit = call.time_left.unwrap_or(USUAL_LIMIT);
    let attempts =
        Attempts { sql, call, server, work, until: Instant::now() + limit, commits: AtomicBool::new(false) };
    match tokio::time::timeout_at(attempts.until, attempts.run()).await {
        Ok(result) => result,
        Err(_) => {
            let limit = text::units::format_duration(limit);
            let error = ActionError::new(
                ErrorKind::Timeout,
                format!("{} did not answer within {limit}", sql.subject),
            );
            // Without the start of a commit, the end of the session takes everything back.
            let is_unknown = attempts.commits.load(Ordering::Relaxed);
            Err(if is_unknown { error.with_outcome_unknown() } else { error })
        }
    }
}

struct Attempts<'a> {
    sql: &'a Sql,
    call: &'a Call<'a>,
    server: Server<'a>,
    work: Work<'a>,
    until: Instant,
    /// True once a commit may have been sent.
    commits: AtomicBool,
}

impl Attempts<'_> {
    async fn run(&self) -> Result<Value, ActionError> {
        let (began, mut conflicts) = (Instant::now(), 0);
        let mut table = Table::Unknown;
        loop {
            let mut lease = self.lease().await?;
            let is_kept = lease.session.is_some();
            let mut session = match lease.session.take() {
                Some(Opened(session)) => session,
                None => self.server.open(self.call).await?,
            };
            if table == Table::Missing {
                let created = once::create(&mut *session, self.server.dialect(), self.left()).await;
                created.map_err(|failure| failure.error)?;
                table = Table::Created;
            }
            let failure = match self.attempt(&mut *session, &lease.pool.shared, is_kept).await {
                Ok(value) => {
                    self.give_back(lease, session);
                    return Ok(value);
                }
                Err(Attempt::Stale) => continue,
                Err(Attempt::Failed(failure)) => failure,
            };
            if failure.class != Class::Lost && !session.is_cut() && session.rollback().await.is_ok() {
                self.give_back(lease, session);
            } else {
                drop((session, lease));
            }
            match failure.class {
                // The missing table may be the table of keys. If it is another table, the next attempt fails for good.
                Class::NoTable if self.call_once() && table == Table::Unknown => table = Table::Missing,
                Class::Conflict if conflicts < MAX_CONFLICTS && began.elapsed() < CONFLICT_TIME => {
                    self.call.http.timer().pause(pause(conflicts)).await;
                }
                _ => return Err(failure.error),
            }
            conflicts += 1;
        }
    }

    async fn lease(&self) -> Result<Lease<Opened>, ActionError> {
        self.sql.pools.lease(self.server.connection, self.server.pool_size()).await
    }

    /// Keeps the session for the next call, unless that call would find in it what the statements of this one have left.
    fn give_back(&self, lease: Lease<Opened>, session: Box<dyn Session>) {
        if !self.work.changes_session() {
            lease.keep(Opened(session));
        }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn call_once(&self) -> bool {
        self.call.inputs.get("once").and_then(Value::as_bool).unwrap_or(false)
    }

    async fn attempt(
        &self,
        session: &mut dyn Session,
        swept: &Swept,
        is_kept: bool,
    ) -> Result<Value, Attempt> {
        self.commits.store(false, Ordering::Relaxed);
        // A connection that was kept may have been cut meanwhile; nothing has happened in it yet.
        let unless_stale = |failure: Failure| match failure.class {
            Class::Lost if is_kept => Attempt::Stale,
            _ => Attempt::Failed(failure),
        };
        // The process may have been frozen, and another one may have the execution now.
        self.call.http.dialer().pass_gate().await;
        let mode = if self.sql.kind.reads() { Mode::Read } else { Mode::Write(self.work.isolation()) };
        if self.sql.kind == Kind::Describe {
            // Nothing runs. MySQL would not describe a change in a transaction that only reads.
            return self.work.read(session, self.call).await.map_err(unless_stale);
        }
        session.begin(mode, self.left()).await.map_err(unless_stale)?;
        if self.sql.kind.reads() {
            let result = self.work.read(session, self.call).await?;
            if !session.is_cut() {
                session.commit().await?;
            }
            return Ok(result);
        }
        let key = self.call_once().then(|| once::key(self.call.idempotency_key)).transpose()?;
        if let Some(key) = &key
            && let Some(earlier) = once::claim(session, self.server.dialect(), key).await?
        {
            session.rollback().await?;
            return Ok(with_repeated(earlier, true));
        }
        let result = self.work.write(session, self.call).await?;
        if let Some(key) = &key {
            once::keep(session, self.server.dialect(), key, &result).await?;
        }
        self.call.http.dialer().pass_gate().await;
        self.commits.store(true, Ordering::Relaxed);
        session.commit().await.map_err(|mut failure| {
            if failure.class == Class::Lost {
                failure.error = failure.error.with_outcome_unknown();
            }
            failure
        })?;
        // The change is made: what follows must not end with the time of the step.
        if key.is_some() && self.left() > 2 * SWEEP_TIME {
            let swept = once::sweep(session, self.server.dialect(), swept, SWEEP_TIME);
            let _ = tokio::time::timeout(SWEEP_TIME, swept).await;
        }
        Ok(with_repeated(result, false))
    }
}

/// The table of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Unknown,
    Missing,
    Created,
}

/// The end of an attempt without a result.
enum Attempt {
    /// The kept connection was cut before anything happened.
    Stale,
    Failed(Failure),
}

impl From<Failure> for Attempt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ActionError> for Attempt {
    fn from(error: ActionError) -> Self {
        Self::Failed(error.into())
    }
}

fn with_repeated(mut result: Map, repeated: bool) -> Value {
    result.insert("repeated", repeated);
    Value::from(result)
}

/// The pause after a conflict: longer each time, and different in each process, so that two that collided do not do so again.
fn pause(conflicts: u32) -> Duration {
    use std::hash::{BuildHasher as _, Hasher as _};
    let random = std::hash::RandomState::new().build_hasher().finish() % 1_000;
    let base = PAUSE.saturating_mul(2_u32.saturating_pow(conflicts));
    base + base.mul_f64(random as f64 / 1_000.0)
}
