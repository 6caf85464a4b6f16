//! `cogwork doctor`

mod daemon;
mod finding;
mod listeners;
mod login;
mod machine;
mod project;
mod stored;

use clap::Args;
use serde::Serialize;

use super::Subcommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, BAD, GOOD, QUIET, STRONG, WARN, count, paint, plain};
use crate::settings::{Config, Flags, Origin, SERVE, SETTINGS};
use finding::{Findings, State};

const EXAMPLES: &str = "\
Examples:
  cogwork doctor
  cogwork doctor --strict                          fails on warnings too
  cogwork doctor --ready                           exits with 0 if the daemon accepts starts
  cogwork doctor --json | jq '.findings[] | select(.state != \"ok\")'

Works with and without a running daemon; give the flags that the daemon gets. Exits with 1
if something is wrong, and with 3 if the store cannot be trusted; warnings alone exit with 0.";

/// Check settings, store, machine and daemon, and say how to correct what is wrong
///
/// Changes nothing: it opens the store for reading, and the listeners' ports for a moment if no daemon runs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 on warnings too
    #[arg(long)]
    strict: bool,
    /// Only ask the running daemon if it accepts starts, as the health check of a container
    #[arg(long)]
    ready: bool,
    #[command(flatten)]
    settings: Flags<SERVE>,
}

/// The printed result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'f> {
    version: &'static str,
    dir: String,
    /// True if nothing is wrong; warnings do not count.
    ok: bool,
    errors: usize,
    warnings: usize,
    findings: &'f Findings,
    settings: Vec<SettingView>,
}

/// A setting with its source.
#[derive(Serialize)]
struct SettingView {
    key: &'static str,
    /// As it was given; the default if it was not; `null` if there is no default.
    value: Option<String>,
    /// `default`, `cogwork.yaml`, the name of a variable, or a flag.
    source: String,
}

impl Subcommand for Doctor {
    const NAME: &'static str = "doctor";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut findings = Findings::default();
        let loaded = context.quiet_config(self.settings.given());
        let config = project::settings(context, loaded, &mut findings);
        let runtime = crate::daemon::runtime()?;
        if self.ready {
            runtime.block_on(daemon::ready(&config, &mut findings));
        } else {
            runtime.block_on(examine(&config, &mut findings));
        }
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            dir: std::path::absolute(&config.dir)
                .unwrap_or_else(|_| config.dir.clone())
                .display()
                .to_string(),
            ok: findings.errors() == 0,
            errors: findings.errors(),
            warnings: findings.warnings(),
            settings: settings(&config),
            findings: &findings,
        };
        if self.json {
            output::json(&report)?
        } else {
            print(&report)?
        }
        Ok(match () {
            () if findings.store_is_lost => Exit::StoreLost,
            () if findings.errors() > 0 || (self.strict && findings.warnings() > 0) => Exit::Failed,
            () => Exit::Done,
        })
    }
}

/// Makes all checks.
async fn examine(config: &Config, findings: &mut Findings) {
    let files = project::files(config, findings);
    let found = stored::store(config, findings).await;
    if let (project::Files::Deployed, Some(store)) = (&files, &found.store) {
        stored::deployed(&**store, findings).await;
    }
    machine::disk(config, findings);
    machine::clock(config, &found, findings).await;
    machine::sandbox(config, findings).await;
    if let project::Files::Loaded(catalog) = &files {
        stored::secrets(config, catalog, &found, findings).await;
    }
    let running = daemon::running(config, found.is_unreadable, findings).await;
    listeners::check(config, running.is_running(), findings);
    if let daemon::Found::Running(status) = running {
        daemon::check(config, &status, findings).await;
    }
    login::check(config, found.store.clone(), findings).await;
    machine::weakened(config, findings);
}

fn settings(config: &Config) -> Vec<SettingView> {
    let view = |setting: &crate::settings::Setting| {
        let (value, source) = match config.given.get(setting.key) {
            Some((origin, values)) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                (Some(values.join(", ")), origin.to_string())
            }
            None => (setting.sample.default().map(str::to_owned), Origin::DEFAULT.to_owned()),
        };
        SettingView { key: setting.key, value, source }
    };
    SETTINGS.iter().map(view).collect()
}

fn print(report: &Report<'_>) -> anyhow::Result<()> {
    output::data(format_args!("{} {} in {}", paint(STRONG, "Cogwork"), report.version, report.dir))?;
    let mut section = "";
    for finding in report.findings.iter() {
        if finding.section != section {
            section = finding.section;
            output::data(format_args!("\n{}", paint(STRONG, section)))?;
        }
        let mark = match finding.state {
            State::Ok => paint(GOOD, "✓"),
            State::Warning => paint(WARN, "!"),
            State::Error => paint(BAD, "✗"),
            State::Skipped => paint(QUIET, "–"),
        };
        output::data(format_args!("  {mark} {:<12} {}", finding.name, plain(&finding.detail)))?;
        if let Some(help) = &finding.help {
            output::data(format_args!("    {} {}", paint(QUIET, "→"), plain(help)))?;
        }
    }
    output::data(format_args!("\n{}", paint(STRONG, "settings")))?;
    let given: Vec<_> = report.settings.iter().filter(|setting| setting.source != Origin::DEFAULT).collect();
    for setting in &given {
        let value = setting.value.as_deref().unwrap_or_default();
        output::data(format_args!(
            "  {:<28} {}  {}",
            setting.key,
            plain(value),
            paint(QUIET, format_args!("from {}", setting.source))
        ))?;
    }
    let others = report.settings.len() - given.len();
    output::data(format_args!(
        "  {}",
        paint(QUIET, format_args!("{} at the default", count(others, "setting")))
    ))?;
    let (errors, warnings) = (count(report.errors, "error"), count(report.warnings, "warning"));
    output::say(format_args!("\n{errors}, {warnings}"));
    Ok(())
}
