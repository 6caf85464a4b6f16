//! The JSON Schema of manifests, for completion and help in editors.
//!
//! Each manifest that the reader accepts is valid, but not the reverse: only the reader checks that locations fit the
//! request line and that examples match their actions.

mod connection;
mod parts;

use serde_json::{Map, Value, json};

use super::Natives;
use crate::http::BodyFormat;
use parts::{Key, flag, map_of, name, named, object, one_or_more, put, schema_of, strings, text, words};

const TYPE_NAME: &str = "^[A-Z][A-Za-z0-9]*$";
const PLACE: &str = "^(path|query|header|body|variable|upload)( .*)?$";
const INPUT_TYPES: [&str; 10] =
    ["any", "text", "integer", "number", "boolean", "choice", "list", "object", "map", "file"];
const RESULT_TYPES: [&str; 11] =
    ["any", "null", "text", "integer", "number", "boolean", "file", "choice", "list", "map", "object"];

/// Returns the schema of a manifest.
pub(crate) fn manifest(natives: &Natives) -> Value {
    let mut schema = object(&[
        ("*connector", name(), "The name before the dot in `shop.createOrder`; camelCase."),
        ("*title", text(), "The title, for people."),
        ("*version", text(), "The version of this file, for people; in quotes if it looks like a number."),
        ("description", text(), "Further information for authors."),
        (
            "subject",
            text(),
            "The name of the service in messages such as: `the shop` answered 404. Default: the title.",
        ),
        ("baseUrl", text(), "The address of every call, unless the connection has one."),
        ("headers", map_of(json!({"type": "string"})), "Headers of every request."),
        ("connections", named(schema_of("connection")), "The types of connections, by name."),
        (
            "connection",
            words(&["required", "optional"]),
            "`required` or `optional`: steps must, or may, name a connection. Default: required if there are types.",
        ),
        ("inputs", named(schema_of("declaredInput")), "Inputs, declared once; actions refer to them."),
        ("types", types(), "Types of results, declared once; actions and other types refer to them."),
        ("paging", paging(), "How to request further pages of a list."),
        ("errors", errors(), "Where an answer states an error. Default: the common forms."),
        (
            "idempotency",
            idempotency(),
            "How the service takes the key that is the same for each attempt at a step; `none` if it takes none. Default: the header `Idempotency-Key`, whether or not the service honours it.",
        ),
        ("rate", rate(), "The headers with the number of calls that are left."),
        ("proof", proof(), "The evidence that this file fits the service."),
        ("actions", named(schema_of("action")), "The actions, by name."),
        ("natives", native(natives), "Native actions of Cogwork to include."),
        ("events", named(schema_of("event")), "Events of the service that can start automations, by name."),
    ]);
    put(&mut schema, "$schema", json!("https://json-schema.org/draft/2020-12/schema"));
    put(&mut schema, "title", json!("Connector"));
    put(&mut schema, "description", json!("A connector: connection types, and actions as requests."));
    put(&mut schema, "anyOf", json!([{"required": ["actions"]}, {"required": ["natives"]}]));
    put(&mut schema, "$defs", definitions());
    schema
}

fn definitions() -> Value {
    json!({
        "connection": connection::connection(),
        "connectionInput": input(&[("secret", flag(), "`true`: the value is never shown, logged or stored. Default: false.")]),
        "declaredInput": input(&[
            ("omitDefault", flag(), "`true`: the default is not sent, because the service has the same one. Default: false."),
            ("join", json!({"type": "string"}), "The text between the items of a list in one parameter; without it the parameter is repeated."),
            ("split", json!({"type": "string", "minLength": 1}), "The text that separates items in a text given for a list: with `,` the text `1,2` is two items."),
            ("notEmpty", flag(), "For a text, `true`: an empty text is an error; otherwise it is left out. Default: false."),
        ]),
        "field": input(&[]),
        "innerType": {"anyOf": [{"enum": ["any", "text", "integer", "number", "boolean", "file"]}, input(&[])]},
        "inputNames": one_or_more(name()),
        "credentialField": connection::credential_field(),
        "action": action(),
        "places": one_or_more(json!({"type": "string", "pattern": PLACE, "examples": ["path", "query", "header", "body"]})),
        "event": event(),
        "example": example("*request"),
        "nativeExample": example("request"),
        "type": result_type(&[]),
        "resultField": result_type(&[("optional", flag(), "`true`: it may be absent. Default: false.")]),
    })
}

/// Returns the schema of an input, with further keys.
fn input(more: &[Key]) -> Value {
    let number = || json!({"type": "integer"});
    let mut keys: Vec<Key> = vec![
        ("*type", words(&INPUT_TYPES), "The type of the value."),
        ("description", text(), "The meaning, in a sentence."),
        ("required", flag(), "`true`: it must be given. Default: false."),
        ("default", json!({}), "The value if it is not given."),
        ("min", number(), "The minimum of an integer."),
        ("max", number(), "The maximum of an integer."),
        ("options", strings(), "The values of a choice."),
        ("items", schema_of("innerType"), "The type of the items of a list."),
        ("values", schema_of("innerType"), "The type of the values of a map."),
        ("fields", map_of(schema_of("field")), "The entries of an object."),
    ];
    keys.extend(more.iter().cloned());
    let mut schema = object(&keys);
    put(&mut schema, "allOf", needs());
    schema
}

/// Returns the conditions that require the keys of compound types.
fn needs() -> Value {
    let needs = [("choice", "options"), ("list", "items"), ("map", "values"), ("object", "fields")];
    let cases = needs.map(|(word, key)| {
        let is = json!({"type": "object", "properties": {"type": {"const": word}}, "required": ["type"]});
        json!({"if": is, "then": {"required": [key]}})
    });
    json!(cases)
}

fn paging() -> Value {
    let mut next = object(&[
        ("body", text(), "A path in the body."),
        (
            "bodyLink",
            text(),
            "A path in the body to the address of the next page, which is requested as it is.",
        ),
        ("lastItem", text(), "A path in the last item of the page."),
        ("link", text(), "The relation of an entry of the `Link` header."),
        ("header", text(), "The name of a header."),
        ("parameter", text(), "The query parameter of the link that is the cursor."),
    ]);
    let places = ["body", "bodyLink", "lastItem", "link", "header"].map(|key| json!({"required": [key]}));
    put(&mut next, "oneOf", json!(places));
    object(&[
        ("*input", name(), "The input for the cursor, the page number or the offset."),
        (
            "style",
            words(&["cursor", "page", "offset", "graphql"]),
            "How to request the next page. Default: cursor.",
        ),
        (
            "next",
            json!({"type": "array", "items": next}),
            "Where to find the next cursor, in this order; for the style `cursor`.",
        ),
        ("first", json!({"enum": [0, 1]}), "The number of the first page; for the style `page`. Default: 1."),
        (
            "more",
            text(),
            "A path in the body to what is true as long as there are more; for `cursor`, `page` and `offset`.",
        ),
        ("total", text(), "A path in the body to how many there are: pages for `page`, items for `offset`."),
        (
            "items",
            text(),
            "A path in the body to the items. Default: `results`, or the body if it is a list; `nodes` for the style `graphql`.",
        ),
        ("limit", name(), "The input for the maximum number of items in an answer."),
    ])
}

/// A mark in a response.
fn mark() -> Value {
    object(&[
        ("*path", text(), "A path in the body."),
        (
            "is",
            json!({}),
            "The value, or a list of the values, that it leads to. Default: any value but null.",
        ),
    ])
}

fn operation() -> Value {
    object(&[
        (
            "*status",
            json!({"type": "string", "pattern": "^GET /", "examples": ["GET /operations/{id}"]}),
            "The request that looks at it: `{id}` is its id; other names are inputs of the action.",
        ),
        ("*id", text(), "The path to its id in the answer to the first request."),
        ("*done", mark(), "The mark of an answer that says that it has ended."),
        ("failed", mark(), "The mark of an answer that says that it has failed; it counts before `done`."),
        ("result", text(), "The path to the result in the last answer. Default: the whole answer."),
        (
            "every",
            text(),
            "The pause before the first looks, 1s to 1h. Later it is a tenth of the time so far, to 10m. Default: 2s.",
        ),
        ("atMost", text(), "The time limit, to 30d. Default: 1h."),
    ])
}

fn upload() -> Value {
    let mut location = object(&[
        ("header", text(), "The header with it, such as `Location`."),
        ("body", text(), "The path to it in the body."),
    ]);
    put(&mut location, "minProperties", json!(1));
    put(&mut location, "maxProperties", json!(1));
    object(&[
        (
            "*protocol",
            words(&["google", "microsoft"]),
            "How the service says what it has: `google` with 308 and the header `Range`, `microsoft` with `nextExpectedRanges`.",
        ),
        ("*location", location, "Where the answer to the request has the address of the upload."),
        (
            "chunk",
            text(),
            "The size of a piece, a multiple of 256KiB (`google`) or 320KiB (`microsoft`), to 60MiB. Default: 8MiB or 10MiB.",
        ),
        (
            "hosts",
            one_or_more(text()),
            "Hosts besides the service's own that take the file; `*.example.com` stands for all below it. They get no credentials.",
        ),
    ])
}

fn errors() -> Value {
    let paths = || one_or_more(text());
    let when = mark();
    object(&[
        ("message", paths(), "Paths in the body to the error message; the first one that exists counts."),
        ("detail", paths(), "Paths in the body to details."),
        ("code", paths(), "Paths in the body to a code for programs."),
        ("requestId", paths(), "Headers with the id of the request."),
        ("when", when, "The mark of a refusal in an answer with a good status."),
        (
            "retry",
            paths(),
            "Codes of temporary errors: such an error is of the kind `network`, which `retry` repeats.",
        ),
        (
            "unknown",
            paths(),
            "Codes of failures in the middle of the work: of a change, `error.outcomeUnknown` is true; a read is repeated.",
        ),
        ("retryAfter", text(), "A path in the body to the seconds to wait."),
    ])
}

fn idempotency() -> Value {
    let mut place = object(&[
        ("header", text(), "The header that the service honours."),
        ("body", text(), "A path in the body."),
    ]);
    put(&mut place, "minProperties", json!(1));
    put(&mut place, "maxProperties", json!(1));
    json!({"anyOf": [words(&["none", "safe"]), place]})
}

fn rate() -> Value {
    object(&[
        ("*remaining", text(), "The header with the number of calls that are left."),
        ("*reset", text(), "The header with the end of the window."),
        (
            "unit",
            words(&["seconds", "milliseconds", "epoch", "time"]),
            "The notation of the end: seconds or milliseconds from now, seconds since 1970, or RFC 3339. Default: seconds.",
        ),
    ])
}

fn proof() -> Value {
    object(&[
        (
            "*by",
            words(&["openapi", "examples", "live"]),
            "The service's own description, the examples of its reference, or calls of the service.",
        ),
        ("*date", json!({"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"}), "The day of the proof."),
    ])
}

/// An input of an action, with its place in the request.
fn wire() -> Value {
    object(&[
        ("*to", schema_of("places"), "Its place in the request."),
        ("use", name(), "The declared input, if it has another name here."),
        ("required", flag(), "`true`: it must be given."),
        (
            "requiredUnless",
            json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1, "maxProperties": 1}),
            "Another input and the value of it with which this one may be left out: `{status: draft}`.",
        ),
        ("description", text(), "The meaning here."),
    ])
}

fn action() -> Value {
    let wires = json!({"type": "object", "additionalProperties": {"anyOf": [schema_of("places"), wire()]}});
    object(&[
        ("*title", text(), "The title, in one line."),
        ("description", text(), "Further information for authors."),
        (
            "*request",
            json!({"type": "string", "pattern": "^[A-Z]+ /", "examples": ["GET /orders/{orderId}"]}),
            "The request line: method and path, with `{input}` where an input goes.",
        ),
        (
            "inputs",
            wires,
            "Where each input goes: `path`, `query name`, `header Name`, `body path.in.it` or `variable name`.",
        ),
        ("fixed", map_of(json!({})), "Constant values, by place: `body kind: order`."),
        (
            "encoding",
            json!({"anyOf": [words(&["json", "form", "multipart"]), object(&[("*form", words(&["repeat", "brackets", "json"]), "How a form writes lists and maps: a field for each item and a map as JSON (`form` alone); names in brackets, `items[0][price]`; or both as JSON.")])]}),
            "The encoding of the body. Default: json.",
        ),
        (
            "graphql",
            object(&[("*query", text(), "The query or mutation; its variables are inputs.")]),
            "A GraphQL call: the result is the `data` of the answer.",
        ),
        (
            "idempotency",
            idempotency(),
            "How the service takes the key of this call; `safe` if it needs none, since a repeated call changes nothing more. Default: that of the connector.",
        ),
        (
            "redirect",
            object(&[(
                "*hosts",
                one_or_more(text()),
                "Names of hosts; `*.example.com` stands for all below it.",
            )]),
            "The hosts to which the service may redirect this read, without the credentials. Default: all.",
        ),
        (
            "download",
            flag(),
            "`true`: the answer is a file, which is written while it arrives and may be larger than other answers. Default: false.",
        ),
        (
            "operation",
            operation(),
            "Work that goes on after the request: the step pauses, and looks at it until it ends.",
        ),
        (
            "upload",
            upload(),
            "The request begins an upload; the input with the place `upload` is sent in pieces afterwards.",
        ),
        ("answer", words(&BodyFormat::NAMES), "How to parse the answer. Default: json."),
        (
            "paging",
            json!({"anyOf": [flag(), object(&[("*items", text(), "A path in the body to its items.")])]}),
            "`true` for a list with further pages, or the path of its items if it differs from that of the connector. Default: false.",
        ),
        ("effect", words(&["read", "write"]), "The outside effect. Default: by the method."),
        ("results", schema_of("type"), "The type of the result, `steps.<id>.results`."),
        (
            "*example",
            schema_of("example"),
            "The inputs of a step, and the request that results. It is checked.",
        ),
    ])
}

fn event() -> Value {
    let mut event = object(&[
        ("*title", text(), "The title, in one line."),
        ("description", text(), "Further information for authors."),
        (
            "inputs",
            json!({"type": "array", "items": name()}),
            "Inputs of its actions that an author may set.",
        ),
        ("poll", poll(), "How Cogwork polls for it."),
        ("hook", hook(), "How Cogwork subscribes to it."),
    ]);
    put(&mut event, "oneOf", json!([{"required": ["poll"]}, {"required": ["hook"]}]));
    event
}

fn poll() -> Value {
    let created = object(&[
        ("*path", text(), "A path in each record."),
        ("*is", json!({}), "The value of a new record; other records are changed ones."),
    ]);
    let since = object(&[
        ("*input", name(), "The input for the instant."),
        (
            "newest",
            name(),
            "The input that, if true, limits the list to the newest record. Default: the first poll begins now.",
        ),
        ("overlap", name(), "The input in which an author sets `overlap`."),
        ("trigger", name(), "The input for a text that no other trigger has; for native actions."),
        (
            "position",
            name(),
            "The path, in the result, to the position that the next call gets in place of an instant; for native actions.",
        ),
    ]);
    object(&[
        ("*action", name(), "The action that lists the records: newest first, or with `since` oldest first."),
        ("with", map_of(json!({})), "Its constant inputs."),
        ("*items", text(), "The path to the list in the result."),
        ("*id", one_or_more(text()), "The paths in each record to the values that identify it."),
        ("*time", text(), "The path in each record to the timestamp by which the list is sorted."),
        ("created", created, "How to recognise a new record. Default: all are new."),
        (
            "record",
            text(),
            "The path in each record to the part that starts an execution. Default: the whole record.",
        ),
        ("since", since, "The inputs of a list that begins at an instant, oldest first."),
        ("cursor", name(), "The input for the next page. Default: that of `paging`."),
        ("wake", name(), "The input that makes the daemon listen and poll at once; for native actions."),
        ("every", text(), "The polling interval. Default: 5m."),
        ("overlap", text(), "How late a record may appear in the list. Default: 2m."),
    ])
}

fn hook() -> Value {
    let only = object(&[
        ("*header", text(), "The name of a header."),
        ("*is", text(), "The value of requests about this event; others are answered and start nothing."),
    ]);
    let list = object(&[
        ("*action", name(), "The action that lists the existing subscriptions."),
        ("with", map_of(json!({})), "Its constant inputs."),
        ("items", text(), "The path to the list in the result. Default: results."),
        ("*url", text(), "The path in each to its address."),
    ]);
    let renew = object(&[
        ("*action", name(), "The action that renews."),
        ("with", map_of(json!({})), "Its constant inputs."),
        ("idInput", name(), "Its input for the id of the subscription."),
        ("until", name(), "The input, of it and of `subscribe`, for the end that Cogwork asks for."),
        ("*lasts", text(), "The time from a call to the end, such as `2d`."),
        (
            "expires",
            text(),
            "The path in both results to the end that the service gave. Default: `lasts` after the call.",
        ),
        ("before", text(), "The time before the end at which it is renewed. Default: 1h."),
    ]);
    object(&[
        ("*subscribe", name(), "The action that subscribes."),
        ("with", map_of(json!({})), "Its constant inputs."),
        ("*url", name(), "Its input for our address."),
        ("secret", name(), "Its input for the secret that signs the requests, which Cogwork makes."),
        (
            "verifySecret",
            name(),
            "Instead: the input of the connection with the secret that signs the requests, if the service has one for all.",
        ),
        (
            "secretFrom",
            text(),
            "Instead: the path in the result to the secret that signs the requests, if the service makes it.",
        ),
        ("*id", text(), "The path to the id of the subscription in the result."),
        ("*unsubscribe", name(), "The action that unsubscribes."),
        ("idInput", name(), "Its input for the id; without it the application has one subscription only."),
        ("list", list, "How to find a subscription that only the other application has recorded."),
        ("renew", renew, "How a subscription is renewed that ends by itself. Default: it lasts."),
        ("*verify", text(), "The preset by which requests are verified."),
        (
            "challenge",
            text(),
            "The preset with which the service checks the address first, such as `microsoftGraph`. Default: it does not.",
        ),
        (
            "delivery",
            json!({"anyOf": [text(), object(&[("*body", text(), "A path in the body.")])]}),
            "The header, or the place in the body, that identifies a delivery, the same when it is repeated.",
        ),
        ("only", only, "The header value of requests about this event. Default: all requests."),
    ])
}

fn example(request: &'static str) -> Value {
    let mut keys = vec![
        ("*with", map_of(json!({})), "The inputs of a step."),
        (request, text(), "The resulting request line."),
        ("body", json!({}), "The resulting body."),
        ("headers", map_of(json!({})), "Headers that the request must contain."),
    ];
    if request.starts_with('*') {
        let look = object(&[
            ("*request", text(), "The resulting request line."),
            ("*answer", json!({}), "What the service answers once it has ended; it must fit `results`."),
        ]);
        keys.push(("answer", json!({}), "What the service answers; it must fit `results`."));
        keys.push(("status", look, "The last look at the operation that the request starts."));
    }
    object(&keys)
}

fn native(natives: &Natives) -> Value {
    let settings = object(&[
        ("path", text(), "The constant path of the call."),
        (
            "*example",
            schema_of("nativeExample"),
            "The inputs of a step, and the request that results. It is checked.",
        ),
    ]);
    let names: Map<String, Value> =
        natives.iter().map(|(name, _)| ((*name).to_owned(), settings.clone())).collect();
    json!({"type": "object", "properties": names, "additionalProperties": false})
}

fn types() -> Value {
    json!({"type": "object", "propertyNames": {"pattern": TYPE_NAME}, "additionalProperties": schema_of("type")})
}

/// Returns the schema of a result type: a simple type, the name of a type, or a mapping, with further keys.
fn result_type(more: &[Key]) -> Value {
    let word = || json!({"anyOf": [{"enum": RESULT_TYPES}, {"type": "string", "pattern": TYPE_NAME}, {"type": "null"}]});
    let fields = json!({"type": "object", "additionalProperties": schema_of("resultField")});
    let mut keys: Vec<Key> = vec![
        ("*type", word(), "A word, or the name of a type under `types`."),
        ("description", text(), "The meaning."),
        ("nullable", flag(), "`true`: the value may be null. Default: false."),
        ("options", strings(), "The values of a choice."),
        ("items", schema_of("type"), "The type of the items of a list."),
        ("values", schema_of("type"), "The type of the values of a map."),
        ("fields", fields, "The entries of an object."),
        ("open", flag(), "`true`: an object may have further entries. Default: false."),
    ];
    keys.extend(more.iter().cloned());
    let mut mapping = object(&keys);
    put(&mut mapping, "allOf", needs());
    json!({"anyOf": [word(), mapping]})
}
