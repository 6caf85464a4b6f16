//! The address of a database: a `postgres://` URL, and the rules of encryption.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::form_urlencoded;

use store::Error;

/// The time to open a connection, and that after which a connection without an answer of the network is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a database. Its text and its debug output have no password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    config: Config,
    shown: String,
    /// The file of the certificates that sign the server's, in place of those of the system.
    authorities: Option<PathBuf>,
    is_encrypted: bool,
}

impl Address {
    /// Returns the password.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        self.config.get_password().map(|password| String::from_utf8_lossy(password).into_owned())
    }

    /// Returns the host and the port of each server, without those behind a socket of this machine.
    #[must_use]
    pub fn servers(&self) -> Vec<(String, u16)> {
        let hosts = self.config.get_hosts().iter().enumerate().filter_map(|(index, host)| match host {
            Host::Tcp(name) => Some((name.clone(), port(&self.config, index))),
            #[cfg(unix)]
            Host::Unix(_) => None,
        });
        let addresses = self.config.get_hostaddrs().iter().enumerate();
        let addresses = addresses.map(|(index, address)| (address.to_string(), port(&self.config, index)));
        hosts.chain(addresses).collect()
    }

    /// Parses a URL. The connection is encrypted and the server's certificate verified, unless all hosts are local, or
    /// `sslmode=disable` says otherwise.
    ///
    /// # Errors
    /// [`Error::InvalidAddress`] if it is not a URL of a database. The message contains no part of the URL.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::InvalidAddress { reason };
        if has_raw_at_sign(text) {
            let reason = "its user, its password or its database has an `@` or a `/` as it is, which must be `%40` or `%2F`";
            return Err(invalid(reason.to_owned()));
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut authorities) = (None, None);
        let mut others = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match form_urlencoded::parse(part.as_bytes()).next() {
                Some((name, value)) if name == "sslmode" => mode = Some(value.into_owned()),
                Some((name, value)) if name == "sslrootcert" => authorities = Some(PathBuf::from(&*value)),
                _ => others.push(part),
            }
        }
        // The message of the parser can repeat a part of the URL.
        let parsed = format!("{base}?{}", others.join("&")).parse::<Config>();
        let mut config = parsed.map_err(|_| invalid("it has a part that is not understood".to_owned()))?;
        if config.get_hosts().is_empty() {
            return Err(invalid("it names no host".to_owned()));
        }
        if config.get_user().is_none() {
            return Err(invalid("it names no user".to_owned()));
        }
        let is_local = config.get_hosts().iter().all(is_local);
        let is_encrypted = match mode.as_deref() {
            Some("disable") => false,
            None | Some("prefer" | "allow") => !is_local,
            Some("require" | "verify-ca" | "verify-full") => true,
            Some(_) => {
                return Err(invalid("its `sslmode` is not one of `disable`, `verify-full`".to_owned()));
            }
        };
        config
            .ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable })
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(NETWORK_TIMEOUT)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3);
        let shown = show(&config);
        Ok(Self { config, shown, authorities, is_encrypted })
    }

    /// Returns a sentence about the guarantee that the connection weakens; `None` if it does not.
    pub(super) fn weakness(&self) -> Option<String> {
        let is_remote = !self.config.get_hosts().iter().all(is_local);
        (is_remote && !self.is_encrypted)
            .then(|| "the connections to the database are not encrypted".to_owned())
    }

    /// Returns the settings of a connection that writes: only a primary server takes it.
    pub(super) fn writing(&self, application: &str) -> Config {
        let mut config = self.config.clone();
        config.target_session_attrs(TargetSessionAttrs::ReadWrite).application_name(application);
        config
    }

    /// Returns the settings of a connection that may lead to a standby.
    pub(super) fn reading(&self, application: &str) -> Config {
        let mut config = self.config.clone();
        config.application_name(application);
        config
    }

    /// Returns what encrypts the connections.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub(super) fn encryption(&self) -> Result<MakeRustlsConnect, Error> {
        let failed = |reason: String| Error::Connect { location: self.shown.clone(), reason };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?;
        let config = match &self.authorities {
            Some(path) => {
                let unreadable = |error: &dyn fmt::Display| failed(format!("`{}`: {error}", path.display()));
                let mut roots = rustls::RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
                    let certificate = certificate.map_err(|error| unreadable(&error))?;
                    roots.add(certificate).map_err(|error| unreadable(&error))?;
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
            None if self.is_encrypted => builder
                .with_platform_verifier()
                .map_err(|error| failed(error.to_string()))?
                .with_no_client_auth(),
            None => builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth(),
        };
        Ok(MakeRustlsConnect::new(config))
    }
}

/// Returns true if an `@` stands elsewhere than between the password and the host. The parser would take a part of the password for
/// a host or for the database, which messages show.
fn has_raw_at_sign(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // The value of an option may have one, such as the name of a file.
    let before_options = rest.split('?').next().unwrap_or_default();
    before_options.matches('@').count() > 1 || authority.contains('@') != rest.contains('@')
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Returns the port of a host.
fn port(config: &Config, index: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(index).or(ports.first()).copied().unwrap_or(5432)
}

/// Returns the hosts and the database, without user, password and options.
fn show(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let port = port(config, index);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    format!("postgres://{hosts}/{}", config.get_dbname().or(config.get_user()).unwrap_or_default())
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        Address::parse(text).expect("an address")
    }

    #[test]
    fn no_form_of_an_address_shows_its_password() {
        let address = parse("postgres://cogwork:hunter2@db.example.com:6432/flows?connect_timeout=3");
        assert_eq!(address.to_string(), "postgres://db.example.com:6432/flows");
        assert_eq!(format!("{address:?}"), "postgres://db.example.com:6432/flows");
        for wrong in
            ["postgres://u:hunter2@db/x?hunter2=1", "postgres://u:hunter2@db:hunter2/x", "postgres:///x"]
        {
            let message = Address::parse(wrong).expect_err("it is refused").to_string();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn a_password_with_unescaped_delimiters_is_rejected_without_showing_it() {
        for wrong in [
            "postgres://u:hun@ter2@db.example.com/x",
            "postgres://u:hun@ter2@db.example.com:5432/x?sslmode=disable",
            "postgres://u:12/hunter2@db/x",
            "postgres://u:12?hunter2@db/x",
            "postgres://hunter2@x@db/y",
            "postgres://u:p@db/hunter2@x",
        ] {
            let message = Address::parse(wrong).expect_err("it is refused").to_string();
            assert!(message.contains("%40") && message.contains("percent-encoding"), "{message}");
            assert!(!message.contains("hun") && !message.contains("ter2"), "{message}");
        }
        let address = parse("postgres://u@db/x?sslrootcert=/etc/a@b.pem&sslmode=verify-full");
        assert_eq!(address.authorities.as_deref(), Some(std::path::Path::new("/etc/a@b.pem")));
        let address = parse("postgres://u:hun%40ter%2F2@db/x%40y");
        assert_eq!(address.to_string(), "postgres://db:5432/x@y");
    }

    #[test]
    fn a_connection_to_another_host_is_encrypted() {
        for (url, is_encrypted) in [
            ("postgres://u@db.example.com/x", true),
            ("postgres://u@db.example.com/x?sslmode=require", true),
            ("postgres://u@db.example.com/x?sslmode=disable", false),
            ("postgres://u@127.0.0.1/x", false),
            ("postgres://u@localhost/x", false),
            ("postgres://u@localhost/x?sslmode=verify-full", true),
            ("postgres://u@%2Frun%2Fpostgresql/x", false),
            ("postgres://u@localhost,db.example.com/x", true),
        ] {
            assert_eq!(parse(url).is_encrypted, is_encrypted, "{url}");
        }
        assert!(parse("postgres://u@db/x?sslmode=disable").weakness().is_some());
        assert!(parse("postgres://u@127.0.0.1/x").weakness().is_none());
    }
}
