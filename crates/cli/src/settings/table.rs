//! The table of settings.

use std::path::Path;

use super::values::{self, Values};
use super::{Config, LogFormat, Origin, oidc};
use crate::mask::GivenText;

/// The commands that use a setting; later ones also take the flags of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// All commands, which have its flag already.
    Everywhere,
    /// The commands that read the data.
    Place,
    /// The commands that run automations.
    Run,
    /// The daemon.
    Serve,
}

/// An example value of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sample {
    /// The default.
    Default(&'static str),
    /// An example, for a setting without a default.
    Example(&'static str),
}

impl Sample {
    /// The default, if there is one.
    pub(crate) fn default(self) -> Option<&'static str> {
        match self {
            Self::Default(text) => Some(text),
            Self::Example(_) => None,
        }
    }

    /// The text of the value.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Default(text) | Self::Example(text) => text,
        }
    }
}

/// One setting.
pub(crate) struct Setting {
    /// Its key in `cogwork.yaml`; a dot means a mapping.
    pub(crate) key: &'static str,
    /// The commands that use it.
    pub(crate) scope: Scope,
    /// The placeholder for its value in `--help`.
    pub(crate) value: &'static str,
    /// True if it takes several values.
    pub(crate) list: bool,
    /// A description of one line.
    pub(crate) about: &'static str,
    /// An example value.
    pub(crate) sample: Sample,
    set: fn(&mut Config, &Values<'_>) -> Result<(), String>,
}

/// Every setting, in the order in which they are documented.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "hooks",
        scope: Scope::Serve,
        value: "ADDRESS",
        list: false,
        about: "The listener for webhooks; port 0 selects a free port",
        sample: Sample::Default("127.0.0.1:7070"),
        set: |config, values| values::address(values).map(|address| config.hooks = address),
    },
    Setting {
        key: "admin",
        scope: Scope::Serve,
        value: "ADDRESS",
        list: false,
        about: "The listener for the admin API; keep it on this machine or behind a proxy",
        sample: Sample::Default("127.0.0.1:7071"),
        set: |config, values| values::address(values).map(|address| config.admin = address),
    },
    Setting {
        key: "adminHosts",
        scope: Scope::Serve,
        value: "NAME",
        list: true,
        about: "Further host names of the API, such as that of a proxy in front of it",
        sample: Sample::Example("[cogwork.internal]"),
        set: |config, values| values::names(values).map(|names| config.admin_hosts = names),
    },
    Setting {
        key: "oidc.issuer",
        scope: Scope::Serve,
        value: "URL",
        list: false,
        about: "The identity provider at which people log in to the web UI (OpenID Connect)",
        sample: Sample::Example("https://id.example.com"),
        set: |config, values| oidc::issuer(values).map(|issuer| config.oidc.issuer = Some(issuer)),
    },
    Setting {
        key: "oidc.name",
        scope: Scope::Serve,
        value: "NAME",
        list: false,
        about: "Its name on the login page; default: its host",
        sample: Sample::Example("Example ID"),
        set: |config, values| values::text(values).map(|name| config.oidc.name = Some(name)),
    },
    Setting {
        key: "oidc.clientId",
        scope: Scope::Serve,
        value: "ID",
        list: false,
        about: "The id of this daemon at the provider",
        sample: Sample::Example("cogwork"),
        set: |config, values| values::text(values).map(|id| config.oidc.client_id = Some(id)),
    },
    Setting {
        key: "oidc.clientSecret",
        scope: Scope::Serve,
        value: "NAME",
        list: false,
        about: "The name of the secret that holds the client secret; without it the client is a public one",
        sample: Sample::Example("OIDC_CLIENT_SECRET"),
        set: |config, values| oidc::secret(values).map(|name| config.oidc.client_secret = Some(name)),
    },
    Setting {
        key: "oidc.emails",
        scope: Scope::Serve,
        value: "EMAIL=SCOPES",
        list: true,
        about: "People who may log in, by verified e-mail address or domain, and their scopes",
        sample: Sample::Example("[ann@example.com=admin, '@example.com=read+run']"),
        set: |config, values| oidc::emails(values).map(|grants| config.oidc.emails = grants),
    },
    Setting {
        key: "oidc.groups",
        scope: Scope::Serve,
        value: "GROUP=SCOPES",
        list: true,
        about: "Groups whose members may log in, and their scopes",
        sample: Sample::Example("[ops=admin, staff=read+run]"),
        set: |config, values| oidc::grants(values).map(|grants| config.oidc.groups = grants),
    },
    Setting {
        key: "oidc.groupsClaim",
        scope: Scope::Serve,
        value: "CLAIM",
        list: false,
        about: "The claim with the groups of a person; a dot leads into an object",
        sample: Sample::Default("groups"),
        set: |config, values| values::text(values).map(|claim| config.oidc.groups_claim = claim),
    },
    Setting {
        key: "oidc.requestScopes",
        scope: Scope::Serve,
        value: "SCOPE",
        list: true,
        about: "The scopes to request from the provider beside openid; default: profile, email",
        sample: Sample::Example("[profile, email, groups]"),
        set: |config, values| oidc::words(values).map(|words| config.oidc.request_scopes = words),
    },
    Setting {
        key: "ui.readOnly",
        scope: Scope::Serve,
        value: "true|false",
        list: false,
        about: "Refuse changes of project files over the API and in the web UI",
        sample: Sample::Default("false"),
        set: |config, values| values::truth(values).map(|value| config.read_only = value),
    },
    Setting {
        key: "publicMetrics",
        scope: Scope::Serve,
        value: "true|false",
        list: false,
        about: "Serve /metrics of the admin listener without a token",
        sample: Sample::Default("false"),
        set: |config, values| values::truth(values).map(|value| config.public_metrics = value),
    },
    Setting {
        key: "publicUrl",
        scope: Scope::Serve,
        value: "URL",
        list: false,
        about: "The public base of webhook addresses",
        sample: Sample::Example("https://hooks.example.com"),
        set: |config, values| values::url(values).map(|url| config.public_url = Some(url)),
    },
    Setting {
        key: "adminUrl",
        scope: Scope::Serve,
        value: "URL",
        list: false,
        about: "The base of the addresses of pages in the web UI, such as `execution.url`; its host may call the API",
        sample: Sample::Example("https://cogwork.internal"),
        set: |config, values| values::url(values).map(|url| config.admin_url = Some(url)),
    },
    Setting {
        key: "dataDir",
        scope: Scope::Place,
        value: "DIR",
        list: false,
        about: "The folder of the store and the admin token",
        sample: Sample::Default(".cogwork"),
        set: |config, values| values::path(values).map(|path| config.data_dir = path),
    },
    Setting {
        key: "store",
        scope: Scope::Place,
        value: "PATH",
        list: false,
        about: "The SQLite file of the store, its folder, or a postgres:// URL; default: the data folder",
        sample: Sample::Example("/var/lib/cogwork/cogwork.db"),
        set: |config, values| values::store(values).map(|location| config.store = Some(location)),
    },
    Setting {
        key: "autoDeploy",
        scope: Scope::Serve,
        value: "true|false",
        list: false,
        about: "Deploy each change of the project folder to all daemons that share the store on PostgreSQL",
        sample: Sample::Default("false"),
        set: |config, values| values::truth(values).map(|value| config.auto_deploy = value),
    },
    Setting {
        key: "secrets.dir",
        scope: Scope::Place,
        value: "DIR",
        list: false,
        about: "The folder of secrets in files; default: `secrets` of the project folder",
        sample: Sample::Example("/run/secrets/cogwork"),
        set: |config, values| values::path(values).map(|path| config.secrets_dir = path),
    },
    Setting {
        key: "secrets.keyFile",
        scope: Scope::Place,
        value: "FILE",
        list: false,
        about: "The key that encrypts the stored secrets; default: `master.key` of the data folder",
        sample: Sample::Example("/etc/cogwork/master.key"),
        set: |config, values| values::path(values).map(|path| config.key_file = Some(path)),
    },
    Setting {
        key: "durability",
        scope: Scope::Run,
        value: "full|relaxed",
        list: false,
        about: "Accepted executions survive a power failure (full), or only a crash of the daemon, which is faster (relaxed)",
        sample: Sample::Default("full"),
        set: |config, values| {
            let words = [("full", store::Durability::Full), ("relaxed", store::Durability::Relaxed)];
            values::word(values, &words).map(|durability| config.durability = durability)
        },
    },
    Setting {
        key: "filesDir",
        scope: Scope::Run,
        value: "DIR",
        list: false,
        about: "The folder of files.read, files.write and files.list; without it they fail",
        sample: Sample::Example("files"),
        // Relative to the project folder from every source, as documented: automations work in it.
        set: |config, values| {
            let path = config.dir.join(values.one()?);
            config.files_dir = Some(path);
            Ok(())
        },
    },
    Setting {
        key: "outbound.allow",
        scope: Scope::Run,
        value: "HOST",
        list: true,
        about: "Private hosts and networks that calls may go to",
        sample: Sample::Example("[127.0.0.1, 10.0.0.0/8, wiki.internal]"),
        set: |config, values| values::allow_list(values).map(|list| config.outbound_allow = list),
    },
    Setting {
        key: "env.allow",
        scope: Scope::Run,
        value: "NAME",
        list: true,
        about: "Variables of the environment that files may read as env.NAME; default: all but those of Cogwork",
        sample: Sample::Example("[SERVICE_URL, 'SHOP_*']"),
        set: |config, values| values::variables(values).map(|names| config.env_allow = Some(names)),
    },
    Setting {
        key: "allowCredentialDebug",
        scope: Scope::Run,
        value: "true|false",
        list: false,
        about: "Log the credentials in Debug Request of a Raw GraphQL request",
        sample: Sample::Default("true"),
        set: |config, values| values::truth(values).map(|value| config.allow_credential_debug = value),
    },
    Setting {
        key: "retention.days",
        scope: Scope::Serve,
        value: "DAYS",
        list: false,
        about: "How many days finished executions are kept",
        sample: Sample::Default("14"),
        set: |config, values| values::number(values, 1).map(|value| config.retention.days = Some(value)),
    },
    Setting {
        key: "retention.keepFailed",
        scope: Scope::Serve,
        value: "true|false",
        list: false,
        about: "Keep executions that failed, were cancelled or are stuck forever",
        sample: Sample::Default("false"),
        set: |config, values| values::truth(values).map(|value| config.retention.keep_failed = Some(value)),
    },
    Setting {
        key: "retention.failedDays",
        scope: Scope::Serve,
        value: "DAYS",
        list: false,
        about: "How many days executions that failed, were cancelled or are stuck are kept; default: as long as the others",
        sample: Sample::Example("90"),
        set: |config, values| {
            values::number(values, 1).map(|value| config.retention.failed_days = Some(value))
        },
    },
    Setting {
        key: "retention.count",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "How many finished executions of an automation are kept: of the successful ones, and of the others",
        sample: Sample::Example("10000"),
        set: |config, values| values::number(values, 1).map(|value| config.retention.count = Some(value)),
    },
    Setting {
        key: "limits.inFlight",
        scope: Scope::Run,
        value: "N",
        list: false,
        about: "Executions whose steps run at the same time",
        sample: Sample::Default("1000"),
        set: |config, values| values::number(values, 1).map(|value| config.limits.in_flight = value),
    },
    Setting {
        key: "limits.queue",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "Accepted executions that have not started; above it a request is answered with 503",
        sample: Sample::Default("100000"),
        set: |config, values| values::number(values, 1).map(|value| config.limits.queue = value),
    },
    Setting {
        key: "limits.chain",
        scope: Scope::Run,
        value: "N",
        list: false,
        about: "Executions that start one another in a row, over HTTP or by events; 1 to 100",
        sample: Sample::Default("10"),
        set: |config, values| values::number_within(values, 1..=100).map(|value| config.limits.chain = value),
    },
    Setting {
        key: "limits.resultSize",
        scope: Scope::Run,
        value: "SIZE",
        list: false,
        about: "The largest result of one step",
        sample: Sample::Default("16MiB"),
        set: |config, values| values::size(values).map(|value| config.limits.result_bytes = value),
    },
    Setting {
        key: "limits.memory",
        scope: Scope::Run,
        value: "SIZE",
        list: false,
        about: "The memory of large bodies and large values, of all requests and executions together; above it they wait",
        sample: Sample::Default("64MiB"),
        set: |config, values| values::size(values).map(|value| config.limits.memory = value),
    },
    Setting {
        key: "limits.codeWorkers",
        scope: Scope::Run,
        value: "N",
        list: false,
        about: "Code runs at the same time; default: the number of processors",
        sample: Sample::Example("4"),
        set: |config, values| values::number(values, 1).map(|value| config.limits.code_workers = Some(value)),
    },
    Setting {
        key: "limits.codeMemory",
        scope: Scope::Run,
        value: "SIZE",
        list: false,
        about: "The memory of one code run",
        sample: Sample::Default("64MiB"),
        set: |config, values| values::size(values).map(|value| config.limits.code_memory = value),
    },
    Setting {
        key: "limits.storeSize",
        scope: Scope::Run,
        value: "SIZE",
        list: false,
        about: "The largest size of the store; the oldest executions are deleted before it is reached; default: the disk's size",
        sample: Sample::Example("20GiB"),
        set: |config, values| values::size(values).map(|value| config.store_size = Some(value)),
    },
    Setting {
        key: "limits.connections",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "Simultaneous connections to the hook listener",
        sample: Sample::Default("1024"),
        set: |config, values| values::number(values, 1).map(|value| config.connections = value),
    },
    Setting {
        key: "limits.connectionsPerAddress",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "Of these, connections from one address",
        sample: Sample::Default("64"),
        set: |config, values| values::number(values, 1).map(|value| config.connections_per_address = value),
    },
    Setting {
        key: "log.level",
        scope: Scope::Everywhere,
        value: "LEVEL",
        list: false,
        about: "The log level: error, warn, info, debug or trace, also by part (info,engine=debug)",
        sample: Sample::Default("info"),
        set: |config, values| values::log_level(values).map(|level| config.log_level = Some(level)),
    },
    Setting {
        key: "log.format",
        scope: Scope::Everywhere,
        value: "text|json",
        list: false,
        about: "The format of the log",
        sample: Sample::Default("text"),
        set: |config, values| {
            let words = [("text", LogFormat::Text), (LogFormat::JSON, LogFormat::Json)];
            values::word(values, &words).map(|format| config.log_format = format)
        },
    },
];

impl Setting {
    /// The setting with this key.
    pub(crate) fn find(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Its variable: `outbound.allow` is `COGWORK_OUTBOUND_ALLOW`.
    pub(crate) fn variable(&self) -> String {
        format!("COGWORK_{}", self.words('_').to_ascii_uppercase())
    }

    /// Its flag without the leading dashes: `outbound.allow` is `outbound-allow`.
    pub(crate) fn flag(&self) -> String {
        self.words('-')
    }

    /// Splits a text into values: a list is separated by commas.
    pub(crate) fn split(&self, text: &str) -> Vec<String> {
        if !self.list {
            return vec![text.to_owned()];
        }
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    }

    /// Sets these values from `origin`; paths are relative to `base`.
    pub(super) fn apply(
        &self,
        config: &mut Config,
        items: &[String],
        base: &Path,
        origin: Origin,
    ) -> Result<(), String> {
        let given: Vec<GivenText> = items.iter().map(GivenText::new).collect();
        // A message that repeats a value masks its credentials.
        let masked = |message: String| {
            let values =
                items.iter().map(|item| item.trim()).zip(&given).filter(|(item, _)| !item.is_empty());
            values.fold(message, |message, (item, given)| message.replace(item, &given.to_string()))
        };
        (self.set)(config, &Values { items, base }).map_err(masked)?;
        config.given.insert(self.key, (origin, given));
        Ok(())
    }

    fn words(&self, between: char) -> String {
        let mut words = String::new();
        for character in self.key.chars() {
            match character {
                '.' => words.push(between),
                upper if upper.is_ascii_uppercase() => words.extend([between, upper.to_ascii_lowercase()]),
                other => words.push(other),
            }
        }
        words
    }
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Setting({})", self.key)
    }
}
