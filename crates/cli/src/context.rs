//! The context of a subcommand: the project folder, and access to its settings.

use std::path::{Path, PathBuf};

use telemetry::Telemetry;

use crate::exit::CommandError;
use crate::logging;
use crate::output;
use crate::settings::{self, Config, Environment, FlagValues, LogFormat, Setting};

/// The name of the binary.
pub(crate) const NAME: &str = "cogwork";

/// The context of a subcommand.
#[derive(Debug)]
pub(crate) struct Context {
    dir: PathBuf,
    environment: Environment,
    /// Settings from the shared flags.
    flags: Vec<(&'static str, Vec<String>)>,
}

/// The default log level of a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogProfile {
    /// The log of a daemon's work.
    Daemon,
    /// Messages for a person at a terminal.
    Tool,
}

impl LogProfile {
    fn level(self) -> &'static str {
        match self {
            Self::Daemon => "info",
            // The command itself reports a failed execution.
            Self::Tool => "error",
        }
    }
}

impl Context {
    /// Creates the context for the project folder `dir`, with the shared flags.
    pub(crate) fn new(dir: PathBuf, flags: Vec<(&'static str, Vec<String>)>) -> Self {
        Self { dir, environment: Environment::of_process(), flags }
    }

    /// The project folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The settings with these flags, without messages and logging.
    ///
    /// # Errors
    /// A setting is wrong.
    pub(crate) fn quiet_config(&self, flags: &[FlagValues]) -> anyhow::Result<Config> {
        Config::load(&self.dir, &self.environment, flags)
    }

    /// The log format as far as it is known before the settings are loaded, which can fail.
    pub(crate) fn log_format(&self) -> LogFormat {
        let flag =
            self.flags.iter().find(|(key, _)| *key == LogFormat::KEY).and_then(|(_, values)| values.first());
        let given = flag.cloned().or_else(|| self.environment.log_format());
        match given {
            Some(word) if word == LogFormat::JSON => LogFormat::Json,
            Some(_) => LogFormat::Text,
            None => settings::log_format(&self.dir),
        }
    }

    /// Unknown variables that are similar to a setting, each with the nearest name.
    pub(crate) fn unknown_variables(&self) -> Vec<(String, String)> {
        self.environment.unknown_variables()
    }

    /// Loads the settings with these flags, and starts the log accordingly.
    ///
    /// # Errors
    /// A setting is wrong.
    pub(crate) fn config(&self, flags: &[FlagValues], talk: LogProfile) -> anyhow::Result<Config> {
        let config = self.load(flags)?;
        self.start_log(&config, talk, None)?;
        Ok(config)
    }

    /// Loads the settings of a daemon, and starts its log and its telemetry.
    ///
    /// # Errors
    /// A setting is wrong, or a variable of OpenTelemetry.
    pub(crate) fn daemon_config(&self, flags: &[FlagValues]) -> anyhow::Result<(Config, Option<Telemetry>)> {
        let config = self.load(flags)?;
        let telemetry =
            Telemetry::from_env(&config.redactor).map_err(|error| CommandError::usage(error.to_string()))?;
        self.start_log(&config, LogProfile::Daemon, telemetry.as_ref())?;
        Ok((config, telemetry))
    }

    fn load(&self, flags: &[FlagValues]) -> anyhow::Result<Config> {
        let shared =
            self.flags.iter().filter_map(|(key, values)| Some((Setting::find(key)?, values.clone())));
        let flags: Vec<FlagValues> = shared.chain(flags.iter().cloned()).collect();
        Config::load(&self.dir, &self.environment, &flags)
    }

    fn start_log(
        &self,
        config: &Config,
        talk: LogProfile,
        telemetry: Option<&Telemetry>,
    ) -> anyhow::Result<()> {
        let level = config.log_level.as_deref().unwrap_or(talk.level());
        logging::start(level, config.log_format, &config.redactor, telemetry)?;
        for (name, near) in self.environment.unknown_variables() {
            output::warn(format_args!("the variable `{name}` is no setting; did you mean `{near}`?"));
        }
        for sentence in config.without_effect() {
            output::warn(sentence);
        }
        Ok(())
    }
}
