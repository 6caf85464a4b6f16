//! A login at a server, and the requests of the protocol.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connector::net::{Dialed, Endpoint};
use connector::{Call, ResolvedConnection};
use model::{ActionError, ErrorKind};
use russh::client::{self, AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::{Algorithm, PrivateKeyWithHashAlg, PublicKeyOrCertificate, decode_secret_key};
use russh_sftp::client::error::Error;
use russh_sftp::client::{Config, RawSftpSession};
use russh_sftp::protocol::{FileAttributes, OpenFlags, Packet, StatusCode};

use super::failure::{failure, has_failed, is_refusal};
use super::folder::name_of;
use super::host_key::HostKey;
use crate::connection::Inputs;
use crate::explain::{Protocol, explained};
use crate::pool::{self, Pooled, Probed};

/// The port of a connection that names none.
const USUAL_PORT: u16 = 22;
/// The time for an answer of the server.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The largest packet that is read, in bytes.
const MAX_PACKET: u32 = 256 << 10;
/// The extensions of OpenSSH that are used.
const POSIX_RENAME: &str = "posix-rename@openssh.com";
const FSYNC: &str = "fsync@openssh.com";
/// The questions of a server that asks for a password in a dialog.
const MAX_QUESTIONS: usize = 4;

/// A session. Dropping it ends the connection.
pub(in crate::sftp) struct Session {
    pub subject: String,
    pub sftp: RawSftpSession,
    handle: Handle<Checker>,
    renames_over: bool,
    syncs: bool,
}

impl Pooled for Session {
    const MAX_IDLE: Duration = pool::OF_SERVERS_IDLE;
    type Shared = ();

    fn is_usable(&self) -> bool {
        !self.handle.is_closed()
    }
}

impl Probed for Session {
    async fn answers(&mut self) -> bool {
        self.sftp.realpath(".").await.is_ok()
    }
}

/// Checks the key of the server.
struct Checker {
    expected: HostKey,
    /// The reason why the key was refused.
    refused: Arc<Mutex<Option<String>>>,
}

impl client::Handler for Checker {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        let checked = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => self.expected.check(key),
            PublicKeyOrCertificate::Certificate(_) => {
                Err("the server shows a certificate, and `hostKey` names a key".to_owned())
            }
        };
        let is_good = checked.is_ok();
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = checked.err();
        Ok(is_good)
    }
}

/// A server greets; there is no TLS.
const PROTOCOL: Protocol = Protocol { greets_as: Some("SSH"), tls_first: false, without_tls: "" };

impl Session {
    /// Connects and logs in.
    pub(super) async fn open(
        call: &Call<'_>,
        connection: &ResolvedConnection,
        subject: &str,
    ) -> Result<Self, ActionError> {
        let inputs = Inputs(connection);
        let expected = HostKey::parse(inputs.text("hostKey").unwrap_or_default());
        let expected = expected.map_err(|error| inputs.refuse(error))?;
        let secret = Secret::of(inputs).await?;
        let port = inputs.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(USUAL_PORT);
        let host = inputs.text("host").unwrap_or_default();
        let to = Endpoint { host, port, subject, connection: Some(&connection.name) };
        let Dialed { stream, route } = call.http.dialer().dial(&to, call.log).await?;
        let refused = Arc::new(Mutex::new(None));
        let algorithm = expected.algorithm();
        let checker = Checker { expected, refused: refused.clone() };
        let connecting = client::connect_stream(Arc::new(config(algorithm)), stream, checker);
        let broken = |error: russh::Error| broken(subject, inputs, &error);
        let connected = within(subject, connecting).await.and_then(|connected| {
            connected.map_err(|error| {
                let reason = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
                reason.map_or_else(|| broken(error), |reason| inputs.refuse(reason))
            })
        });
        let mut handle = match connected {
            Ok(handle) => handle,
            Err(error) => return Err(explained(error, &route, host, (PROTOCOL, false)).await),
        };
        let user = inputs.text("user").unwrap_or_default();
        if !within(subject, secret.log_in(&mut handle, user)).await?.map_err(broken)? {
            let message = format!("{subject} refuses the login of `{user}`");
            return Err(ActionError::new(ErrorKind::Connection, message));
        }
        let opening = async {
            let channel = handle.channel_open_session().await?;
            channel.request_subsystem(true, "sftp").await?;
            Ok(channel.into_stream())
        };
        let stream = within(subject, opening).await?.map_err(broken)?;
        let own = Config {
            max_packet_len: MAX_PACKET,
            request_timeout_secs: ANSWER_TIME.as_secs(),
            ..Config::default()
        };
        let sftp = RawSftpSession::new_with_config(stream, own);
        let version = sftp.init().await.map_err(|error| failure(subject, "sftp", &error))?;
        let has = |name| version.extensions.get(name).is_some_and(|version| version == "1");
        let (renames_over, syncs) = (has(POSIX_RENAME), has(FSYNC));
        Ok(Self { subject: subject.to_owned(), sftp, handle, renames_over, syncs })
    }

    /// Ends the connection.
    pub(super) async fn close(self) {
        let _ = self.sftp.close_session();
        let _ = self.handle.disconnect(russh::Disconnect::ByApplication, "", "en").await;
    }

    /// The error of a request for a path.
    pub(super) fn failed(&self, path: &str) -> impl Fn(Error) -> ActionError {
        move |error| failure(&self.subject, path, &error)
    }

    /// The error of a change, whose outcome is unknown if the connection broke.
    pub(super) fn change_failed(&self, path: &str) -> impl Fn(Error) -> ActionError {
        move |error| {
            let failed = failure(&self.subject, path, &error);
            if is_refusal(&error) { failed } else { failed.with_outcome_unknown() }
        }
    }

    /// Opens a file. Returns its handle.
    pub(super) async fn open_file(&self, path: &str, flags: OpenFlags) -> Result<String, ActionError> {
        let opened = self.sftp.open(path, flags, FileAttributes::empty()).await;
        opened.map(|opened| opened.handle).map_err(self.failed(path))
    }

    /// Makes the server write a file to its disk, if it can.
    pub(super) async fn sync(&self, handle: &str) -> Result<(), Error> {
        if self.syncs { self.sftp.fsync(handle).await.map(|_| ()) } else { Ok(()) }
    }

    /// Gives a file a new path. With `replace` a file there is replaced: in one step if the server can, else after it was moved
    /// aside, from where it comes back if the other has not taken its place.
    pub(super) async fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), Error> {
        if replace && self.renames_over {
            let data = [from, to].map(wire_text).concat();
            return match self.sftp.extended(POSIX_RENAME, data).await? {
                Packet::Status(status) if status.status_code == StatusCode::Ok => Ok(()),
                Packet::Status(status) => Err(Error::Status(status)),
                _ => Err(Error::UnexpectedPacket),
            };
        }
        let renamed = self.sftp.rename(from, to).await.map(|_| ());
        match renamed {
            // So servers say that the name exists.
            Err(error) if replace && has_failed(&error) => match self.sftp.lstat(to).await {
                Ok(known) if !known.attrs.is_dir() => self.rename_over(from, to).await,
                _ => Err(error),
            },
            other => other,
        }
    }

    async fn rename_over(&self, from: &str, to: &str) -> Result<(), Error> {
        let name = name_of(to);
        let aside = format!("{}.{name}.replaced", to.strip_suffix(name).unwrap_or_default());
        // Left by an attempt that was cut off after its file had taken the place.
        let _ = self.sftp.remove(&aside).await;
        self.sftp.rename(to, &aside).await?;
        let Err(error) = self.sftp.rename(from, to).await else {
            let _ = self.sftp.remove(&aside).await;
            return Ok(());
        };
        match self.sftp.rename(&aside, to).await {
            // The place may be empty now, so the outcome is unknown.
            Err(lost) if !is_refusal(&lost) => Err(lost),
            _ => Err(error),
        }
    }
}

/// A text as the protocol writes it.
fn wire_text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), text.as_bytes()].concat()
}

fn config(algorithm: Option<Algorithm>) -> client::Config {
    let mut config = client::Config { inactivity_timeout: Some(ANSWER_TIME), ..client::Config::default() };
    if let Some(algorithm) = algorithm {
        // The server shows the key that the connection names, and not another one of its keys. An RSA key signs in several ways.
        let is_rsa = |one: &Algorithm| matches!(one, Algorithm::Rsa { .. });
        let is_same = |other: &&Algorithm| **other == algorithm || (is_rsa(other) && is_rsa(&algorithm));
        let keys: Vec<Algorithm> = config.preferred.key.iter().filter(is_same).cloned().collect();
        config.preferred.key = keys.into();
    }
    config
}

async fn within<T>(subject: &str, work: impl Future<Output = T>) -> Result<T, ActionError> {
    tokio::time::timeout(ANSWER_TIME, work).await.map_err(|_| {
        let limit = text::units::format_duration(ANSWER_TIME);
        let mut error =
            ActionError::new(ErrorKind::Timeout, format!("{subject} did not answer within {limit}"));
        error.not_sent = true;
        error
    })
}

/// The error of a connection that ended before the login. Nothing was changed then.
fn broken(subject: &str, inputs: Inputs<'_>, error: &russh::Error) -> ActionError {
    if let russh::Error::NoCommonAlgo { kind, theirs, .. } = error {
        let theirs = theirs.join(", ");
        return inputs
            .refuse(format_args!("{subject} offers no algorithm for {kind:?} that is safe, only: {theirs}"));
    }
    let mut error =
        ActionError::new(ErrorKind::Network, format!("the connection to {subject} broke: {error}"));
    error.not_sent = true;
    error
}

/// The credential of a login.
enum Secret<'a> {
    Key(PrivateKeyWithHashAlg),
    Password(&'a str),
}

impl<'a> Secret<'a> {
    async fn of(inputs: Inputs<'a>) -> Result<Self, ActionError> {
        let Some(pem) = inputs.text("privateKey") else {
            return Ok(Self::Password(inputs.text("password").unwrap_or_default()));
        };
        let (pem, passphrase) = (pem.to_owned(), inputs.text("passphrase").map(str::to_owned));
        // A passphrase takes a tenth of a second on purpose.
        let decoding = allocator::large_work(move || decode_secret_key(&pem, passphrase.as_deref()));
        let decoded =
            decoding.await.map_err(|error| ActionError::new(ErrorKind::Internal, error.to_string()))?;
        // The reason could repeat a line of the key.
        let key = decoded.map_err(|_| {
            inputs.refuse(
                "`privateKey` is not a private key as `ssh-keygen` writes it, or `passphrase` does not open it",
            )
        })?;
        if !matches!(key.algorithm(), Algorithm::Ed25519 | Algorithm::Ecdsa { .. }) {
            let words = "`privateKey` is an RSA or DSA key, which is not used: make another with `ssh-keygen -t ed25519`, and give \
                         the server its `.pub`";
            return Err(inputs.refuse(words));
        }
        Ok(Self::Key(PrivateKeyWithHashAlg::new(Arc::new(key), None)))
    }

    /// Logs in. Returns false if the server refuses.
    async fn log_in(&self, handle: &mut Handle<Checker>, user: &str) -> Result<bool, russh::Error> {
        let password = match self {
            Self::Key(key) => {
                return handle.authenticate_publickey(user, key.clone()).await.map(|result| result.success());
            }
            Self::Password(password) => *password,
        };
        if matches!(handle.authenticate_password(user, password).await?, AuthResult::Success) {
            return Ok(true);
        }
        let mut asked = handle.authenticate_keyboard_interactive_start(user, None).await?;
        for _ in 0..MAX_QUESTIONS {
            let KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } = asked else { break };
            // A question whose answer would be shown is not for a password.
            let answers =
                prompts.iter().map(|prompt| if prompt.echo { String::new() } else { password.to_owned() });
            asked = handle.authenticate_keyboard_interactive_respond(answers.collect()).await?;
        }
        Ok(matches!(asked, KeyboardInteractiveAuthResponse::Success))
    }
}
