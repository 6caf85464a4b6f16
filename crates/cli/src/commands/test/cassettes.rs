//! Recordings of HTTP exchanges on disk: `automations/cassettes/*.yaml`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use connector::{Recording, Tape};
use engine::trial::{Stage, cassette_path};
use model::trial::{Case, Suite};

use crate::output::{self, count};
use crate::{paths, scaffold};

/// The most bytes of a recording.
const MOST_BYTES: u64 = 64 << 20;

const HEAD: &str = "\
# Recorded by `cogwork test --record`, which makes it anew. Credentials are redacted: *** stands for each.
# A test plays it back offline: each exchange answers one request with the same method, address and body.
";

/// The tape for a test, if it names a recording and there is one. To record, it is blank.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn tape(
    stage: &Stage,
    suite: &Suite,
    case: &Case,
    records: bool,
) -> anyhow::Result<Option<Arc<Tape>>> {
    let Some(name) = &case.cassette else { return Ok(None) };
    if records {
        return Ok(Some(Arc::new(Tape::blank())));
    }
    let path = cassette_path(stage.dir(), suite, &name.name);
    if !path.is_file() {
        return Ok(None);
    }
    let recording =
        read(&path).with_context(|| format!("cannot read the recording `{}`", paths::shown(&path)))?;
    Ok(Some(Arc::new(Tape::play(recording))))
}

fn read(path: &Path) -> anyhow::Result<Recording> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    anyhow::ensure!(
        text.len() as u64 <= MOST_BYTES,
        "it is larger than {}",
        model::units::format_size(MOST_BYTES)
    );
    Ok(serde_yaml::from_str(&text)?)
}

/// What was recorded, by the file that it belongs to.
#[derive(Default)]
pub(super) struct Recorded(BTreeMap<PathBuf, Recording>);

impl Recorded {
    /// Takes over what is on the tape of a test.
    pub(super) fn add(&mut self, stage: &Stage, suite: &Suite, case: &Case, tape: &Tape) {
        if let Some(name) = case.cassette.as_ref().filter(|_| tape.records()) {
            self.0.insert(cassette_path(stage.dir(), suite, &name.name), tape.recording());
        }
    }

    /// Writes the files and tells of them. A test that sent nothing leaves the recording that there is.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        for (path, recording) in &self.0 {
            if recording.exchanges.is_empty() {
                output::warn(format_args!("nothing was sent, so `{}` stays as it is", paths::shown(path)));
                continue;
            }
            scaffold::make_parent(path)?;
            let text = format!("{HEAD}{}", serde_yaml::to_string(recording)?);
            std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
            let exchanges = count(recording.exchanges.len(), "exchange");
            output::say(format_args!("recorded {exchanges} in {}", paths::shown(path)));
        }
        Ok(())
    }
}
