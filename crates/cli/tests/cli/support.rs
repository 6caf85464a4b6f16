//! A project folder, and the binary run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tests::canary;

/// A hung command fails its test instead of hanging the suite.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_cogwork");

/// The output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// That it ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Its output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// That it said this on stderr.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is missing in:\n{}", self.stderr);
        self
    }
}

/// A project in a folder of its own.
pub(crate) struct Project {
    folder: TempDir,
}

impl Project {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A folder with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let project = Self::empty();
        files.iter().for_each(|(path, text)| project.write(path, text));
        project
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.file(path)).expect("a file")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.file(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Runs the binary in the folder.
    pub(crate) fn cogwork(&self, arguments: &[&str]) -> Ran {
        self.cogwork_with(arguments, &[], "")
    }

    /// Runs the binary in the folder with these variables and this stdin.
    pub(crate) fn cogwork_with(&self, arguments: &[&str], variables: &[(&str, &str)], stdin: &str) -> Ran {
        let mut command = assert_cmd::Command::from_std(self.command(arguments));
        command.envs(variables.iter().copied()).write_stdin(stdin).timeout(TIMEOUT);
        let output = command.output().expect("the binary runs");
        canary::look(&output.stdout, "what a command printed");
        canary::look(&output.stderr, "what a command said");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The binary, to be started in the folder: without settings of the machine, in a known zone, without colour.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(BINARY);
        let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COGWORK_"));
        ours.for_each(|(name, _)| {
            command.env_remove(name);
        });
        command
            .args(arguments)
            .current_dir(self.path())
            .env_remove("GITHUB_WORKSPACE")
            // Not the service of this machine.
            .env("COGWORK_SERVICE_FILE", "")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Project {
    /// Asserts that no file left by commands and daemons holds a secret.
    fn drop(&mut self) {
        let data = self.file(".cogwork");
        if data.is_dir() && !std::thread::panicking() {
            canary::search(&data).expect("the data folder can be read");
        }
    }
}

/// A manual automation that greets.
pub(crate) const HELLO: &str = "\
trigger: {manual: {}}
inputs:
  name: {type: text, default: world}
  times: {type: integer, default: 1}
steps:
  - id: greet
    set: {greeting: \"Hello, ${{ inputs.name }}!\"}
  - id: note
    action: log.info
    with: {message: \"${{ vars.greeting }}\"}
outputs: {greeting: \"${{ vars.greeting }}\", times: \"${{ inputs.times }}\"}
";

/// A manual automation that fails in its second step.
pub(crate) const FAILING: &str = "\
trigger: {manual: {}}
steps:
  - id: count
    set: {number: 7}
  - id: boom
    fail: ${{ vars.number }} is one too many
";

/// A webhook that answers when the work is done.
pub(crate) const ORDER: &str = "\
name: Order desk
trigger: {webhook: {mode: sync, verify: none}}
steps:
  - id: order
    set: {id: \"${{ trigger.results.body.data.id }}\"}
  - respond: {status: 201, json: {order: \"${{ vars.id }}\"}}
outputs: {order: \"${{ vars.id }}\"}
";

/// A file with a misspelt key and a reference to nothing.
pub(crate) const BAD: &str = "\
name: Bad
trigger: {manual: {}}
stepz:
  - id: a
    set: {x: 1}
";
