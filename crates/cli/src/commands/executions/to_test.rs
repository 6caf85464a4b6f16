//! `cogwork executions to-test`

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output;
use crate::settings::{Config, Flags, PLACE};
use crate::{candidates, daemon, history};

const EXAMPLES: &str = "\
Examples:
  cogwork executions to-test latest
  cogwork executions to-test 019a2b3c --name \"an order without items\"
  cogwork executions to-test latest --print

The test is appended to the test file beside the automation. It passes when it is written.";

/// Make a test from an execution
///
/// The test repeats the execution offline: its start, the recorded answers as doubles, and its outcome as expectations.
/// Credentials are left out. It needs the daemon, which writes the file.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ToTest {
    /// The execution's id, a beginning of it that no other has, or `latest`
    #[arg(add = ArgValueCandidates::new(candidates::executions))]
    id: String,
    /// The name of the test
    #[arg(long)]
    name: Option<String>,
    /// Print the test file and write nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    pub(super) settings: Flags<PLACE>,
}

#[derive(Deserialize)]
struct Draft {
    path: String,
    name: String,
    etag: Option<String>,
    text: String,
    expects: String,
}

impl ToTest {
    pub(super) async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        let id = history::id(config, &self.id).await?;
        let body = json!({"id": id, "name": self.name});
        let found: Value = daemon::post(config, "/api/v1/tests/from-execution", &body).await?;
        let Draft { path, name, etag, text, expects } = serde_json::from_value(found)?;
        if self.print {
            output::raw(text.as_bytes())?;
            return Ok(Exit::Done);
        }
        let file = daemon::path(&["files", &path]);
        let _: Value = daemon::put_version(config, &file, &json!({ "text": text }), etag.as_deref()).await?;
        output::data(&path)?;
        if expects != "full" {
            output::say("values of it differ in each execution, so the test does not expect all of them");
        }
        output::say(format_args!("test `{name}` is written; `cogwork test {path}` runs it"));
        Ok(Exit::Done)
    }
}
