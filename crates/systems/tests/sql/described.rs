use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::Database;

#[tokio::test]
async fn a_statement_is_described_and_not_run() {
    for database in Database::all() {
        database.execute("create table t (n integer, s varchar(20))").await;
        let sql = "insert into t (n, s) values (:n, :s) returning n, s";
        let described = database.call("describe", json!({"sql": sql})).await;
        assert_eq!(database.rows("select count(*) as n from t").await, r#"[{"n":0}]"#);
        let parameters = described.get("parameters").expect("parameters").to_json();
        let expected = match database.name {
            "postgres" => r#"[{"name":"n","type":"int4"},{"name":"s","type":"varchar"}]"#,
            _ => "[]",
        };
        assert_eq!(parameters, expected, "{}", database.name);
        let columns = described.get("columns").expect("columns").to_json();
        let expected = match database.name {
            "postgres" => r#"[{"name":"n","type":"int4"},{"name":"s","type":"varchar"}]"#,
            // MariaDB states no columns of `returning`.
            "mysql" => "[]",
            _ => r#"[{"name":"n","type":"integer"},{"name":"s","type":"varchar(20)"}]"#,
        };
        assert_eq!(columns, expected, "{}", database.name);
    }
}

#[tokio::test]
async fn a_statement_that_the_database_does_not_take_is_not_described() {
    for database in Database::all() {
        database.execute("create table t (n integer)").await;
        for sql in ["select emial from t", "select n from nowhere", "selec 1"] {
            database.fails("describe", json!({"sql": sql})).await;
        }
        let list = json!({"sql": "select n from t where n in (:n) and n > :n"});
        assert_eq!(
            database
                .call("describe", list)
                .await
                .path("columns")
                .expect("columns")
                .to_json()
                .contains("\"n\""),
            true
        );
    }
}
