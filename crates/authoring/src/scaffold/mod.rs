//! New automations: a text for each kind of trigger, and its first tests.

mod from_action;
mod from_payload;
mod templates;

use catalog::Catalog;
use model::AutomationId;
use templates::{
    EVENT, EVENT_TESTS, FAILURE, FAILURE_TESTS, MANUAL, MANUAL_TESTS, OWN_EVENT, OWN_EVENT_TESTS, POLL,
    POLL_TESTS, SCHEDULE, SCHEDULE_TESTS, WEBHOOK, WEBHOOK_TESTS, WIKI,
};

pub use from_action::automation_with_action;
pub use from_payload::automation_for_payload;

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
    /// The start of a test, as a line of it; empty if a test needs none.
    start: &'static str,
    body: &'static str,
    tests: &'static str,
}

/// A connection that a new automation needs.
#[derive(Clone, Copy, Debug)]
pub struct RequiredConnection {
    /// To which connector.
    pub connector: &'static str,
    /// The name of a new one.
    pub name: &'static str,
    /// Its text then.
    pub text: &'static str,
}

/// Every kind there is.
pub const KINDS: [Kind; 7] = [
    Kind {
        name: "webhook",
        about: "a request on its address",
        next: "cogwork run {id} --payload FILE    or `cogwork serve`, which prints its address",
        connection: None,
        start: "",
        body: WEBHOOK,
        tests: WEBHOOK_TESTS,
    },
    Kind {
        name: "schedule",
        about: "the clock",
        next: "cogwork run {id}    or `cogwork serve`, which starts it when it is time",
        connection: None,
        start: "",
        body: SCHEDULE,
        tests: SCHEDULE_TESTS,
    },
    Kind {
        name: "poll",
        about: "new data in the results of an action",
        next: "cogwork run {id} --payload FILE    then write your own address and take `enabled: false` away",
        connection: None,
        start: "",
        body: POLL,
        tests: POLL_TESTS,
    },
    Kind {
        name: "manual",
        about: "a person, the command line or the API",
        next: "cogwork run {id}",
        connection: None,
        start: "",
        body: MANUAL,
        tests: MANUAL_TESTS,
    },
    Kind {
        name: "event",
        about: "something that happens in another application",
        next: "cogwork test automations/{id}.test.yaml    then fill in its connection and take `enabled: false` away",
        connection: Some(RequiredConnection { connector: "wiki", name: "mainWiki", text: WIKI }),
        start: "",
        body: EVENT,
        tests: EVENT_TESTS,
    },
    Kind {
        name: "ownEvent",
        about: "an event that steps of this project, or programs, send",
        next: "cogwork run {id} --payload FILE    or `cogwork serve`, and then cogwork events emit order.paid --data '{\"order\": \"17\"}'",
        connection: None,
        start: "found: {order: \"17\", amount: 12.5}",
        body: OWN_EVENT,
        tests: OWN_EVENT_TESTS,
    },
    Kind {
        name: "failure",
        about: "executions, polls and files that fail",
        next: "cogwork test automations/{id}.test.yaml    then let its step send the failure to people",
        connection: None,
        start: "found: {kind: execution, title: Order desk has failed}",
        body: FAILURE,
        tests: FAILURE_TESTS,
    },
];

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
    /// The paths and texts of connections that it names and that the project does not have.
    pub connections: Vec<(String, String)>,
}

/// Writes the texts of a new automation. If it needs a connection, it names one of the project that fits.
#[must_use]
pub fn new_automation(catalog: &Catalog, kind: &Kind, id: &AutomationId, name: &str) -> NewAutomation {
    let mut connections = Vec::new();
    let connection = kind.connection.map_or_else(String::new, |wanted| {
        let fits = |kind: &str| kind.split('.').next() == Some(wanted.connector);
        find_connection(catalog, fits).unwrap_or_else(|| {
            connections.push((connection_path(wanted.name), wanted.text.to_owned()));
            wanted.name.to_owned()
        })
    });
    NewAutomation {
        path: format!("automations/{id}.yaml"),
        text: kind.text(id, name, &connection),
        test_path: format!("automations/{id}{}", model::test_suite::FILE_SUFFIXES[0]),
        test: kind.tests(id),
        connections,
    }
}

/// The line of a template from which on the steps stand.
const STEPS: &str = "\n# The steps run from top to bottom";
/// The line of a template from which on its inputs stand.
const INPUTS: &str = "\n# Its inputs:";

impl NewAutomation {
    /// The text up to the inputs and the steps of the template.
    fn trigger_text(&self) -> &str {
        let head = self.text.split(STEPS).next().unwrap_or_default();
        head.split(INPUTS).next().unwrap_or_default()
    }

    /// The head of the text of the first tests, up to the tests.
    fn test_head(&self) -> &str {
        self.test.split("tests:\n").next().unwrap_or_default()
    }
}

/// The name of the first connection in force whose type fits.
fn find_connection(catalog: &Catalog, fits: impl Fn(&str) -> bool) -> Option<String> {
    catalog.connections().find(|connection| fits(&connection.kind)).map(|connection| connection.name.clone())
}

fn connection_path(name: &str) -> String {
    format!("connections/{name}.yaml")
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
        // Any JSON text is a valid YAML text.
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
    fn non_ascii_letters_are_transliterated_in_an_id() {
        let id = |name: &str| suggest_id(name).map(|id| id.to_string());
        assert_eq!(id("Bestellung für Ärger").as_deref(), Some("bestellung-fur-arger"));
        assert_eq!(id("Заказ 7").as_deref(), Some("zakaz-7"));
        assert_eq!(id("order-desk").as_deref(), Some("order-desk"));
        assert_eq!(id("---"), None);
    }

    #[test]
    fn every_scaffolded_automation_is_valid() {
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
            let loaded = language::load::test_suite(
                std::sync::Arc::new(text::Source::new("order-desk.test.yaml", kind.tests(&id))),
                "order-desk",
            );
            assert!(loaded.report.is_empty(), "{}\n{}", kind.name, loaded.report.render(false));
        }
    }
}
