//! The service that a package installs. A command that is typed outside of a project means the service's project: it runs with the
//! settings of the service and, if root types it, as the owner of its data.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::CommandError;
use crate::output;
use crate::project;
use crate::settings::Environment;

/// The file of variables of the service, as the unit of the package reads it.
const FILE: &str = "/etc/default/cogwork";
/// The variable that names another file, or none if it is empty.
const VARIABLE: &str = "COGWORK_SERVICE_FILE";
/// The variables of which the file must have one: without them it does not say where the service is.
const PLACES: [&str; 2] = ["COGWORK_DIR", "COGWORK_DATA_DIR"];
/// The commands that make something in the working folder, need no project, or are the service.
const ELSEWHERE: [&str; 7] = ["completions", "import", "init", "new", "schema", "serve", "version"];

/// Runs this command as the service would, if it is typed outside of a project and names none, and there is a service. Does not return
/// then.
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
    // A folder that cannot be read is for the command itself to complain about.
    project::is_project(folder).unwrap_or(true) || folder.join(".cogwork").is_dir()
}

/// Replaces this process. Variables that are set here override the service's.
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
    // Files that root makes could not be read by the daemon.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let owner = owner.filter(|(user, _)| *user != 0 && is_root);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    if output::talks_to_a_person() {
        output::say(format_args!("for the service on `{folder}`; name a project with --dir for another"));
    }
    Err(command.exec().into())
}

#[cfg(not(unix))]
fn run(_arguments: &[OsString], _variables: &[(String, String)]) -> anyhow::Result<()> {
    Ok(())
}

/// The variables that the process gets beside its environment: the service's that are not set here, and the secret ones that were taken out
/// of the environment.
fn added<'v>(
    service: &'v [(String, String)],
    own: &'v Environment,
) -> impl Iterator<Item = (&'v str, &'v str)> {
    let is_set = |name: &str| own.value(name).is_some() || std::env::var_os(name).is_some();
    let service = service.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    service.filter(move |(name, _)| !is_set(name)).chain(own.taken())
}

/// The variables of a file as systemd reads it: a line each, with or without quotes.
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
