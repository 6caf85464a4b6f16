//! Lists of pages: filters, order, paging and links.

use reqwest::Method;
use serde_json::json;
use tests::wiki::{PageSeed, Simulator, SpaceSeed, Status};

use crate::client::{Answer, Wiki, send, wiki, wiki_with};

async fn many(count: usize) -> Wiki {
    let wiki = wiki().await;
    let space = wiki.space;
    wiki.seed(|state| {
        (0..count)
            .try_for_each(|number| state.add_page(PageSeed::new(space, &format!("P{number:04}"))).map(drop))
    });
    wiki
}

/// Follows the next links as a good client does: the parameters of the link on the path that was called.
async fn follow(wiki: &Wiki, path: &str, query: &str) -> (Vec<String>, usize) {
    let (mut titles, mut calls, mut query) = (Vec::new(), 0, query.to_owned());
    loop {
        let answer = wiki.get(&format!("{path}?{query}")).await;
        titles.extend(answer.is(200).column("title"));
        calls += 1;
        match answer.next() {
            Some(next) => query = next.split_once('?').unwrap().1.to_owned(),
            None => return (titles, calls),
        }
    }
}

#[tokio::test]
async fn paging_at_limit_250_finds_every_page_once() {
    let wiki = many(599).await;
    let (titles, calls) = follow(&wiki, "/pages", "limit=250").await;
    assert_eq!((titles.len(), calls), (600, 3));
    let mut unique = titles.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 600);
}

#[tokio::test]
async fn paging_at_limit_1_finds_every_page_once() {
    let wiki = many(599).await;
    let (titles, calls) = follow(&wiki, "/pages", "limit=1").await;
    assert_eq!((titles.len(), calls), (600, 600));
    assert!(titles[1..].windows(2).all(|pair| pair[0] < pair[1]));
}

#[tokio::test]
async fn the_page_size_is_25_by_default_and_from_1_to_250() {
    let wiki = many(30).await;
    assert_eq!(wiki.get("/pages").await.ids().len(), 25);
    for wrong in ["0", "251", "-1", "ten", "99999999999"] {
        wiki.get(&format!("/pages?limit={wrong}")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
    }
}

#[tokio::test]
async fn next_is_relative_to_the_site_starts_with_the_cursor_and_repeats_the_filters() {
    let wiki = many(3).await;
    let answer = wiki.get("/pages?status=current&limit=1&sort=-title").await;
    let next = answer.next().unwrap();
    assert!(next.starts_with("/wiki/api/v2/pages?cursor="), "{next}");
    assert!(next.ends_with("&status=current&limit=1&sort=-title"), "{next}");
    let base = format!("{}/wiki", wiki.sim.base_url());
    assert_eq!(answer.header("link"), format!("<{next}>; rel=\"next\", <{base}>; rel=\"base\""));
    assert_eq!(answer.body["_links"]["base"], base);
}

#[tokio::test]
async fn the_last_page_has_a_base_and_no_next() {
    let wiki = many(1).await;
    let answer = wiki.get("/pages").await;
    assert_eq!(answer.next(), None);
    assert_eq!(answer.header("link"), format!("<{}/wiki>; rel=\"base\"", wiki.sim.base_url()));
}

#[tokio::test]
async fn next_links_of_the_old_form_leave_out_the_leading_wiki() {
    let wiki = many(3).await;
    wiki.sim.switch(|switches| switches.old_next_links = true);
    let next = wiki.get("/pages?limit=1").await.next().unwrap();
    assert!(next.starts_with("/api/v2/pages?cursor="), "{next}");
    send(wiki.site(Method::GET, &next)).await.is(404);
    let (titles, _) = follow(&wiki, "/pages", "limit=1").await;
    assert_eq!(titles.len(), 4);
}

#[tokio::test]
async fn the_gateway_gives_the_same_links_as_the_site() {
    let wiki = many(3).await;
    let token = wiki.token();
    let answer = send(wiki.gateway(Method::GET, "/pages?limit=1", &token)).await;
    let next = answer.next().unwrap();
    assert!(next.starts_with("/wiki/api/v2/pages?cursor="), "{next}");
    let query = next.split_once('?').unwrap().1.to_owned();
    let second = send(wiki.gateway(Method::GET, &format!("/pages?{query}"), &token)).await;
    assert_eq!(second.is(200).column("title"), ["P0000"]);
}

#[tokio::test]
async fn a_bad_cursor_is_400_with_the_advice_to_start_again() {
    let wiki = many(3).await;
    let whole_link = wiki.get("/pages?limit=1").await.next().unwrap();
    for cursor in ["garbage", "bm90IGpzb24=", whole_link.as_str()] {
        let answer = send(wiki.v2(Method::GET, "/pages").query(&[("cursor", cursor)])).await;
        answer.is_error(400, "INVALID_REQUEST_PARAMETER");
        assert!(answer.title().contains("'cursor'"));
        assert!(answer.body["errors"][0]["detail"].as_str().unwrap().contains("paging"));
    }
}

#[tokio::test]
async fn a_cursor_does_not_go_with_another_order() {
    let wiki = many(3).await;
    let next = wiki.get("/pages?limit=1&sort=title").await.next().unwrap();
    let query = next.split_once('?').unwrap().1.replace("sort=title", "sort=-title");
    wiki.get(&format!("/pages?{query}")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn writes_between_two_pages_neither_repeat_nor_skip_the_others() {
    let wiki = many(6).await;
    let first = wiki.get("/pages?limit=3&sort=title").await;
    assert_eq!(first.column("title"), ["P0000", "P0001", "P0002"]);
    wiki.delete(&format!("/pages/{}", first.ids()[0])).await.is(204);
    wiki.page("P0000a");
    let query = first.next().unwrap().split_once('?').unwrap().1.to_owned();
    assert_eq!(wiki.get(&format!("/pages?{query}")).await.column("title"), ["P0003", "P0004", "P0005"]);
}

#[tokio::test]
async fn lists_are_ordered_by_id_or_as_asked() {
    let wiki = wiki().await;
    for title in ["b", "c", "a"] {
        wiki.page(title);
    }
    let first = wiki.get("/pages?title=b").await.ids()[0].parse().unwrap();
    wiki.update(first, "b", 2, json!({})).await.is(200);
    for (sort, expected) in [
        ("", "Test Home,b,c,a"),
        ("&sort=id", "Test Home,b,c,a"),
        ("&sort=-id", "a,c,b,Test Home"),
        ("&sort=title", "Test Home,a,b,c"),
        ("&sort=-title", "c,b,a,Test Home"),
        ("&sort=created-date", "Test Home,b,c,a"),
        ("&sort=-created-date", "a,c,b,Test Home"),
        ("&sort=modified-date", "Test Home,c,a,b"),
        ("&sort=-modified-date", "b,a,c,Test Home"),
    ] {
        let (titles, _) = follow(&wiki, "/pages", &format!("limit=2{sort}")).await;
        assert_eq!(titles.join(","), expected, "{sort}");
    }
    wiki.get("/pages?sort=position").await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

async fn titles(wiki: &Wiki, path: &str) -> String {
    wiki.get(path).await.is(200).column("title").join(",")
}

#[tokio::test]
async fn lists_show_current_and_archived_pages_unless_told_otherwise() {
    let wiki = wiki().await;
    let space = wiki.space;
    for (title, status) in [
        ("cur", Status::Current),
        ("arc", Status::Archived),
        ("tra", Status::Trashed),
        ("dra", Status::Draft),
    ] {
        wiki.seed(|state| state.add_page(PageSeed::new(space, title).status(status)));
    }
    assert_eq!(titles(&wiki, "/pages").await, "Test Home,cur,arc");
    assert_eq!(titles(&wiki, "/pages?status=trashed").await, "tra");
    assert_eq!(titles(&wiki, "/pages?status=archived,trashed").await, "arc,tra");
    assert_eq!(titles(&wiki, "/pages?status=archived&status=trashed").await, "arc,tra");
    assert_eq!(titles(&wiki, "/pages?status=deleted").await, "");
    wiki.get("/pages?status=draft").await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn lists_filter_by_id_space_and_exact_title() {
    let wiki = wiki().await;
    let other = wiki.seed(|state| state.add_space(SpaceSeed::new("OTHER", "Other")));
    let (a, b) = (wiki.page("Alpha"), wiki.page("Alphabet"));
    assert_eq!(titles(&wiki, &format!("/pages?id={a},{b},99")).await, "Alpha,Alphabet");
    assert_eq!(titles(&wiki, &format!("/pages?space-id={other}")).await, "Other Home");
    assert_eq!(titles(&wiki, "/pages?title=Alpha").await, "Alpha");
    assert_eq!(titles(&wiki, "/pages?title=alpha").await, "");
    wiki.get("/pages?id=x").await.is_error(400, "INVALID_REQUEST_PARAMETER");
    let ids = |count: usize| (1..=count).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    wiki.get(&format!("/pages?id={}", ids(250))).await.is(200);
    wiki.get(&format!("/pages?id={}", ids(251))).await.is_error(400, "INVALID_REQUEST_PARAMETER");
    wiki.get(&format!("/pages?space-id={}", ids(101))).await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn lists_return_bodies_in_two_formats_only() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let one = |answer: &Answer| answer.body["results"][0]["body"].clone();
    assert_eq!(one(&wiki.get(&format!("/pages?id={page}")).await), json!({}));
    let storage = wiki.get(&format!("/pages?id={page}&body-format=storage")).await;
    assert_eq!(one(&storage)["storage"]["value"], "<p>A</p>");
    assert!(
        one(&wiki.get(&format!("/pages?id={page}&body-format=wiki_doc_format")).await)["wiki_doc_format"]
            .is_object()
    );
    wiki.get("/pages?body-format=view").await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn the_pages_of_a_space_can_be_cut_to_its_root() {
    let wiki = wiki().await;
    let space = wiki.space;
    wiki.page("Below");
    wiki.seed(|state| state.add_page(PageSeed::new(space, "Beside").at_root()));
    let path = format!("/spaces/{space}/pages");
    assert_eq!(titles(&wiki, &path).await, "Test Home,Below,Beside");
    assert_eq!(titles(&wiki, &format!("{path}?depth=all")).await, "Test Home,Below,Beside");
    assert_eq!(titles(&wiki, &format!("{path}?depth=root")).await, "Test Home,Beside");
    wiki.get(&format!("{path}?depth=2")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
    wiki.get("/spaces/99/pages").await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn entries_of_a_list_have_neither_included_lists_nor_a_base_link() {
    let wiki = wiki().await;
    let entry = wiki.get("/pages?include-labels=true").await.body["results"][0].clone();
    assert!(entry.get("labels").is_none());
    assert!(entry["_links"].get("base").is_none());
    assert!(entry["_links"]["webui"].as_str().unwrap().starts_with("/spaces/TEST/pages/"));
    assert_eq!(entry["version"]["number"], 1);
}

#[tokio::test]
async fn cursors_survive_titles_of_any_script() {
    let wiki = wiki_with(Simulator::builder()).await;
    for title in ["ä & ö", "日本", "a/b?c=d", "\"quoted\"", "z>>>???"] {
        wiki.page(title);
    }
    let (titles, calls) = follow(&wiki, "/pages", "limit=1&sort=title").await;
    assert_eq!((titles.len(), calls), (6, 6));
}
