//! Examples that are started by hand.

use model::Outcome;
use serde_json::json;
use wiki_simulator::{ARCH_SPACE_ID, CLOUD_ID, DEMO_SPACE_ID, Fault};

use crate::house::House;

mod copy_pages {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn copies_every_page_with_its_content() {
        let house = House::with("copy-pages").await;
        let source = house.titles_in(ARCH_SPACE_ID).await;
        let result = house.run(json!({})).await;
        assert_eq!(result["copied"], json!(source.len()));
        assert_eq!(result["pages"].as_array().unwrap().len(), source.len());
        let there = house.titles_in(DEMO_SPACE_ID).await;
        for title in &source {
            assert!(there.contains(&format!("Copy of {title}")), "{title} is not in {there:?}");
        }
    }

    #[tokio::test]
    async fn takes_spaces_and_prefix_as_inputs() {
        let house = House::with("copy-pages").await;
        let inputs = json!({
            "fromSpaceId": DEMO_SPACE_ID.to_string(),
            "toSpaceId": ARCH_SPACE_ID.to_string(),
            "prefix": "DEMO: ",
        });
        house.run(inputs).await;
        let copies = house.pages_titled("DEMO: Welcome").await;
        assert_eq!(copies.len(), 1);
        assert_eq!(copies[0]["spaceId"], json!(ARCH_SPACE_ID.to_string()));
        assert_eq!(copies[0]["body"], house.pages_titled("Welcome").await[0]["body"]);
    }
}

mod label_pages {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn creates_the_property_and_then_updates_it() {
        let house = House::with("label-pages").await;
        let first = house.run(json!({"state": "approved"})).await;
        let second = house.run(json!({})).await;
        assert_eq!(first["labelled"].as_array().unwrap().len(), second["labelled"].as_array().unwrap().len());
        let page = house.pages_titled("Welcome").await[0]["id"].as_str().unwrap().to_owned();
        let found = house.in_wiki(&format!("/pages/{page}/properties?key=reviewState")).await;
        assert_eq!(found["results"][0]["value"], json!("open"));
        assert_eq!(found["results"][0]["version"]["number"], json!(2));
        let pages = first["pages"].as_u64().unwrap();
        assert!(pages >= 6, "{pages}");
        assert_eq!(house.wiki.count("POST", "*/properties") as u64, pages);
        assert_eq!(house.wiki.count("PUT", "*/properties/*") as u64, pages);
    }

    #[tokio::test]
    async fn logs_a_page_that_cannot_be_labelled_and_continues() {
        let house = House::with("label-pages").await;
        house.wiki.fault(Fault::on("POST", "*/properties").status(403)).unwrap();
        let id = house.start(json!({})).await;
        let Outcome::Succeeded { result } = house.end(id).await else { panic!("it goes on") };
        let (pages, labelled) = (result.path("pages").unwrap(), result.path("labelled").unwrap());
        assert_eq!(pages.as_i64().unwrap() - 1, labelled.as_list().unwrap().len() as i64);
        let log = house.log(id).await;
        assert_eq!(log.len(), 1);
        assert!(log[0].contains("keeps its state: the wiki answered 403"), "{log:?}");
    }
}

mod graphql_spaces {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn lists_the_spaces_and_looks_one_up() {
        let house = House::with("graphql-spaces").await;
        let result = house.run(json!({"key": "ARCH"})).await;
        assert_eq!(result["spaces"], json!(["DEMO", "ARCH"]));
        assert!(result["pages"].as_u64().unwrap() > 10, "{result}");
        let space = house.in_wiki(&format!("/spaces/{ARCH_SPACE_ID}")).await;
        assert_eq!(result["homepage"], space["homepageId"]);
        assert_eq!(house.wiki.count("POST", "/gateway/api/graphql"), 2);
    }

    #[tokio::test]
    async fn fails_with_the_available_keys() {
        let house = House::with("graphql-spaces").await;
        let id = house.start(json!({"key": "NOPE"})).await;
        let Outcome::Failed { error } = house.end(id).await else { panic!("there is no such space") };
        assert_eq!(error.message, "there is no space NOPE; there are DEMO, ARCH");
        assert_eq!(error.step.as_deref(), Some("step4"));
    }
}

mod http_with_retry {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn retries_with_exponential_backoff() {
        let house = House::with("http-with-retry").await;
        house.wiki.fault(Fault::on("GET", "/_edge/tenant_info").status(503).times(2)).unwrap();
        let id = house.start(json!({})).await;
        house.advance_to("2026-01-15T09:00:00.5Z".parse().unwrap()).await;
        house.advance_to("2026-01-15T09:00:01.5Z".parse().unwrap()).await;
        let Outcome::Succeeded { result } = house.end(id).await else { panic!("the third try succeeds") };
        assert_eq!(result.to_json(), json!({"cloudId": CLOUD_ID, "error": null}).to_string());
        assert_eq!(house.wiki.count("GET", "/_edge/tenant_info"), 3);
    }

    #[tokio::test]
    async fn continues_without_the_service_after_the_last_retry() {
        let house = House::with("http-with-retry").await;
        house.wiki.fault(Fault::on("GET", "/_edge/tenant_info").status(500).always()).unwrap();
        let id = house.start(json!({})).await;
        for instant in ["2026-01-15T09:00:00.5Z", "2026-01-15T09:00:01.5Z", "2026-01-15T09:00:03.5Z"] {
            house.advance_to(instant.parse().unwrap()).await;
        }
        let Outcome::Succeeded { result } = house.end(id).await else { panic!("it goes on") };
        assert_eq!(result.path("cloudId").unwrap().as_str(), Some("unknown"));
        assert!(result.path("error").unwrap().as_str().unwrap().contains("500"));
        assert_eq!(house.wiki.count("GET", "/_edge/tenant_info"), 4);
        let log = house.log(id).await;
        assert!(log[0].starts_with("the service does not answer: "), "{log:?}");
        assert_eq!(log[1], "The wiki is unknown");
    }
}

mod release_notes {
    use pretty_assertions::assert_eq;

    use super::*;
    use wiki_simulator::When;

    #[tokio::test]
    async fn writes_the_results_of_parallel_reads() {
        let house = House::with("release-notes").await;
        house.wiki.fault(Fault::on("GET", "*").hold(When::Before).times(3)).unwrap();
        let id = house.start(json!({"version": "1.4.0"})).await;
        // All three reads are in flight before any is answered.
        house.wiki.wait_for_held(3).await.unwrap();
        house.wiki.release();
        let Outcome::Succeeded { result } = house.end(id).await else { panic!("the page is made") };
        let pages = house.pages_titled("Release notes 1.4.0").await;
        assert_eq!(Some(pages[0]["id"].as_str().unwrap()), result.path("id").unwrap().as_str());
        assert_eq!(
            pages[0]["body"]["storage"]["value"],
            json!(
                "<p>Decided in Architecture:</p> <ul><li>ADR 1: One binary</li><li>ADR 2: Connectors are data</li>\
                 <li>ADR 3: An execution is a log</li></ul> <p>3 attachments</p>"
            )
        );
        assert_eq!(pages[0]["spaceId"], json!(DEMO_SPACE_ID.to_string()));
    }
}
