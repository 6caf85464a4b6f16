//! Values in both directions: bytes, numbers, texts.

use bytes::Bytes;
use pretty_assertions::assert_eq;
use value::{File, Map, Value};

use crate::support::{error, json, pool, result, step};

fn file(content_type: &str, filename: Option<&str>, data: &[u8]) -> Value {
    let data = Bytes::copy_from_slice(data);
    File { content_type: content_type.into(), filename: filename.map(Into::into), data: data.into() }.into()
}

fn every_byte() -> Vec<u8> {
    (0..=255_u8).cycle().take(70_000).collect()
}

async fn with_file(code: &str, data: &[u8]) -> Value {
    let raw = file("image/png", Some("a.png"), data);
    let mut run = step(code);
    let results: Map = [("rawBody", raw)].into_iter().collect();
    let trigger: Map = [("results", Value::from(results))].into_iter().collect();
    run.argument = [("trigger", Value::from(trigger))].into_iter().collect::<Map>().into();
    run.on(&pool()).await.expect("it runs").value
}

#[tokio::test]
async fn a_file_arrives_as_an_object_with_its_bytes() {
    let code = "export default (context, { trigger }) => {
      const { contentType, filename, size, data } = trigger.results.rawBody;
      return { data: [contentType, filename, size, data instanceof Uint8Array, data.toString(), `${data}`, data[0]] };
    }";
    let seen = with_file(code, "grüß".as_bytes()).await;
    assert_eq!(seen.to_json(), r#"["image/png","a.png",6,true,"grüß","grüß",103]"#);
}

#[tokio::test]
async fn bytes_round_trip() {
    let bytes = every_byte();
    for (returned, expected) in [
        ("trigger.results.rawBody", file("image/png", Some("a.png"), &bytes)),
        ("{ data: trigger.results.rawBody.data }", file("application/octet-stream", None, &bytes)),
        ("new Uint8Array(trigger.results.rawBody.data)", file("application/octet-stream", None, &bytes)),
        ("{ data: trigger.results.rawBody.data.buffer }", file("application/octet-stream", None, &bytes)),
        ("{ contentType: 'text/csv', data: trigger.results.rawBody.data }", file("text/csv", None, &bytes)),
        (
            "{ contentType: 'text/csv', filename: 'b', size: 1, data: trigger.results.rawBody.data.subarray(1) }",
            file("text/csv", Some("b"), &bytes[1..]),
        ),
    ] {
        let code = format!("export default (context, {{ trigger }}) => ({returned})");
        assert_eq!(with_file(&code, &bytes).await, expected, "{returned}");
    }
}

#[tokio::test]
async fn files_may_be_nested_in_a_result() {
    let code = "export default () => ({ data: { list: [new Uint8Array([1]), { a: Buffer.from('b') }], empty: new Uint8Array() } })";
    let value = step(code).on(&pool()).await.expect("it runs").value;
    let octets = |data: &[u8]| file("application/octet-stream", None, data);
    assert_eq!(value.path("list").and_then(|list| list.at(0).cloned()), Some(octets(&[1])));
    assert_eq!(value.path("list").and_then(|list| list.at(1)?.get("a")), Some(octets(b"b")));
    assert_eq!(value.path("empty"), Some(octets(&[])));
}

#[tokio::test]
async fn files_in_state_and_config_vars_are_passed() {
    let code = "export default ({ state, configVars }) => {
      state.set('kept', { deep: state.get('file').data });
      return { data: [state.get('file').data[0], configVars.file.data[1], state.get('kept').deep.length] };
    }";
    let mut run = step(code);
    run.state = vec![("file".into(), Some(file("a/b", None, &[1, 2])))];
    run.config_vars = [("file", file("a/b", None, &[3, 4]))].into_iter().collect::<Map>().into();
    let outcome = run.on(&pool()).await.expect("it runs");
    assert_eq!(outcome.value.to_json(), "[1,4,2]");
    let script::StateChange::Set(kept) = &outcome.state[0].change else { panic!("it is set") };
    assert_eq!(kept.get("deep"), Some(file("application/octet-stream", None, &[1, 2])));
}

#[tokio::test]
async fn json_is_never_mistaken_for_a_file() {
    let code = "export default (context, results) => ({ data: results })";
    let text = r#"{"contentType":"a/b","filename":null,"size":1,"data":"f0","$file":"x"}"#;
    let mut run = step(code);
    run.argument = json(text);
    assert_eq!(run.on(&pool()).await.expect("it runs").value, json(text));
}

#[tokio::test]
async fn numbers_round_trip_within_javascript_precision() {
    let mut run = step("export default (context, n) => ({ data: n })");
    run.argument = json("[0, -1, 9007199254740991, -9007199254740991, 1.5, 1e300, 5e-324]");
    assert_eq!(
        run.on(&pool()).await.expect("it runs").value,
        json("[0, -1, 9007199254740991, -9007199254740991, 1.5, 1e300, 5e-324]")
    );
    let pool = pool();
    for (given, expected) in [
        ("9007199254740993n", "9007199254740993"),
        ("-(2n ** 63n)", "-9223372036854775808"),
        ("2n ** 64n - 1n", "18446744073709551615"),
        ("-0", "0"),
        ("NaN", "null"),
        ("1e21", "1e+21"),
    ] {
        assert_eq!(result(&pool, &format!("export default () => ({{ data: {given} }})")).await, expected);
    }
    let large = error(&pool, "export default () => 2n ** 64n").await;
    assert_eq!(
        large,
        "RangeError: a BigInt in a result has to fit into 64 bits: make it a text with String(…)"
    );
}

#[tokio::test]
async fn texts_round_trip_and_lone_surrogates_are_replaced() {
    let pool = pool();
    let mut run = step("export default (context, text) => ({ data: [text, text.length] })");
    run.argument = Value::from("\0 \" \\ \\ud83d \u{2028} 🙂");
    let expected = run.argument.clone();
    let value = run.on(&pool).await.expect("it runs").value;
    assert_eq!(value.at(0), Some(&expected));
    let halves =
        result(&pool, "export default () => ['\\ud83d', '\\\\ud83d', 'a\\udc00b', '🙂', { '\\ud800': 1 }]")
            .await;
    assert_eq!(halves, "[\"\u{fffd}\",\"\\\\ud83d\",\"a\u{fffd}b\",\"🙂\",{\"\u{fffd}\":1}]");
}

#[tokio::test]
async fn special_keys_are_ordinary_keys() {
    let code = "export default (context, given) => ({ data: { ...given, own: Object.keys(given), plain: ({}).polluted ?? null } })";
    let mut run = step(code);
    run.argument = json(r#"{"__proto__": {"polluted": 1}, "constructor": 2, "toString": 3}"#);
    let value = run.on(&pool()).await.expect("it runs").value;
    assert_eq!(value.get("own"), Some(json(r#"["__proto__", "constructor", "toString"]"#)));
    assert_eq!(value.get("plain"), Some(Value::Null));
    assert_eq!(value.get("toString"), Some(json("3")));
}

#[tokio::test]
async fn dates_and_to_json_serialize_as_in_json() {
    let code = "export default () => ({ data: [new Date(0), { toJSON: () => 'own' }, [undefined, () => 1], new Map([[1, 2]]), new URL('https://a.b/c')] })";
    assert_eq!(
        result(&pool(), code).await,
        r#"["1970-01-01T00:00:00.000Z","own",[null,null],{},"https://a.b/c"]"#
    );
}

#[tokio::test]
async fn too_large_or_deep_values_are_rejected_with_an_explanation() {
    let pool = pool();
    let large = "is larger than the 8 MiB that code can take or give";
    assert_eq!(
        error(&pool, "export default () => 'x'.repeat(9e6)").await,
        format!("what the code returned {large}")
    );
    let bytes = error(&pool, "export default () => [new Uint8Array(5e6), new Uint8Array(5e6)]").await;
    assert_eq!(bytes, "RangeError: what the code returns holds more than 8 MiB of bytes");
    let deep = "export default () => { let a = []; for (let n = 0; n < 100; n++) a = [a]; return a }";
    assert_eq!(
        error(&pool, deep).await,
        "what the code returned nests deeper than 64 levels or has more than 1,000,000 items"
    );
    let mut run = step("export default () => 1");
    run.argument = Value::from("x".repeat(9_000_000));
    let given = run.on(&pool).await.expect_err("it is too large").to_string();
    assert_eq!(given, format!("what the code is given {large}"));
    assert_eq!(result(&pool, "export default () => 1").await, "1");
}

#[tokio::test]
async fn a_result_is_limited_to_a_thousand_files() {
    let pool = pool();
    let files = |count: usize| {
        format!("export default () => Array.from({{ length: {count} }}, () => new Uint8Array(1))")
    };
    let outcome = step(&files(1000)).on(&pool).await.expect("it has room");
    assert_eq!(outcome.value.as_list().map(<[Value]>::len), Some(1000));
    assert!(step(&files(1001)).on(&pool).await.is_err());
}

#[tokio::test]
async fn a_module_is_limited_to_a_mebibyte() {
    let pool = pool();
    let code = |bytes: usize| {
        let begin = "export default () => 1 //";
        format!("{begin}{}", "x".repeat(bytes - begin.len()))
    };
    assert_eq!(result(&pool, &code(script::MAX_SOURCE)).await, "1");
    let longer = step(&code(script::MAX_SOURCE + 1)).on(&pool).await;
    assert!(matches!(longer, Err(script::Error::TooLarge { limit: script::MAX_SOURCE, .. })), "{longer:?}");
}
