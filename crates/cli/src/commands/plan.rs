//! `cogwork plan`

use std::path::{Path, PathBuf};

use anstyle::Style;
use catalog::{Change, ChangeKind, DiffKind, EffectiveSetting, ReloadPreview, RenamedTrigger};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::json;
use text::diagnostic::Report;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, BAD, GOOD, QUIET, STRONG, WARN, count, paint, plain};
use crate::settings::Config;
use crate::{daemon, history, project, time};

const EXAMPLES: &str = "\
Examples:
  cogwork plan
  cogwork plan --dir ~/checkout --data-dir /srv/flows/.cogwork
  cogwork plan --effective add-person
  cogwork plan --json | jq -r '.changes[] | \"\\(.effect) \\(.id)\"'

It compares the files of --dir with what is in force in the daemon of the project's data, or of
--data-dir: so another checkout can be compared before it is deployed. Without a daemon,
everything is new. --effective reads the files of --dir alone.";

/// Show what the current files would change, without applying anything
///
/// For each changed automation: what happens to its trigger, schedule, steps and connections, and how many executions
/// continue with their earlier version. Exits with 1 if a file has an error.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Plan {
    #[command(flatten)]
    shown: DaemonOptions,
    /// Show the settings of this automation's steps that `defaults` can give, each with its place
    #[arg(long, value_name = "ID")]
    effective: Option<String>,
}

/// The forecast, as `GET /api/v1/plan` returns it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Planned {
    /// True if a daemon runs.
    #[serde(default)]
    daemon: bool,
    /// The project folder of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<PathBuf>,
    #[serde(flatten)]
    forecast: ReloadPreview,
    errors: usize,
    diagnostics: Vec<serde_json::Value>,
    #[serde(skip_serializing)]
    rendered: String,
}

impl Subcommand for Plan {
    const NAME: &'static str = "plan";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        match &self.effective {
            Some(id) => effective(&config, id, self.shown.json),
            None => daemon::runtime()?.block_on(plan(&config, self.shown.json)),
        }
    }
}

/// The settings of a step.
#[derive(Serialize)]
struct StepSettings {
    step: String,
    settings: Vec<EffectiveSetting>,
}

/// Shows the settings of the steps of an automation, each with its place.
fn effective(config: &Config, wanted: &str, as_json: bool) -> anyhow::Result<Exit> {
    let checked = project::check(&config.dir, &[])?;
    let automation = &project::find(&checked.catalog, wanted, false)?.automation;
    let mut steps = Vec::new();
    automation.walk(&mut |step| {
        let settings = catalog::effective_settings(automation, step);
        if !settings.is_empty() {
            steps.push(StepSettings { step: step.id.to_string(), settings });
        }
    });
    if as_json {
        output::json(&json!({ "automation": automation.id.as_str(), "steps": steps }))?;
        return Ok(Exit::Done);
    }
    let width = steps.iter().map(|step| step.step.len()).max().unwrap_or_default();
    for StepSettings { step, settings } in &steps {
        for setting in settings {
            output::data(format_args!("{step:<width$}  {}", plain(&setting.to_string())))?;
        }
    }
    if steps.is_empty() {
        output::say("no step takes defaults: only `action` and `call` do");
    }
    Ok(Exit::Done)
}

async fn plan(config: &Config, as_json: bool) -> anyhow::Result<Exit> {
    project::require(&config.dir)?;
    // Read here, not by the daemon: they may be other files than its own.
    let files = json!({ "files": catalog::project_files(&config.dir) });
    let planned = match daemon::post_if_running::<Planned>(config, "/api/v1/plan", &files).await? {
        Some(planned) => Planned { daemon: true, ..planned },
        None => without_daemon(config).await?,
    };
    match as_json {
        true => output::json(&planned)?,
        false => print(&planned, config)?,
    }
    Ok(if planned.errors == 0 { Exit::Done } else { Exit::Failed })
}

/// The forecast for a daemon that starts now.
async fn without_daemon(config: &Config) -> anyhow::Result<Planned> {
    let store = history::open(config)?;
    let store = store.as_deref();
    let forecast = catalog::preview_project(&config.dir, store, time::now()).await?;
    let entries = forecast.reports.iter().flat_map(Report::entries);
    let diagnostics = entries.map(serde_json::to_value).collect::<Result<_, _>>()?;
    let rendered = forecast.reports.iter().map(|report| report.render(true)).collect();
    Ok(Planned { daemon: false, folder: None, errors: forecast.errors(), forecast, diagnostics, rendered })
}

impl Planned {
    /// True if anything would change.
    pub(super) fn has_changes(&self) -> bool {
        !self.forecast.changes.is_empty() || !self.forecast.files.is_empty()
    }
}

fn print(planned: &Planned, config: &Config) -> anyhow::Result<()> {
    print_changes(planned)?;
    match &planned.folder {
        _ if !planned.daemon => output::say(format_args!(
            "no daemon runs here, on `{}`: compared with nothing; `cogwork serve` starts one, and --data-dir names \
             the data of one that runs elsewhere",
            config.data_dir.display()
        )),
        Some(folder) if is_same(folder, &config.dir) => {
            output::say(
                "compared with what is in force in the daemon, which takes what changes in this folder at once",
            );
        }
        Some(folder) => output::say(format_args!(
            "compared with what is in force in the daemon, whose folder is `{}`",
            plain(&folder.display().to_string())
        )),
        None => {}
    }
    Ok(())
}

/// Prints the changes and their summary.
pub(super) fn print_changes(planned: &Planned) -> anyhow::Result<()> {
    let forecast = &planned.forecast;
    let width = forecast.changes.iter().map(|change| change.id.len()).max().unwrap_or_default();
    for change in &forecast.changes {
        output::data(head(change, width))?;
        for line in lines(change) {
            output::data(format_args!("      {}", plain(&line)))?;
        }
    }
    for file in &forecast.files {
        let (mark, style) = match file.how {
            DiffKind::Added => ("+", GOOD),
            DiffKind::Removed => ("-", BAD),
            _ => ("~", WARN),
        };
        output::data(format_args!("  {} {}  {}", paint(style, mark), plain(&file.path), file.how))?;
    }
    if !planned.rendered.is_empty() {
        output::say(format_args!("\n{}", planned.rendered.trim_end()));
    }
    output::say(format_args!("\n{}", summary(planned)));
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(one, other)| one == other)
}

fn head(change: &Change, width: usize) -> String {
    let (mark, style, word): (&str, Style, &str) = match change.effect {
        ChangeKind::Added => ("+", GOOD, "added"),
        ChangeKind::Changed => ("~", WARN, "changed"),
        ChangeKind::Removed => ("-", BAD, "removed"),
        ChangeKind::Stale => ("!", BAD, "stale: its file has errors, the last good version stays in force"),
        ChangeKind::Restored => ("=", GOOD, "restored: its file says again what is in force"),
        ChangeKind::Broken => ("!", BAD, "broken: its file has errors, nothing is in force"),
    };
    let versions = match (&change.before, &change.definition) {
        (Some(before), Some(now)) if before != now => format!("{before} → {now}"),
        (_, Some(one)) | (Some(one), None) => one.clone(),
        (None, None) => String::new(),
    };
    let id = paint(STRONG, format_args!("{:<width$}", plain(&change.id)));
    let place = paint(QUIET, format_args!("{} {versions}", plain(&change.path)));
    format!("  {} {id}  {word}  {place}", paint(style, mark)).trim_end().to_owned()
}

/// The differences, one per line.
fn lines(change: &Change) -> Vec<String> {
    let mut lines: Vec<String> = change.details.iter().map(ToString::to_string).collect();
    if !change.next_fires.is_empty() {
        let zone = change.timezone.as_deref().unwrap_or("UTC");
        lines.push(format!("next fires: {} {zone}", instants(&change.next_fires, zone)));
    }
    for RenamedTrigger { from, to } in &change.renamed {
        let id = &change.id;
        lines.push(format!(
            "`{to}` has nothing of `{from}`; if it is the same trigger, run `cogwork triggers move {id} {from} {to}` first: \
             it keeps its address and its position"
        ));
    }
    for group in &change.executions {
        let executions = count(group.count, "execution");
        let go = if group.count == 1 { "goes" } else { "go" };
        lines.push(format!("{executions} in flight {go} on with {}", group.definition));
    }
    lines
}

fn instants(instants: &[Timestamp], zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let shown = instants.iter().map(|at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string());
    shown.collect::<Vec<_>>().join(", ")
}

/// The counts: `1 added, 2 changed; 7 stay as they are`.
fn summary(planned: &Planned) -> String {
    let ReloadPreview { changes, unchanged, .. } = &planned.forecast;
    let effects = [
        (ChangeKind::Added, "added"),
        (ChangeKind::Changed, "changed"),
        (ChangeKind::Removed, "removed"),
        (ChangeKind::Restored, "restored"),
        (ChangeKind::Stale, "stale"),
        (ChangeKind::Broken, "broken"),
    ];
    let counts = effects.iter().filter_map(|(effect, word)| {
        let number = changes.iter().filter(|change| change.effect == *effect).count();
        (number > 0).then(|| format!("{number} {word}"))
    });
    let counts: Vec<String> = counts.collect();
    let counts = if counts.is_empty() { "no automation changes".to_owned() } else { counts.join(", ") };
    let errors = match planned.errors {
        0 => String::new(),
        number => format!("; {}", paint(BAD, count(number, "error"))),
    };
    let stay =
        if *unchanged == 1 { "1 stays as it is".to_owned() } else { format!("{unchanged} stay as they are") };
    format!("{counts}; {stay}{errors}")
}
