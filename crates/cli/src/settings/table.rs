//! The table of settings.

use std::path::Path;

use super::values::{self, Values};
use super::{Config, LogFormat};

/// Which commands a setting matters to; those of a later one take the flags of the earlier ones too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// All of them, which take its flag already.
    Everywhere,
    /// Those that look for the data.
    Place,
    /// Those that run automations.
    Run,
    /// The daemon.
    Serve,
}

/// One setting.
pub(crate) struct Setting {
    /// Its key in `cogwork.yaml`; a dot means a mapping.
    pub(crate) key: &'static str,
    /// Which commands it matters to.
    pub(crate) scope: Scope,
    /// What stands for its value in help.
    pub(crate) value: &'static str,
    /// Whether it takes several values.
    pub(crate) list: bool,
    /// What it does, in one line.
    pub(crate) about: &'static str,
    /// What holds where it is not given, as a person would write it; what else one could write if that is nothing.
    pub(crate) example: &'static str,
    set: fn(&mut Config, &Values<'_>) -> Result<(), String>,
}

/// Every setting, in the order in which they are documented.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "hooks",
        scope: Scope::Serve,
        value: "ADDRESS",
        list: false,
        about: "where requests on webhooks arrive; port 0 takes a free one",
        example: "127.0.0.1:7070",
        set: |config, values| values::address(values).map(|address| config.hooks = address),
    },
    Setting {
        key: "admin",
        scope: Scope::Serve,
        value: "ADDRESS",
        list: false,
        about: "where the API is; keep it on this machine or behind a proxy",
        example: "127.0.0.1:7071",
        set: |config, values| values::address(values).map(|address| config.admin = address),
    },
    Setting {
        key: "publicUrl",
        scope: Scope::Serve,
        value: "URL",
        list: false,
        about: "the base of the webhook addresses that people are shown",
        example: "https://hooks.example.com",
        set: |config, values| values::url(values).map(|url| config.public_url = Some(url)),
    },
    Setting {
        key: "dataDir",
        scope: Scope::Place,
        value: "DIR",
        list: false,
        about: "where data lives: the store, the admin token",
        example: ".cogwork",
        set: |config, values| values::path(values).map(|path| config.data_dir = path),
    },
    Setting {
        key: "store",
        scope: Scope::Place,
        value: "PATH",
        list: false,
        about: "the SQLite file of the store, or the folder of its cogwork.db; the data folder if not given",
        example: "/var/lib/cogwork/cogwork.db",
        set: |config, values| values::store(values).map(|path| config.store = Some(path)),
    },
    Setting {
        key: "durability",
        scope: Scope::Run,
        value: "full|relaxed",
        list: false,
        about: "full: what is accepted survives a power cut; relaxed: a crash of the daemon only, and is faster",
        example: "full",
        set: |config, values| {
            let words = [("full", store::Durability::Full), ("relaxed", store::Durability::Relaxed)];
            values::word(values, &words).map(|durability| config.durability = durability)
        },
    },
    Setting {
        key: "outbound.allow",
        scope: Scope::Run,
        value: "HOST",
        list: true,
        about: "hosts and networks that calls may go to though they are private",
        example: "[127.0.0.1, 10.0.0.0/8, wiki.internal]",
        set: |config, values| values::allow_list(values).map(|list| config.outbound_allow = list),
    },
    Setting {
        key: "allowCredentialDebug",
        scope: Scope::Run,
        value: "true|false",
        list: false,
        about: "whether Debug Request of a Raw GraphQL request logs its credentials",
        example: "true",
        set: |config, values| values::truth(values).map(|value| config.allow_credential_debug = value),
    },
    Setting {
        key: "concurrency",
        scope: Scope::Run,
        value: "N",
        list: false,
        about: "executions whose steps run at one time; the same as limits.inFlight",
        example: "1000",
        set: |config, values| values::number(values, 1).map(|value| config.limits.in_flight = value),
    },
    Setting {
        key: "retention.days",
        scope: Scope::Serve,
        value: "DAYS",
        list: false,
        about: "how many days finished executions are kept",
        example: "14",
        set: |config, values| values::number(values, 1).map(|value| config.retention.days = value),
    },
    Setting {
        key: "retention.keepFailed",
        scope: Scope::Serve,
        value: "true|false",
        list: false,
        about: "whether failed executions are kept beyond that",
        example: "false",
        set: |config, values| values::truth(values).map(|value| config.retention.keep_failed = value),
    },
    Setting {
        key: "limits.inFlight",
        scope: Scope::Run,
        value: "N",
        list: false,
        about: "executions whose steps run at one time",
        example: "1000",
        set: |config, values| values::number(values, 1).map(|value| config.limits.in_flight = value),
    },
    Setting {
        key: "limits.queue",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "executions accepted and not begun; beyond it a request is answered 503",
        example: "100000",
        set: |config, values| values::number(values, 1).map(|value| config.limits.queue = value),
    },
    Setting {
        key: "limits.resultSize",
        scope: Scope::Run,
        value: "SIZE",
        list: false,
        about: "the largest result of one step",
        example: "16MiB",
        set: |config, values| values::size(values).map(|value| config.limits.result_bytes = value),
    },
    Setting {
        key: "limits.loopTurns",
        scope: Scope::Run,
        value: "N",
        list: false,
        about: "turns of one loop",
        example: "1000000",
        set: |config, values| values::number(values, 1).map(|value| config.limits.loop_turns = value),
    },
    Setting {
        key: "limits.interruptions",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "how often a crash may interrupt the same step before its execution is set aside",
        example: "5",
        set: |config, values| values::number(values, 1).map(|value| config.limits.interruptions = value),
    },
    Setting {
        key: "limits.storeSize",
        scope: Scope::Run,
        value: "SIZE",
        list: false,
        about: "the most the store may take; beyond it nothing new is accepted; the disk's size if not given",
        example: "20GiB",
        set: |config, values| values::size(values).map(|value| config.store_size = Some(value)),
    },
    Setting {
        key: "limits.connections",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "connections to the hook listener at one time",
        example: "1024",
        set: |config, values| values::number(values, 1).map(|value| config.connections = value),
    },
    Setting {
        key: "limits.connectionsPerAddress",
        scope: Scope::Serve,
        value: "N",
        list: false,
        about: "of these, connections from one address",
        example: "64",
        set: |config, values| values::number(values, 1).map(|value| config.connections_per_address = value),
    },
    Setting {
        key: "log.level",
        scope: Scope::Everywhere,
        value: "LEVEL",
        list: false,
        about: "what is logged: error, warn, info, debug or trace, also by part (info,engine=debug)",
        example: "info",
        set: |config, values| values::text(values).map(|level| config.log_level = Some(level)),
    },
    Setting {
        key: "log.format",
        scope: Scope::Everywhere,
        value: "text|json",
        list: false,
        about: "how it is logged",
        example: "text",
        set: |config, values| {
            let words = [("text", LogFormat::Text), ("json", LogFormat::Json)];
            values::word(values, &words).map(|format| config.log_format = format)
        },
    },
];

impl Setting {
    /// The setting of this key.
    pub(crate) fn of(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Its variable: `outbound.allow` is `COGWORK_OUTBOUND_ALLOW`.
    pub(crate) fn variable(&self) -> String {
        format!("COGWORK_{}", self.words('_').to_ascii_uppercase())
    }

    /// Its flag without the dashes before it: `outbound.allow` is `outbound-allow`.
    pub(crate) fn flag(&self) -> String {
        self.words('-')
    }

    /// The values in one text: those of a list are apart by commas.
    pub(crate) fn split(&self, text: &str) -> Vec<String> {
        if !self.list {
            return vec![text.to_owned()];
        }
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    }

    /// Takes these values; paths are relative to `base`.
    pub(super) fn apply(&self, config: &mut Config, items: &[String], base: &Path) -> Result<(), String> {
        (self.set)(config, &Values { items, base })
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
