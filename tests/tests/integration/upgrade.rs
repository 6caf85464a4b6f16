//! Executions in the literal rows of release 0.1.0, which later releases must read.

use jiff::{SignedDuration, Timestamp};
use model::{AutomationId, DefinitionHash, ExecutionId};
use pretty_assertions::assert_eq;
use reqwest::Method;
use rusqlite::{Connection, params};
use serde_json::json;
use tests::recorder::Recorder;

use crate::site::{self, Site, posts};

/// The origin of the execution, as stored.
const MANUAL: &str = r#"{"kind":"manual"}"#;
/// Statuses, each with the list of its executions.
const QUEUED: (u8, u8) = (0, 16);
const RUNNING: (u8, u8) = (1, 0);
const WAITING: (u8, u8) = (6, 6);
/// Waits for another execution, which may end while no daemon runs.
const CALLING: (u8, u8) = (6, 7);

/// A store with executions that started some minutes ago.
struct Stored {
    connection: Connection,
    began: Timestamp,
}

/// The wait of an execution.
#[derive(Default)]
struct Pause<'a> {
    step: &'a str,
    until: Option<Timestamp>,
    event: Option<&'a str>,
    child: Option<ExecutionId>,
}

impl Stored {
    /// Opens the file of a site that has stopped.
    fn open(site: &Site) -> Self {
        let connection = Connection::open(site.project.data_dir().join("cogwork.db")).unwrap();
        Self { connection, began: Timestamp::now() - SignedDuration::from_mins(5) }
    }

    fn id(&self, number: u8) -> ExecutionId {
        ExecutionId::new(self.began, [number; 10])
    }

    fn definition(&self, automation: &str, text: &str) -> DefinitionHash {
        let hash = DefinitionHash::compute(&AutomationId::parse(automation).unwrap(), text);
        let row = params![hash.as_bytes(), automation];
        self.connection.execute("INSERT INTO definitions VALUES (?, ?, 1)", row).unwrap();
        let row = params![hash.as_bytes(), format!("automations/{automation}.yaml"), text];
        self.connection.execute("INSERT INTO definition_texts VALUES (NULL, ?, ?, ?)", row).unwrap();
        let sql = "INSERT INTO definition_uses VALUES (last_insert_rowid(), 0)";
        self.connection.execute(sql, []).unwrap();
        hash
    }

    /// Inserts a started execution with its later events, one JSON event per row.
    fn execution(
        &self,
        number: u8,
        (automation, definition): (&str, DefinitionHash),
        (status, shelf): (u8, u8),
        origin: &str,
        happened: &[String],
        pause: Option<Pause<'_>>,
    ) {
        let id = self.id(number);
        let nanoseconds = |at: Timestamp| i64::try_from(at.as_nanosecond()).unwrap();
        let (began, waits) = (nanoseconds(self.began), u8::from(pause.is_some()));
        let start = params![id.as_bytes(), format!(r#"[[{began},{{"kind":"manual","inputs":{{}}}}]]"#)];
        self.connection.execute("INSERT INTO starts (execution, body) VALUES (?, ?)", start).unwrap();
        let start = self.connection.last_insert_rowid();
        for (first, event) in (1_u32..).zip(happened) {
            let row = params![id.as_bytes(), first, format!("[{event}]")];
            self.connection.execute("INSERT INTO events VALUES (NULL, ?, ?, ?)", row).unwrap();
        }
        let sql = "INSERT INTO executions \
            (id, automation, definition, origin, status, shelf, started_ns, events, logs, waits, start) \
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)";
        let row = params![
            id.as_bytes(),
            automation,
            definition.as_bytes(),
            origin,
            status,
            shelf,
            began,
            u32::try_from(happened.len()).unwrap() + 1,
            waits,
            start
        ];
        self.connection.execute(sql, row).unwrap();
        let sql = "UPDATE definition_uses SET executions = executions + 1 \
                   WHERE definition = (SELECT sequence FROM definition_texts WHERE hash = ?)";
        self.connection.execute(sql, params![definition.as_bytes()]).unwrap();
        if let Some(Pause { step, until, event, child }) = pause {
            let child = child.map(|child| *child.as_bytes());
            let row = params![id.as_bytes(), step, until.map(nanoseconds), event, child];
            let sql = "INSERT INTO waits (execution, step, until_ns, event, child) VALUES (?, ?, ?, ?, ?)";
            self.connection.execute(sql, row).unwrap();
        }
    }

    fn waiting(&self, step: &str, more: &str) -> String {
        format!(r#"{{"event":"waiting","at":"{}","step":"{step}",{more}}}"#, self.began)
    }
}

#[tokio::test]
async fn executions_stored_by_an_earlier_release_continue_with_their_definition() {
    let recorder = Recorder::start().await.unwrap();
    let file = |first: &str, then: &[&str]| {
        format!("trigger: {{manual: {{}}}}\nsteps:\n{first}{}", posts(&recorder, then))
    };
    // All files have changed since, while no daemon ran.
    let newer = file("", &["newer"]);
    let mut site = Site::new(&["plain", "timed", "paid", "parent"].map(|name| (name, newer.as_str())));
    site.start().await;
    assert!(site.stop().await.success());
    let stored = Stored::open(&site);
    let define = |name: &'static str, text: String| (name, stored.definition(name, &text));
    let plain = define("plain", file("", &["one", "two"]));
    let timed = define("timed", file("  - {id: pause, wait: 1m}\n", &["later"]));
    let paid = define("paid", file("  - {id: paid, waitFor: {event: orderPaid}}\n", &["shipped"]));
    let parent = define("parent", file("  - {id: child, call: timed}\n", &["called"]));

    stored.execution(1, plain, QUEUED, MANUAL, &[], None);
    let began = format!(r#"{{"event":"stepStarted","at":"{}","step":"one","attempt":1}}"#, stored.began);
    stored.execution(2, plain, RUNNING, MANUAL, &[began], None);
    let until = stored.began + SignedDuration::from_mins(1);
    let slept = [stored.waiting("pause", &format!(r#""until":"{until}","on":{{"kind":"time"}}"#))];
    let sleeps = || Some(Pause { step: "pause", until: Some(until), ..Pause::default() });
    stored.execution(3, timed, WAITING, MANUAL, &slept, sleeps());
    let called_by = format!(r#"{{"kind":"call","execution":"{}","step":"child","depth":1}}"#, stored.id(6));
    let event = stored.waiting("paid", r#""on":{"kind":"event","name":"orderPaid"}"#);
    let pause = Pause { step: "paid", event: Some("orderPaid"), ..Pause::default() };
    stored.execution(4, paid, WAITING, MANUAL, &[event], Some(pause));
    stored.execution(5, timed, WAITING, &called_by, &slept, sleeps());
    let child = stored.id(5);
    let called = stored.waiting("child", &format!(r#""on":{{"kind":"call","execution":"{child}"}}"#));
    let pause = Pause { step: "child", child: Some(child), ..Pause::default() };
    stored.execution(6, parent, CALLING, MANUAL, &[called], Some(pause));
    let ids = [1, 2, 3, 4, 5, 6].map(|number| stored.id(number).to_string());
    drop(stored);

    site.start().await;
    let emit = site.api(Method::POST, "/events").json(&json!({"name": "orderPaid", "data": {}}));
    assert_eq!(
        site::emit(emit).await,
        json!({"delivered": 1, "kept": false, "starts": [], "repeated": false})
    );
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
    assert_eq!(recorder.requests_to("/newer").len(), 1, "a new execution uses the current file");
}
