//! Globals that exist, and globals that do not.

use pretty_assertions::assert_eq;

use crate::support::{pool, result};

#[tokio::test]
async fn the_globals_are_the_language_and_the_documented_apis() {
    let code = "export default () => Reflect.ownKeys(globalThis).map(String).sort().join(' ')";
    let expected = "AggregateError Array ArrayBuffer BigInt BigInt64Array BigUint64Array Boolean Buffer DataView Date Error \
        EvalError Float16Array Float32Array Float64Array Infinity Int16Array Int32Array Int8Array Iterator JSON Map Math NaN \
        Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set String SuppressedError Symbol SyntaxError TextDecoder \
        TextEncoder TypeError URIError URL URLSearchParams Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap \
        WeakSet atob btoa crypto decodeURI decodeURIComponent encodeURI encodeURIComponent escape globalThis isFinite \
        isNaN parseFloat parseInt structuredClone undefined unescape";
    assert_eq!(result(&pool(), code).await, format!("\"{expected}\""));
}

/// Checks each expression against its result as JSON.
async fn check(cases: &[(&str, &str)]) {
    let pool = pool();
    for (expression, expected) in cases {
        let code =
            format!("export default async () => {{ const value = {expression}; return {{ data: value }} }}");
        assert_eq!(result(&pool, &code).await, *expected, "{expression}");
    }
}

#[tokio::test]
async fn code_cannot_be_created_from_text() {
    let refused = "\"TypeError: code cannot be made from text\"";
    let attempts = [
        "(() => {}).constructor('return 1')",
        "(async () => {}).constructor('return 1')",
        "(function* () {}).constructor('yield 1')",
        "(async function* () {}).constructor('yield 1')",
        "new (class { m() {} }.prototype.m.constructor)('return 1')",
        "Reflect.construct(Object.getPrototypeOf(() => {}).constructor, ['1'])",
        "[].map.constructor('return 1')()",
        "Object.getPrototypeOf(async () => {}).constructor('1')",
        "crypto.randomUUID.constructor('return 1')()",
    ];
    let cases: Vec<(String, &str)> = attempts
        .iter()
        .map(|attempt| (format!("(() => {{ try {{ return String({attempt}) }} catch (error) {{ return String(error) }} }})()"), refused))
        .collect();
    let cases: Vec<(&str, &str)> = cases.iter().map(|(code, expected)| (code.as_str(), *expected)).collect();
    check(&cases).await;
}

#[tokio::test]
async fn properties_set_on_own_objects_still_work() {
    check(&[
        ("(() => { class Mine extends Error { constructor(m) { super(m); this.name = 'Mine'; } } return String(new Mine('a')) })()", r#""Mine: a""#),
        ("(() => { const e = new Error('a'); e.message = 'b'; e.code = 1; return [e.message, e.code, e.name] })()", r#"["b",1,"Error"]"#),
        ("(() => { const o = {}; o.toString = () => 'x'; o.constructor = 1; o.valueOf = 2; return [`${o}`, Object.keys(o)] })()", r#"["x",["toString","constructor","valueOf"]]"#),
        ("(() => { function A() {} function B() {} B.prototype = Object.create(A.prototype); B.prototype.constructor = B; return new B().constructor === B })()", "true"),
        ("(() => { const counts = {}; for (const w of ['a', 'toString', 'a']) counts[w] = (Object.hasOwn(counts, w) ? counts[w] : 0) + 1; return counts })()", r#"{"a":2,"toString":1}"#),
        ("(() => { const a = [3, 1, 2]; a.sort(); a.push(9); a.length = 3; return a })()", "[1,2,3]"),
        ("(() => { const m = new Map(); m.extra = 1; return m.extra })()", "1"),
        ("(() => {}) instanceof (() => {}).constructor", "true"),
    ])
    .await;
}

#[tokio::test]
async fn urls_are_parsed_and_modified_as_in_browsers() {
    check(&[
        ("new URL('../x?b=1#h', 'https://me:pw@a.example:8443/p/q/').href", r#""https://me:pw@a.example:8443/p/x?b=1#h""#),
        ("(({ origin, protocol, username, password, host, hostname, port, pathname, search, hash }) => [origin, protocol, username, password, host, hostname, port, pathname, search, hash])(new URL('https://me:pw@a.example:8443/p?b=1#h'))", r##"["https://a.example:8443","https:","me","pw","a.example:8443","a.example","8443","/p","?b=1","#h"]"##),
        ("(() => { const u = new URL('https://a.b/c'); u.searchParams.append('q', 'ä &'); u.pathname = '/d e'; u.hash = 'x'; return String(u) })()", r#""https://a.b/d%20e?q=%C3%A4+%26#x""#),
        ("(() => { const u = new URL('https://a.b/?x=1&x=2'); u.search = '?y=3'; return [u.searchParams.get('x'), u.searchParams.get('y')] })()", r#"[null,"3"]"#),
        ("URL.canParse('nonsense')", "false"),
        ("URL.parse('nonsense')", "null"),
        ("(() => { try { new URL('nonsense') } catch (error) { return error.message } })()", r#""`nonsense` is no address""#),
        ("JSON.stringify({ u: new URL('https://EXAMPLE.com') })", r#""{\"u\":\"https://example.com/\"}""#),
        ("new URL('https://münchen.example/').hostname", r#""xn--mnchen-3ya.example""#),
        ("[...new URLSearchParams('?a=1&b=2&a=3')]", r#"[["a","1"],["b","2"],["a","3"]]"#),
        ("new URLSearchParams({ a: 1, b: 'x y' }).toString()", r#""a=1&b=x+y""#),
        ("(() => { const p = new URLSearchParams([['a', 1], ['b', 2], ['a', 3]]); p.set('a', 4); p.delete('b'); return [p.getAll('a'), p.has('b'), p.size, p.toString()] })()", r#"[["4"],false,1,"a=4"]"#),
        ("(() => { const p = new URLSearchParams('b=2&a=1'); p.sort(); const seen = []; p.forEach((value, key) => seen.push(key + value)); return seen })()", r#"["a1","b2"]"#),
    ])
    .await;
}

#[tokio::test]
async fn bytes_and_texts_convert_in_both_directions() {
    check(&[
        ("[...new TextEncoder().encode('aä🙂')]", "[97,195,164,240,159,153,130]"),
        ("new TextDecoder().decode(new Uint8Array([239, 187, 191, 97]))", r#""a""#),
        ("new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array([239, 187, 191, 97])).length", "2"),
        ("new TextDecoder('latin1').decode(new Uint8Array([228, 128]))", r#""ä€""#),
        ("new TextDecoder('utf-16le').decode(new Uint8Array([97, 0]))", r#""a""#),
        ("new TextDecoder().decode(new Uint8Array([97, 255]))", "\"a\u{fffd}\""),
        ("(() => { try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])) } catch (e) { return e.name } })()", r#""TypeError""#),
        ("(() => { try { new TextDecoder('klingon') } catch (e) { return e.message } })()", r#""`klingon` is no encoding that is known""#),
        ("new TextDecoder().decode(new Uint16Array([0x6161]).buffer)", r#""aa""#),
        ("[btoa('a\\xff'), atob('Yf8=').charCodeAt(1)]", r#"["Yf8=",255]"#),
        ("(() => { try { btoa('€') } catch (e) { return e.name } })()", r#""TypeError""#),
        ("(() => { try { atob('*') } catch (e) { return e.message } })()", r#""atob takes a text in base64""#),
        ("Buffer.from('aä').toString('base64')", r#""YcOk""#),
        ("Buffer.from('YcOk', 'base64').toString()", r#""aä""#),
        ("Buffer.from('_-8', 'base64').toString('hex')", r#""ffef""#),
        ("Buffer.from([255, 239]).toString('base64url')", r#""_-8""#),
        ("Buffer.from('ff00', 'hex').length", "2"),
        ("Buffer.from('ÿ', 'latin1').toString('hex')", r#""ff""#),
        ("Buffer.from(new Uint8Array([1, 2, 3]).subarray(1)).toString('hex')", r#""0203""#),
        ("Buffer.from(new Uint8Array([1, 2, 3]).buffer, 1, 1).toString('hex')", r#""02""#),
        ("Buffer.concat([Buffer.from('a'), new Uint8Array([98])]).toString()", r#""ab""#),
        ("Buffer.from('abc').toString('utf8', 1, 2)", r#""b""#),
        ("[Buffer.isBuffer(Buffer.alloc(1)), Buffer.byteLength('ä'), Buffer.from('a').equals(new Uint8Array([97]))]", "[true,2,true]"),
        ("(() => { try { Buffer.from('a', 'utf32') } catch (e) { return e.name } })()", r#""TypeError""#),
    ])
    .await;
}

#[tokio::test]
async fn digests_signatures_and_random_values_work() {
    check(&[
        ("Buffer.from(await crypto.subtle.digest('SHA-256', new TextEncoder().encode('abc'))).toString('hex').slice(0, 16)", r#""ba7816bf8f01cfea""#),
        ("Buffer.from(await crypto.subtle.digest({ name: 'SHA-1' }, Buffer.from('abc'))).toString('hex').slice(0, 16)", r#""a9993e364706816a""#),
        ("crypto.createHmac('sha256', 'key').update('The quick brown fox ').update(Buffer.from('jumps over the lazy dog')).digest('hex')", r#""f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8""#),
        ("crypto.createHmac('md5', Buffer.from('key')).update('The quick brown fox jumps over the lazy dog').digest('base64')", r#""gAcHE0Y+d0m5DC3CSRHidQ==""#),
        ("(() => { try { crypto.createHmac('sha0', 'k').digest() } catch (e) { return e.message } })()", r#""`sha0` is no digest that is known: take sha256, sha512, sha384, sha1 or md5""#),
        ("[crypto.timingSafeEqual('abc', Buffer.from('abc')), crypto.timingSafeEqual('abc', 'abd'), crypto.timingSafeEqual('abc', 'abcd')]", "[true,false,false]"),
        ("(() => { try { crypto.timingSafeEqual('a', 1) } catch (e) { return e.message } })()", r#""timingSafeEqual takes a text or bytes""#),
        ("/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())", "true"),
        ("crypto.getRandomValues(new Uint8Array(32)).some((byte) => byte > 0)", "true"),
        ("crypto.getRandomValues(new Uint32Array(4)).length", "4"),
        ("(() => { try { crypto.getRandomValues(new Uint8Array(65537)) } catch (e) { return e.name } })()", r#""RangeError""#),
    ])
    .await;
}

#[tokio::test]
async fn structured_clone_is_deep_and_independent() {
    check(&[
        ("(() => { const a = { d: new Date(0), m: new Map([[1, { x: 1 }]]), s: new Set([1]), b: new Uint8Array([1]), r: /a/g, e: new RangeError('x') }; a.self = a; const c = structuredClone(a); return [c !== a, c.self === c, c.d.getTime(), c.m.get(1).x, c.s.has(1), c.b[0], String(c.r), c.e.message, c.e.name] })()", r#"[true,true,0,1,true,1,"/a/g","x","RangeError"]"#),
        ("(() => { try { structuredClone({ f() {} }) } catch (e) { return e.message } })()", r#""a function cannot be cloned""#),
    ])
    .await;
}

#[tokio::test]
async fn time_is_utc() {
    check(&[(
        "[new Date(0).getTimezoneOffset(), new Date(0).getHours(), new Date(2026, 6, 1).toISOString()]",
        r#"[0,0,"2026-07-01T00:00:00.000Z"]"#,
    )])
    .await;
}
