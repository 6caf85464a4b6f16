//! The description of `events.emit`.

use model::action::{ActionSpec, Effect, InputType, ResultType};
use value::{Map, Value};

use super::{input, spec};

pub(super) fn specs() -> Vec<ActionSpec> {
    let inputs = vec![
        input("name", InputType::Text, true, "The event's name, as in the `waitFor` steps"),
        input(
            "data",
            InputType::Any,
            false,
            "The result of those steps, and the data of the executions that it starts",
        ),
    ];
    let example = Map::from_iter([("name", Value::from("order-17-paid"))]);
    let title = "Send an event to the executions that wait for it, and to the triggers that it starts";
    let mut emit = spec(
        "events.emit",
        title,
        Effect::Write,
        inputs,
        (
            "`{delivered, id, starts}`: the number of steps that received it, its id, and the triggers that it starts",
            ResultType::object([
                ("delivered", ResultType::Integer),
                ("id", ResultType::Text),
                ("starts", ResultType::list(ResultType::Text)),
            ]),
        ),
        example,
    );
    emit.description = Some(
        "Executions that wait receive it at once. It is kept for 7 days for executions that were accepted before and wait for it later. Triggers with its name start once for each event, after the end of the step is stored. If a crash repeats it, it counts once for each of them."
            .to_owned(),
    );
    vec![emit]
}
