//! `cogwork start`

use anyhow::Context as _;
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use model::LogLine;
use model::execution::{Event, ExecutionId};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use server::{Events, ServerEvent};

use super::Subcommand;
use super::run::payload::{NO_INPUTS, PayloadOptions, SCHEDULE_TAKES_NOTHING, StartArgs};
use crate::context::{Context, LogProfile};
use crate::exit::{CommandError, Exit};
use crate::history::{self, Outcome};
use crate::output::{self, plain};
use crate::progress::Progress;
use crate::settings::{Config, Flags, PLACE};
use crate::signals::Signals;
use crate::waiting::{Field, FieldKind};
use crate::{candidates, daemon};

const EXAMPLES: &str = "\
Examples:
  cogwork start hello --input name=Ada
  cogwork start hello --watch | jq .greeting
  cogwork start order-desk --payload order.json    the body of a request on its webhook
  cogwork start order-desk --saved first --test    a request that `cogwork listen` has saved
  cogwork executions show $(cogwork start nightly)

It prints the execution's id; with --watch the steps go to stderr, and the result to stdout as JSON.
Ctrl-C ends the watching; the execution goes on in the daemon.";

/// Start an automation in the daemon
///
/// The daemon that runs on the project's data starts it, so that it is in the history and shares state, secrets and
/// limits with all others. `cogwork run` runs one without a daemon.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Start {
    /// The automation's id, or ID/TRIGGER
    #[arg(value_name = "ID", add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    #[command(flatten)]
    start: StartArgs,
    /// Show each step and log line as it comes, and end with the execution, with 1 if it fails
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    settings: Flags<PLACE>,
}

/// The daemon's description of an automation.
#[derive(Deserialize)]
struct Known {
    name: String,
    triggers: Vec<KnownTrigger>,
    #[serde(default)]
    inputs: Vec<Field>,
}

/// The daemon's description of a trigger.
#[derive(Deserialize)]
struct KnownTrigger {
    id: String,
    kind: String,
}

/// The daemon's description of an execution.
#[derive(Deserialize)]
struct Watched {
    automation: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    execution_id: ExecutionId,
}

impl Subcommand for Start {
    const NAME: &'static str = "start";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = context.config(self.settings.given(), LogProfile::Tool)?;
        let given = PayloadOptions::read(&self.start)?;
        daemon::runtime()?.block_on(start(&config, &self, &given))
    }
}

async fn start(config: &Config, what: &Start, given: &PayloadOptions) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let (automation, named) = match what.automation.split_once('/') {
        Some((automation, trigger)) => (automation, Some(trigger)),
        None => (what.automation.as_str(), None),
    };
    let known: Known = daemon::fetch(config, &daemon::path(&["automations", automation])).await?;
    let trigger = what.start.trigger.as_deref().or(named);
    let mut body = match &what.start.saved {
        Some(name) => json!({ "saved": name }),
        None => body(&known, trigger, given)?,
    };
    body["test"] = what.start.test.into();
    if let Some(trigger) = trigger {
        body["trigger"] = trigger.into();
    }
    let path = daemon::path(&["automations", automation, "run"]);
    let Started { execution_id: id } = daemon::post(config, &path, &body).await?;
    if !what.watch {
        output::data(id)?;
        return Ok(Exit::Done);
    }
    follow(config, id, &known.name, &mut signals).await
}

/// Watches an execution of the daemon until it ends.
pub(super) async fn watch(config: &Config, id: ExecutionId) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let known: Watched = daemon::fetch(config, &format!("/api/v1/executions/{id}")).await?;
    follow(config, id, &known.automation, &mut signals).await
}

async fn follow(config: &Config, id: ExecutionId, name: &str, signals: &mut Signals) -> anyhow::Result<Exit> {
    let mut progress = Progress::new(id, true, None);
    progress.begin(name);
    let ended = {
        let mut watch =
            Watch { events: daemon::events(config, &events_path(id)).await?, progress: &mut progress };
        tokio::select! {
            biased;
            () = signals.next() => None,
            ended = watch.follow() => Some(ended),
        }
    };
    progress.end();
    match ended {
        None => {
            output::say(format_args!(
                "it continues in the daemon; `cogwork executions cancel {id}` cancels it"
            ));
            Ok(Exit::Interrupted)
        }
        Some(ended) => {
            ended?;
            conclude(config, id).await
        }
    }
}

fn events_path(id: ExecutionId) -> String {
    format!("/api/v1/executions/{id}/events")
}

/// The request body of a start with these arguments.
fn body(known: &Known, trigger: Option<&str>, given: &PayloadOptions) -> anyhow::Result<Value> {
    let payload = given.json()?.map(|value| value.to_serde());
    let typed = given.inputs().iter().map(|(name, text)| {
        let kind = known.inputs.iter().find(|input| input.name == *name).map(|input| &input.kind);
        (name.clone(), value(kind, text))
    });
    let mut inputs: Map<String, Value> = typed.collect();
    let kind = known.kind_of(trigger);
    if kind == "manual" {
        let mut all = match payload {
            None => Map::new(),
            Some(Value::Object(map)) => map,
            Some(_) => {
                return Err(CommandError::usage("the payload of a manual start is an object of inputs"));
            }
        };
        all.append(&mut inputs);
        return Ok(json!({ "inputs": all }));
    }
    let has_surplus_inputs = !inputs.is_empty() && known.inputs.is_empty();
    if kind == "schedule" && (payload.is_some() || has_surplus_inputs) {
        return Err(CommandError::usage(SCHEDULE_TAKES_NOTHING));
    }
    if has_surplus_inputs {
        return Err(CommandError::usage(NO_INPUTS));
    }
    let mut body = match (kind, payload) {
        (_, None) => json!({ "payload": {} }),
        ("webhook", Some(body)) => json!({ "payload": { "body": body } }),
        (_, Some(data)) => json!({ "payload": { "data": data } }),
    };
    if !inputs.is_empty() {
        body["inputs"] = inputs.into();
    }
    Ok(body)
}

impl Known {
    /// The kind of the trigger with this id; without one, of the trigger that the daemon chooses. Empty if it refuses the choice.
    fn kind_of(&self, trigger: Option<&str>) -> &str {
        let of_id = |id: &str| self.triggers.iter().find(|trigger| trigger.id == id);
        let manual = self.triggers.iter().find(|trigger| trigger.kind == "manual");
        let found = match (trigger, self.triggers.as_slice()) {
            (Some(id), _) => of_id(id),
            (None, [only]) => Some(only),
            (None, _) => manual,
        };
        found.map_or("", |trigger| trigger.kind.as_str())
    }
}

/// Parses a text by the type of its input. An invalid value stays text, so that the daemon reports the expected type.
fn value(kind: Option<&FieldKind>, text: &str) -> Value {
    match kind.map(|kind| kind.kind.as_str()) {
        None | Some("text" | "choice" | "url" | "file") => text.into(),
        Some(_) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

/// An execution in the daemon that is being watched.
struct Watch<'w> {
    events: Events,
    progress: &'w mut Progress,
}

impl Watch<'_> {
    /// Prints events until the execution has ended.
    async fn follow(&mut self) -> anyhow::Result<()> {
        while let Some(event) = self.events.next().await? {
            if self.show(&event)? {
                return Ok(());
            }
        }
        anyhow::bail!("the daemon has stopped telling; `cogwork executions show` says how far it came")
    }

    /// Prints one event; returns true for the end.
    fn show(&mut self, event: &ServerEvent) -> anyhow::Result<bool> {
        match event.name.as_str() {
            "end" => return Ok(true),
            "closing" => anyhow::bail!("the daemon stops; the execution continues at its next start"),
            "problem" => anyhow::bail!("the daemon cannot tell any more: {}", plain(&event.data)),
            "log" => {
                if let Ok(line) = serde_json::from_str::<LogLine>(&event.data) {
                    self.progress.log(&line);
                }
            }
            // An event whose API form differs from the stored one, since it contains files, is skipped.
            "event" => match serde_json::from_str::<Event>(&event.data) {
                Ok(Event::Started { .. }) => {}
                Ok(event) => self.progress.event(&event),
                Err(error) => tracing::debug!(%error, "an event cannot be shown"),
            },
            _ => {}
        }
        Ok(false)
    }
}

/// The outcome of an execution, in the API's form.
#[derive(Deserialize)]
struct Ended {
    outcome: Option<Outcome>,
}

async fn conclude(config: &Config, id: ExecutionId) -> anyhow::Result<Exit> {
    let ended: Ended = daemon::fetch(config, &format!("/api/v1/executions/{id}")).await?;
    match ended.outcome.context("the execution has not ended")? {
        Outcome::Succeeded { result } => {
            output::json(&result)?;
            Ok(Exit::Done)
        }
        Outcome::Failed { error } | Outcome::Stuck { error } => {
            output::error(history::describe(&error));
            Ok(Exit::Failed)
        }
        Outcome::Cancelled { reason } => {
            output::error(format_args!("cancelled: {}", plain(&reason)));
            Ok(Exit::Failed)
        }
    }
}
