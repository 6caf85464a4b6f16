use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::Database;

/// Columns of a query on PostgreSQL, and the row.
const POSTGRES: &[(&str, &str)] = &[
    (
        "9223372036854775807 as a, (-32768)::int2 as b, 4294967295::oid as c",
        r#"{"a":9223372036854775807,"b":-32768,"c":4294967295}"#,
    ),
    (
        "0.10::numeric as a, 123456789012345678901234567890.123456789 as b",
        r#"{"a":"0.10","b":"123456789012345678901234567890.123456789"}"#,
    ),
    (
        "-0.00001::numeric(10,5) as a, 10000::numeric as b, 'NaN'::numeric as c",
        r#"{"a":"-0.00001","b":"10000","c":"NaN"}"#,
    ),
    (
        "1e-20::numeric as a, 1e20::numeric as b, 100000000.00000001 as c",
        r#"{"a":"0.00000000000000000001","b":"100000000000000000000","c":"100000000.00000001"}"#,
    ),
    (
        "0.1::float4 as a, 1e300::float8 as b, 'NaN'::float8 as c, '-inf'::float8 as d",
        r#"{"a":0.1,"b":1e+300,"c":"NaN","d":"-Infinity"}"#,
    ),
    (
        "true as a, null::int as b, 'ü\"'::text as c, 'x'::char(3) as d",
        r#"{"a":true,"b":null,"c":"ü\"","d":"x  "}"#,
    ),
    (
        "'2026-03-01'::date as a, '0044-03-15 BC'::date as b, 'infinity'::date as c",
        r#"{"a":"2026-03-01","b":"-0043-03-15","c":"infinity"}"#,
    ),
    (
        "timestamptz '2026-03-01 09:00:00.5+02' as a, timestamp '2026-03-01 09:00:00' as b",
        r#"{"a":"2026-03-01T07:00:00.5Z","b":"2026-03-01T09:00:00"}"#,
    ),
    (
        "time '09:00:00.000001' as a, timetz '09:00+02' as b",
        r#"{"a":"09:00:00.000001","b":"09:00:00+02:00"}"#,
    ),
    ("interval '1 year 2 months -3 days 04:05:06.7' as a", r#"{"a":"P1Y2M-3DT4H5M6.7S"}"#),
    ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as a", r#"{"a":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}"#),
    (
        r#"'{"b": [1, 2.50]}'::json as a, '{"b": 9007199254740993}'::jsonb as b"#,
        r#"{"a":{"b":[1,2.5]},"b":{"b":9007199254740993}}"#,
    ),
    (
        "array[1,null,3] as a, array[['x','y'],['z','']] as b, '{}'::int[] as c",
        r#"{"a":[1,null,3],"b":[["x","y"],["z",""]],"c":[]}"#,
    ),
    // Types without a form of their own are the server's text.
    (
        "'10.0.0.0/8'::cidr as a, point(1,2) as b, int4range(1,5) as c, row(1,'x') as d, 5::money as e",
        r#"{"a":"10.0.0.0/8","b":"(1,2)","c":"[1,5)","d":"(1,x)","e":"$5.00"}"#,
    ),
    ("'10.0.0.1'::inet as \"q\"\"x\", 1 as b -- a comment", r#"{"q\"x":"10.0.0.1/32","b":1}"#),
];

/// Checks the first row of a query on PostgreSQL.
async fn check(database: &Database, columns: &str, expected: &str) {
    let result = database.call("query", json!({"sql": format!("select {columns}")})).await;
    assert_eq!(result.get("row").expect("a row").to_json(), expected, "{columns}");
}

#[tokio::test]
async fn values_of_postgres_keep_their_digits_and_times() {
    let Some(database) = Database::postgres() else { return };
    for (columns, expected) in POSTGRES {
        check(&database, columns, expected).await;
    }
    database.execute("create type mood as enum ('fine', 'bad')").await;
    database.execute("create domain amount as numeric(10,2)").await;
    check(
        &database,
        "'bad'::mood as a, 5::amount as b, array['fine'::mood] as c",
        r#"{"a":"bad","b":"5.00","c":["fine"]}"#,
    )
    .await;
    let bytes = database.call("query", json!({"sql": "select '\\x00ff'::bytea as a"})).await;
    let file = bytes.path("row.a").expect("bytes");
    assert_eq!(file.as_file().expect("a file").data.in_memory().expect("in memory")[..], [0, 255]);
    let columns =
        database.call("query", json!({"sql": "select 1::int8 as a, 2.5 as b", "decimals": "number"})).await;
    assert_eq!(
        columns.get("columns").expect("columns").to_json(),
        r#"[{"name":"a","type":"int8"},{"name":"b","type":"numeric"}]"#
    );
    assert_eq!(columns.get("row").expect("a row").to_json(), r#"{"a":1,"b":2.5}"#);
}

#[tokio::test]
async fn values_of_sqlite_are_what_is_stored() {
    let database = Database::sqlite();
    database.execute("create table t (a integer, b real, c text, d blob, e decimal)").await;
    database.execute("insert into t values (-9223372036854775808, 0.1, 'ü', x'00ff', '0.10')").await;
    let result =
        database.call("query", json!({"sql": "select a, b, c, typeof(e) as e, null as f from t"})).await;
    assert_eq!(
        result.get("rows").expect("rows").to_json(),
        r#"[{"a":-9223372036854775808,"b":0.1,"c":"ü","e":"real","f":null}]"#
    );
    assert_eq!(
        result.path("columns").expect("columns").at(1).expect("b").to_json(),
        r#"{"name":"b","type":"real"}"#
    );
}

#[tokio::test]
async fn a_result_says_if_there_are_more_rows() {
    for database in Database::all() {
        database.execute("create table numbers (n integer)").await;
        let rows: Vec<_> = (0..30).map(|n| json!({"n": n})).collect();
        database.call("insert", json!({"table": "numbers", "rows": rows})).await;
        let sql = "select n from numbers order by n";
        let some = database.call("query", json!({"sql": sql, "maxRows": 2})).await;
        assert_eq!(some.get("rows").expect("rows").to_json(), r#"[{"n":0},{"n":1}]"#, "{}", database.name);
        assert_eq!([some.get("truncated"), some.get("count")], [Some(true.into()), Some(2.into())]);
        let all = database.call("query", json!({"sql": sql, "maxRows": 30})).await;
        assert_eq!([all.get("truncated"), all.get("count")], [Some(false.into()), Some(30.into())]);
        let none = database.call("query", json!({"sql": "select n from numbers where n > 99"})).await;
        assert_eq!([none.get("row"), none.get("count")], [Some(value::Value::Null), Some(0.into())]);
        for (form, expected) in [("csv", "n\n28\n29\n"), ("jsonLines", "{\"n\":28}\n{\"n\":29}\n")] {
            let sql = "select n from numbers where n >= 28 order by n";
            let file = database.call("query", json!({"sql": sql, "as": form, "maxRows": 1})).await;
            assert_eq!(file.get("file").expect("a file").to_text(), expected, "{}", database.name);
            assert_eq!(file.get("count"), Some(2.into()));
        }
    }
}

#[tokio::test]
async fn a_query_changes_nothing() {
    for database in Database::all() {
        database.execute("create table t (n integer)").await;
        for sql in ["insert into t values (1)", "insert into t values (1) returning n", "delete from t"] {
            let error = database.fails("query", json!({"sql": sql})).await;
            assert_eq!(error.kind, ErrorKind::Input, "{}: {}", database.name, error.message);
            assert!(error.message.contains("sql.execute"), "{}", error.message);
        }
        assert_eq!(database.rows("select count(*) as n from t").await, r#"[{"n":0}]"#);
    }
}

#[tokio::test]
async fn two_columns_of_one_name_are_an_error() {
    for database in Database::all() {
        let error = database.fails("query", json!({"sql": "select 1 as a, 2 as a"})).await;
        assert_eq!(error.message, "two columns are called `a`; name them with `as`", "{}", database.name);
    }
}

#[tokio::test]
async fn an_error_of_the_database_has_its_code() {
    for database in Database::all() {
        database.execute("create table t (n integer primary key)").await;
        database.execute("insert into t values (1)").await;
        let error = database.fails("execute", json!({"sql": "insert into t values (1)"})).await;
        let code = match database.name {
            "sqlite" => "SQLITE_CONSTRAINT_PRIMARYKEY",
            "mysql" => "23000",
            _ => "23505",
        };
        assert_eq!(
            (error.kind.clone(), error.code.as_deref()),
            (ErrorKind::Response, Some(code)),
            "{}",
            error.message
        );
        assert!(!error.outcome_unknown);
        let error = database.fails("query", json!({"sql": "selec 1"})).await;
        assert_eq!(error.kind, ErrorKind::Response);
    }
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn values_of_mysql_keep_their_digits_and_times() {
    let Some(database) = Database::mysql() else { return };
    database
        .execute(
            "create table t (a bigint unsigned, b decimal(30,10), c double, d date, e datetime(6), f timestamp null, g time, \
             h varchar(20), i varbinary(4), j bit(4), k year, l float, m text)",
        )
        .await;
    database
        .execute(
            "insert into t values (18446744073709551615, 12345678901234567890.1, 0.1, '2026-03-01', '2026-03-01 09:00:00.5', \
             '2026-03-01 09:00:00', '-26:00:01', 'ü', x'00ff', b'101', 2026, 0.1, '')",
        )
        .await;
    let row = database
        .call("query", json!({"sql": "select a, b, c, d, e, f, g, h, j, k, l, m, null as n from t"}))
        .await;
    assert_eq!(
        row.get("row").expect("a row").to_json(),
        r#"{"a":"18446744073709551615","b":"12345678901234567890.1000000000","c":0.1,"d":"2026-03-01","e":"2026-03-01T09:00:00.5","f":"2026-03-01T09:00:00Z","g":"-26:00:01","h":"ü","j":5,"k":2026,"l":0.1,"m":"","n":null}"#
    );
    let bytes = database.call("query", json!({"sql": "select i from t"})).await;
    assert_eq!(
        bytes.path("row.i").expect("bytes").as_file().expect("a file").data.in_memory().expect("in memory")[..],
        [0, 255]
    );
    for (column, value) in
        [("a", json!(-1)), ("d", json!("2026-02-30")), ("h", json!("x".repeat(21))), ("c", json!("abc"))]
    {
        let sql = format!("insert into t ({column}) values (:v)");
        let error = database.fails("execute", json!({"sql": sql, "params": {"v": value}})).await;
        assert!(matches!(error.kind, ErrorKind::Input | ErrorKind::Response), "{column}: {error:?}");
    }
    assert_eq!(database.rows("select count(*) as n from t").await, r#"[{"n":1}]"#);
    let error = database.fails("execute", json!({"sql": "create table u (n integer)", "once": true})).await;
    assert_eq!(error.kind, ErrorKind::Input, "{}", error.message);
}
