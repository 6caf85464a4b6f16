//! A value is what the database has, or an error: never another value. Each row has a query, its parameters, and the row that comes back
//! or words of the error.

use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};

use crate::database::Database;

/// The expected end of a query.
enum Gives {
    /// This row.
    Row(Json),
    /// An error with these words.
    Error(&'static str),
}
use Gives::{Error, Row};

type Case = (&'static str, Json, Gives);

/// Runs the cases, and reports all that differ.
async fn check(database: &Database, cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for (sql, params, gives) in cases {
        let result = database.try_call("query", json!({"sql": sql, "params": params})).await;
        let found = match &result {
            Ok(result) => result.get("row").expect("a row").to_json(),
            Err(error) => error.message.clone(),
        };
        let is_good = match &gives {
            Row(row) => {
                let expected = row.to_string();
                result.is_ok() && found == expected
            }
            Error(words) => result.is_err() && found.contains(words),
        };
        let expected = match gives {
            Row(row) => row.to_string(),
            Error(words) => format!("an error: {words}"),
        };
        if !is_good {
            let found: String = found.chars().take(300).collect();
            wrong.push(format!("{sql} {params}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert_eq!(wrong.join("\n"), "", "{}", database.name);
}

/// Queries that every database understands.
fn common() -> Vec<Case> {
    vec![
        ("select 1 as a, 1 as b", json!({}), Row(json!({"a": 1, "b": 1}))),
        ("select 1 as a, 2 as b, 3 as a", json!({}), Error("two columns are called `a`")),
        ("select 1 as a where 1 in (:v)", json!({"v": []}), Error("is an empty list")),
        ("select 1 as a where 1 in (:v)", json!({"v": [1, null]}), Error("has a null")),
        ("select 1 as a where 1 in (:v)", json!({"v": null}), Error("is null")),
        ("select 1 as a where 2 not in (:v)", json!({"v": [1, null]}), Error("has a null")),
        ("select case when 1 in (:v) then 1 end as a", json!({"v": [3, 2, 1]}), Row(json!({"a": 1}))),
        ("select 'it''s :x' as a, 1 as b", json!({}), Row(json!({"a": "it's :x", "b": 1}))),
        ("select 1 as a -- :x\n", json!({}), Row(json!({"a": 1}))),
        ("select 1 /* :x ? $1 */ as a", json!({}), Row(json!({"a": 1}))),
        ("select null as a", json!({}), Row(json!({"a": null}))),
        ("select '' as a", json!({}), Row(json!({"a": ""}))),
        ("select 'a  ' as a", json!({}), Row(json!({"a": "a  "}))),
        ("select 9223372036854775807 as a", json!({}), Row(json!({"a": i64::MAX}))),
        ("select -9223372036854775807 as a", json!({}), Row(json!({"a": -i64::MAX}))),
        ("select 9007199254740993 as a", json!({}), Row(json!({"a": 9_007_199_254_740_993_i64}))),
        ("select 1 as a;", json!({}), Row(json!({"a": 1}))),
        ("select 1 as a; select 2 as a", json!({}), Error("a second statement begins with")),
        ("select :v as a", json!({}), Error("the parameter `:v` has no value")),
        ("select 1 as a", json!({"v": 1}), Error("`params.v` is not a parameter")),
    ]
}

#[tokio::test]
async fn a_query_means_the_same_in_every_database() {
    for database in Database::all() {
        check(&database, common()).await;
    }
}

fn postgres_numbers() -> Vec<Case> {
    let v = |value: Json| json!({ "v": value });
    vec![
        ("select :v::int2 as a", v(json!(32_767)), Row(json!({"a": 32_767}))),
        ("select :v::int2 as a", v(json!(32_768)), Error("out of range")),
        ("select :v::int4 as a", v(json!(-2_147_483_648_i64)), Row(json!({"a": -2_147_483_648_i64}))),
        ("select :v::int4 as a", v(json!(2_147_483_648_i64)), Error("out of range")),
        ("select :v::int8 as a", v(json!(i64::MIN)), Row(json!({"a": i64::MIN}))),
        ("select :v::int8 as a", v(json!(u64::MAX)), Error("out of range")),
        ("select :v::int8 as a", v(json!(1.0e3)), Error("does not fit the type `int8`")),
        ("select :v::int8 as a", v(json!("1e3")), Error("invalid input syntax")),
        ("select :v::int8 as a", v(json!("")), Error("invalid input syntax")),
        ("select :v::int8 as a", v(json!(" 7 ")), Row(json!({"a": 7}))),
        ("select :v::oid as a", v(json!(4_294_967_295_u32)), Row(json!({"a": 4_294_967_295_u32}))),
        ("select :v::oid as a", v(json!(4_294_967_296_u64)), Error("out of range")),
        ("select :v::float4 as a", v(json!(1e39)), Error("out of range")),
        ("select :v::float8 as a", v(json!("1e400")), Error("out of range")),
        ("select :v::float8 as a", v(json!("Infinity")), Row(json!({"a": "Infinity"}))),
        ("select :v::float8 as a", v(json!("NaN")), Row(json!({"a": "NaN"}))),
        ("select :v::float8 as a", v(json!(5e-324)), Row(json!({"a": 5e-324}))),
        ("select :v::numeric as a", v(json!(1e-7)), Row(json!({"a": "0.0000001"}))),
        ("select :v::numeric as a", v(json!("NaN")), Row(json!({"a": "NaN"}))),
        ("select :v::numeric(4,2) as a", v(json!("99.995")), Error("overflow")),
        ("select :v::numeric as a", v(json!("1e131072")), Error("overflow")),
        (
            "select (10::numeric ^ 40) as a",
            json!({}),
            Row(json!({"a": "10000000000000000000000000000000000000000.0000000000000000"})),
        ),
        ("select -0.0::numeric as a, '-0'::float8 as b", json!({}), Row(json!({"a": "0.0", "b": -0.0}))),
        ("select :v::bool as a", v(json!("yes")), Row(json!({"a": true}))),
        ("select :v::bool as a", v(json!(0)), Error("does not fit the type `bool`")),
        ("select :v::date as a", v(json!("0001-01-01")), Row(json!({"a": "0001-01-01"}))),
        ("select :v::date as a", v(json!("1899-12-31")), Row(json!({"a": "1899-12-31"}))),
        ("select :v::date as a", v(json!("1582-10-10")), Row(json!({"a": "1582-10-10"}))),
        ("select :v::date as a", v(json!("10000-01-01")), Row(json!({"a": "+10000-01-01"}))),
        ("select :v::date as a", v(json!("2023-02-29")), Error("out of range")),
        ("select :v::date as a", v(json!("infinity")), Row(json!({"a": "infinity"}))),
        ("select :v::date as a", v(json!("0000-00-00")), Error("out of range")),
        ("select :v::date as a", v(json!(20_260_301)), Error("does not fit the type `date`")),
        (
            "select :v::timestamptz as a",
            v(json!("2026-03-29T02:30:00+01:00")),
            Row(json!({"a": "2026-03-29T01:30:00Z"})),
        ),
        (
            "select :v::timestamptz as a",
            v(json!("2026-03-29T02:30:00Z")),
            Row(json!({"a": "2026-03-29T02:30:00Z"})),
        ),
        (
            "select :v::timestamptz as a",
            v(json!("2026-03-29 02:30:00 Europe/Berlin")),
            Row(json!({"a": "2026-03-29T01:30:00Z"})),
        ),
    ]
}

fn postgres_times() -> Vec<Case> {
    let v = |value: Json| json!({ "v": value });
    vec![
        ("select :v::timestamptz as a", v(json!("-infinity")), Row(json!({"a": "-infinity"}))),
        (
            "select :v::timestamp as a",
            v(json!("1900-01-01T00:00:00.123456")),
            Row(json!({"a": "1900-01-01T00:00:00.123456"})),
        ),
        (
            "select :v::timestamptz as a",
            v(json!("4714-11-24 00:00:00+00 BC")),
            Row(json!({"a": "-4713-11-24T00:00:00Z"})),
        ),
        (
            "select :v::timestamptz as a",
            v(json!(1_700_000_000)),
            Error("does not fit the type `timestamptz`"),
        ),
        ("select :v::time as a", v(json!("24:00:00")), Row(json!({"a": "24:00:00"}))),
        ("select :v::time as a", v(json!("23:59:60")), Row(json!({"a": "24:00:00"}))),
        ("select :v::timetz as a", v(json!("12:00:00-05:30")), Row(json!({"a": "12:00:00-05:30"}))),
        ("select :v::interval as a", v(json!("P1Y2M3DT4H5M6.5S")), Row(json!({"a": "P1Y2M3DT4H5M6.5S"}))),
        ("select :v::interval as a", v(json!("-1 day +02:00")), Row(json!({"a": "P-1DT2H"}))),
        ("select :v::interval as a", v(json!("90 minutes")), Row(json!({"a": "PT1H30M"}))),
        ("select :v::text as a", v(json!("a\u{0}b")), Error("U+0000")),
        (
            "select :v::text as a",
            v(json!("\u{1F600} e\u{301} \u{202E}")),
            Row(json!({"a": "\u{1F600} e\u{301} \u{202E}"})),
        ),
        ("select :v::text as a", v(json!("NULL")), Row(json!({"a": "NULL"}))),
        ("select :v::text as a", v(json!("\\x00ff")), Row(json!({"a": "\\x00ff"}))),
        ("select :v::text as a", v(json!(17)), Row(json!({"a": "17"}))),
        ("select :v::text as a", v(json!(1.5)), Error("does not fit the type `text`")),
        ("select c as a, v as b from t where tag = :v", v(json!("a")), Row(json!({"a": "ab  ", "b": "abc"}))),
        ("select count(*) as a from t where tag = :v", v(json!("a ")), Row(json!({"a": 0}))),
        ("select count(*) as a from t where tag = :v", v(json!("A")), Row(json!({"a": 0}))),
        ("select count(*) as a from t where tag = :v", v(json!(null)), Row(json!({"a": 0}))),
        ("select :v::mood as a", v(json!("bad")), Row(json!({"a": "bad"}))),
        ("select :v::mood as a", v(json!("worse")), Error("invalid input value for enum")),
        (
            "select :v::uuid as a",
            v(json!("A0EEBC999C0B4EF8BB6D6BB9BD380A11")),
            Row(json!({"a": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"})),
        ),
        (
            "select :v::jsonb as a",
            v(json!({"b": 9_007_199_254_740_993_i64, "c": [null, "\u{1F600}"]})),
            Row(json!({"a": {"b": 9_007_199_254_740_993_i64, "c": [null, "\u{1F600}"]}})),
        ),
        ("select :v::jsonb as a", v(json!({"n": u64::MAX})), Row(json!({"a": {"n": u64::MAX}}))),
        ("select '1e400'::jsonb as a", json!({}), Error("cannot be read")),
        ("select :v::jsonb as a", v(json!("{\"a\": 1}")), Row(json!({"a": {"a": 1}}))),
        ("select :v::jsonb as a", v(json!("ada")), Error("invalid input syntax for type json")),
    ]
}

fn postgres_texts() -> Vec<Case> {
    let v = |value: Json| json!({ "v": value });
    vec![
        ("select :v::jsonb as a", v(json!({"z": "a\u{0}"})), Error("does not fit")),
        ("select :v::json as a", v(json!([])), Row(json!({"a": []}))),
        ("select :v::int[] as a", v(json!([1, null, 3])), Row(json!({"a": [1, null, 3]}))),
        ("select :v::int[] as a", v(json!([])), Row(json!({"a": []}))),
        ("select :v::int[] as a", v(json!([[1, 2], [3, 4]])), Row(json!({"a": [[1, 2], [3, 4]]}))),
        ("select :v::int[] as a", v(json!([[1], [2, 3]])), Error("malformed array")),
        ("select :v::int[] as a", v(json!(["x"])), Error("invalid input syntax")),
        (
            "select :v::text[] as a",
            v(json!(["NULL", "", "a,b", "{}", "\"\\", null])),
            Row(json!({"a": ["NULL", "", "a,b", "{}", "\"\\", null]})),
        ),
        ("select :v::text[] as a", v(json!("a")), Error("does not fit the type `_text`")),
        ("select '[0:1]={7,8}'::int[] as a", json!({}), Row(json!({"a": [7, 8]}))),
        ("select b'101' as a, '\\x01'::bytea is null as b", json!({}), Row(json!({"a": "101", "b": false}))),
        (
            "select int4range(1, 5) as a, 'x'::\"char\" as b, 1::money as c",
            json!({}),
            Row(json!({"a": "[1,5)", "b": "x", "c": "$1.00"})),
        ),
        (
            "select sum(x) as a, avg(x) as b from (values (1::int8), (2)) as s (x)",
            json!({}),
            Row(json!({"a": "3", "b": "1.5000000000000000"})),
        ),
        (
            "select ':v' as a, '{\"a\": 1}'::jsonb ? 'a' as b, array[1] @> array[1] as c",
            json!({}),
            Row(json!({"a": ":v", "b": true, "c": true})),
        ),
        (
            "select $q$ :v ; -- $q$ as a, U&'d\\0061' as b, E'\\'' as c",
            json!({}),
            Row(json!({"a": " :v ; -- ", "b": "da", "c": "'"})),
        ),
        ("select (array[1, 2, 3])[1:2] as a", json!({}), Row(json!({"a": [1, 2]}))),
    ]
}

#[tokio::test]
async fn a_value_of_postgres_is_itself_or_an_error() {
    let Some(database) = Database::postgres() else { return };
    database.execute("create type mood as enum ('fine', 'bad')").await;
    database.execute("create table t (id int, tag text collate \"C\", c char(4), v varchar(3))").await;
    database.execute("insert into t values (1, 'a', 'ab', 'abc')").await;
    for cases in [postgres_numbers(), postgres_times(), postgres_texts()] {
        check(&database, cases).await;
    }
}

#[tokio::test]
async fn a_value_of_sqlite_is_itself_or_an_error() {
    let database = Database::sqlite();
    database.execute("create table t (id integer primary key, s text, n numeric, b blob)").await;
    database.execute("insert into t values (1, 'a', 1, x'ff')").await;
    let v = |value: Json| json!({ "v": value });
    let cases = vec![
        ("select :v as a, typeof(:v) as b", v(json!(i64::MIN)), Row(json!({"a": i64::MIN, "b": "integer"}))),
        ("select :v as a", v(json!(u64::MAX)), Error("is larger than an integer of SQLite")),
        (
            "select 9223372036854775807 + 1 as a",
            json!({}),
            Row(json!({"a": 9_223_372_036_854_775_808.0_f64})),
        ),
        ("select :v as a, typeof(:v) as b", v(json!(1.0)), Row(json!({"a": 1.0, "b": "real"}))),
        ("select 9e999 as a, -9e999 as b", json!({}), Row(json!({"a": "Infinity", "b": "-Infinity"}))),
        ("select 0.0/0 as a", json!({}), Row(json!({"a": null}))),
        ("select :v as a, typeof(:v) as b", v(json!(true)), Row(json!({"a": 1, "b": "integer"}))),
        ("select :v as a", v(json!({"x": [1, null]})), Row(json!({"a": "{\"x\":[1,null]}"}))),
        ("select length(:v) as a, :v as b", v(json!("a\u{0}b")), Row(json!({"a": 1, "b": "a\u{0}b"}))),
        ("select count(*) as a from t where s = :v", v(json!("A")), Row(json!({"a": 0}))),
        ("select count(*) as a from t where s = :v", v(json!("a ")), Row(json!({"a": 0}))),
        ("select count(*) as a from t where s = :v", v(json!(0)), Row(json!({"a": 0}))),
        ("select count(*) as a from t where id = :v", v(json!("1")), Row(json!({"a": 1}))),
        ("select cast(b as text) as a from t", json!({}), Error("is not UTF-8")),
        ("select \"emial\" as a from t", json!({}), Error("no such column")),
        ("select 1 as a from t where s = \"zz\"", json!({}), Error("no such column")),
        ("select [s] as a, `n` as b from t", json!({}), Row(json!({"a": "a", "b": 1}))),
        ("select date('9999-12-31', '+1 day') as a", json!({}), Row(json!({"a": null}))),
        ("select julianday('0000-01-01') as a", json!({}), Row(json!({"a": 1_721_059.5}))),
        ("select datetime('1899-12-31 23:59:59') as a", json!({}), Row(json!({"a": "1899-12-31 23:59:59"}))),
    ];
    check(&database, cases).await;
}

#[cfg(feature = "mysql")]
async fn mysql_table(database: &Database) {
    database
        .execute(
            "create table t (id int, s varchar(20), u bigint unsigned, d date, e enum('x', 'y'), f set('p', 'q'), b bit(64), \
             z datetime null, c char(4), m mediumint unsigned)",
        )
        .await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_value_that_does_not_fit_a_column_of_mysql_is_refused() {
    let Some(database) = Database::mysql() else { return };
    mysql_table(&database).await;
    for (column, value) in [
        ("e", json!("z")),
        ("e", json!("")),
        ("f", json!("p,r")),
        ("u", json!(-1)),
        ("m", json!(16_777_216)),
        ("d", json!("0000-00-00")),
        ("d", json!("2026-00-10")),
        ("z", json!("2026-03-01T09:00:00+02:00")),
        ("s", json!("x".repeat(21))),
        ("id", json!("1x")),
        ("id", json!(1e10)),
    ] {
        let sql = format!("insert into t ({column}) values (:v)");
        let error = database.fails("execute", json!({"sql": sql, "params": {"v": value}})).await;
        assert!(!error.message.is_empty(), "{column} {value}");
    }
    assert_eq!(database.rows("select count(*) as n from t").await, r#"[{"n":0}]"#);
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_value_of_mysql_is_itself_or_an_error() {
    let Some(database) = Database::mysql() else { return };
    mysql_table(&database).await;
    database
        .execute("insert into t values (1, 'abc', 18446744073709551615, '1899-12-31', 'y', 'p,q', ~0, '9999-12-31 23:59:59', 'ab', 16777215)")
        .await;
    let v = |value: Json| json!({ "v": value });
    let row = || json!({"u": "18446744073709551615", "e": "y", "f": "p,q", "b": "18446744073709551615", "m": 16_777_215});
    let cases = vec![
        ("select u, e, f, b, m from t", json!({}), Row(row())),
        ("select u from t where u = :v", v(json!(u64::MAX)), Row(json!({"u": "18446744073709551615"}))),
        (
            "select d as a, z as b from t",
            json!({}),
            Row(json!({"a": "1899-12-31", "b": "9999-12-31T23:59:59"})),
        ),
        ("select count(*) as a from t where s = :v", v(json!(0)), Error("a value is not of the type")),
        ("select count(*) as a from t where s = :v", v(json!("ABC")), Row(json!({"a": 1}))),
        ("select count(*) as a from t where s = :v", v(json!("abc ")), Row(json!({"a": 1}))),
        ("select count(*) as a from t where binary s = :v", v(json!("ABC")), Row(json!({"a": 0}))),
        ("select count(*) as a from t where id = :v", v(json!("1")), Row(json!({"a": 1}))),
        ("select count(*) as a from t where id = :v", v(json!("1x")), Error("a value is not of the type")),
        ("select count(*) as a from t where z > :v", v(json!("2026-03-01T09:00:00")), Row(json!({"a": 1}))),
        (
            "select count(*) as a from t where z > :v",
            v(json!("2026-03-01T09:00:00+02:00")),
            Error("a value is not of the type"),
        ),
        ("select c as a, length(c) as b from t", json!({}), Row(json!({"a": "ab", "b": 2}))),
        ("select cast('0000-00-00' as date) as a", json!({}), Error("a value is not of the type")),
        ("select time('-838:59:59') as a", json!({}), Row(json!({"a": "-838:59:59"}))),
        ("select 1/3 as a, 1e0/3 as b", json!({}), Row(json!({"a": "0.3333", "b": 0.333_333_333_333_333_3}))),
        ("select 1/0 as a", json!({}), Row(json!({"a": null}))),
        (
            "select sum(id) as a, avg(id) as b, count(*) as c from t",
            json!({}),
            Row(json!({"a": "1", "b": "1.0000", "c": 1})),
        ),
        ("select true as a, 1 = 1 as b", json!({}), Row(json!({"a": 1, "b": 1}))),
        ("select :v as a", v(json!("a\u{0}b\\' \u{1F600}")), Row(json!({"a": "a\u{0}b\\' \u{1F600}"}))),
        ("select 'a\\'b :x' as a, \"c:d\" as b", json!({}), Row(json!({"a": "a'b :x", "b": "c:d"}))),
        (
            "select timestamp '2026-03-29 02:30:00' as a, @@session.time_zone as b",
            json!({}),
            Row(json!({"a": "2026-03-29T02:30:00", "b": "+00:00"})),
        ),
        ("select 18446744073709551616 as a", json!({}), Row(json!({"a": "18446744073709551616"}))),
        (
            "select json_extract('{\"a\": 9007199254740993}', '$.a') as a",
            json!({}),
            Row(json!({"a": "9007199254740993"})),
        ),
    ];
    check(&database, cases).await;
}

#[tokio::test]
async fn bytes_in_a_file_of_rows_are_base64_whatever_they_are() {
    for database in Database::all() {
        let bytes = match database.name {
            "postgres" => "'\\x6869'::bytea as a, '\\x00ff'::bytea as b",
            "mysql" => "cast('hi' as binary) as a, x'00ff' as b",
            _ => "x'6869' as a, x'00ff' as b",
        };
        let file =
            database.call("query", json!({"sql": format!("select {bytes}, null as c"), "as": "csv"})).await;
        assert_eq!(file.get("file").expect("a file").to_text(), "a,b,c\naGk=,AP8=,\n", "{}", database.name);
    }
}

#[tokio::test]
async fn a_list_of_rows_is_read_page_by_page_whatever_the_time_looks_like() {
    for database in Database::all() {
        let kinds: &[&str] = match database.name {
            "postgres" => &["timestamptz", "timestamp", "date"],
            "mysql" => &["timestamp(6) null", "datetime(6)", "date"],
            _ => &["text"],
        };
        for (number, kind) in kinds.iter().enumerate() {
            let table = format!("log{number}");
            database.execute(&format!("create table {table} (id varchar(40) primary key, at {kind})")).await;
            let row = |n: u32| json!({"id": format!("2026-03-01T00:00:{n}Z"), "at": format!("2026-03-01 09:{:02}:00", n / 100)});
            let rows: Vec<Json> = (0..2_300).map(row).collect();
            database.call("insert", json!({"table": table, "rows": rows})).await;
            let (mut ids, mut cursor) = (std::collections::BTreeSet::new(), json!(null));
            for expected in [1_000, 2_000, 2_300] {
                let page = database
                    .call(
                        "listRows",
                        json!({"table": table, "id": ["id"], "watermark": "at", "cursor": cursor}),
                    )
                    .await;
                for row in page.get("rows").expect("rows").as_list().expect("a list") {
                    ids.insert(row.get("key").expect("a key").to_text());
                }
                assert_eq!(ids.len(), expected, "{} {kind}", database.name);
                cursor =
                    page.get("nextCursor").expect("a cursor").as_str().map(Json::from).unwrap_or_default();
            }
            assert_eq!(cursor, json!(null), "{} {kind}", database.name);
        }
    }
}
