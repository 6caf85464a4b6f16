//! The arguments.

use std::path::PathBuf;
use std::time::Duration;

use crate::Error;
use crate::baseline::Kind;
use crate::measure::{GROUPS, UNASKED};
use crate::peer::Peer;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
Usage: bench [--only NAME]... [--connections N] [--executions N] [--quick | --seconds N] [--peers NAMES]
             [--json FILE] [--counts FILE [--record]]

  --only NAME    one group of measurements; may be given again
                 (acks, synchronous, gets, steps, code, sql, files, messages, peers, start, reload,
                 schedules, history, backlog, loading, instructions, cluster, growth, memory); `cluster` and `instructions` need PostgreSQL and
                 take two minutes, `growth` five and `memory` ten, and they are measured only where they are named;
                 `sql`, `files` and `messages` take the servers that are installed, beside a plain client of each
  --connections N
                 of the measurements with requests, those with so many under way (1, 16, 64)
  --executions N how many there are in the stores of history and backlog (200,000)
  --seconds N    how long each measurement takes (3)
  --quick        one second or round each, 20 seconds for `memory`, and no project of 10,000 automations or schedules
  --peers NAMES  other engines for the group `peers`, with commas between them, which
                 `make bench PEERS=…` installs (node-red, n8n, dbos, restate)
  --json FILE    writes the figures there, too
  --counts FILE  compares `instructions` with the counts in this file, and fails if one is more than 1 % above;
                 with --record, replaces them";

/// The argument that makes this program a worker of the measured pool.
pub(crate) const SERVE_CODE: &str = "--serve-code";
/// The default duration of one measurement.
const SECONDS: f64 = 3.0;
/// The longest duration that is accepted.
const MAX_SECONDS: f64 = 3600.0;

/// The command of the program.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// Print the usage.
    Help,
    /// Be a baseline, with its data in this folder.
    Serve(Kind, PathBuf),
    /// Be a worker that runs code.
    Work,
    /// Measure.
    Measure(Options),
}

/// The selection of measurements, and their settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// The duration of one measurement.
    pub(crate) time: Duration,
    /// True to leave out large projects.
    pub(crate) quick: bool,
    /// Other engines to compare with.
    pub(crate) peers: Vec<Peer>,
    /// The file of the figures as JSON.
    pub(crate) json: Option<PathBuf>,
    /// The file with the recorded counts of `instructions`.
    pub(crate) counts: Option<PathBuf>,
    /// True to replace the recorded counts.
    pub(crate) record: bool,
    /// The number of executions of large stores.
    pub(crate) executions: Option<u64>,
    only: Vec<String>,
    connections: Option<usize>,
}

impl Options {
    /// True if this group is selected.
    pub(crate) fn wants(&self, group: &str) -> bool {
        match self.only.is_empty() {
            true => UNASKED.contains(&group),
            false => self.only.iter().any(|name| name == group),
        }
    }

    /// True if measurements with this many concurrent requests are selected.
    pub(crate) fn wants_connections(&self, connections: usize) -> bool {
        self.connections.is_none_or(|wanted| wanted == connections)
    }
}

/// Reads the arguments.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, Error> {
    let mut arguments = arguments.into_iter();
    let mut options = Options {
        time: Duration::from_secs_f64(SECONDS),
        quick: false,
        peers: Vec::new(),
        json: None,
        counts: None,
        record: false,
        executions: None,
        only: Vec::new(),
        connections: None,
    };
    while let Some(name) = arguments.next() {
        let mut value =
            || arguments.next().ok_or_else(|| Error::Usage(format!("`{name}` needs a value behind it")));
        match name.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            SERVE_CODE => return Ok(Command::Work),
            "--serve-baseline" => {
                let kind = value()?;
                let kind = Kind::parse(&kind)
                    .ok_or_else(|| Error::Usage(format!("there is no baseline `{kind}`")))?;
                return Ok(Command::Serve(kind, value()?.into()));
            }
            "--quick" => (options.quick, options.time) = (true, Duration::from_secs(1)),
            "--seconds" => options.time = seconds(&value()?)?,
            "--connections" => options.connections = Some(number(&name, &value()?)?),
            "--executions" => options.executions = Some(number(&name, &value()?)?),
            "--peers" => options.peers = peers(&value()?)?,
            "--json" => options.json = Some(value()?.into()),
            "--counts" => options.counts = Some(value()?.into()),
            "--record" => options.record = true,
            "--only" => {
                let group = value()?;
                if !GROUPS.contains(&group.as_str()) {
                    let known = GROUPS.join(", ");
                    return Err(Error::Usage(format!("there is no group `{group}`; the groups are {known}")));
                }
                options.only.push(group);
            }
            other => return Err(Error::Usage(format!("there is no option `{other}`"))),
        }
    }
    Ok(Command::Measure(options))
}

fn number<N: std::str::FromStr>(option: &str, text: &str) -> Result<N, Error> {
    text.parse().map_err(|_| Error::Usage(format!("`{option}` takes a number, not `{text}`")))
}

fn peers(names: &str) -> Result<Vec<Peer>, Error> {
    let unknown = |name: &str| Error::Usage(format!("there is no peer `{name}`; there are node-red and n8n"));
    names.split(',').map(|name| Peer::parse(name).ok_or_else(|| unknown(name))).collect()
}

fn seconds(text: &str) -> Result<Duration, Error> {
    let wrong = || Error::Usage(format!("`--seconds` takes a number up to {MAX_SECONDS}, not `{text}`"));
    let number: f64 = text.parse().map_err(|_| wrong())?;
    if number > 0.0 && number <= MAX_SECONDS { Ok(Duration::from_secs_f64(number)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(arguments: &[&str]) -> Result<Options, String> {
        match parse(arguments.iter().map(ToString::to_string)) {
            Ok(Command::Measure(options)) => Ok(options),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn all_quick_groups_are_measured_by_default() {
        let options = measure(&[]).expect("options");
        let left: Vec<_> = GROUPS.iter().filter(|group| !options.wants(group)).collect();
        assert_eq!(left, [&"instructions", &"cluster", &"growth", &"memory"]);
        assert!(measure(&["--only", "memory"]).expect("options").wants("memory"));
        assert_eq!((options.time, options.quick), (Duration::from_secs(3), false));
    }

    #[test]
    fn only_the_named_groups_are_measured() {
        let options = measure(&["--only", "steps", "--quick", "--only", "acks"]).expect("options");
        let wanted: Vec<_> = GROUPS.iter().filter(|group| options.wants(group)).collect();
        assert_eq!(wanted, [&"acks", &"steps"]);
        assert_eq!((options.time, options.quick), (Duration::from_secs(1), true));
        assert!(options.wants_connections(1) && options.wants_connections(64));
        let options = measure(&["--connections", "64"]).expect("options");
        assert!(!options.wants_connections(1) && options.wants_connections(64));
    }

    #[test]
    fn an_invalid_option_is_reported_with_the_valid_ones() {
        for (arguments, expected) in [
            (&["--only", "ack"][..], "the groups are acks"),
            (&["--fast"], "`--fast`"),
            (&["--json"], "needs a value"),
            (&["--seconds", "-1"], "takes a number"),
            (&["--seconds", "NaN"], "takes a number"),
            (&["--connections", "all"], "takes a number"),
            (&["--executions", "many"], "takes a number"),
            (&["--peers", "node-red,x"], "no peer `x`"),
            (&["--serve-baseline", "two"], "no baseline `two`"),
        ] {
            let said = measure(arguments).expect_err("an error");
            assert!(said.contains(expected) && said.contains("Usage:"), "{said}");
        }
    }

    #[test]
    fn the_help_names_every_group() {
        assert!(GROUPS.iter().all(|group| HELP.contains(group)));
    }
}
