//! A new automation, one text for each kind of trigger.

use model::AutomationId;

/// A kind of trigger that a new automation can have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The key that is written for it.
    pub(crate) name: &'static str,
    /// What starts it, for whoever chooses.
    pub(crate) about: &'static str,
    /// What to do next.
    pub(crate) next: &'static str,
    body: &'static str,
}

/// Every kind there is.
pub(crate) const KINDS: [Kind; 3] = [
    Kind {
        name: "webhook",
        about: "a request on its address",
        next: "cogwork run {id} --payload FILE    or `cogwork serve`, which prints its address",
        body: WEBHOOK,
    },
    Kind {
        name: "schedule",
        about: "the clock",
        next: "cogwork run {id}    or `cogwork serve`, which starts it when it is time",
        body: SCHEDULE,
    },
    Kind {
        name: "manual",
        about: "a person, the command line or the API",
        next: "cogwork run {id}",
        body: MANUAL,
    },
];

const WEBHOOK: &str = r#"# A request on its address starts it. `cogwork serve` and `cogwork list` print the address.
trigger:
  webhook:
    # async: the caller gets an executionId at once.
    # sync: the caller waits, and a `respond` step decides the answer.
    mode: async
    methods: [POST]
    verify: none

# The steps run from top to bottom. Whatever stands in ${{ }} is worked out when the step runs.
steps:
  - id: order
    set:
      # What came: trigger.results.body.data, .headers, .queryParameters, .pathFragment
      id: ${{ trigger.results.body.data.id | default("unknown") }}

  - id: note
    action: log.info
    with:
      message: Order ${{ vars.id }} has come

# The result; without this it is the result of the last step.
outputs:
  order: ${{ vars.id }}
"#;

const SCHEDULE: &str = r#"# The clock starts it.
trigger:
  schedule:
    # Also: every: 5m, hourly: {minute: 5}, weekly: {on: [mon, fri], at: "08:30"}, cron: "*/5 8-16 * * 1-5"
    daily: {at: "08:30"}
    timezone: UTC

# The steps run from top to bottom. Whatever stands in ${{ }} is worked out when the step runs.
steps:
  - id: note
    action: log.info
    with:
      message: It was due at ${{ trigger.results.scheduledAt }}

# The result; without this it is the result of the last step.
outputs:
  dueAt: ${{ trigger.results.scheduledAt }}
"#;

const MANUAL: &str = r#"# A person starts it, or the API.
trigger:
  manual: {}

# What it is given: cogwork run {id} --input name=Ada --input times=3
inputs:
  name: {type: text, default: world, description: Who is greeted}
  times: {type: integer, default: 1, description: How often}

# The steps run from top to bottom. Whatever stands in ${{ }} is worked out when the step runs.
steps:
  - id: greet
    # `if` beside the verb is a guard: the step is skipped where it does not hold.
    if: inputs.times > 0
    forEach: range(inputs.times)
    steps:
      - id: note
        action: log.info
        with:
          message: Hello, ${{ inputs.name }}!

# The result; without this it is the result of the last step.
outputs:
  greeted: ${{ inputs.name }}
"#;

impl Kind {
    /// The kind of this name.
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The text of a new automation of this kind.
    pub(crate) fn text(&self, id: &AutomationId, name: &str) -> String {
        let body = self.body.replace("{id}", id.as_str());
        let name = serde_json::Value::from(name);
        let head = "# yaml-language-server: $schema=../schemas/automation.schema.json";
        // A JSON text is a YAML text, whatever it holds.
        format!("{head}\nname: {name}\ndescription: What it does, in a sentence.\n\n{body}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_new_automation_is_valid_at_once() {
        let catalog =
            engine::check_project(std::path::Path::new("/nonexistent"), &[]).expect("connectors").catalog;
        let id = AutomationId::parse("order-desk").expect("an id");
        for kind in &KINDS {
            for name in ["Order desk", "a: \"b\" #c {d}"] {
                let text = kind.text(&id, name);
                let report = engine::check_text(&catalog, "automations/order-desk.yaml", &text);
                assert!(report.is_empty(), "{}\n{}", kind.name, report.render(false));
            }
        }
    }
}
