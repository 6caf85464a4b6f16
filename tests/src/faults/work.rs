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
/// The retry settings of a call.
const RETRY: &str = "retry: {max: 2, delay: 20ms}";

/// The workload of the automations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a> {
    /// The address of the sink of effects.
    pub(super) sink: &'a str,
    /// True if failed calls are retried.
    pub(super) retries: bool,
    /// The length of the pause between the steps of an asynchronous execution.
    pub(super) pause: &'a str,
}

impl Work<'_> {
    /// Writes the automations that are sent to, one that is answered at once and one that is answered with its result.
    pub(super) fn write(self, project: &Project) -> io::Result<()> {
        project.automation(ASYNC, &self.asynchronous())?;
        project.automation(SYNC, &self.synchronous())
    }

    /// Writes the automation with a schedule.
    pub(super) fn write_ticks(self, project: &Project) -> io::Result<()> {
        project.automation(TICKS, &self.ticks("at: \"${{ trigger.results.scheduledAt }}\""))
    }

    /// Writes this many automations with a schedule.
    pub(super) fn write_schedules(self, project: &Project, count: usize) -> io::Result<()> {
        for number in 0..count {
            let body = format!("at: \"${{{{ trigger.results.scheduledAt }}}}\", of: \"{number}\"");
            project.automation(&format!("{TICKS}-{number:03}"), &self.ticks(&body))?;
        }
        Ok(())
    }

    fn ticks(self, body: &str) -> String {
        let tick = self.call("tick", "/tick", body);
        format!(
            "name: Each second\ntrigger:\n  schedule: {{every: 1s, misfire: all, overlap: allow}}\nsteps:\n  - {tick}\n"
        )
    }

    /// A step that posts to the sink, on one line.
    fn call(self, id: &str, path: &str, body: &str) -> String {
        let (sink, retry) = (self.sink, if self.retries { format!(", {RETRY}") } else { String::new() });
        let with = format!("{{url: \"{sink}{path}\", method: POST, body: {{{body}}}}}");
        format!("{{id: {id}, action: http.request, with: {with}{retry}}}")
    }

    fn asynchronous(self) -> String {
        let number = "n: \"${{ trigger.results.body.data.n }}\"";
        let pause = self.pause;
        let twice = format!("{number}, twice: \"${{{{ steps.double.results.twice }}}}\"");
        let first = self.call("first", "/first", number);
        let turn = self.call("turn", "/turn/${{ item }}", &twice);
        let last = self.call("last", "/last", number);
        format!(
            r"name: Five steps
trigger:
  webhook: {{verify: none}}
steps:
  - {first}
  - id: double
    code: |
      export default (context, stepResults) => ({{ twice: stepResults.trigger.results.body.data.n * 2 }});
  - id: pause
    wait: {pause}
  - id: turns
    forEach: [0, 1]
    steps:
      - {turn}
  - {last}
"
        )
    }

    fn synchronous(self) -> String {
        let effect = self.call("effect", "/sync", "n: \"${{ trigger.results.body.data.n }}\"");
        format!(
            r#"name: An answer
trigger:
  webhook: {{verify: none, mode: sync}}
steps:
  - {effect}
  - set: {{done: "${{{{ trigger.results.body.data.n }}}}"}}
"#
        )
    }
}
