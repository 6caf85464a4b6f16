//! `connections describe` and `prepare`.

use crate::support::Project;

const QUERY: &str = "trigger: {manual: {}}
steps:
  - id: due
    action: sql.query
    connection: shop
    with: {sql: 'select id, email from orders where id = :id', params: {id: 1}}
  - set: {to: '${{ steps.due.results.row.email }}'}
";

const CREATE: &str = "trigger: {manual: {}}
inputs: {sql: {type: text}}
steps:
  - action: sql.execute
    connection: shop
    # cogwork: allow(computed-statement): the test gives it
    with: {sql: '${{ inputs.sql }}'}
";

const TYPES: &str = "connections/shop.types.yaml";

fn project() -> Project {
    let project = Project::with(&[
        ("cogwork.yaml", "filesDir: files\n"),
        ("connections/shop.yaml", "type: sql.sqlite\nwith: {file: shop.db}\n"),
        ("automations/create.yaml", CREATE),
        ("automations/due.yaml", QUERY),
        ("files/.keep", ""),
    ]);
    run(&project, "create table orders (id integer primary key, email text)");
    project
}

fn run(project: &Project, sql: &str) {
    project.cogwork(&["run", "create", "--input", &format!("sql={sql}")]).exits(0);
}

#[test]
fn a_described_row_has_its_columns_and_no_others() {
    let project = project();
    project.cogwork(&["validate"]).exits(0);
    let described = project.cogwork(&["connections", "describe", "shop"]).exits(0);
    assert!(described.stderr.contains("describes 1 statement"), "{}", described.stderr);
    let text = project.read(TYPES);
    assert!(text.contains("sql: \"select id, email from orders where id = :id\""), "{text}");
    assert!(text.contains("      \"email\": \"text\""), "{text}");
    project.cogwork(&["validate"]).exits(0);
    project.write("automations/due.yaml", &QUERY.replace("row.email", "row.emial"));
    let wrong = project.cogwork(&["validate"]).exits(1);
    let said = wrong.stdout + &wrong.stderr;
    assert!(said.contains("unknown-field") && said.contains("emial"), "{said}");
    assert!(said.contains("due.yaml:7") && said.contains("email"), "{said}");
    // Another statement is not described, so its rows may have any columns.
    let other =
        QUERY.replace("select id, email", "select id, email as emial").replace("row.email", "row.emial");
    project.write("automations/due.yaml", &other);
    project.cogwork(&["validate"]).exits(0);
}

#[test]
fn a_changed_database_is_told_and_described_anew() {
    let project = project();
    project.cogwork(&["connections", "describe", "shop"]).exits(0);
    project.cogwork(&["connections", "describe", "shop", "--check"]).exits(0);
    project.cogwork(&["validate", "--live"]).exits(0);
    run(&project, "drop table orders");
    run(&project, "create table orders (id integer primary key, email varchar(20))");
    let before = project.read(TYPES);
    let checked = project.cogwork(&["connections", "describe", "shop", "--check"]).exits(1);
    let checked = checked.says("column `email` was `text` and is `varchar(20)`");
    assert!(checked.stderr.contains("select id, email from orders"), "{}", checked.stderr);
    project.cogwork(&["validate"]).exits(0);
    project.cogwork(&["validate", "--live"]).exits(1).says("shop.types.yaml: column `email` was `text`");
    assert_eq!(project.read(TYPES), before, "nothing is written");
    project.cogwork(&["connections", "describe", "shop"]).exits(0);
    project.cogwork(&["connections", "describe", "shop", "--check"]).exits(0);
    run(&project, "drop table orders");
    let refused = project.cogwork(&["connections", "describe", "shop"]).exits(1);
    refused
        .says("automations/due.yaml, step `due`: the database refused the statement: no such table: orders");
}

#[test]
fn an_error_in_the_description_is_told_at_its_place() {
    let project = project();
    project.write(TYPES, "statements:\n  - sqll: select 1\n");
    let wrong = project.cogwork(&["validate"]).exits(1);
    let said = wrong.stdout + &wrong.stderr;
    assert!(said.contains("shop.types.yaml:2"), "{said}");
}

#[test]
fn the_table_of_once_is_printed_for_each_database() {
    let project = project();
    for (name, kind) in [("pg", "postgres"), ("my", "mysql"), ("shop", "sqlite")] {
        let with = match kind {
            "sqlite" => "{file: shop.db}".to_owned(),
            _ => "{host: db.example.com, database: books, user: cogwork}".to_owned(),
        };
        project.write(&format!("connections/{name}.yaml"), &format!("type: sql.{kind}\nwith: {with}\n"));
        let printed = project.cogwork(&["connections", "prepare", name]);
        if kind == "mysql" && printed.code != Some(0) {
            // The program was built without this database.
            continue;
        }
        let printed = printed.exits(0).stdout;
        assert!(
            printed.starts_with("create table if not exists cogwork_once (") && printed.ends_with(";\n"),
            "{printed}"
        );
        assert!(
            printed
                .lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("-- ") && line.contains("cogwork_once_at"))
        );
    }
    project.cogwork(&["connections", "prepare", "nowhere"]).exits(1);
}
