//! The programs that do the mistreating: `strace` makes system calls fail or kill, `mount` and an ioctl cut the power.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use super::Error;

/// The time limit of a program.
const PATIENCE: Duration = Duration::from_secs(30);
/// Size of a mistreated disk: enough for the store's log and the data of a long run.
const DISK_BYTES: u64 = 256 << 20;
/// The number of attempts to unmount a busy disk.
const UNMOUNT_TRIES: u32 = 100;
/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH` (Linux, `fs/ext4/ext4.h`): from that moment nothing reaches
/// the disk, not even the file system's own journal. Python is what every machine has that can do an ioctl.
const SHUT_DOWN: &str = "import fcntl, os, struct, sys; \
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

fn failed(program: &str, reason: impl ToString) -> Error {
    Error::Tool { program: program.to_owned(), reason: reason.to_string() }
}

/// A program that cannot be started; says what installs it if it is missing.
fn not_started(program: &str, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => failed(program, "it is not installed; `scripts/need.sh` installs it"),
        _ => failed(program, error),
    }
}

/// Runs a program to its end.
pub(super) async fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<(), Error> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, output).await;
    let output = output.map_err(|_| failed(program, "it takes too long"))?;
    let output = output.map_err(|error| not_started(program, &error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(program, String::from_utf8_lossy(&output.stderr).trim()))
}

/// Fails unless this process runs as root.
pub(super) fn needs_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::NotHere("it needs root".to_owned()))
}

/// The fate of system calls while it is attached. Dropping it detaches.
#[derive(Debug)]
pub(super) struct Strace {
    child: Child,
    /// Its output is read to the end, so that it never blocks on a full pipe.
    lines: Option<Lines<BufReader<ChildStderr>>>,
}

impl Strace {
    /// Attaches to all threads of a process: `call` does what `injection` says, in the words of strace's `inject`.
    pub(super) async fn attach(process: u32, call: &str, injection: &str) -> Result<Self, Error> {
        let mut command = Command::new("strace");
        command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:{injection}"), "-p", &process.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| not_started("strace", &error))?;
        let stderr = child.stderr.take().ok_or_else(|| failed("strace", "it has no standard error"))?;
        let mut strace = Self { child, lines: Some(BufReader::new(stderr).lines()) };
        let attached = tokio::time::timeout(PATIENCE, strace.attached()).await;
        attached.map_err(|_| failed("strace", "it does not attach"))??;
        Ok(strace)
    }

    async fn attached(&mut self) -> Result<(), Error> {
        let mut lines = self.lines.take().ok_or_else(|| failed("strace", "it has said all"))?;
        let mut said = String::new();
        while let Some(line) = lines.next_line().await? {
            if line.contains("attached") {
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(());
            }
            said.push_str(&line);
        }
        Err(failed("strace", said))
    }

    /// Detaches; calls are as they were.
    pub(super) async fn detach(mut self) -> Result<(), Error> {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // On this signal it detaches from all processes; killed, it would leave them stopped.
            kill_process(pid, Signal::INT).map_err(std::io::Error::from)?;
        }
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.map_err(|_| failed("strace", "it does not let go"))??;
        Ok(())
    }
}

/// An ext4 file system in a file, which can be filled, and whose power can be cut.
#[derive(Debug)]
pub(super) struct Disk {
    folder: tempfile::TempDir,
    is_mounted: bool,
}

impl Disk {
    /// Makes one and mounts it. Only root may.
    pub(super) async fn new() -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("cogwork-disk-").tempdir()?;
        // A database in it runs as another user.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        std::fs::create_dir(folder.path().join("mounted"))?;
        let disk = Self { folder, is_mounted: false };
        std::fs::File::create(disk.image())?.set_len(DISK_BYTES)?;
        run("mkfs.ext4", &[OsStr::new("-q"), disk.image().as_os_str()]).await?;
        let mut disk = disk;
        disk.mount().await?;
        Ok(disk)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// The mount point.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Makes a folder in it.
    pub(super) fn new_folder(&self, name: &str) -> Result<PathBuf, Error> {
        let folder = self.path().join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    async fn mount(&mut self) -> Result<(), Error> {
        let arguments = ["-o", "loop"].map(OsStr::new).to_vec();
        let (image, path) = (self.image(), self.path());
        run("mount", &[&arguments[..], &[image.as_os_str(), path.as_os_str()]].concat()).await?;
        self.is_mounted = true;
        Ok(())
    }

    /// Cuts the power: all data that is not on the disk yet is lost.
    pub(super) async fn cut_power(&self) -> Result<(), Error> {
        run("python3", &[OsStr::new("-c"), OsStr::new(SHUT_DOWN), self.path().as_os_str()]).await
    }

    /// Switches the machine on again: the data that was only in its memory is gone.
    pub(super) async fn power_on(&mut self) -> Result<(), Error> {
        let mut last = Ok(());
        for _ in 0..UNMOUNT_TRIES {
            last = run("umount", &[self.path()]).await;
            if last.is_ok() {
                break;
            }
        }
        last?;
        self.is_mounted = false;
        self.mount().await
    }

    /// Takes all the space that is left, until [`Self::make_room`].
    pub(super) fn fill(&self) -> Result<(), Error> {
        let mut ballast = std::fs::File::options().create(true).append(true).open(self.ballast())?;
        // A large piece may find no room where a small one still does.
        for piece in [1 << 20, 4096] {
            let piece = vec![0xa5_u8; piece];
            while ballast.write_all(&piece).is_ok() {}
        }
        // A failed write has been reported already.
        let _ = ballast.sync_all();
        Ok(())
    }

    /// Gives back what [`Self::fill`] took.
    pub(super) fn make_room(&self) -> Result<(), Error> {
        Ok(std::fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Everything so far reaches the disk.
    pub(super) async fn sync(&self) -> Result<(), Error> {
        run("sync", &[OsStr::new("--file-system"), self.path().as_os_str()]).await
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let path: &Path = &self.path();
            // Lazily: a file that is still open there does not block the unmount.
            let _ = std::process::Command::new("umount").arg("--lazy").arg(path).status();
        }
    }
}
