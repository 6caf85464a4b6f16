//! A data folder that an earlier release left, in the words it stored: what waits in it goes on and ends.

use jiff::{SignedDuration, Timestamp};
use model::{AutomationId, DefinitionHash, ExecutionId};
use pretty_assertions::assert_eq;
use reqwest::Method;
use rusqlite::{Connection, params};
use serde_json::json;
use tests::recorder::Recorder;

use crate::site::{Site, posts, send};

/// The tables of version 2, the first in which executions wait: each migration with the checksum that was noted of it.
const TABLES: [(u32, &str, &str, &str); 2] = [
    (1, "initial", "10548136131091106872", include_str!("../../../crates/store/migrations/V1__initial.sql")),
    (
        2,
        "waits_and_state",
        "2326928942857708068",
        include_str!("../../../crates/store/migrations/V2__waits_and_state.sql"),
    ),
];
const HISTORY: &str = "CREATE TABLE refinery_schema_history (version INTEGER PRIMARY KEY, name VARCHAR(255), \
    applied_on VARCHAR(255), checksum VARCHAR(255))";
/// The origin of the execution, as stored.
const MANUAL: &str = r#"{"kind":"manual"}"#;
/// Statuses, and the lists that such executions stand in.
const QUEUED: (u8, u8) = (0, 0);
const RUNNING: (u8, u8) = (1, 0);
const WAITING: (u8, u8) = (6, 6);
/// One that waits for another, which may end while no daemon runs.
const CALLING: (u8, u8) = (6, 7);

/// A store as version 2 wrote it, some minutes ago.
struct Old {
    connection: Connection,
    began: Timestamp,
}

/// The waiting reason of an execution.
#[derive(Default)]
struct Pause<'a> {
    step: &'a str,
    until: Option<Timestamp>,
    event: Option<&'a str>,
    child: Option<ExecutionId>,
}

impl Old {
    fn create(site: &Site) -> Self {
        std::fs::create_dir(site.project.data_dir()).unwrap();
        let connection = Connection::open(site.project.data_dir().join("cogwork.db")).unwrap();
        connection.execute(HISTORY, []).unwrap();
        for (version, name, checksum, sql) in TABLES {
            connection.execute_batch(sql).unwrap();
            let row = params![version, name, "2026-11-21T10:00:00Z", checksum];
            connection.execute("INSERT INTO refinery_schema_history VALUES (?, ?, ?, ?)", row).unwrap();
        }
        Self { connection, began: Timestamp::now() - SignedDuration::from_mins(5) }
    }

    fn id(&self, number: u8) -> ExecutionId {
        ExecutionId::new(self.began, [number; 10])
    }

    fn definition(&self, automation: &str, text: &str) -> DefinitionHash {
        let hash = DefinitionHash::compute(&AutomationId::parse(automation).unwrap(), text);
        let row = params![hash.as_bytes(), automation];
        self.connection.execute("INSERT INTO definitions VALUES (?, ?, 1, 0)", row).unwrap();
        let row = params![hash.as_bytes(), format!("automations/{automation}.yaml"), text];
        self.connection.execute("INSERT INTO definition_texts VALUES (NULL, ?, ?, ?)", row).unwrap();
        hash
    }

    /// An execution that has begun, with what else happened, one event as JSON in each row.
    fn execution(
        &self,
        number: u8,
        (automation, definition): (&str, DefinitionHash),
        (status, shelf): (u8, u8),
        origin: &str,
        happened: &[String],
        pause: Option<Pause<'_>>,
    ) {
        let (id, began) = (self.id(number), self.began);
        let started = format!(
            r#"{{"event":"started","at":"{began}","automation":"{automation}","definition":"{definition}",
              "origin":{origin},"payload":{{"kind":"manual","inputs":{{}}}}}}"#
        );
        let events = [&[started][..], happened].concat();
        for (first, event) in (0_u32..).zip(&events) {
            let row = params![id.as_bytes(), first, format!("[{event}]")];
            self.connection.execute("INSERT INTO events VALUES (NULL, ?, ?, ?)", row).unwrap();
        }
        let nanoseconds = |at: Timestamp| i64::try_from(at.as_nanosecond()).unwrap();
        let (began, waits) = (nanoseconds(began), u8::from(pause.is_some()));
        let sql = "INSERT INTO executions VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, 0, ?)";
        let row = params![
            id.as_bytes(),
            automation,
            definition.as_bytes(),
            origin,
            status,
            shelf,
            began,
            u32::try_from(events.len()).unwrap(),
            waits
        ];
        self.connection.execute(sql, row).unwrap();
        let sql = "UPDATE definitions SET executions = executions + 1 WHERE hash = ?";
        self.connection.execute(sql, params![definition.as_bytes()]).unwrap();
        if let Some(Pause { step, until, event, child }) = pause {
            let child = child.map(|child| *child.as_bytes());
            let row = params![id.as_bytes(), step, until.map(nanoseconds), event, child];
            self.connection.execute("INSERT INTO waits VALUES (?, ?, ?, ?, ?)", row).unwrap();
        }
    }

    fn waiting(&self, step: &str, more: &str) -> String {
        format!(r#"{{"event":"waiting","at":"{}","step":"{step}",{more}}}"#, self.began)
    }
}

#[tokio::test]
async fn what_waits_in_a_file_of_an_earlier_release_goes_on_and_ends_on_what_it_began_with() {
    let recorder = Recorder::start().await.unwrap();
    let file = |first: &str, then: &[&str]| {
        format!("trigger: {{manual: {{}}}}\nsteps:\n{first}{}", posts(&recorder, then))
    };
    // Each file has changed since, while no daemon ran.
    let newer = file("", &["newer"]);
    let mut site = Site::new(&["plain", "timed", "paid", "parent"].map(|name| (name, newer.as_str())));
    let old = Old::create(&site);
    let define = |name: &'static str, text: String| (name, old.definition(name, &text));
    let plain = define("plain", file("", &["one", "two"]));
    let timed = define("timed", file("  - {id: pause, wait: 1m}\n", &["later"]));
    let paid = define("paid", file("  - {id: paid, waitFor: {event: orderPaid}}\n", &["shipped"]));
    let parent = define("parent", file("  - {id: child, call: timed}\n", &["called"]));

    old.execution(1, plain, QUEUED, MANUAL, &[], None);
    let began = format!(r#"{{"event":"stepStarted","at":"{}","step":"one","attempt":1}}"#, old.began);
    old.execution(2, plain, RUNNING, MANUAL, &[began], None);
    let until = old.began + SignedDuration::from_mins(1);
    let slept = [old.waiting("pause", &format!(r#""until":"{until}","on":{{"kind":"time"}}"#))];
    let sleeps = || Some(Pause { step: "pause", until: Some(until), ..Pause::default() });
    old.execution(3, timed, WAITING, MANUAL, &slept, sleeps());
    let called_by = format!(r#"{{"kind":"call","execution":"{}","step":"child","depth":1}}"#, old.id(6));
    let event = old.waiting("paid", r#""on":{"kind":"event","name":"orderPaid"}"#);
    let pause = Pause { step: "paid", event: Some("orderPaid"), ..Pause::default() };
    old.execution(4, paid, WAITING, MANUAL, &[event], Some(pause));
    old.execution(5, timed, WAITING, &called_by, &slept, sleeps());
    let child = old.id(5);
    let called = old.waiting("child", &format!(r#""on":{{"kind":"call","execution":"{child}"}}"#));
    let pause = Pause { step: "child", child: Some(child), ..Pause::default() };
    old.execution(6, parent, CALLING, MANUAL, &[called], Some(pause));
    let ids = [1, 2, 3, 4, 5, 6].map(|number| old.id(number).to_string());
    drop(old);

    site.start().await;
    let emit = site.api(Method::POST, "/events").json(&json!({"name": "orderPaid", "data": {}}));
    assert_eq!(send(emit).await.json(), json!({"delivered": 1, "kept": false}));
    for id in &ids {
        let end = site.end_of(id).await;
        assert_eq!(end["status"], json!("succeeded"), "{end}");
    }
    let mut effects: Vec<String> =
        recorder.requests().into_iter().map(|request| request.idempotency_key.unwrap()).collect();
    effects.sort_unstable();
    let of = |number: usize, step: &str| format!("{}.{step}", ids[number - 1]);
    let expected = [
        (1, "one"),
        (1, "two"),
        (2, "one"),
        (2, "two"),
        (3, "later"),
        (4, "shipped"),
        (5, "later"),
        (6, "called"),
    ];
    assert_eq!(effects, expected.map(|(number, step)| of(number, step)));

    let id = site.run("plain").await;
    site.end_of(&id).await;
    assert_eq!(recorder.requests_to("/newer").len(), 1, "what starts now is of the file as it is");
}
