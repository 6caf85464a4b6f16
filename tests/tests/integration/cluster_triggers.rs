//! Triggers of several daemons with one database: what one daemon keeps in memory alone holds over all of them.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::cluster::Cluster;

#[tokio::test]
async fn a_rate_limit_holds_over_all_daemons_together() {
    let work = "trigger: {webhook: {verify: none, rateLimit: {max: 40, per: 1d}}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("work", work)]).await;
    let body = json!({});
    let calls = (0..100).map(|turn| cluster.sites[turn % 2].post("work", &body));
    let statuses: Vec<u16> =
        futures_util::future::join_all(calls).await.iter().map(|answer| answer.status).collect();
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(200), count(429)), (40, 60), "{statuses:?}");
    assert_eq!(cluster.sites[1].executions_of("work").await.len(), 40);
    cluster.stop().await;
}

#[tokio::test]
async fn a_request_whose_rate_cannot_be_counted_is_refused_for_now() {
    let work = "trigger: {webhook: {verify: none, rateLimit: {max: 1, per: 1d, burst: 8}}}\nsteps: []\n";
    let cluster = Cluster::start(2, &[("work", work)]).await;
    cluster.sql("ALTER TABLE @.buckets RENAME TO away");
    let refused = cluster.sites[0].post("work", &json!({})).await;
    assert_eq!(refused.refusal(), (503, "unavailable".to_owned()), "{}", refused.text);
    assert_eq!(refused.header("retry-after"), "1");
    cluster.sql("ALTER TABLE @.away RENAME TO buckets");
    while cluster.sites[0].post("work", &json!({})).await.status != 200 {}
    cluster.stop().await;
}
