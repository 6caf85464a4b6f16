//! The servers under measurement as processes of their own, on a processor of their own, ended by their ids.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Error;

/// The time limit for the start and the orderly end of a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between two checks of it.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The processors of servers and of the load driver, which are different, so that neither takes the other's
/// time. Without two processors, or a system that lets a process choose, they share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processors {
    /// The servers' and the driver's.
    pub(crate) apart: Option<(usize, usize)>,
}

impl Processors {
    /// Chooses two of the allowed processors, and moves to the second. Call it before other threads are
    /// started, which stay on the processor of their parent.
    pub(crate) fn choose() -> Self {
        let mut allowed = system::allowed().into_iter();
        let apart = allowed.next().zip(allowed.next());
        let apart = apart.filter(|(_, driver)| system::go_to(&[*driver]));
        Self { apart }
    }

    /// The same processors, with the servers on the driver's.
    pub(crate) fn swapped(self) -> Self {
        Self { apart: self.apart.map(|(server, driver)| (driver, server)) }
    }

    /// Does something on both, and returns to the own one.
    pub(crate) fn on_both<T>(self, work: impl FnOnce() -> T) -> T {
        let Some((server, driver)) = self.apart else { return work() };
        system::go_to(&[server, driver]);
        let done = work();
        system::go_to(&[driver]);
        done
    }

    /// Does something whose threads and processes get the processor of the servers.
    pub(crate) fn for_servers<T>(self, work: impl FnOnce() -> T) -> T {
        let Some((server, driver)) = self.apart else { return work() };
        system::go_to(&[server]);
        let done = work();
        system::go_to(&[driver]);
        done
    }

    /// Shares both processors between servers and driver until the result is dropped.
    pub(crate) fn share(self) -> Shared {
        if let Some((server, driver)) = self.apart {
            system::go_to(&[server, driver]);
        }
        Shared(self)
    }

    /// Starts a server on its processor, without its output.
    pub(crate) fn start(self, command: &mut Command) -> Result<Process, Error> {
        self.spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// The same, with its output added to a file.
    pub(crate) fn start_logged(self, command: &mut Command, log: &Path) -> Result<Process, Error> {
        let open = || File::options().create(true).append(true).open(log);
        let (out, err) = open().and_then(|out| Ok((out, open()?))).map_err(Error::io(log.display()))?;
        self.spawn(command.stdout(out).stderr(err))
    }

    fn spawn(self, command: &mut Command) -> Result<Process, Error> {
        let started = self.for_servers(|| command.stdin(Stdio::null()).spawn());
        let child = started.map_err(Error::io(command.get_program().display()))?;
        Ok(Process { child })
    }
}

/// Processors that servers and driver share. Dropping it separates them again.
pub(crate) struct Shared(Processors);

impl Shared {
    /// The processors of servers that are started meanwhile.
    #[expect(clippy::unused_self, reason = "they are shared only while it lives")]
    pub(crate) fn processors(&self) -> Processors {
        Processors { apart: None }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some((_, driver)) = self.0.apart {
            system::go_to(&[driver]);
        }
    }
}

/// A running server. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Its id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of memory that it has now; `None` where the system does not say.
    pub(crate) fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        resident(&status)
    }

    /// Processor time that it has taken since it began; `None` where the system does not say.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
        Some(Duration::from_secs(ticks(&stat)?) / system::ticks_per_second()?)
    }

    /// Waits for a file that the server writes after its start, until its content satisfies `holds`.
    pub(crate) async fn wait_for<T>(
        &mut self,
        file: &Path,
        holds: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(found) = std::fs::read_to_string(file).ok().and_then(|text| holds(&text)) {
                return Ok(found);
            }
            if let Some(status) = self.status()? {
                return Err(Error::Server(format!("a server ended before it was up: {status}")));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Err(Error::Server(format!("a server was not up after {} s", PATIENCE.as_secs())))
    }

    /// Its exit status, if it has ended.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(Error::io("a server"))
    }

    /// Waits until it ends by itself; an error if it takes longer than `patience`.
    pub(crate) async fn ended(&mut self, patience: Duration) -> Result<ExitStatus, Error> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Err(Error::Server(format!("it did not end within {} s", patience.as_secs())))
    }

    /// Asks it to end in order, and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), Error> {
        system::ask_to_end(&self.child);
        self.ended(PATIENCE).await.map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor time of a process, of its children, and of those of its children that have ended.
pub(crate) fn processor_time_of_family(parent: u32) -> Option<Duration> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut sum = 0;
    for id in ids {
        // A process that has ended meanwhile is counted by its parent.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        if id == parent {
            sum += ticks(&stat)? + ticks_of_children(&stat)?;
        } else if parent_of(&stat) == Some(parent) {
            sum += ticks(&stat)?;
        }
    }
    Some(Duration::from_secs(sum) / system::ticks_per_second()?)
}

/// The processor time of this process, and of its children that have ended; `None` where the system does not say.
pub(crate) fn own_processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let sum = ticks(&stat)?.checked_add(ticks_of_children(&stat)?)?;
    Some(Duration::from_secs(sum) / system::ticks_per_second()?)
}

/// The growth of this process's memory.
pub(crate) struct Growth {
    /// The bytes at its begin.
    before: Option<u64>,
}

impl Growth {
    pub(crate) fn begin() -> Self {
        // Resets the peak (proc(5)).
        let reset = std::fs::write("/proc/self/clear_refs", "5");
        let status = reset.and_then(|()| std::fs::read_to_string("/proc/self/status"));
        Self { before: status.ok().and_then(|status| resident(&status)) }
    }

    /// Returns the most bytes that it had more than at its begin; `None` where the system does not say.
    pub(crate) fn end(self) -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        Some(peak(&status)?.saturating_sub(self.before?))
    }
}

/// Runs a program with this input to its end, and returns the most memory that it had, in bytes, where the system says it.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Result<Option<u64>, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(Error::io(&name))?;
    let (status, has_ended) = (format!("/proc/{}/status", child.id()), AtomicBool::new(false));
    let (done, memory) = std::thread::scope(|scope| {
        let memory = scope.spawn(|| {
            let mut most = None;
            while !has_ended.load(Ordering::Relaxed) {
                most = most.max(std::fs::read_to_string(&status).ok().and_then(|status| peak(&status)));
                std::thread::park_timeout(CHECK_INTERVAL);
            }
            most
        });
        let sent = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
        let done = child.wait_with_output();
        has_ended.store(true, Ordering::Relaxed);
        // A program that ends early says why.
        let done = done.and_then(|done| if done.status.success() { sent.map(|()| done) } else { Ok(done) });
        (done, memory.join().unwrap_or_default())
    });
    let done = done.map_err(Error::io(&name))?;
    match done.status.success() {
        true => Ok(memory),
        false => Err(Error::Server(format!("{name}: {}", String::from_utf8_lossy(&done.stderr)))),
    }
}

/// `VmRSS` in bytes from the text of `/proc/<id>/status`.
fn resident(status: &str) -> Option<u64> {
    memory(status, "VmRSS:")
}

/// `VmHWM`, the most that a process had, in the same way.
fn peak(status: &str) -> Option<u64> {
    memory(status, "VmHWM:")
}

fn memory(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The ticks in user and system mode from the text of `/proc/<id>/stat`: the 14th and the 15th field.
fn ticks(stat: &str) -> Option<u64> {
    sum_of_fields(stat, 14)
}

/// The ticks of children that have ended: the 16th and the 17th field.
fn ticks_of_children(stat: &str) -> Option<u64> {
    sum_of_fields(stat, 16)
}

/// The id of the parent: the 4th field.
fn parent_of(stat: &str) -> Option<u32> {
    fields_from(stat, 4)?.next()?.parse().ok()
}

/// The sum of a field of `/proc/<id>/stat` and the one after it.
fn sum_of_fields(stat: &str, first: usize) -> Option<u64> {
    let mut fields = fields_from(stat, first)?;
    let mut field = || fields.next()?.parse::<u64>().ok();
    field()?.checked_add(field()?)
}

/// The fields from the one of this number, which is above 2: the second is the program's name in parentheses, which may hold
/// anything.
fn fields_from(stat: &str, first: usize) -> Option<impl Iterator<Item = &str>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().skip(first.checked_sub(3)?))
}

#[cfg(target_os = "linux")]
mod system {
    use std::process::Child;

    use rustix::process::{Pid, Signal, kill_process};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn allowed() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    }

    /// True if the system call succeeded.
    pub(super) fn go_to(processors: &[usize]) -> bool {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        sched_setaffinity(None, &set).is_ok()
    }

    pub(super) fn ticks_per_second() -> Option<u32> {
        u32::try_from(rustix::param::clock_ticks_per_second()).ok().filter(|ticks| *ticks > 0)
    }

    pub(super) fn ask_to_end(child: &Child) {
        // Fails where it has ended already.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::process::{Child, Command};

    pub(super) fn allowed() -> Vec<usize> {
        Vec::new()
    }

    pub(super) fn go_to(_: &[usize]) -> bool {
        false
    }

    pub(super) fn ticks_per_second() -> Option<u32> {
        None
    }

    pub(super) fn ask_to_end(child: &Child) {
        // Fails where it has ended already.
        let _ = Command::new("kill").arg(child.id().to_string()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident("Name:\tcogwork\nVmRSS:\t   20480 kB\nThreads: 4\n"), Some(20 << 20));
        assert_eq!(resident("Name:\tcogwork\n"), None);
        assert_eq!(resident("VmRSS:\tmuch\n"), None);
    }

    #[test]
    fn processor_time_is_read_for_any_program_name() {
        let stat = "7 (cog) work) 1) S 1 7 7 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 9 0 5 1 2";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!((ticks_of_children(stat), parent_of(stat)), (Some(0), Some(1)));
        assert_eq!(ticks("7 (cogwork) S 1"), None);
    }
}
