use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Checks the statement with placeholders, or the error.
fn check(dialect: Dialect, text: &str, expected: &str) {
    let found = Statement::parse(text, dialect).map(|statement| statement.render(|_, _| 1));
    assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected, "{dialect:?}: {text}");
}

fn check_all(text: &str, [postgres, mysql, sqlite]: [&str; 3]) {
    check(Dialect::Postgres, text, postgres);
    check(Dialect::Mysql, text, mysql);
    check(Dialect::Sqlite, text, sqlite);
}

#[test]
fn a_parameter_is_replaced_and_all_else_stays() {
    let with = |placeholders: [&str; 2]| format!("select {} , x.{} from t", placeholders[0], placeholders[1]);
    let (postgres, others) = (with(["$1", "$2"]), with(["?", "?"]));
    check_all("select :a , x.:b from t", [&postgres, &others, &others]);
    check(Dialect::Postgres, "select :a::int, :a", "select $1::int, $2");
    check(
        Dialect::Postgres,
        "select a[1 : 2], b @> :c, d ? 'e', d ?| f",
        "select a[1 : 2], b @> $1, d ? 'e', d ?| f",
    );
    check(Dialect::Mysql, "select @a := :b, @@c", "select @a := ?, @@c");
}

#[test]
fn texts_names_and_comments_have_no_parameters() {
    check(
        Dialect::Postgres,
        "select ':a', \":b\", 'it''s :c' -- :d\n, /* :e /* :f */ :g */ :h",
        "select ':a', \":b\", 'it''s :c' -- :d\n, /* :e /* :f */ :g */ $1",
    );
    check(Dialect::Postgres, r"select E'\':a', 'b\', :c", r"select E'\':a', 'b\', $1");
    check(Dialect::Postgres, "select $$:a$$, $x$ :b $$ ; $x$, :c", "select $$:a$$, $x$ :b $$ ; $x$, $1");
    check(
        Dialect::Mysql,
        r#"select '\':a', "\":b", `:c`, :d # :e"#,
        r#"select '\':a', "\":b", `:c`, ? # :e"#,
    );
    check(Dialect::Mysql, "select 1--:a", "select 1--?");
    check(Dialect::Mysql, "select 1-- :a", "select 1-- :a");
    check(Dialect::Sqlite, "select [:a], `:b`, '\\', :c", "select [:a], `:b`, '\\', ?");
}

#[test]
fn a_second_statement_is_an_error() {
    check_all("select 1; -- done\n ;", ["select 1"; 3]);
    check_all("select 1; drop table t", ["a second statement begins with `drop table t`"; 3]);
    check_all("select 1; :a", ["a second statement begins with `:a`"; 3]);
    check_all(" -- nothing\n", ["there is no statement"; 3]);
    check(Dialect::Postgres, "select ';'; select 2", "a second statement begins with `select 2`");
}

#[test]
fn a_statement_that_ends_the_transaction_is_an_error() {
    for word in ["commit", "ROLLBACK", "begin", "savepoint a"] {
        let first = word.split(' ').next().unwrap_or_default();
        let expected = format!("`{first}` begins or ends a transaction, which the step does by itself");
        check_all(&format!("/* x */ {word}"), [&expected; 3]);
    }
}

#[test]
fn placeholders_of_the_database_are_errors() {
    let of =
        |sign: &str| format!("`{sign}` is a placeholder of the database; a parameter is written `:name`");
    check(Dialect::Postgres, "select $1", &of("$1"));
    check(Dialect::Mysql, "select ?", &of("?"));
    check(Dialect::Sqlite, "select ?17", &of("?17"));
    check(Dialect::Sqlite, "select @a", &of("@a"));
    check(Dialect::Sqlite, "select $a", &of("$a"));
}

#[test]
fn a_text_or_comment_without_end_is_an_error() {
    for (dialect, text, what) in [
        (Dialect::Postgres, "select 'a", "a text"),
        (Dialect::Postgres, "select \"a", "a quoted name"),
        (Dialect::Postgres, "select /* /* */", "a comment"),
        (Dialect::Postgres, "select $a$ $b$", "a dollar quote"),
        (Dialect::Sqlite, "select [a", "a quoted name"),
        (Dialect::Mysql, r"select 'a\'", "a text"),
    ] {
        check(dialect, text, &format!("{what} is not closed"));
    }
}

#[test]
fn a_list_is_several_values_only_in_the_parentheses_of_in() {
    let lists = |text: &str| {
        let statement = Statement::parse(text, Dialect::Postgres).expect("a statement");
        statement.render(|_, in_list| if in_list { 3 } else { 1 })
    };
    assert_eq!(lists("x in (:a) and y NOT IN ( :b )"), "x in ($1, $2, $3) and y NOT IN ( $4, $5, $6 )");
    assert_eq!(lists("min (:a), x in (:b, :c), y = any(:d)"), "min ($1), x in ($2, $3), y = any($4)");
}

proptest! {
    /// A text that is not a parameter stays byte for byte, for any text.
    #[test]
    fn the_parts_of_a_statement_are_its_text(text in r#"([a-z:;'"`$?@\\\-/*#\[\] \n(),é]|--|/\*|\*/|\$\$|:a|::){0,40}"#) {
        for dialect in Dialect::ALL {
            let Ok(statement) = Statement::parse(&text, dialect) else { continue };
            let parts = statement.pieces().iter().map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Parameter { name, .. } => format!(":{name}"),
            });
            let whole: String = parts.collect();
            prop_assert!(text.starts_with(&whole), "{dialect:?}: {text:?} became {whole:?}");
            let rest = &text[whole.len()..];
            prop_assert!(rest.is_empty() || rest.starts_with(';'));
        }
    }
}
