//! Lists: filters, order, paging and links; the list of spaces.

use serde_json::json;
use wiki_simulator::{PageSeed, SpaceSeed};

use crate::client::{Wiki, send, transcripts, wiki};

/// A wiki with pages from `P000` on.
async fn many(count: usize) -> Wiki {
    let wiki = wiki().await;
    wiki.seed(|state| {
        (0..count).try_for_each(|number| {
            state.add_page(PageSeed::new(wiki.space, &format!("P{number:03}"))).map(drop)
        })
    });
    wiki
}

/// The titles of all pages of a list, and how many calls it took to follow the next links.
async fn follow(wiki: &Wiki, query: &str) -> (String, usize) {
    let (mut titles, mut query) = (Vec::new(), query.to_owned());
    loop {
        let answer = wiki.get(&format!("/pages?{query}")).await;
        titles.push(answer.is("200").column("title"));
        match answer.next() {
            Some(next) => query = next.to_owned(),
            None => return (titles.join(","), titles.len()),
        }
    }
}

#[tokio::test]
async fn paging_finds_every_page_once_whatever_the_limit_and_the_form_of_the_links() {
    let wiki = many(598).await;
    let expected = (0..598).map(|number| format!(",P{number:03}")).collect::<String>();
    for (limit, old_links, calls) in [(250, false, 3), (250, true, 3), (7, false, 86)] {
        wiki.sim.switch(|switches| switches.old_next_links = old_links);
        assert_eq!(
            follow(&wiki, &format!("limit={limit}")).await,
            (format!("Test Home,Other Home{expected}"), calls)
        );
    }
    let wiki = many(58).await;
    assert_eq!(follow(&wiki, "limit=1").await.1, 60);
}

#[tokio::test]
async fn the_page_size_is_25_by_default_and_from_1_to_250() {
    let wiki = many(30).await;
    assert_eq!(wiki.get("/pages").await.len(), 25);
    for wrong in ["0", "251", "-1", "ten", "99999999999"] {
        wiki.get(&format!("/pages?limit={wrong}")).await.is("400 INVALID_REQUEST_PARAMETER");
    }
}

#[tokio::test]
async fn next_is_relative_to_the_site_starts_with_the_cursor_and_repeats_the_filters() {
    let wiki = many(3).await;
    let (base, token) = (format!("{}/wiki", wiki.sim.base_url()), wiki.token());
    let query = "/pages?status=current&title=&limit=1&sort=-title";
    for request in [wiki.request(&format!("GET {query}")), wiki.gateway(&format!("GET {query}"), &token)] {
        let answer = send(request).await;
        let next = answer.is("200").body["_links"]["next"].as_str().unwrap();
        assert!(next.starts_with("/wiki/api/v2/pages?cursor="), "{next}");
        assert!(next.ends_with("&status=current&title=&limit=1&sort=-title"), "{next}");
        assert_eq!(answer.header("link"), format!("<{next}>; rel=\"next\", <{base}>; rel=\"base\""));
        answer.has(json!({"_links.base": base}));
        let second = wiki.gateway(&format!("GET /pages?{}", answer.next().unwrap()), &token);
        assert_eq!(send(second).await.is("200").column("title"), "P002");
    }
    let last = wiki.get("/pages?limit=5").await;
    assert_eq!((last.next(), last.header("link")), (None, format!("<{base}>; rel=\"base\"").as_str()));
    wiki.sim.switch(|switches| switches.old_next_links = true);
    let old = wiki.get("/pages?limit=1").await.body["_links"]["next"].as_str().unwrap().to_owned();
    assert!(old.starts_with("/api/v2/pages?cursor="), "{old}");
    wiki.get(&old).await.is("404 NOT_FOUND");
}

#[tokio::test]
async fn an_invalid_cursor_or_one_of_another_order_gets_400_with_advice() {
    let wiki = many(3).await;
    let first = wiki.get("/pages?limit=1&sort=title").await;
    let link = format!("/wiki/api/v2/pages?{}", first.next().unwrap());
    for cursor in ["garbage", "%%%", "bm90IGpzb24=", &link] {
        let answer = send(wiki.request("GET /pages").query(&[("cursor", cursor)])).await;
        assert!(answer.is("400 INVALID_REQUEST_PARAMETER").title().contains("'cursor'"));
        assert!(answer.body["errors"][0]["detail"].as_str().unwrap().contains("Start paging again"));
    }
    let other = first.next().unwrap().replace("sort=title", "sort=-title");
    wiki.get(&format!("/pages?{other}")).await.is("400 INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn writes_between_two_pages_neither_repeat_nor_skip_the_others() {
    let wiki = many(6).await;
    let first = wiki.get("/pages?limit=3&sort=title").await;
    assert_eq!(first.column("title"), "Other Home,P000,P001");
    let gone = first.body["results"][1]["id"].as_str().unwrap();
    wiki.run(&format!("DELETE /pages/{gone} -> 204")).await;
    wiki.page("P000a");
    let second = wiki.get(&format!("/pages?{}", first.next().unwrap())).await;
    assert_eq!(second.column("title"), "P002,P003,P004");
}

transcripts! {
    pages_are_listed_by_id_or_as_asked: r#"
        b = create b -> 200
        create c -> 200
        create a -> 200
        update $b 2 {"title": "b"} -> 200
        GET /pages -> 200 {"*.title": "Test Home,Other Home,b,c,a"}
        GET /pages?sort=id -> 200 {"*.title": "Test Home,Other Home,b,c,a"}
        GET /pages?sort=-id -> 200 {"*.title": "a,c,b,Other Home,Test Home"}
        GET /pages?sort=title -> 200 {"*.title": "Other Home,Test Home,a,b,c"}
        GET /pages?sort=-title -> 200 {"*.title": "c,b,a,Test Home,Other Home"}
        GET /pages?sort=created-date -> 200 {"*.title": "Test Home,Other Home,b,c,a"}
        GET /pages?sort=-created-date -> 200 {"*.title": "a,c,b,Other Home,Test Home"}
        GET /pages?sort=modified-date -> 200 {"*.title": "Test Home,Other Home,c,a,b"}
        GET /pages?sort=-modified-date -> 200 {"*.title": "b,a,c,Other Home,Test Home"}
        GET /pages?sort=position -> 400 INVALID_REQUEST_PARAMETER"#

    pages_are_filtered_by_status_id_space_exact_title_and_depth: r#"
        old = create arc -> 200
        archive $old
        gone = create tra -> 200
        DELETE /pages/$gone -> 204
        create dra {"status": "draft"} -> 200
        a = create Alpha -> 200
        b = create Alphabet -> 200
        POST /pages?root-level=true {"spaceId": "$space", "title": "Beside"} -> 200
        GET /pages -> 200 {"*.title": "Test Home,Other Home,arc,Alpha,Alphabet,Beside"}
        GET /pages?status=trashed -> 200 {"*.title": "tra"}
        GET /pages?status=archived,trashed -> 200 {"*.title": "arc,tra"}
        GET /pages?status=archived&status=trashed -> 200 {"*.title": "arc,tra"}
        GET /pages?status=deleted -> 200 {"*.title": ""}
        GET /pages?id=$a,$b,99 -> 200 {"*.title": "Alpha,Alphabet"}
        GET /pages?space-id=$other -> 200 {"*.title": "Other Home"}
        GET /pages?title=Alpha -> 200 {"*.title": "Alpha"}
        GET /pages?title=alpha -> 200 {"*.title": ""}
        GET /pages?subtype=live -> 200 {"*.title": ""}
        GET /spaces/$space/pages -> 200 {"*.title": "Test Home,arc,Alpha,Alphabet,Beside"}
        GET /spaces/$space/pages?depth=all -> 200 {"*.title": "Test Home,arc,Alpha,Alphabet,Beside"}
        GET /spaces/$space/pages?depth=root -> 200 {"*.title": "Test Home,Beside"}
        GET /spaces/$space/pages?depth=2 -> 400 INVALID_REQUEST_PARAMETER
        GET /pages?status=draft -> 400 INVALID_REQUEST_PARAMETER
        GET /pages?id=x -> 400 INVALID_REQUEST_PARAMETER
        GET /spaces/99/pages -> 404 NOT_FOUND"#

    entries_of_a_list_have_bodies_in_two_formats_only_and_no_included_lists: r#"
        page = create A {"body": {"storage": {"value": "<p>A</p>"}}} -> 200
        GET /pages?id=$page&include-labels=true -> 200 {"results.0.body": {}, "results.0.labels": null, "results.0._links.base": null}
        GET /pages?id=$page -> 200 {"results.0.version.number": 1, "results.0._links.webui": "/spaces/TEST/pages/$page/A"}
        GET /pages?id=$page&body-format=storage -> 200 {"results.0.body.storage.value": "<p>A</p>"}
        GET /pages?id=$page&body-format=wiki_doc_format -> 200 {"results.0.body.wiki_doc_format.representation": "wiki_doc_format"}
        GET /pages?body-format=view -> 400 INVALID_REQUEST_PARAMETER"#

    custom_content_of_a_page_or_a_space_can_be_read_by_its_id: r#"
        page = create A -> 200
        inside = content $page
        loose = content $space
        GET /custom-content/$inside -> 200 {"type": "ac:app:thing", "pageId": "$page"}
        GET /custom-content/$loose -> 200 {"spaceId": "$space", "pageId": null}"#
}

#[tokio::test]
async fn a_list_takes_at_most_250_ids_and_100_spaces_and_cursors_survive_titles_of_any_script() {
    let wiki = wiki().await;
    for (name, most) in [("id", 250), ("space-id", 100)] {
        wiki.get(&format!("/pages?{name}={}", vec!["1"; most].join(","))).await.is("200");
        let more = wiki.get(&format!("/pages?{name}={}", vec!["1"; most + 1].join(","))).await;
        more.is("400 INVALID_REQUEST_PARAMETER");
    }
    for title in ["ä & ö", "日本", "a/b?c=d", "\"quoted\"", "z>>>???"] {
        wiki.page(title);
    }
    assert_eq!(follow(&wiki, "limit=1&sort=title").await.1, 7);
}

#[tokio::test]
async fn spaces_are_listed_filtered_and_read() {
    let wiki = wiki().await;
    let (a, b, c) = wiki.seed(|state| {
        let a = state.add_space(SpaceSeed::new("ZED", "Alpha"))?;
        let b = state.add_space(SpaceSeed::new("MID", "Charlie").kind("personal"))?;
        let c = state.add_space(SpaceSeed::new("ABC", "Bravo"))?;
        state.add_label(b, "team-x")?;
        state.favourite(c, "557058:demo")?;
        Ok((a, b, c))
    });
    for (name, id) in [("a", a), ("b", b), ("c", c), ("top", a + 1)] {
        wiki.name(name, id);
    }
    let calls = r#"archive $c
        GET /spaces -> 200 {"*.key": "TEST,OTHER,ZED,MID,ABC"}
        GET /spaces?sort=-id -> 200 {"*.key": "ABC,MID,ZED,OTHER,TEST"}
        GET /spaces?sort=key -> 200 {"*.key": "ABC,MID,OTHER,TEST,ZED"}
        GET /spaces?sort=name -> 200 {"*.key": "ZED,ABC,MID,OTHER,TEST"}
        GET /spaces?sort=-name&limit=2 -> 200 {"*.key": "TEST,OTHER"}
        GET /spaces?keys=ABC,ZED -> 200 {"*.key": "ZED,ABC"}
        GET /spaces?type=personal -> 200 {"*.key": "MID"}
        GET /spaces?status=archived -> 200 {"*.key": "ABC"}
        GET /spaces?labels=team-x -> 200 {"*.key": "MID"}
        GET /spaces?favorited-by=557058:demo -> 200 {"*.key": "ABC"}
        GET /spaces?not-favorited-by=557058:demo -> 200 {"*.key": "TEST,OTHER,ZED,MID"}
        GET /spaces?ids=$a,$c -> 200 {"*.key": "ZED,ABC"}
        GET /spaces?sort=type -> 400 INVALID_REQUEST_PARAMETER
        GET /spaces?type=planet -> 400 INVALID_REQUEST_PARAMETER
        GET /spaces?status=trashed -> 400 INVALID_REQUEST_PARAMETER
        GET /spaces?ids=ZED -> 400 INVALID_REQUEST_PARAMETER
        GET /spaces?description-format=raw -> 400 INVALID_REQUEST_PARAMETER
        GET /spaces/$a -> 200 {"key": "ZED", "name": "Alpha", "homepageId": "$top", "description": null, "icon": null}
        GET /spaces/ZED -> 400 INVALID_REQUEST_PARAMETER
        GET /spaces/99 -> 404 NOT_FOUND
        GET /spaces/$a?description-format=plain -> 200 {"description.plain.value": "The space Alpha"}
        GET /spaces/$a?include-icon=true -> 200 {"icon.path": "/images/logo/default-space-logo.svg"}
        GET /spaces/$a?include-permissions=true -> 200 {"permissions.results.0.principal.type": "user"}
        GET /spaces/$a?include-operations=true&include-properties=true -> 200 {"properties.results": []}
        GET /spaces/$b?include-labels=true -> 200 {"labels.results.0.name": "team-x", "labels.results.0.prefix": "team"}
        GET /spaces/$b/labels -> 200 {"*.name": "team-x"}
        GET /spaces/$b/permissions -> 200 {"results.0.operation": {"key": "administer", "targetType": "space"}}
        GET /spaces/$b/properties -> 200 {"results": []}"#;
    wiki.run(calls).await;
}
