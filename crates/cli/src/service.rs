//! The service installed by a package. A command run outside a project uses the service's project: with the
//! settings of the service and, if root runs it, as the owner of its data.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::CommandError;
use crate::output;
use crate::project;
use crate::settings::Environment;

/// The environment file of the service, as in the package's systemd unit.
const FILE: &str = "/etc/default/cogwork";
/// The variable that names another file, or disables it if empty.
const VARIABLE: &str = "COGWORK_SERVICE_FILE";
/// The variables of which the file must have at least one: otherwise it does not locate the service.
const PLACES: [&str; 2] = ["COGWORK_DIR", "COGWORK_DATA_DIR"];
/// The commands that write to the working folder, need no project, or are the service.
const ELSEWHERE: [&str; 7] = ["completions", "import", "init", "new", "schema", "serve", "version"];

/// Runs this command with the service's settings and does not return, if it is outside a project, names no project, and a
/// service is installed.
///
/// # Errors
/// There is a service, and its settings cannot be read, or the command cannot be run.
pub(crate) fn take_over(command: &str, arguments: &[OsString]) -> anyhow::Result<()> {
    let file = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(FILE), PathBuf::from);
    if ELSEWHERE.contains(&command) || file.as_os_str().is_empty() || is_project(Path::new(".")) {
        return Ok(());
    }
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(CommandError::usage(format!(
                "cannot read `{}`, the settings of the service: {error}; run this as root, such as with `sudo`, or name a project with --dir",
                file.display()
            )));
        }
    };
    let variables = parse(&text);
    if !PLACES.iter().any(|place| variables.iter().any(|(name, _)| name == place)) {
        return Ok(());
    }
    run(arguments, &variables)
}

/// True if the folder is a project, or has the data of one.
fn is_project(folder: &Path) -> bool {
    // The command itself reports an unreadable folder.
    project::is_project(folder).unwrap_or(true) || folder.join(".cogwork").is_dir()
}

/// Replaces this process. Variables of the shell override the service's.
#[cfg(unix)]
fn run(arguments: &[OsString], variables: &[(String, String)]) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::CommandExt as _;

    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments.iter().skip(1)).env(VARIABLE, "");
    command.envs(added(variables, &Environment::of_process()));
    let place =
        |name: &str| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let folder = place("COGWORK_DATA_DIR").or_else(|| place("COGWORK_DIR")).unwrap_or(".");
    let owner = std::fs::metadata(folder).ok().map(|found| (found.uid(), found.gid()));
    // Files created by root could not be read by the daemon.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let owner = owner.filter(|(user, _)| *user != 0 && is_root);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    if output::stderr_is_terminal() {
        output::say(format_args!("for the service on `{folder}`; name a project with --dir for another"));
    }
    Err(command.exec().into())
}

#[cfg(not(unix))]
fn run(_arguments: &[OsString], _variables: &[(String, String)]) -> anyhow::Result<()> {
    Ok(())
}

/// The variables added to the environment: the unset ones of the service, and the secret ones that were removed from the
/// environment.
fn added<'v>(
    service: &'v [(String, String)],
    own: &'v Environment,
) -> impl Iterator<Item = (&'v str, &'v str)> {
    let is_set = |name: &str| own.value(name).is_some() || std::env::var_os(name).is_some();
    let service = service.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    service.filter(move |(name, _)| !is_set(name)).chain(own.taken())
}

/// Parses an environment file like systemd: one variable per line, with or without quotes.
fn parse(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let variables = lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let value = value.trim();
        let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        Some((name.trim().to_owned(), quoted.unwrap_or(value).to_owned()))
    });
    variables.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_shell_override_those_of_the_service() {
        let service = parse("COGWORK_STORE=postgres://service\nCOGWORK_HOOKS=1\nCOGWORK_ADMIN_TOKEN=service");
        let own = Environment::with([("COGWORK_STORE", "postgres://own"), ("COGWORK_HOOKS", "2")]);
        let added: Vec<_> = added(&service, &own).collect();
        // `COGWORK_HOOKS` is still in the environment.
        assert_eq!(added, [("COGWORK_ADMIN_TOKEN", "service"), ("COGWORK_STORE", "postgres://own")]);
    }

    #[test]
    fn the_environment_file_is_parsed_as_systemd_parses_it() {
        let text = "# COGWORK_HOOKS=1\n; x=y\n\nCOGWORK_DIR=/srv/cogwork\nCOGWORK_STORE=\"postgres://a:b=c@d/e\"\n A = 'b c' \nnothing\n";
        let found = parse(text);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [("COGWORK_DIR", "/srv/cogwork"), ("COGWORK_STORE", "postgres://a:b=c@d/e"), ("A", "b c")]
        );
    }
}
