//! Errors in the author's terms: message, position, and advice.

use pretty_assertions::assert_eq;
use script::{Error, Failure};

use crate::support::{error, pool, step};

async fn failure(code: &str) -> Failure {
    match step(code).on(&pool()).await {
        Err(Error::Thrown(failure)) => *failure,
        other => panic!("{code} gave {other:?}"),
    }
}

fn frames(failure: &Failure) -> Vec<String> {
    let show = |frame: &script::Frame| format!("{} {}", frame.function.as_deref().unwrap_or("-"), frame.at);
    failure.frames.iter().map(show).collect()
}

#[tokio::test]
async fn positions_refer_to_the_authors_file() {
    // The code begins at line 10, column 7 of the file.
    let code = "function inner() {\n  throw new RangeError('too far');\n}\nexport default async () => {\n  await null;\n  inner();\n};";
    let failure = failure(code).await;
    assert_eq!(failure.message, "RangeError: too far");
    assert_eq!(failure.at.map(|at| at.to_string()), Some("11:19".to_owned()));
    assert_eq!(frames(&failure), ["inner 11:19", "- 15:9"]);
}

#[tokio::test]
async fn an_error_during_module_evaluation_has_a_position() {
    let failure = failure("const a = 1;\nnull.x;\nexport default () => 1").await;
    assert_eq!(failure.message, "TypeError: cannot read property 'x' of null");
    assert_eq!(failure.at.map(|at| at.line), Some(11));
}

#[tokio::test]
async fn an_error_in_a_callback_has_only_the_authors_frames() {
    let failure = failure("export default () => [1].map(function visit(n) { return n.x.y; })").await;
    assert_eq!(frames(&failure), ["visit 10:63", "- 10:36"]);
}

#[tokio::test]
async fn a_stack_overflow_has_a_position() {
    for code in [
        "const deep = () => deep() + 1;\nexport default () => deep()",
        "export default () => { const deep = () => [1].map(deep); deep(); }",
    ] {
        let failure = failure(code).await;
        assert_eq!(failure.message, "RangeError: Maximum call stack size exceeded");
        assert!(failure.at.is_some_and(|at| at.line == 10), "{failure:?}");
    }
}

#[tokio::test]
async fn a_syntax_error_has_a_position() {
    let failure = failure("export default () => {\n  return 1 +;\n}").await;
    assert_eq!(failure.at.map(|at| at.to_string()), Some("11:19".to_owned()));
}

#[tokio::test]
async fn every_thrown_value_becomes_a_message() {
    let pool = pool();
    for (thrown, message) in [
        ("new Error('plain')", "plain"),
        ("new Error('')", "Error"),
        ("new TypeError('typed')", "TypeError: typed"),
        ("'text'", "the code threw text"),
        ("{ code: 1 }", "the code threw {\"code\":1}"),
        ("undefined", "the code threw undefined"),
        ("{ message: 'like an error', name: 'Mine' }", "Mine: like an error"),
        ("new Proxy({}, { get() { throw 1 } })", "the code threw what cannot be described"),
        ("{ get message() { throw 1 } }", "the code threw what cannot be described"),
        ("new AggregateError([], 'all')", "AggregateError: all"),
    ] {
        assert_eq!(
            error(&pool, &format!("export default () => {{ throw {thrown} }}")).await,
            message,
            "{thrown}"
        );
        assert_eq!(
            error(&pool, &format!("export default async () => {{ throw {thrown} }}")).await,
            message,
            "{thrown}"
        );
    }
    let long = error(&pool, "export default () => { throw new Error('x'.repeat(1e6)) }").await;
    // The daemon truncates it to 4,096 characters after redaction, since a secret may span the limit.
    assert_eq!((long.chars().count(), long.ends_with("x…")), (8193, true));
}

#[tokio::test]
async fn missing_common_globals_name_their_alternative() {
    let pool = pool();
    for (code, hint) in [
        ("console.log(1)", "context.logger.info"),
        ("fetch('https://a.b')", "http.request"),
        ("require('fs')", "code has no modules"),
        ("process.env.HOME", "context.configVars"),
        ("setTimeout(() => 1, 1)", "`wait` step"),
        ("new Intl.NumberFormat()", "no `Intl`"),
        ("eval('1')", "code is not made from text"),
        ("new Function('1')", "code is not made from text"),
    ] {
        let message = error(&pool, &format!("export default () => {code}")).await;
        assert!(message.starts_with("ReferenceError: ") && message.contains(hint), "{code}: {message}");
    }
}

#[tokio::test]
async fn static_and_dynamic_imports_are_rejected() {
    let pool = pool();
    let refused = "`fs` cannot be imported: code has no other modules, write what it needs into it";
    assert_eq!(error(&pool, "export default () => import('fs')").await, format!("TypeError: {refused}"));
    assert_eq!(
        error(&pool, "import fs from 'fs';\nexport default () => 1").await,
        "code has no other modules to import: write what it needs into it"
    );
    assert!(error(&pool, "export default () => import('code')").await.contains("cannot be imported"));
}

#[tokio::test]
async fn a_promise_that_never_settles_is_an_error() {
    let message = error(&pool(), "export default () => new Promise(() => {})").await;
    assert_eq!(message, "the code never ends: it waits for a promise that nothing is left to settle");
}

#[tokio::test]
async fn a_circular_result_is_an_error_that_says_so() {
    let message = error(&pool(), "export default () => { const a = {}; a.a = a; return a }").await;
    assert!(message.contains("circular"), "{message}");
}
