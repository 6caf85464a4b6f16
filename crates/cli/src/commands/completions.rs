//! `cogwork completions`

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use super::Subcommand;
use crate::candidates::VARIABLE;
use crate::context::Context;
use crate::context::NAME;
use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  cogwork completions bash > ~/.local/share/bash-completion/completions/cogwork
  cogwork completions zsh > ~/.zfunc/_cogwork
  cogwork completions fish > ~/.config/fish/completions/cogwork.fish

The script asks the program itself, so that ids of automations, names of saved payloads and recent
executions are completed too. Write it anew after an upgrade.";

/// Print the completions of a shell
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Subcommand for Completions {
    const NAME: &'static str = "completions";

    fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        let shells = Shells::builtins();
        let shell = shells.completer(&self.shell.to_string()).context("the shell has no completions")?;
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
        output::raw(&script)?;
        Ok(Exit::Done)
    }
}
