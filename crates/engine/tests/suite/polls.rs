//! Polls deliver each new item once, over restarts, failures and changes.

use std::time::Duration;

use engine::Engine;
use jiff::SignedDuration;
use model::{AutomationId, Event, Payload};
use runtime::Clock as _;
use store::PollState;
use value::Value;

use crate::common::{Peer, PeerRequest, Project, rows, settled, soon, stop, until};

fn id() -> AutomationId {
    AutomationId::parse("test").expect("an id")
}

/// Creates a project that polls the peer every minute.
fn polling(peer: &Peer, more: &str) -> Project {
    Project::with(&yaml(&peer.base, more))
}

fn yaml(base: &str, more: &str) -> String {
    format!(
        "trigger:\n  poll: {{action: http.request, with: {{url: \"{base}/list\"}}, every: 1m, items: result.body{more}}}\n\
         steps:\n  - set: {{got: \"${{{{ trigger.results.body.data }}}}\"}}\n"
    )
}

/// Returns the payloads of the executions, oldest first.
async fn given(engine: &Engine) -> Vec<String> {
    let mut given = Vec::new();
    for row in rows(engine).await.iter().rev() {
        let events = engine.store().events(row.id).await.expect("read").expect("it exists");
        let Some(Event::Started { payload, origin, .. }) = events.first() else { panic!("it has started") };
        let Payload::Poll { data, .. } = &**payload else { panic!("a poll starts it") };
        given.push(format!("{} {}", origin.as_str(), data.to_json()));
    }
    given
}

/// Answers the current or next poll, and waits until its result is processed.
async fn answer(project: &Project, engine: &Engine, peer: &mut Peer, body: &str) {
    let asked = peer.next_request().await;
    let before = poll_state(engine).polls;
    asked.answer(200, body).await;
    polled(project, engine, before + 1).await;
}

/// Advances the clock by a minute and answers the poll that is due.
async fn next_poll(project: &Project, engine: &Engine, peer: &mut Peer, body: &str) {
    project.clock.advance(Duration::from_secs(60));
    answer(project, engine, peer, body).await;
}

/// Waits until `polls` polls are done and the engine sleeps until the next one.
pub(crate) async fn polled(project: &Project, engine: &Engine, polls: u64) {
    let reached = async {
        while poll_state(engine).polls != polls {
            tokio::task::yield_now().await;
        }
    };
    soon(reached).await;
    settled(project, &poll_state(engine).next_at.to_string()).await;
}

fn poll_state(engine: &Engine) -> PollState {
    engine.ingress().polls().pop().expect("it polls").poll_state
}

#[tokio::test]
async fn the_first_poll_starts_nothing_and_each_new_item_starts_one_execution() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, ", deliver: each");
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"id":1}]"#).await;
    next_poll(&project, &engine, &mut peer, r#"[{"id":3},{"id":2},{"id":1}]"#).await;
    stop(engine).await;
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:02:00Z").await;
    next_poll(&project, &engine, &mut peer, r#"[{"id":4},{"id":3},{"id":1}]"#).await;
    assert_eq!(given(&engine).await, [r#"poll {"id":3}"#, r#"poll {"id":2}"#, r#"poll {"id":4}"#]);
    let poll_state = poll_state(&engine);
    assert_eq!((poll_state.polls, poll_state.found, poll_state.failures), (3, 3, 0));
    stop(engine).await;
}

#[tokio::test]
async fn new_items_go_to_one_execution_and_start_all_includes_the_first_poll() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, ", start: all");
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"id":1},{"id":2}]"#).await;
    next_poll(&project, &engine, &mut peer, r#"[{"id":1},{"id":2}]"#).await;
    assert_eq!(given(&engine).await, [r#"poll [{"id":1},{"id":2}]"#]);
    let log = engine.store().poll_entries(&id().into(), 10).await.expect("read");
    assert_eq!(log.iter().map(|entry| (entry.items, entry.found)).collect::<Vec<_>>(), [(2, 0), (2, 2)]);
    stop(engine).await;
}

#[tokio::test]
async fn a_failed_poll_keeps_its_position_records_the_error_and_backs_off() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, "");
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"id":1}]"#).await;
    let mut pauses = Vec::new();
    for (status, body) in [(500, "{}"), (200, "{}"), (200, r#"[{"id":2},{"id":1}]"#)] {
        let due = poll_state(&engine).next_at;
        project.clock.advance_to(due);
        peer.next_request().await.answer(status, body).await;
        polled(&project, &engine, u64::try_from(pauses.len()).expect("few") + 2).await;
        let poll_state = poll_state(&engine);
        pauses.push((poll_state.failures, poll_state.next_at.duration_since(due).as_secs() / 60));
        if poll_state.failures == 2 {
            assert_eq!(
                poll_state.error.as_deref(),
                Some("`http.request` returned no list of items, but a map")
            );
        }
    }
    assert_eq!(pauses, [(1, 1), (2, 2), (0, 1)]);
    assert_eq!(given(&engine).await, [r#"poll [{"id":2}]"#]);
    assert_eq!(poll_state(&engine).error, None);
    stop(engine).await;
}

#[tokio::test]
async fn a_clock_step_does_not_change_the_interval_or_backoff_of_a_poll() {
    for hours in [1, -1, 8760, -8760] {
        let mut peer = Peer::new().await;
        let project = polling(&peer, "");
        let engine = project.start().await;
        answer(&project, &engine, &mut peer, "[]").await;
        for status in [500, 200] {
            let left = poll_state(&engine).next_at.duration_since(project.clock.now());
            project.clock.step(SignedDuration::from_hours(hours));
            // The sleep continues to the same moment, which has another wall-clock time now.
            let next = poll_state(&engine).next_at;
            assert_eq!(next.duration_since(project.clock.now()), left, "set by {hours} h");
            let second = Duration::from_secs(1);
            project.clock.advance(left.unsigned_abs() - second);
            settled(&project, &next.to_string()).await;
            assert!(!engine.ingress().polls().pop().expect("it polls").busy, "set by {hours} h");
            project.clock.advance(second);
            let before = poll_state(&engine).polls;
            peer.next_request().await.answer(status, r#"{"no": "list"}"#).await;
            polled(&project, &engine, before + 1).await;
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn an_unanswered_poll_ends_at_its_deadline_and_an_interrupted_one_is_repeated() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, ", start: all");
    let engine = project.start().await;
    let unanswered = peer.next_request().await;
    project.clock.advance(Duration::from_secs(60));
    polled(&project, &engine, 1).await;
    assert_eq!(poll_state(&engine).error.as_deref(), Some("there was no answer within 1m"));
    drop(unanswered);
    project.clock.advance_to(poll_state(&engine).next_at);
    let cut_off = peer.next_request().await;
    stop(engine).await;
    drop(cut_off);
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"id":1}]"#).await;
    assert_eq!(given(&engine).await, [r#"poll [{"id":1}]"#]);
    stop(engine).await;
}

#[tokio::test]
async fn a_cursor_carries_over_to_the_next_poll_and_can_be_rewound_and_reset() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger:\n  poll:\n    action: http.request\n    every: 1m\n    items: result.body.list\n    \
         cursor: result.body.next\n    start: all\n    \
         with: {{url: \"{}/list?after=${{{{ cursor | default('none', true) }}}}\"}}\nsteps: []\n",
        peer.base
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "GET /list?after=none");
    asked.answer(200, r#"{"list":[{"id":1}],"next":"a"}"#).await;
    polled(&project, &engine, 1).await;
    project.clock.advance(Duration::from_secs(60));
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "GET /list?after=a");
    asked.answer(200, r#"{"list":[],"next":"b"}"#).await;
    polled(&project, &engine, 2).await;
    // After a rewind, known items are new again.
    engine.ingress().rewind_poll(&id().into(), Value::from("0")).await.expect("it is rewound");
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "GET /list?after=0");
    asked.answer(200, r#"{"list":[{"id":1}],"next":"b"}"#).await;
    polled(&project, &engine, 1).await;
    engine.ingress().reset_poll(&id().into()).await.expect("it is reset");
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "GET /list?after=none");
    asked.answer(200, r#"{"list":[],"next":"a"}"#).await;
    polled(&project, &engine, 1).await;
    assert_eq!(given(&engine).await, [r#"poll [{"id":1}]"#, r#"poll [{"id":1}]"#]);
    stop(engine).await;
}

#[tokio::test]
async fn a_poll_continues_after_a_change_of_steps_and_restarts_after_one_of_the_poll() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, "");
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"id":1}]"#).await;
    project.write("automations/test.yaml", &format!("description: changed\n{}", yaml(&peer.base, "")));
    engine.reload().await;
    next_poll(&project, &engine, &mut peer, r#"[{"id":2},{"id":1}]"#).await;
    assert_eq!(given(&engine).await, [r#"poll [{"id":2}]"#]);
    project.write("automations/test.yaml", &yaml(&peer.base, ", id: item.key"));
    engine.reload().await;
    // The new poll runs at once, as a first one.
    peer.next_request().await.answer(200, r#"[{"key":"x"}]"#).await;
    polled(&project, &engine, 1).await;
    project
        .write("automations/test.yaml", &format!("enabled: false\n{}", yaml(&peer.base, ", id: item.key")));
    engine.reload().await;
    until(|| engine.ingress().polls().is_empty()).await;
    project.clock.advance(Duration::from_secs(600));
    assert!(engine.ingress().poll_now(&id().into()).await.is_err());
    assert!(peer.pending_request().is_none());
    assert_eq!(given(&engine).await.len(), 1);
    stop(engine).await;
}

/// Formats a page of the wiki's list: id, version, and the second of that version's creation.
fn pages(pages: &[(u32, u32, u32)], next: Option<&str>) -> String {
    let page = |(id, version, second): &(u32, u32, u32)| {
        format!(
            r#"{{"id":"{id}","version":{{"number":{version},"createdAt":"2026-03-02T08:{:02}:{:02}.000Z"}}}}"#,
            second / 60,
            second % 60
        )
    };
    let links = next.map_or(String::new(), |cursor| {
        format!(r#","_links":{{"next":"/wiki/api/v2/pages?cursor={cursor}"}}"#)
    });
    format!(r#"{{"results":[{}]{links}}}"#, pages.iter().map(page).collect::<Vec<_>>().join(","))
}

#[tokio::test]
async fn changed_pages_are_read_newest_first_down_to_the_known_watermark() {
    let mut peer = Peer::new().await;
    let project = Project::with(
        "trigger: {event: wiki.pageChanged, connection: wiki, with: {spaceId: [\"7\"]}, every: 1m, deliver: each}\nsteps: []\n",
    );
    let connection =
        format!("type: wiki.basic\nwith: {{host: \"{}\", email: a@example.com, apiToken: t}}\n", peer.base);
    project.write("connections/wiki.yaml", &connection);
    // None of the pages is of the future.
    project.clock.advance(Duration::from_secs(720));
    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "GET /wiki/api/v2/pages?limit=100&space-id=7&sort=-modified-date&status=current");
    // The overlap is two minutes: older pages are not requested.
    asked.answer(200, &pages(&[(1, 1, 600), (2, 5, 500), (3, 1, 400)], Some("more"))).await;
    polled(&project, &engine, 1).await;
    project.clock.advance(Duration::from_secs(60));
    peer.next_request().await.answer(200, &pages(&[(4, 1, 700), (2, 6, 650)], Some("p2"))).await;
    let asked = peer.next_request().await;
    assert!(asked.line.contains("cursor=p2"), "{}", asked.line);
    // One page that became visible late, one known page, and one older than the overlap.
    asked.answer(200, &pages(&[(5, 2, 550), (2, 5, 500), (3, 1, 400)], Some("p3"))).await;
    polled(&project, &engine, 2).await;
    assert!(peer.pending_request().is_none(), "nothing older is requested");
    let given = given(&engine).await;
    let found: Vec<(&str, &str)> = given
        .iter()
        .map(|given| {
            let change = if given.contains("created\",") { "created" } else { "updated" };
            (change, given.split("\"id\":\"").nth(1).and_then(|rest| rest.get(..1)).unwrap_or_default())
        })
        .collect();
    assert_eq!(found, [("updated", "5"), ("updated", "2"), ("created", "4")], "{given:?}");
    assert!(given[0].starts_with("event "), "{given:?}");
    assert_eq!(poll_state(&engine).cursor, Value::from("2026-03-02T08:11:40Z"));
    stop(engine).await;
}

/// A connector whose list begins at an instant, oldest first, and cannot be limited to the newest record.
const AGENDA: &str = "connector: agenda
title: Agenda
version: 1.0.0
connections:
  open: {title: Open, inputs: {host: {type: text, required: true}}, baseUrl: {input: host}, auth: {none: true}}
inputs: {updatedMin: {type: text, description: The instant.}, pageToken: {type: text, description: The page.}}
paging: {input: pageToken, next: [{body: next}], items: items}
actions:
  list:
    title: List
    request: GET /events
    inputs: {updatedMin: query updatedMin, pageToken: query pageToken}
    paging: true
    example: {with: {}, request: GET /events}
events:
  changed:
    title: Changed
    poll: {action: list, items: items, id: [id, updated], time: updated, since: {input: updatedMin}, every: 1m, overlap: 2m}
";

#[tokio::test]
async fn a_list_that_cannot_be_limited_to_its_newest_record_begins_now_and_moves_on() {
    let mut peer = Peer::new().await;
    let project = Project::with(
        "trigger: {event: agenda.changed, connection: agenda, every: 1m, deliver: each}\nsteps: []\n",
    );
    std::fs::create_dir(project.path("connectors")).expect("a folder");
    project.write("connectors/agenda.yaml", AGENDA);
    project
        .write("connections/agenda.yaml", &format!("type: agenda.open\nwith: {{host: \"{}\"}}\n", peer.base));
    project.clock.advance(Duration::from_secs(720));
    let engine = project.start().await;
    let event = |id: u32, time: &str| format!(r#"{{"id":"{id}","updated":"2026-03-02T08:{time}Z"}}"#);
    let page = |events: &[String]| format!(r#"{{"items":[{}]}}"#, events.join(","));
    // By poll, one a minute from 08:12 on: where the list begins, the events in it, and the position afterwards.
    for (poll, (from, events, position)) in [
        ("08:00", vec![event(1, "09:00")], "10:00"),
        ("08:00", vec![event(1, "09:00"), event(2, "12:30")], "12:30"),
        ("10:30", vec![event(2, "12:30")], "12:30"),
        ("10:30", vec![], "13:00"),
        ("11:00", vec![event(3, "11:10"), event(1, "15:30")], "15:30"),
    ]
    .into_iter()
    .enumerate()
    {
        let asked = peer.next_request().await;
        assert_eq!(
            asked.line,
            format!("GET /events?updatedMin=2026-03-02T08%3A{}Z", from.replace(':', "%3A"))
        );
        asked.answer(200, &page(&events)).await;
        polled(&project, &engine, poll as u64 + 1).await;
        let expected = format!("2026-03-02T08:{position}Z");
        assert_eq!(poll_state(&engine).cursor, Value::from(expected), "poll {poll}");
        project.clock.advance(Duration::from_secs(60));
    }
    let given = given(&engine).await;
    let ids: Vec<&str> = given.iter().filter_map(|given| given.split("\"id\":\"").nth(1)?.get(..1)).collect();
    assert_eq!(ids, ["2", "3", "1"], "{given:?}");
    stop(engine).await;
}

#[tokio::test]
async fn a_poll_keeps_its_position_if_only_headers_or_timeout_change() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, "");
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"id":1}]"#).await;
    let base = peer.base.clone();
    let with = |more: &str| yaml(&base, "").replace("/list\"}", &format!("/list\", {more}}}"));
    project.write("automations/test.yaml", &with("timeout: 10s, headers: {x-a: b}"));
    let forecast = soon(engine.preview_reload()).await.expect("a forecast");
    assert_eq!(forecast.changes[0].summary(), "poll: `with` changed; poll: kept");
    engine.reload().await;
    project.clock.advance(Duration::from_secs(60));
    peer.next_request().await.answer(500, "{}").await;
    polled(&project, &engine, 2).await;
    project.clock.advance_to(poll_state(&engine).next_at);
    answer(&project, &engine, &mut peer, r#"[{"id":2},{"id":1}]"#).await;
    assert_eq!(given(&engine).await, [r#"poll [{"id":2}]"#]);
    project.write("automations/test.yaml", &with("query: {a: b}"));
    let forecast = soon(engine.preview_reload()).await.expect("a forecast");
    assert_eq!(forecast.changes[0].summary(), "poll: `with` changed; poll: starts again");
    stop(engine).await;
}

#[tokio::test]
async fn a_304_response_is_a_poll_without_items_and_keeps_the_cursor() {
    let mut peer = Peer::new().await;
    let text = yaml(&peer.base, ", cursor: result.headers.etag, start: all")
        .replace("/list\"}", "/list\", headers: {if-none-match: \"${{ cursor | default('none', true) }}\"}}");
    let project = Project::with(&text);
    let engine = project.start().await;
    peer.next_request().await.answer_with(200, "etag: v1\r\n", r#"[{"id":1}]"#).await;
    polled(&project, &engine, 1).await;
    project.clock.advance(Duration::from_secs(60));
    let asked = peer.next_request().await;
    assert_eq!(asked.header("if-none-match"), Some("v1"));
    asked.answer_with(304, "", "").await;
    polled(&project, &engine, 2).await;
    let state = poll_state(&engine);
    assert_eq!((state.error, state.failures, state.cursor), (None, 0, Value::from("v1")));
    project.clock.advance(Duration::from_secs(60));
    peer.next_request().await.answer_with(200, "etag: v2\r\n", r#"[{"id":2},{"id":1}]"#).await;
    polled(&project, &engine, 3).await;
    assert_eq!(given(&engine).await, [r#"poll [{"id":1}]"#, r#"poll [{"id":2}]"#]);
    stop(engine).await;
}

#[tokio::test]
async fn an_item_without_an_id_is_delivered_once_and_blocks_no_others() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, ", id: item.key, start: all");
    let engine = project.start().await;
    answer(&project, &engine, &mut peer, r#"[{"key":1},{"name":"x"},{"key":null}]"#).await;
    assert_eq!(poll_state(&engine).error, None);
    next_poll(&project, &engine, &mut peer, r#"[{"key":1},{"name":"x"},{"key":2}]"#).await;
    assert_eq!(
        given(&engine).await,
        [r#"poll [{"key":1},{"name":"x"},{"key":null}]"#, r#"poll [{"key":2}]"#]
    );
    next_poll(&project, &engine, &mut peer, r#"[{"name":"x"}]"#).await;
    let error = poll_state(&engine).error.expect("no record has an id");
    assert!(error.starts_with("`id` of item 0"), "{error}");
    stop(engine).await;
}

#[tokio::test]
async fn a_poll_reads_a_maximum_of_items() {
    let mut peer = Peer::new().await;
    let project = polling(&peer, "");
    let engine = project.start().await;
    let items = |count: u32| {
        let items: Vec<String> = (0..count).map(|number| format!(r#"{{"id":{number}}}"#)).collect();
        format!("[{}]", items.join(","))
    };
    answer(&project, &engine, &mut peer, &items(10_000)).await;
    assert_eq!(poll_state(&engine).error, None);
    next_poll(&project, &engine, &mut peer, &items(10_001)).await;
    let expected = "the result has 10001 items, but a poll reads at most 10000; request fewer";
    assert_eq!(poll_state(&engine).error.as_deref(), Some(expected));
    stop(engine).await;
}

#[tokio::test]
async fn a_poll_of_an_event_reads_a_maximum_of_pages() {
    let mut peer = Peer::new().await;
    let project = Project::with(
        "trigger: {event: wiki.pageChanged, connection: wiki, with: {spaceId: [\"7\"]}, every: 1m, start: all, deliver: each}\nsteps: []\n",
    );
    let connection =
        format!("type: wiki.basic\nwith: {{host: \"{}\", email: a@example.com, apiToken: t}}\n", peer.base);
    project.write("connections/wiki.yaml", &connection);
    let engine = project.start().await;
    for number in 1..=50 {
        let cursor = format!("p{number}");
        peer.next_request().await.answer(200, &pages(&[(number, 1, 600 - number)], Some(&cursor))).await;
    }
    polled(&project, &engine, 1).await;
    assert!(peer.pending_request().is_none(), "no further page is read");
    stop(engine).await;
}

#[tokio::test]
async fn polls_run_in_parallel_up_to_a_limit() {
    // Calls to one host have the same limit, so there are three hosts.
    let mut peers = [Peer::new().await, Peer::new().await, Peer::new().await];
    let project = Project::new();
    for number in 0..33 {
        let text = yaml(&peers[number % peers.len()].base, "");
        project.write(&format!("automations/p{number}.yaml"), &text);
    }
    let engine = project.start().await;
    let mut held = Vec::new();
    until_requests(&mut peers, &mut held, 32).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(peers.iter_mut().all(|peer| peer.pending_request().is_none()), "the last one waits");
    assert_eq!(held.len(), 32);
    held.remove(0).answer(200, "[]").await;
    until_requests(&mut peers, &mut held, 32).await;
    drop(held);
    stop(engine).await;
}

/// Collects requests in `held` until there are `count`.
async fn until_requests(peers: &mut [Peer], held: &mut Vec<PeerRequest>, count: usize) {
    soon(async {
        while held.len() < count {
            held.extend(peers.iter_mut().filter_map(Peer::pending_request));
            tokio::task::yield_now().await;
        }
    })
    .await;
}
