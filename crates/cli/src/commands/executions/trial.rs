//! `cogwork executions try`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::common::DaemonOptions;
use crate::exit::{CommandError, Exit};
use crate::output::{self, BAD, GOOD, QUIET, WARN, count, cut, paint, plain};
use crate::paths::{self, Named};
use crate::settings::Config;
use crate::{candidates, daemon, history};

const EXAMPLES: &str = "\
Examples:
  cogwork executions try automations/order-desk.yaml latest
  cogwork executions try automations/order-desk.yaml 019a2b3c 019a2b41 --tests
  cogwork executions try automations/order-desk.yaml --last 20
  cogwork executions try automations/order-desk.yaml --text draft.yaml latest --json

Nothing is called: the answers of other systems come from the record. It exits with 1 if an execution
differs, calls something new or cannot be tried, or if a test fails.";

/// The maximum length of a printed value, in characters.
const VALUE: usize = 120;

/// Try recorded executions on a version that is not in force
///
/// It needs the daemon, which runs each execution on the text and compares it with the record.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Try {
    /// The automation's file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The ids of 1 to 50 executions, beginnings of them that no others have, or `latest`
    #[arg(value_name = "ID", add = ArgValueCandidates::new(candidates::executions))]
    ids: Vec<String>,
    /// Try the newest N executions of the automation that have succeeded or failed
    #[arg(long, value_name = "N", conflicts_with = "ids", value_parser = clap::value_parser!(u16).range(1..=50))]
    last: Option<u16>,
    /// A file with the text to try; default: the automation's file as it is on disk
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Run the tests of the automation on the text too
    #[arg(long)]
    tests: bool,
    #[command(flatten)]
    pub(super) shown: DaemonOptions,
}

#[derive(Deserialize)]
struct Results {
    executions: Vec<Trial>,
    tests: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trial {
    id: String,
    verdict: String,
    reason: Option<String>,
    new_call: Option<NewCall>,
    outcome: Option<Pair>,
    response: Option<Pair>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct NewCall {
    step: String,
    action: String,
}

#[derive(Deserialize)]
struct Pair {
    recorded: Option<Value>,
    trial: Option<Value>,
}

#[derive(Deserialize)]
struct Step {
    step: String,
    recorded: Option<Value>,
    trial: Option<Value>,
}

#[derive(Deserialize)]
struct Test {
    name: String,
    result: String,
    #[serde(default)]
    messages: Vec<String>,
}

impl Try {
    pub(super) async fn run(&self, config: &Config, dir: &Path) -> anyhow::Result<Exit> {
        if self.ids.is_empty() && self.last.is_none() && !self.tests {
            return Err(CommandError::usage("name the executions to try, or add --last or --tests"));
        }
        let Named::Inside(path) = paths::resolve(dir, &self.file)? else {
            let message =
                format!("`{}` is outside the project; name the project with --dir", self.file.display());
            return Err(CommandError::usage(message));
        };
        let from = self.text.clone().unwrap_or_else(|| dir.join(&path));
        let text =
            std::fs::read_to_string(&from).with_context(|| format!("cannot read `{}`", from.display()))?;
        let mut ids = Vec::with_capacity(self.ids.len());
        for id in &self.ids {
            ids.push(history::id(config, id).await?.to_string());
        }
        if let Some(count) = self.last {
            ids = newest(config, &path, count).await?;
        }
        let body = json!({"path": path, "text": text, "executions": ids, "tests": self.tests});
        let found: Value = daemon::post(config, "/api/v1/trials", &body).await?;
        let results: Results = serde_json::from_value(found.clone())?;
        if self.shown.json {
            output::json(&found)?;
        } else {
            results.executions.iter().try_for_each(show)?;
            for test in &results.tests {
                let style = if test.result == "failed" { BAD } else { GOOD };
                output::data(format_args!("{}  {}", paint(style, &test.result), plain(&test.name)))?;
                for message in &test.messages {
                    output::data(format_args!("    {}", plain(message)))?;
                }
            }
        }
        let same = results.executions.iter().filter(|trial| trial.verdict == "same").count();
        let failed = results.tests.iter().filter(|test| test.result == "failed").count();
        output::say(format_args!(
            "{same} of {} the same; {} failed; nothing was called",
            count(results.executions.len(), "execution"),
            count(failed, "test")
        ));
        Ok(if same == results.executions.len() && failed == 0 { Exit::Done } else { Exit::Failed })
    }
}

/// The ids of the newest ended executions of the automation that a file defines.
async fn newest(config: &Config, path: &Path, count: u16) -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Page {
        executions: Vec<Row>,
    }
    #[derive(Deserialize)]
    struct Row {
        id: String,
    }
    #[derive(Deserialize)]
    struct Automations {
        automations: Vec<Automation>,
    }
    #[derive(Deserialize)]
    struct Automation {
        id: String,
        path: String,
    }
    let Automations { automations } = daemon::fetch(config, "/api/v1/automations").await?;
    let automation = automations.into_iter().find(|one| Path::new(&one.path) == path);
    let Automation { id, .. } =
        automation.with_context(|| format!("`{}` defines no automation that is in force", path.display()))?;
    let query = format!("automation={}&status=succeeded,failed&limit={count}", daemon::query(&id));
    let page: Page = daemon::fetch(config, &format!("/api/v1/executions?{query}")).await?;
    Ok(page.executions.into_iter().map(|row| row.id).collect())
}

fn show(trial: &Trial) -> std::io::Result<()> {
    let (style, word) = match trial.verdict.as_str() {
        "same" => (GOOD, "same"),
        "differs" => (WARN, "differs"),
        "newCall" => (BAD, "new call"),
        "notStarted" => (WARN, "not started"),
        "waits" => (WARN, "waits"),
        _ => (BAD, "not run"),
    };
    output::data(format_args!("{}  {}", paint(style, word), trial.id))?;
    if let Some(reason) = &trial.reason {
        output::data(format_args!("    {}", plain(reason)))?;
    }
    if let Some(NewCall { step, action }) = &trial.new_call {
        output::data(format_args!("    step `{}` would call {}", plain(step), plain(action)))?;
    }
    for (name, pair) in [("outcome", &trial.outcome), ("response", &trial.response)] {
        if let Some(Pair { recorded, trial }) = pair {
            difference(name, recorded.as_ref(), trial.as_ref())?;
        }
    }
    for Step { step, recorded, trial } in &trial.steps {
        for part in ["status", "action", "inputs", "result", "error"] {
            let (recorded, trial) = (
                recorded.as_ref().and_then(|side| side.get(part)),
                trial.as_ref().and_then(|side| side.get(part)),
            );
            if recorded != trial {
                difference(&format!("{step} {part}"), recorded, trial)?;
            }
        }
    }
    Ok(())
}

fn difference(name: &str, recorded: Option<&Value>, trial: Option<&Value>) -> std::io::Result<()> {
    let text = |value: Option<&Value>| value.map_or_else(|| "–".to_owned(), ToString::to_string);
    let (recorded, trial) = (text(recorded), text(trial));
    output::data(format_args!(
        "    {}  {} → {}",
        paint(QUIET, plain(name)),
        plain(&cut(&recorded, VALUE)),
        plain(&cut(&trial, VALUE))
    ))
}
