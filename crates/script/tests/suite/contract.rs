//! The contract: what goes in, what comes out.

use pretty_assertions::assert_eq;
use script::Shape;

use crate::support::{json, pool, step};

#[tokio::test]
async fn a_default_export_is_called_with_context_and_results() {
    let code =
        "export default async (context, { list }) => ({ data: [context.executionId, list.results.length] })";
    let mut run = step(code);
    run.argument = json(r#"{"list": {"results": [1, 2, 3]}}"#);
    let outcome = run.on(&pool()).await.expect("it runs");
    assert_eq!((outcome.value, outcome.shape), (json(r#"["exec1", 3]"#), Shape::Data));
}
