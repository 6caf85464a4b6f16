//! Tests of the wiki connector against the simulated wiki: a round trip of each action, complete lists, and failures.

#![expect(clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod filters;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use connector::{
    AllowList, Call, FileAccess, Http, HttpOptions, LogSink, Lookup, Registry, ResolvedConnection,
    UncountedAnswers, check_inputs,
};
use model::{ActionError, ErrorKind, LogLevel, ResultType};
use pretty_assertions::assert_eq;
use serde_json::json;
use value::{JsonLimits, Map, Reserved, Value};
use wiki_simulator::{
    CLOUD_ID, DEMO_ATTACHMENT_ID, DEMO_CUSTOM_CONTENT_ID, DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SCOPED_TOKEN,
    DEMO_SPACE_ID, DEMO_TOKEN, FIRST_ID, Fault, PageSeed, Running, Simulator, When,
};

/// Beyond the exact range of floats, so that an id converted to a float changes.
const LARGE_ID: u64 = 9_007_199_254_740_993;

/// The id of an object of the demo site in a wiki whose ids begin at [`LARGE_ID`].
fn id(demo: u64) -> String {
    (demo - FIRST_ID + LARGE_ID).to_string()
}

struct Quiet;

impl LogSink for Quiet {
    fn line(&self, _: LogLevel, _: &str) {}
}

/// The simulator with a client.
struct Wiki {
    simulator: Running,
    registry: Registry,
    http: Http,
    connection: ResolvedConnection,
    called: Mutex<BTreeSet<String>>,
}

fn connect(registry: &Registry, host: &str, token: &str) -> ResolvedConnection {
    let inputs: Map = [("email", DEMO_EMAIL), ("apiToken", token), ("host", host)].into_iter().collect();
    registry.connection_type("wiki.basic").expect("a type").resolve("mainWiki", &inputs).expect("it resolves")
}

impl Wiki {
    async fn start() -> Self {
        Self::new(Simulator::builder().first_id(LARGE_ID).demo().start().await.expect("it starts"))
    }

    fn new(simulator: Running) -> Self {
        let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let allow = AllowList::parse(["127.0.0.1"]).expect("an entry");
        let http = Http::new(HttpOptions { allow, ..HttpOptions::default() }).expect("a client");
        let connection = connect(&registry, simulator.base_url(), DEMO_TOKEN);
        Self { simulator, registry, http, connection, called: Mutex::default() }
    }

    async fn try_as(
        &self,
        connection: &ResolvedConnection,
        action: &str,
        inputs: serde_json::Value,
    ) -> Result<Value, ActionError> {
        self.called.lock().expect("not poisoned").insert(format!("wiki.{action}"));
        let action = self.registry.action(&format!("wiki.{action}")).expect("an action");
        let inputs = Value::from_json(inputs.to_string().as_bytes(), JsonLimits::default()).expect("JSON");
        let inputs = check_inputs(action.spec(), inputs.as_map().expect("a map"), &Reserved::nothing())?;
        let result = action
            .call(Call {
                inputs: &inputs,
                connection: Some(connection),
                idempotency_key: "execution.step",
                may_repeat: false,
                memory: &Reserved::nothing(),
                answers: &UncountedAnswers,
                http: &self.http,
                debug: false,
                log: &Quiet,
                trace: None,
                files: FileAccess::in_memory(),
                time_left: None,
            })
            .await?;
        let spec = action.spec();
        assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
        Ok(result)
    }

    async fn try_call(&self, action: &str, inputs: serde_json::Value) -> Result<Value, ActionError> {
        self.try_as(&self.connection, action, inputs).await
    }

    async fn call(&self, action: &str, inputs: serde_json::Value) -> Value {
        match self.try_call(action, inputs).await {
            Ok(value) => value,
            Err(error) => panic!("wiki.{action}: {error}"),
        }
    }

    async fn fails(&self, action: &str, inputs: serde_json::Value) -> ActionError {
        self.try_call(action, inputs).await.expect_err(action)
    }
}

fn text(value: &Value, path: &str) -> String {
    value.path(path).map(|value| value.to_text()).unwrap_or_default()
}

fn titles(list: &Value) -> Vec<String> {
    let results = list.get("results").expect("a list");
    results.as_list().expect("a list").iter().map(|item| text(item, "title")).collect()
}

#[test]
fn every_action_declares_its_result_type() {
    let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    let silent: Vec<&str> = registry
        .actions()
        .map(|action| action.spec())
        .filter(|spec| spec.results == ResultType::Any || spec.result.is_none())
        .map(|spec| spec.name.as_str())
        .collect();
    // The type of a query's result, or of parsed JSON, is known only to its author.
    assert_eq!(silent, ["wiki.rawGraphqlRequest", "data.parseJson"]);
}

#[tokio::test]
async fn fields_included_on_request_have_their_declared_type() {
    let wiki = Wiki::start().await;
    let page = json!({"pageId": id(DEMO_PAGE_ID), "bodyFormat": "storage", "includeLabels": true,
        "includeProperties": true, "includeOperations": true, "includeLikes": true, "includeVersions": true,
        "includeFavoritedByCurrentUserStatus": true});
    let page = wiki.call("getPage", page).await;
    let all = ["labels", "properties", "operations", "likes", "versions", "isFavoritedByCurrentUser"];
    assert!(all.iter().all(|name| page.get(name).is_some()), "{}", page.to_json());

    let space = json!({"spaceId": id(DEMO_SPACE_ID), "queryParameters": {"description-format": "plain",
        "include-icon": true, "include-operations": true, "include-properties": true, "include-permissions": true,
        "include-labels": true}});
    let space = wiki.call("getSpace", space).await;
    let all = ["icon", "operations", "properties", "permissions", "labels"];
    assert!(all.iter().all(|name| space.get(name).is_some()), "{}", space.to_json());

    let attachment = json!({"attachmentId": format!("att{}", id(DEMO_ATTACHMENT_ID)), "queryParameters": {
        "include-labels": true, "include-properties": true, "include-operations": true, "include-versions": true}});
    let attachment = wiki.call("getAttachment", attachment).await;
    let all = ["labels", "properties", "operations", "versions"];
    assert!(all.iter().all(|name| attachment.get(name).is_some()), "{}", attachment.to_json());
}

#[tokio::test]
async fn every_action_round_trips_through_the_wiki() {
    let wiki = Wiki::start().await;
    spaces_and_graphql(&wiki).await;
    pages(&wiki).await;
    attachments(&wiki).await;
    let page = json!({"pageId": id(DEMO_PAGE_ID)});
    properties(&wiki, "Page", "ForPage", "getContentPropertyForPage", &page).await;
    let attachment = json!({"attachmentId": format!("att{}", id(DEMO_ATTACHMENT_ID))});
    properties(&wiki, "Attachment", "ForAttachments", "getContentPropertyForAttachment", &attachment).await;
    let content = json!({"customContentId": id(DEMO_CUSTOM_CONTENT_ID)});
    properties(&wiki, "CustomContent", "ForCustomContent", "getContentPropertiesForCustomContent", &content)
        .await;

    let declared: BTreeSet<String> =
        wiki.registry.connector("wiki").expect("it is shipped").actions.iter().cloned().collect();
    assert_eq!(*wiki.called.lock().expect("not poisoned"), declared);
    assert_eq!(declared.len(), 29);
}

async fn spaces_and_graphql(wiki: &Wiki) {
    let spaces = wiki.call("listSpaces", json!({"queryParameters": {"keys": "DEMO"}})).await;
    let space = spaces.get("results").and_then(|list| list.at(0).cloned()).expect("one space");
    assert_eq!((text(&space, "id"), text(&space, "key")), (id(DEMO_SPACE_ID), "DEMO".to_owned()));
    assert_eq!(spaces.get("nextCursor"), Some(Value::Null));
    let one = wiki.call(
        "getSpace",
        json!({"spaceId": id(DEMO_SPACE_ID), "queryParameters": {"description-format": "plain"}}),
    );
    assert!(!text(&one.await, "description.plain.value").is_empty());
    let data = wiki.call("rawGraphqlRequest", json!({"query": "query Spaces { spaces { key } }"})).await;
    assert!(data.to_json().contains("DEMO"), "{}", data.to_json());
}

async fn pages(wiki: &Wiki) {
    let space = id(DEMO_SPACE_ID);
    let page = wiki
        .call(
            "createPage",
            json!({"spaceId": space, "title": "Order 17", "body": {"value": "<p>2 pieces</p>"}}),
        )
        .await;
    let page_id = text(&page, "id");
    assert!(page_id.parse::<u64>().is_ok_and(|id| id > LARGE_ID), "{page_id}");
    assert_eq!(text(&page, "body.storage.value"), "<p>2 pieces</p>");

    let inputs =
        json!({"pageId": page_id, "bodyFormat": "storage", "includeLabels": true, "includeVersion": false});
    let read = wiki.call("getPage", inputs).await;
    assert_eq!(text(&read, "body.storage.value"), "<p>2 pieces</p>");
    assert!(read.get("labels").is_some() && read.get("version").is_none());

    let inputs = json!({"pageId": page_id, "status": "current", "title": "Order 17b",
        "body": {"value": "<p>3 pieces</p>"}, "version": {"number": 2, "message": "one more"}});
    let updated = wiki.call("updatePage", inputs).await;
    assert_eq!(
        (text(&updated, "version.number"), text(&updated, "version.message")),
        ("2".into(), "one more".into())
    );
    let old = wiki.call("getPage", json!({"pageId": page_id, "version": 1})).await;
    assert_eq!(text(&old, "title"), "Order 17");

    let listed =
        wiki.call("listPages", json!({"id": [page_id], "spaceId": space, "status": "current,trashed"})).await;
    assert_eq!(titles(&listed), ["Order 17b"]);
    let listed =
        wiki.call("listPagesInSpace", json!({"spaceId": space, "title": "Order 17b", "depth": "all"})).await;
    assert_eq!(titles(&listed), ["Order 17b"]);

    assert_eq!(wiki.call("deletePage", json!({"pageId": page_id})).await, Value::Null);
    assert_eq!(text(&wiki.call("getPage", json!({"pageId": page_id})).await, "status"), "trashed");
    assert_eq!(wiki.call("deletePage", json!({"pageId": page_id, "purge": true})).await, Value::Null);
    assert_eq!(wiki.fails("getPage", json!({"pageId": page_id})).await.status, Some(404));

    let draft = wiki
        .call(
            "createPage",
            json!({"spaceId": space, "title": "", "status": "draft", "body": {"value": "<p/>"}}),
        )
        .await;
    let draft_id = text(&draft, "id");
    assert_eq!(
        text(&wiki.call("getPage", json!({"pageId": draft_id, "getDraft": true})).await, "status"),
        "draft"
    );
    assert_eq!(wiki.call("deletePage", json!({"pageId": draft_id, "draft": true})).await, Value::Null);
}

async fn attachments(wiki: &Wiki) {
    let upload = json!({
        "url": format!("/wiki/rest/api/content/{}/child/attachment", id(DEMO_PAGE_ID)),
        "method": "POST",
        "headers": {"X-Wiki-Token": "no-check"},
        "formData": {"comment": "nightly"},
        "fileData": {"file": "a,b\n1,2\n"},
        "fileDataFileNames": {"file": "berícht 17.csv"},
    });
    let made = wiki.call("rawRequest", upload).await;
    assert_eq!(text(&made, "statusCode"), "200");
    let made = made.path("body.results").and_then(|list| list.at(0).cloned()).expect("one attachment");
    let attachment_id = text(&made, "id");

    let on_page = wiki.call("getAttachmentsForPage", json!({"pageId": id(DEMO_PAGE_ID), "limit": 250})).await;
    assert!(titles(&on_page).contains(&"berícht 17.csv".to_owned()), "{:?}", titles(&on_page));
    let all = wiki.call("listAttachments", json!({"queryParameters": {"filename": "berícht 17.csv"}})).await;
    assert_eq!(titles(&all), ["berícht 17.csv"]);
    let one = wiki.call("getAttachment", json!({"attachmentId": attachment_id})).await;
    assert_eq!(text(&one, "fileSize"), "8");

    assert_eq!(wiki.call("deleteAttachment", json!({"attachmentId": attachment_id})).await, Value::Null);
    assert_eq!(
        wiki.call("deleteAttachment", json!({"attachmentId": attachment_id, "purge": true})).await,
        Value::Null
    );
    assert_eq!(wiki.fails("getAttachment", json!({"attachmentId": attachment_id})).await.status, Some(404));
}

/// Creates, reads, lists, updates and deletes a property of one kind of parent.
async fn properties(wiki: &Wiki, kind: &str, list: &str, get: &str, parent: &serde_json::Value) {
    let with = |more: serde_json::Value| {
        let mut inputs = parent.clone();
        for (key, value) in more.as_object().expect("a map") {
            inputs[key] = value.clone();
        }
        inputs
    };
    let value = json!({"count": LARGE_ID, "tags": ["a", null], "on": true});
    let inputs = with(json!({"bodyData": {"key": "order", "value": value}}));
    let made = wiki.call(&format!("createContentPropertyFor{kind}"), inputs).await;
    let property = with(json!({"propertyId": text(&made, "id")}));
    assert_eq!(
        wiki.call(get, property.clone()).await.get("value").map(|value| value.to_serde()),
        Some(value)
    );

    let inputs = with(json!({"propertyId": text(&made, "id"),
        "bodyData": {"key": "order", "value": "done", "version": {"number": 2, "message": "closed"}}}));
    let updated = wiki.call(&format!("updateContentPropertyFor{kind}"), inputs).await;
    assert_eq!((text(&updated, "value"), text(&updated, "version.number")), ("done".into(), "2".into()));

    let listed =
        wiki.call(&format!("listContentProperties{list}"), with(json!({"sort": "key", "limit": 250}))).await;
    let keys: Vec<_> = listed
        .get("results")
        .expect("a list")
        .as_list()
        .expect("a list")
        .iter()
        .map(|item| text(item, "key"))
        .collect();
    assert!(keys.contains(&"order".to_owned()) && keys.is_sorted(), "{keys:?}");

    assert_eq!(wiki.call(&format!("deleteContentPropertyFor{kind}"), property.clone()).await, Value::Null);
    assert_eq!(wiki.fails(get, property).await.code.as_deref(), Some("NOT_FOUND"));
}

/// Returns all titles of the space, read page by page.
async fn titles_to_the_end(wiki: &Wiki, limit: u32) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let inputs =
            json!({"spaceId": id(DEMO_SPACE_ID), "limit": limit, "cursor": cursor.to_serde(), "sort": "id"});
        let page = wiki.call("listPagesInSpace", inputs).await;
        found.extend(titles(&page));
        cursor = page.get("nextCursor").expect("every list has one");
        assert!(found.len() <= 1_000, "the list does not end");
        if cursor.is_null() {
            return found;
        }
    }
}

#[tokio::test]
async fn lists_are_read_to_the_end_at_any_page_size_and_link_form() {
    let wiki = Wiki::start().await;
    let space: u64 = id(DEMO_SPACE_ID).parse().expect("a number");
    wiki.simulator.seed(|state| {
        (0..30).for_each(|number| {
            state.add_page(PageSeed::new(space, &format!("Page {number:02}"))).expect("a page");
        });
    });
    let whole = titles_to_the_end(&wiki, 250).await;
    assert!(whole.len() > 30);
    assert_eq!(titles_to_the_end(&wiki, 1).await, whole);
    wiki.simulator.switch(|switches| switches.old_next_links = true);
    assert_eq!(titles_to_the_end(&wiki, 7).await, whole);
}

#[tokio::test]
async fn fetch_all_keeps_filters_across_both_link_forms_and_a_rate_limit() {
    let wiki = Wiki::start().await;
    let space: u64 = id(DEMO_SPACE_ID).parse().expect("a number");
    wiki.simulator.seed(|state| {
        (0..620).for_each(|number| {
            state.add_page(PageSeed::new(space, &format!("Page {number:03}"))).expect("a page");
        });
    });
    let filters =
        json!({"spaceId": id(DEMO_SPACE_ID), "sort": "-title", "status": "current", "fetchAll": true});
    let whole = wiki.call("listPagesInSpace", filters.clone()).await;
    assert!(titles(&whole).len() >= 620);
    assert_eq!(whole.get("nextCursor"), Some(Value::Null));
    let requests = wiki.simulator.requests();
    assert_eq!(requests.len(), 3, "as many at a time as the wiki gives");
    for request in &requests {
        for filter in ["sort=-title", "status=current", "limit=250"] {
            let (name, value) = filter.split_once('=').expect("a pair");
            assert!(
                request.query.contains(&(name.to_owned(), value.to_owned())),
                "{filter}: {:?}",
                request.query
            );
        }
    }
    wiki.simulator.switch(|switches| switches.old_next_links = true);
    let busy = Fault { status: Some(429), retry_after_seconds: Some(0), times: 1, ..Fault::default() };
    wiki.simulator.fault(busy).expect("room");
    assert_eq!(titles(&wiki.call("listPagesInSpace", filters).await), titles(&whole));
    let some = wiki.call("listPages", json!({"limit": 100, "fetchAll": true, "maxItems": 150})).await;
    assert_eq!(titles(&some).len(), 200);
    assert!(!text(&some, "nextCursor").is_empty());
}

#[tokio::test]
async fn requests_send_given_inputs_and_omit_defaults() {
    let wiki = Wiki::start().await;
    wiki.call("getPage", json!({"pageId": id(DEMO_PAGE_ID)})).await;
    wiki.call("listPages", json!({})).await;
    wiki.call("createPage", json!({"spaceId": id(DEMO_SPACE_ID), "title": "T", "body": {"value": "<p/>"}, "parentId": "", "embedded": false, "private": true})).await;
    let requests = wiki.simulator.requests();
    assert_eq!(requests[0].query, []);
    assert_eq!(requests[1].query, [("limit".to_owned(), "25".to_owned())]);
    assert_eq!(requests[2].query, [("private".to_owned(), "true".to_owned())]);
    let body = json!({"spaceId": id(DEMO_SPACE_ID), "title": "T", "body": {"representation": "storage", "value": "<p/>"}});
    assert_eq!(requests[2].json(), body);
    assert_eq!(requests[2].header("accept"), Some("application/json"));
    let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key")).collect();
    assert_eq!(keys, [None, None, Some("execution.step")]);
}

#[tokio::test]
async fn a_wiki_error_carries_its_message_code_and_request_id() {
    let wiki = Wiki::start().await;
    let missing = wiki.fails("getPage", json!({"pageId": 1})).await;
    assert_eq!(missing.message, "the wiki answered 404 NOT_FOUND: Not Found");
    assert_eq!(
        (missing.kind.clone(), missing.status, missing.code.as_deref()),
        (ErrorKind::Status, Some(404), Some("NOT_FOUND"))
    );
    assert!(
        missing.request_id.as_deref().is_some_and(|id| id.starts_with("sim-")),
        "{:?}",
        missing.request_id
    );
    assert_eq!(
        missing.body.as_ref().and_then(|body| body.get("errors")).map(|errors| errors.kind()),
        Some("list")
    );

    let stale = json!({"pageId": id(DEMO_PAGE_ID), "status": "current", "title": "Welcome", "body": {"value": "<p/>"}, "version": {"number": 99}});
    let stale = wiki.fails("updatePage", stale).await;
    assert_eq!((stale.status, stale.code.as_deref()), (Some(409), Some("CONFLICT")));
    assert!(
        stale.message.starts_with("the wiki answered 409 CONFLICT: ")
            && stale.message.contains("Provided version: [99]"),
        "{}",
        stale.message
    );

    let cursor = wiki.fails("listPages", json!({"cursor": "/wiki/api/v2/pages?cursor=x"})).await;
    assert_eq!((cursor.status, cursor.code.as_deref()), (Some(400), Some("INVALID_REQUEST_PARAMETER")));

    let wrong = connect(&wiki.registry, wiki.simulator.base_url(), "wrong-token");
    let refused = wiki.try_as(&wrong, "getPage", json!({"pageId": 1})).await.expect_err("401");
    assert_eq!(refused.status, Some(401));
    assert!(!refused.message.contains("wrong-token"), "{}", refused.message);
}

#[tokio::test]
async fn the_retry_after_of_the_wiki_is_obeyed() {
    let limited = |as_date| Fault {
        status: Some(429),
        retry_after_seconds: Some(7),
        retry_after_as_date: as_date,
        ..Fault::default()
    };
    for as_date in [false, true] {
        let wiki = Wiki::start().await;
        // The `Date` of the response comes from the simulator, whose clock does not advance.
        let date = wiki.simulator.now().http_date();
        wiki.simulator.fault(limited(as_date).header("date", &date)).expect("room");
        let error = wiki.fails("listSpaces", json!({})).await;
        assert_eq!((error.status, error.retry_after_ms), (Some(429), Some(7_000)), "as a date: {as_date}");
        let early = wiki.fails("listPages", json!({})).await;
        assert!(early.message.contains("it asked not to be called"), "{}", early.message);
        assert_eq!(wiki.simulator.requests().len(), 1, "asking again too early makes it longer");
    }
}

#[tokio::test]
async fn only_a_raw_request_with_retries_is_sent_twice() {
    let wiki = Wiki::start().await;
    let broken = || Fault { status: Some(500), times: 1, ..Fault::default() };
    wiki.simulator.fault(broken()).expect("room");
    let create = json!({"spaceId": id(DEMO_SPACE_ID), "title": "Once", "body": {"value": "<p/>"}});
    assert_eq!(wiki.fails("createPage", create).await.status, Some(500));
    assert_eq!(wiki.simulator.count("POST", "/wiki/api/v2/pages"), 1);

    wiki.simulator.fault(broken()).expect("room");
    wiki.simulator.fault(Fault { reset: Some(When::Before), ..Fault::default() }).expect("room");
    let raw = json!({"url": "/wiki/api/v2/spaces?limit=1", "method": "GET", "maxRetryCount": 2});
    let answer = wiki.call("rawRequest", raw).await;
    assert_eq!(text(&answer, "statusCode"), "200");
    assert_eq!(wiki.simulator.count("GET", "/wiki/api/v2/spaces"), 3);
}

#[tokio::test]
async fn connection_failures_are_distinguished() {
    let wiki = Wiki::start().await;
    let page = || json!({"pageId": id(DEMO_PAGE_ID)});
    let fails = async |fault: Fault| {
        wiki.simulator.fault(fault).expect("room");
        wiki.fails("getPage", page()).await
    };
    assert_eq!(fails(Fault { reset: Some(When::Before), ..Fault::default() }).await.kind, ErrorKind::Network);
    assert_eq!(fails(Fault { truncate: true, ..Fault::default() }).await.kind, ErrorKind::Network);
    let html = |status| Fault {
        status: Some(status),
        body: Some(json!("<!doctype html><title>oops</title>")),
        content_type: Some("text/html".to_owned()),
        ..Fault::default()
    };
    let error = fails(html(502)).await;
    assert_eq!(
        (error.kind.clone(), error.message.as_str()),
        (ErrorKind::Status, "the wiki answered 502 Bad Gateway with an HTML page")
    );
    let error = fails(html(200)).await;
    assert_eq!(error.kind, ErrorKind::Response);
    assert_eq!(error.message, "the wiki answered 200 with an HTML page where JSON was expected");

    let Wiki { simulator, registry, http, connection, called } = wiki;
    simulator.stop().await;
    let registry_only = Wiki {
        simulator: Simulator::builder().start().await.expect("another"),
        registry,
        http,
        connection,
        called,
    };
    let dead = registry_only.fails("getPage", page()).await;
    assert_eq!(dead.kind, ErrorKind::Network);
    assert!(dead.message.starts_with("the wiki at `127.0.0.1:"), "{}", dead.message);
}

#[tokio::test]
async fn a_scoped_token_reaches_the_wiki_through_the_gateway() {
    let wiki = Wiki::start().await;
    let host = format!("{}/ex/wiki/{CLOUD_ID}", wiki.simulator.base_url());
    let gateway = connect(&wiki.registry, &host, DEMO_SCOPED_TOKEN);
    let page = wiki.try_as(&gateway, "getPage", json!({"pageId": id(DEMO_PAGE_ID)})).await.expect("a page");
    assert_eq!(text(&page, "title"), "Welcome");
    let list = wiki.try_as(&gateway, "listPages", json!({"limit": 1})).await.expect("a list");
    let cursor = text(&list, "nextCursor");
    let next =
        wiki.try_as(&gateway, "listPages", json!({"limit": 1, "cursor": cursor})).await.expect("a list");
    assert_ne!(titles(&next), titles(&list));
}

#[tokio::test]
async fn a_download_redirect_to_another_host_drops_the_credentials() {
    let wiki = Wiki::start().await;
    let attachment =
        wiki.call("getAttachment", json!({"attachmentId": format!("att{}", id(DEMO_ATTACHMENT_ID))})).await;
    let url = format!("/wiki{}", text(&attachment, "downloadLink"));
    let inputs = json!({"url": url, "method": "GET", "responseType": "binary"});
    // The file store uses the name `localhost`.
    let with_localhost_at = |address: &str| {
        let lookup = Arc::new(OneName(address.parse().expect("an address")));
        let allow = AllowList::parse(["127.0.0.1"]).expect("an entry");
        Http::new(HttpOptions { allow, lookup, ..HttpOptions::default() }).expect("a client")
    };
    let wiki = Wiki { http: with_localhost_at("127.0.0.2"), ..wiki };
    let blocked = wiki.fails("rawRequest", inputs.clone()).await;
    assert_eq!(blocked.kind, ErrorKind::Blocked, "{}", blocked.message);

    let wiki = Wiki { http: with_localhost_at("127.0.0.1"), ..wiki };
    let answer = wiki.call("rawRequest", inputs).await;
    assert_eq!(text(&answer, "body.filename"), "notes.txt");
    let media = wiki.simulator.requests_to("GET", "/_media/*");
    assert_eq!(media.len(), 1);
    assert_eq!(media[0].header("authorization"), None);
}

/// A resolver that returns one address for all names.
struct OneName(IpAddr);

#[async_trait::async_trait]
impl Lookup for OneName {
    async fn lookup(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![self.0])
    }
}
