//! Edits of project files by intent: sets a value, renames a step, replaces the trigger.
//!
//! Each operation becomes changes of the file's tree, which [`text::yaml::edit`] writes in place and verifies.

mod outline;
mod rename;
mod rename_in_tests;

use serde::Deserialize;
use serde_json::Value;
use text::diagnostic::Source;
use text::yaml::edit::{EditError, Edited, Editor, Position, Segment, TreeOperation};

pub use self::outline::{OutlineStep, StepReference, outline, step_references};
use crate::load::{AUTOMATION, STEP_KEYS};

/// The maximum number of operations of one call.
pub const MAX_OPERATIONS: usize = 100;

/// An operation on a file.
#[derive(Clone, Debug, PartialEq, Deserialize, utoipa::ToSchema)]
#[serde(tag = "op", rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = EditOperation)]
pub enum Operation {
    /// Sets the value at a path; adds the key if it is absent.
    Set {
        /// The path, keys and indices, such as `["steps", 0, "timeout"]`.
        at: Vec<Segment>,
        /// The value.
        #[schema(value_type = value::Json)]
        value: Value,
    },
    /// Removes a key or an item. Comments inside it stay, on lines of their own.
    Remove {
        /// The path.
        at: Vec<Segment>,
    },
    /// Inserts an item into a list.
    Insert {
        /// The path of the new item; its index may be the length of the list.
        at: Vec<Segment>,
        /// The item.
        #[schema(value_type = value::Json)]
        value: Value,
    },
    /// Moves an item of a list, with the comments above it.
    Move {
        /// The path of the item.
        from: Vec<Segment>,
        /// Its path after it was taken out, as in RFC 6902.
        to: Vec<Segment>,
    },
    /// Renames a step: its id, and every `needs`, expression and inline code that names it. In a file of tests: every double,
    /// answer and expectation that names it.
    RenameStep {
        /// The id.
        from: String,
        /// The new id.
        to: String,
    },
    /// Replaces the trigger; what both have stays as it is written.
    ReplaceTrigger {
        /// The value of `trigger`.
        #[schema(value_type = value::Json)]
        value: Value,
    },
}

/// Applies operations to the text of a project file. `path` decides what kind of file it is.
///
/// # Errors
/// An operation names nothing in the file, or cannot be written in place. Then no operation of the call is applied.
pub fn edit_file(path: &str, text: &str, operations: &[Operation]) -> Result<Edited, EditError> {
    if operations.len() > MAX_OPERATIONS {
        return Err(EditError::Invalid(format!("a call takes at most {MAX_OPERATIONS} operations")));
    }
    let mut editor = Editor::new(text)?;
    for operation in operations {
        match operation {
            Operation::Set { at, value } => {
                let position = position(path, at, &editor);
                editor.apply(&TreeOperation::Set { at: at.clone(), value: value.clone(), position })?;
            }
            Operation::Remove { at } => editor.apply(&TreeOperation::Remove { at: at.clone() })?,
            Operation::Insert { at, value } => {
                editor.apply(&TreeOperation::Insert { at: at.clone(), value: value.clone() })?;
            }
            Operation::Move { from, to } => {
                editor.apply(&TreeOperation::Move { from: from.clone(), to: to.clone() })?;
            }
            Operation::RenameStep { from, to } => {
                let operations = if model::test_suite::is_test_file(path) {
                    rename_in_tests::rename(editor.find(&[]), from, to)?
                } else {
                    rename::rename(Source::new(path, editor.text()), from, to)?
                };
                for operation in operations {
                    editor.apply(&operation)?;
                }
            }
            Operation::ReplaceTrigger { .. }
                if editor.find(&[Segment::Key("triggers".to_owned())]).is_some() =>
            {
                let message = "the file has several triggers; change one below `triggers` in its text";
                return Err(EditError::Invalid(message.to_owned()));
            }
            Operation::ReplaceTrigger { value } => {
                let at = vec![Segment::Key("trigger".to_owned())];
                let position = position(path, &at, &editor);
                editor.apply(&TreeOperation::Set { at, value: value.clone(), position })?;
            }
        }
    }
    Ok(editor.finish())
}

/// The position of a new key of an automation or a step: after the last present key that is documented before it. Keys of a verb
/// and all others go to the end.
fn position(path: &str, at: &[Segment], editor: &Editor<'_>) -> Position {
    let Some((Segment::Key(key), parents)) = at.split_last() else { return Position::Last };
    let is_automation = path.starts_with("automations/") && !model::test_suite::is_test_file(path);
    let keys = match parents.last() {
        _ if !is_automation => return Position::Last,
        None => AUTOMATION.keys,
        Some(Segment::Index(_)) => STEP_KEYS,
        Some(Segment::Key(_)) => return Position::Last,
    };
    let Some(index) = keys.iter().position(|known| known.name == key) else { return Position::Last };
    let Some(map) = editor.find(parents).and_then(|node| node.as_map()) else { return Position::Last };
    let before = keys[..index].iter().rev().find(|known| map.get(known.name).is_some());
    before.map_or(Position::First, |known| Position::After(known.name.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "\
name: Orders # for people

trigger:
  manual: {}

steps:
  # the first
  - id: page
    action: http.request
    with:
      url: https://example.com/${{ inputs.steps }}
  - if: steps.page.results.ok and steps['page'].results.n > 1 and 'steps.page' != x
    id: other
    needs: [page]
    set:
      a: ${{ steps.page.results.id }} and ${{ $.steps.page.results.id }} # steps.page
      b: steps.page
  - code: |
      export default async (context, stepResults) => {
        const page = stepResults.page.results; // don't
        return stepResults['page'].results;
      };
outputs: ${{ steps.page.results }}
";

    fn operations(value: Value) -> Vec<Operation> {
        serde_json::from_value(value).expect("they are operations")
    }

    fn edited(text: &str, value: Value) -> String {
        match edit_file("automations/a.yaml", text, &operations(value)) {
            Ok(edited) => edited.text,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn an_edit_is_limited_to_a_hundred_operations() {
        let operation = Operation::ReplaceTrigger { value: json!({"manual": {}}) };
        let edit = |count| edit_file("automations/a.yaml", FILE, &vec![operation.clone(); count]);
        assert!(edit(100).is_ok());
        assert!(matches!(edit(101), Err(EditError::Invalid(reason)) if reason.contains("at most 100")));
    }

    #[test]
    fn renaming_a_step_renames_its_references() {
        let renamed = edited(FILE, json!([{"op": "renameStep", "from": "page", "to": "made"}]));
        let expected = FILE
            .replace("id: page", "id: made")
            .replace("needs: [page]", "needs: [made]")
            .replace(
                "if: steps.page.results.ok and steps['page']",
                "if: steps.made.results.ok and steps['made']",
            )
            .replace("{ steps.page", "{ steps.made")
            .replace("$.steps.page", "$.steps.made")
            .replace("stepResults.page", "stepResults.made")
            .replace("stepResults['page']", "stepResults['made']");
        assert_eq!(renamed, expected);
    }

    #[test]
    fn renaming_a_step_without_id_adds_an_id() {
        let text = "trigger: {manual: {}}\nsteps:\n  - name: Make it\n    set: {a: 1}\n  - set: {b: '${{ steps.makeIt.results }}'}\n";
        let renamed = edited(text, json!([{"op": "renameStep", "from": "makeIt", "to": "made"}]));
        let expected = text
            .replace("- name: Make it", "- id: made\n    name: Make it")
            .replace("steps.makeIt", "steps.made");
        assert_eq!(renamed, expected);
    }

    #[test]
    fn renaming_to_a_taken_or_invalid_name_is_rejected() {
        for (from, to) in [("page", "other"), ("page", "a b"), ("page", "trigger"), ("none", "x")] {
            let operation = Operation::RenameStep { from: from.to_owned(), to: to.to_owned() };
            let error = edit_file("automations/a.yaml", FILE, &[operation]).expect_err("it is refused");
            assert!(matches!(error, EditError::Invalid(_)), "{from} {to}: {error}");
        }
    }

    #[test]
    fn renaming_a_step_updates_its_test_file() {
        let text = "\
doubles:
  page: {result: 1} # of page
  wiki.page: {result: 2}
tests:
  - name: page
    doubles: {\"page\": [{result: {page: 1}}]}
    approvals: [{step: 'page[2]', option: page}]
    expect:
      result: {page: 1}
      error: {step: page}
      steps: {page: succeeded, \"page[1]\": skipped, other: {result: page}}
      calls: [{step: page, with: {page: 1}}, {action: wiki.page}]
      logs: [{step: page, message: page}]
      that:
        - steps.page.results.n == 1 and result.page == 'steps.page'
  - name: counts
    expect: {calls: {page: 1}, that: \"steps['page'].results\"}
";
        let operation = [Operation::RenameStep { from: "page".to_owned(), to: "made".to_owned() }];
        let edited = edit_file("automations/a.test.yaml", text, &operation).expect("it is renamed");
        let expected = text
            .replacen("  page: {result", "  made: {result", 1)
            .replace("{\"page\"", "{\"made\"")
            .replace("'page[2]'", "'made[2]'")
            .replace("error: {step: page}", "error: {step: made}")
            .replace("{page: succeeded, \"page[1]\"", "{made: succeeded, \"made[1]\"")
            .replace("[{step: page, with", "[{step: made, with")
            .replace("[{step: page, message", "[{step: made, message")
            .replace("- steps.page", "- steps.made")
            .replace("{calls: {page", "{calls: {made")
            .replace("steps['page']", "steps['made']");
        assert_eq!(edited.text, expected);
        let unnamed = edit_file("automations/a.test.yaml", "tests: [{name: page}]\n", &operation);
        assert!(unnamed.expect("nothing names it").changes.is_empty());
        let taken = "doubles: {page: {result: 1}, made: {result: 2}}\ntests: []\n";
        let refused = edit_file("automations/a.test.yaml", taken, &operation);
        assert!(matches!(refused, Err(EditError::Invalid(_))), "{refused:?}");
    }

    #[test]
    fn a_new_key_is_inserted_in_the_documented_order() {
        let text = edited(
            FILE,
            json!([
                {"op": "set", "at": ["enabled"], "value": false},
                {"op": "set", "at": ["steps", 0, "retry"], "value": 3},
                {"op": "set", "at": ["id"], "value": "orders"},
                {"op": "set", "at": ["timeout"], "value": "5m"},
            ]),
        );
        assert!(
            text.starts_with("id: orders\nname: Orders # for people\nenabled: false\n\ntrigger:"),
            "{text}"
        );
        assert!(text.contains("  - id: page\n    retry: 3\n    action: http.request\n"), "{text}");
        assert!(text.ends_with("outputs: ${{ steps.page.results }}\ntimeout: 5m\n"), "{text}");
    }

    #[test]
    fn replacing_a_trigger_keeps_the_common_keys() {
        let text = "trigger:\n  # who sends\n  webhook:\n    mode: sync\n  if: a\n  rateLimit: {limit: 1}\nsteps: []\n";
        let value = json!({"schedule": {"every": "10m"}, "if": "a"});
        let changed = edited(text, json!([{"op": "replaceTrigger", "value": value}]));
        assert_eq!(changed, "trigger:\n  # who sends\n  if: a\n  schedule:\n    every: 10m\nsteps: []\n");
    }
}
