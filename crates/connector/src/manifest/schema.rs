//! The JSON Schema of a manifest, so that editors complete and explain it.
//!
//! Every manifest that is read is valid by it, not the other way round: that places fit the request line, or that an
//! example shows what its action does, only the reader knows.

use serde_json::{Map, Value, json};

use super::Natives;
use crate::http::Reading;

const NAME: &str = "^[a-z][A-Za-z0-9]*$";
const TYPE_NAME: &str = "^[A-Z][A-Za-z0-9]*$";
const PLACE: &str = "^(path|query|header|body)( .*)?$";
const INPUT_TYPES: [&str; 10] =
    ["any", "text", "integer", "number", "boolean", "choice", "list", "object", "map", "file"];
const RESULT_TYPES: [&str; 11] =
    ["any", "null", "text", "integer", "number", "boolean", "file", "choice", "list", "map", "object"];

/// A key: its name, what may stand there, and what it means. One that begins with `*` has to be there.
type Key = (&'static str, Value, &'static str);

/// The schema of a manifest.
pub(crate) fn manifest(natives: &Natives) -> Value {
    let mut schema = object(&[
        ("*connector", name(), "The name before the dot in `shop.createOrder`; camelCase."),
        ("*title", text(), "What it is called, for people."),
        ("*version", text(), "The version of this file, for people; in quotes if it looks like a number."),
        ("description", text(), "What else an author should know."),
        (
            "subject",
            text(),
            "Who is called, in messages such as: `the shop` answered 404. Default: the title.",
        ),
        ("baseUrl", text(), "The address of every call, if connections do not name one."),
        ("headers", map_of(json!({"type": "string"})), "Headers of every request."),
        ("connections", named(of("connection")), "The types of connections, by name."),
        (
            "connection",
            words(&["required", "optional"]),
            "Whether steps must name a connection. Default: required if there are types.",
        ),
        ("inputs", named(of("declaredInput")), "Inputs, declared once; actions name them."),
        ("types", types(), "Types of results, declared once; actions and other types name them."),
        ("paging", paging(), "How lists go on."),
        ("errors", errors(), "Where an answer says what went wrong. Default: the common shapes."),
        ("actions", named(of("action")), "The actions, by name."),
        ("natives", native(natives), "Actions of Cogwork's own to switch on."),
        ("events", named(of("event")), "What happens there and may start automations, by name."),
    ]);
    put(&mut schema, "$schema", json!("https://json-schema.org/draft/2020-12/schema"));
    put(&mut schema, "title", json!("Connector"));
    put(
        &mut schema,
        "description",
        json!("One file, one connector: connection types, and actions as requests."),
    );
    put(&mut schema, "anyOf", json!([{"required": ["actions"]}, {"required": ["natives"]}]));
    put(&mut schema, "$defs", definitions());
    schema
}

fn definitions() -> Value {
    json!({
        "connection": connection(),
        "connectionInput": input(&[("secret", flag(), "Whether it is never shown, logged or stored. Default: false.")]),
        "declaredInput": input(&[
            ("omitDefault", flag(), "Whether the default is not sent, since the other side has the same one. Default: false."),
            ("join", json!({"type": "string"}), "What joins the items of a list in one parameter; without it the parameter is repeated."),
            ("split", json!({"type": "string", "minLength": 1}), "What separates several items in a text of a list: with `,` the text `1,2` is two items."),
            ("notEmpty", flag(), "Of a text: whether an empty one is an error, and not left out. Default: false."),
        ]),
        "field": input(&[]),
        "innerType": {"anyOf": [{"enum": ["any", "text", "integer", "number", "boolean", "file"]}, input(&[])]},
        "inputNames": one_or_more(name()),
        "action": action(),
        "places": one_or_more(json!({"type": "string", "pattern": PLACE, "examples": ["path", "query", "header", "body"]})),
        "event": event(),
        "example": example("*request"),
        "nativeExample": example("request"),
        "type": result_type(&[]),
        "resultField": result_type(&[("optional", flag(), "Whether it may be absent. Default: false.")]),
    })
}

fn connection() -> Value {
    let basic = object(&[
        ("*user", of("inputNames"), "The input with the user's name."),
        (
            "*password",
            of("inputNames"),
            "The input with the password, or several of which the first given counts.",
        ),
    ]);
    let mut header = object(&[
        ("name", text(), "The name of the header."),
        ("nameFrom", name(), "The input with the name of the header."),
        ("*value", of("inputNames"), "The input with the value."),
        ("prefix", json!({"type": "string"}), "What stands before the value."),
    ]);
    put(&mut header, "oneOf", json!([{"required": ["name"]}, {"required": ["nameFrom"]}]));
    let mut auth = object(&[
        ("basic", basic, "User name and password (RFC 7617)."),
        ("bearer", of("inputNames"), "The input with the token (RFC 6750)."),
        ("header", header, "A header with the key."),
        (
            "oauth2",
            oauth(),
            "Tokens that somebody consents to, or that the client gets by itself (OAuth 2.0).",
        ),
        ("none", json!({"default": true}), "No credentials."),
    ]);
    put(&mut auth, "minProperties", json!(1));
    put(&mut auth, "maxProperties", json!(1));
    let address = object(&[
        ("*input", name(), "The input with the address."),
        ("strip", text(), "A path that the address may end in and that is taken away."),
    ]);
    object(&[
        ("*title", text(), "What it is, in one line."),
        ("description", text(), "What else an author should know."),
        ("*inputs", named(of("connectionInput")), "What it is given."),
        ("baseUrl", address, "Where the address comes from, if the connector has none."),
        ("*auth", auth, "How credentials are sent."),
        (
            "test",
            object(&[
                ("*action", name(), "An action of this connector that changes nothing."),
                ("with", json!({"type": "object"}), "Its inputs."),
            ]),
            "A cheap call that shows whether a connection works.",
        ),
        (
            "words",
            map_of(name()),
            "Words of choices and of answers that the service may call otherwise, each with the input that says how.",
        ),
        (
            "requestId",
            name(),
            "The input with the name of the header by which the service's support finds a request.",
        ),
    ])
}

fn oauth() -> Value {
    let sites = object(&[
        ("*list", text(), "The path of the list of sites at the connection's address."),
        (
            "*choice",
            name(),
            "The input with the name or the address of the site that is meant; the first one without it.",
        ),
        ("*slug", name(), "The input with the product's word in paths: `/ex/<slug>/<id>`."),
        ("*product", name(), "The input with the product's word in scopes."),
        ("*word", text(), "The word in the default scopes that the product's own takes the place of."),
        (
            "paths",
            map_of(text()),
            "Paths of a site that have another name at the connection's address itself.",
        ),
    ]);
    object(&[
        (
            "*grant",
            words(&["authorizationCode", "clientCredentials"]),
            "Whether a person consents, or the client's own credentials are enough.",
        ),
        ("server", name(), "The input with the base of the identity provider, for the two paths."),
        ("authorizePath", text(), "The path where consent is asked for."),
        ("tokenPath", text(), "The path where tokens are issued."),
        ("authorizeUrl", name(), "The input with the whole address where consent is asked for."),
        ("tokenUrl", name(), "The input with the whole address where tokens are issued."),
        ("*clientId", name(), "The input with the client's id."),
        ("*clientSecret", name(), "The input with the client's secret."),
        ("scopes", name(), "The input with the scopes, apart by spaces."),
        (
            "moreScopes",
            object(&[
                ("*input", name(), "The input that is true or false."),
                ("*scopes", text(), "The scopes, apart by spaces."),
            ]),
            "What is asked for too where an input is true.",
        ),
        ("audience", name(), "The input with the address of which the host is the `audience`."),
        (
            "issuer",
            name(),
            "The input with what the identity provider calls itself in its answers (`iss`, RFC 9207).",
        ),
        ("parameters", map_of(text()), "Further parameters of the address where consent is asked for."),
        ("request", words(&["form", "json"]), "How tokens are asked for. Default: form."),
        ("sites", sites, "Where one token opens several sites behind a gateway."),
    ])
}

/// An input with its type, and further keys.
fn input(more: &[Key]) -> Value {
    let number = || json!({"type": "integer"});
    let mut keys: Vec<Key> = vec![
        ("*type", words(&INPUT_TYPES), "What may be given."),
        ("description", text(), "What it means, in a sentence."),
        ("required", flag(), "Whether it has to be given. Default: false."),
        ("default", json!({}), "What holds when it is not given."),
        ("min", number(), "The least, of an integer."),
        ("max", number(), "The most, of an integer."),
        ("options", strings(), "The texts that a choice can be."),
        ("items", of("innerType"), "The type of the items of a list."),
        ("values", of("innerType"), "The type of the values of a map."),
        ("fields", map_of(of("field")), "The entries of an object."),
    ];
    keys.extend(more.iter().cloned());
    let mut schema = object(&keys);
    put(&mut schema, "allOf", needs());
    schema
}

/// The keys that the compound types need.
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
        ("link", text(), "The relation of an entry of the `Link` header."),
        ("header", text(), "The name of a header."),
        ("parameter", text(), "The query parameter of the link found that is the cursor."),
    ]);
    let places = ["body", "link", "header"].map(|key| json!({"required": [key]}));
    put(&mut next, "oneOf", json!(places));
    object(&[
        ("*input", name(), "The input that takes the cursor, the number of the page or the offset."),
        (
            "style",
            words(&["cursor", "page", "offset"]),
            "What the next page is asked for with. Default: cursor.",
        ),
        (
            "next",
            json!({"type": "array", "items": next}),
            "Where the next cursor is looked for, in this order; for the style `cursor`.",
        ),
        ("first", json!({"enum": [0, 1]}), "The number of the first page; for the style `page`. Default: 1."),
        (
            "more",
            text(),
            "A path in the body to what is true as long as there are more; for `page` and `offset`.",
        ),
        ("total", text(), "A path in the body to how many there are: pages for `page`, items for `offset`."),
        (
            "items",
            text(),
            "A path in the body to the items. Default: `results`, or the body if it is a list.",
        ),
        ("limit", name(), "The input that says how many items an answer has at most."),
    ])
}

fn errors() -> Value {
    let paths = || one_or_more(text());
    object(&[
        ("message", paths(), "Paths in the body to what went wrong; the first that is there counts."),
        ("detail", paths(), "Paths in the body to more of it."),
        ("code", paths(), "Paths in the body to a code for programs."),
        ("requestId", paths(), "Headers with the id of the request."),
    ])
}

fn action() -> Value {
    let wire = object(&[
        ("*to", of("places"), "Where it goes in the request."),
        ("use", name(), "The declared input, if it goes by another name here."),
        ("required", flag(), "Whether it has to be given."),
        (
            "requiredUnless",
            json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1, "maxProperties": 1}),
            "The other input and its value with which alone this one may be left out: `{status: draft}`.",
        ),
        ("description", text(), "What it means here."),
    ]);
    let wires = json!({"type": "object", "additionalProperties": {"anyOf": [of("places"), wire]}});
    object(&[
        ("*title", text(), "What it does, in one line."),
        ("description", text(), "What else an author should know."),
        (
            "*request",
            json!({"type": "string", "pattern": "^[A-Z]+ /", "examples": ["GET /orders/{orderId}"]}),
            "The request line: method and path, with `{input}` where an input goes.",
        ),
        ("inputs", wires, "Where each input goes: `path`, `query name`, `header Name` or `body path.in.it`."),
        ("fixed", map_of(json!({})), "Values that are always sent, by place: `body kind: order`."),
        ("encoding", words(&["json", "form", "multipart"]), "How the body is written. Default: json."),
        ("answer", words(&Reading::WORDS), "What the answer is read as. Default: json."),
        (
            "paging",
            json!({"anyOf": [flag(), object(&[("*items", text(), "A path in the body to its items.")])]}),
            "Whether it is a list that goes on, or where its items are if not where the head says. Default: false.",
        ),
        ("effect", words(&["read", "write"]), "What it does outside. Default: by the method."),
        ("results", of("type"), "The type of what it gives: of `steps.<id>.results`."),
        ("*example", of("example"), "A step's inputs, and the request that comes of them. It is checked."),
    ])
}

fn event() -> Value {
    let created = object(&[
        ("*path", text(), "A path in each record."),
        ("*is", json!({}), "The value there by which it is new, and not changed."),
    ]);
    let poll = object(&[
        ("*action", name(), "The action that lists, the newest first."),
        ("with", map_of(json!({})), "Inputs of it that are always the same."),
        ("*items", text(), "The path to the list in what it gives."),
        ("*id", one_or_more(text()), "The paths to what tells one record from all others, in each."),
        ("*time", text(), "The path to the instant by which the list is sorted, in each."),
        ("created", created, "How a new record is told from a changed one. Default: all are new."),
        ("every", text(), "How often it is looked for. Default: 5m."),
        ("overlap", text(), "How late something may come to light. Default: 2m."),
    ]);
    let only = object(&[
        ("*header", text(), "The name of a header."),
        (
            "*is",
            text(),
            "The value there by which a request is about this event; others are answered and start nothing.",
        ),
    ]);
    let list = object(&[
        ("*action", name(), "The action that lists the subscriptions there are."),
        ("with", map_of(json!({})), "Inputs of it that are always the same."),
        ("items", text(), "The path to the list in what it gives. Default: results."),
        ("*url", text(), "The path to the address that is told, in each."),
    ]);
    let hook = object(&[
        ("*subscribe", name(), "The action that subscribes."),
        ("with", map_of(json!({})), "Inputs of it that are always the same."),
        ("*url", name(), "The input of it that takes our address."),
        ("*secret", name(), "The input of it that takes the secret by which the sender is known."),
        ("*id", text(), "The path to the id of the subscription in what it gives."),
        ("*unsubscribe", name(), "The action that takes the subscription back."),
        ("*idInput", name(), "The input of it that takes the id."),
        ("list", list, "How a subscription is found again of which only the other application knows."),
        ("*verify", text(), "The preset by which requests are verified."),
        (
            "delivery",
            text(),
            "The header with what tells one request from all others, though it be sent again.",
        ),
        ("only", only, "By what a request is known to be about this event. Default: all are."),
    ]);
    let mut event = object(&[
        ("*title", text(), "What happens, in one line."),
        ("description", text(), "What else an author should know."),
        (
            "inputs",
            json!({"type": "array", "items": name()}),
            "Inputs of its actions that an author may give.",
        ),
        ("poll", poll, "How it is looked for."),
        ("hook", hook, "How the other application is made to tell of it."),
    ]);
    put(&mut event, "oneOf", json!([{"required": ["poll"]}, {"required": ["hook"]}]));
    event
}

fn example(request: &'static str) -> Value {
    object(&[
        ("*with", map_of(json!({})), "The inputs of a step."),
        (request, text(), "The request line that must come of them."),
        ("body", json!({}), "The body that must come of them."),
        ("headers", map_of(json!({})), "Headers that must be among those sent."),
    ])
}

fn native(natives: &Natives) -> Value {
    let settings = object(&[
        ("path", text(), "The path that it calls, for one that always calls the same."),
        (
            "*example",
            of("nativeExample"),
            "A step's inputs, and the request that comes of them. It is checked.",
        ),
    ]);
    let names: Map<String, Value> =
        natives.iter().map(|(name, _)| ((*name).to_owned(), settings.clone())).collect();
    json!({"type": "object", "properties": names, "additionalProperties": false})
}

fn types() -> Value {
    json!({"type": "object", "propertyNames": {"pattern": TYPE_NAME}, "additionalProperties": of("type")})
}

/// The type of a result: a word, the name of a type, or a mapping, with further keys.
fn result_type(more: &[Key]) -> Value {
    let word = || json!({"anyOf": [{"enum": RESULT_TYPES}, {"type": "string", "pattern": TYPE_NAME}, {"type": "null"}]});
    let fields = json!({"type": "object", "additionalProperties": of("resultField")});
    let mut keys: Vec<Key> = vec![
        ("*type", word(), "What it is: a word, or the name of a type under `types`."),
        ("description", text(), "What it means."),
        ("nullable", flag(), "Whether null may stand in its place. Default: false."),
        ("options", strings(), "The texts that a choice can be."),
        ("items", of("type"), "The type of the items of a list."),
        ("values", of("type"), "The type of the values of a map."),
        ("fields", fields, "The entries of an object."),
        ("open", flag(), "Whether an object may have further entries. Default: false."),
    ];
    keys.extend(more.iter().cloned());
    let mut mapping = object(&keys);
    put(&mut mapping, "allOf", needs());
    json!({"anyOf": [word(), mapping]})
}

fn object(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, schema, about) in keys {
        let mut schema = schema.clone();
        put(&mut schema, "description", json!(about));
        let key = key.strip_prefix('*').inspect(|key| required.push(*key)).unwrap_or(key);
        properties.insert(key.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        put(&mut schema, "required", json!(required));
    }
    schema
}

fn put(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(schema) = schema {
        schema.insert(key.to_owned(), value);
    }
}

fn of(definition: &str) -> Value {
    json!({"$ref": format!("#/$defs/{definition}")})
}

fn text() -> Value {
    json!({"type": "string", "pattern": r"\S"})
}

fn name() -> Value {
    json!({"type": "string", "pattern": NAME})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn words(words: &[&str]) -> Value {
    json!({"enum": words})
}

fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn map_of(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// A mapping from names to these.
fn named(values: Value) -> Value {
    json!({"type": "object", "propertyNames": {"pattern": NAME}, "additionalProperties": values})
}

fn one_or_more(item: Value) -> Value {
    json!({"anyOf": [item, {"type": "array", "items": item}]})
}
