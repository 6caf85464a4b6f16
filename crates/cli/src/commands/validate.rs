//! `cogwork validate`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use catalog::Catalog;
use clap::{Args, ValueEnum};
use serde_json::json;
use text::diagnostic::Report;

use super::Subcommand;
use super::connections::describe;
use crate::context::{Context, LogProfile};
use crate::exit::{CommandError, Exit};
use crate::output::{self, count};
use crate::paths;
use crate::project::{self, STDIN, SortedPaths};
use crate::secrets::Known;
use crate::settings;

const EXAMPLES: &str = "\
Examples:
  cogwork validate                                 every file of the project
  cogwork validate automations/order-desk.yaml
  cogwork validate /tmp/draft.yaml                 a file from elsewhere, checked as one of this project
  cogwork validate - < draft.yaml                  a text from stdin, checked as a file of this project
  cogwork validate --strict                        fails on warnings too, for a build
  cogwork validate --format github                 annotations for a pull request
  cogwork validate --format json | jq .errors";

/// The warning about a secret missing on this machine, which is not about the files.
const OF_MACHINE: &str = "missing-secret";
/// The maximum size of a file outside the project: above the loader's limit, so that the loader reports it.
const MAX_BYTES: u64 = 512 << 10;

/// Check automations, connections, connectors and settings
///
/// Runs the same checks as the daemon, reports all problems at once, and executes nothing. Exits with 1 if there is an
/// error; warnings and hints alone exit with 0.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Validate {
    /// Files and folders to check; default: all files of the project. A file from elsewhere, or `-` for stdin, is checked as
    /// one of the project
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Print JSON, as `--format json` does
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Exit with 1 on warnings too, except for secrets that are not set on this machine
    #[arg(long)]
    strict: bool,
    /// Ask the databases too: fails if one has other columns than `connections/NAME.types.yaml`
    #[arg(long, conflicts_with = "paths")]
    live: bool,
}

/// The output format of problems.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Text, in the style of the Rust compiler
    Text,
    /// One JSON object
    Json,
    /// Annotations for GitHub Actions
    Github,
}

/// The findings in all files together.
#[derive(Default)]
struct Findings {
    files: usize,
    reports: Vec<Report>,
}

impl Subcommand for Validate {
    const NAME: &'static str = "validate";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let dir = context.dir();
        let mut findings = Findings::default();
        let SortedPaths { inside, outside } = project::sort_paths(dir, &self.paths)?;
        let everything = self.paths.is_empty();
        if (everything || inside.iter().any(|path| path == Path::new(settings::FILE)))
            && settings::exists(dir)
        {
            findings.files += 1;
            findings.reports.extend(settings::check(dir)?);
        }
        // A file is checked in the context of the whole project even if only that file is named.
        let checked =
            if everything { project::check(dir, &[])? } else { authoring::check_project(dir, &inside)? };
        if everything || !inside.is_empty() {
            findings.files += checked.files;
            findings.reports.extend(checked.reports);
        }
        findings.missing_secrets(context, &checked.catalog, |path| {
            everything || inside.iter().any(|wanted| Path::new(path).starts_with(wanted))
        });
        for path in &outside {
            findings.files += 1;
            findings.reports.push(check_draft(&checked.catalog, path)?);
        }
        if findings.files == 0 && !everything {
            return Err(CommandError::usage(project::NO_FILE));
        }
        let format = if self.json { Format::Json } else { self.format };
        findings.show(format, &above(dir))?;
        if self.live && describe::print_changes(context)? {
            return Ok(Exit::Failed);
        }
        Ok(if findings.fails(self.strict) { Exit::Failed } else { Exit::Done })
    }
}

/// Checks a file outside the project as if it were part of it.
fn check_draft(catalog: &Catalog, path: &Path) -> anyhow::Result<Report> {
    use std::io::Read as _;
    let mut text = String::new();
    if path == Path::new(STDIN) {
        let read = std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text);
        read.context("cannot read stdin")?;
        return Ok(authoring::check_draft(catalog, "stdin", &text));
    }
    let read = fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    read.with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(authoring::check_draft(catalog, &paths::shown(path).to_string(), &text))
}

impl Findings {
    /// Adds warnings about missing secrets that these files name.
    fn missing_secrets(&mut self, context: &Context, catalog: &Catalog, is_wanted: impl Fn(&str) -> bool) {
        // An invalid setting is reported separately.
        let Ok(config) = context.config(&[], LogProfile::Tool) else { return };
        for missing in Known::new(&config).missing(catalog) {
            let path = missing.source().path();
            if !is_wanted(path) {
                continue;
            }
            match self.reports.iter_mut().find(|report| report.source().path() == path) {
                Some(report) => *report = report.with(missing.diagnostics().iter().cloned()),
                None => self.reports.push(missing),
            }
        }
    }

    /// The warnings about the files themselves, independent of the machine.
    fn warnings_of_files(&self) -> usize {
        let of_machine =
            self.reports.iter().flat_map(Report::diagnostics).filter(|told| told.code == OF_MACHINE);
        self.warnings().saturating_sub(of_machine.count())
    }

    fn errors(&self) -> usize {
        self.reports.iter().map(Report::error_count).sum()
    }

    fn warnings(&self) -> usize {
        self.reports.iter().map(Report::warning_count).sum()
    }

    /// True if the files have errors, or warnings with `--strict`.
    fn fails(&self, strict: bool) -> bool {
        self.errors() > 0 || (strict && self.warnings_of_files() > 0)
    }

    /// Prints the findings. `above` is the path of the project folder from the root of the repository that CI checks.
    fn show(&self, format: Format, above: &str) -> anyhow::Result<()> {
        let (errors, warnings) = (self.errors(), self.warnings());
        let hints: usize = self.reports.iter().map(Report::hint_count).sum();
        let reports = self.reports.iter().filter(|report| !report.is_empty());
        match format {
            Format::Text => {
                for report in reports {
                    output::data(format_args!("{}\n", report.render(true).trim_end()))?;
                }
            }
            Format::Json => {
                let diagnostics: Vec<_> = reports.flat_map(Report::entries).collect();
                let (files, errors, warnings) = (self.files, errors, warnings);
                output::json(&json!({
                    "files": files, "errors": errors, "warnings": warnings, "hints": hints, "diagnostics": diagnostics,
                }))?;
            }
            Format::Github => {
                for report in reports {
                    output::raw(report.to_github(above).as_bytes())?;
                }
            }
        }
        let mut found = vec![count(errors, "error"), count(warnings, "warning")];
        found.extend((hints > 0).then(|| count(hints, "hint")));
        output::say(format_args!("checked {}: {}", count(self.files, "file"), found.join(", ")));
        Ok(())
    }
}

/// The path of the project folder from the root of the repository that GitHub Actions checks; empty elsewhere.
fn above(dir: &Path) -> String {
    let inside = || {
        let top = fs::canonicalize(std::env::var_os("GITHUB_WORKSPACE")?).ok()?;
        let dir = fs::canonicalize(dir).ok()?;
        Some(dir.strip_prefix(top).ok()?.to_string_lossy().replace('\\', "/"))
    };
    inside().unwrap_or_default()
}
