//! The projects that are measured: folders of automations.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::Error;

/// Bytes of the body of every request.
pub(crate) const BODY: usize = 850;

/// The id of an automation written by [`numbered`].
pub(crate) fn numbered_id(number: usize) -> String {
    format!("order-{number:05}")
}

/// A project folder that is deleted when this is dropped.
pub(crate) struct Project {
    folder: TempDir,
}

impl Project {
    /// An empty one, beside this program: on a disk, which a temporary folder may not be.
    pub(crate) fn new() -> Result<Self, Error> {
        let folder = scratch()?;
        let automations = folder.path().join("automations");
        std::fs::create_dir(&automations).map_err(Error::io(automations.display()))?;
        Ok(Self { folder })
    }

    /// One with this many automations of some thirty lines.
    pub(crate) fn of_size(automations: usize) -> Result<Self, Error> {
        let project = Self::new()?;
        for number in 0..automations {
            project.put(&numbered_id(number), &numbered(number, "POST"))?;
        }
        Ok(project)
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The daemon's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".cogwork")
    }

    /// Writes another file, with the folder that it is in.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), Error> {
        let file = self.path().join(path);
        let folder = file.parent().unwrap_or_else(|| self.path());
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, text));
        written.map_err(Error::io(file.display()))
    }

    /// Writes an automation, beside its place first, as editors do.
    pub(crate) fn put(&self, id: &str, text: &str) -> Result<(), Error> {
        let file = self.path().join(format!("automations/{id}.yaml"));
        let draft = self.path().join("draft");
        let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &file));
        written.map_err(Error::io(file.display()))
    }
}

/// A folder beside this program that is deleted when it is dropped.
pub(crate) fn scratch() -> Result<TempDir, Error> {
    let program = std::env::current_exe().map_err(Error::io("this program"))?;
    let beside = program.parent().unwrap_or_else(|| Path::new("."));
    tempfile::Builder::new().prefix("bench-").tempdir_in(beside).map_err(Error::io(beside.display()))
}

/// A webhook that is answered at once, with one pure step behind it.
pub(crate) fn asynchronous() -> String {
    "trigger:
  webhook: {verify: none}
steps:
  - set:
      order: ${{ trigger.results.body.data.orderId }}
"
    .to_owned()
}

/// A schedule that is due again and again after so long, with one pure step.
pub(crate) fn scheduled(distance: Duration) -> String {
    format!(
        "trigger:\n  schedule: {{every: {}s}}\nsteps:\n  - set:\n      due: ${{{{ trigger.results.scheduledAt }}}}\n",
        distance.as_secs()
    )
}

/// The same with one POST to `url` as its step.
pub(crate) fn scheduled_post(distance: Duration, url: &str) -> String {
    format!(
        "trigger:\n  schedule: {{every: {}s}}\nsteps:\n  - action: http.request\n    with: {{method: POST, url: \"{url}\", body: {{n: 1}}}}\n    retry: 1\n",
        distance.as_secs()
    )
}

/// A webhook that is answered with the result of this many pure steps.
pub(crate) fn synchronous(steps: usize) -> String {
    format!(
        "trigger:\n  webhook: {{mode: sync, verify: none}}\nsteps:\n{}",
        chain("trigger.results.body.data.quantity", steps)
    )
}

/// Forty times this is what the field publishes.
pub(crate) const FIB: &str = "const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));";

/// The same function in a text of its own for each number.
pub(crate) fn different_fib(number: usize) -> String {
    format!("const number = {number}; {FIB}")
}

/// A webhook that is answered with the result of the last of this many steps of code, whose function `fib` is that of
/// their number.
pub(crate) fn fibs(steps: usize, fib: impl Fn(usize) -> String) -> String {
    let mut text = "trigger:\n  webhook: {mode: sync, verify: none}\nsteps:\n".to_owned();
    for number in 0..steps {
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "  - code: |\n      {}\n      export default () => ({{ data: {{ value: fib(10) }} }});\n",
            fib(number)
        );
    }
    text
}

/// A webhook that is answered after the answers of `count` concurrent requests to `url`.
pub(crate) fn gets(count: usize, url: &str) -> String {
    let mut text = "trigger:\n  webhook: {mode: sync, verify: none}\nsteps:\n  - parallel:\n".to_owned();
    for number in 0..count {
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "      get{number}:\n        - action: http.request\n          with: {{url: \"{url}\"}}\n          retry: 1\n"
        );
    }
    text
}

/// A synchronous webhook with this many GETs one after another.
pub(crate) fn gets_in_turn(count: usize, url: &str) -> String {
    let mut text = "trigger:\n  webhook: {mode: sync, verify: none}\nsteps:\n".to_owned();
    for _ in 0..count {
        let _ = write!(text, "  - action: http.request\n    with: {{url: \"{url}\"}}\n    retry: 1\n");
    }
    text
}

/// A manual start of this many pure steps, each a sum over what the one before it left.
pub(crate) fn sums(steps: usize) -> String {
    format!("trigger:\n  manual: {{}}\nsteps:\n{}", chain("1", steps))
}

fn chain(first: &str, steps: usize) -> String {
    let mut text = format!("  - set:\n      total: ${{{{ {first} }}}}\n");
    for _ in 1..steps {
        text.push_str("  - set:\n      total: ${{ vars.total + 1 }}\n");
    }
    text
}

/// A manual start of this many pure steps, each of which only passes on a value.
pub(crate) fn copies(steps: usize) -> String {
    let mut text = "trigger:\n  manual: {}\nsteps:\n  - set:\n      value: 1\n".to_owned();
    for _ in 1..steps {
        text.push_str("  - set:\n      value: ${{ vars.value }}\n");
    }
    text
}

/// A manual start of this many lines in the log.
pub(crate) fn log_lines(steps: usize) -> String {
    let mut text = "trigger:\n  manual: {}\nsteps:\n".to_owned();
    for number in 0..steps {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  - action: log.info\n    with:\n      message: line {number}");
    }
    text
}

/// One of many: an automation as people write them, whose webhook takes `methods` (`POST`, or `POST, PUT`).
pub(crate) fn numbered(number: usize, methods: &str) -> String {
    format!(
        "name: Order intake {number}
description: Takes the orders of shop {number} and notes what has to be done about each.
labels: [orders, shop-{number}]
trigger:
  webhook:
    verify: none
    methods: [{methods}]
    maxBody: 256KiB
  if: trigger.results.body.data.orderId is defined
configVars:
  shop: shop-{number}
timeout: 5m
steps:
  - id: order
    set:
      id: ${{{{ trigger.results.body.data.orderId }}}}
      items: ${{{{ trigger.results.body.data.items | default([]) }}}}
  - id: count
    set:
      pieces: ${{{{ vars.items | map(attribute='quantity') | sum }}}}
  - id: large
    if: vars.pieces > 100
    then:
      - action: log.warn
        with:
          message: Order ${{{{ vars.id }}}} of ${{{{ configVars.shop }}}} has ${{{{ vars.pieces }}}} pieces
    else:
      - action: log.info
        with:
          message: Order ${{{{ vars.id }}}} has ${{{{ vars.pieces }}}} pieces
outputs:
  order: ${{{{ vars.id }}}}
  pieces: ${{{{ vars.pieces }}}}
"
    )
}

/// The JSON body of every request, of exactly [`BODY`] bytes.
pub(crate) fn body() -> Vec<u8> {
    let item = |number: usize| format!(r#"{{"sku":"cog-{number:03}","quantity":{number},"price":"12.50"}}"#);
    let items: Vec<String> = (1..=8).map(item).collect();
    let mut text = format!(
        r#"{{"orderId":"2026-000042","quantity":3,"customer":{{"name":"Ada Lovelace","city":"London"}},"items":[{}],"note":""#,
        items.join(",")
    );
    text.extend(std::iter::repeat_n('x', BODY.saturating_sub(text.len() + 2)));
    text.push_str("\"}");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_json_of_the_documented_length() {
        let body = body();
        assert_eq!(body.len(), BODY);
        let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(value["quantity"], 3);
    }

    #[test]
    fn every_measured_automation_has_neither_errors_nor_warnings() {
        let project = Project::new().expect("a folder");
        let texts = [
            ("asynchronous", asynchronous()),
            ("three", synchronous(3)),
            ("forty", synchronous(40)),
            ("gets", gets(10, "http://127.0.0.1:8080/")),
            ("gets-in-turn", gets_in_turn(10, "http://127.0.0.1:8080/")),
            ("sums", sums(1000)),
            ("copies", copies(1000)),
            ("lines", log_lines(1000)),
            ("numbered", numbered(7, "POST, PUT")),
        ];
        for (id, text) in &texts {
            project.put(id, text).expect("written");
        }
        let checked = authoring::check_project(project.path(), &[]).expect("checked");
        let said: Vec<String> = checked.reports.iter().map(|report| report.render(false)).collect();
        assert_eq!(said, [""; 0]);
        assert_eq!(checked.files, texts.len());
    }
}
