//! A worker, from the side of the daemon: it answers what the worker reads, and passes on what it writes.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::{ActionError, ErrorKind};
use script::{RunningTask, TaskError, TaskStop};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use value::{CHUNK_SIZE, Data, JsonLimits, Key, Value};

use super::job::{InputInfo, Job, MEMORY, Message};
use super::worker::TASK;
use crate::convert::input_error;
use crate::sql::rows::Column;
use crate::table::Batch;

/// The longest time of a job.
const MAX_TIME: Duration = Duration::from_secs(60);
/// The longest wait for a worker.
const MAX_WAIT: Duration = Duration::from_secs(15 * 60);
/// The workers at one time: each may take 192 MiB.
const MAX_WORKERS: usize = 2;
/// The messages of a worker that wait.
const WAITING: usize = 2;

static WORKERS: OnceLock<Arc<Semaphore>> = OnceLock::new();

/// A file or a text for a job.
pub(super) struct Input {
    pub data: Data,
    pub info: InputInfo,
}

/// A part of a result.
pub(super) enum Part {
    Table(Batch, Option<String>),
    File { name: Option<String>, content_type: String },
    Bytes(bytes::Bytes),
    Done(Value),
}

/// The parts of a result while they arrive. Dropping it ends the worker.
pub(super) struct Parts {
    parts: mpsc::Receiver<Result<Part, ActionError>>,
    stop: Arc<OnceLock<TaskStop>>,
}

impl Parts {
    /// Starts a job in a worker, once there is room for one.
    pub(super) async fn start(
        job: Job,
        inputs: Vec<Input>,
        time_left: Option<Duration>,
    ) -> Result<Self, ActionError> {
        let workers = WORKERS.get_or_init(|| Arc::new(Semaphore::new(MAX_WORKERS))).clone();
        let began = Instant::now();
        let wait = time_left.unwrap_or(MAX_WAIT).min(MAX_WAIT);
        let permit = tokio::time::timeout(wait, workers.acquire_owned()).await.ok().and_then(Result::ok);
        let permit = permit.ok_or_else(|| {
            let waited = text::units::format_duration(wait);
            ActionError::new(
                ErrorKind::Timeout,
                format!("no worker for documents became free within {waited}"),
            )
        })?;
        let left = time_left.map(|left| left.saturating_sub(began.elapsed()));
        let (sender, parts) = mpsc::channel(WAITING);
        let stop = Arc::new(OnceLock::new());
        let time = left.unwrap_or(MAX_TIME).min(MAX_TIME);
        let exchange = Exchange { inputs, time, stop: stop.clone(), current: Cell::new(0), sender };
        // The thread lives as long as the worker, which dies with it.
        tokio::task::spawn_blocking(move || exchange.run(&job, permit));
        Ok(Self { parts, stop })
    }

    /// The next part; the last one is [`Part::Done`].
    pub(super) async fn next(&mut self) -> Result<Part, ActionError> {
        let ended = || ActionError::new(ErrorKind::Internal, "the thread of the document worker ended");
        self.parts.recv().await.unwrap_or_else(|| Err(ended()))
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.parts.close();
        if let Some(stop) = self.stop.get() {
            stop.stop();
        }
    }
}

struct Exchange {
    inputs: Vec<Input>,
    time: Duration,
    stop: Arc<OnceLock<TaskStop>>,
    /// The input that was read last.
    current: Cell<usize>,
    sender: mpsc::Sender<Result<Part, ActionError>>,
}

impl Exchange {
    fn run(&self, job: &Job, permit: OwnedSemaphorePermit) {
        if let Err(error) = self.exchange(job) {
            // Nobody waits for it if the step was ended.
            let _ = self.sender.blocking_send(Err(error));
        }
        drop(permit);
    }

    fn exchange(&self, job: &Job) -> Result<(), ActionError> {
        let failed = |error: TaskError| self.describe(&error);
        let mut task = RunningTask::start(TASK.name, MEMORY, Instant::now() + self.time).map_err(failed)?;
        let _ = self.stop.set(task.stop_handle());
        if self.sender.is_closed() {
            return Ok(());
        }
        let infos: Vec<&InputInfo> = self.inputs.iter().map(|input| &input.info).collect();
        let internal = |error: serde_json::Error| ActionError::new(ErrorKind::Internal, error.to_string());
        let (job, infos) =
            (serde_json::to_vec(job).map_err(internal)?, serde_json::to_vec(&infos).map_err(internal)?);
        task.send(&[&job, &infos]).map_err(failed)?;
        let mut buffer = vec![0; CHUNK_SIZE];
        loop {
            let parts = task.receive().map_err(failed)?;
            let [head, rest @ ..] = parts.as_slice() else { return Err(broken()) };
            let body = rest.first().cloned().unwrap_or_default();
            let part = match serde_json::from_slice(head).map_err(|_| broken())? {
                Message::Read { input, offset, count } => {
                    let count = self.read(input, offset, count, &mut buffer)?;
                    task.send(&[buffer.get(..count).unwrap_or_default()]).map_err(failed)?;
                    continue;
                }
                Message::Columns { columns, sheet } => {
                    let column = |(name, kind): (String, _)| Column { name: Key::from(name), kind };
                    Part::Table(Batch::Columns(columns.into_iter().map(column).collect()), sheet)
                }
                Message::Rows => Part::Table(Batch::Rows(rows(&body)?), None),
                Message::File { name, content_type } => Part::File { name, content_type },
                Message::Bytes => Part::Bytes(body),
                Message::Done => Part::Done(json(&body)?),
                Message::Failed { is_limit, message } => {
                    let kind = if is_limit { ErrorKind::Limit } else { ErrorKind::Input };
                    return Err(ActionError::new(kind, message));
                }
            };
            let is_done = matches!(part, Part::Done(_));
            if self.sender.blocking_send(Ok(part)).is_err() || is_done {
                return Ok(());
            }
        }
    }

    fn read(&self, input: usize, offset: u64, count: usize, buffer: &mut [u8]) -> Result<usize, ActionError> {
        self.current.set(input);
        let input = self.inputs.get(input).ok_or_else(broken)?;
        let mut read = 0;
        while let Some(rest) = buffer.get_mut(read..count).filter(|rest| !rest.is_empty()) {
            let more = input.data.read_at(offset.saturating_add(read as u64), rest);
            match more.map_err(|error| input_error(format!("{} cannot be read: {error}", input.info.name)))? {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn describe(&self, error: &TaskError) -> ActionError {
        let name = self.inputs.get(self.current.get()).map_or("the document", |input| &*input.info.name);
        let (kind, message) = match error {
            TaskError::Start(_) => (ErrorKind::Internal, error.to_string()),
            TaskError::TimedOut if self.time < MAX_TIME => {
                (ErrorKind::Timeout, format!("{name} takes longer than the step may"))
            }
            TaskError::TimedOut => {
                let most = text::units::format_duration(MAX_TIME);
                (ErrorKind::Limit, format!("{name} takes longer than {most}, the most for a document"))
            }
            TaskError::OutOfMemory => {
                let most = text::units::format_size(MEMORY);
                (
                    ErrorKind::Limit,
                    format!("{name} needs more than {most} of memory, the most for a document"),
                )
            }
            TaskError::Forbidden => (
                ErrorKind::Internal,
                format!(
                    "{name} cannot be read: the process that read it was ended, since it made a system call that it may not make"
                ),
            ),
            TaskError::Broken(what) => {
                (ErrorKind::Input, format!("{name} cannot be read: the process that read it {what}"))
            }
        };
        ActionError::new(kind, message)
    }
}

fn broken() -> ActionError {
    ActionError::new(ErrorKind::Internal, "the document worker sent what none sends")
}

fn json(bytes: &[u8]) -> Result<Value, ActionError> {
    Value::from_json(bytes, JsonLimits::default()).map_err(|_| broken())
}

fn rows(bytes: &[u8]) -> Result<Vec<Vec<Value>>, ActionError> {
    let Value::List(rows) = json(bytes)? else { return Err(broken()) };
    let cells = |row: &Value| row.as_list().map(<[Value]>::to_vec).ok_or_else(broken);
    rows.0.iter().map(cells).collect()
}
