//! Recordings of HTTP exchanges on disk: `automations/cassettes/*.yaml`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use authoring::cassette_path;
use catalog::ProjectFileError;
use connector::{Cassette, Recording};
use model::test_suite::{Case, Suite};
use testing::TestRunner;

use crate::output::{self, count};
use crate::scaffold;

/// The maximum size of a recording, in bytes.
const MAX_BYTES: u64 = 64 << 20;

const HEAD: &str = "\
# Recorded by `cogwork test --record`, which makes it anew. Credentials are redacted: *** stands for each.
# A test plays it back offline: each exchange answers one request with the same method, address and body.
";

/// The cassette of a test, if it names an existing recording. For recording, it is empty.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn cassette(
    runner: &TestRunner,
    suite: &Suite,
    case: &Case,
    records: bool,
) -> anyhow::Result<Option<Arc<Cassette>>> {
    let Some(name) = &case.cassette else { return Ok(None) };
    if records {
        return Ok(Some(Arc::new(Cassette::for_recording())));
    }
    let path = cassette_path(suite, &name.name);
    let text = match catalog::read_project_file(runner.dir(), &path, MAX_BYTES) {
        Err(ProjectFileError::Io(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(anyhow::Error::from),
    };
    let recording: Recording = text
        .and_then(|text| Ok(serde_yaml::from_slice(&text)?))
        .with_context(|| format!("cannot read the recording `{}`", path.display()))?;
    Ok(Some(Arc::new(Cassette::for_replay(recording))))
}

/// The recorded exchanges, by file.
#[derive(Default)]
pub(super) struct Recorded {
    /// The project folder.
    dir: PathBuf,
    /// The recordings by path relative to it.
    recordings: BTreeMap<PathBuf, Recording>,
}

impl Recorded {
    /// Adds the exchanges of a test's cassette.
    pub(super) fn add(&mut self, runner: &TestRunner, suite: &Suite, case: &Case, cassette: &Cassette) {
        if let Some(name) = case.cassette.as_ref().filter(|_| cassette.is_recording()) {
            runner.dir().clone_into(&mut self.dir);
            self.recordings.insert(cassette_path(suite, &name.name), cassette.recording());
        }
    }

    /// Writes the files and lists them. A test that sent nothing keeps its existing recording.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        for (path, recording) in &self.recordings {
            let shown = path.display();
            let entries = recording.exchanges.len() + recording.calls.len();
            if entries == 0 {
                output::warn(format_args!("nothing was sent, so `{shown}` stays as it is"));
                continue;
            }
            catalog::check_project_target(&self.dir, path)
                .with_context(|| format!("cannot write `{shown}`"))?;
            let file = self.dir.join(path);
            scaffold::make_parent(&file)?;
            let text = format!("{HEAD}{}", serde_yaml::to_string(recording)?);
            std::fs::write(&file, text).with_context(|| format!("cannot write `{shown}`"))?;
            let exchanges = count(entries, "exchange");
            output::say(format_args!("recorded {exchanges} in {shown}"));
        }
        Ok(())
    }
}
