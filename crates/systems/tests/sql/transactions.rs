use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::Database;

async fn with_orders(database: &Database) {
    let id = match database.name {
        "sqlite" => "integer primary key",
        "mysql" => "integer primary key auto_increment",
        _ => "serial primary key",
    };
    database.execute(&format!("create table orders (id {id}, customer text)")).await;
    database.execute("create table items (order_id integer, name text)").await;
}

#[tokio::test]
async fn a_later_statement_reads_the_row_of_an_earlier_one() {
    for database in Database::all() {
        with_orders(&database).await;
        let result = database
            .call(
                "transaction",
                json!({"statements": [
                    {"id": "order", "sql": "insert into orders (customer) values (:c) returning id", "params": {"c": "ada"}},
                    {
                        "sql": "insert into items values (:order, :name)",
                        "from": {"order": {"result": "order", "column": "id"}},
                        "rows": [{"name": "tea"}, {"name": "milk"}],
                        "expect": 2,
                    },
                ]}),
            )
            .await;
        let affected: Vec<_> = (0..2)
            .map(|index| result.get("results").and_then(|all| all.at(index)?.get("affected")))
            .collect();
        assert_eq!(affected, [Some(1.into()), Some(2.into())], "{}", database.name);
        let rows =
            database.rows("select i.name from items i join orders o on o.id = i.order_id order by 1").await;
        assert_eq!(rows, r#"[{"name":"milk"},{"name":"tea"}]"#);
    }
}

#[tokio::test]
async fn a_statement_that_ran_several_times_has_no_row_for_a_later_one() {
    for database in Database::all() {
        with_orders(&database).await;
        let statements = |rows: serde_json::Value| {
            json!({"statements": [
                {"id": "order", "sql": "select :n as n", "rows": rows},
                {"sql": "insert into items values (:order, 'tea')", "from": {"order": {"result": "order", "column": "n"}}},
            ]})
        };
        let error = database.fails("transaction", statements(json!([{"n": 1}, {"n": 2}]))).await;
        assert_eq!(error.kind, ErrorKind::Input, "{}: {}", database.name, error.message);
        let expected = "statement 2: `from.order`: the statement `order` runs 2 times";
        assert!(error.message.starts_with(expected), "{}", error.message);
        assert_eq!(database.rows("select * from items").await, "[]", "{}", database.name);
        database.call("transaction", statements(json!([{"n": 1}]))).await;
    }
}

#[tokio::test]
async fn all_statements_happen_or_none() {
    for database in Database::all() {
        with_orders(&database).await;
        let first = json!({"sql": "insert into orders (customer) values ('ada')"});
        for (second, kind, code) in [
            (json!({"sql": "insert into nowhere values (1)"}), ErrorKind::Response, None),
            (
                json!({"sql": "delete from orders where customer = 'bob'", "expect": 1}),
                ErrorKind::Failed,
                Some("unexpected_count"),
            ),
        ] {
            let error = database.fails("transaction", json!({"statements": [first, second]})).await;
            assert_eq!(error.kind, kind, "{}: {}", database.name, error.message);
            assert!(error.message.starts_with("statement 2: "), "{}", error.message);
            assert!(code.is_none_or(|code| error.code.as_deref() == Some(code)), "{error:?}");
        }
        assert_eq!(database.rows("select * from orders").await, "[]", "{}", database.name);
    }
}

#[tokio::test]
async fn a_statement_that_affects_another_number_of_rows_is_taken_back() {
    for database in Database::all() {
        with_orders(&database).await;
        database.execute("insert into orders (customer) values ('ada'), ('bob')").await;
        let error = database.fails("execute", json!({"sql": "delete from orders", "expect": 1})).await;
        assert_eq!(error.message, "the statement affected 2 rows, and `expect` is 1; nothing was changed");
        assert_eq!(
            database.rows("select count(*) as n from orders").await,
            r#"[{"n":2}]"#,
            "{}",
            database.name
        );
    }
}

#[tokio::test]
async fn the_last_id_is_that_of_an_insert() {
    let database = Database::sqlite();
    with_orders(&database).await;
    let inserted = database.execute("insert into orders (customer) values ('ada')").await;
    assert_eq!(inserted.get("lastId"), Some(1.into()));
    assert_eq!(database.execute("create table other (n)").await.get("affected"), Some(0.into()));
    assert_eq!(
        database.execute("update orders set customer = 'bob'").await.get("lastId"),
        Some(value::Value::Null)
    );
}

#[tokio::test]
async fn transactions_that_collide_are_tried_again() {
    for database in Database::all() {
        database.execute("create table counter (n integer)").await;
        database.execute("insert into counter values (0)").await;
        let one = || {
            database.call(
                "transaction",
                json!({"isolation": "serializable", "statements": [
                    {"id": "now", "sql": "select n + 1 as n from counter"},
                    {"sql": "update counter set n = :n", "from": {"n": {"result": "now", "column": "n"}}},
                ]}),
            )
        };
        futures_util::future::join_all((0..4).map(|_| one())).await;
        assert_eq!(database.rows("select n from counter").await, r#"[{"n":4}]"#, "{}", database.name);
    }
}

#[tokio::test]
async fn data_do_not_choose_what_is_read() {
    let data = json!({"name": {"result": "order", "column": "customer"}});
    for database in Database::all() {
        with_orders(&database).await;
        for values in [json!({"params": data}), json!({"rows": [data]})] {
            let mut second = json!({"sql": "insert into items values (1, :name)"});
            second.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
            let first = "insert into orders (customer) values ('secret') returning id, customer";
            // The value may not fit the column, but is never that of another statement.
            let _ = database
                .try_call("transaction", json!({"statements": [{"id": "order", "sql": first}, second]}))
                .await;
            let read = database.rows("select * from items where name = 'secret'").await;
            assert_eq!(read, "[]", "{}", database.name);
        }
    }
}
