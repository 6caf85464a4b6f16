//! `cogwork events`

use clap::{Args, Subcommand as Choice};
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table, count};
use crate::settings::Config;
use crate::{daemon, data};

const EXAMPLES: &str = "\
Examples:
  cogwork events emit order-17-paid --data '{\"amount\": 12.5}'
  cogwork events emit order.paid --data '{\"order\": 17}' --id invoice-17
  cogwork events list";

/// The sender of the events, for the history.
const BY: &str = "the command line";

/// Send events to executions that wait for them and to the triggers that they start, and list them
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    Emit(Emit),
    List(List),
}

/// Send an event to every execution that waits for its name, and to the triggers that it starts
///
/// Executions that wait receive it at once, and the triggers with its name start one execution each. It is kept for 7 days for
/// executions that were accepted before and wait for it later. It needs the daemon.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Emit {
    /// The event's name, as in the `waitFor` steps and the triggers
    name: String,
    /// The data, which is the result of those steps, as JSON; `@file` reads a file, `-` reads stdin
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// The event's id: events with the same id start a trigger once
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// List the events: who sends them, who waits for them, what they start, and how many are on their way
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct List {
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Events {
    const NAME: &'static str = "events";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match &self.what {
            Command::Emit(emit) => {
                let config = emit.shown.config(context)?;
                daemon::runtime()?.block_on(send(&config, emit))
            }
            Command::List(List { shown }) => {
                let config = shown.config(context)?;
                daemon::runtime()?.block_on(list(&config, shown))
            }
        }
    }
}

async fn send(config: &Config, emit: &Emit) -> anyhow::Result<Exit> {
    let mut body = json!({ "name": emit.name, "by": BY });
    if let Some(given) = &emit.data {
        body["data"] = data::read(given)?;
    }
    if let Some(id) = &emit.id {
        body["id"] = id.as_str().into();
    }
    let told: Value = daemon::post(config, "/api/v1/events", &body).await?;
    emit.shown.say(&told, effects(&told))?;
    Ok(Exit::Done)
}

/// The effect of an event, such as `1 waiting step; starts billing, stock; kept for 7 days for executions that wait for it later`.
fn effects(told: &Value) -> String {
    if told["repeated"] == true {
        return "sent before under this id: nothing is sent again".to_owned();
    }
    let steps = told["delivered"].as_u64().and_then(|steps| usize::try_from(steps).ok()).unwrap_or_default();
    let waiting = match steps {
        0 => "nobody waits for it now".to_owned(),
        steps => count(steps, "waiting step"),
    };
    let starts = names(&told["starts"]);
    let kept = match told["kept"].as_bool() {
        Some(true) => Some("kept for 7 days for executions that wait for it later"),
        // It is stored until those have it that it starts.
        _ if !starts.is_empty() => None,
        _ => Some("not kept: no automation in force waits for it, or it is too large, or too many are kept"),
    };
    let starts = if starts.is_empty() { "starts nothing".to_owned() } else { format!("starts {starts}") };
    let parts = [waiting, starts].into_iter().chain(kept.map(str::to_owned));
    parts.collect::<Vec<_>>().join("; ")
}

async fn list(config: &Config, shown: &DaemonOptions) -> anyhow::Result<Exit> {
    let told: Value = daemon::fetch(config, "/api/v1/own-events").await?;
    shown.print(&told, || table(&told))?;
    Ok(Exit::Done)
}

fn table(told: &Value) -> anyhow::Result<()> {
    let events = told["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    if events.is_empty() {
        output::say("no automation sends an event, waits for one or starts by one");
        return Ok(());
    }
    let mut table = Table::new(&["EVENT", "SENT BY", "AWAITED BY", "STARTS", "UNDELIVERED"]);
    for event in events {
        let undelivered = event["undelivered"].as_u64().unwrap_or_default().to_string();
        let name = event["name"].as_str().unwrap_or_default().to_owned();
        let [senders, waiters, starts] = ["senders", "waiters", "starts"].map(|key| names(&event[key]));
        table.row([name, senders, waiters, starts, undelivered]);
    }
    table.print()?;
    Ok(())
}

/// Names, joined by commas.
fn names(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(output::plain).collect::<Vec<_>>().join(", ")
}
