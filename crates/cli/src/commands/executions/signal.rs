//! `cogwork executions signal`

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use model::execution::WaitReason;
use serde_json::{Map, Value, json};

use crate::commands::common::DaemonOptions;
use crate::exit::{CommandError, Exit};
use crate::settings::Config;
use crate::waiting::{FieldKind, Pending, Waiting};
use crate::{candidates, daemon, data, history, output};

const EXAMPLES: &str = "\
Examples:
  cogwork executions signal 019a2b3c --option approve --form reason=\"checked twice\"
  cogwork executions signal latest --step ask[2] --option reject
  cogwork executions signal latest --data '{\"amount\": 12.5}'
  cogwork executions signal latest --step paid --data @payment.json";

/// The sender of the signal, for the history.
const BY: &str = "the command line";

/// Answer an approval of an execution, or send it the event that it waits for
///
/// `cogwork executions show` shows what it waits for. It needs the daemon.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Signal {
    /// The execution's id, a beginning of it that no other has, or `latest`
    #[arg(add = ArgValueCandidates::new(candidates::executions))]
    id: String,
    /// The waiting step; required if several steps wait
    #[arg(long)]
    step: Option<String>,
    /// The chosen option
    #[arg(long, conflicts_with = "data")]
    option: Option<String>,
    /// One field of the form; can be repeated
    #[arg(long = "form", value_name = "NAME=VALUE", requires = "option")]
    form: Vec<String>,
    /// The data of the event, as JSON; `@file` reads a file, `-` reads stdin
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    #[command(flatten)]
    pub(super) shown: DaemonOptions,
}

impl Signal {
    pub(super) async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        let id = history::id(config, &self.id).await?;
        let mut body = json!({ "by": BY });
        if let Some(step) = &self.step {
            body["step"] = step.as_str().into();
        }
        match (&self.option, &self.data) {
            (Some(option), _) => {
                body["option"] = option.as_str().into();
                if !self.form.is_empty() {
                    body["form"] = self.form(config, &id.to_string()).await?.into();
                }
            }
            (None, Some(given)) => body["data"] = data::read(given)?,
            (None, None) => {
                return Err(CommandError::usage(
                    "say what is sent: --option answers a question, --data sends an event",
                ));
            }
        }
        let told: Value = daemon::post(config, &format!("/api/v1/executions/{id}/signal"), &body).await?;
        if self.shown.json {
            output::json(&told)?;
        } else {
            output::say(told["status"].as_str().unwrap_or("taken"));
        }
        Ok(Exit::Done)
    }

    /// The submitted values, each parsed by the type of its field.
    async fn form(&self, config: &Config, id: &str) -> anyhow::Result<Map<String, Value>> {
        let path = format!("/api/v1/executions/{id}");
        let told = daemon::get::<Value>(config, &path).await?;
        let waiting = told.map(|mut told| told["waiting"].take()).filter(|waiting| !waiting.is_null());
        let waiting: Waiting = waiting.map(serde_json::from_value).transpose()?.unwrap_or_default();
        let asks = |pending: &&Pending| {
            matches!(pending.on, WaitReason::Approval { .. })
                && self.step.as_ref().is_none_or(|step| *step == pending.step)
        };
        // If several match, the daemon reports that.
        let question = waiting.pauses.iter().find(asks);
        let mut form = Map::new();
        for entry in &self.form {
            let (name, text) = entry
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| CommandError::usage(format!("`--form {entry}`: write it as name=value")))?;
            let field = question.and_then(|pending| pending.form.iter().find(|field| field.name == name));
            form.insert(name.to_owned(), value(field.map(|field| &field.kind), text));
        }
        Ok(form)
    }
}

/// Parses a text by the type of its field. An invalid value stays text, so that the daemon reports the expected type.
fn value(kind: Option<&FieldKind>, text: &str) -> Value {
    match kind.map(|kind| kind.kind.as_str()) {
        None | Some("text" | "choice") => text.into(),
        Some(_) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_parsed_as_the_type_of_its_field() {
        let kind = |kind: &str| FieldKind { kind: kind.to_owned() };
        assert_eq!(value(Some(&kind("text")), "007"), json!("007"));
        assert_eq!(value(Some(&kind("integer")), "7"), json!(7));
        assert_eq!(value(Some(&kind("integer")), "seven"), json!("seven"));
        assert_eq!(value(Some(&kind("boolean")), "true"), json!(true));
        assert_eq!(value(None, "7"), json!("7"));
    }
}
