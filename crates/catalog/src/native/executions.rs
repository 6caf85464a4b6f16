//! The description of `executions.cancel`.

use model::action::{ActionSpec, Effect, InputType, ResultType};
use value::{Map, Value};

use super::{input, spec};

pub(super) fn specs() -> Vec<ActionSpec> {
    let inputs = vec![
        input(
            "executionId",
            InputType::Text,
            true,
            "The execution: `steps.<id>.results.executionId` of the `call`",
        ),
        input("reason", InputType::Text, false, "The reason, which its history shows"),
    ];
    let id = Value::from("0196f1c2-4d2a-7b3e-9c11-5a8d0e7f4b26");
    let example = Map::from_iter([("executionId", id), ("reason", Value::from("the order was withdrawn"))]);
    let mut cancel = spec(
        "executions.cancel",
        "Cancel an execution that this one has called",
        Effect::Write,
        inputs,
        ("`{cancelled}`: true if it had not ended", ResultType::object([("cancelled", ResultType::Boolean)])),
        example,
    );
    cancel.description = Some(
        "Ends an execution that a `call` of this execution has started, such as one with `async: true`. Its `finally` steps run. Of any other execution it fails."
            .to_owned(),
    );
    vec![cancel]
}
