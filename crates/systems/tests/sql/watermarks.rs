//! `sql.listRows` of rows whose time cannot be read.

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};

use crate::database::Database;

/// The ids of the rows, and the problem of the rows that are left out.
async fn listed(database: &Database, table: &str, with: Json) -> (Vec<String>, Option<String>) {
    let mut inputs = json!({"table": table, "id": ["id"], "watermark": "at"});
    inputs.as_object_mut().expect("a map").extend(with.as_object().expect("a map").clone());
    let page = database.call("listRows", inputs).await;
    let rows = page.get("rows").expect("rows");
    let ids = rows.as_list().expect("a list").iter().map(|row| row.path("row.id").expect("an id").to_text());
    (ids.collect(), page.get("leftOut").and_then(|problem| problem.as_str().map(str::to_owned)))
}

#[tokio::test]
async fn a_row_without_a_time_keeps_no_other_away_and_is_told_of() {
    for database in Database::all() {
        let (kind, wrong) = match database.name {
            "postgres" => ("timestamp", &["'infinity'"][..]),
            "mysql" => ("varchar(50)", &["'soon'"][..]),
            _ => ("text", &["'soon'", "cast(1772000000 as integer)", "'01.03.2026'"][..]),
        };
        for (number, wrong) in wrong.iter().enumerate() {
            let table = format!("t{number}");
            let column = if wrong.starts_with("cast") { "blob" } else { kind };
            database.execute(&format!("create table {table} (id integer primary key, at {column})")).await;
            let row = |id: u32, at: &str| format!("insert into {table} values ({id}, {at})");
            database.execute(&row(1, "'2026-03-01 08:00:00'")).await;
            database.execute(&row(2, wrong)).await;
            database.execute(&row(3, "'2026-03-01 09:00:00'")).await;
            let name = format!("{} {wrong}", database.name);
            for (with, expected) in [
                (json!({}), vec!["1", "3"]),
                (json!({"newest": true}), vec!["3"]),
                (json!({"after": "2026-03-01T08:30:00Z"}), vec!["3"]),
                (json!({"after": "2026-03-01T09:30:00Z"}), vec![]),
            ] {
                let (ids, problem) = listed(&database, &table, with.clone()).await;
                assert_eq!(ids, expected, "{name} {with}");
                let problem = problem.unwrap_or_default();
                assert!(
                    problem.contains("rows whose column `at` holds no date or time"),
                    "{name} {with}: {problem}"
                );
            }
            database.execute(&format!("delete from {table} where id = 2")).await;
            let (ids, problem) = listed(&database, &table, json!({"newest": true})).await;
            assert_eq!((ids, problem), (vec!["3".to_owned()], None), "{name}");
        }
    }
}

#[tokio::test]
async fn a_column_that_holds_numbers_is_refused_at_once() {
    for database in Database::all() {
        database.execute("create table t (id integer primary key, at integer)").await;
        database.execute("insert into t values (1, 1772000000)").await;
        for with in [json!({"newest": true}), json!({})] {
            let mut inputs = json!({"table": "t", "id": ["id"], "watermark": "at"});
            inputs.as_object_mut().expect("a map").extend(with.as_object().expect("a map").clone());
            let error = database.fails("listRows", inputs).await;
            assert_eq!(error.kind, ErrorKind::Input, "{}: {error:?}", database.name);
            let words = "the column `at` holds `1772000000`, which is no date or time; name another column, or poll `sql.query`";
            assert!(error.message.contains(words), "{}: {}", database.name, error.message);
        }
    }
}
