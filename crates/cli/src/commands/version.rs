//! `cogwork version`

use clap::Args;
use serde_json::json;

use super::Subcommand;
use crate::context::Context;
use crate::context::NAME;
use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  cogwork version
  cogwork version --json";

/// Print the version
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Version {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Subcommand for Version {
    const NAME: &'static str = "version";

    fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        let (version, system, machine) =
            (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
        match self.json {
            true => output::json(
                &json!({"name": NAME, "version": version, "system": system, "machine": machine}),
            )?,
            false => output::data(format_args!("{NAME} {version} ({system} {machine})"))?,
        }
        Ok(Exit::Done)
    }
}
