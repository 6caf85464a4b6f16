//! Spaces and custom content.

use serde_json::json;
use tests::wiki::{Simulator, SpaceSeed};

use crate::client::{Wiki, bare, wiki};

async fn three() -> (Wiki, [u64; 3]) {
    let wiki = bare(Simulator::builder()).await;
    let ids = wiki.seed(|state| {
        let a = state.add_space(SpaceSeed::new("ZED", "Alpha").description("the first"))?;
        let b = state.add_space(SpaceSeed::new("MID", "Charlie").kind("personal"))?;
        let c = state.add_space(SpaceSeed::new("ABC", "Bravo").archived())?;
        state.add_space_label(b, "team-x")?;
        state.favourite_space(c, "557058:demo")?;
        Ok([a, b, c])
    });
    (wiki, ids)
}

#[tokio::test]
async fn a_space_is_found_by_its_number_and_not_by_its_key() {
    let (wiki, [a, ..]) = three().await;
    let answer = wiki.get(&format!("/spaces/{a}")).await;
    assert_eq!((&answer.is(200).body["key"], &answer.body["name"]), (&json!("ZED"), &json!("Alpha")));
    assert_eq!(answer.body["homepageId"], (a + 1).to_string());
    assert_eq!((&answer.body["description"], &answer.body["icon"]), (&json!(null), &json!(null)));
    assert_eq!(answer.body["_links"]["base"], format!("{}/wiki", wiki.sim.base_url()));
    wiki.get("/spaces/ZED").await.is_error(400, "INVALID_REQUEST_PARAMETER");
    wiki.get("/spaces/99").await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_space_shows_more_on_request() {
    let (wiki, [a, b, _]) = three().await;
    let path = format!(
        "/spaces/{a}?description-format=plain&include-icon=true&include-operations=true&include-permissions=true&include-properties=true"
    );
    let answer = wiki.get(&path).await;
    assert_eq!(answer.is(200).body["description"]["plain"]["value"], "the first");
    assert!(answer.body["icon"]["path"].is_string());
    assert_eq!(answer.body["permissions"]["results"][0]["principal"]["type"], "user");
    assert_eq!(answer.body["operations"]["results"][0]["targetType"], "space");
    assert_eq!(answer.body["properties"]["results"], json!([]));
    let labels = wiki.get(&format!("/spaces/{b}?include-labels=true")).await;
    assert_eq!(labels.body["labels"]["results"][0]["name"], "team-x");
    for list in ["labels", "permissions", "operations", "properties"] {
        wiki.get(&format!("/spaces/{b}/{list}")).await.is(200);
    }
}

#[tokio::test]
async fn spaces_are_listed_by_id_or_as_asked() {
    let (wiki, _) = three().await;
    for (query, expected) in [
        ("", "ZED,MID,ABC"),
        ("sort=-id", "ABC,MID,ZED"),
        ("sort=key", "ABC,MID,ZED"),
        ("sort=name", "ZED,ABC,MID"),
        ("sort=-name", "MID,ABC,ZED"),
        ("keys=ABC,ZED", "ZED,ABC"),
        ("type=personal", "MID"),
        ("status=archived", "ABC"),
        ("labels=team-x", "MID"),
        ("favorited-by=557058:demo", "ABC"),
        ("not-favorited-by=557058:demo", "ZED,MID"),
    ] {
        let answer = wiki.get(&format!("/spaces?{query}")).await;
        assert_eq!(answer.is(200).column("key").join(","), expected, "{query}");
    }
    for wrong in ["sort=type", "type=planet", "status=trashed", "ids=ZED", "description-format=raw"] {
        wiki.get(&format!("/spaces?{wrong}")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
    }
}

#[tokio::test]
async fn spaces_are_paged_and_filtered_by_id() {
    let (wiki, [a, _, c]) = three().await;
    assert_eq!(wiki.get(&format!("/spaces?ids={a},{c}")).await.column("key"), ["ZED", "ABC"]);
    let first = wiki.get("/spaces?limit=2&sort=name").await;
    let next = first.next().unwrap();
    let last = wiki.get(next.strip_prefix("/wiki/api/v2").unwrap()).await;
    assert_eq!((last.column("key").join(","), last.next()), ("MID".to_owned(), None));
}

#[tokio::test]
async fn custom_content_can_be_read_by_its_id() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let content = wiki.custom_content(page);
    let answer = wiki.get(&format!("/custom-content/{content}")).await;
    assert_eq!(answer.is(200).body["type"], "ac:app:thing");
    assert_eq!(answer.body["pageId"], page.to_string());
    let space = wiki.space;
    let loose = wiki.seed(|state| state.add_custom_content_to_space(space, "ac:app:thing", "Loose"));
    let answer = wiki.get(&format!("/custom-content/{loose}")).await;
    assert_eq!(answer.is(200).body["spaceId"], space.to_string());
    assert!(answer.body.get("pageId").is_none());
}
