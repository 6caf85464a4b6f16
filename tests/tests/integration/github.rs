//! The connector `github`, which is only a manifest, against a double that is as strict as the public API.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tests::github::{GitHub, TOKEN};

use crate::site::Site;

/// Starts a site whose connection `hub` uses the double.
pub(crate) async fn site(github: &GitHub, automations: &[(&str, &str)]) -> Site {
    let mut site = unstarted(github, automations);
    site.start().await;
    site
}

pub(crate) fn unstarted(github: &GitHub, automations: &[(&str, &str)]) -> Site {
    let site = Site::new(automations);
    site.project.secret("hubToken", TOKEN).unwrap();
    let with = format!("token: \"${{{{ secrets.hubToken }}}}\", host: \"{}\"", github.url());
    site.project.connection("hub", &format!("type: github.token\nwith: {{{with}}}\n")).unwrap();
    site
}

/// Formats a step that calls an action on the repository `acme/shop`.
fn step(id: &str, action: &str, with: &str) -> String {
    format!(
        "  - {{id: {id}, action: github.{action}, connection: hub, with: {{owner: acme, repo: shop{with}}}}}\n"
    )
}

#[tokio::test]
async fn every_action_is_accepted_by_the_api() {
    let github = GitHub::start().await.unwrap();
    let steps = [
        step("issue", "createIssue", ", title: It is broken, labels: [bug]"),
        step("comment", "createComment", ", number: \"${{ steps.issue.results.number }}\", body: Thanks!"),
        step(
            "closed",
            "updateIssue",
            ", number: \"${{ steps.issue.results.number }}\", state: closed, stateReason: completed",
        ),
        step("again", "getIssue", ", number: \"${{ steps.issue.results.number }}\""),
        step("issues", "listIssues", ", state: all"),
        step("pull", "createPullRequest", ", title: Mend it, head: mend, base: main, draft: true"),
        step("shown", "getPullRequest", ", number: \"${{ steps.pull.results.number }}\""),
        step("pulls", "listPullRequests", ""),
        step("merged", "mergePullRequest", ", number: \"${{ steps.pull.results.number }}\", method: squash"),
        step("release", "createRelease", ", tagName: v1.0.0, name: \"1.0\""),
        step("releases", "listReleases", ""),
        step("put", "putContent", ", path: docs/a.md, message: say it, content: aGk="),
        step("got", "getContent", ", path: docs/a.md"),
        step("hook", "createWebhook", ", events: [push], url: \"https://hooks.example.com/x\", secret: hush"),
        step("hooks", "listWebhooks", ", perPage: 100"),
        step("unhook", "deleteWebhook", ", hookId: \"${{ steps.hook.results.id }}\""),
    ];
    let yaml = format!(
        "trigger: {{manual: {{}}}}\nsteps:\n{}outputs: {{issue: \"${{{{ steps.again.results.state }}}}\", path: \"${{{{ steps.got.results.path }}}}\"}}\n",
        steps.concat()
    );
    let site = site(&github, &[("all", &yaml)]).await;
    let execution = site.run("all").await;
    let ended = site.end_of(&execution).await;
    assert_eq!(
        ended["outcome"]["result"],
        json!({"issue": "closed", "path": "docs/a.md"}),
        "{ended}\n{:?}",
        github.requests()
    );
    assert_eq!(github.requests().len(), steps.len());
    assert_eq!(github.hooks(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_crash_during_a_subscription_request_leaves_one_known_subscription() {
    let github = GitHub::start().await.unwrap();
    github.lose_answers(true);
    let mut site = unstarted(&github, &[("push", PUSH)]);
    let public = ["--public-url", "https://hooks.example.test"];
    site.start_with(&public).await;
    github.answered(1).await;
    let made = github.hooks();
    assert_eq!(made.len(), 1);
    site.kill().await;
    github.lose_answers(false);
    site.start_with(&public).await;
    github.answered(2).await;
    assert_eq!(github.requests(), ["POST /repos/acme/shop/hooks 201", "GET /repos/acme/shop/hooks 200"]);
    assert_eq!(github.hooks(), made);
    // Its remote id is known, so it can be deleted.
    site.project.automation("push", &format!("enabled: false\n{PUSH}")).unwrap();
    github.answered(3).await;
    assert_eq!(github.hooks(), Vec::<Value>::new());
}

pub(crate) const PUSH: &str = "trigger: {event: github.push, connection: hub, with: {owner: acme, repo: shop}}\n\
    steps:\n  - set: {ref: \"${{ trigger.results.body.data.ref }}\"}\n";

#[tokio::test]
async fn an_event_is_subscribed_once_delivered_signed_and_unsubscribed() {
    let github = GitHub::start().await.unwrap();
    let mut site = site(&github, &[("push", PUSH)]).await;
    github.answered(1).await;
    let hooks = github.hooks();
    assert_eq!((hooks.len(), &hooks[0]["events"]), (1, &json!(["push"])));
    let payload = json!({"ref": "refs/heads/main"});
    assert_eq!(
        github.send_event("ping", "p", &json!({"zen": "Keep it simple."}), false).await.unwrap(),
        [200]
    );
    assert_eq!(github.send_event("push", "forged", &payload, true).await.unwrap(), [401]);
    for _ in 0..2 {
        // A repeated delivery is the same event.
        assert_eq!(github.send_event("push", "one", &payload, false).await.unwrap(), [200]);
    }
    let executions = site.executions_of("push").await;
    assert_eq!(executions.len(), 1, "{executions:?}");
    assert_eq!(executions[0]["origin"], json!({"kind": "event"}));
    let refused = json!({"ignored": 1, "invalid_signature": 1, "duplicate": 1});
    assert_eq!(site.automation("push").await["refused"], refused);
    // A daemon that restarts at another address replaces the subscription; a change of the steps sends no request.
    let asked = github.requests().len();
    site.kill().await;
    site.start().await;
    github.answered(asked + 2).await;
    assert_eq!(github.hooks().len(), 1);
    let asked = github.requests().len();
    let mut changes = site.events("/events").await;
    site.project.automation("push", &PUSH.replace("ref:", "branch:")).unwrap();
    changes.next("catalog").await;
    assert_eq!(github.send_event("push", "two", &payload, false).await.unwrap(), [200]);
    assert_eq!(github.requests().len(), asked, "{:?}", github.requests());
    // Disabling deletes the subscription.
    site.project.automation("push", &format!("enabled: false\n{PUSH}")).unwrap();
    github.answered(asked + 1).await;
    assert_eq!(github.hooks(), Vec::<Value>::new());
}
