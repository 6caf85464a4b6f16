//! Challenges of senders, and pairing with senders that offer their secret, with several daemons on one database.

use std::time::Instant;

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use tests::github::signature;

use crate::cluster::Cluster;
use crate::site::{Answer, Site, send};

const PAIR: &str = "/automations/tasks/pair";

async fn offer(site: &Site, secret: &str) -> Answer {
    send(site.request(Method::POST, &site.url("tasks").await).header("X-Hook-Secret", secret)).await
}

async fn signed(site: &Site, secret: &str, body: &'static str) -> u16 {
    let request = site.request(Method::POST, &site.url("tasks").await).body(body);
    let request = request.header("content-type", "application/json");
    send(request.header("x-hook-signature", signature(secret, body))).await.status
}

#[tokio::test]
async fn a_pairing_opened_at_one_daemon_is_shown_by_all_and_closed_by_the_first_offer() {
    let tasks = "trigger: {webhook: {verify: {preset: asana, secret: '${{ secrets.asana }}'}, challenge: asana}}\nsteps: []\n";
    let key = tempfile::tempdir().unwrap();
    let settings = format!("secrets: {{keyFile: {}}}\n", key.path().join("master.key").display());
    let site = || {
        let site = Site::new(&[("tasks", tasks)]);
        site.project.write("cogwork.yaml", &settings).unwrap();
        site
    };
    let cluster = Cluster::of(vec![site(), site()]).await;
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    assert_eq!(offer(there, "early").await.status, 401, "no pairing is open");
    let opened = send(here.api(Method::POST, PAIR)).await.json();
    assert!(opened["openUntil"].is_string(), "{opened}");
    for site in [here, there] {
        assert_eq!(site.ask(PAIR).await, opened);
    }
    // Of two concurrent senders, one is trusted.
    let (one, other) = tokio::join!(offer(there, "one"), offer(here, "other"));
    let secret = if one.status == 200 { "one" } else { "other" };
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401], "{} {}", one.text, other.text);
    for site in [here, there] {
        assert_eq!(site.ask(PAIR).await["openUntil"], Value::Null);
        assert_eq!(offer(site, "late").await.status, 401);
        // The other daemon reads the secret when it is notified.
        while signed(site, secret, "{}").await != 200 {}
        assert_eq!(signed(site, "late", "{}").await, 401);
        let refused = send(site.api(Method::POST, PAIR)).await;
        assert!(refused.text.contains("already set"), "{}", refused.text);
    }
    cluster.stop().await;
}

#[tokio::test]
async fn the_challenge_rate_limit_holds_across_all_daemons() {
    let files = "trigger: {webhook: {verify: none, challenge: dropbox}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("files", files)]).await;
    let begun = Instant::now();
    let ask = |site: usize| {
        let site = &cluster.sites[site];
        async move {
            let url = format!("{}?challenge=x", site.url("files").await);
            send(site.request(Method::GET, &url)).await.status
        }
    };
    let statuses = futures_util::future::join_all((0..80).map(|turn| ask(turn % 2))).await;
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    let (answered, limited) = (count(200), count(429));
    // A burst of 20, and 5 a second.
    let most = 20 + 5 * usize::try_from(begun.elapsed().as_secs() + 1).unwrap();
    assert_eq!(answered + limited, 80, "{statuses:?}");
    assert!((15..=most).contains(&answered), "{answered} of at most {most}");
    cluster.sql("ALTER TABLE @.buckets RENAME TO away");
    while ask(0).await != 503 {}
    let started = cluster.sites[0].post("files", &json!({})).await;
    assert_eq!(started.status, 200, "only challenges are counted: {}", started.text);
    cluster.stop().await;
}
