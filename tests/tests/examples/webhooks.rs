//! Examples with a webhook.

use serde_json::json;
use wiki_simulator::{ARCH_SPACE_ID, DEMO_PAGE_ID, DEMO_SPACE_ID, Fault};

use crate::house::House;

mod page_from_webhook {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn creates_the_page_and_responds_with_its_id() {
        let house = House::with("page-from-webhook").await;
        let answer = house.post(json!({"orderId": "17", "quantity": 2})).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let pages = house.pages_titled("Order 17").await;
        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0]["spaceId"], json!(DEMO_SPACE_ID.to_string()));
        assert_eq!(pages[0]["body"]["storage"]["value"], json!("<p>2 pieces</p>"));
        assert_eq!(answer.json(), json!({"page": pages[0]["id"], "title": "Order 17"}));
        assert_eq!(json!(answer.header("x-page-id")), pages[0]["id"]);
    }

    #[tokio::test]
    async fn refuses_an_order_without_a_quantity_and_sends_the_wiki_nothing() {
        let house = House::with("page-from-webhook").await;
        for body in [json!({"orderId": "17", "quantity": 0}), json!({"orderId": "17"})] {
            let answer = house.post(body).await;
            assert_eq!(answer.status, 400);
            assert_eq!(answer.json(), json!({"error": "an order needs a quantity of at least 1"}));
        }
        assert_eq!(house.wiki.requests().len(), 0);
    }

    #[tokio::test]
    async fn returns_the_error_of_the_wiki() {
        let house = House::with("page-from-webhook").await;
        assert_eq!(house.post(json!({"orderId": "18", "quantity": 1})).await.status, 201);
        let again = house.post(json!({"orderId": "18", "quantity": 1})).await;
        assert_eq!(again.status, 502);
        let why = again.json()["error"].as_str().unwrap().to_owned();
        assert!(why.contains("already exists in the space: Order 18"), "{why}");
        assert_eq!(house.pages_titled("Order 18").await.len(), 1);
    }
}

mod approval {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn gives_the_caller_the_url_of_the_approval_page() {
        let house = House::with("approval").await;
        let answer = house.post(json!({"what": "A new printer", "amount": 1200})).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        let url = answer.json()["answerAt"].as_str().unwrap().to_owned();
        let page = house.open(&url).await;
        assert_eq!(page.status, 200);
        assert!(page.text.contains("Spend 1200 € on A new printer?"), "{}", page.text);
        let fields = [("option", "approve"), ("form.reason", "It is broken"), ("form.costCentre", "office")];
        let answered = house.fill_in(&url, &fields).await;
        assert!(answered.text.contains("Answered"), "{} {}", answered.status, answered.text);
        let id = house.newest().await;
        assert_eq!(house.result_of(&id).await, json!({"approved": true, "reason": "It is broken"}));
    }
}

mod page_from_webhook_async {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn responds_with_the_execution_id_and_creates_the_page_afterwards() {
        let house = House::with("page-from-webhook-async").await;
        let answer = house.post(json!({"title": "Hello", "text": "a < b & c"})).await;
        assert_eq!(answer.status, 200);
        let body = answer.json();
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["executionId"]);
        let page = house.result_of(body["executionId"].as_str().unwrap()).await;
        let pages = house.pages_titled("Hello").await;
        assert_eq!((pages.len(), &pages[0]["id"]), (1, &page["id"]));
        assert_eq!(pages[0]["body"]["storage"]["value"], json!("<p>a &lt; b &amp; c</p>"));
    }

    #[tokio::test]
    async fn retries_a_wiki_that_is_down() {
        let house = House::with("page-from-webhook-async").await;
        house.wiki.fault(Fault::on("POST", "*/pages").status(503)).unwrap();
        let answer = house.post(json!({"title": "Later", "text": "x"})).await.json();
        house.advance_to("2026-01-15T09:00:01Z".parse().unwrap()).await;
        house.result_of(answer["executionId"].as_str().unwrap()).await;
        let tries = house.wiki.requests_to("POST", "*/pages");
        assert_eq!(tries.len(), 2);
        assert!(tries[0].header("idempotency-key").is_some());
        assert_eq!(tries[0].header("idempotency-key"), tries[1].header("idempotency-key"));
        assert_eq!(house.pages_titled("Later").await.len(), 1);
    }
}

mod order_intake {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn gives_a_static_response_and_stores_the_order_in_a_page_property() {
        let house = House::with("order-intake").await;
        let order = json!({"orderId": "42", "items": [{"sku": "cog", "quantity": 3}, {"sku": "belt", "quantity": 2}]});
        let answer = house.post(order.clone()).await;
        assert_eq!((answer.status, answer.text.as_str()), (202, r#"{"accepted": true}"#));
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("x-intake"), "cogwork");
        let result = house.result_of(answer.header("x-execution-id")).await;
        let pages = house.pages_titled("Intake of order 42").await;
        assert_eq!(result, json!({"page": pages[0]["id"], "pieces": 5}));
        assert_eq!(pages[0]["body"]["storage"]["value"], json!("<p>2 items, 5 pieces</p>"));
        let path = format!("/pages/{}/properties?key=order", pages[0]["id"].as_str().unwrap());
        assert_eq!(house.in_wiki(&path).await["results"][0]["value"], order);
    }

    #[tokio::test]
    async fn starts_nothing_without_an_order() {
        let house = House::with("order-intake").await;
        for body in [json!({"hello": "world"}), json!(null)] {
            assert_eq!(house.post(body).await.json(), json!({"filtered": true}));
        }
        assert_eq!(house.wiki.requests().len(), 0);
    }
}

mod split_path {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn serves_a_page_by_the_path_and_the_query() {
        let house = House::with("split-path").await;
        let answer = house.get(&format!("/pages/{DEMO_PAGE_ID}?format=view")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let body = answer.json();
        assert_eq!(body["id"], json!(DEMO_PAGE_ID.to_string()));
        assert_eq!(body["title"], json!("Welcome"));
        assert_eq!(body["labels"], json!(["welcome", "start-here"]));
        assert!(body["body"].as_str().unwrap().contains("<h1>Welcome</h1>"), "{body}");
        let asked = house.wiki.requests();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].query("body-format"), Some("view"));
    }

    #[tokio::test]
    async fn returns_404_for_other_paths_and_an_error_for_unknown_pages() {
        let house = House::with("split-path").await;
        for path in ["", "/", "/pages", "/spaces/1", "/pages/1/2"] {
            let answer = house.get(path).await;
            assert_eq!((answer.status, answer.json()), (404, json!({"error": "use /pages/ID"})), "{path}");
        }
        let unknown = house.get("/pages/1").await;
        assert_eq!(unknown.status, 500);
        assert!(unknown.json()["error"].as_str().unwrap().contains("404"), "{}", unknown.text);
    }
}

mod space_overview {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn responds_with_the_results_of_parallel_requests() {
        let house = House::with("space-overview").await;
        let body = house.get("").await.json();
        assert_eq!((&body["key"], &body["name"]), (&json!("DEMO"), &json!("Demo")));
        assert_eq!(body["newest"].as_array().unwrap().len(), 5);
        assert_eq!(body["attachments"], json!(3));
        let other = house.get(&format!("?spaceId={ARCH_SPACE_ID}")).await.json();
        assert_eq!(other["key"], json!("ARCH"));
        assert_eq!(house.wiki.requests().len(), 6);
    }
}

mod raw_upload {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn uploads_the_exact_bytes_under_the_requested_name() {
        let house = House::with("raw-upload").await;
        let answer = house.post_bytes("?name=picture.png", "image/png", b"\x89PNG\r\n\x00\xff").await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let id = answer.json()["attachment"].as_str().unwrap().to_owned();
        let attachment = house.in_wiki(&format!("/attachments/{id}")).await;
        assert_eq!(attachment["title"], json!("picture.png"));
        assert_eq!(attachment["mediaType"], json!("image/png"));
        assert_eq!(attachment["fileSize"], json!(8));
        assert_eq!(attachment["pageId"], json!(DEMO_PAGE_ID.to_string()));
        assert_eq!(attachment["comment"], json!("Uploaded by Raw upload"));
    }

    #[tokio::test]
    async fn creates_a_new_version_of_an_existing_file_and_retries() {
        let house = House::with("raw-upload").await;
        house.wiki.fault(Fault::on("PUT", "*/child/attachment").status(502)).unwrap();
        let first = house.post_bytes("", "text/plain", b"one").await.json();
        let second = house.post_bytes("", "text/plain", b"two").await.json();
        assert_eq!(first["attachment"], second["attachment"]);
        let attachment =
            house.in_wiki(&format!("/attachments/{}", first["attachment"].as_str().unwrap())).await;
        assert_eq!(attachment["version"]["number"], json!(2));
        assert_eq!(attachment["title"], json!("upload.bin"));
        assert_eq!(house.wiki.count("PUT", "*/child/attachment"), 3);
    }
}
