//! `cogwork init`

use std::path::{Path, PathBuf};

use clap::Args;

use super::Subcommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, STRONG, paint};
use crate::{paths, scaffold};

const EXAMPLES: &str = "\
Examples:
  cogwork init flows            create the folder `flows`
  cogwork init                  create the project in the current folder";

/// Create a project folder with an automation that works at once
///
/// It overwrites nothing: if a file of the new project already exists, it writes nothing at all.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {
    /// The folder; created if it is missing [default: the project folder]
    folder: Option<PathBuf>,
}

impl Subcommand for Init {
    const NAME: &'static str = "init";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let dir = self.folder.unwrap_or_else(|| context.dir().to_owned());
        let files = scaffold::files(&authoring::check_project(&dir, &[])?.catalog)?;
        let (files, kept) = choose(&dir, files)?;
        for (path, text) in &files {
            scaffold::create(&dir.join(path), text)?;
            output::say(format_args!("wrote {}", paths::shown(&dir.join(path))));
        }
        if kept {
            output::say("kept .gitignore; let it hold `.cogwork/` and `secrets/`");
        }
        output::say("\nNext:");
        let enter = if dir == Path::new(".") { String::new() } else { format!("cd {} && ", quoted(&dir)) };
        for command in [format!("{enter}cogwork run hello"), "cogwork serve".to_owned()] {
            output::say(format_args!("  {}", paint(STRONG, command)));
        }
        Ok(Exit::Done)
    }
}

/// The files to write, and whether an existing `.gitignore` is kept: a folder under git already has one.
fn choose(dir: &Path, files: Vec<(String, String)>) -> anyhow::Result<(Vec<(String, String)>, bool)> {
    let there = |path: &str| dir.join(path).symlink_metadata().is_ok();
    let kept = there(".gitignore");
    let files: Vec<_> = files.into_iter().filter(|(path, _)| !(kept && path == ".gitignore")).collect();
    let taken: Vec<String> = files
        .iter()
        .filter(|(path, _)| there(path))
        .map(|(path, _)| format!("`{}`", paths::shown(&dir.join(path))))
        .collect();
    anyhow::ensure!(taken.is_empty(), "nothing was written, since {} would be overwritten", taken.join(", "));
    Ok((files, kept))
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
