//! The contract: the forms of an exported function, its arguments, and its result.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use script::{Kind, Level, LogLine, Shape, StateChange, StateWrite};

use crate::support::{error, json, pool, result, step};

#[tokio::test]
async fn a_default_export_is_called_with_context_and_results() {
    let code =
        "export default async (context, { list }) => ({ data: [context.executionId, list.results.length] })";
    let mut run = step(code);
    run.argument = json(r#"{"list": {"results": [1, 2, 3]}}"#);
    let outcome = run.on(&pool()).await.expect("it runs");
    assert_eq!((outcome.value, outcome.shape), (json(r#"["exec1", 3]"#), Shape::Data));
}

#[tokio::test]
async fn every_usual_export_form_runs() {
    let pool = pool();
    for code in [
        "export default () => 7",
        "export default async () => 7;",
        "export default function () { return 7 }\n(1, 2)",
        "export default function named() { return 7 }",
        "export default async function named() { return 7 }\nnamed.more = 1;",
        "const seven = 7\nexport default () => seven",
        "function run() { return 7 }\nconst a = 1\nexport { run as default, a };\n(() => 1)()",
        "export const unused = 1; export function helper() { return 7 } export default () => helper()",
        "export /* here */ default /* now */ () => 7",
        "#!/usr/bin/env node\nexport default () => 7",
        "module.exports = () => 7",
        "module.exports = async function (context, stepResults) { return 7 };",
        "const { base } = await Promise.resolve({ base: 6 });\nexport default () => base + 1",
        "for await (const n of [7]) globalThis.n;\nmodule.exports = () => 7",
        "const module = 1, exports = 2, _0 = 3;\nexport default () => module + exports + _0 + 1",
        "export default () => ({ then(resolve) { resolve(7) } })",
        "export default (() => { let n = 0; return () => { n += 7; return n } })()",
        "// a comment at the end\nexport default () => 7 // without a line behind it",
        "export\ndefault\n() => 7",
        "export\n  default function () { return 7 }",
        "export // one\n/* two */ default // three\nasync function named() { return 7 }",
        "const seven = 7\nexport\n{ run as\ndefault }\nfunction run() { return seven }",
    ] {
        assert_eq!(result(&pool, code).await, "7", "{code}");
    }
}

#[tokio::test]
async fn a_missing_function_error_explains_how_to_write_one() {
    let pool = pool();
    let wanted = "TypeError: the code exports no function: begin it with `export default async (context, stepResults) => {`";
    for code in [
        "const a = 1;",
        "export const a = 1;",
        "export default 7",
        "export default { run() {} }",
        "exports.run = 1",
    ] {
        assert_eq!(error(&pool, code).await, wanted, "{code}");
    }
}

#[tokio::test]
async fn the_data_of_a_step_is_unwrapped_and_a_response_kept_whole() {
    let pool = pool();
    for (returned, value, shape) in [
        ("{ data: [1] }", "[1]", Shape::Data),
        ("{ data: null, other: 1 }", "null", Shape::Data),
        ("{ statusCode: 201, data: 1 }", r#"{"statusCode":201,"data":1}"#, Shape::Response),
        ("{ statusCode: 'x', data: 1 }", "1", Shape::Data),
        ("{ statusCode: 404, body: 'no' }", r#"{"statusCode":404,"body":"no"}"#, Shape::Response),
        ("{ body: 'no' }", r#"{"body":"no"}"#, Shape::Response),
        ("{ body: 'no', data: 1 }", "1", Shape::Data),
        ("{ other: 1 }", r#"{"other":1}"#, Shape::Plain),
        ("'text'", r#""text""#, Shape::Plain),
        ("null", "null", Shape::Plain),
        ("undefined", "null", Shape::Nothing),
        ("() => 1", "null", Shape::Nothing),
    ] {
        let code = format!("export default () => ({returned})");
        let outcome = step(&code).on(&pool).await.expect("it runs");
        assert_eq!((outcome.value.to_json().as_str(), outcome.shape), (value, shape), "{returned}");
        assert_eq!(outcome.warning(Kind::Step).is_some(), matches!(shape, Shape::Plain | Shape::Nothing));
        assert_eq!(outcome.warning(Kind::Trigger), None);
    }
}

#[tokio::test]
async fn the_result_of_a_trigger_is_its_return_value() {
    let code = "export default (context, payload) => ({ payload: payload.body, response: { statusCode: 202 }, run: false, data: 1 })";
    let mut run = step(code);
    run.kind = Kind::Trigger;
    run.argument = json(r#"{"body": {"id": 1}}"#);
    let outcome = run.on(&pool()).await.expect("it runs");
    let expected =
        json(r#"{"payload": {"id": 1}, "response": {"statusCode": 202}, "run": false, "data": 1}"#);
    assert_eq!((outcome.value, outcome.shape), (expected, Shape::Plain));
}

#[tokio::test]
async fn the_context_identifies_the_run_and_is_frozen() {
    let code = "export default (context) => {
      const tries = [
        () => { context.executionId = 1 }, () => { context.added = 1 }, () => { context.configVars.host = 1 },
        () => { context.configVars.deep.list.push(1) }, () => { context.logger.info = 1 }, () => { context.state.get = 1 },
      ];
      const refused = tries.filter((attempt) => { try { attempt() } catch (error) { return error instanceof TypeError } });
      const { executionId, stepId, startedAt, configVars } = context;
      return { data: [refused.length, Object.keys(context), executionId, stepId, startedAt, configVars] };
    }";
    let mut run = step(code);
    run.config_vars = json(r#"{"host": "a", "deep": {"list": [1]}}"#);
    let outcome = run.on(&pool()).await.expect("it runs");
    let keys = r#"["logger","configVars","executionId","stepId","startedAt","state"]"#;
    let vars = r#"{"host":"a","deep":{"list":[1]}}"#;
    assert_eq!(
        outcome.value.to_json(),
        format!(r#"[6,{keys},"exec1","shape","2026-11-21T15:00:00Z",{vars}]"#)
    );
}

fn line(level: Level, message: &str) -> LogLine {
    LogLine { level, message: message.to_owned() }
}

#[tokio::test]
async fn log_lines_are_recorded_in_order() {
    let code = "export default ({ logger }) => {
      logger.debug('a', 1, true, null, undefined, 2n);
      logger.info({ deep: [1, { a: 'b' }] }, [new Uint8Array(3)]);
      logger.warn(new TypeError('odd'), Symbol('s'), new Uint8Array(3));
      const ring = {}; ring.ring = ring;
      logger.error(ring, 'half \\ud83d');
    }";
    let outcome = step(code).on(&pool()).await.expect("it runs");
    let expected = [
        line(Level::Debug, "a 1 true null undefined 2n"),
        line(Level::Info, r#"{"deep":[1,{"a":"b"}]} [{"0":0,"1":0,"2":0}]"#),
        line(Level::Warn, "TypeError: odd Symbol(s) Uint8Array(3)"),
        line(Level::Error, "[object Object] half \u{fffd}"),
    ];
    assert_eq!(outcome.logs, expected);
}

#[tokio::test]
async fn log_lines_are_bounded_in_length_and_number() {
    let pool = pool();
    let long = step("export default ({ logger }) => logger.info('ä'.repeat(9000))")
        .on(&pool)
        .await
        .expect("it runs");
    let message = &long.logs[0].message;
    // 4,096 characters, and 4,096 bytes for the end of a secret that may span the limit.
    assert_eq!((message.chars().count(), message.ends_with("ä…")), (4096 + 2048 + 1, true));
    let many = "export default ({ logger }) => { for (let n = 0; n < 1500; n++) logger.info(n) }";
    let many = step(many).on(&pool).await.expect("it runs");
    assert_eq!(many.logs.len(), 1001);
    assert_eq!(many.logs[1000].message, "500 more lines were left out: a run may log 1,000 lines and 64 KiB");
    let wide =
        "export default ({ logger }) => { for (let n = 0; n < 100; n++) logger.info('x'.repeat(4000)) }";
    let wide = step(wide).on(&pool).await.expect("it runs");
    assert!(wide.logs.iter().map(|line| line.message.len()).sum::<usize>() < 65 * 1024);
    let cut =
        "export default ({ logger }) => { for (let n = 0; n < 100; n++) logger.info('x'.repeat(9000)) }";
    let cut = step(cut).on(&pool).await.expect("it runs");
    assert_eq!(cut.logs.len(), 17, "16 lines of 4 KiB and one that says how many were left out");
}

#[tokio::test]
async fn log_lines_before_an_error_are_kept() {
    let code = "export default ({ logger }) => { logger.info('before'); throw new Error('no') }";
    let error = step(code).on(&pool()).await.expect_err("it throws");
    assert_eq!(error.logs(), [line(Level::Info, "before")]);
}

#[tokio::test]
async fn log_lines_before_a_kill_are_kept() {
    // The engine does not poll the interrupt handler while it searches a very long text.
    let code = "export default ({ logger }) => {
      logger.info('before');
      const long = 'a'.repeat(1 << 22);
      long.indexOf('a'.repeat(1 << 21) + 'b');
    }";
    let mut run = step(code);
    run.deadline = std::time::Duration::from_millis(500);
    let error = run.on(&pool()).await.expect_err("it is killed");
    assert!(matches!(error, script::Error::Overrun { .. }), "{error}");
    assert_eq!(error.logs(), [line(Level::Info, "before")]);
}

fn key(name: &str) -> Arc<str> {
    name.into()
}

#[tokio::test]
async fn the_state_is_read_and_written_by_key() {
    let code = "export default ({ state }) => {
      const seen = [state.get('count'), state.get('none') ?? 'absent'];
      state.set('count', seen[0] + 1);
      state.set('list', [1]);
      state.get('list').push(2);
      state.set('gone', 1);
      state.delete('gone');
      return { data: [...seen, state.get('count'), state.get('list'), state.get('gone') ?? 'absent'] };
    }";
    let mut run = step(code);
    run.state = vec![(key("count"), Some(json("41"))), (key("none"), None), (key("gone"), Some(json("1")))];
    let outcome = run.on(&pool()).await.expect("it runs");
    assert_eq!(outcome.value.to_json(), r#"[41,"absent",42,[1],"absent"]"#);
    let write = |name: &str, change| StateWrite { key: key(name), change };
    let expected = [
        write("count", StateChange::Set(json("42"))),
        write("list", StateChange::Set(json("[1]"))),
        write("gone", StateChange::Delete),
    ];
    assert_eq!(outcome.state, expected);
}

#[tokio::test]
async fn an_undeclared_state_key_error_explains_how_to_declare_it() {
    let pool = pool();
    assert_eq!(
        error(&pool, "export default ({ state }) => state.get('a' + 'b')").await,
        "the state of `ab` is not at hand: write the key out, as in `context.state.get(\"ab\")`"
    );
    assert_eq!(
        error(&pool, "export default ({ state }) => state.set('a', undefined)").await,
        "TypeError: there is nothing to set `a` to: to take it away, call `state.delete`"
    );
    let many = "export default ({ state }) => { for (let n = 0; n < 2000; n++) state.set('k' + n, n) }";
    assert!(error(&pool, many).await.contains("1,000 keys"));
}

#[tokio::test]
async fn a_worker_serves_many_modules_and_many_runs() {
    let pool = pool();
    for round in 0..3 {
        for number in 0..40 {
            let code = format!("let n = 0; export default () => {{ n += 1; return {number} + n }}");
            assert_eq!(result(&pool, &code).await, (number + 1).to_string(), "round {round}");
        }
    }
    assert_eq!(pool.idle_workers(), 1);
}

#[tokio::test]
async fn concurrent_runs_share_the_workers() {
    let pool = script::Pool::new(crate::support::settings(2));
    let runs = (0..50).map(|number| {
        let pool = pool.clone();
        tokio::spawn(async move { result(&pool, &format!("export default () => {}", number % 5)).await })
    });
    let runs: Vec<_> = runs.collect();
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(run.await.expect("it runs"), (number % 5).to_string());
    }
    assert!(pool.idle_workers() <= 2);
}

#[test]
fn a_pool_works_on_successive_runtimes() {
    let pool = pool();
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        assert_eq!(runtime.block_on(result(&pool, "export default () => 1")), "1");
    }
    let module = script::Module::new("export default () => 1", script::Origin::start_of("x.js"));
    assert!(pool.check_blocking(&module).expect("it is looked at").is_ok());
    assert_eq!(pool.idle_workers(), 1);
}

#[tokio::test]
async fn a_blocking_check_may_be_called_within_a_runtime() {
    let module = script::Module::new("export default () => 1", script::Origin::start_of("x.js"));
    let pool = pool();
    pool.warm().expect("a worker starts");
    assert!(pool.check_blocking(&module).expect("it is looked at").is_ok());
}

#[tokio::test]
async fn a_run_is_limited_to_a_thousand_state_keys() {
    let write = |count: usize| {
        format!(
            "export default ({{ state }}) => {{ for (let n = 0; n < {count}; n++) state.set('k' + n, n) }}"
        )
    };
    let outcome = step(&write(1000)).on(&pool()).await.expect("there is room");
    assert_eq!(outcome.state.len(), 1000);
    assert!(error(&pool(), &write(1001)).await.contains("1,000 keys"));
}
