//! The root command: what all subcommands share, finding the one asked for, and what comes of it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches as _};

use crate::commands::{self, GROUPS};
use crate::context::{Context, NAME};
use crate::exit::{self, CommandError, Exit};
use crate::mask::GivenText;
use crate::output::{self, Messages};
use crate::service;
use crate::settings::{Environment, Setting};

const EXAMPLES: &str = "\
Examples:
  cogwork init flows && cd flows     create a project folder
  cogwork run hello                  run one automation in this process
  cogwork serve                      run the daemon: webhooks, schedules, the API
  cogwork validate                   check every file, as the daemon would

Exit codes:
  0    success
  1    the command failed
  2    wrong usage
  3    the store cannot be trusted; start the daemon again, or restore a backup
  130  interrupted";

/// The options of every subcommand.
#[derive(Args, Debug)]
#[command(next_help_heading = "Everywhere")]
struct Shared {
    /// The project folder
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value = ".",
        env = "COGWORK_DIR",
        hide_env_values = true
    )]
    dir: PathBuf,
    /// The log level: error, warn, info, debug or trace, also by part (`info,engine=debug`); the default is info
    /// for `serve` and error for other commands [env: COGWORK_LOG_LEVEL]
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
    /// The format of the log [env: COGWORK_LOG_FORMAT]
    #[arg(long, global = true, value_name = "FORMAT", value_parser = ["text", "json"])]
    log_format: Option<String>,
}

/// The form of a help.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Help {
    /// `-h`: without the settings and the options that every command has.
    Short,
    Full,
}

/// The whole command line.
pub(crate) fn command() -> Command {
    command_with(Help::Full)
}

fn command_with(help: Help) -> Command {
    let styles = Styles::styled()
        .header(AnsiColor::Green.on_default().bold())
        .usage(AnsiColor::Green.on_default().bold())
        .literal(AnsiColor::Cyan.on_default().bold())
        .placeholder(AnsiColor::Cyan.on_default());
    // The shared arguments come first, since what their type is documented with would become the help's first line.
    let root = Shared::augment_args(Command::new(NAME))
        .version(env!("CARGO_PKG_VERSION"))
        .about("A durable workflow engine that you program in YAML")
        .after_help(EXAMPLES)
        .styles(styles)
        .max_term_width(100)
        .next_help_heading(None)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_subcommands(false);
    let root = commands::all().fold(root, |root, entry| root.subcommand((entry.define)()));
    let template = root_template(&root);
    let root = root.help_template(template);
    if help == Help::Full { root } else { shortened(root) }
}

/// The help of the program: its commands stand under headings, which clap cannot do.
fn root_template(root: &Command) -> String {
    let width = commands::all().map(|entry| entry.name.len()).max().unwrap_or_default();
    let heading = root.get_styles().get_header();
    let literal = root.get_styles().get_literal();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (name, entries) in GROUPS {
        text.push_str(&format!("\n{heading}{name}:{heading:#}\n"));
        for entry in *entries {
            let about = root.find_subcommand(entry.name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {literal}{:width$}{literal:#}  {about}\n", entry.name));
        }
    }
    text.push_str(&format!("\n{heading}Options:{heading:#}\n{{options}}{{after-help}}"));
    text
}

/// Hides the options below a heading, in all commands.
fn shortened(command: Command) -> Command {
    let more = "`--help` also lists the settings and the options of every command";
    let after = command.get_after_help().map_or_else(String::new, |after| format!("{after}\n\n"));
    let command = command.after_help(format!("{after}{more}"));
    let command = command.mut_args(|arg| {
        let is_shared = arg.get_help_heading().is_some();
        if is_shared { arg.hide(true) } else { arg }
    });
    command.mut_subcommands(shortened)
}

/// True if the short help is asked for.
fn asks_for_short_help(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "-h")
}

/// Does what the arguments ask for and says how the process ends.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let help = if asks_for_short_help(&arguments) { Help::Short } else { Help::Full };
    let matches = match command_with(help).try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        // `--help` and `--version` come this way too, and are no errors.
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return Exit::Done;
        }
        Err(error) => {
            // It repeats arguments, of which one can be the address of a database.
            let urls =
                arguments.iter().filter_map(|argument| argument.to_str()).filter(|text| text.contains("://"));
            let text = urls.fold(error.render().ansi().to_string(), |text, url| {
                text.replace(url, &GivenText::new(url).to_string())
            });
            output::say(text.trim_end());
            return Exit::Usage;
        }
    };
    if wants_json(&matches) {
        output::set_messages(Messages::Json);
    }
    let Some((name, chosen)) = matches.subcommand() else { return Exit::Usage };
    let Some(entry) = commands::all().find(|entry| entry.name == name) else { return Exit::Usage };
    let names_place = names_place(&matches, &Environment::of_process());
    let taken_over = if names_place { Ok(()) } else { service::take_over(name, &arguments) };
    let result = taken_over
        .and_then(|()| {
            Shared::from_arg_matches(&matches).map_err(|error| CommandError::usage(error.to_string()))
        })
        .and_then(|shared| (entry.run)(chosen, &context(shared)));
    match result {
        Ok(exit) => exit,
        Err(error) if exit::is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            if !matches!(error.downcast_ref::<CommandError>(), Some(CommandError::Reported(_))) {
                output::error(exit::message(&error));
            }
            exit::exit_of(&error)
        }
    }
}

/// True if an option or its variable names the project, its data or its store.
fn names_place(matches: &ArgMatches, environment: &Environment) -> bool {
    let has_dir = matches.value_source("dir").is_some_and(|source| source != ValueSource::DefaultValue);
    let data = ["dataDir", "store"].into_iter().filter_map(Setting::find);
    let mut variables = data.clone().filter_map(|setting| environment.value(&setting.variable()));
    // An empty variable is how a shell unsets one for a command.
    has_dir
        || variables.any(|value| !value.is_empty())
        || data.into_iter().any(|setting| is_given(matches, setting.key))
}

/// True if the chosen command, or one below it, has this option.
fn is_given(matches: &ArgMatches, option: &str) -> bool {
    matches!(matches.try_contains_id(option), Ok(true))
        || matches.subcommand().is_some_and(|(_, chosen)| is_given(chosen, option))
}

/// True if the chosen command prints JSON.
fn wants_json(matches: &ArgMatches) -> bool {
    let own = matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default();
    own || matches.subcommand().is_some_and(|(_, chosen)| wants_json(chosen))
}

fn context(shared: Shared) -> Context {
    let mut flags = Vec::new();
    flags.extend(shared.log_level.map(|level| ("log.level", vec![level])));
    flags.extend(shared.log_format.map(|format| ("log.format", vec![format])));
    Context::new(shared.dir, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clap_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn each_project_or_store_option_and_variable_is_recognized() {
        let names_place = |options: &[&str], variables| {
            let line = ["cogwork", "executions", "list"].iter().chain(options);
            let matches = command().try_get_matches_from(line).expect("a command line");
            names_place(&matches, &variables)
        };
        let none = || Environment::with([]);
        assert!(!names_place(&[], none()));
        assert!(!names_place(
            &["--limit", "3"],
            Environment::with([("COGWORK_HOOKS", "1"), ("COGWORK_STORE", "")])
        ));
        for options in [["--dir", "x"], ["--data-dir", "x"], ["--store", "postgres://a"]] {
            assert!(names_place(&options, none()), "{options:?}");
        }
        for name in ["COGWORK_DATA_DIR", "COGWORK_STORE"] {
            assert!(names_place(&[], Environment::with([(name, "x")])), "{name}");
        }
    }

    #[test]
    fn the_man_page_names_every_command() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/debian/cogwork.1");
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page).expect("a page");
        let page = String::from_utf8(page).expect("text");
        if std::env::var_os("COGWORK_REGENERATE").is_some() {
            std::fs::write(&path, &page).expect("written");
        }
        // `COGWORK_REGENERATE=1 cargo nextest run -p cli the_man_page` writes it anew.
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page);
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{} has no examples", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }
}
