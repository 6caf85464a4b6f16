//! New automations: a text for each kind of trigger, and its first tests.

use std::fmt::Write as _;

use catalog::Catalog;
use model::AutomationId;
use model::diagnostic::Span;
use model::expression::Expression;
use model::payload::Payload;
use model::value::{Map, Value};
use testing::{is_pattern, start_of};

/// A kind of trigger that a new automation can have.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The key that is written for it.
    pub name: &'static str,
    /// A description of its trigger, for the choice among templates.
    pub about: &'static str,
    /// Advice for the next step.
    pub next: &'static str,
    /// The connection that it names.
    pub connection: Option<RequiredConnection>,
    body: &'static str,
    tests: &'static str,
}

/// A connection that a new automation needs.
#[derive(Clone, Copy, Debug)]
pub struct RequiredConnection {
    /// To which connector.
    pub connector: &'static str,
    /// Its name where there is none yet.
    pub name: &'static str,
    /// Its text then.
    pub text: &'static str,
}

/// Every kind there is.
pub const KINDS: [Kind; 5] = [
    Kind {
        name: "webhook",
        about: "a request on its address",
        next: "cogwork run {id} --payload FILE    or `cogwork serve`, which prints its address",
        connection: None,
        body: WEBHOOK,
        tests: WEBHOOK_TESTS,
    },
    Kind {
        name: "schedule",
        about: "the clock",
        next: "cogwork run {id}    or `cogwork serve`, which starts it when it is time",
        connection: None,
        body: SCHEDULE,
        tests: SCHEDULE_TESTS,
    },
    Kind {
        name: "poll",
        about: "new data in the results of an action",
        next: "cogwork run {id} --payload FILE    then write your own address and take `enabled: false` away",
        connection: None,
        body: POLL,
        tests: POLL_TESTS,
    },
    Kind {
        name: "manual",
        about: "a person, the command line or the API",
        next: "cogwork run {id}",
        connection: None,
        body: MANUAL,
        tests: MANUAL_TESTS,
    },
    Kind {
        name: "event",
        about: "something that happens in another application",
        next: "cogwork test automations/{id}.test.yaml    then fill in its connection and take `enabled: false` away",
        connection: Some(RequiredConnection { connector: "wiki", name: "mainWiki", text: WIKI }),
        body: EVENT,
        tests: EVENT_TESTS,
    },
];

const WEBHOOK: &str = r#"# A request to its address starts it. `cogwork serve` and `cogwork list` print the address.
trigger:
  webhook:
    # async: the caller gets an executionId at once.
    # sync: the caller waits, and a `respond` step decides the answer.
    mode: async
    methods: [POST]
    verify: none

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: order
    set:
      # The request: trigger.results.body.data, .headers, .queryParameters, .pathFragment
      id: ${{ trigger.results.body.data.id | default("unknown") }}

  - id: note
    action: log.info
    with:
      message: Order ${{ vars.id }} has come

# The result; by default it is the result of the last step.
outputs:
  order: ${{ vars.id }}
"#;

const SCHEDULE: &str = r#"# A schedule starts it.
trigger:
  schedule:
    # Also: every: 5m, hourly: {minute: 5}, weekly: {on: [mon, fri], at: "08:30"}, cron: "*/5 8-16 * * 1-5"
    daily: {at: "08:30"}
    timezone: UTC

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: note
    action: log.info
    with:
      message: It was due at ${{ trigger.results.scheduledAt }}

# The result; by default it is the result of the last step.
outputs:
  dueAt: ${{ trigger.results.scheduledAt }}
"#;

const POLL: &str = r#"# Nothing is polled before this line is gone: write your own address first.
enabled: false

# New data in the results of an action starts it.
trigger:
  poll:
    action: http.request
    with: {url: "https://shop.example.com/orders?sort=newest"}
    every: 5m
    # The list of items, and the value that identifies an item.
    items: result.body.orders
    id: item.id
    # batch: one execution for all new items, as a list. each: one execution for each item.
    deliver: each

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: note
    action: log.info
    with:
      message: Order ${{ trigger.results.body.data.id }} is new

# The result; by default it is the result of the last step.
outputs:
  order: ${{ trigger.results.body.data.id }}
"#;

const EVENT: &str = r#"# Fill in the connection first, then remove this line.
enabled: false

# An event in another application starts it; `cogwork connectors show wiki` lists its events.
trigger:
  event: wiki.pageChanged
  connection: {connection}
  every: 5m
  # batch: one execution for all new items, as a list. each: one execution for each item.
  deliver: each

# The steps run from top to bottom. An expression in ${{ }} is evaluated when its step runs.
steps:
  - id: note
    action: log.info
    with:
      message: Page ${{ trigger.results.body.data.record.title }} was ${{ trigger.results.body.data.changeType }}

# The result; without this key it is the result of the last step.
outputs:
  page: ${{ trigger.results.body.data.record.id }}
"#;

const WIKI: &str = "\
# yaml-language-server: $schema=../schemas/connection.schema.json
#
# A wiki. Steps and triggers name it by the name of this file.
type: wiki.basic
with:
  email: ops@example.com
  # Keep it with: cogwork secrets set wikiToken
  apiToken: ${{ secrets.wikiToken }}
  host: https://acme.example.com
";

const MANUAL: &str = r#"# A person or the API starts it.
trigger:
  manual: {}

# Its inputs: cogwork run {id} --input name=Ada --input times=3
inputs:
  name: {type: text, default: world, description: Who is greeted}
  times: {type: integer, default: 1, description: How often}

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: greet
    # `if` beside the verb is a guard: the step is skipped if it is false.
    if: inputs.times > 0
    forEach: range(inputs.times)
    steps:
      - id: note
        action: log.info
        with:
          message: Hello, ${{ inputs.name }}!

# The result; by default it is the result of the last step.
outputs:
  greeted: ${{ inputs.name }}
"#;

const WEBHOOK_TESTS: &str = r#"tests:
  - name: the order is noted
    payload:
      body: {id: "17"}
    expect:
      result: {order: "17"}
      logs: [Order 17 has come]

  - name: an order without an id has none
    payload:
      body: {}
    expect:
      result: {order: unknown}
"#;

const SCHEDULE_TESTS: &str = r#"tests:
  - name: it is due at half past eight
    # The test fails if the schedule does not fire at this instant.
    scheduledAt: 2026-03-02T08:30:00Z
    expect:
      result: {dueAt: "2026-03-02T08:30:00Z"}
"#;

const POLL_TESTS: &str = r#"tests:
  - name: a new order is noted
    found: {id: "17"}
    expect:
      result: {order: "17"}
      logs: [Order 17 is new]
"#;

const EVENT_TESTS: &str = r#"tests:
  - name: a new page is noted
    found: {changeType: created, record: {id: "17", title: Order 17}}
    expect:
      result: {page: "17"}
      logs: [Page Order 17 was created]
"#;

const MANUAL_TESTS: &str = r#"tests:
  - name: each greeting is a line of the log
    inputs: {name: Ada, times: 2}
    expect:
      result: {greeted: Ada}
      logs: ["Hello, Ada!", "Hello, Ada!"]

  - name: it greets the world where nobody is named
    expect:
      steps: {greet: {turns: 1}}

  - name: nobody is greeted no times
    inputs: {times: 0}
    expect:
      steps: {greet: skipped}
"#;

/// The texts of a new automation.
#[derive(Clone, Debug)]
pub struct NewAutomation {
    /// The path of its file, relative to the project folder.
    pub path: String,
    /// The text of its file.
    pub text: String,
    /// The path of its first tests.
    pub test_path: String,
    /// The text of its first tests.
    pub test: String,
    /// The path and text of a connection that it names and that the project does not have.
    pub connection: Option<(String, &'static str)>,
}

/// Writes the texts of a new automation. If it needs a connection, it names one of the project that fits.
#[must_use]
pub fn new_automation(catalog: &Catalog, kind: &Kind, id: &AutomationId, name: &str) -> NewAutomation {
    let (connection, missing) = match kind.connection {
        None => (String::new(), None),
        Some(wanted) => {
            let fits = |kind: &str| kind.split('.').next() == Some(wanted.connector);
            match catalog.connections().find(|connection| fits(&connection.kind)) {
                Some(found) => (found.name.clone(), None),
                None => {
                    let path = format!("connections/{}.yaml", wanted.name);
                    (wanted.name.to_owned(), Some((path, wanted.text)))
                }
            }
        }
    };
    NewAutomation {
        path: format!("automations/{id}.yaml"),
        text: kind.text(id, name, &connection),
        test_path: format!("automations/{id}{}", model::test_suite::FILE_SUFFIXES[0]),
        test: kind.tests(id),
        connection: missing,
    }
}

/// The maximum number of fields of a payload that the first step of a new automation reads.
const MOST_FIELDS: usize = 20;
/// The line of a template from which on the steps stand.
const STEPS: &str = "\n# The steps run from top to bottom";
/// The line of a template from which on its inputs stand.
const INPUTS: &str = "\n# Its inputs:";

/// Writes the texts of a new automation for a payload that has come already: its first step reads the fields of the payload,
/// and its test starts with it, without credentials. `source` says in words where the payload comes from.
///
/// # Errors
/// The payload is none of this kind of trigger, or cannot be written in a test, for this reason.
pub fn automation_for_payload(
    catalog: &Catalog,
    (kind, id, name): (&Kind, &AutomationId, &str),
    source: &str,
    payload: &Payload,
) -> Result<NewAutomation, String> {
    let (key, mut start) = start_of(payload)?;
    let (root, data) = match (kind.name, payload) {
        ("webhook", Payload::Webhook(_)) => {
            let body = start.as_map().and_then(|parts| parts.get("body")).cloned();
            ("trigger.results.body.data", body.unwrap_or_default())
        }
        ("poll" | "event", Payload::Poll { data, .. }) => ("trigger.results.body.data", data.clone()),
        ("manual", Payload::Manual { inputs }) => ("inputs", Value::from(inputs.clone())),
        _ => return Err(format!("this payload starts no automation with the trigger `{}`", kind.name)),
    };
    let mut new = new_automation(catalog, kind, id, name);
    let head = new.text.split(STEPS).next().unwrap_or_default();
    let mut text = head.split(INPUTS).next().unwrap_or_default().to_owned();
    if let Payload::Webhook(request) = payload {
        text = text.replacen("methods: [POST]", &format!("methods: [{}]", request.method), 1);
    }
    let fields = fields(root, &data);
    let mut values = Map::new();
    // Writing to a text cannot fail.
    if let Payload::Manual { .. } = payload
        && !fields.is_empty()
    {
        start = Value::from(fields.iter().cloned().collect::<Map>());
        text.push_str("\ninputs:\n");
        for (field, value) in &fields {
            let _ = writeln!(text, "  {field}: {{type: {}}}", input_type(value));
        }
    }
    let _ = write!(
        text,
        "\n# The fields of {source}. An expression in ${{{{ }}}} is evaluated when its step runs.\nsteps:\n  - id: received\n    set:\n"
    );
    for (field, value) in &fields {
        let _ = writeln!(text, "      {field}: ${{{{ {root}.{field} }}}}");
        values.insert(field.as_str(), value.clone());
    }
    if fields.is_empty() {
        let _ = writeln!(text, "      data: ${{{{ {root} }}}}");
        values.insert("data", data);
    }
    new.text = text;
    let result = Value::from(values);
    let expect = if is_pattern(&result) {
        format!("result: {}", result.to_json())
    } else {
        "outcome: succeeded".to_owned()
    };
    let head = new.test.split("tests:\n").next().unwrap_or_default();
    let name = Value::from(format!("as in {source}")).to_json();
    new.test = format!(
        "{head}tests:\n  - name: {name}\n    {key}: {}\n    expect:\n      {expect}\n",
        start.to_json()
    );
    Ok(new)
}

/// The fields of a payload that a variable can be named after.
fn fields(root: &str, data: &Value) -> Vec<(String, Value)> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
            // A word that YAML reads as another value would have to be quoted.
            && !["true", "false", "null", "yes", "no", "on", "off"].contains(&name.to_lowercase().as_str())
            && Expression::compile(&format!("{root}.{name}"), Span::default()).is_ok()
    };
    let named = data.as_map().into_iter().flat_map(|map| map.iter()).filter(|(name, _)| is_name(name));
    named.take(MOST_FIELDS).map(|(name, value)| (name.to_string(), value.clone())).collect()
}

/// The type of an input that takes a value.
fn input_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::String(_) => "text",
        _ => "any",
    }
}

/// The id that a name suggests: `Bestellung für Ärger` gives `bestellung-fur-arger`. `None` if no letter or digit is in it.
#[must_use]
pub fn suggest_id(name: &str) -> Option<AutomationId> {
    AutomationId::suggest(&any_ascii::any_ascii(name))
}

impl Kind {
    /// The kind of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The text of a new automation of this kind, which names `connection` where it needs one.
    #[must_use]
    pub fn text(&self, id: &AutomationId, name: &str, connection: &str) -> String {
        let body = self.body.replace("{id}", id.as_str()).replace("{connection}", connection);
        let name = serde_json::Value::from(name);
        let head = "# yaml-language-server: $schema=../schemas/automation.schema.json";
        // A JSON text is a YAML text, whatever it holds.
        format!("{head}\nname: {name}\ndescription: What it does, in a sentence.\n\n{body}")
    }

    /// The text of its first tests.
    #[must_use]
    pub fn tests(&self, id: &AutomationId) -> String {
        let head = "# yaml-language-server: $schema=../schemas/test.schema.json";
        let body = self.tests;
        format!(
            "{head}\n#\n# Tests of {id}.yaml: cogwork test automations/{id}.yaml\n#\n# An action that calls another \
             system needs a double:\n#   doubles:\n#     wiki.createPage: {{result: {{id: \"1\"}}}}\n{body}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_beyond_ascii_are_spelt_out_in_an_id() {
        let id = |name: &str| suggest_id(name).map(|id| id.to_string());
        assert_eq!(id("Bestellung für Ärger").as_deref(), Some("bestellung-fur-arger"));
        assert_eq!(id("Заказ 7").as_deref(), Some("zakaz-7"));
        assert_eq!(id("order-desk").as_deref(), Some("order-desk"));
        assert_eq!(id("---"), None);
    }

    #[test]
    fn an_automation_for_a_payload_reads_its_fields_and_its_test_loads() {
        let checked =
            crate::check_project(tempfile::tempdir().expect("a folder").path(), &[]).expect("connectors");
        let id = AutomationId::parse("order-desk").expect("an id");
        let request = serde_json::json!({"kind": "webhook", "method": "PUT", "pathFragment": "a", "queryParameters": {},
            "headers": {"content-type": "application/json", "authorization": "canary", "x-kind": "b"},
            "body": {"$file": {"contentType": "application/json", "encoding": "utf8", "size": 35,
                "data": "{\"id\": 7, \"a b\": 1, \"true\": 2, \"if\": 3}"}}});
        let list = serde_json::json!({"kind": "poll", "data": [1, 2], "polledAt": "2026-03-02T08:00:00Z"});
        let inputs = serde_json::json!({"kind": "manual", "inputs": {"name": "Ada", "times": 3, "tags": [], "on": true}});
        for (kind, payload, expected) in [
            ("webhook", request, "id: ${{ trigger.results.body.data.id }}"),
            ("poll", list.clone(), "data: ${{ trigger.results.body.data }}"),
            ("manual", inputs, "times: ${{ inputs.times }}"),
            ("manual", serde_json::json!({"kind": "manual", "inputs": {}}), "data: ${{ inputs }}"),
        ] {
            let payload: Payload = serde_json::from_value(payload).expect("a payload");
            let kind = Kind::find(kind).expect("a kind");
            let new = automation_for_payload(&checked.catalog, (kind, &id, "Order"), "execution 1", &payload);
            let new = new.expect("it is written");
            assert!(new.text.contains(expected), "{}", new.text);
            assert!(!new.text.contains("canary") && !new.test.contains("canary"), "{}", new.test);
            let report = crate::check_text(&checked.catalog, "automations/order-desk.yaml", &new.text);
            assert!(report.is_empty(), "{}\n{}", new.text, report.render(false));
            let source = std::sync::Arc::new(model::Source::new("order-desk.test.yaml", new.test.as_str()));
            let loaded = model::load::test_suite(source, "order-desk");
            assert!(loaded.report.is_empty(), "{}\n{}", new.test, loaded.report.render(false));
        }
        let payload: Payload = serde_json::from_value(list).expect("a payload");
        let manual = Kind::find("manual").expect("a kind");
        assert!(automation_for_payload(&checked.catalog, (manual, &id, "Order"), "it", &payload).is_err());
    }

    #[test]
    fn every_new_automation_is_valid_at_once() {
        let project = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(project.path().join("connections")).expect("a folder");
        for wanted in KINDS.iter().filter_map(|kind| kind.connection) {
            let path = project.path().join("connections").join(format!("{}.yaml", wanted.name));
            std::fs::write(path, wanted.text).expect("a file");
        }
        let checked = crate::check_project(project.path(), &[]).expect("connectors");
        assert_eq!(checked.errors(), 0);
        let catalog = checked.catalog;
        let id = AutomationId::parse("order-desk").expect("an id");
        for kind in &KINDS {
            for name in ["Order desk", "a: \"b\" #c {d}"] {
                let text = kind.text(&id, name, kind.connection.map_or("", |wanted| wanted.name));
                let report = crate::check_text(&catalog, "automations/order-desk.yaml", &text);
                assert!(report.is_empty(), "{}\n{}", kind.name, report.render(false));
            }
            let loaded = model::load::test_suite(
                std::sync::Arc::new(model::Source::new("order-desk.test.yaml", kind.tests(&id))),
                "order-desk",
            );
            assert!(loaded.report.is_empty(), "{}\n{}", kind.name, loaded.report.render(false));
        }
    }
}
