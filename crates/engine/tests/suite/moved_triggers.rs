//! Records of triggers that move to another id: addresses, positions and subscriptions go on, whatever the file says meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use engine::Engine;
use ingress::MoveError;
use model::engine_event::EngineEventName;
use model::{Event, Origin, Payload};
use pretty_assertions::assert_eq;
use runtime::{Clock as _, ManualStart};
use store::{ExecutionFilter, OutboxRow, Page};
use value::Value;

use crate::common::{Peer, Project, rows, settled, soon, stop, subscribed, until, until_async};
use crate::hooks::post;

/// The schedule `id`, every minute.
fn every_minute(id: &str) -> String {
    format!(
        "triggers: [{{id: {id}, schedule: {{every: 1m, misfire: all, overlap: allow}}}}]\nsteps: [{{set: {{a: 1}}}}]\n"
    )
}

/// Returns the executions that schedules started, in order: the trigger and the instant.
async fn ticks(engine: &Engine) -> Vec<(String, String)> {
    let mut ticks: Vec<_> = rows(engine)
        .await
        .into_iter()
        .filter_map(|row| match row.origin {
            Origin::Schedule { instant } => Some((row.trigger.to_string(), instant.to_string())),
            _ => None,
        })
        .collect();
    ticks.sort_by(|one, other| (&one.1, &one.0).cmp(&(&other.1, &other.0)));
    ticks
}

async fn moved(engine: &Engine, from: &str, to: &str) -> u64 {
    soon(engine.move_trigger("test", from, to)).await.expect("it is moved")
}

#[tokio::test]
async fn a_schedule_whose_records_move_fires_each_instant_once() {
    let project = Project::with(&every_minute("old"));
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:02:00Z").await;
    assert_eq!(moved(&engine, "old", "new").await, 1);
    // The file still has the former id.
    settled(&project, "2026-03-02T08:02:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:03:00Z").await;
    let watermarks = engine.store().watermarks().await.expect("they are read");
    let keys: Vec<_> =
        watermarks.iter().map(|mark| (mark.trigger.name(), mark.instant.to_string())).collect();
    assert_eq!(keys, [("test/new".to_owned(), "2026-03-02T08:02:00Z".to_owned())]);
    project.write("automations/test.yaml", &every_minute("new"));
    engine.reload().await;
    stop(engine).await;
    // Instants while no daemon runs are made up for by the position that has moved.
    project.clock.advance(Duration::from_secs(90));
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:04:00Z").await;
    until_async(async || ticks(&engine).await.len() == 3).await;
    let expected = [("old", "08:01"), ("old", "08:02"), ("new", "08:03")];
    let expected = expected.map(|(id, at)| (id.to_owned(), format!("2026-03-02T{at}:00Z")));
    assert_eq!(ticks(&engine).await, expected);
    stop(engine).await;
}

fn polling(peer: &Peer, id: &str) -> String {
    format!(
        "triggers:\n  - id: {id}\n    poll: {{action: http.request, with: {{url: \"{}/list\"}}, every: 1m, items: result.body, deliver: each, start: all}}\n\
         steps: [{{set: {{a: 1}}}}]\n",
        peer.base
    )
}

/// Answers the next poll, and waits until its result is stored and the engine sleeps until the next one.
async fn answer(project: &Project, engine: &Engine, peer: &mut Peer, body: &str, polls: u64) {
    peer.next_request().await.answer(200, body).await;
    let state = || engine.ingress().polls().pop().expect("it polls").poll_state;
    until(|| state().polls == polls).await;
    settled(project, &state().next_at.to_string()).await;
}

#[tokio::test]
async fn a_poll_whose_records_move_delivers_each_item_once() {
    let mut peer = Peer::new().await;
    let project = Project::with(&polling(&peer, "old"));
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"id":1}]"#, 1).await;
    // A poll in progress is waited for.
    project.clock.advance(Duration::from_secs(60));
    let asked = peer.next_request().await;
    let (moving, answered) = tokio::join!(engine.move_trigger("test", "old", "new"), async {
        asked.answer(200, r#"[{"id":2},{"id":1}]"#).await;
    });
    let () = answered;
    assert_eq!(moving.expect("it is moved"), 1 + 2 + 2, "the position, two items and two entries of the log");
    settled(&project, "2026-03-02T08:02:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    answer(&project, &engine, &mut peer, r#"[{"id":3},{"id":2},{"id":1}]"#, 3).await;
    project.write("automations/test.yaml", &polling(&peer, "new"));
    engine.reload().await;
    project.clock.advance(Duration::from_secs(60));
    answer(&project, &engine, &mut peer, r#"[{"id":4},{"id":3},{"id":2},{"id":1}]"#, 4).await;
    let mut items = Vec::new();
    for row in rows(&engine).await.iter().rev() {
        let events = engine.store().events(row.id).await.expect("read").expect("it exists");
        let Some(Event::Started { payload, .. }) = events.first() else { panic!("it has started") };
        let Payload::Poll { data, .. } = &**payload else { panic!("a poll starts it") };
        items.push(format!("{} {}", row.trigger, data.to_json()));
    }
    assert_eq!(items, [r#"old {"id":1}"#, r#"old {"id":2}"#, r#"old {"id":3}"#, r#"new {"id":4}"#]);
    stop(engine).await;
}

#[tokio::test]
async fn a_subscription_whose_trigger_moves_stays_with_its_secret() {
    let mut peer = Peer::new().await;
    let yaml = |id: &str| {
        format!(
            "triggers: [{{id: {id}, event: github.push, connection: hub, with: {{owner: acme, repo: shop}}}}]\nsteps: [{{set: {{a: 1}}}}]\n"
        )
    };
    let mut project = Project::with(&yaml("old"));
    project.settings.public_url = Some("https://hooks.example.com".to_owned());
    let connection = format!("type: github.token\nwith: {{host: \"{}\", token: t}}\n", peer.base);
    project.write("connections/hub.yaml", &connection);
    let engine = project.start().await;
    let asked = peer.next_request().await;
    let body: serde_json::Value = serde_json::from_slice(&asked.body).expect("it is JSON");
    let config = &body["config"];
    let (url, secret) =
        (config["url"].as_str().expect("a URL"), config["secret"].as_str().expect("a secret"));
    let token = url.rsplit('/').next().expect("a token").to_owned();
    asked.answer(201, r#"{"id": 7}"#).await;
    subscribed(&engine, |one| one.remote == Value::from(7)).await;
    let mut push = post(r#"{"ref": "main"}"#);
    push.headers.push(("x-github-event".to_owned(), b"push".to_vec()));
    let signature = format!("sha256={}", crate::hooks::signature(secret, r#"{"ref": "main"}"#));
    push.headers.push(("x-hub-signature-256".to_owned(), signature.into_bytes()));
    let deliver = async |engine: &Engine, id: &str| {
        let mut push = push.clone();
        push.headers.push(("x-github-delivery".to_owned(), id.as_bytes().to_vec()));
        soon(engine.ingress().receive(&token, push)).await.status
    };
    assert_eq!(deliver(&engine, "1").await, 200);
    assert_eq!(moved(&engine, "old", "new").await, 2);
    assert_eq!(deliver(&engine, "2").await, 200);
    project.write("automations/test.yaml", &yaml("new"));
    engine.reload().await;
    assert_eq!(deliver(&engine, "3").await, 200);
    stop(engine).await;
    // Ids within a millisecond are ordered only within one process.
    project.clock.advance(Duration::from_millis(1));
    let engine = project.start().await;
    assert_eq!(deliver(&engine, "4").await, 200);
    until(|| engine.ingress().subscriptions().iter().any(|one| one.trigger.name() == "test/new")).await;
    assert!(peer.pending_request().is_none(), "nothing is requested anew");
    let started: Vec<_> = rows(&engine).await.iter().rev().map(|row| row.trigger.to_string()).collect();
    assert_eq!(started, ["old", "old", "new", "new"]);
    stop(engine).await;
}

#[tokio::test]
async fn events_of_the_engine_on_their_way_move_with_their_trigger() {
    let handler = |id: &str| {
        format!(
            "triggers: [{{id: {id}, event: cogwork.failure}}]\nsteps: [{{set: {{x: 1}}}}]\noutputs: \"${{{{ trigger.results.count }}}}\"\n"
        )
    };
    let project = Project::with(&handler("old"));
    project.write("automations/fails.yaml", "trigger: {manual: {}}\nsteps: [{fail: broken}]\n");
    let engine = project.start().await;
    let fail = async || {
        let start = ManualStart::new(Payload::manual(value::Map::new()), Origin::Manual);
        let key = "fails".parse().expect("a key");
        let id = soon(engine.ingress().start(&key, start)).await.expect("it starts");
        soon(engine.admission().wait(id)).await.expect("it ends");
    };
    let counts = async |engine: &Engine| {
        let mut counts = Vec::new();
        for row in rows(engine).await.iter().rev().filter(|row| row.automation.as_str() == "test") {
            counts.push((row.trigger.to_string(), crate::common::end(engine, row.id).await));
        }
        counts
    };
    let told = |id: &str, count: &str| (id.to_owned(), count.to_owned());
    fail().await;
    until_async(async || counts(&engine).await.len() == 1).await;
    // These wait for their minute.
    fail().await;
    fail().await;
    let name = |id: &str| {
        OutboxRow::engine_name(EngineEventName::Failure, &format!("test#{id}").parse().expect("a key"))
    };
    let on_the_way =
        async |id: &str| engine.store().outbox_page(&name(id), None, 10).await.expect("they are read").len();
    until_async(async || on_the_way("old").await == 2).await;
    assert_eq!(moved(&engine, "old", "new").await, 2);
    assert_eq!((on_the_way("old").await, on_the_way("new").await), (0, 2));
    // The file still has the former id.
    fail().await;
    until_async(async || on_the_way("new").await == 3).await;
    project.write("automations/test.yaml", &handler("new"));
    engine.reload().await;
    until_async(async || {
        project.clock.advance(Duration::from_secs(1));
        counts(&engine).await.iter().filter_map(|(_, count)| count.parse::<u64>().ok()).sum::<u64>() == 4
    })
    .await;
    assert_eq!(counts(&engine).await[0], told("old", "1"));
    stop(engine).await;
}

#[tokio::test]
async fn events_of_a_trigger_that_is_not_in_force_wait_some_minutes_for_it() {
    let handler = "trigger: {event: cogwork.failure}\nsteps: [{set: {x: 1}}]\n";
    for (minutes, started) in [(5, 2), (11, 1)] {
        let project = Project::with(handler);
        project.write("automations/fails.yaml", "trigger: {manual: {}}\nsteps: [{fail: broken}]\n");
        let engine = project.start().await;
        let count =
            async || rows(&engine).await.iter().filter(|row| row.automation.as_str() == "test").count();
        for number in [1, 2] {
            let start = ManualStart::new(Payload::manual(value::Map::new()), Origin::Manual);
            let id = soon(engine.ingress().start(&"fails".parse().expect("a key"), start)).await;
            soon(engine.admission().wait(id.expect("it starts"))).await.expect("it ends");
            if number == 1 {
                until_async(async || count().await == 1).await;
            }
        }
        std::fs::remove_file(project.path("automations/test.yaml")).expect("it is removed");
        engine.reload().await;
        project.clock.advance(Duration::from_secs(60 * minutes));
        // It has looked at the rows, and looks for others after half a minute.
        settled(&project, &(project.clock.now() + Duration::from_secs(30)).to_string()).await;
        let on_the_way = async || engine.store().outbox_counts().await.expect("they are counted").len();
        until_async(async || on_the_way().await == started - 1).await;
        project.write("automations/test.yaml", handler);
        engine.reload().await;
        until_async(async || {
            project.clock.advance(Duration::from_secs(1));
            on_the_way().await == 0 && count().await == started
        })
        .await;
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_move_that_would_lose_something_is_refused_and_changes_nothing() {
    let both = "triggers: [{id: old, webhook: {verify: none}}, {id: other, webhook: {verify: none}}]\nsteps: [{set: {a: 1}}]\n";
    let project = Project::with(both);
    let engine = project.start().await;
    let before = engine.store().addresses().await.expect("they are read");
    let refusal = async |from: &str, to: &str| {
        soon(engine.move_trigger("test", from, to)).await.expect_err("it is refused").to_string()
    };
    assert!(refusal("old", "other").await.contains("both in force"));
    assert!(refusal("old", "old").await.contains("both ids"));
    assert!(refusal("old", "no id").await.contains("not the id of a trigger"));
    assert!(refusal("never", "new").await.contains("it has `test/old`, `test/other`"));
    let unknown = soon(engine.move_trigger("tset", "old", "new")).await.expect_err("there is none");
    assert!(unknown.to_string().contains("did you mean `test`"), "{unknown}");
    assert_eq!(engine.store().addresses().await.expect("they are read"), before);
    // The other trigger is gone, and its address waits for it.
    project.write("automations/test.yaml", &both.replace(", {id: other, webhook: {verify: none}}", ""));
    engine.reload().await;
    let refused = soon(engine.move_trigger("test", "old", "other")).await.expect_err("it has an address");
    assert!(matches!(&refused, MoveError::Refused(reason) if reason.contains("an address")), "{refused}");
    assert_eq!(engine.store().addresses().await.expect("they are read"), before);
    stop(engine).await;
}

/// The triggers of a file, and what the store and the history must have of them.
#[derive(Default)]
struct Oracle {
    /// The triggers in the file by id, and true for a schedule; the others are webhooks.
    triggers: BTreeMap<String, bool>,
    /// The live address of each id that has one.
    addresses: BTreeMap<String, String>,
    /// The ids with the position of a schedule.
    positions: BTreeSet<String>,
    /// The executions by schedules, each with its instant, and the triggers of those by requests.
    ticks: Vec<(String, String)>,
    requests: Vec<String>,
    /// The number of ids that were made up.
    ids: usize,
}

impl Oracle {
    fn fresh(&mut self, is_schedule: bool) -> String {
        self.ids += 1;
        format!("{}{}", if is_schedule { "s" } else { "w" }, self.ids)
    }

    /// Adds triggers until there are 20 with the schedule `clock`.
    fn fill(&mut self, numbers: &mut Numbers) {
        while self.triggers.len() < 19 {
            let is_schedule = numbers.below(2) == 0;
            let id = self.fresh(is_schedule);
            self.triggers.insert(id, is_schedule);
        }
    }

    /// Replaces a trigger by a new or an earlier one.
    fn replace(&mut self, id: &str, numbers: &mut Numbers) {
        let is_schedule = self.triggers.remove(id).expect("it is there");
        let known: Vec<String> = match is_schedule {
            true => self.positions.iter().filter(|id| id.starts_with('s')).cloned().collect(),
            false => self.addresses.keys().cloned().collect(),
        };
        let gone: Vec<String> = known.into_iter().filter(|id| !self.triggers.contains_key(id)).collect();
        let back = numbers.one_of(gone).filter(|_| numbers.below(2) == 0);
        let other = back.unwrap_or_else(|| self.fresh(is_schedule));
        self.triggers.insert(other, is_schedule);
    }

    /// Moves the records of a trigger to another id, which the file has afterwards. A request comes between, and with a project an instant.
    async fn rename(&mut self, id: &str, engine: &Engine, project: Option<&Project>) {
        let is_schedule = self.triggers[id];
        let to = self.fresh(is_schedule);
        assert_eq!(moved(engine, id, &to).await, 1);
        if let Some(project) = project {
            self.pass_a_minute(project).await;
        }
        if let Some(address) = self.addresses.remove(id) {
            self.request(engine, id, &address).await;
            self.addresses.insert(to.clone(), address);
        }
        self.positions.remove(id);
        self.triggers.remove(id);
        self.triggers.insert(to, is_schedule);
    }

    fn yaml(&self) -> String {
        let mut text = "triggers:\n  - {id: clock, schedule: {every: 1m, overlap: allow}}\n".to_owned();
        for (id, is_schedule) in &self.triggers {
            let on = if *is_schedule {
                "schedule: {every: 1m, overlap: allow}"
            } else {
                "webhook: {verify: none}"
            };
            writeln!(text, "  - {{id: {id}, {on}}}").expect("a text");
        }
        text + "steps: [{set: {a: 1}}]\n"
    }

    /// Waits until the engine has followed the file, and compares what is stored. An address that is missing is a new one.
    async fn check(&mut self, engine: &Engine) {
        let in_force = |id: &String| self.triggers.contains_key(id) || id == "clock";
        self.positions.extend(self.triggers.iter().filter(|(_, is)| **is).map(|(id, _)| id.clone()));
        until_async(async || {
            let marks = engine.store().watermarks().await.expect("they are read");
            let ids: BTreeSet<String> = marks.iter().map(|mark| mark.trigger.trigger.to_string()).collect();
            ids == self.positions
                && marks
                    .iter()
                    .all(|mark| in_force(&mark.trigger.trigger.to_string()) != mark.schedule.is_empty())
        })
        .await;
        let stored = engine.store().addresses().await.expect("they are read");
        let stored: BTreeMap<String, String> =
            stored.into_iter().map(|one| (one.trigger.trigger.to_string(), one.live)).collect();
        for (id, _) in self.triggers.iter().filter(|(_, is_schedule)| !**is_schedule) {
            let fresh = stored.get(id).cloned().expect("a webhook has an address");
            let known = self.addresses.entry(id.clone()).or_insert_with(|| fresh.clone());
            assert_eq!(*known, fresh, "{id} keeps its address");
        }
        assert_eq!(stored, self.addresses);
        let distinct: BTreeSet<&String> = stored.values().collect();
        assert_eq!(distinct.len(), stored.len());
    }

    /// Lets a minute pass, at the end of which every schedule in the file fires once.
    async fn pass_a_minute(&mut self, project: &Project) {
        let next = project.clock.now() + Duration::from_secs(60);
        settled(project, &next.to_string()).await;
        project.clock.advance(Duration::from_secs(60));
        settled(project, &(next + Duration::from_secs(60)).to_string()).await;
        let schedules =
            self.triggers.iter().filter(|(_, is_schedule)| **is_schedule).map(|(id, _)| id.as_str());
        let fired = schedules.chain(["clock"]).map(|id| (id.to_owned(), next.to_string()));
        self.ticks.extend(fired);
    }

    /// Sends a request to the address of a trigger. It starts an execution if the trigger is in the file.
    async fn request(&mut self, engine: &Engine, id: &str, token: &str) {
        let status = soon(engine.ingress().receive(token, post("{}"))).await.status;
        let is_there = self.triggers.contains_key(id);
        assert_eq!(status, if is_there { 200 } else { 404 }, "{id}");
        if is_there {
            self.requests.push(id.to_owned());
        }
    }
}

/// A sequence of numbers that a seed determines.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("it fits") % end
    }

    fn one_of<T>(&mut self, mut all: Vec<T>) -> Option<T> {
        (!all.is_empty()).then(|| all.swap_remove(self.below(all.len())))
    }
}

/// The executions of an engine that schedules started, and the triggers of the others.
async fn started(engine: &Engine) -> (Vec<(String, String)>, Vec<String>) {
    let (mut ticks, mut requests, mut before) = (Vec::new(), Vec::new(), None);
    loop {
        let (page, filter) = (Page { before, limit: 1000 }, ExecutionFilter::default());
        let rows = engine.store().executions(&filter, page).await.expect("they are read");
        let Some(last) = rows.last() else { break };
        before = Some(last.id);
        for row in rows {
            match row.origin {
                Origin::Schedule { instant } => ticks.push((row.trigger.to_string(), instant.to_string())),
                _ => requests.push(row.trigger.to_string()),
            }
        }
    }
    (ticks, requests)
}

#[tokio::test]
async fn twenty_triggers_keep_addresses_instants_and_records_over_a_thousand_reloads() {
    let project = Project::new();
    let (mut oracle, mut numbers) = (Oracle::default(), Numbers(17));
    oracle.positions.insert("clock".to_owned());
    oracle.fill(&mut numbers);
    project.write("automations/test.yaml", &oracle.yaml());
    let engine = project.start().await;
    oracle.check(&engine).await;
    for round in 0..1000 {
        let id = numbers.one_of(oracle.triggers.keys().cloned().collect()).expect("there are triggers");
        match numbers.below(3) {
            0 => oracle.replace(&id, &mut numbers),
            1 => {
                oracle.triggers.remove(&id);
                oracle.fill(&mut numbers);
            }
            _ => oracle.rename(&id, &engine, (round % 3 == 0).then_some(&project)).await,
        }
        project.write("automations/test.yaml", &oracle.yaml());
        engine.reload().await;
        oracle.check(&engine).await;
        if round % 10 == 0 {
            oracle.pass_a_minute(&project).await;
        }
        let webhooks = oracle.addresses.clone().into_iter().collect();
        let (id, address) = numbers.one_of::<(String, String)>(webhooks).expect("there are webhooks");
        oracle.request(&engine, &id, &address).await;
    }
    until_async(async || engine.store().unfinished_count().await.is_ok_and(|count| count == 0)).await;
    let (mut ticks, mut requests) = started(&engine).await;
    ticks.sort();
    requests.sort();
    oracle.ticks.sort();
    oracle.requests.sort();
    assert_eq!((ticks.len(), requests.len()), (oracle.ticks.len(), oracle.requests.len()));
    assert_eq!((ticks, requests), (oracle.ticks, oracle.requests));
    stop(engine).await;
}
