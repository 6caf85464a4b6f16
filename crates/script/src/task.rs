//! Tasks: one job on untrusted data in a worker of its own, which is confined like a code worker and ends with the job.
//!
//! Both sides exchange messages of a few parts. The side of the daemon blocks: it needs a thread for as long as the task runs, since
//! a worker dies with the thread that started it.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::program::{command, worker_program};
use crate::protocol::{Inbox, Message, Tag, encode};
use crate::worker::transport::{RequestReader, protocol_error, write};

/// The size of one read, in bytes.
const CHUNK: usize = 128 * 1024;
/// The signal by which a process ends that gets no memory: it aborts.
const SIGABRT: i32 = 6;
/// The signal by which the filter of system calls ends a process.
const SIGSYS: i32 = 31;

/// A task that a worker can run.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The name by which the daemon asks for it.
    pub name: &'static str,
    /// Its body in the worker. The process ends with it.
    pub run: fn(&mut Channel) -> io::Result<()>,
}

/// The channel of a task to the daemon, on the side of the worker.
pub struct Channel {
    reader: RequestReader,
}

impl Channel {
    pub(crate) fn new(reader: RequestReader) -> Self {
        Self { reader }
    }

    /// Waits for the next message of the daemon.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn receive(&mut self) -> io::Result<Vec<Bytes>> {
        match self.reader.read()? {
            Some(Message { tag: Tag::Piece, parts }) => Ok(parts),
            _ => Err(protocol_error()),
        }
    }

    /// Sends a message to the daemon.
    ///
    /// # Errors
    /// The daemon is gone, or the message has more than 8 MiB.
    pub fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        write(&encode(Tag::Piece, parts).map_err(|_| protocol_error())?)
    }
}

/// A running task, on the side of the daemon. Dropping it ends the process.
pub struct RunningTask {
    child: Child,
    socket: Arc<UnixStream>,
    inbox: Inbox,
    chunk: Box<[u8]>,
    until: Instant,
}

/// Ends a task from another thread: the thread that waits for it gets an error.
#[derive(Clone)]
pub struct TaskStop(Arc<UnixStream>);

impl TaskStop {
    /// Ends the task. It does nothing if the task has ended.
    pub fn stop(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// The reason why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The worker cannot be started, or not be confined.
    #[error("a worker cannot be started: {0}")]
    Start(String),
    /// The task did not end in time.
    #[error("it takes too long")]
    TimedOut,
    /// The process needed more memory than it may have.
    #[error("it needs too much memory")]
    OutOfMemory,
    /// The process made a system call that it may not make.
    #[error("the process that did it made a system call that workers may not make")]
    Forbidden,
    /// The process ended otherwise, or broke the protocol.
    #[error("the process that did it {0}")]
    Broken(String),
}

impl RunningTask {
    /// Starts a task in a process of its own, with `memory` bytes of address space beside the program. It has to end before `until`.
    ///
    /// # Errors
    /// [`TaskError::Start`].
    pub fn start(task: &str, memory: u64, until: Instant) -> Result<Self, TaskError> {
        let failed = |error: io::Error| TaskError::Start(error.to_string());
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let (program, arguments) = worker_program();
        let child = command(&program, &arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let chunk = vec![0; CHUNK].into_boxed_slice();
        let mut running = Self { child, socket: Arc::new(ours), inbox: Inbox::default(), chunk, until };
        running.write(Tag::Task, &[task.as_bytes(), memory.to_string().as_bytes()])?;
        match running.message()? {
            Message { tag: Tag::Hello, .. } => Ok(running),
            Message { tag: Tag::Refused, parts } => {
                let why = parts.first().map(|why| String::from_utf8_lossy(why).into_owned());
                Err(TaskError::Start(why.unwrap_or_default()))
            }
            _ => Err(unexpected()),
        }
    }

    /// A handle that ends the task from another thread.
    #[must_use]
    pub fn stop_handle(&self) -> TaskStop {
        TaskStop(self.socket.clone())
    }

    /// Sends a message to the worker. Blocks.
    ///
    /// # Errors
    /// The task has ended or takes too long.
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), TaskError> {
        self.write(Tag::Piece, parts)
    }

    /// Waits for the next message of the worker. Blocks.
    ///
    /// # Errors
    /// The task has ended, takes too long or breaks the protocol.
    pub fn receive(&mut self) -> Result<Vec<Bytes>, TaskError> {
        match self.message()? {
            Message { tag: Tag::Piece, parts } => Ok(parts),
            _ => Err(unexpected()),
        }
    }

    fn write(&mut self, tag: Tag, parts: &[&[u8]]) -> Result<(), TaskError> {
        let bytes =
            encode(tag, parts).map_err(|_| TaskError::Broken("got too large a message".to_owned()))?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            self.socket.set_write_timeout(Some(self.left()?)).map_err(|_| unexpected())?;
            match (&*self.socket).write(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Err(self.end()),
            }
        }
        Ok(())
    }

    fn message(&mut self) -> Result<Message, TaskError> {
        loop {
            if let Some(message) = self.inbox.next().map_err(|_| unexpected())? {
                return Ok(message);
            }
            self.socket.set_read_timeout(Some(self.left()?)).map_err(|_| unexpected())?;
            match (&*self.socket).read(&mut self.chunk) {
                Ok(0) => return Err(self.end()),
                Ok(count) => self.inbox.push(self.chunk.get(..count).unwrap_or_default()),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Err(self.end()),
            }
        }
    }

    fn left(&self) -> Result<std::time::Duration, TaskError> {
        let left = self.until.checked_duration_since(Instant::now()).ok_or(TaskError::TimedOut)?;
        // A timeout of zero would be none.
        if left.is_zero() { Err(TaskError::TimedOut) } else { Ok(left) }
    }

    /// The reason why the process has closed its end.
    fn end(&mut self) -> TaskError {
        // A process that closed its end and goes on is ended here. If it has ended by itself, its own status stays.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => match status.signal() {
                Some(SIGABRT) => TaskError::OutOfMemory,
                Some(SIGSYS) => TaskError::Forbidden,
                _ => TaskError::Broken(describe(status)),
            },
            Err(error) => TaskError::Broken(format!("is gone: {error}")),
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        // Both fail only if the process was reaped before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn describe(status: ExitStatus) -> String {
    status.signal().map_or_else(|| "ended early".to_owned(), |signal| format!("was ended by signal {signal}"))
}

fn unexpected() -> TaskError {
    TaskError::Broken("sent what no worker sends".to_owned())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
