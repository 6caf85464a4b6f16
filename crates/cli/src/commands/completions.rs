//! `cogwork completions`

use clap::Args;
use clap_complete::Shell;

use super::Subcommand;
use crate::app::{self, NAME};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  cogwork completions bash > ~/.local/share/bash-completion/completions/cogwork
  cogwork completions zsh > ~/.zfunc/_cogwork
  cogwork completions fish > ~/.config/fish/completions/cogwork.fish";

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
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut app::command(), NAME, &mut script);
        output::raw(&script)?;
        Ok(Exit::Done)
    }
}
