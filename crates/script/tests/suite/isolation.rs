//! No run sees another, of the same module or of a different one, although all run in one context of one worker.

use std::time::Duration;

use pretty_assertions::assert_eq;
use script::Pool;

use crate::support::{json, pool, step};

/// Code that leaves something behind, and code that would find it in a later run.
const WAYS: &[(&str, &str)] = &[
    // Names.
    ("globalThis.left = 1", "globalThis.left"),
    ("Object.defineProperty(globalThis, 'left', { value: 1 })", "globalThis.left"),
    ("Reflect.set(globalThis, 'left', 1)", "globalThis.left"),
    ("Array = 1", "typeof Array"),
    ("globalThis.Math = 1", "typeof Math"),
    ("delete globalThis.Array", "typeof Array"),
    ("Object.setPrototypeOf(globalThis, { left: 1 })", "globalThis.left"),
    ("counter += 1; list.push(1); holder.left = 1", "[counter, list.length, holder.left]"),
    ("moduleFunction.left = 1", "moduleFunction.left"),
    ("Module.left = 1; Module.prototype.left = 1", "[Module.left, new Module().left]"),
    ("import.meta.left = 1", "import.meta.left"),
    ("module.exports.left = 1; exports.left = 1", "module.exports.left"),
    // Prototypes and constructors.
    ("Object.prototype.left = 1", "({}).left"),
    ("({}).__proto__.left = 1", "({}).left"),
    ("({}).constructor.prototype.left = 1", "({}).left"),
    (
        "JSON.parse('{\"__proto__\": {\"left\": 1}}').__proto__.left = 1; Object.assign({}, JSON.parse('{\"__proto__\": {\"left\": 1}}'))",
        "({}).left",
    ),
    ("Array.prototype.left = 1", "[].left"),
    ("Array.prototype.push = () => 'left'", "[].push(1)"),
    ("Array.prototype[Symbol.iterator] = function* () { yield 'left' }", "[...[1]]"),
    ("Array.prototype[3] = 'left'", "[][3]"),
    ("String.prototype.trim = () => 'left'", "' a '.trim()"),
    ("Number.prototype.toFixed = () => 'left'", "(1).toFixed(1)"),
    ("Boolean.prototype.left = 1", "true.left"),
    ("Symbol.prototype.left = 1", "Symbol().left"),
    ("BigInt.prototype.toJSON = () => 'left'", "JSON.stringify({ a: 1 })"),
    ("Uint8Array.prototype.toJSON = () => 'left'", "JSON.stringify(new Uint8Array(1))"),
    ("Function.prototype.call = () => 'left'", "(() => 1).call()"),
    ("Function.prototype.left = 1", "(() => 1).left"),
    ("(async () => {}).__proto__.left = 1", "(async () => {}).left"),
    (
        "(function* () {}).__proto__.prototype.next = () => 'left'",
        "(function* () { yield 1 })().next().value",
    ),
    ("(function* () {})().__proto__.__proto__.left = 1", "(function* () {})().left"),
    ("(async function* () {}).__proto__.prototype.left = 1", "(async function* () {})().left"),
    ("Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({ done: true })", "[...[1]]"),
    ("Object.getPrototypeOf(new Map().entries()).left = 1", "new Map().entries().left"),
    ("Object.getPrototypeOf(new Set().values()).left = 1", "new Set().values().left"),
    ("Object.getPrototypeOf(''[Symbol.iterator]()).left = 1", "''[Symbol.iterator]().left"),
    ("Object.getPrototypeOf('a'.matchAll(/a/g)).left = 1", "'a'.matchAll(/a/g).left"),
    ("Object.getPrototypeOf([].values().map((x) => x)).left = 1", "[].values().map((x) => x).left"),
    ("Object.getPrototypeOf(Iterator.from({ next() {} })).left = 1", "Iterator.from({ next() {} }).left"),
    ("Iterator.prototype.left = 1", "[].values().left"),
    ("Promise.prototype.then = () => 'left'", "typeof Promise.resolve(1).then(1)"),
    ("Promise.resolve = () => 'left'", "typeof Promise.resolve(1)"),
    ("Promise.left = 1", "Promise.left"),
    ("Map.prototype.get = () => 'left'", "new Map([[1, 2]]).get(1)"),
    ("WeakMap.prototype.left = 1", "new WeakMap().left"),
    ("Date.now = () => 0", "Date.now() > 0"),
    ("Date.prototype.toJSON = () => 'left'", "JSON.stringify(new Date(0))"),
    ("Math.random = () => 4", "Math.random() < 1"),
    ("JSON.parse = () => 'left'", "JSON.parse('1')"),
    ("JSON.stringify = () => 'left'", "JSON.stringify(1)"),
    ("Reflect.ownKeys = () => ['left']", "Reflect.ownKeys({})"),
    ("Object.keys = () => ['left']", "Object.keys({})"),
    ("Object.freeze = (x) => x", "Object.isFrozen(Object.freeze({}))"),
    ("Proxy.revocable = () => 'left'", "typeof Proxy.revocable({}, {})"),
    ("ArrayBuffer.prototype.left = 1", "new ArrayBuffer(1).left"),
    ("Object.getPrototypeOf(Uint8Array).from = () => 'left'", "Uint8Array.from([1]).length"),
    ("Object.getPrototypeOf(Uint8Array.prototype).left = 1", "new Uint8Array(1).left"),
    ("DataView.prototype.left = 1", "new DataView(new ArrayBuffer(1)).left"),
    // Regular expressions.
    ("/(le)ft/.exec('left')", "[RegExp.$1, RegExp.lastMatch, RegExp['$&'], RegExp.input]"),
    ("regex.exec('aa')", "[regex.lastIndex, regex.exec('aa').index]"),
    ("inner().exec('aa')", "inner().lastIndex"),
    ("RegExp.prototype.exec = () => null", "/a/.test('a')"),
    ("RegExp.prototype[Symbol.replace] = () => 'left'", "'a'.replace(/a/, 'b')"),
    ("RegExp.left = 1", "RegExp.left"),
    // Errors.
    (
        "Error.prepareStackTrace = () => 'left'",
        "typeof new Error('a').stack + (new Error('a').stack === 'left')",
    ),
    ("Error.stackTraceLimit = 0", "new Error('a').stack.length > 0"),
    ("Error.prototype.name = 'left'", "new Error('a').name"),
    ("Error.prototype.toString = () => 'left'", "String(new Error('a'))"),
    ("TypeError.prototype.message = 'left'", "new TypeError().message"),
    ("try { null.x } catch (error) { error.__proto__.left = 1 }", "new TypeError('a').left"),
    // Symbols.
    ("Symbol.for('left').description; Symbol.for('left').__proto__.left = 1", "Symbol.for('left').left"),
    ("Symbol.left = 1; Symbol.for.left = 1", "[Symbol.left, Symbol.for.left]"),
    ("Object.prototype[Symbol.toPrimitive] = () => 'left'", "`${{}}`"),
    (
        "Array[Symbol.species] = 1; Object.defineProperty(Array, Symbol.species, { value: 1 })",
        "[1].map((x) => x)",
    ),
    // Globals that the host adds.
    ("URL.prototype.left = 1; URL.left = 1", "[new URL('https://a.b').left, URL.left]"),
    ("URLSearchParams.prototype.get = () => 'left'", "new URLSearchParams('a=1').get('a')"),
    ("URL.canParse = () => 'left'", "URL.canParse('https://a.b')"),
    ("Buffer.from = () => 'left'", "Buffer.from('a').length"),
    ("Buffer.prototype.toString = () => 'left'", "Buffer.from('a').toString()"),
    ("TextEncoder.prototype.encode = () => 'left'", "new TextEncoder().encode('a').length"),
    ("TextDecoder.prototype.decode = () => 'left'", "new TextDecoder().decode(new Uint8Array([97]))"),
    ("crypto.randomUUID = () => 'left'", "crypto.randomUUID() === 'left'"),
    ("crypto.subtle.digest = () => 'left'", "typeof crypto.subtle.digest"),
    ("crypto.createHmac.left = 1", "crypto.createHmac.left"),
    ("atob.left = 1; structuredClone.left = 1", "[atob.left, structuredClone.left]"),
    ("context.logger.info = () => 'left'", "typeof context.logger.info('a')"),
    (
        "context.logger.left = 1; context.logger.info.left = 1",
        "[context.logger.left, context.logger.info.left]",
    ),
    ("Object.getPrototypeOf(context).left = 1", "context.left"),
    ("context.state.set('left', 1)", "context.state.get('known')"),
    ("context.configVars.left = 1", "context.configVars.left"),
    ("stepResults.left = 1", "stepResults.left"),
    ("Object.defineProperty(stepResults, 'phase', { get() { return 'look' } })", "stepResults.phase"),
    // Templates, classes, generators and closures that the engine caches by position.
    ("tag`a`.left = 1", "tag`a`.left"),
    ("tagged.set(same(), 1)", "tagged.get(same())"),
    ("class Inner { static left = 1 }; Inner.more = 1", "[typeof Inner]"),
    ("generator.next()", "generator.next().value"),
    ("late = Promise.resolve().then(() => { holder.left = 1 })", "holder.left"),
    ("new Promise(() => {}).finally(() => { holder.left = 1 })", "holder.left"),
    ("Promise.reject(new Error('left')).finally(() => {})", "typeof late"),
    ("moduleFunction.call.apply = 1", "typeof moduleFunction.call.apply"),
    ("arguments.callee.left = 1", "typeof arguments"),
    ("moduleFunction.caller.left = 1", "moduleFunction.left"),
];

fn code(leave: &str, look: &str) -> String {
    format!(
        "let counter = 0, late;
        const list = [], holder = {{}}, regex = /a/g, tagged = new WeakMap();
        function moduleFunction() {{}}
        class Module {{}}
        const inner = () => /a/g;
        const tag = (strings) => strings;
        const same = () => tag`same`;
        const generator = (function* () {{ yield 1; yield 2 }})();
        export default function (context, stepResults) {{
          if (stepResults.phase === 'look') return {{ data: JSON.stringify({look}) ?? 'undefined' }};
          try {{ {leave}; }} catch {{}}
          return {{ data: 'left' }};
        }}"
    )
}

async fn phase(pool: &Pool, code: &str, phase: &str) -> String {
    let mut run = step(code);
    run.argument = json(&format!("{{\"phase\": \"{phase}\"}}"));
    run.state = vec![("known".into(), Some(json("1")))];
    run.deadline = Duration::from_secs(20);
    run.on(pool).await.map_or_else(|error| format!("error: {error}"), |outcome| outcome.value.to_json())
}

#[tokio::test]
async fn no_run_sees_the_changes_of_another() {
    let pool = pool();
    for (leave, look) in WAYS {
        let code = code(leave, look);
        let before = phase(&pool, &code, "look").await;
        assert!(!before.starts_with("error: Syn"), "{leave}: {before}");
        assert_eq!(phase(&pool, &code, "leave").await, "\"left\"", "{leave}");
        assert_eq!(phase(&pool, &code, "look").await, before, "after `{leave}`");
    }
    assert_eq!(pool.idle_workers(), 1);
}

#[tokio::test]
async fn no_run_sees_the_changes_of_another_module() {
    let pool = pool();
    for (leave, look) in WAYS {
        // The same globals, in another text.
        let other = format!("{}// another automation", code(leave, look));
        let before = phase(&pool, &other, "look").await;
        assert_eq!(phase(&pool, &code(leave, look), "leave").await, "\"left\"", "{leave}");
        assert_eq!(phase(&pool, &other, "look").await, before, "after `{leave}`");
    }
    assert_eq!(pool.idle_workers(), 1);
}

#[tokio::test]
async fn pending_jobs_of_a_run_finish_before_it_ends() {
    let pool = pool();
    let code = "let turns = 0;
      export default (context, stepResults) => {
        const turn = (left) => { turns += 1; if (left > 0) Promise.resolve().then(() => turn(left - 1)) };
        turn(100);
        context.logger.info(turns);
        return { data: turns };
      }";
    for _ in 0..3 {
        assert_eq!(crate::support::result(&pool, code).await, "1");
    }
}

#[tokio::test]
async fn an_error_leaves_nothing_behind() {
    let pool = pool();
    let code = "let n = 0;
      export default (context, { phase }) => {
        n += 1;
        if (phase === 'throw') { Promise.resolve().then(() => { n += 1 }); throw new Error('no') }
        return { data: n };
      }";
    for _ in 0..3 {
        assert_eq!(phase(&pool, code, "throw").await, "error: no");
        assert_eq!(phase(&pool, code, "look").await, "1");
    }
    assert_eq!(pool.idle_workers(), 1);
}

#[tokio::test]
async fn memory_retained_by_runs_does_not_accumulate() {
    let pool = pool();
    let code = "const ring = []; ring.push(ring, new Array(100000).fill(1), new Uint8Array(1000000));
      export default () => ({ data: ring.length })";
    for _ in 0..300 {
        assert_eq!(crate::support::result(&pool, code).await, "3");
    }
}
