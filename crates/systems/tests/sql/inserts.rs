use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use value::{File, Map, Value};

use crate::database::{Database, json as map};

async fn with_table(database: &Database) {
    database.execute("create table payments (id integer primary key, amount numeric, note text)").await;
}

#[tokio::test]
async fn a_list_of_maps_becomes_rows() {
    for database in Database::all() {
        with_table(&database).await;
        let rows = json!([{"id": 1, "amount": "9.50", "note": "a"}, {"id": 2, "amount": null, "note": null}]);
        let result = database.call("insert", json!({"table": "payments", "rows": rows})).await;
        assert_eq!(result.to_json(), r#"{"affected":2,"skipped":0,"repeated":false}"#, "{}", database.name);
        let columns = json!({"id": "number", "note": "words"});
        let rows = json!([{"number": 3, "words": "x", "other": true}]);
        database.call("insert", json!({"table": "payments", "rows": rows, "columns": columns})).await;
        assert_eq!(
            database.rows("select id, note from payments order by id").await,
            r#"[{"id":1,"note":"a"},{"id":2,"note":null},{"id":3,"note":"x"}]"#
        );
    }
}

#[tokio::test]
async fn a_row_whose_key_exists_is_an_error_skipped_or_updated() {
    for database in Database::all() {
        with_table(&database).await;
        let rows = |note: &str| json!([{"id": 1, "note": note}, {"id": 2, "note": note}]);
        database.call("insert", json!({"table": "payments", "rows": [{"id": 1, "note": "old"}]})).await;
        let error = database.fails("insert", json!({"table": "payments", "rows": rows("new")})).await;
        assert_eq!(error.kind, ErrorKind::Response, "{}", error.message);
        let note = || database.rows("select note from payments order by id");
        assert_eq!(note().await, r#"[{"note":"old"}]"#, "{}: all or nothing", database.name);
        let skipped = database
            .call(
                "insert",
                json!({"table": "payments", "rows": rows("new"), "onConflict": "skip", "key": ["id"]}),
            )
            .await;
        assert_eq!(skipped.to_json(), r#"{"affected":1,"skipped":1,"repeated":false}"#, "{}", database.name);
        assert_eq!(note().await, r#"[{"note":"old"},{"note":"new"}]"#);
        let updated = database
            .call(
                "insert",
                json!({"table": "payments", "rows": rows("newer"), "onConflict": "update", "key": ["id"]}),
            )
            .await;
        assert_eq!(updated.get("affected"), Some(2.into()));
        assert_eq!(note().await, r#"[{"note":"newer"},{"note":"newer"}]"#);
    }
}

#[tokio::test]
async fn a_file_is_inserted_in_batches_all_or_nothing() {
    for database in Database::all() {
        with_table(&database).await;
        let mut csv = "\u{feff}id,amount,note\n".to_owned();
        let mut lines = String::new();
        for id in 0..2_500 {
            csv.push_str(&format!("{id},{}.10,\"a \"\"{id}\"\"\"\n", id % 7));
            lines.push_str(&format!("{{\"id\": {}, \"note\": \"b\"}}\n\n", id + 10_000));
        }
        for (content, format) in [(csv.clone(), "csv"), (lines, "jsonLines")] {
            let file = File { content_type: "text/csv".into(), filename: None, data: content.into() };
            let mut inputs = map(json!({"table": "payments", "format": format}));
            inputs.insert("rows", Value::from(file));
            let done = database
                .try_with(&database.connection, "insert", &inputs, ("", None))
                .await
                .expect("inserted");
            assert_eq!(done.get("affected"), Some(2_500.into()), "{} {format}", database.name);
        }
        let total = "select count(*) as n, max(id) as last from payments";
        assert_eq!(database.rows(total).await, r#"[{"n":5000,"last":12499}]"#);
        assert_eq!(database.rows("select note from payments where id = 7").await, r#"[{"note":"a \"7\""}]"#);
        database.execute("delete from payments").await;
        csv.push_str("1,2.00,again\n");
        let error = database.fails("insert", json!({"table": "payments", "rows": csv})).await;
        assert_eq!(error.kind, ErrorKind::Response);
        assert_eq!(
            database.rows("select count(*) as n from payments").await,
            r#"[{"n":0}]"#,
            "{}",
            database.name
        );
    }
}

#[tokio::test]
async fn wrong_rows_are_named() {
    for database in Database::all() {
        with_table(&database).await;
        for (inputs, words) in [
            (
                json!({"rows": [{"id": 1}, {"id": 2, "nte": "x"}]}),
                "row 2 has the field `nte`, which the first row lacks",
            ),
            (
                json!({"rows": [{"id": 1}], "columns": ["id", "nte"]}),
                "row 1 lacks the field `nte` for the column `nte`; it has `id`",
            ),
            (
                json!({"rows": [{"id": 1, "note": "a"}, {"id": 2}]}),
                "row 2 lacks the field `note`, which the first row has; it has `id`. Write `note: null`",
            ),
            (json!({"rows": [17]}), "row 1 is a number, and a row is a map"),
            (json!({"rows": "id\n1,2\n"}), "`rows` is not CSV"),
            (json!({"rows": "{\"id\": 1}\n[]\n", "format": "jsonLines"}), "line 2 of `rows` is a list"),
            (json!({"rows": 17}), "`rows` is a number; it takes a list of maps, or a file"),
            (json!({"rows": [], "onConflict": "update"}), "`onConflict: update` needs `key`"),
            (json!({"rows": [{"id": 1}], "table": "a.b.c.d"}), "is not the name of a table"),
        ] {
            let mut inputs = map(inputs);
            if !inputs.contains_key("table") {
                inputs.insert("table", "payments");
            }
            let called = database.try_with(&database.connection, "insert", &inputs, ("", None)).await;
            let error = called.expect_err(words);
            assert!(error.message.contains(words), "{}: {}", database.name, error.message);
        }
        let empty: Map = map(json!({"table": "payments", "rows": []}));
        let none = database
            .try_with(&database.connection, "insert", &empty, ("", None))
            .await
            .expect("nothing to do");
        assert_eq!(none.get("affected"), Some(0.into()));
    }
}

#[tokio::test]
async fn names_are_taken_exactly_as_they_are_written() {
    for database in Database::all() {
        let [table, select, dash] = ["Order Lines", "select", "x-y"].map(|name| database.quoted(name));
        database.execute(&format!("create table {table} ({select} integer, {dash} text)")).await;
        let rows = json!([{"select": 1, "x-y": "a"}]);
        database.call("insert", json!({"table": "Order Lines", "rows": rows})).await;
        assert_eq!(database.rows(&format!("select * from {table}")).await, r#"[{"select":1,"x-y":"a"}]"#);
        let hostile = json!([{"select\") values (1); drop table \"Order Lines\"; --": 1}]);
        database.fails("insert", json!({"table": "Order Lines", "rows": hostile})).await;
        assert_eq!(database.rows(&format!("select count(*) as n from {table}")).await, r#"[{"n":1}]"#);
    }
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn mysql_takes_a_key_only_if_no_other_index_can_decide() {
    let Some(database) = Database::mysql() else { return };
    database
        .execute("create table people (id integer primary key auto_increment, mail varchar(50), unique mails (mail), note text)")
        .await;
    let insert = |row: serde_json::Value, key: &str| {
        database.try_call(
            "insert",
            json!({"table": "people", "rows": [row], "onConflict": "update", "key": [key]}),
        )
    };
    insert(json!({"mail": "ada", "note": "old"}), "mail").await.expect("the id counts up, and meets nothing");
    insert(json!({"mail": "ada", "note": "new"}), "mail").await.expect("the key");
    let people = || database.rows("select mail, note from people");
    assert_eq!(people().await, r#"[{"mail":"ada","note":"new"}]"#);
    let row = || json!({"id": 7, "mail": "ada", "note": "wrong"});
    let error = insert(row(), "id").await.expect_err("the row of `ada` would be changed");
    assert!(error.message.contains("has also the unique index `mails`"), "{}", error.message);
    let error = insert(row(), "note").await.expect_err("no index");
    assert!(error.message.contains("no unique index of these columns"), "{}", error.message);
    assert_eq!(people().await, r#"[{"mail":"ada","note":"new"}]"#);
}

#[tokio::test]
async fn a_row_without_a_field_writes_nothing_in_any_batch() {
    for database in Database::all() {
        database
            .execute("create table t (id integer primary key, note text default 'usual', n integer)")
            .await;
        database.execute("insert into t values (3, 'kept', 3)").await;
        let fields = json!({"table": "t", "onConflict": "update", "key": ["id"], "batch": 1});
        let lines = |field: &str| {
            format!(
                "{{\"id\": 1, \"note\": \"a\"}}\n{{\"id\": 2, \"note\": \"b\"}}\n{{\"id\": 3, \"{field}\": 1}}\n"
            )
        };
        let rows = json!([{"id": 1, "note": "a"}, {"id": 2, "note": "b"}, {"id": 3, "nte": "c"}]);
        for (format, rows) in
            [("csv", rows), ("jsonLines", lines("nte").into()), ("jsonLines", lines("n").into())]
        {
            for columns in [json!(null), json!(["id", "note"])] {
                let mut inputs = fields.clone();
                inputs["format"] = format.into();
                inputs["rows"] = rows.clone();
                inputs["columns"] = columns;
                let error = database.fails("insert", inputs).await;
                assert_eq!(error.kind, ErrorKind::Input, "{}: {error:?}", database.name);
                assert!(error.message.contains("row 3 lacks the field `note`"), "{}", error.message);
            }
        }
        assert_eq!(database.rows("select * from t").await, r#"[{"id":3,"note":"kept","n":3}]"#);
        let mut inputs = fields;
        inputs["rows"] = json!([{"id": 1, "n": 1}, {"id": 3, "n": 4}]);
        database.call("insert", inputs).await;
        assert_eq!(
            database.rows("select * from t order by id").await,
            r#"[{"id":1,"note":"usual","n":1},{"id":3,"note":"kept","n":4}]"#
        );
    }
}

#[tokio::test]
async fn the_last_row_of_a_key_counts_in_batches_of_any_size() {
    for database in Database::all() {
        with_table(&database).await;
        let mut rows: Vec<_> = (0..30).map(|id| json!({"id": id % 7, "note": format!("n{id}")})).collect();
        // Equal for the database only.
        rows.push(json!({"id": "06", "note": "last"}));
        for batch in [1, 4, 10, 1_000] {
            for conflict in ["update", "skip"] {
                database.execute("delete from payments").await;
                let inputs = json!({"table": "payments", "rows": rows, "onConflict": conflict, "key": ["id"], "batch": batch});
                let done = database.call("insert", inputs).await.to_json();
                let (counts, note) = match conflict {
                    "update" => (r#"{"affected":31,"skipped":0,"repeated":false}"#, "last"),
                    _ => (r#"{"affected":7,"skipped":24,"repeated":false}"#, "n6"),
                };
                assert_eq!(done, counts, "{} {batch}", database.name);
                let found = database.rows("select note from payments where id = 6").await;
                assert_eq!(found, json!([{ "note": note }]).to_string(), "{} {batch}", database.name);
            }
        }
        // Another error is the one of the row, and nothing is written.
        let rows = json!([{"id": 8, "note": "a"}, {"id": 8, "note": "b"}, {"id": "x", "note": "c"}]);
        let error = database
            .fails(
                "insert",
                json!({"table": "payments", "rows": rows, "onConflict": "update", "key": ["id"]}),
            )
            .await;
        assert!(error.code.as_deref() != Some("21000"), "{error:?}");
        assert_eq!(database.rows("select count(*) as n from payments where id = 8").await, r#"[{"n":0}]"#);
    }
}
