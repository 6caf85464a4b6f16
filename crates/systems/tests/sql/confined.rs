use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::{Database, json as map};

#[tokio::test]
async fn a_statement_reaches_no_other_file_and_no_extension() {
    let database = Database::sqlite();
    database.execute("create table t (n)").await;
    let other = database.files().join("other.db");
    for sql in [
        format!("attach '{}' as other", other.display()),
        "detach main".to_owned(),
        "pragma journal_mode = off".to_owned(),
        "pragma writable_schema = on".to_owned(),
        "pragma user_version = 7".to_owned(),
        "select load_extension('x')".to_owned(),
        format!("vacuum into '{}'", other.display()),
    ] {
        let error = database.fails("execute", json!({"sql": sql})).await;
        assert!(matches!(error.kind, ErrorKind::Input | ErrorKind::Response), "{sql}: {error:?}");
    }
    assert!(!other.exists());
    assert_eq!(database.rows("select name from pragma_table_info('t')").await, r#"[{"name":"n"}]"#);
}

#[tokio::test]
async fn a_file_outside_of_the_folder_and_a_link_are_refused() {
    let database = Database::sqlite();
    let outside = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(outside.path(), database.files().join("link")).expect("a link");
    std::fs::write(outside.path().join("real.db"), "").expect("a file");
    std::os::unix::fs::symlink(outside.path().join("real.db"), database.files().join("file.db"))
        .expect("a link");
    for file in ["../x.db", "/tmp/x.db", "a/../../x.db", "link/x.db", "file.db", "missing/x.db", "."] {
        let connection = database.connect(&map(json!({"file": file}))).expect("a connection");
        let inputs = map(json!({"sql": "create table t (n)"}));
        let called = database.try_with(&connection, "execute", &inputs, ("", None)).await;
        assert_eq!(called.expect_err(file).kind, ErrorKind::Connection, "{file}");
    }
    let left: Vec<_> = std::fs::read_dir(outside.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let database = Database::sqlite();
    std::fs::write(database.files().join("books.db"), "certainly no database, although of some length")
        .expect("a file");
    let error = database.fails("query", json!({"sql": "select 1 as a"})).await;
    assert_eq!(error.kind, ErrorKind::Connection, "{}", error.message);
}

#[tokio::test]
async fn a_connection_that_only_reads_changes_nothing() {
    for database in Database::all() {
        database.execute("create table t (n integer)").await;
        let mut with = match database.name {
            "sqlite" => map(json!({"file": "books.db"})),
            _ => Database::login(&database.address, crate::database::PASSWORD),
        };
        with.insert("readOnly", true);
        let connection = database.connect(&with).expect("a connection");
        let insert = map(json!({"sql": "insert into t values (1)"}));
        let called = database.try_with(&connection, "execute", &insert, ("", None)).await;
        assert_eq!(called.expect_err("refused").kind, ErrorKind::Connection);
        let query = map(json!({"sql": "select count(*) as n from t"}));
        let result = database.try_with(&connection, "query", &query, ("", None)).await.expect("a result");
        assert_eq!(result.path("row.n"), Some(0.into()), "{}", database.name);
    }
}
