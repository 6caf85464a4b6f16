//! Several daemons on one database: all use the clock of the database.

use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tests::fake_clock::FakeClock;

use crate::cluster::Cluster;
use crate::site::Site;

const WAITS: &str = "trigger: {manual: {}}\nsteps:\n  - wait: 30m\n";

/// Returns the time in this field, minus the time of this machine.
fn ahead(field: &Value) -> SignedDuration {
    let told: Timestamp = field.as_str().unwrap_or_default().parse().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the clock of this machine is that of the database")]
    told.duration_since(Timestamp::now())
}

#[tokio::test]
async fn a_daemon_with_a_wrong_machine_clock_stores_times_of_the_database_clock() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(folder.path().join("clock")).unwrap_or_else(|error| panic!("{error}"));
    clock.set(3600).unwrap();
    let [right, mut wrong] = [Site::new(&[("waits", WAITS)]), Site::new(&[("waits", WAITS)])];
    wrong.surround(clock.variables());
    let mut cluster = Cluster::of(vec![right, wrong]).await;
    let id = cluster.sites[1].run("waits").await;
    let path = format!("/executions/{id}");
    while cluster.sites[0].ask(&path).await["status"] != json!("waiting") {}
    let said = cluster.sites[1].daemon().output();
    assert!(said.contains("the clock of this machine differs from that of the database by 1h"), "{said}");
    // The suspension that the other daemon takes over ends half an hour after it began.
    cluster.sites[1].kill().await;
    cluster.sites.truncate(1);
    cluster.until(0, |nodes| nodes.len() == 1).await;
    let shown = cluster.sites[0].ask(&path).await;
    assert_eq!(shown["status"], json!("waiting"));
    assert!(ahead(&shown["startedAt"]).abs() < SignedDuration::from_mins(5), "{shown:#}");
    let until = cluster.sql("SELECT (wake_ns / 1000000000)::int8 FROM @.live");
    let until = Timestamp::from_second(until.trim().parse().unwrap()).unwrap();
    let rest = ahead(&json!(until.to_string()));
    assert!((rest - SignedDuration::from_mins(30)).abs() < SignedDuration::from_mins(5), "{rest:#}");
    cluster.stop().await;
}
