//! The work that the daemon does while it is mistreated: an asynchronous webhook of five steps with HTTP, code, a wait
//! and a loop; a synchronous one; and a schedule of a second.

use std::io;

use crate::project::Project;

/// The name of the automation that is answered as soon as it is accepted.
pub(super) const ASYNC: &str = "work";
/// The name of the automation that is answered with its result.
pub(super) const SYNC: &str = "answer";
/// The name of the automation with a schedule.
pub(super) const TICKS: &str = "ticks";

/// Writes the automations that send asynchronously and synchronously, with their effects at `sink`.
pub(super) fn write(project: &Project, sink: &str) -> io::Result<()> {
    project.automation(ASYNC, &asynchronous(sink))?;
    project.automation(SYNC, &synchronous(sink))
}

/// Writes the automation with a schedule.
pub(super) fn write_ticks(project: &Project, sink: &str) -> io::Result<()> {
    let ticks = format!(
        r#"name: Each second
trigger:
  schedule: {{every: 1s, misfire: all, overlap: allow}}
steps:
  - id: tick
    action: http.request
    with: {{url: "{sink}/tick", method: POST, body: {{at: "${{{{ trigger.results.scheduledAt }}}}"}}}}
"#
    );
    project.automation(TICKS, &ticks)
}

fn asynchronous(sink: &str) -> String {
    format!(
        r#"name: Five steps
trigger:
  webhook: {{verify: none}}
steps:
  - id: first
    action: http.request
    with: {{url: "{sink}/first", method: POST, body: {{n: "${{{{ trigger.results.body.data.n }}}}"}}}}
  - id: double
    code: |
      export default (context, stepResults) => ({{ twice: stepResults.trigger.results.body.data.n * 2 }});
  - id: pause
    wait: 50ms
  - id: turns
    forEach: [0, 1]
    steps:
      - id: turn
        action: http.request
        with:
          url: "{sink}/turn/${{{{ item }}}}"
          method: POST
          body: {{n: "${{{{ trigger.results.body.data.n }}}}", twice: "${{{{ steps.double.results.twice }}}}"}}
  - id: last
    action: http.request
    with: {{url: "{sink}/last", method: POST, body: {{n: "${{{{ trigger.results.body.data.n }}}}"}}}}
"#
    )
}

fn synchronous(sink: &str) -> String {
    format!(
        r#"name: An answer
trigger:
  webhook: {{verify: none, mode: sync}}
steps:
  - id: effect
    action: http.request
    with: {{url: "{sink}/sync", method: POST, body: {{n: "${{{{ trigger.results.body.data.n }}}}"}}}}
  - set: {{done: "${{{{ trigger.results.body.data.n }}}}"}}
"#
    )
}
