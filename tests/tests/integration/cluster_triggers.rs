//! Triggers of several daemons on one database: state that a single daemon keeps in memory is shared by all.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use store::Shard;
use tests::recorder::Recorder;

use crate::cluster::Cluster;
use crate::site::{Answer, Site, send};

#[tokio::test]
async fn a_webhook_rate_limit_holds_across_all_daemons() {
    let intake = "trigger: {webhook: {verify: none, rateLimit: {max: 40, per: 1d}}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("intake", intake)]).await;
    let body = json!({});
    let calls = (0..100).map(|turn| cluster.sites[turn % 2].post("intake", &body));
    let statuses: Vec<u16> =
        futures_util::future::join_all(calls).await.iter().map(|answer| answer.status).collect();
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(200), count(429)), (40, 60), "{statuses:?}");
    assert_eq!(cluster.sites[1].executions_of("intake").await.len(), 40);
    cluster.stop().await;
}

#[tokio::test]
async fn a_request_gets_503_if_its_rate_cannot_be_counted() {
    let intake = "trigger: {webhook: {verify: none, rateLimit: {max: 1, per: 1d, burst: 8}}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("intake", intake)]).await;
    cluster.sql("ALTER TABLE @.buckets RENAME TO away");
    let refused = cluster.sites[0].post("intake", &json!({})).await;
    assert_eq!(refused.refusal(), (503, "unavailable".to_owned()), "{}", refused.text);
    assert_eq!(refused.header("retry-after"), "1");
    cluster.sql("ALTER TABLE @.away RENAME TO buckets");
    while cluster.sites[0].post("intake", &json!({})).await.status != 200 {}
    cluster.stop().await;
}

/// Starts daemons that poll the recorder at `/echo` every hour, under the name `news`.
async fn polling(recorder: &Recorder) -> Cluster {
    let url = recorder.url();
    let news = format!(
        "trigger:\n  poll: {{action: http.request, with: {{url: \"{url}/echo\"}}, every: 1h, items: result.body.results, \
         id: item.id, cursor: result.body.status}}\nsteps: []\n"
    );
    Cluster::start(2, &[("news", &news)]).await
}

impl Cluster {
    /// Waits until all daemons show the same state of the poll and it meets a condition, and returns it.
    async fn poll(&self, expected: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut shown = Vec::new();
            for site in &self.sites {
                // A daemon that has just started answers before its polls are active.
                let answer = send(site.api(Method::GET, "/polls/news")).await;
                shown.push(if answer.status == 200 { answer.json() } else { Value::Null });
            }
            if shown.iter().all(|one| expected(one) && *one == shown[0]) {
                return shown.swap_remove(0);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the indexes of the daemon that polls and of another one.
    fn poller(&self) -> (usize, usize) {
        let shard = Shard::of(&model::AutomationId::parse("news").unwrap()).number();
        let before = format!(
            "SELECT count(*) FROM @.nodes WHERE id < (SELECT owner FROM @.shards WHERE id = {shard})"
        );
        let index: usize = self.sql(&before).parse().unwrap();
        (index, 1 - index)
    }
}

async fn operate(site: &Site, operation: &str, body: &Value) -> Answer {
    send(site.api(Method::POST, &format!("/polls/news/{operation}")).json(body)).await
}

#[tokio::test]
async fn poll_now_at_any_daemon_polls_once_at_the_owner_and_returns_its_result() {
    let recorder = Recorder::start().await.unwrap();
    let cluster = polling(&recorder).await;
    cluster.poll(|poll| poll["polls"] == 1).await;
    for (turn, site) in cluster.sites.iter().enumerate() {
        let answer = operate(site, "now", &json!({})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!((&answer.json()["items"], &answer.json()["found"]), (&json!(1), &json!(0)));
        assert_eq!(recorder.requests_to("/echo").len(), 2 + 2 * turn);
        let output = site.cogwork(&["polls", "now", "news"]).await;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(recorder.requests_to("/echo").len(), 3 + 2 * turn);
    }
    let poll = cluster.poll(|poll| poll["polls"] == 5).await;
    assert_eq!(poll["latest"].as_array().unwrap().len(), 5, "{poll}");
    recorder.answer("/echo", 500, 2);
    for site in &cluster.sites {
        let failed = operate(site, "now", &json!({})).await;
        assert!(failed.json()["error"].as_str().unwrap().contains("500"), "{}", failed.text);
    }
    assert_eq!(cluster.poll(|poll| poll["failures"] == 2).await["polls"], 7);
    cluster.stop().await;
}

#[tokio::test]
async fn every_daemon_shows_a_running_poll_and_its_result() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/echo");
    let cluster = polling(&recorder).await;
    recorder.wait_for("/echo", 1).await.unwrap();
    let (poller, other) = cluster.poller();
    while !cluster.sites[other].ask("/polls/news").await["busy"].as_bool().unwrap() {}
    assert_eq!(cluster.sites[poller].ask("/polls/news").await["busy"], true);
    recorder.release();
    let poll = cluster.poll(|poll| poll["polls"] == 1 && poll["busy"] == false).await;
    assert_eq!((&poll["cursor"], poll["latest"].as_array().unwrap().len()), (&json!(200), 1));
    let lists = [cluster.sites[0].ask("/polls").await, cluster.sites[1].ask("/polls").await];
    assert_eq!(lists[0], lists[1]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_poll_is_reset_and_rewound_through_any_daemon() {
    let recorder = Recorder::start().await.unwrap();
    let cluster = polling(&recorder).await;
    cluster.poll(|poll| poll["polls"] == 1).await;
    let mut polls = 1;
    for site in &cluster.sites {
        for (operation, body) in [("reset", json!({})), ("rewind", json!({"cursor": 7}))] {
            let answer = operate(site, operation, &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            polls += 1;
            recorder.wait_for("/echo", polls).await.unwrap();
            // The next poll is a first one again.
            cluster.poll(|poll| poll["polls"] == 1).await;
        }
    }
    // Items that a rewind makes new again start an execution each time.
    assert_eq!(cluster.sites[0].executions_of("news").await.len(), 2);
    cluster.stop().await;
}

#[tokio::test]
async fn a_requested_poll_is_made_by_the_next_owner_if_the_poller_dies() {
    let recorder = Recorder::start().await.unwrap();
    let mut cluster = polling(&recorder).await;
    cluster.poll(|poll| poll["polls"] == 1).await;
    let (poller, other) = cluster.poller();
    recorder.hold("/echo");
    let mut killed = cluster.sites.remove(poller);
    let other = if other > poller { other - 1 } else { other };
    let asked = operate(&cluster.sites[other], "now", &Value::Null);
    let dies = async {
        recorder.wait_for("/echo", 2).await.unwrap();
        killed.kill().await;
        recorder.release();
    };
    let (answer, ()) = tokio::join!(asked, dies);
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json()["items"], 1);
    cluster.stop().await;
}

#[tokio::test]
async fn a_subscription_is_retried_through_any_daemon_and_shown_alike_by_all() {
    let sites = (0..2).map(|_| {
        let site = Site::new(&[("push", crate::github::PUSH)]);
        // Nothing answers there.
        site.project
            .connection("hub", "type: github.token\nwith: {token: none, host: \"http://127.0.0.1:1\"}\n")
            .unwrap();
        site
    });
    let cluster = Cluster::of(sites.collect()).await;
    let shown = async |site: usize| cluster.sites[site].ask("/subscriptions").await["subscriptions"].clone();
    let failures = |all: &Value| all[0]["failures"].as_u64();
    while failures(&shown(0).await) < Some(1) || failures(&shown(1).await) < Some(1) {}
    for site in &cluster.sites {
        let before = failures(&shown(0).await);
        let tried = send(site.api(Method::POST, "/subscriptions/push/try")).await;
        assert_eq!(tried.status, 200, "{}", tried.text);
        assert!(failures(&tried.json()["subscriptions"]) > before, "{}", tried.text);
        assert_eq!(shown(0).await, shown(1).await);
        let refused = send(site.api(Method::POST, "/subscriptions/push/forget")).await;
        assert_eq!(refused.refusal(), (409, "nothing_to_forget".to_owned()));
    }
    cluster.stop().await;
}

/// Sends JSON to the test address of `intake` at a daemon.
async fn test_request(site: &Site, body: &Value) -> Answer {
    let automation = site.automation("intake").await;
    send(site.request(Method::POST, automation["testUrl"].as_str().unwrap()).json(body)).await
}

#[tokio::test]
async fn a_test_request_at_any_daemon_is_captured_by_a_listener_at_another() {
    let intake = "trigger: {webhook: {verify: none}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("intake", intake)]).await;
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    let listen = "/automations/intake/listen";
    let begun = send(here.api(Method::POST, listen).json(&json!({"count": 3}))).await;
    assert_eq!((begun.status, begun.json()["left"].clone()), (200, json!(3)), "{}", begun.text);
    // A client waits at the first daemon while the request arrives at the second.
    let watched = send(here.api(Method::GET, &format!("{listen}?wait=true")));
    let order = json!({"order": 17});
    let (watched, answer) = tokio::join!(watched, test_request(there, &order));
    assert_eq!(answer.status, 200, "{}", answer.text);
    let capture = &watched.json()["captures"][0];
    assert_eq!(capture["results"]["body"]["data"], json!({"order": 17}), "{}", watched.text);
    assert_eq!(test_request(here, &json!({"order": 18})).await.status, 200);
    let shown = [here.ask(listen).await, there.ask(listen).await];
    assert_eq!(shown[0]["captures"], shown[1]["captures"]);
    assert_eq!((shown[1]["captures"].as_array().unwrap().len(), &shown[1]["left"]), (2, &json!(1)));
    assert_eq!(here.executions_of("intake").await.len(), 0, "a captured request starts nothing");
    let saved = json!({"name": "first", "capture": 2});
    let saved = send(there.api(Method::POST, "/automations/intake/payloads").json(&saved)).await;
    assert!(saved.status < 300, "{} {}", saved.status, saved.text);
    let stopped = send(there.api(Method::DELETE, listen)).await;
    assert_eq!((stopped.status, &stopped.json()["listening"]), (200, &json!(false)), "{}", stopped.text);
    assert_eq!(here.ask(listen).await["listening"], false);
    assert!(test_request(here, &json!({})).await.status == 200);
    assert_eq!(there.executions_of("intake").await.len(), 1, "listening has ended");
    cluster.stop().await;
}

#[tokio::test]
async fn the_capture_count_holds_across_all_daemons() {
    let intake = "trigger: {webhook: {verify: none}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("intake", intake)]).await;
    let listen = "/automations/intake/listen";
    send(cluster.sites[1].api(Method::POST, listen).json(&json!({"count": 5}))).await;
    let body = json!({});
    let requests = (0..12).map(|turn| test_request(&cluster.sites[turn % 2], &body));
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    let shown = cluster.sites[0].ask(listen).await;
    assert_eq!((shown["captures"].as_array().unwrap().len(), &shown["listening"]), (5, &json!(false)));
    assert_eq!(cluster.sites[0].executions_of("intake").await.len(), 7, "the others start executions");
    cluster.stop().await;
}

#[tokio::test]
async fn a_test_request_gets_503_while_listeners_are_unknown() {
    let intake = "trigger: {webhook: {verify: none}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("intake", intake)]).await;
    cluster.sql("ALTER TABLE @.listenings RENAME TO away");
    let refused = test_request(&cluster.sites[0], &json!({})).await;
    assert_eq!(refused.refusal(), (503, "unavailable".to_owned()));
    assert_eq!(cluster.sites[0].post("intake", &json!({})).await.status, 200, "the live address still works");
    cluster.stop().await;
}

#[tokio::test]
async fn one_daemon_subscribes_a_test_address_while_any_daemon_listens() {
    let github = tests::github::GitHub::start().await.unwrap();
    let sites = (0..2).map(|_| {
        crate::github::unstarted(&github, &[("push", &format!("enabled: false\n{}", crate::github::PUSH))])
    });
    let cluster = Cluster::of(sites.collect()).await;
    let listen = "/automations/push/listen";
    let mut answers = 0;
    for site in &cluster.sites {
        let begun = send(site.api(Method::POST, listen)).await;
        assert_eq!(begun.status, 200, "{}", begun.text);
        answers += 1;
        github.answered(answers).await;
        assert_eq!(github.hooks().len(), 1);
        for site in &cluster.sites {
            while site.ask(listen).await["subscription"]["state"] != "active" {}
        }
        assert_eq!(send(site.api(Method::DELETE, listen)).await.status, 200);
        answers += 1;
        github.answered(answers).await;
        assert_eq!(github.hooks(), Vec::<Value>::new(), "the subscription is deleted");
    }
    cluster.stop().await;
}
