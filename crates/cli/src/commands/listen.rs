//! `cogwork listen`

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Subcommand;
use crate::context::{Context, LogProfile};
use crate::exit::{CommandError, Exit};
use crate::output::{self, plain};
use crate::settings::{Config, Flags, PLACE};
use crate::signals::Signals;
use crate::{candidates, daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork listen order-desk
  cogwork listen order-desk --count 1 --save first
  cogwork run order-desk --saved first --test

Requests to the test address are captured and start nothing until the command ends, for
example with Ctrl-C. At other times, a request to this address starts a test execution,
even if the automation is disabled.";

/// The maximum number of printed characters of a body.
const MOST_SHOWN: usize = 200;

/// Show the requests that arrive at the test address of an automation
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Listen {
    /// The automation's id, or ID/TRIGGER
    #[arg(value_name = "ID", add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    /// Time to listen, such as `2m`; at most and by default 10m
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// The number of requests after which it ends; at most 100
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Save the requests as payloads/ID/NAME.json, NAME-2.json and so on, without credentials
    #[arg(long, value_name = "NAME")]
    save: Option<String>,
    /// Print each request as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags<PLACE>,
}

/// The state of a listen session, in the API's form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listening {
    test_url: Option<String>,
    subscription: Option<Subscription>,
    listening: bool,
    until: Timestamp,
    captures: Vec<Value>,
}

#[derive(Deserialize)]
struct Subscription {
    error: Option<String>,
}

impl Subcommand for Listen {
    const NAME: &'static str = "listen";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = context.config(self.settings.given(), LogProfile::Tool)?;
        daemon::runtime()?.block_on(listen(&config, &self))
    }
}

async fn listen(config: &Config, what: &Listen) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let automation = daemon::path(&["automations", &what.automation]);
    let path = format!("{automation}/listen");
    let begun: Listening = daemon::post(config, &path, &what.terms()?).await?;
    let until = time::local(begun.until);
    match &begun.test_url {
        Some(url) => output::say(format!("listening at {url} until {until}; Ctrl-C ends it")),
        None => output::say(format!("subscribing for a test, listening until {until}; Ctrl-C ends it")),
    }
    let (mut seen, mut count, mut complained) = (0, 0, false);
    loop {
        let next = format!("{path}?after={seen}&wait=true");
        let told: Listening = tokio::select! {
            told = daemon::fetch(config, &next) => told?,
            () = signals.next() => {
                let _: Value = daemon::delete(config, &path).await?;
                break;
            }
        };
        for capture in &told.captures {
            seen = capture["number"].as_u64().unwrap_or(seen);
            show(capture, what.json)?;
            if capture["aside"].is_string() {
                continue;
            }
            count += 1;
            if let Some(name) = &what.save {
                save(config, &automation, &numbered(name, count), seen).await?;
            }
        }
        if !told.listening {
            break;
        }
        if let Some(error) = told.subscription.and_then(|one| one.error).filter(|_| !complained) {
            complained = true;
            output::warn(format!("the subscription fails and is tried again: {}", plain(&error)));
        }
    }
    output::say(format!("{count} captured"));
    Ok(if count > 0 { Exit::Done } else { Exit::Failed })
}

impl Listen {
    /// The limits of the session, in the API's form.
    fn terms(&self) -> anyhow::Result<Value> {
        let mut terms = json!({});
        if let Some(timeout) = &self.timeout {
            text::units::parse_duration(timeout)
                .map_err(|error| CommandError::usage(format!("--timeout: {error}")))?;
            terms["timeout"] = timeout.as_str().into();
        }
        if let Some(count) = self.count {
            terms["count"] = count.into();
        }
        Ok(terms)
    }
}

async fn save(config: &Config, automation: &str, name: &str, number: u64) -> anyhow::Result<()> {
    let path = format!("{automation}/payloads");
    let saved: Value = daemon::post(config, &path, &json!({ "name": name, "capture": number })).await?;
    output::say(format!("saved as {}", saved["path"].as_str().unwrap_or_default()));
    Ok(())
}

/// The name of the payload with this number.
fn numbered(name: &str, count: u64) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}-{count}") }
}

/// Prints a capture: a summary line and the start of its body.
fn show(capture: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::data(capture).map_err(Into::into);
    }
    let payload = &capture["payload"];
    let text = |value: &Value| plain(value.as_str().unwrap_or_default()).into_owned();
    let at = capture["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()).map(time::local);
    let kind = match text(&payload["headers"]["content-type"]) {
        kind if kind.is_empty() => kind,
        kind => format!("  {kind}"),
    };
    let aside = capture["aside"].as_str().map_or_else(String::new, |word| format!("  {word}"));
    let refused = capture["refused"].as_str().map_or_else(String::new, |code| format!("  refused: {code}"));
    output::data(format_args!(
        "{}  {} /{}{kind}{aside}{refused}",
        at.unwrap_or_default(),
        text(&payload["method"]),
        text(&payload["pathFragment"]).trim_start_matches('/'),
    ))?;
    let body = &payload["body"]["$file"];
    match (body["encoding"].as_str(), body["size"].as_u64().unwrap_or_default()) {
        (_, 0) => {}
        (Some("utf8"), _) => output::data(output::cut(&text(&body["data"]), MOST_SHOWN))?,
        (_, size) => output::data(format_args!("({size} bytes that are no text)"))?,
    }
    Ok(())
}
