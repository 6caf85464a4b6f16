//! Polled events of the wiki simulator: each new or changed item is delivered once, with as few requests as possible.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use wiki_simulator::{DEMO_PAGE_ID, DEMO_SPACE_ID, PageSeed, Running, Simulator, SpaceSeed};

use crate::site::{Site, send};

/// Formats an automation that returns the subject of an event.
fn subject_automation(event: &str, name: &str) -> String {
    format!(
        "trigger: {{event: wiki.{event}, connection: wiki, every: 1h, deliver: each}}\nsteps: []\n\
         outputs: \"${{{{ trigger.results.body.data.changeType }}}} ${{{{ trigger.results.body.data.record.{name} }}}}\"\n"
    )
}

impl Site {
    /// Polls now. Returns the numbers of read items, of new items, and of requests.
    async fn poll(&self, id: &str, wiki: &Running) -> (Value, Value, usize) {
        // A daemon that has just started answers before its polls are active.
        let mut looks = 0;
        while !self.polls_are_in_force().await {
            looks += 1;
            assert!(looks < 500, "no poll becomes active");
        }
        let before = wiki.requests().len();
        let answer = send(self.api(Method::POST, &format!("/polls/{id}/now"))).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let came = answer.json();
        assert_eq!(came.get("error"), None, "{came}");
        (came["items"].clone(), came["found"].clone(), wiki.requests().len() - before)
    }

    async fn polls_are_in_force(&self) -> bool {
        let answer = send(self.api(Method::GET, "/polls")).await;
        answer.json()["polls"].as_array().is_some_and(|polls| !polls.is_empty())
    }

    /// Returns the results of an automation's executions, oldest first.
    async fn results_of(&self, id: &str) -> Vec<String> {
        let mut told = Vec::new();
        for execution in self.executions_of(id).await.iter().rev() {
            let end = self.end_of(execution["id"].as_str().unwrap_or_default()).await;
            told.push(end["outcome"]["result"].as_str().unwrap_or_default().to_owned());
        }
        told
    }
}

#[tokio::test]
async fn new_pages_and_spaces_are_delivered_once_and_an_empty_poll_is_one_request() {
    let wiki = Simulator::builder().demo().start().await.unwrap();
    let (pages, spaces) =
        (subject_automation("pageChanged", "title"), subject_automation("spaceCreated", "key"));
    let change = format!(
        "trigger: {{manual: {{}}}}\nsteps:\n  - action: wiki.updatePage\n    connection: wiki\n    with: {{pageId: \"{DEMO_PAGE_ID}\", \
         status: current, title: Changed, body: {{value: <p>other</p>}}, version: {{number: 2}}}}\n"
    );
    let mut site = Site::new(&[("pages", &pages), ("spaces", &spaces), ("change", &change)]);
    site.connect_wiki(wiki.base_url());
    site.start().await;
    // The first poll, this one or the one at the start, marks the existing items as known.
    for id in ["pages", "spaces"] {
        site.poll(id, &wiki).await;
        let (_, found, requests) = site.poll(id, &wiki).await;
        assert_eq!((found, requests), (json!(0), 1), "{id}");
    }
    wiki.seed(|state| {
        state.add_page(PageSeed::new(DEMO_SPACE_ID, "Fresh")).unwrap();
        state.add_space(SpaceSeed::new("NEWS", "News")).unwrap();
    });
    let changed = site.run("change").await;
    assert_eq!(site.end_of(&changed).await["status"], json!("succeeded"));
    for id in ["pages", "spaces"] {
        site.poll(id, &wiki).await;
        site.poll(id, &wiki).await;
    }
    let mut told = site.results_of("pages").await;
    told.retain(|page| !page.ends_with("News") && !page.ends_with("Home"));
    told.sort();
    assert_eq!(told, ["created Fresh", "updated Changed"]);
    assert_eq!(site.results_of("spaces").await, ["created NEWS"]);
}
