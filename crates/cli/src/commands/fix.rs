//! `cogwork fix`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::Subcommand;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, BAD, GOOD, count, paint, plain};
use crate::project::{self, SortedPaths};

const EXAMPLES: &str = "\
Examples:
  cogwork fix --dry-run                      what would change, in all files of the project
  cogwork fix automations/order-desk.yaml    changes one file
  cogwork validate                           what is left";

/// Apply the fixes of errors and warnings to the files of the project
///
/// A fix is a replacement that `cogwork validate` suggests and that is safe to apply. Each file is checked again after its
/// fixes, until none is left. Exits with 1 if errors are left.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fix {
    /// Files and folders of the project; default: all
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show the changes, and write nothing
    #[arg(long)]
    dry_run: bool,
}

impl Subcommand for Fix {
    const NAME: &'static str = "fix";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let dir = context.dir();
        let SortedPaths { inside, outside } = project::sort_paths(dir, &self.paths)?;
        if let Some(path) = outside.first() {
            return Err(project::outside(path));
        }
        let checked = authoring::check_project(dir, &inside)?;
        if checked.files == 0 && !self.paths.is_empty() {
            return Err(CommandError::usage(project::NO_FILE));
        }
        let (mut files, mut fixes, mut errors) = (0, 0, 0);
        for report in &checked.reports {
            let path = report.source().path();
            let check = |text: &str| authoring::check_text(&checked.catalog, path, text);
            let fixed = authoring::fix_text(report.source().text(), check);
            errors += if fixed.fixes > 0 { fixed.report.error_count() } else { report.error_count() };
            if fixed.fixes == 0 {
                continue;
            }
            if dir.join(path).is_symlink() {
                output::say(format_args!(
                    "`{path}` is a link, which stays as it is; fix the file that it leads to"
                ));
                continue;
            }
            (files, fixes) = (files + 1, fixes + fixed.fixes);
            show(path, report.source().text(), &fixed.text)?;
            if !self.dry_run {
                authoring::replace_text(dir, path, report.source().text(), &fixed.text)
                    .with_context(|| format!("cannot fix `{path}`"))?;
            }
        }
        let done = if self.dry_run { "would apply" } else { "applied" };
        output::say(format_args!(
            "{done} {} in {}; {} left",
            if fixes == 1 { "1 fix".to_owned() } else { format!("{fixes} fixes") },
            count(files, "file"),
            count(errors, "error")
        ));
        Ok(if errors > 0 { Exit::Failed } else { Exit::Done })
    }
}

/// Prints the changed lines of a file.
pub(super) fn show(path: &str, before: &str, after: &str) -> anyhow::Result<()> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    output::data(plain(path))?;
    let print = |at: usize, old: &[&str], new: &[&str]| -> anyhow::Result<()> {
        for (offset, line) in old.iter().enumerate() {
            output::data(paint(BAD, format_args!("{:>4} - {}", at + offset + 1, plain(line))))?;
        }
        for (offset, line) in new.iter().enumerate() {
            output::data(paint(GOOD, format_args!("{:>4} + {}", at + offset + 1, plain(line))))?;
        }
        Ok(())
    };
    if old.len() == new.len() {
        for (at, (old, new)) in old.iter().zip(&new).enumerate().filter(|(_, (old, new))| old != new) {
            print(at, &[old], &[new])?;
        }
        return Ok(());
    }
    let first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old[first..].iter().rev().zip(new[first..].iter().rev());
    let last = rest.take_while(|(old, new)| old == new).count();
    print(first, &old[first..old.len() - last], &new[first..new.len() - last])
}
