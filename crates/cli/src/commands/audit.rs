//! `cogwork audit`

use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, Table};
use crate::{daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork audit                                    the newest 50 entries
  cogwork audit --action cancel --since 7d         cancellations of a week
  cogwork audit --by 'token ci' --about order-intake
  cogwork audit --limit 1000000 --json > audit.jsonl
  cogwork audit --json | jq 'select(.method == \"DELETE\")'

It needs the daemon, and a credential with the scope admin.";

/// The maximum number of entries of one response.
const PAGE: usize = 1000;

/// Show who changed, started, answered and cancelled something
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Audit {
    /// Only entries since then: a time ago such as `7d`, a day, or an instant
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only entries of credentials with this text in their name
    #[arg(long, value_name = "TEXT")]
    by: Option<String>,
    /// Only entries of this operation, such as `start`, `cancel`, `answer`, `changeFile`, `setSecret` or `logIn`
    #[arg(long, value_name = "WORD")]
    action: Option<String>,
    /// Only entries with this text in the path or in the id of the execution that was started
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value = "50")]
    limit: usize,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// A page in the form of `GET /api/v1/audit`.
#[derive(Deserialize)]
struct Page {
    entries: Vec<Value>,
    next: Option<Timestamp>,
}

impl Subcommand for Audit {
    const NAME: &'static str = "audit";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let wrong = |message| CommandError::usage(format!("--since: {message}"));
        let since = self.since.as_deref().map(|text| time::moment(text, time::now())).transpose();
        let since = since.map_err(wrong)?;
        let runtime = daemon::runtime()?;
        let mut table = Table::new(&["AT", "BY", "FROM", "ACTION", "REQUEST", "STATUS", "EXECUTION"]);
        let texts = [("by", &self.by), ("action", &self.action), ("about", &self.about)];
        let (mut until, mut left) = (None, self.limit);
        while left > 0 {
            let mut path = format!("/api/v1/audit?limit={}", left.min(PAGE));
            path.extend(since.map(|since| format!("&since={since}")));
            for (name, text) in &texts {
                path.extend(text.iter().map(|text| format!("&{name}={}", daemon::query(text))));
            }
            path.extend(until.map(|until: Timestamp| format!("&until={until}")));
            let page: Page = runtime.block_on(daemon::fetch(&config, &path))?;
            left = left.saturating_sub(page.entries.len());
            for entry in &page.entries {
                if self.shown.json {
                    // One entry per line, for programs that read lines.
                    output::data(entry)?;
                } else {
                    table.row(row(entry));
                }
            }
            match page.next {
                Some(next) => until = Some(next),
                None => break,
            }
        }
        if !self.shown.json {
            table.print()?;
        }
        Ok(Exit::Done)
    }
}

fn row(entry: &Value) -> [String; 7] {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let at = entry["at"].as_str().and_then(|at| at.parse().ok()).map(time::local);
    let request = format!("{} {}", text("method"), text("path"));
    let status = entry["status"].as_u64().map_or_else(|| "left".to_owned(), |status| status.to_string());
    let from = match text("forwardedFor") {
        client if client.is_empty() => text("address"),
        client => format!("{client} by {}", text("address")),
    };
    [at.unwrap_or_default(), text("by"), from, text("action"), request, status, text("execution")]
}
