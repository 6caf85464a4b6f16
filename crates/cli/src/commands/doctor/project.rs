//! Checks of the project's files and settings.

use std::path::Path;

use catalog::Catalog;
use text::Severity;

use super::finding::Findings;
use crate::context::Context;
use crate::exit;
use crate::output::count;
use crate::project;
use crate::settings::{self, Config};
use crate::store_server;

const SECTION: &str = "project";

/// The settings that could be loaded, else the defaults, so that the other checks can run.
pub(super) fn settings(context: &Context, loaded: anyhow::Result<Config>, findings: &mut Findings) -> Config {
    for (name, near) in context.unknown_variables() {
        let detail = format!("the variable `{name}` is no setting");
        findings.warning(SECTION, "variables", detail, format!("rename it to `{near}`, or unset it"));
    }
    match loaded {
        Ok(config) => {
            findings.ok(SECTION, "settings", format!("{} given", count(config.given.len(), "setting")));
            for sentence in config.without_effect() {
                findings.warning(SECTION, "settings", sentence, "remove one of them");
            }
            config
        }
        Err(error) => {
            let help = "correct the setting; until then the defaults are checked";
            let detail = file_error(context.dir()).unwrap_or_else(|| exit::message(&error));
            let (problem, way_out) = exit::split_way_out(&detail);
            let help = way_out.map_or_else(|| help.to_owned(), |way_out| format!("{way_out}; {help}"));
            findings.error(SECTION, "settings", problem, help);
            Config::new(context.dir())
        }
    }
}

/// The first error in the settings file, with its position.
fn file_error(dir: &Path) -> Option<String> {
    let report = settings::check(dir).ok()??;
    let error = report.entries().into_iter().find(|entry| entry.severity == Severity::Error)?;
    Some(format!("{}:{}: {}", error.file, error.line, error.message))
}

/// The definitions of the project.
pub(super) enum Files {
    /// The definitions of the project folder.
    Loaded(Box<Catalog>),
    /// The project folder has no files; daemons that share a store use the deployed files.
    Deployed,
    /// There is no project, or it cannot be read.
    Missing,
}

/// Checks the files as `cogwork validate` does.
pub(super) fn files(config: &Config, findings: &mut Findings) -> Files {
    let checked = match project::is_project(&config.dir) {
        Ok(false) if config.store_location().is_shared() => {
            let detail =
                format!("`{}` has none: the definitions that are deployed count", config.dir.display());
            findings.ok(SECTION, "files", detail);
            return Files::Deployed;
        }
        Ok(_) => project::check(&config.dir, &[]),
        Err(error) => Err(error),
    };
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => {
            let message = exit::message(&error);
            let (problem, way_out) = exit::split_way_out(&message);
            findings.error(SECTION, "files", problem, way_out.unwrap_or("correct what the message names"));
            return Files::Missing;
        }
    };
    let warnings: usize = checked.reports.iter().map(text::diagnostic::Report::warning_count).sum();
    let found = format!(
        "{}: {}, {}",
        count(checked.files, "file"),
        count(checked.errors(), "error"),
        count(warnings, "warning")
    );
    let help = "`cogwork validate` shows each with its place";
    match (checked.errors(), warnings) {
        (0, 0) => findings.ok(SECTION, "files", found),
        (0, _) => findings.warning(SECTION, "files", found, help),
        _ => findings.error(SECTION, "files", found, help),
    }
    if let Some(sentence) = store_server::local_files(config, &checked.catalog) {
        findings.warning(SECTION, "local-file", sentence, "use `sql.postgres` or `sql.mysql`");
    }
    Files::Loaded(Box::new(checked.catalog))
}
