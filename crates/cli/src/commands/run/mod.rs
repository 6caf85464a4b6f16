//! `cogwork run`

mod answers;
pub(in crate::commands) mod payload;
mod prompt;
pub(super) mod workspace;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use catalog::Mount;
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use engine::Engine;
use model::AutomationId;
use model::automation::{Trigger, TriggerId, WebhookMode};
use model::execution::{ExecutionId, Origin, Outcome};
use model::payload::HttpResponse;
use runtime::ManualStart;
use runtime::SystemClock;
use value::{JsonLimits, MAX_LOADED_BYTES, Reserved, Value};

use self::answers::{Answers, PresetAnswer};
use self::workspace::Workspace;
use super::Subcommand;
use crate::context::{Context, LogProfile};
use crate::exit::Exit;
use crate::output::{self, plain};
use crate::progress::Progress;
use crate::settings::{Config, Flags, RUN};
use crate::signals::Signals;
use crate::{candidates, daemon, history, project, store_server};

const EXAMPLES: &str = "\
Examples:
  cogwork run hello
  cogwork run hello --input name=Ada --watch
  cogwork run order-desk --payload order.json      the body of a request on its webhook
  echo '{\"id\": 7}' | cogwork run order-desk --payload -
  cogwork run order-desk --saved first --test      a request saved by `cogwork listen`
  cogwork run /tmp/try.yaml                        a file outside the project
  cogwork run nightly | jq .dueAt
  cogwork run publish --answer ask=approve         answers an approval in advance

The result goes to stdout as JSON; for a synchronous webhook, the body of the answer goes to stdout
and its status to stderr. Ctrl-C cancels the execution.
The command prompts for approvals on the terminal. It also serves the resume
address, unless a daemon uses the port.";

/// The grace period for running steps when the command stops.
const GRACE: Duration = Duration::from_secs(5);

/// Run one automation in this process
///
/// It needs no daemon. The execution is stored in the project's store, where `cogwork executions` shows it. While a
/// daemon uses that store, the command uses a temporary one and says so; `cogwork start` starts an execution in the daemon.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The automation's id, ID/TRIGGER, or a file
    #[arg(value_name = "ID|FILE", add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    #[command(flatten)]
    start: payload::StartArgs,
    /// The answer to an approval, or the data of an event that a step waits for; can be repeated. An answer is one
    /// of the options, or JSON with a form: `ask={"option": "approve", "form": {"reason": "checked"}}`
    #[arg(long = "answer", value_name = "STEP=ANSWER")]
    answers: Vec<String>,
    /// Show steps and log lines while they happen
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    settings: Flags<RUN>,
}

impl Run {
    /// The id and the trigger of `ID/TRIGGER`, unless a file has this name.
    fn named(&self) -> Option<(&str, &str)> {
        let (id, trigger) = self.automation.split_once('/')?;
        let is_name = AutomationId::parse(id).is_some() && TriggerId::parse(trigger).is_some();
        (is_name && !Path::new(&self.automation).exists()).then_some((id, trigger))
    }

    fn automation(&self) -> &str {
        self.named().map_or(&self.automation, |(id, _)| id)
    }

    fn trigger(&self) -> Option<&str> {
        self.start.trigger.as_deref().or(self.named().map(|(_, trigger)| trigger))
    }
}

impl Subcommand for Run {
    const NAME: &'static str = "run";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = context.config(self.settings.given(), LogProfile::Tool)?;
        let given = payload::PayloadOptions::read(&self.start)?;
        let answers: Vec<PresetAnswer> =
            self.answers.iter().map(|text| PresetAnswer::parse(text)).collect::<anyhow::Result<_>>()?;
        daemon::runtime()?.block_on(execute(&config, &self, &given, &answers))
    }
}

async fn execute(
    config: &Config,
    run: &Run,
    given: &payload::PayloadOptions,
    answers: &[PresetAnswer],
) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let workspace = Workspace::prepare(config, run.automation())?;
    let mut settings = config.engine();
    settings.public_url = Some(config.base(config.hooks));
    settings.admin_url = Some(config.admin_base(config.admin));
    settings.dir.clone_from(&workspace.dir);
    (settings.watch, settings.background) = (false, false);
    store_server::close(config, &mut settings);
    let vault = Arc::new(workspace.vault(config).await?);
    let store = workspace.store.clone();
    let engine = Engine::start_with(settings, store, vault, Arc::new(SystemClock)).await?;
    let answers = Answers::new(&engine, config, answers);
    let result = start_and_wait(&engine, &workspace, given, run, answers, &mut signals).await;
    engine.shutdown(GRACE).await;
    let closed = workspace.store.close().await;
    let exit = result?;
    closed?;
    Ok(exit)
}

async fn start_and_wait(
    engine: &Engine,
    workspace: &Workspace,
    given: &payload::PayloadOptions,
    run: &Run,
    mut answers: Answers<'_>,
    signals: &mut Signals,
) -> anyhow::Result<Exit> {
    let catalog = engine.catalog();
    let deployed = project::find(&catalog, &workspace.wanted, workspace.is_file)?.clone();
    let mount = match run.trigger() {
        Some(trigger) => catalog.find_trigger(&format!("{}/{trigger}", deployed.automation.id), |_| false)?,
        None => deployed.default_mount(Mount::is_manual)?,
    };
    let origin = if run.start.test { Origin::Test } else { Origin::Manual };
    let start = match &run.start.saved {
        Some(name) => {
            ManualStart::new(engine.ingress().saved_payload(&mount.key(), name).await?.payload, origin)
        }
        None => given.start(&mount, origin)?,
    };
    let id = engine.ingress().start(&mount.key(), start).await?;
    let mut progress = Progress::new(id, run.watch, Some(&deployed.automation));
    progress.begin(&deployed.automation.name);
    let ended = wait(engine, id, &mut progress, &mut answers, signals).await;
    progress.end();
    answers.end().await;
    if ended.is_err() {
        // No answer is possible any more.
        engine.admission().cancel(id, "given up on the command line").await?;
        engine.admission().wait(id).await?;
    }
    let ended = ended?;
    let is_sync = matches!(
        mount.on(),
        Trigger::Webhook(webhook) if webhook.mode == WebhookMode::Sync
    );
    // The response to the caller replaces the result.
    let answer =
        if is_sync && ended.outcome.is_some() { engine.ingress().caller_response(id).await? } else { None };
    if let Some(answer) = &answer {
        show_answer(answer)?;
    }
    conclude(ended, answer.is_some())
}

/// Prints the body of a response as data, and its status as a message.
fn show_answer(answer: &HttpResponse) -> anyhow::Result<()> {
    let kind = answer.header("content-type").unwrap_or_default();
    let kind = if kind.is_empty() { String::new() } else { format!(" ({})", plain(kind)) };
    output::say(format_args!("answers {}{kind}", answer.status));
    let body = answer.body.load(MAX_LOADED_BYTES, &Reserved::uncounted(MAX_LOADED_BYTES));
    let body = body.context("the body of the answer cannot be read")?;
    let value = Value::from_json(&body, JsonLimits::default());
    match (value, std::str::from_utf8(&body)) {
        _ if body.is_empty() => Ok(()),
        (Ok(value), _) => Ok(output::data(value.to_json_pretty())?),
        (Err(_), Err(_)) if output::stdout_is_terminal() => {
            output::say(format_args!("({} bytes that are no text)", body.len()));
            Ok(())
        }
        (Err(_), Ok(text)) if output::stdout_is_terminal() => Ok(output::data(text.trim_end())?),
        (Err(_), _) => Ok(output::raw(&body)?),
    }
}

/// The outcome of an execution, and whether a signal ended it.
struct Ended {
    outcome: Option<Outcome>,
    interrupted: bool,
}

/// Waits for the end. The first signal cancels the execution, the second ends the wait.
async fn wait(
    engine: &Engine,
    id: ExecutionId,
    progress: &mut Progress,
    answers: &mut Answers<'_>,
    signals: &mut Signals,
) -> anyhow::Result<Ended> {
    let mut interrupted = false;
    let end = engine.admission().wait(id);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = signals.next() => {
                if interrupted {
                    return Ok(Ended { outcome: None, interrupted });
                }
                interrupted = true;
                output::say("cancelling; once more to stop at once");
                engine.admission().cancel(id, "interrupted at the terminal").await?;
            }
            asked = answers.next(progress) => asked?,
            outcome = &mut end => {
                answers.drain(progress);
                return Ok(Ended { outcome: Some(outcome?), interrupted });
            }
        }
    }
}

/// Prints the result, unless the response to the caller was printed instead, or the error.
fn conclude(ended: Ended, is_answered: bool) -> anyhow::Result<Exit> {
    let exit = match ended.outcome {
        Some(Outcome::Succeeded { .. }) if is_answered => Exit::Done,
        Some(Outcome::Succeeded { result }) => {
            output::data(result.to_json_pretty())?;
            Exit::Done
        }
        Some(Outcome::Failed { error } | Outcome::Stuck { error }) => {
            output::error(history::describe(&error));
            Exit::Failed
        }
        Some(Outcome::Cancelled { reason }) => {
            output::error(format_args!("cancelled: {}", plain(&reason)));
            Exit::Failed
        }
        None => Exit::Interrupted,
    };
    Ok(if ended.interrupted { Exit::Interrupted } else { exit })
}
