//! `cogwork run`

mod payload;
mod place;
mod progress;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use engine::{Engine, Start, SystemClock};
use model::execution::{ExecutionId, Origin, Outcome};
use store::Store as _;

use self::place::Place;
use self::progress::Progress;
use super::Subcommand;
use crate::context::{Context, Talk};
use crate::exit::Exit;
use crate::output::{self, plain};
use crate::settings::{Config, Flags, RUN};
use crate::signals::Signals;
use crate::{daemon, history, project};

const EXAMPLES: &str = "\
Examples:
  cogwork run hello
  cogwork run hello --input name=Ada --watch
  cogwork run order-desk --payload order.json      the body of a request on its webhook
  echo '{\"id\": 7}' | cogwork run order-desk --payload -
  cogwork run /tmp/try.yaml                        a file that is not in the project
  cogwork run nightly | jq .dueAt

The result goes to stdout as JSON. Ctrl-C ends the execution.";

/// How long steps that run may take to come to their end when the command stops.
const GRACE: Duration = Duration::from_secs(5);

/// Run one automation here and now
///
/// No daemon is needed. The execution is kept in the project's store, where `cogwork executions` shows it; while a
/// daemon holds that store, a temporary one is used, and this is said.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The automation's id, or a file
    #[arg(value_name = "ID|FILE")]
    automation: String,
    /// What starts it, as JSON: the body of a webhook, or all inputs of a manual start; `-` reads stdin
    #[arg(long, value_name = "FILE|-")]
    payload: Option<String>,
    /// One input of a manual start; again for more
    #[arg(long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// Show each step and log line as it comes
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    settings: Flags<RUN>,
}

impl Subcommand for Run {
    const NAME: &'static str = "run";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = context.config(self.settings.given(), Talk::Tool)?;
        let given = payload::Given::read(self.payload.as_deref(), &self.inputs)?;
        daemon::runtime()?.block_on(execute(&config, &self.automation, &given, self.watch))
    }
}

async fn execute(
    config: &Config,
    automation: &str,
    given: &payload::Given,
    watch: bool,
) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let place = Place::prepare(config, automation)?;
    let mut settings = config.engine();
    settings.dir.clone_from(&place.dir);
    (settings.watch, settings.background) = (false, false);
    let engine = Engine::start(settings, Arc::new(place.store.clone()), Arc::new(SystemClock)).await?;
    let result = start_and_wait(&engine, &place, given, watch, &mut signals).await;
    engine.shutdown(GRACE).await;
    let closed = place.store.close().await;
    let exit = result?;
    closed?;
    Ok(exit)
}

async fn start_and_wait(
    engine: &Engine,
    place: &Place,
    given: &payload::Given,
    watch: bool,
    signals: &mut Signals,
) -> anyhow::Result<Exit> {
    let catalog = engine.catalog();
    let deployed = project::find(&catalog, &place.wanted, place.is_file)?;
    let payload = given.payload(deployed)?;
    let mut progress = watch.then(|| Progress::new(engine.subscribe()));
    let id = engine.run(&deployed.automation.id, Start { payload, origin: Origin::Manual }).await?;
    if let Some(progress) = &mut progress {
        progress.begin(&deployed.automation.name, id);
    }
    let ended = wait(engine, id, progress.as_mut(), signals).await?;
    if let Some(progress) = progress {
        progress.end();
    }
    conclude(ended)
}

/// How an execution ended, and whether a signal ended it.
struct Ended {
    outcome: Option<Outcome>,
    interrupted: bool,
}

/// Waits for the end. The first signal cancels the execution, the second one waits no longer.
async fn wait(
    engine: &Engine,
    id: ExecutionId,
    mut progress: Option<&mut Progress>,
    signals: &mut Signals,
) -> anyhow::Result<Ended> {
    let mut interrupted = false;
    let end = engine.wait(id);
    tokio::pin!(end);
    loop {
        let notice = async {
            match progress.as_mut() {
                Some(progress) => progress.next(id).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = signals.next() => {
                if interrupted {
                    return Ok(Ended { outcome: None, interrupted });
                }
                interrupted = true;
                output::say("cancelling; once more to stop at once");
                engine.cancel(id, "interrupted at the terminal").await?;
            }
            () = notice => {}
            outcome = &mut end => {
                if let Some(progress) = progress {
                    progress.drain(id);
                }
                return Ok(Ended { outcome: Some(outcome?), interrupted });
            }
        }
    }
}

fn conclude(ended: Ended) -> anyhow::Result<Exit> {
    let exit = match ended.outcome {
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
