//! The flags of the settings: one for each row of the table.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::table::{SETTINGS, Sample, Scope, Setting};

/// For [`Flags`]: the flags of commands that read the data.
pub(crate) const PLACE: u8 = Scope::Place as u8;
/// For [`Flags`]: the flags of commands that run automations.
pub(crate) const RUN: u8 = Scope::Run as u8;
/// For [`Flags`]: the flags of the daemon.
pub(crate) const SERVE: u8 = Scope::Serve as u8;

/// A setting with the values of its flag.
pub(crate) type FlagValues = (&'static Setting, Vec<String>);

/// The flags of the settings up to a scope: [`PLACE`], [`RUN`] or [`SERVE`].
#[derive(Clone, Default)]
pub(crate) struct Flags<const SCOPE: u8>(Vec<FlagValues>);

impl<const SCOPE: u8> Flags<SCOPE> {
    /// The given settings.
    pub(crate) fn given(&self) -> &[FlagValues] {
        &self.0
    }

    fn settings() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| setting.scope != Scope::Everywhere && setting.scope as u8 <= SCOPE)
    }
}

impl<const SCOPE: u8> std::fmt::Debug for Flags<SCOPE> {
    /// Prints only the names of the settings: their values may contain a password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(setting, _)| setting.key)).finish()
    }
}

fn help(setting: &Setting) -> String {
    match setting.sample {
        Sample::Default(value) => format!("{} [default: {value}]", setting.about),
        Sample::Example(_) => setting.about.to_owned(),
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.key)
        .long(setting.flag())
        .value_name(setting.value)
        .help(help(setting))
        // A structure is too long for a command line; scripts may give it all the same.
        .hide(setting.is_structured())
        .help_heading("Settings (also in cogwork.yaml; --data-dir has the variable COGWORK_DATA_DIR)");
    if setting.list { arg.action(ArgAction::Append).value_delimiter(',') } else { arg.action(ArgAction::Set) }
}

impl<const SCOPE: u8> Args for Flags<SCOPE> {
    fn augment_args(command: Command) -> Command {
        Self::settings().fold(command, |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SCOPE: u8> FromArgMatches for Flags<SCOPE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = Self::settings().filter_map(|setting| {
            let values = matches.get_many::<String>(setting.key)?;
            Some((setting, values.cloned().collect()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
