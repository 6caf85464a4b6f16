//! OAuth 2.0 against the simulator's identity provider and gateway, over real HTTP; the test controls both clocks.

use std::collections::HashMap;
use std::time::Duration;

use engine::Engine;
use jiff::SignedDuration;
use pretty_assertions::assert_eq;
use runtime::{ConnectionState, LoginCallback};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wiki_simulator::{
    CLOUD_ID, Clock, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, Fault, Moment, RateLimit, Running, Simulator, When,
};

use crate::common::{Peer, Project, end, soon, start_with, stop};

/// Lists the spaces of the wiki.
const LIST: &str = "\
trigger: {manual: {}}
steps:
  - {id: list, action: wiki.listSpaces, connection: main, with: {limit: 1}}
outputs: {count: \"${{ steps.list.results | length }}\"}
";

/// A wiki behind its gateway, and a project with a connection to it.
struct World {
    wiki: Running,
    project: Project,
}

impl World {
    async fn new() -> Self {
        Self::with("").await
    }

    /// Creates a world whose connection has further inputs.
    async fn with(more: &str) -> Self {
        let wiki = Simulator::builder()
            .clock(Clock::fixed(Moment::parse("2026-03-02T08:00:00Z").expect("an instant")))
            .demo()
            .start()
            .await
            .expect("a wiki");
        let mut project = Project::with(LIST);
        project.settings.public_url = Some("http://127.0.0.1:7070".to_owned());
        std::fs::create_dir(project.path("secrets")).expect("a folder");
        project.write("secrets/wikiSecret", DEMO_CLIENT_SECRET);
        let world = Self { wiki, project };
        world.connect(more);
        world
    }

    /// Writes the connection, with further inputs.
    fn connect(&self, more: &str) {
        let wiki = self.wiki.base_url();
        self.project.write(
            "connections/main.yaml",
            &format!(
                "type: wiki.oauth\nwith:\n  authUrl: {wiki}\n  gateway: {wiki}\n  clientId: {DEMO_CLIENT_ID}\n  \
                 clientSecret: ${{{{ secrets.wikiSecret }}}}\n{more}"
            ),
        );
    }

    /// Advances both clocks.
    fn pass(&self, time: Duration) {
        self.wiki.advance(time);
        self.project.clock.advance(time);
    }
}

/// Opens the consent page and returns the callback of the provider's redirect.
async fn consent(url: &str) -> LoginCallback {
    let mut query = redirect(url).await;
    LoginCallback {
        state: query.remove("state"),
        code: query.remove("code"),
        error: query.remove("error"),
        issuer: query.remove("iss"),
    }
}

/// Opens a URL as a browser does and returns the query of the redirect.
async fn redirect(url: &str) -> HashMap<String, String> {
    let rest = url.strip_prefix("http://").expect("an address");
    let (authority, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(authority).await.expect("it listens");
    let head = format!("GET /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let location = answer
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("location")));
    let (_, location) = location.unwrap_or_else(|| panic!("no redirect: {answer}"));
    assert!(location.starts_with("http://127.0.0.1:7070/oauth/callback?"), "{location}");
    let (_, query) = location.split_once('?').expect("a query");
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

async fn login(engine: &Engine) -> Result<String, String> {
    let begun = engine.connections().begin_login("main").await.map_err(|error| error.to_string())?;
    soon(engine.connections().end_login(consent(&begun.url).await)).await
}

async fn run(engine: &Engine) -> String {
    let id = start_with(engine, "{}").await;
    end(engine, id).await
}

fn state(engine: &Engine) -> ConnectionState {
    engine.connections().connection("main").expect("a connection").state
}

#[tokio::test]
async fn an_oauth_login_connects_and_its_tokens_survive_a_restart() {
    let world = World::new().await;
    let engine = world.project.start().await;
    assert_eq!(state(&engine), ConnectionState::NeedsLogin);
    assert!(run(&engine).await.contains("cogwork connections login main"));
    let begun = engine.connections().begin_login("main").await.expect("it begins");
    let host = world.wiki.base_url().trim_start_matches("http://").replace(':', "%3A");
    for part in [
        &format!("audience={host}"),
        "prompt=consent",
        "code_challenge_method=S256",
        "response_type=code",
        "offline_access+",
        "read%3Aspace%3Awiki",
    ] {
        assert!(begun.url.contains(part), "{part} is missing in {}", begun.url);
    }
    assert_eq!(soon(engine.connections().end_login(consent(&begun.url).await)).await, Ok("main".to_owned()));
    assert!(run(&engine).await.starts_with("{\"count\":"));
    assert_eq!(state(&engine), ConnectionState::Healthy);
    stop(engine).await;
    let engine = world.project.start().await;
    assert!(run(&engine).await.starts_with("{\"count\":"));
    assert_eq!(world.wiki.count("POST", "/oauth/token"), 1, "one exchange and no refresh");
    assert_eq!(world.wiki.count("GET", "/oauth/token/accessible-resources"), 1, "the site is looked up once");
    stop(engine).await;
}

#[tokio::test]
async fn an_oauth_state_is_valid_for_one_callback_and_ten_minutes() {
    let world = World::new().await;
    let engine = world.project.start().await;
    let begun = engine.connections().begin_login("main").await.expect("it begins");
    let answer = consent(&begun.url).await;
    let forged = LoginCallback { state: Some("x".repeat(43)), ..answer.clone() };
    assert!(engine.connections().end_login(forged).await.is_err());
    assert!(soon(engine.connections().end_login(answer.clone())).await.is_ok());
    let again = engine.connections().end_login(answer).await.expect_err("used");
    assert!(again.contains("has been used or is too old"), "{again}");
    let begun = engine.connections().begin_login("main").await.expect("it begins");
    let late = consent(&begun.url).await;
    world.project.clock.advance(Duration::from_secs(601));
    assert!(engine.connections().end_login(late).await.is_err());
    stop(engine).await;
}

#[tokio::test]
async fn a_login_to_an_unknown_site_leaves_a_failing_connection_with_the_reason() {
    let world = World::with("  apiSiteOverride: nowhere\n").await;
    let engine = world.project.start().await;
    let reason = login(&engine).await.expect_err("no such site");
    assert!(reason.contains("there is no site `nowhere`"), "{reason}");
    let report = engine.connections().connection("main").expect("a connection");
    assert_eq!(report.state, ConnectionState::Failing);
    let said = serde_json::to_string(&report).expect("JSON");
    assert!(said.contains("there is no site `nowhere`"), "{said}");
    stop(engine).await;
}

#[tokio::test]
async fn a_denied_consent_is_reported_and_changes_nothing() {
    let world = World::new().await;
    let engine = world.project.start().await;
    world.wiki.switch(|switches| switches.deny_consent = true);
    let reason = login(&engine).await.expect_err("denied");
    assert_eq!(reason, "consent was not given, so nothing was connected");
    assert_eq!(state(&engine), ConnectionState::NeedsLogin);
    stop(engine).await;
}

#[tokio::test]
async fn a_callback_with_another_issuer_is_refused_before_its_code_is_exchanged() {
    let world = World::new().await;
    let own = Some(world.wiki.base_url().to_owned());
    for (named, issuer, connects) in [
        (None, own.clone(), true),
        (None, Some("https://evil.example".to_owned()), false),
        (None, Some("nobody".to_owned()), false),
        (own.clone(), own.clone(), true),
        (own.clone(), own.clone().map(|own| own + "/"), false),
        (own, None, false),
    ] {
        let more = named.as_ref().map_or_else(String::new, |named| format!("  issuer: {named}\n"));
        world.connect(&more);
        let before = world.wiki.count("POST", "/oauth/token");
        let engine = world.project.start().await;
        let begun = engine.connections().begin_login("main").await.expect("it begins");
        let answer = LoginCallback { issuer: issuer.clone(), ..consent(&begun.url).await };
        let ended = soon(engine.connections().end_login(answer)).await;
        assert_eq!(ended.is_ok(), connects, "{named:?} {issuer:?} {ended:?}");
        let sent = world.wiki.count("POST", "/oauth/token") - before;
        assert_eq!(sent, usize::from(connects), "{named:?} {issuer:?}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn token_requests_and_polls_obey_the_outbound_guard() {
    let mut world = World::new().await;
    world.project.settings.outbound_allow.clear();
    let wiki = world.wiki.base_url().to_owned();
    world.project.write(
        "connections/own.yaml",
        &format!(
            "type: http.clientCredentials\nwith: {{baseUrl: \"{wiki}\", tokenUrl: \"{wiki}/oauth/token\", clientId: {DEMO_CLIENT_ID}, \
             clientSecret: \"${{{{ secrets.wikiSecret }}}}\"}}\n"
        ),
    );
    let ask = format!("action: http.request, connection: own, with: {{url: \"{wiki}/a\", method: GET}}");
    world.project.write("automations/test.yaml", &format!("trigger: {{manual: {{}}}}\nsteps: [{{{ask}}}]\n"));
    world.project.write(
        "automations/poll.yaml",
        &format!(
            "trigger: {{poll: {{action: http.request, with: {{url: \"{wiki}/a\"}}, every: 1h}}}}\nsteps: []\n"
        ),
    );
    let engine = world.project.start().await;
    let id = model::AutomationId::parse("poll").expect("an id");
    let rejections = [
        login(&engine).await.expect_err("the exchange of a code is refused"),
        run(&engine).await,
        soon(engine.ingress().poll_now(&id.clone().into()))
            .await
            .expect("a poll")
            .error
            .expect("it is refused"),
    ];
    for refusal in &rejections {
        assert!(refusal.contains("`127.0.0.1` may not be called"), "{rejections:?}");
    }
    assert_eq!(world.wiki.count("POST", "/oauth/token") + world.wiki.count("GET", "/a"), 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_expires_and_the_rotated_one_survives_a_restart() {
    let world = World::new().await;
    let engine = world.project.start().await;
    login(&engine).await.expect("connected");
    world.pass(Duration::from_secs(2_600));
    run(&engine).await;
    assert_eq!(world.wiki.refreshes(), 0, "it is good for a while");
    world.pass(Duration::from_secs(300));
    assert!(run(&engine).await.starts_with("{\"count\":"));
    assert_eq!(world.wiki.refreshes(), 1, "80 % of its time have passed");
    stop(engine).await;
    // Past the leeway in which the provider accepts the old refresh token once more.
    world.pass(Duration::from_secs(7_200));
    let engine = world.project.start().await;
    assert!(run(&engine).await.starts_with("{\"count\":"));
    assert_eq!(world.wiki.refreshes(), 2);
    stop(engine).await;
}

#[tokio::test]
async fn concurrent_steps_with_an_expired_token_refresh_it_once() {
    let world = World::new().await;
    let engine = world.project.start().await;
    login(&engine).await.expect("connected");
    // Advances only the provider's clock: the daemon takes the token for valid and gets 401.
    world.wiki.advance(Duration::from_secs(3_700));
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(start_with(&engine, "{}").await);
    }
    for id in ids {
        let outcome = end(&engine, id).await;
        assert!(outcome.starts_with("{\"count\":"), "{outcome}");
    }
    assert_eq!(world.wiki.refreshes(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn a_scope_error_does_not_refresh_the_token() {
    let world = World::with("  scopes: offline_access read:page:wiki\n").await;
    let engine = world.project.start().await;
    login(&engine).await.expect("connected");
    let outcome = run(&engine).await;
    assert!(outcome.contains("scope"), "{outcome}");
    assert_eq!(world.wiki.refreshes(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_revoked_grant_needs_a_login_and_is_never_retried() {
    let world = World::new().await;
    let engine = world.project.start().await;
    login(&engine).await.expect("connected");
    world.wiki.revoke_grants();
    let asked = || world.wiki.count("POST", "/oauth/token");
    assert_eq!(asked(), 1);
    for _ in 0..3 {
        let outcome = run(&engine).await;
        assert!(outcome.contains("connect again with `cogwork connections login main`"), "{outcome}");
    }
    assert_eq!(asked(), 2, "the refresh was refused once and never tried again");
    assert_eq!(state(&engine), ConnectionState::NeedsLogin);
    stop(engine).await;
    let engine = world.project.start().await;
    assert!(run(&engine).await.contains("connect again"));
    assert_eq!(asked(), 2, "nor after a restart");
    login(&engine).await.expect("connected again");
    assert!(run(&engine).await.starts_with("{\"count\":"));
    stop(engine).await;
}

#[tokio::test]
async fn a_lost_refresh_response_is_recovered_within_the_providers_leeway() {
    let world = World::new().await;
    let engine = world.project.start().await;
    login(&engine).await.expect("connected");
    world.pass(Duration::from_secs(3_700));
    // The provider has rotated the token and its response is lost, as if the process had died before storing it.
    world.wiki.fault(Fault::on("POST", "/oauth/token").reset(When::After)).expect("a fault");
    let lost = run(&engine).await;
    assert!(lost.starts_with("failed:"), "{lost}");
    assert!(run(&engine).await.starts_with("{\"count\":"), "the old refresh token is good once more");
    stop(engine).await;
}

#[tokio::test]
async fn a_refresh_response_lost_beyond_the_leeway_needs_a_login() {
    let world = World::new().await;
    let engine = world.project.start().await;
    login(&engine).await.expect("connected");
    world.pass(Duration::from_secs(3_700));
    world.wiki.fault(Fault::on("POST", "/oauth/token").reset(When::After)).expect("a fault");
    assert!(run(&engine).await.starts_with("failed:"));
    world.pass(Duration::from_secs(700));
    let asked = world.wiki.count("POST", "/oauth/token");
    for _ in 0..2 {
        assert!(run(&engine).await.contains("connect again with `cogwork connections login main`"));
    }
    assert_eq!(world.wiki.count("POST", "/oauth/token"), asked + 1);
    assert_eq!(state(&engine), ConnectionState::NeedsLogin);
    stop(engine).await;
}

#[tokio::test]
async fn rate_limits_reported_by_a_host_appear_in_the_connection_health() {
    let world = World::new().await;
    let engine = world.project.start().await;
    login(&engine).await.expect("connected");
    world.wiki.rate_limit(Some(RateLimit::new(1, Duration::from_secs(60))));
    let limits = || engine.connections().connection("main").expect("a connection").hosts.remove(0);
    assert!(run(&engine).await.starts_with("{\"count\":"));
    let told = limits().rate_limit.expect("it tells");
    assert_eq!((told.limit.as_deref(), told.remaining.as_deref()), (Some("1"), Some("0")));
    assert_eq!(limits().backoff_until, None);
    assert!(run(&engine).await.contains("429"));
    let now = runtime::Clock::now(&world.project.clock);
    assert!(limits().backoff_until.is_some_and(|until| until > now), "{:?}", limits());
    assert!(limits().rate_limit.is_some_and(|told| told.reason.is_some()), "{:?}", limits());
    assert_eq!(state(&engine), ConnectionState::Failing);
    stop(engine).await;
}

#[tokio::test]
async fn a_site_is_chosen_by_name_or_url_and_an_unknown_one_lists_the_sites() {
    for (choice, fits) in [("Second", true), ("https://SECOND.example.com/", true), ("third", false)] {
        let world = World::with(&format!("  apiSiteOverride: \"{choice}\"\n")).await;
        let id = CLOUD_ID;
        let scopes = ["read:space:wiki"];
        world.wiki.accessible_resources(Some(serde_json::json!([
            {"id": "0-foreign", "name": "second", "url": "https://second.example.com", "scopes": ["read:jam"]},
            {"id": "1-first", "name": "first", "url": "https://first.example.com", "scopes": scopes},
            {"id": id, "name": "second", "url": "https://second.example.com", "scopes": scopes},
        ])));
        let engine = world.project.start().await;
        let connected = login(&engine).await;
        if fits {
            assert_eq!(connected, Ok("main".to_owned()));
            assert!(run(&engine).await.starts_with("{\"count\":"), "{choice}");
        } else {
            let reason = connected.expect_err("no such site");
            assert!(
                reason.contains("`first` (https://first.example.com), `second` (https://second.example.com)"),
                "{reason}"
            );
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn client_credentials_tokens_are_fetched_once_and_shared() {
    let world = World::new().await;
    let wiki = world.wiki.base_url();
    world.project.write(
        "connections/main.yaml",
        &format!(
            "type: http.clientCredentials\nwith: {{baseUrl: \"{wiki}\", tokenUrl: \"{wiki}/oauth/token\", clientId: {DEMO_CLIENT_ID}, \
             clientSecret: \"${{{{ secrets.wikiSecret }}}}\", scopes: \"read:space:wiki\"}}\n"
        ),
    );
    world.project.write(
        "automations/test.yaml",
        &format!(
            "trigger: {{manual: {{}}}}\nsteps:\n  - {{id: ask, action: http.request, connection: main, with: {{url: \"{wiki}/oauth/token/accessible-resources\", method: GET}}}}\noutputs: ${{{{ steps.ask.results.statusCode }}}}\n"
        ),
    );
    let engine = world.project.start().await;
    assert_eq!(run(&engine).await, "200");
    assert_eq!(run(&engine).await, "200");
    assert_eq!(world.wiki.count("POST", "/oauth/token"), 1);
    assert_eq!(state(&engine), ConnectionState::Healthy);
    stop(engine).await;
}

#[tokio::test]
async fn a_connection_test_calls_the_manifests_test_action_and_records_the_result() {
    let world = World::new().await;
    let engine = world.project.start().await;
    let tested = soon(engine.connections().test_connection("main")).await.expect("a test");
    assert!(tested.error.expect("it is not connected").message.contains("not connected"));
    login(&engine).await.expect("connected");
    let tested = soon(engine.connections().test_connection("main")).await.expect("a test");
    assert_eq!((tested.action.as_str(), tested.error), ("wiki.listSpaces", None));
    let report = engine.connections().connection("main").expect("a connection");
    assert_eq!((report.state, report.used_by), (ConnectionState::Healthy, vec!["test".to_owned()]));
    assert!(report.site.is_some() && report.expires_at.is_some());
    assert!(
        soon(engine.connections().test_connection("mian"))
            .await
            .expect_err("unknown")
            .to_string()
            .contains("did you mean `main`?")
    );
    stop(engine).await;
}

/// Runs a step that needs a token while the provider answers the first token request with this response.
/// Returns the outcome, the number of token requests, and the delay before the retry.
async fn with_token_answer(status: u16, body: &str) -> (String, usize, Option<SignedDuration>) {
    let mut peer = Peer::new().await;
    let project = Project::with(&format!(
        "trigger: {{manual: {{}}}}\nsteps:\n  - {{id: ask, action: http.request, connection: main, retry: {{max: 3, delay: 5s}}, with: {{url: \"{}/pay\", method: POST}}}}\noutputs: ${{{{ steps.ask.results.statusCode }}}}\n",
        peer.base
    ));
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/clientSecret", "s3cret-of-the-client");
    project.write(
        "connections/main.yaml",
        &format!(
            "type: http.clientCredentials\nwith: {{baseUrl: \"{0}\", tokenUrl: \"{0}/token\", clientId: c, clientSecret: \"${{{{ secrets.clientSecret }}}}\"}}\n",
            peer.base
        ),
    );
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let (mut tokens, mut waited) = (0, None);
    let ended = async {
        loop {
            let asked = peer.next_request().await;
            match (asked.line.as_str(), tokens) {
                ("POST /token", 0) => {
                    tokens += 1;
                    let now = engine.clock().now();
                    asked.answer(status, body).await;
                    let retry = retried_at(&engine, id).await;
                    waited = retry.map(|at| now.duration_until(at));
                    if let Some(at) = retry {
                        project.clock.advance_to(at);
                    } else {
                        return;
                    }
                }
                ("POST /token", _) => {
                    tokens += 1;
                    asked.answer(200, r#"{"access_token":"t","token_type":"bearer","expires_in":60}"#).await;
                }
                _ => return asked.answer(200, "{}").await,
            }
        }
    };
    soon(ended).await;
    let end = end(&engine, id).await;
    stop(engine).await;
    (end, tokens, waited)
}

/// Returns the time of the retry once the execution is suspended; `None` if it ends instead.
async fn retried_at(engine: &Engine, id: model::ExecutionId) -> Option<jiff::Timestamp> {
    soon(async {
        loop {
            for event in engine.store().events(id).await.expect("read").unwrap_or_default() {
                match event {
                    model::Event::StepRetry { next_at, .. } if engine.status().resting == 1 => {
                        return Some(next_at);
                    }
                    model::Event::Finished { .. } => return None,
                    _ => {}
                }
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_token_endpoint_that_refuses_the_client_is_not_retried() {
    let (end, tokens, _) = with_token_answer(401, r#"{"error":"invalid_client"}"#).await;
    assert_eq!(tokens, 1);
    assert!(end.contains("the identity provider refuses: invalid_client; look at the client's id"), "{end}");
    let (end, tokens, _) = with_token_answer(404, "<html>").await;
    assert_eq!(tokens, 1);
    assert!(end.contains("the identity provider answered 404 Not Found"), "{end}");
}

#[tokio::test]
async fn a_token_endpoint_that_is_busy_or_down_is_retried() {
    for (status, body) in [
        (503, "<html>"),
        (500, r#"{"error":"server_error"}"#),
        (502, ""),
        (400, r#"{"error":"temporarily_unavailable"}"#),
        (400, r#"{"error":"slow_down"}"#),
    ] {
        let (end, tokens, waited) = with_token_answer(status, body).await;
        assert_eq!((end.as_str(), tokens), ("200", 2), "{status} {body}");
        assert!(waited.is_some_and(|waited| waited >= SignedDuration::from_secs(5)), "{status} {waited:?}");
    }
}

#[tokio::test]
async fn at_most_a_hundred_logins_are_pending_each_for_ten_minutes() {
    let world = World::new().await;
    let text = std::fs::read_to_string(world.project.path("connections/main.yaml")).expect("it is there");
    for number in 0..101 {
        world.project.write(&format!("connections/c{number}.yaml"), &text);
    }
    let engine = world.project.start().await;
    let connections = engine.connections();
    let begin = async |number: usize| connections.begin_login(&format!("c{number}")).await;
    for number in 0..100 {
        let begun = begin(number).await.expect("it begins");
        assert_eq!(begun.expires_at, engine.clock().now() + Duration::from_secs(600));
    }
    assert!(begin(100).await.is_err(), "too many are pending");
    world.pass(Duration::from_secs(600));
    assert!(begin(100).await.is_ok(), "the others are over");
    stop(engine).await;
}
