//! `cogwork token`

use anyhow::Context as _;
use clap::{Args, Subcommand as Actions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Scope;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, Table};
use crate::{daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork token create prometheus --scope metrics
  cogwork token create ci --scope read --scope write --valid-for 30d
  cogwork token list
  cogwork token revoke ci

Scopes: metrics (the metrics), read (everything but secrets and the audit log), run (start,
answer, cancel), write (files, state), secrets (set and delete), admin (everything, tokens too).
It needs the daemon, and a credential with the scope admin.";

const CREATE_EXAMPLES: &str = "\
Examples:
  cogwork token create prometheus --scope metrics
  cogwork token create ci --scope read --scope write --valid-for 30d";

const LIST_EXAMPLES: &str = "\
Examples:
  cogwork token list
  cogwork token list --json | jq -r '.tokens[].name'";

const REVOKE_EXAMPLES: &str = "\
Examples:
  cogwork token revoke ci";

/// Create, list and revoke tokens of the API
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Actions, Debug)]
enum Action {
    /// Create a token and print it; it is shown only this once
    Create(Create),
    /// List the tokens, without the tokens themselves
    #[command(after_help = LIST_EXAMPLES)]
    List(DaemonOptions),
    /// Revoke a token, and the sessions that were begun with it
    Revoke(Revoke),
}

#[derive(Args, Debug)]
#[command(after_help = CREATE_EXAMPLES)]
struct Create {
    /// The name, such as the program that uses it
    name: String,
    /// A scope of the token; repeat it for several
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<Scope>,
    /// Validity, up to ten years
    #[arg(long, value_name = "TIME", default_value = "90d")]
    valid_for: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Args, Debug)]
#[command(after_help = REVOKE_EXAMPLES)]
struct Revoke {
    /// The name of the token
    name: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// The tokens in the form of `GET /api/v1/tokens`.
#[derive(Debug, Serialize, Deserialize)]
struct Tokens {
    tokens: Vec<Value>,
}

impl Subcommand for Token {
    const NAME: &'static str = "token";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.action {
            Action::Create(create) => create.run(context),
            Action::List(shown) => list(&shown, context),
            Action::Revoke(revoke) => revoke.run(context),
        }
    }
}

impl Create {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let valid_for = text::units::parse_duration(&self.valid_for)
            .map_err(|error| CommandError::usage(format!("--valid-for: {error}")))?;
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.as_str()).collect();
        let body = json!({"name": self.name, "scopes": scopes, "validFor": valid_for.as_secs()});
        let created: Value = daemon::runtime()?.block_on(daemon::post(&config, "/api/v1/tokens", &body))?;
        self.shown.print(&created, || {
            let token = created["token"].as_str().context("the daemon returned no token")?;
            output::data(token)?;
            output::say(format_args!(
                "valid until {}; it is not shown again",
                created["expiresAt"].as_str().unwrap_or_default()
            ));
            Ok(())
        })?;
        Ok(Exit::Done)
    }
}

fn list(shown: &DaemonOptions, context: &Context) -> anyhow::Result<Exit> {
    let config = shown.config(context)?;
    let found: Tokens = daemon::runtime()?.block_on(daemon::fetch(&config, "/api/v1/tokens"))?;
    shown.print(&found, || {
        if found.tokens.is_empty() {
            output::say("there are no tokens but the admin token");
            return Ok(());
        }
        let mut table = Table::new(&["NAME", "SCOPES", "VALID UNTIL", "LAST USED", "CREATED BY"]);
        for token in &found.tokens {
            let text = |key: &str| token[key].as_str().unwrap_or_default().to_owned();
            let at = |key: &str| {
                let at = token[key].as_str().and_then(|at| at.parse().ok());
                at.map_or_else(|| "never".to_owned(), time::local)
            };
            let scopes = token["scopes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
            table.row([text("name"), scopes.join(", "), at("expiresAt"), at("usedAt"), text("createdBy")]);
        }
        Ok(table.print()?)
    })?;
    Ok(Exit::Done)
}

impl Revoke {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let path = daemon::path(&["tokens", &self.name]);
        let revoked: Value = daemon::runtime()?.block_on(daemon::delete(&config, &path))?;
        self.shown.say(&revoked, format_args!("revoked `{}`", output::plain(&self.name)))?;
        Ok(Exit::Done)
    }
}
