//! URLs with values in them: external data never changes the target of a request.

use pretty_assertions::assert_eq;

use crate::common::{Peer, Project, end, soon, start_with, stop};

fn project(url: &str) -> Project {
    Project::with(&format!(
        "trigger: {{manual: {{}}}}\ninputs: {{x: {{type: text}}}}\nsteps:\n  - {{id: ask, action: http.request, with: {{url: \"{url}\"}}}}\n"
    ))
}

#[tokio::test]
async fn a_value_in_a_url_stays_in_its_segment_or_parameter() {
    let mut peer = Peer::new().await;
    let project = project(&format!("{}/items/${{{{ inputs.x }}}}?q=${{{{ inputs.x }}}}&n=1", peer.base));
    let engine = project.start().await;
    for (value, target) in [
        ("17", "/items/17?q=17&n=1"),
        ("../admin?x=1#f", "/items/..%2Fadmin%3Fx=1%23f?q=..%2Fadmin%3Fx%3D1%23f&n=1"),
        ("%2e%2e", "/items/%252e%252e?q=%252e%252e&n=1"),
        ("a\\r\\nb", "/items/a%0D%0Ab?q=a%0D%0Ab&n=1"),
    ] {
        let id = start_with(&engine, &format!(r#"{{"x": "{value}"}}"#)).await;
        let asked = peer.next_request().await;
        assert_eq!(asked.line, format!("GET {target}"));
        asked.answer(200, "1").await;
        soon(engine.admission().wait(id)).await.expect("it ends");
    }
    let id = start_with(&engine, r#"{"x": ".."}"#).await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("a `.` or `..` of the path"), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_url_that_is_one_expression_is_used_unescaped() {
    let mut peer = Peer::new().await;
    let project = project("${{ inputs.x }}");
    let engine = project.start().await;
    let id = start_with(&engine, &format!(r#"{{"x": "{}/a/b?c=d"}}"#, peer.base)).await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "GET /a/b?c=d");
    asked.answer(200, "1").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}
