//! Shell completion: the ids, names and executions of the project that the command line selects.
//!
//! The shell runs this program with [`VARIABLE`] set and the words so far as arguments. Unreadable files yield no
//! candidates: completion reports no errors.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::Command;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::CompleteEnv;
use store::{ExecutionFilter, Page};

use crate::context::Context;
use crate::settings::{Config, FlagValues, Setting};
use crate::{daemon, history, time};

/// The variable by which a shell's script requests completions.
pub(crate) const VARIABLE: &str = "COGWORK_COMPLETE";
/// The maximum number of offered executions, and of payloads.
const MOST: u32 = 50;

/// If a shell requests completions of `command`, answers it and ends the process.
pub(crate) fn answer(command: fn() -> Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The ids of the automations in the project folder.
pub(crate) fn automations() -> Vec<CompletionCandidate> {
    let ids = catalog::automation_ids(&Line::of_process().dir());
    ids.into_iter().map(|id| CompletionCandidate::new(id.to_string())).collect()
}

/// The names of the saved payloads: of the automation on the command line, or else of all.
pub(crate) fn payloads() -> Vec<CompletionCandidate> {
    let line = Line::of_process();
    let folder = line.dir().join("payloads");
    let named = |id: &PathBuf| line.words.iter().any(|word| id.file_name() == Some(word.as_os_str()));
    let entries =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all: Vec<PathBuf> = entries(folder).collect();
    let chosen: Vec<PathBuf> = all.iter().filter(|id| named(id)).cloned().collect();
    let folders = if chosen.is_empty() { all } else { chosen };
    let files = folders.into_iter().flat_map(entries);
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.file_name()?.to_str()?.strip_suffix(".json")?.to_owned()))
        .take(MOST as usize)
        .collect();
    names.sort();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The newest executions, and the keyword for the latest one.
pub(crate) fn executions() -> Vec<CompletionCandidate> {
    let latest = CompletionCandidate::new(history::LATEST).help(Some("the newest".into()));
    let rows = Line::of_process().config().and_then(|config| {
        let store = history::open(&config).ok()??;
        let page = Page { before: None, limit: MOST };
        daemon::runtime().ok()?.block_on(store.executions(&ExecutionFilter::default(), page)).ok()
    });
    let rows = rows.into_iter().flatten().enumerate().map(|(place, row)| {
        let about = format!("{} {} {}", row.automation, row.status.as_str(), time::local(row.started_at));
        // Shells would sort by the id, which begins with the time.
        CompletionCandidate::new(row.id.to_string()).help(Some(about.into())).display_order(Some(place))
    });
    std::iter::once(latest).chain(rows).collect()
}

/// The command line as typed so far.
struct Line {
    words: Vec<OsString>,
}

impl Line {
    fn of_process() -> Self {
        // The program, the separator before the words, the name of the program.
        let words = std::env::args_os().skip_while(|word| word != "--").skip(2);
        Self { words: words.collect() }
    }

    /// The value of a flag: `--dir flows` or `--dir=flows`.
    fn flag(&self, name: &str) -> Option<String> {
        let mut words = self.words.iter().filter_map(|word| word.to_str());
        while let Some(word) = words.next() {
            let Some(rest) = word.strip_prefix(name) else { continue };
            match rest.strip_prefix('=') {
                Some(value) => return Some(value.to_owned()),
                None if rest.is_empty() => return words.next().map(str::to_owned),
                None => {}
            }
        }
        None
    }

    fn dir(&self) -> PathBuf {
        let flag = self.flag("--dir").map(PathBuf::from);
        flag.or_else(|| std::env::var_os("COGWORK_DIR").map(PathBuf::from)).unwrap_or_else(|| ".".into())
    }

    fn config(&self) -> Option<Config> {
        let data_dir = self.flag("--data-dir").and_then(|dir| Some((Setting::find("dataDir")?, vec![dir])));
        let given: Vec<FlagValues> = data_dir.into_iter().collect();
        Context::new(self.dir(), Vec::new()).quiet_config(&given).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_in_both_of_its_forms() {
        let line = |words: &[&str]| Line { words: words.iter().map(OsString::from).collect() };
        assert_eq!(line(&["--dir", "flows", "run"]).flag("--dir").as_deref(), Some("flows"));
        assert_eq!(line(&["run", "--dir=flows"]).flag("--dir").as_deref(), Some("flows"));
        assert_eq!(line(&["run", "--directory", "x"]).flag("--dir"), None);
        assert_eq!(line(&["run", "--dir"]).flag("--dir"), None);
    }
}
