//! An OpenSSH server of Debian, with keys of its own, for the account that runs the tests.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Running, free_port};

/// The program, where Debian has it.
const PROGRAM: &str = "/usr/sbin/sshd";
/// The passphrase of the key `locked`.
pub const PASSPHRASE: &str = "canary-93be-passphrase";

/// A running server. Dropping it ends it, and deletes its folder.
#[derive(Debug)]
pub struct Server {
    /// Its port of loopback.
    pub port: u16,
    folder: TempDir,
    running: Option<Running>,
}

impl Server {
    /// Starts a server with further arguments for the program that has the files; `None`, with a line, if it is not installed. Its
    /// account may log in by the keys `user`, `locked`, `user_ecdsa` and `user_rsa`, not by `stranger`.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start(arguments: &str) -> Option<Self> {
        if !Path::new(PROGRAM).is_file() {
            crate::not_installed("sshd", "scripts/need.sh openssh-server");
            return None;
        }
        let made = || -> io::Result<Self> {
            let folder = tempfile::tempdir()?;
            let path = folder.path();
            for (kind, name, phrase) in [
                ("ed25519", "host", ""),
                ("rsa", "host_rsa", ""),
                ("ed25519", "user", ""),
                ("ed25519", "locked", PASSPHRASE),
                ("ecdsa", "user_ecdsa", ""),
                ("rsa", "user_rsa", ""),
                ("ed25519", "stranger", ""),
            ] {
                keygen(path, &["-t", kind, "-N", phrase, "-f", name])?;
            }
            let mut keys = String::new();
            for name in ["user.pub", "locked.pub", "user_ecdsa.pub", "user_rsa.pub"] {
                keys += &std::fs::read_to_string(path.join(name))?;
            }
            std::fs::write(path.join("authorized"), keys)?;
            std::fs::create_dir(path.join("home"))?;
            let port = free_port()?;
            let text = path.display();
            let config = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {text}/host\nHostKey {text}/host_rsa\nPidFile {text}/pid\nUsePAM no\n\
                 AuthorizedKeysFile {text}/authorized\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication yes\n\
                 MaxStartups 100\nSubsystem sftp internal-sftp {arguments} -d {text}/home\n"
            );
            std::fs::write(path.join("config"), config)?;
            // The program wants its folder, which a service would make.
            let _ = std::fs::create_dir_all("/run/sshd");
            let mut server = Self { port, folder, running: None };
            server.start_again()?;
            Ok(server)
        };
        Some(made().unwrap_or_else(|error| panic!("sshd does not start: {error}")))
    }

    /// Starts it again after [`Server::kill`].
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> io::Result<()> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let arguments = ["-D", "-E", &file("log"), "-f", &file("config")].map(str::to_owned);
        let pid = self.folder.path().join("pid");
        self.running = Some(Running::start(Path::new(PROGRAM), &arguments, pid, self.port)?);
        Ok(())
    }

    /// Kills it, with the processes that have its connections.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> io::Result<()> {
        let running = self.running.take().ok_or(io::ErrorKind::NotConnected)?;
        running.signal("STOP")?;
        running.signal_parts("KILL", &[])
    }

    /// Ends all connections, and takes others.
    ///
    /// # Errors
    /// It does not run.
    pub fn end_sessions(&self) -> io::Result<()> {
        self.running()?.signal_parts("KILL", &[])
    }

    /// Lets all connections stand still, or go on.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&self, stands: bool) -> io::Result<()> {
        self.running()?.signal_parts(if stands { "STOP" } else { "CONT" }, &[])
    }

    /// Returns the number of connections that stand.
    ///
    /// # Errors
    /// It does not run.
    pub fn sessions(&self) -> io::Result<usize> {
        self.running()?.parts()
    }

    /// Returns the number of logins by a key since the first start.
    ///
    /// # Errors
    /// It has no log.
    pub fn logins(&self) -> io::Result<usize> {
        let log = std::fs::read_to_string(self.folder.path().join("log"))?;
        Ok(log.lines().filter(|line| line.starts_with("Accepted publickey")).count())
    }

    fn running(&self) -> io::Result<&Running> {
        self.running.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Its folder, with the keys.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file of the account.
    #[must_use]
    pub fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join("home").join(name)
    }

    /// Returns a key, or another file of its folder.
    ///
    /// # Panics
    /// There is no such file.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name))
            .unwrap_or_else(|error| panic!("`{name}`: {error}"))
    }
}

/// The account that runs the tests, as which the server must run.
///
/// # Panics
/// The system does not say.
#[must_use]
pub fn user() -> String {
    let done = Command::new("id").arg("-un").output().unwrap_or_else(|error| panic!("`id`: {error}"));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

fn keygen(folder: &Path, arguments: &[&str]) -> io::Result<()> {
    let done = Command::new("ssh-keygen").arg("-q").args(arguments).current_dir(folder).output()?;
    let said = || String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() { Ok(()) } else { Err(io::Error::other(said())) }
}
