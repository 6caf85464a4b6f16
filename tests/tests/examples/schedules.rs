//! Examples with a schedule.

use serde_json::json;
use wiki_simulator::{DEMO_SPACE_ID, Fault};

use crate::house::House;

mod heartbeat {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn logs_every_minute() {
        let house = House::with("heartbeat").await;
        for instant in ["2026-01-15T09:01:00Z", "2026-01-15T09:02:00Z"] {
            let id = house.tick_at(instant).await;
            house.end(id).await;
            assert_eq!(house.log(id).await, [format!("Alive at {instant}")]);
        }
    }

    #[tokio::test]
    async fn can_be_started_by_hand() {
        let house = House::with("heartbeat").await;
        let id = house.start(json!({})).await;
        house.end(id).await;
        assert_eq!(house.log(id).await, ["Alive at 2026-01-15T09:00:00Z"]);
    }
}

mod nightly_report {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn creates_the_nightly_page_at_half_past_two_in_berlin() {
        let house = House::with("nightly-report").await;
        let id = house.tick_at("2026-01-16T01:30:00Z").await;
        house.end(id).await;
        let pages = house.pages_titled("Report of 2026-01-16").await;
        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0]["spaceId"], json!(DEMO_SPACE_ID.to_string()));
        let body = pages[0]["body"]["storage"]["value"].as_str().unwrap();
        assert!(body.starts_with("<p>Changed last:</p> <ul><li>"), "{body}");
        assert_eq!(body.matches("<li>").count(), 10, "{body}");
        assert!(body.contains("<li>Glossary</li>"), "{body}");
    }

    #[tokio::test]
    async fn updates_the_page_of_the_day_when_it_runs_again() {
        let house = House::with("nightly-report").await;
        let first = house.run(json!({})).await;
        let second = house.run(json!({})).await;
        assert_eq!(first, second);
        assert_eq!(first["title"], json!("Report of 2026-01-15"));
        let pages = house.pages_titled("Report of 2026-01-15").await;
        assert_eq!((pages.len(), &pages[0]["version"]["number"]), (1, &json!(2)));
        assert_eq!(pages[0]["version"]["message"], json!("Report made again"));
    }

    #[tokio::test]
    async fn logs_why_there_is_no_report() {
        let house = House::with("nightly-report").await;
        house.wiki.fault(Fault::on("POST", "*/pages").status(403)).unwrap();
        let id = house.start(json!({})).await;
        house.end(id).await;
        let log = house.log(id).await;
        assert!(log[0].starts_with("no report tonight: the wiki answered 403"), "{log:?}");
    }
}

mod trash_cleanup {
    use pretty_assertions::assert_eq;

    use super::*;
    use wiki_simulator::{DEMO_EMAIL, DEMO_TOKEN, PageSeed, Status};

    #[tokio::test]
    async fn purges_the_trash_on_sunday_night_and_nothing_else() {
        let house = House::with("trash-cleanup").await;
        let kept = house.titles_in(DEMO_SPACE_ID).await;
        for title in ["Old one", "Old two", "Old three"] {
            let seed = PageSeed::new(DEMO_SPACE_ID, title).status(Status::Trashed);
            house.wiki.seed(|state| state.add_page(seed)).unwrap();
        }
        // One of them cannot be purged, and the others still are.
        house.wiki.fault(Fault::on("DELETE", "*").status(500)).unwrap();
        let id = house.tick_at("2026-01-18T02:15:00Z").await;
        let result = house.result_of(&id.to_string()).await;
        assert_eq!(result["found"], json!(3));
        assert_eq!(result["purged"].as_array().unwrap().len(), 2);
        let deletes = house.wiki.requests_to("DELETE", "*/pages/*");
        assert!(deletes.iter().all(|request| request.query("purge") == Some("true")));
        assert!(deletes.iter().all(|request| {
            use base64::Engine as _;
            let token =
                base64::engine::general_purpose::STANDARD.encode(format!("{DEMO_EMAIL}:{DEMO_TOKEN}"));
            request.header("authorization") == Some(format!("Basic {token}").as_str())
        }));
        assert_eq!(house.titles_in(DEMO_SPACE_ID).await, kept);
        let left = house.in_wiki(&format!("/pages?space-id={DEMO_SPACE_ID}&status=trashed")).await;
        assert_eq!(left["results"].as_array().unwrap().len(), 1);
    }
}
