//! The payload that an execution of `cogwork run` starts with.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use anyhow::Context as _;
use catalog::Mount;
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use model::Origin;
use model::action::{InputSpec, InputType};
use model::automation::{StartForm, WebhookTrigger};
use model::payload::{Payload, WebhookPayload};
use runtime::ManualStart;
use value::{JsonLimits, Map, Value};

use crate::candidates;
use crate::exit::CommandError;
use crate::time;

/// The error for data given to a schedule.
pub(in crate::commands) const SCHEDULE_TAKES_NOTHING: &str = "a schedule starts with the time alone: it takes no --payload, and --input only for `inputs` of the automation";
/// The error for inputs of an automation that declares none.
pub(in crate::commands) const NO_INPUTS: &str =
    "the automation declares no `inputs`; give the data of its trigger with --payload";
/// The maximum size of a payload, in bytes: the maximum of any webhook.
const MAX_BYTES: u64 = 25 << 20;

/// The options of `cogwork run` and `cogwork start` that give the data of a start.
#[derive(Args, Debug)]
pub(in crate::commands) struct StartArgs {
    /// The input as JSON: the body of a webhook, the records of a poll or event, or all inputs of a manual
    /// start; `-` reads stdin
    #[arg(long, value_name = "FILE|-")]
    payload: Option<String>,
    /// The name of a saved payload in payloads/ID; `cogwork listen ID --save NAME` saves one
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["payload", "inputs"],
        add = ArgValueCandidates::new(candidates::payloads)
    )]
    pub(in crate::commands) saved: Option<String>,
    /// Mark the execution as a test, with a separate state
    #[arg(long)]
    pub(in crate::commands) test: bool,
    /// The trigger that starts it; by default the manual one, else the only one
    #[arg(long, value_name = "ID")]
    pub(in crate::commands) trigger: Option<String>,
    /// One declared input, in place of what the trigger gives it; can be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<String>,
}

/// The data of a start as read from the command line.
pub(in crate::commands) struct PayloadOptions {
    payload: Option<Vec<u8>>,
    inputs: Vec<(String, String)>,
}

impl PayloadOptions {
    /// Reads the payload's file, or stdin for `-`, and parses the inputs.
    ///
    /// # Errors
    /// The file cannot be read or is too large, or an input is not `name=value`.
    pub(in crate::commands) fn read(args: &StartArgs) -> anyhow::Result<Self> {
        let inputs = args.inputs.iter().map(|input| match input.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(CommandError::usage(format!("`--input {input}`: write it as name=value"))),
        });
        let inputs = inputs.collect::<anyhow::Result<_>>()?;
        let payload = match args.payload.as_deref() {
            None => None,
            Some("-") => Some(read(io::stdin().lock()).context("cannot read the payload from stdin")?),
            Some(path) => {
                let text = File::open(path).map_err(Into::into).and_then(read);
                Some(text.with_context(|| format!("cannot read the payload `{path}`"))?)
            }
        };
        Ok(Self { payload, inputs })
    }

    /// Builds the start of an automation by this trigger. Given inputs are the payload of a manual trigger, and override the inputs of
    /// another trigger.
    ///
    /// # Errors
    /// The options do not match the trigger.
    pub(super) fn start(&self, mount: &Mount, origin: Origin) -> anyhow::Result<ManualStart> {
        let payload = self.payload(mount)?;
        let automation = &mount.deployment.automation;
        let inputs = (!mount.is_manual() && !self.inputs.is_empty()).then(|| self.typed(&automation.inputs));
        Ok(ManualStart { payload, inputs, origin })
    }

    fn payload(&self, mount: &Mount) -> anyhow::Result<Payload> {
        let automation = &mount.deployment.automation;
        if !self.inputs.is_empty() && automation.inputs.is_empty() && !mount.is_manual() {
            let is_schedule = matches!(mount.on().start_form(), StartForm::Instant);
            return Err(CommandError::usage(if is_schedule { SCHEDULE_TAKES_NOTHING } else { NO_INPUTS }));
        }
        match mount.on().start_form() {
            StartForm::Inputs => self.manual(&automation.inputs),
            StartForm::Request(webhook) => self.webhook(webhook),
            StartForm::Instant if self.payload.is_some() => Err(CommandError::usage(SCHEDULE_TAKES_NOTHING)),
            StartForm::Data { .. } => {
                let data = self.json()?.unwrap_or(Value::Null);
                Ok(mount.on().data_payload(data, time::now()))
            }
            StartForm::Instant => {
                let now = time::now();
                let schedule = mount.schedule().context("the schedule was not compiled")?;
                Ok(schedule.payload(now, now))
            }
        }
    }

    fn manual(&self, declared: &[InputSpec]) -> anyhow::Result<Payload> {
        let mut inputs = match self.json()? {
            None => Map::new(),
            Some(Value::Map(map)) => map.as_ref().clone(),
            Some(other) => {
                let message =
                    format!("the payload of a manual start is a map of inputs, found a {}", other.kind());
                return Err(CommandError::usage(message));
            }
        };
        self.typed(declared)
            .iter()
            .for_each(|(name, value)| drop(inputs.insert(name.clone(), value.clone())));
        Ok(Payload::manual(inputs))
    }

    /// The inputs in the types that the automation declares.
    fn typed(&self, declared: &[InputSpec]) -> Map {
        let typed = self.inputs.iter().map(|(name, text)| {
            let kind = declared.iter().find(|input| input.name == *name).map(|input| &input.kind);
            (name.as_str(), value(kind, text))
        });
        typed.collect()
    }

    fn webhook(&self, webhook: &WebhookTrigger) -> anyhow::Result<Payload> {
        // The body is parsed here, as the hook listener would.
        self.json()?;
        let body = self.payload.clone().unwrap_or_default();
        if body.len() > webhook.max_body {
            let most = text::units::format_size(u64::try_from(webhook.max_body).unwrap_or(u64::MAX));
            anyhow::bail!("the payload is larger than the {most} that this webhook takes");
        }
        let method = webhook.methods.iter().find(|method| *method == "POST").or(webhook.methods.first());
        let content_type = if body.is_empty() { "" } else { "application/json" };
        let mut headers =
            BTreeMap::from([("user-agent".to_owned(), format!("cogwork/{}", env!("CARGO_PKG_VERSION")))]);
        if !body.is_empty() {
            headers.insert("content-type".to_owned(), content_type.to_owned());
        }
        Ok(Payload::Webhook(WebhookPayload {
            method: method.cloned().unwrap_or_else(|| "POST".to_owned()),
            path_fragment: String::new(),
            query_parameters: Map::new(),
            raw_query: String::new(),
            headers,
            code_result: None,
            body: value::File { content_type: content_type.into(), filename: None, data: body.into() },
        }))
    }

    /// The inputs by name, as given.
    pub(in crate::commands) fn inputs(&self) -> &[(String, String)] {
        &self.inputs
    }

    /// The payload as JSON, if given.
    ///
    /// # Errors
    /// It is not JSON.
    pub(in crate::commands) fn json(&self) -> anyhow::Result<Option<Value>> {
        let Some(payload) = &self.payload else { return Ok(None) };
        let value = Value::from_json(payload, JsonLimits::default());
        value.map(Some).map_err(|error| CommandError::usage(format!("the payload is not JSON: {error}")))
    }
}

fn read(from: impl Read) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(
        bytes.len() as u64 <= MAX_BYTES,
        "it is larger than {}",
        text::units::format_size(MAX_BYTES)
    );
    Ok(bytes)
}

/// Parses a value by the type of its input. An invalid value stays text, so that the engine reports the expected type.
pub(super) fn value(kind: Option<&InputType>, text: &str) -> Value {
    match kind {
        None | Some(InputType::Text | InputType::Url | InputType::Choice { .. } | InputType::File) => {
            Value::from(text)
        }
        Some(_) => {
            Value::from_json(text.as_bytes(), JsonLimits::default()).unwrap_or_else(|_| Value::from(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_parsed_as_the_type_of_its_input() {
        assert_eq!(value(Some(&InputType::Text), "007"), Value::from("007"));
        assert_eq!(value(Some(&InputType::integer()), "7"), Value::from(7));
        assert_eq!(value(Some(&InputType::integer()), "seven"), Value::from("seven"));
        assert_eq!(value(Some(&InputType::Boolean), "true"), Value::from(true));
        assert_eq!(value(Some(&InputType::Any), "Ada"), Value::from("Ada"));
        assert_eq!(value(None, "7"), Value::from("7"));
    }

    fn with_input(input: &str) -> StartArgs {
        StartArgs { payload: None, saved: None, test: false, trigger: None, inputs: vec![input.to_owned()] }
    }

    #[test]
    fn an_input_needs_a_name() {
        assert!(PayloadOptions::read(&with_input("=x")).is_err());
        assert!(PayloadOptions::read(&with_input("x")).is_err());
        let given = PayloadOptions::read(&with_input("a=b=c")).expect("an input");
        assert_eq!(given.inputs, [("a".to_owned(), "b=c".to_owned())]);
    }
}
