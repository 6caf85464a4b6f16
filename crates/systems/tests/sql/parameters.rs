use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::Database;

const INJECTIONS: [&str; 9] = [
    "'; drop table t; --",
    "\" or 1=1",
    "\\' or '1'='1",
    "$$ or $1",
    "/* */ ; commit",
    "%27 or 1=1",
    "ʼ or 1=1",
    "a\nb\r\n\t",
    "{\"a\": [1, \"\\\"\"]}",
];

#[tokio::test]
async fn a_text_comes_back_as_it_was_given() {
    for database in Database::all() {
        database.execute("create table t (id integer, s text)").await;
        for (id, text) in INJECTIONS.into_iter().enumerate() {
            let sql = "insert into t (id, s) values (:id, :s)";
            database.call("execute", json!({"sql": sql, "params": {"id": id, "s": text}, "expect": 1})).await;
            let found = database
                .call("query", json!({"sql": "select id, s from t where s = :s", "params": {"s": text}}))
                .await;
            assert_eq!(found.get("count"), Some(1.into()), "{}: {text}", database.name);
            assert_eq!(found.path("row.s").expect("a text").as_str(), Some(text), "{}", database.name);
        }
        let count = format!(r#"[{{"n":{}}}]"#, INJECTIONS.len());
        assert_eq!(database.rows("select count(*) as n from t").await, count);
    }
}

#[tokio::test]
async fn a_list_in_parentheses_is_several_values() {
    for database in Database::all() {
        database.execute("create table t (n integer, s text)").await;
        database.execute("insert into t values (1, 'a'), (2, 'b'), (3, 'c')").await;
        let sql = "select n from t where s in (:s) and n not in (:n) order by n";
        let found =
            database.call("query", json!({"sql": sql, "params": {"s": ["a", "b", "'"], "n": [1]}})).await;
        assert_eq!(found.get("rows").expect("rows").to_json(), r#"[{"n":2}]"#, "{}", database.name);
        let one = database.call("query", json!({"sql": sql, "params": {"s": "c", "n": 1}})).await;
        assert_eq!(one.get("rows").expect("rows").to_json(), r#"[{"n":3}]"#, "{}", database.name);
        let empty = database.fails("query", json!({"sql": sql, "params": {"s": [], "n": 1}})).await;
        assert_eq!(empty.kind, ErrorKind::Input);
        let many: Vec<u32> = (0..1_001).collect();
        let many = database.fails("query", json!({"sql": sql, "params": {"s": "a", "n": many}})).await;
        assert_eq!(many.kind, ErrorKind::Limit);
    }
}

#[tokio::test]
async fn values_become_the_types_that_postgres_states() {
    let Some(database) = Database::postgres() else { return };
    for (cast, value, expected) in [
        ("int4", json!(-5), json!(-5)),
        ("int4", json!("17"), json!(17)),
        ("int8", json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_993_i64)),
        ("numeric", json!("0.10"), json!("0.10")),
        ("numeric", json!(18_446_744_073_709_551_615_u64), json!("18446744073709551615")),
        ("float8", json!(0.1), json!(0.1)),
        ("bool", json!(false), json!(false)),
        ("text", json!(17), json!("17")),
        ("text", json!(""), json!("")),
        ("text", json!(null), json!(null)),
        ("date", json!("2026-03-01"), json!("2026-03-01")),
        ("timestamptz", json!("2026-03-01T09:00:00+01:00"), json!("2026-03-01T08:00:00Z")),
        ("interval", json!("P1DT2H"), json!("P1DT2H")),
        (
            "uuid",
            json!("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
            json!("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ),
        ("jsonb", json!({"a": [1, null, "x"]}), json!({"a": [1, null, "x"]})),
        ("jsonb", json!([1, 2]), json!([1, 2])),
        ("int4[]", json!([1, null, 3]), json!([1, null, 3])),
        ("text[]", json!(["a,\"b\"\\", "", "NULL", "{}"]), json!(["a,\"b\"\\", "", "NULL", "{}"])),
        ("text[]", json!([["a", "b"], ["c", "d"]]), json!([["a", "b"], ["c", "d"]])),
        ("inet", json!("10.0.0.1"), json!("10.0.0.1/32")),
    ] {
        let sql = format!("select :v::{cast} as v");
        let found = database.call("query", json!({"sql": sql, "params": {"v": value}})).await;
        assert_eq!(
            found.get("row").expect("a row").to_json(),
            json!({"v": expected}).to_string(),
            "{cast} {value}"
        );
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_named_with_both_types() {
    let Some(database) = Database::postgres() else { return };
    for (cast, value, words) in [
        ("int4", json!("abc"), "`params.v` does not fit: invalid input syntax for type integer"),
        ("int4", json!(3_000_000_000_u32), "`params.v` does not fit: value \"3000000000\" is out of range"),
        ("int4", json!(1.5), "`params.v` is a number, which does not fit the type `int4` of the database"),
        ("int4", json!(true), "`params.v` is a boolean, which does not fit the type `int4`"),
        ("bool", json!(1), "`params.v` is a number, which does not fit the type `bool`"),
        ("date", json!("2026-02-30"), "`params.v` does not fit: date/time field value out of range"),
        ("date", json!({"a": 1}), "`params.v` is a map, which does not fit the type `date`"),
        ("text", json!([1]), "`params.v` is a list, which does not fit the type `text`"),
        ("text", json!("a\u{0}b"), "`params.v` has a character U+0000"),
        ("uuid", json!("x"), "`params.v` does not fit: invalid input syntax for type uuid"),
    ] {
        let sql = format!("select :v::{cast} as v");
        let error = database.fails("query", json!({"sql": sql, "params": {"v": value}})).await;
        assert_eq!(error.kind, ErrorKind::Input, "{cast} {value}: {}", error.message);
        assert!(error.message.contains(words), "{cast} {value}: {}", error.message);
    }
}

#[tokio::test]
async fn a_parameter_without_a_value_and_a_value_without_a_parameter_are_errors() {
    for database in Database::all() {
        let missing = database.fails("query", json!({"sql": "select :a as a"})).await;
        assert_eq!(missing.message, "the parameter `:a` has no value; add it to `params`");
        let unused = database.fails("query", json!({"sql": "select 1 as a", "params": {"b": 1}})).await;
        assert_eq!(unused.message, "`params.b` is not a parameter of the statement");
    }
}

#[tokio::test]
async fn a_zone_that_the_type_would_drop_is_an_error_that_names_the_ways_out() {
    let Some(database) = Database::postgres() else { return };
    database
        .execute("create table t (id integer, at timestamp, day date, clock time, list timestamp[])")
        .await;
    let zoned = "2026-03-01T10:00:00+02:00";
    for (cast, value, zone, way) in [
        ("timestamp", json!(zoned), "+02:00", "`timestamptz`"),
        ("date", json!(zoned), "+02:00", "`timestamptz`"),
        ("time", json!("10:00:00+02"), "+02", "`timetz`"),
        ("timestamp", json!("2026-03-01 10:00 Europe/Berlin"), "Europe/Berlin", "`timestamptz`"),
        ("timestamp[]", json!(["2026-03-01T10:00:00", zoned]), "+02:00", "`timestamptz`"),
        ("date[]", json!(format!("{{{zoned}}}")), "+02:00", "`timestamptz`"),
        ("tsrange", json!(format!("[{zoned},]")), "+02:00", "`timestamptz`"),
    ] {
        let sql = format!("select :v::{cast} as v");
        let error = database.fails("query", json!({"sql": sql, "params": {"v": value}})).await;
        assert_eq!(error.kind, ErrorKind::Input, "{cast} {value}: {}", error.message);
        let words = format!("`params.v` has the zone `{zone}`");
        assert!(error.message.contains(&words) && error.message.contains(way), "{cast}: {}", error.message);
    }
    for (field, value) in [("at", zoned), ("day", zoned), ("clock", "10:00-05")] {
        for rows in [
            json!([{"id": 1, field: null}, {"id": 2, field: value}]),
            json!(format!("id,{field}\n1,\n2,{value}\n")),
        ] {
            let error = database.fails("insert", json!({"table": "t", "rows": rows})).await;
            assert_eq!(error.kind, ErrorKind::Input, "{}", error.message);
            assert!(error.message.contains(&format!("`rows[1].{field}` has the zone")), "{}", error.message);
        }
    }
    assert_eq!(database.rows("select id from t").await, "[]");
    // The session is in UTC, and so is a time without a zone.
    let row = json!([{"id": 1, "at": "2026-03-01T08:00:00Z", "day": "2026-03-01T08:00:00+00:00", "clock": "08:00Z"}]);
    database.call("insert", json!({"table": "t", "rows": row})).await;
    assert_eq!(
        database.rows("select at, day, clock from t where at = '2026-03-01T08:00:00'").await,
        r#"[{"at":"2026-03-01T08:00:00","day":"2026-03-01","clock":"08:00:00"}]"#
    );
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_number_with_a_rest_does_not_fit_into_mysql() {
    let Some(database) = Database::mysql() else { return };
    database.execute("create table t (n integer)").await;
    for value in ["77x", "x"] {
        let inputs = json!({"sql": "insert into t values (:n)", "params": {"n": value}});
        let error = database.fails("execute", inputs).await;
        assert_eq!(error.kind, ErrorKind::Input, "{value}: {error:?}");
    }
}
