//! The settings: defaults, overridden by `cogwork.yaml`, by `COGWORK_…` variables, and by flags.
//!
//! Each setting is one row of [`SETTINGS`]; its key in the file, its variable, its flag, its help and its line in a
//! new project's `cogwork.yaml` come from there.

mod check;
mod file;
mod files_dir;
mod flags;
mod oidc;
mod schema;
mod secret_sources;
mod setting;
mod table;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context as _;
use model::automation::Retention;
use runtime::KeySource;
use text::diagnostic::Report;
use value::Secret;
use value::redact::Redactor;

use crate::exit::{CommandError, Exit};
use crate::mask::GivenText;
use crate::output;

pub(crate) use flags::{FlagValues, Flags, PLACE, RUN, SERVE};
pub(crate) use oidc::Oidc;
pub(crate) use schema::schema;
pub(crate) use table::{SETTINGS, Setting};

/// The file of settings in a project folder.
pub(crate) const FILE: &str = "cogwork.yaml";

/// The prefix of our environment variables.
const PREFIX: &str = "COGWORK_";

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// The key of the setting.
    pub(crate) const KEY: &str = "log.format";
    /// The value of [`LogFormat::Json`].
    pub(crate) const JSON: &str = "json";
}

/// The source of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `cogwork.yaml`.
    File,
    /// The variable of this name.
    Variable(String),
    /// The flag of this name, without the leading dashes.
    Flag(String),
}

impl Origin {
    /// The name of the source of a default value.
    pub(crate) const DEFAULT: &str = "default";
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => formatter.write_str(FILE),
            Self::Variable(name) => formatter.write_str(name),
            Self::Flag(name) => write!(formatter, "--{name}"),
        }
    }
}

/// Every setting with its value.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) dir: PathBuf,
    pub(crate) data_dir: PathBuf,
    pub(crate) secrets_dir: PathBuf,
    /// The sources of secrets, and their providers.
    pub(crate) secret_sources: runtime::SecretSources,
    /// The file of the key that encrypts the secrets of the store; default: `master.key` in the data folder.
    pub(crate) key_file: Option<PathBuf>,
    /// The key itself, if the environment or systemd provides it.
    pub(crate) master_key: Option<Secret>,
    pub(crate) hooks: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) admin_hosts: Vec<String>,
    /// The identity provider of the web UI.
    pub(crate) oidc: Oidc,
    /// True if the API rejects changes of project files.
    pub(crate) read_only: bool,
    pub(crate) public_metrics: bool,
    pub(crate) public_url: Option<String>,
    pub(crate) admin_url: Option<String>,
    pub(crate) store: Option<engine::stores::Location>,
    /// True if each change of the project folder is deployed into the store.
    pub(crate) auto_deploy: bool,
    pub(crate) durability: store::Durability,
    pub(crate) files_dir: Option<PathBuf>,
    pub(crate) outbound_allow: Vec<String>,
    /// True if steps may call the server of the store.
    pub(crate) outbound_store_server: bool,
    pub(crate) env_allow: Option<Vec<String>>,
    pub(crate) allow_credential_debug: bool,
    pub(crate) retention: Retention,
    pub(crate) limits: runtime::Limits,
    pub(crate) store_size: Option<u64>,
    pub(crate) connections: usize,
    pub(crate) connections_per_address: usize,
    pub(crate) log_level: Option<String>,
    pub(crate) log_format: LogFormat,
    /// Redacts secrets in the log and in the history.
    pub(crate) redactor: Redactor,
    /// The token of the API, from the environment. It is not a setting: secrets must not be in committed files, nor on a command
    /// line, which the process list shows.
    pub(crate) admin_token: Option<Secret>,
    /// The explicit settings by key, with their source and their values as text.
    pub(crate) given: BTreeMap<&'static str, (Origin, Vec<GivenText>)>,
}

impl Config {
    /// The defaults for this project folder.
    pub(crate) fn new(dir: &Path) -> Self {
        let engine = runtime::Settings::new(dir);
        let server = server::ServerOptions::new(engine.data_dir.clone());
        Self {
            dir: dir.to_owned(),
            data_dir: engine.data_dir,
            secrets_dir: engine.secrets_dir,
            secret_sources: engine.secret_sources,
            key_file: None,
            master_key: None,
            hooks: server.hooks,
            admin: server.admin,
            admin_hosts: Vec::new(),
            oidc: Oidc::default(),
            read_only: false,
            public_metrics: server.public_metrics,
            public_url: None,
            admin_url: None,
            store: None,
            auto_deploy: engine.auto_deploy,
            durability: store::Durability::Full,
            files_dir: None,
            outbound_allow: Vec::new(),
            outbound_store_server: false,
            env_allow: None,
            allow_credential_debug: engine.allow_credential_debug,
            retention: engine.retention.unwrap_or_default(),
            limits: engine.limits,
            store_size: None,
            connections: server.hook_limits.connections,
            connections_per_address: server.hook_limits.connections_per_peer,
            log_level: None,
            log_format: LogFormat::Text,
            redactor: Redactor::default(),
            admin_token: None,
            given: BTreeMap::new(),
        }
    }

    /// Loads the settings of the project folder `dir` from all sources.
    ///
    /// # Errors
    /// A value is invalid. Errors in the file have been printed.
    pub(crate) fn load(dir: &Path, environment: &Environment, flags: &[FlagValues]) -> anyhow::Result<Self> {
        let mut config = Self::new(dir);
        if let Some(report) = file::apply(dir, &mut config)? {
            output::reports([&report]);
            if report.has_errors() {
                return Err(CommandError::Reported(Exit::Failed).into());
            }
        }
        environment.apply(&mut config)?;
        let here = Path::new("");
        for (setting, values) in flags {
            let wrong = |message| CommandError::usage(format!("--{}: {message}", setting.flag()));
            setting.apply(&mut config, values, here, Origin::Flag(setting.flag())).map_err(wrong)?;
        }
        if let Some(password) = config.store.as_ref().and_then(engine::stores::Location::password) {
            config.redactor.add_secret(&password);
        }
        files_dir::check(&config).map_err(CommandError::usage)?;
        files_dir::check_private(&config).map_err(CommandError::usage)?;
        oidc::check(&config).map_err(CommandError::usage)?;
        secret_sources::check(&config).map_err(CommandError::usage)?;
        check::check(&config).map_err(CommandError::usage)?;
        Ok(config)
    }

    /// The settings that have no effect because of others, each as a sentence.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        check::without_effect(self)
    }

    /// The location of the store.
    pub(crate) fn store_location(&self) -> engine::stores::Location {
        self.store.clone().unwrap_or_else(|| self.data_dir.as_path().into())
    }

    /// The base URL of hook addresses for users, if the hook listener is at `hooks`.
    pub(crate) fn base(&self, hooks: SocketAddr) -> String {
        self.public_url.clone().unwrap_or_else(|| format!("http://{}", values::reachable(hooks)))
    }

    /// The base URL of the web UI's pages for users, if the admin listener is at `admin`.
    pub(crate) fn admin_base(&self, admin: SocketAddr) -> String {
        self.admin_url.clone().unwrap_or_else(|| format!("http://{}", values::reachable(admin)))
    }

    /// The source of the keys that encrypt the secrets of the store.
    pub(crate) fn keys(&self) -> KeySource {
        let file = self.key_file.clone();
        let own = KeySource::in_folder(&self.data_dir);
        KeySource { given: self.master_key.clone(), file: file.unwrap_or(own.file) }
    }

    /// The settings of the engine.
    pub(crate) fn engine(&self) -> runtime::Settings {
        let mut settings = runtime::Settings::new(&self.dir);
        settings.data_dir.clone_from(&self.data_dir);
        settings.secrets_dir.clone_from(&self.secrets_dir);
        settings.secret_sources.clone_from(&self.secret_sources);
        settings.keys = self.keys();
        settings.redactor = self.redactor.clone();
        settings.auto_deploy = self.auto_deploy;
        settings.files_dir.clone_from(&self.files_dir);
        settings.public_url.clone_from(&self.public_url);
        settings.admin_url.clone_from(&self.admin_url);
        settings.outbound_allow.clone_from(&self.outbound_allow);
        settings.env_allow.clone_from(&self.env_allow);
        settings.allow_credential_debug = self.allow_credential_debug;
        settings.retention = Some(self.retention);
        settings.limits = self.limits.clone();
        settings
    }

    /// The options of the server.
    pub(crate) fn server(&self) -> server::ServerOptions {
        let mut options = server::ServerOptions::new(&self.data_dir);
        options.body_budget = self.limits.memory / 2;
        options.hooks = self.hooks;
        options.admin = self.admin;
        options.admin_hosts.clone_from(&self.admin_hosts);
        options.admin_hosts.extend(self.admin_url.as_deref().and_then(values::host).map(str::to_owned));
        options.login = self.oidc.options();
        options.read_only = self.read_only;
        options.public_metrics = self.public_metrics;
        options.admin_token.clone_from(&self.admin_token);
        options.hook_limits.connections = self.connections;
        options.hook_limits.connections_per_peer = self.connections_per_address;
        options
    }

    /// The options of the store.
    #[allow(clippy::needless_update, reason = "a build for tests has further fields")]
    pub(crate) fn store(&self) -> store::Options {
        store::Options {
            durability: self.durability,
            max_bytes: self.store_size,
            retention: Some(self.retention),
            local: Some(self.data_dir.clone()),
            ..store::Options::default()
        }
    }
}

/// The diagnostics of a project folder's settings file; `None` if there is no file, or no diagnostic.
///
/// # Errors
/// The file exists and cannot be read.
pub(crate) fn check(dir: &Path) -> anyhow::Result<Option<Report>> {
    file::check(dir, &Environment::of_process())
}

/// The log format in the settings file of a project folder, even if the file has errors.
pub(crate) fn log_format(dir: &Path) -> LogFormat {
    let mut config = Config::new(dir);
    let _ = file::apply(dir, &mut config);
    config.log_format
}

/// True if a project folder has a settings file.
pub(crate) fn exists(dir: &Path) -> bool {
    dir.join(FILE).is_file()
}

/// The name of the systemd credential with the key that encrypts secrets.
const CREDENTIAL: &str = "cogwork-master-key";

/// The key from the systemd credential, if there is one (`LoadCredential=cogwork-master-key:…`).
fn credential() -> anyhow::Result<Option<Secret>> {
    let Some(folder) = std::env::var_os("CREDENTIALS_DIRECTORY") else { return Ok(None) };
    let path = Path::new(&folder).join(CREDENTIAL);
    match std::fs::read_to_string(&path) {
        Ok(key) => Ok(Some(Secret::new(key.trim()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

/// The `COGWORK_…` variables of the process at its start.
static VARIABLES: OnceLock<BTreeMap<String, Secret>> = OnceLock::new();

/// The `COGWORK_…` variables of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(BTreeMap<String, Secret>);

impl Environment {
    /// Variables that are not settings.
    const OTHERS: [&str; 6] = [
        "COGWORK_DIR",
        Self::SECRETS_COMMAND,
        "COGWORK_ADMIN_TOKEN",
        "COGWORK_MASTER_KEY",
        "COGWORK_REGENERATE",
        "COGWORK_SERVICE_FILE",
    ];

    /// The program of the source `command`. It is not a setting of the project, whose files anybody may have written.
    const SECRETS_COMMAND: &str = "COGWORK_SECRETS_COMMAND";

    /// Variables with a secret of the daemon, which are removed from the environment once read.
    const SECRET: [&str; 3] = ["COGWORK_ADMIN_TOKEN", "COGWORK_MASTER_KEY", "COGWORK_STORE"];

    /// The variables of this process.
    pub(crate) fn of_process() -> Self {
        Self(VARIABLES.get_or_init(Self::read).clone())
    }

    /// Reads the variables, and removes the daemon's secrets from the environment. Call before any thread starts.
    pub(crate) fn take() {
        VARIABLES.get_or_init(Self::read);
        Self::SECRET.iter().for_each(|name| allocator::remove_variable(name));
    }

    fn read() -> BTreeMap<String, Secret> {
        let ours = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
            Some((name, Secret::new(value.into_string().ok()?)))
        });
        ours.collect()
    }

    fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        for setting in SETTINGS {
            let name = setting.variable();
            // An empty variable counts as unset, as in a shell.
            let Some(value) = self.value(&name).filter(|value| !value.is_empty()) else { continue };
            let values = setting.split(value);
            let origin = Origin::Variable(name.clone());
            setting
                .apply(config, &values, Path::new(""), origin)
                .map_err(CommandError::usage)
                .context(name)?;
        }
        let given = self.0.get("COGWORK_MASTER_KEY").filter(|key| !key.expose().is_empty());
        config.master_key = match given {
            Some(key) => Some(key.clone()),
            None => credential()?,
        };
        config.admin_token = self.0.get("COGWORK_ADMIN_TOKEN").cloned();
        config.secret_sources.command = self.value(Self::SECRETS_COMMAND).and_then(secret_sources::command);
        let own = [&config.master_key, &config.admin_token].into_iter().flatten();
        // The master key variable holds several keys during a rotation.
        own.flat_map(|secret| secret.expose().split([',', '\n']))
            .for_each(|secret| config.redactor.add_secret(secret.trim()));
        Ok(())
    }

    /// The log format, if a variable sets it.
    pub(crate) fn log_format(&self) -> Option<String> {
        let setting = Setting::find(LogFormat::KEY)?;
        self.value(&setting.variable()).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// The value of a variable at the start of the process, if it was set.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::expose)
    }

    /// The variables that [`take`](Self::take) removes from the environment, with their values.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (&str, &str)> {
        Self::SECRET.into_iter().filter_map(|name| Some((name, self.value(name)?)))
    }

    /// Unknown variables that are similar to a setting, each with the nearest name.
    pub(crate) fn unknown_variables(&self) -> Vec<(String, String)> {
        let known: Vec<String> =
            SETTINGS.iter().map(Setting::variable).chain(Self::OTHERS.map(Into::into)).collect();
        let bare = |name: &str| name.trim_start_matches(PREFIX).to_owned();
        let names: Vec<String> = known.iter().map(|name| bare(name)).collect();
        // Variables of secrets may have any name.
        let unknown =
            self.0.keys().filter(|name| !known.contains(name) && !name.starts_with("COGWORK_SECRET_"));
        let near = unknown.filter_map(|name| {
            // Without their common prefix, which would make all names similar.
            let near = text::diagnostic::nearest(&bare(name), names.iter().map(String::as_str))?;
            Some((name.clone(), format!("{PREFIX}{near}")))
        });
        near.collect()
    }
}

#[cfg(test)]
impl Environment {
    /// The environment with these variables.
    pub(crate) fn with<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self(variables.map(|(name, value)| (name.to_owned(), Secret::new(value))).into())
    }
}

#[cfg(test)]
mod tests;
