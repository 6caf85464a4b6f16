//! Authentication and permissions.

use reqwest::Method;
use serde_json::json;
use tests::wiki::{
    DEMO_EMAIL, DEMO_SCOPED_TOKEN, DEMO_TOKEN, PageSeed, Permissions, Simulator, SpaceSeed, Switches,
};

use crate::client::{send, user, wiki, wiki_with};

#[tokio::test]
async fn without_credentials_the_site_answers_401_in_the_v2_shape() {
    let wiki = wiki().await;
    send(wiki.open(Method::GET, "/wiki/api/v2/pages")).await.is_error(401, "UNAUTHORIZED");
    let malformed = wiki.open(Method::GET, "/wiki/api/v2/pages").header("authorization", "Basic ???");
    send(malformed).await.is_error(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn an_unknown_pair_is_401() {
    let wiki = wiki().await;
    let request = wiki.open(Method::GET, "/wiki/api/v2/pages").basic_auth(DEMO_EMAIL, Some("wrong"));
    send(request).await.is_error(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_password_is_refused_by_the_hosted_wiki_in_plain_text() {
    let wiki = wiki_with(Simulator::builder().user(user("ann").password("pass"))).await;
    let request = wiki.open(Method::GET, "/wiki/api/v2/pages").basic_auth("ann@example.com", Some("pass"));
    let answer = send(request).await;
    answer.is(401);
    assert!(answer.header("content-type").starts_with("text/plain"));
    assert!(answer.text.contains("deprecated"));
}

#[tokio::test]
async fn a_self_hosted_wiki_takes_passwords_and_has_no_v2_api() {
    let switches = Switches { self_hosted: true, ..Switches::default() };
    let wiki = wiki_with(Simulator::builder().switches(switches).user(user("ann").password("pass"))).await;
    let page = wiki.page("A");
    let v2 = wiki.open(Method::GET, "/wiki/api/v2/pages").basic_auth("ann@example.com", Some("pass"));
    send(v2).await.is(404);
    let form = reqwest::multipart::Form::new()
        .part("file", reqwest::multipart::Part::bytes(b"x".to_vec()).file_name("a.txt"));
    let upload = wiki
        .open(Method::POST, &format!("/wiki/rest/api/content/{page}/child/attachment"))
        .basic_auth("ann@example.com", Some("pass"))
        .header("X-Wiki-Token", "no-check")
        .multipart(form);
    send(upload).await.is(200);
}

#[tokio::test]
async fn a_bearer_token_is_good_on_the_gateway_and_never_on_the_site() {
    let wiki = wiki().await;
    let token = wiki.token();
    send(wiki.gateway(Method::GET, "/pages", &token)).await.is(200);
    send(wiki.open(Method::GET, "/wiki/api/v2/pages").bearer_auth(&token))
        .await
        .is_error(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn only_scoped_api_tokens_are_good_on_the_gateway() {
    let wiki = wiki().await;
    let on_gateway = |token: &'static str| {
        wiki.http.get(format!("{}/pages", wiki.sim.gateway_api())).basic_auth(DEMO_EMAIL, Some(token))
    };
    send(on_gateway(DEMO_SCOPED_TOKEN)).await.is(200);
    send(on_gateway(DEMO_TOKEN)).await.is(401);
    let on_site =
        wiki.open(Method::GET, "/wiki/api/v2/pages").basic_auth(DEMO_EMAIL, Some(DEMO_SCOPED_TOKEN));
    send(on_site).await.is(401);
}

#[tokio::test]
async fn an_unknown_cloud_id_is_404_and_every_registered_one_is_served() {
    let wiki = wiki_with(Simulator::builder().site("second-cloud", "second")).await;
    let token = wiki.token();
    let of = |cloud: &str| {
        let url = format!("{}/ex/wiki/{cloud}/wiki/api/v2/pages", wiki.sim.gateway_url());
        wiki.http.get(url).bearer_auth(&token)
    };
    send(of("second-cloud")).await.is(200);
    assert_eq!(send(of("no-such-cloud")).await.is(404).body["code"], 404);
}

#[tokio::test]
async fn the_cloud_id_can_be_read_at_the_site_without_credentials() {
    let wiki = wiki().await;
    let answer = send(wiki.open(Method::GET, "/_edge/tenant_info")).await;
    assert_eq!(answer.is(200).body, json!({"cloudId": wiki.sim.cloud_id()}));
}

#[tokio::test]
async fn what_one_may_not_see_does_not_exist() {
    let wiki = wiki_with(Simulator::builder().user(user("ann").everywhere(Permissions::NONE))).await;
    let page = wiki.page("Hidden");
    let attachment = wiki.attachment(page, "a.txt");
    for path in [
        format!("/pages/{page}"),
        format!("/spaces/{}", wiki.space),
        format!("/spaces/{}/pages", wiki.space),
        format!("/pages/{page}/attachments"),
        format!("/pages/{page}/properties"),
        format!("/attachments/att{attachment}"),
    ] {
        send(wiki.as_user("ann", Method::GET, &path)).await.is_error(404, "NOT_FOUND");
    }
    for path in ["/pages", "/spaces", "/attachments"] {
        assert!(send(wiki.as_user("ann", Method::GET, path)).await.is(200).ids().is_empty());
    }
}

#[tokio::test]
async fn lists_leave_out_what_one_may_not_see() {
    let ann = user("ann").everywhere(Permissions::NONE).in_space("OPEN", Permissions::VIEW);
    let wiki = wiki_with(Simulator::builder().user(ann)).await;
    wiki.page("Hidden");
    let open = wiki.seed(|state| state.add_space(SpaceSeed::new("OPEN", "Open")));
    let seen = wiki.seed(|state| state.add_page(PageSeed::new(open, "Seen")));
    let pages = send(wiki.as_user("ann", Method::GET, "/pages")).await;
    assert_eq!(pages.ids(), [(open + 1).to_string(), seen.to_string()]);
    assert_eq!(send(wiki.as_user("ann", Method::GET, "/spaces")).await.ids(), [open.to_string()]);
}

#[tokio::test]
async fn a_write_without_its_permission_is_404_although_the_page_can_be_read() {
    let wiki = wiki_with(Simulator::builder().user(user("ann").everywhere(Permissions::VIEW))).await;
    let page = wiki.page("Look");
    let path = format!("/pages/{page}");
    send(wiki.as_user("ann", Method::GET, &path)).await.is(200);
    send(wiki.as_user("ann", Method::DELETE, &path)).await.is_error(404, "NOT_FOUND");
    let create = json!({"spaceId": wiki.space.to_string(), "title": "Mine"});
    send(wiki.as_user("ann", Method::POST, "/pages").json(&create)).await.is_error(404, "NOT_FOUND");
    let update = json!({
        "id": page.to_string(), "status": "current", "title": "x", "version": {"number": 2},
        "body": {"representation": "storage", "value": ""},
    });
    send(wiki.as_user("ann", Method::PUT, &path).json(&update)).await.is_error(404, "NOT_FOUND");
    let property = json!({"key": "k", "value": 1});
    let property = wiki.as_user("ann", Method::POST, &format!("{path}/properties")).json(&property);
    send(property).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn purging_without_administration_is_403() {
    let wiki = wiki_with(Simulator::builder().user(user("ann").everywhere(Permissions::WRITE))).await;
    let page = wiki.page("Old");
    let attachment = wiki.attachment(page, "a.txt");
    for path in [format!("/attachments/att{attachment}"), format!("/pages/{page}")] {
        send(wiki.as_user("ann", Method::DELETE, &path)).await.is(204);
        send(wiki.as_user("ann", Method::DELETE, &format!("{path}?purge=true")))
            .await
            .is_error(403, "FORBIDDEN");
    }
}

#[tokio::test]
async fn unknown_paths_are_404_and_wrong_methods_405_with_what_is_allowed() {
    let wiki = wiki().await;
    wiki.get("/webhook").await.is_error(404, "NOT_FOUND");
    send(wiki.site(Method::GET, "/wiki/wiki/api/v2/pages")).await.is_error(404, "NOT_FOUND");
    let answer = wiki.delete("/pages").await;
    assert_eq!(answer.is(405).header("allow"), "GET, POST");
    send(wiki.site(Method::GET, "/gateway/api/graphql")).await.is(405);
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_head_answers_like_get() {
    let wiki = wiki().await;
    let first = wiki.get("/pages").await.header("x-request-id").to_owned();
    let second = wiki.get("/pages/abc").await.header("x-request-id").to_owned();
    assert!(!first.is_empty() && !second.is_empty() && first != second);
    let head = send(wiki.v2(Method::HEAD, "/pages")).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    assert!(head.header("link").contains("rel=\"base\""));
}
