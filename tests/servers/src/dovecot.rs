//! A mail server: Dovecot with the mailboxes `INBOX`, `Archive` and `Büro & more` of one account.

use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::{Running, free_port, until_closed};

/// The program, where Debian has it.
const PROGRAM: &str = "/usr/sbin/dovecot";
/// The part of the server that speaks the protocol, which has a package of its own.
const PROTOCOL: &str = "/usr/lib/dovecot/imap";
/// The name of the account.
pub const USER: &str = "ada@example.com";

/// A running server. Dropping it ends it, and deletes its folder.
#[derive(Debug)]
pub struct Server {
    /// The port that begins without encryption.
    pub port: u16,
    /// The port that begins with TLS.
    pub tls_port: u16,
    folder: TempDir,
    running: Option<Running>,
    delivered: AtomicU32,
}

impl Server {
    /// Starts a server with a password; `None`, with a line, if it is not installed.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start(password: &str) -> Option<Self> {
        Self::start_prepared(password, "", |_| Ok(()))
    }

    /// Starts a server with further lines of configuration, in which `{folder}` stands for its folder, and with the files that `prepare`
    /// writes there.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start_prepared(
        password: &str,
        configuration: &str,
        prepare: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Option<Self> {
        if ![PROGRAM, PROTOCOL].iter().all(|path| Path::new(path).is_file()) {
            assert!(std::env::var_os("COGWORK_REQUIRE_SERVERS").is_none(), "dovecot-imapd is not installed");
            use io::Write as _;
            let _ = writeln!(io::stderr(), "skipped: dovecot-imapd is not installed");
            return None;
        }
        let made = || -> io::Result<Self> {
            let folder = tempfile::tempdir()?;
            let (port, tls_port) = (free_port()?, free_port()?);
            crate::certificates::write(folder.path(), "127.0.0.1")?;
            let text = configured(folder.path(), (port, tls_port), configuration);
            std::fs::write(folder.path().join("server.conf"), text)?;
            let mut server = Self { port, tls_port, folder, running: None, delivered: AtomicU32::new(0) };
            server.owned(server.folder.path())?;
            server.set_password(password)?;
            prepare(server.folder.path())?;
            for name in ["certificate.pem", "certificate.key", "server.conf"] {
                server.owned(&server.folder.path().join(name))?;
            }
            server.start_again()?;
            Ok(server)
        };
        Some(made().unwrap_or_else(|error| panic!("Dovecot does not start: {error}")))
    }

    /// Changes the password of the account. Connections that have logged in go on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_password(&self, password: &str) -> io::Result<()> {
        let users = self.folder.path().join("users");
        std::fs::write(&users, format!("{USER}:{{PLAIN}}{password}\n"))?;
        self.owned(&users)
    }

    /// Starts it again after [`Server::kill`], with all its messages.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> io::Result<()> {
        let command = postgres_server::unprivileged(Path::new(PROGRAM));
        let configuration = self.folder.path().join("server.conf");
        let own = ["-F", "-c"].map(str::to_owned).into_iter().chain([configuration.display().to_string()]);
        let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
        let arguments: Vec<String> = arguments.chain(own).collect();
        let pid_file = self.folder.path().join("run/master.pid");
        self.running =
            Some(Running::start(Path::new(command.get_program()), &arguments, pid_file, self.port)?);
        Ok(())
    }

    /// Kills it, and what has its connections.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> io::Result<()> {
        let running = self.running.take().ok_or(io::ErrorKind::NotConnected)?;
        // Else it would start its parts again.
        running.signal("STOP")?;
        running.signal_parts("KILL", &[])?;
        drop(running);
        // A part that is just ending still accepts, and would be taken for the next server.
        until_closed(self.port)
    }

    /// Lets it stand still, or go on.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&self, stands: bool) -> io::Result<()> {
        let name = if stands { "STOP" } else { "CONT" };
        let running = self.running.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        running.signal_parts(name, &[])?;
        running.signal(name)
    }

    /// Ends all connections with a word to their clients, and takes others.
    ///
    /// # Errors
    /// It does not run.
    pub fn end_sessions(&self) -> io::Result<()> {
        let running = self.running.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        running.signal_parts("TERM", &["-x", "imap"])
    }

    /// Returns the number of lines of the log with these words, such as `Login: `.
    ///
    /// # Errors
    /// It has no log.
    pub fn logged(&self, words: &str) -> io::Result<usize> {
        let log = std::fs::read_to_string(self.folder.path().join("log"))?;
        Ok(log.lines().filter(|line| line.contains(words)).count())
    }

    /// The authority of its certificate, which is for `127.0.0.1`, as PEM.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn authority(&self) -> io::Result<String> {
        std::fs::read_to_string(self.folder.path().join("ca.pem"))
    }

    /// Delivers a message to a mailbox, as another program would.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn deliver(&self, mailbox: &str, message: &[u8]) -> io::Result<()> {
        let folder = self.mailbox(mailbox);
        for path in [folder.clone(), folder.join("new"), folder.join("cur"), folder.join("tmp")] {
            std::fs::create_dir_all(&path)?;
            self.owned(&path)?;
        }
        let number = self.delivered.fetch_add(1, Ordering::Relaxed);
        // The server numbers messages in the order of these names.
        let name = format!("{}.M1P1_{number}.test", 1_700_000_000 + number);
        let (written, path) = (folder.join("tmp").join(&name), folder.join("new").join(&name));
        std::fs::write(&written, message)?;
        self.owned(&written)?;
        std::fs::rename(written, path)
    }

    /// Deletes a mailbox, as another client would.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn delete_mailbox(&self, mailbox: &str) -> io::Result<()> {
        let configuration = self.folder.path().join("server.conf");
        let mut command = Command::new("doveadm");
        command.arg("-c").arg(configuration).args(["mailbox", "delete", "-u", USER, mailbox]);
        let done = command.output()?;
        let reason = || io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned());
        if done.status.success() { Ok(()) } else { Err(reason()) }
    }

    /// Makes the server number the messages of a mailbox anew.
    ///
    /// # Errors
    /// The files cannot be removed.
    pub fn renumber(&self, mailbox: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(self.mailbox(mailbox))? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with("dovecot.index") || name == "dovecot-uidlist" {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn mailbox(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join("mail").join(USER);
        if name == "INBOX" { folder } else { folder.join(format!(".{name}")) }
    }

    /// Gives a path to the account of the server.
    fn owned(&self, path: &Path) -> io::Result<()> {
        let (user, group) = account()?;
        let owner = if is_other() { (Some(user), Some(group)) } else { (None, None) };
        let mut at = PathBuf::from(path);
        // The folders above belong to the server too.
        while at.starts_with(self.folder.path()) {
            chown(&at, owner.0, owner.1)?;
            at.pop();
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// True if the server runs as another account than this process.
fn is_other() -> bool {
    postgres_server::unprivileged(Path::new(PROGRAM)).get_program() != PROGRAM
}

/// The account as which the server runs.
fn account() -> io::Result<(u32, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let command = postgres_server::unprivileged(Path::new(PROGRAM));
    let ids: Vec<u32> = command.get_args().filter_map(|argument| argument.to_str()?.parse().ok()).collect();
    match ids.as_slice() {
        [user, group] => Ok((*user, *group)),
        _ => std::fs::metadata("/proc/self").map(|own| (own.uid(), own.gid())),
    }
}

/// The name of an account or a group.
fn name_of(kind: &str, id: u32) -> String {
    let done = Command::new("getent").args([kind, &id.to_string()]).output();
    let line = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
    line.split(':').next().unwrap_or_default().to_owned()
}

fn configured(folder: &Path, (port, tls_port): (u16, u16), more: &str) -> String {
    let (user, group) = account().unwrap_or_default();
    let (user, group) = (name_of("passwd", user), name_of("group", group));
    let folder = folder.display().to_string();
    let text = include_str!("dovecot.conf").replace("{more}", more);
    let text = text.replace("{folder}", &folder).replace("{user}", &user).replace("{group}", &group);
    text.replace("{port}", &port.to_string()).replace("{tlsPort}", &tls_port.to_string())
}
