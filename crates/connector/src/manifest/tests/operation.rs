//! Tests of the declaration of operations.

use pretty_assertions::assert_eq;

use super::read_text;
use super::service::manifest_with;

const ACTION: &str = "  make:
    title: Make
    request: POST /items
    inputs: {cursor: body name, items: body items}
    operation:
      status: GET /operations/{id}
      id: operation.id
      done: {path: done, is: true}
      failed: {path: error}
      every: 2s
    results: {type: object, fields: {done: boolean}}
    example:
      with: {cursor: a}
      request: POST /items
      body: {name: a}
      answer: {operation: {id: 17}}
      status: {request: GET /operations/17, answer: {done: true}}
";

#[test]
fn an_operation_is_checked_where_it_is_read() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(ACTION.contains(from), "{from}");
        let text = manifest_with("", "{bearer: key}", &ACTION.replace(from, to));
        let (_, errors) = read_text(&text);
        assert_eq!(errors, expected, "{to}");
    };
    check("every: 2s", "every: 1h", "");
    check("every: 2s", "every: 2h", "28:7: `every` is from 1s to 1h\n");
    check("every: 2s", "every: 100ms", "28:7: `every` is from 1s to 1h\n");
    check("every: 2s", "atMost: 31d", "28:7: `atMost` is from 2s to 30d\n");
    check("every: 2s", "atMost: 30d", "");
    check("GET /operations/{id}\n", "POST /operations/{id}\n", "24:15: a POST looks at nothing\n");
    check(
        "/operations/{id}\n",
        "/operations\n",
        "23:5: the path of `status` has no `{id}` for the id of the operation\n",
    );
    check(
        "/operations/{id}\n",
        "/operations/{id}/{limit}\n",
        "24:36: `status` names `limit`, which is no input of this action\n",
    );
    check(
        "/operations/{id}\n",
        "/operations/{id}/{cursor}\n",
        "22:14: `status` needs `cursor`, which may be left out\n",
    );
    check(
        "{cursor: body name",
        "{id: body id, cursor: body name",
        "22:14: `{id}` in `status` is the id of the operation, not this input\n",
    );
    check(
        "answer: {operation: {id: 17}}",
        "answer: {operation: {}}",
        "34:16: the answer of the example does not fit the action: it has no id of the operation at `operation.id`\n",
    );
    check(
        "GET /operations/17",
        "GET /operations/18",
        "35:16: the example does not show the look: the request is `GET /operations/17`\n",
    );
    check(
        "answer: {done: true}}",
        "answer: {done: false}}",
        "35:16: the last answer of the example does not fit the action: `done` does not take it for an end\n",
    );
    check(
        "answer: {done: true}}",
        "answer: {done: true, error: {}}}",
        "35:16: the last answer of the example does not fit the action: `failed` takes it for a failure\n",
    );
    check(
        "      status: {request: GET /operations/17, answer: {done: true}}\n",
        "",
        "31:7: the example of an operation needs `status: {request, answer}`, its last look\n",
    );
    check(
        "    operation:\n",
        "    answer: json\n    operation:\n",
        "24:5: an action cannot have both `answer` and `operation`\n",
    );
}
