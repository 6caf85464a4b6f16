//! Files of the repository that are made by the program: each is as the program would make it now.

use std::fs;
use std::path::Path;

/// The variable that has them written anew.
const REGENERATE: &str = "COGWORK_REGENERATE";

fn check(name: &str, made: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(name);
    let text = format!("{}\n", serde_json::to_string_pretty(made).expect("JSON"));
    if std::env::var_os(REGENERATE).is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, &text).expect("written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "schemas/{name} is not fresh; run `{REGENERATE}=1 cargo test -p cli generated`");
}

#[test]
fn the_schemas_are_fresh() {
    check("automation.schema.json", &model::schema::automation());
    check("connection.schema.json", &model::schema::connection());
}
